#!/bin/bash
# longspan train as a command: flags reach the run, --help shows the defaults that a run uses; results and refusals.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
make_lines 400 >text.txt
base=(--model config.json --data text.txt --seq 32 --threads 1)
quiet=${LS_TEST_SANITIZER:-}
[ "$quiet" = thread ] && base+=(--ranks-as threads)

# The defaults in --help are those that a run without these flags records.
"$longspan" train "${base[@]}" --out plain --steps 3 --json >out.json 2>err || fail "train: $(cat err)"
"$longspan" train --help >help.txt
python3 - <<'CHECK' || fail "the result or the defaults"
import json, re
result, run = json.load(open("out.json")), json.load(open("plain/run.json"))
assert result["steps"] == 3 and result["strategy"] == "local" and not result["interrupted"], result
assert result["first_loss"] > 5 and result["eval_loss"] is None and result["checkpoint"], result
text = re.sub(r"\n {20,}", " ", open("help.txt").read())
shown = dict(re.findall(r"--([a-z0-9-]+) [A-Z]+ .*default ([^)]+)\)", text))
settings = run["settings"]
assert shown["save-every"] == "15m" and settings["save_seconds"] == 15 * 60 and settings["save_every"] == 0, settings
checked = [n for n in settings if n.replace("_", "-") in shown and n not in ("seq", "steps", "save_every")]
assert len(checked) >= 9, shown
for name in checked:
    text, value = shown[name.replace("_", "-")], settings[name]
    assert value == text or float(value) == float(text), (name, value, text)
CHECK

# Defaults of the optimiser are its own; what it does not have is refused.
grep -q 'beta2 X .*of adamw and muon (0.95 when left out) and lion' <(tr -s ' \n' ' ' <help.txt) || fail "--help of --beta2"
for case in "adamw 0.9 0.95 1e-08 0.1 0" "sgd 0 0 0 0 0.9" "lion 0.9 0.99 0 0.1 0" "muon 0.9 0.95 1e-08 0.1 0.95"; do
    read -r name beta1 beta2 eps decay momentum <<<"$case"
    "$longspan" train "${base[@]}" --out "by-$name" --steps 1 --optimizer "$name" >out.txt 2>err || fail "train: $(cat err)"
    json "(s := d['settings'])['optimizer'] == '$name' and (s['beta1'], s['beta2'], s['eps'], s['weight_decay'],
        s['momentum']) == ($beta1, $beta2, $eps, $decay, $momentum) and not s['nesterov']" "by-$name/run.json"
done
expect 2 "--momentum: optimizer adamw does not have it; expected only with sgd, muon" train "${base[@]}" --out x --momentum 0.9
expect 2 "--beta1: optimizer sgd does not have it" train "${base[@]}" --out x --optimizer sgd --beta1 0.9
expect 2 "--eps: optimizer lion does not have it" train "${base[@]}" --out x --optimizer lion --eps 1e-9
expect 2 "--nesterov: optimizer lion" train "${base[@]}" --out by-lion --resume --nesterov
expect 2 "--optimizer sgd contradicts" train "${base[@]}" --out by-lion --resume --optimizer sgd
expect 2 "--optimizer" train "${base[@]}" --out x --optimizer adam
"$longspan" train "${base[@]}" --out nesterov --steps 1 --optimizer sgd --momentum 0 --nesterov >out.txt 2>err || fail "train: $(cat err)"
json "d['settings']['momentum'] == 0 and d['settings']['nesterov']" nesterov/run.json

# Muon's exceptions by name, which run.json records; what cannot be a matrix is refused.
"$longspan" train "${base[@]}" --out exceptions --steps 2 --ranks 2 --optimizer muon --group '*q_proj*:optimizer=adamw' \
    >out.txt 2>err || fail "train: $(cat err)"
json "[all('q_proj' in n for n in p['names']) for p in d['parameters'] if p.get('optimizer') == 'adamw'] == [True]" exceptions/run.json
for case in "*norm*:optimizer=muon|optimizer muon is for matrices, but" "*:optimizer=lion|PATTERN:optimizer=muon|adamw"; do
    status=0
    "$longspan" train "${base[@]}" --out x --optimizer muon --group "${case%%|*}" >out 2>err || status=$?
    [ $status -eq 2 ] && grep -qF -- "${case#*|}" err || fail "--group ${case%%|*}: exit $status: $(cat err)"
done

# The displayed time left ends at --max-seconds, not after a million steps.
"$longspan" train "${base[@]}" --out limited --steps 1000000 --max-seconds 2 >out.txt 2>err || fail "train: $(cat err)"
grep -q 'training [0-9]*/1000000 .* · 0:0[0-2] left' err || fail "the time left: $(grep training err)"
grep -q 'left' err && ! grep 'left' err | grep -qv ' 0:0[0-2] left' || fail "the time left: $(grep left err)"

# Every kind of flag reaches the run, and zeros turn features off as documented.
"$longspan" train "${base[@]}" --out given --steps 2 --ranks 2 --strategy ring --layout contiguous --batch 4 --accumulate 2 \
    --lr 0.01 --warmup 1 --schedule constant --beta1 0.8 --clip 0 --weight-decay 0 --seed 7 --eval-data text.txt \
    --eval-every 1 >out.txt 2>err || fail "train: $(cat err)"
grep -q 'evaluation' out.txt && grep -q 'given/loss.svg' out.txt || fail "summary: $(cat out.txt)"
python3 - <<'CHECK' || fail "flags in run.json"
import json
run = json.load(open("given/run.json"))
s, spread = run["settings"], run["spread"]
want = dict(batch=4, accumulate=2, lr=0.01, warmup=1, schedule="constant", beta1=0.8, seed=7, eval_every=1)
assert all(s[k] == v for k, v in want.items()), s
assert s["clip"] <= 0 and s["weight_decay"] <= 0, s
assert (spread["ranks"], spread["strategy"], spread["layout"]) == (2, "ring", "contiguous"), spread
CHECK

# --save-every is a number of steps or a time; on resume it overrules the run's setting; mistakes are reported.
for case in "7 7 0" "2h 0 7200" "90s 0 90" "0 0 0" "5 5 0"; do
    read -r flag steps seconds <<<"$case"
    resume=; [ -d every ] && resume=--resume
    "$longspan" train "${base[@]}" --out every --steps 2 --save-every "$flag" $resume >out.txt 2>err || fail "train: $(cat err)"
    json "(d['settings']['save_every'], d['settings']['save_seconds']) == ($steps, $seconds)" every/run.json
done
"$longspan" train "${base[@]}" --out every --steps 2 --resume >out.txt 2>err || fail "train: $(cat err)"
json "(d['settings']['save_every'], d['settings']['save_seconds']) == (5, 0)" every/run.json
for bad in m 5d 1.5m 15mm -3 "" 1000000000000000; do
    expect 2 "--save-every" train "${base[@]}" --out x "--save-every=$bad"
done

# --resume needs no repeated flags and refuses contradicting ones.
"$longspan" train "${base[@]}" --out given --steps 4 --eval-data text.txt --resume --json >out.json 2>err || fail "resume: $(cat err)"
python3 -c 'import json; d = json.load(open("out.json")); assert d["steps"] == 4 and d["strategy"] == "ring", d'
expect 2 "--lr 0.5 contradicts" train "${base[@]}" --out given --eval-data text.txt --resume --lr 0.5
expect 2 "--accumulate 2" train "${base[@]}" --out x --batch 3 --accumulate 2
expect 2 "--data needs at least one PATH" train --model config.json --data --out x
expect 2 "--out DIR is required" train "${base[@]}"
expect 2 "--eval-data" train "${base[@]}" --out x --eval-every 1
for arguments in "--out absent --resume" "--out x --data absent.txt --seq 8" "--out text.txt/x"; do
    status=0
    # shellcheck disable=SC2086
    "$longspan" train --model config.json $([[ $arguments == *--data* ]] || echo --data text.txt) $arguments >out 2>err || status=$?
    [ $status -eq 1 ] || [ $status -eq 2 ] || fail "train $arguments: exit $status"
    [ "$(grep -c . err)" -ge 1 ] && [ ! -s out ] || fail "train $arguments: $(cat err out)"
done
echo ok
