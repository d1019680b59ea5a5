#!/bin/bash
# longspan train --resume: what it compares with the run, which checkpoint it falls back to, and which damage it
# skips.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
make_lines 200 >text.txt
base=(train --model config.json --seq 32 --threads 1 --lr 0.01)
[ "${LS_TEST_SANITIZER:-}" = thread ] && base+=(--ranks-as threads)
run() { "$longspan" "${base[@]}" --data text.txt "$@" >out.txt 2>err || fail "train $*: $(cat err)"; }

# An undisturbed run, and its state after 6 of 8 steps, which is then damaged in several ways.
run --out whole --steps 8 --save-every 2 --keep 0 --schedule constant
run --out six --steps 6 --save-every 2 --keep 0 --schedule constant
again() { rm -rf now && cp -a six now; }
newest=now/checkpoint-00000006

# Another text, a text with the same tokens in another order, and an edited seed are refused.
again
sed 's/line 150/lime 150/' text.txt >other.txt
tac text.txt >turned.txt
for text in other turned; do
    "$longspan" "${base[@]}" --out now --steps 8 --resume --data $text.txt >out.txt 2>err && fail "$text.txt was taken"
    grep -q -- '--data is not the text of now/run.json' err || fail "$text.txt: $(cat err)"
done
grep -q 'as many tokens, but of other content' err || fail "the same counts: $(cat err)"
sed -i 's/"seed": [0-9]*/"seed": 41/' now/run.json
"$longspan" "${base[@]}" --out now --steps 8 --resume --data text.txt >out.txt 2>err && fail "an edited seed was taken"
grep -q 'now/run.json: seed is 41, but now/checkpoint-00000006 was trained with' err || fail "edited seed: $(cat err)"
[ -d now/checkpoint-00000006 ] && [ ! -e now/checkpoint-00000008 ] || fail "a refused run changed the folder"

# The newest checkpoint is damaged, empty, or a file: the one before it is used, and the run ends with the same bits.
flip() { python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(-5, 2); b = f.read(1); f.seek(-5, 2); f.write(bytes([b[0] ^ 4]))' "$1"; }
for damage in "flip $newest/optimizer.safetensors" "flip $newest/model.safetensors" "truncate -s 100 $newest/state.json" "rm $newest/model.safetensors" \
    "rm $newest/state.json $newest/config.json $newest/model.safetensors $newest/optimizer.safetensors" "rm -r $newest; touch $newest"; do
    again
    eval "$damage"
    run --out now --steps 8 --resume
    grep -q "warning: .*$newest.*; looking for an older checkpoint" err || fail "$damage is not told: $(cat err)"
    grep -q 'resuming after step 4 from now/checkpoint-00000004' err || fail "$damage: $(cat err)"
    for step in 6 8; do
        for file in model optimizer; do
            cmp whole/checkpoint-0000000$step/$file.safetensors now/checkpoint-0000000$step/$file.safetensors || fail "$damage: step $step is another"
        done
    done
done
# No checkpoint is usable: the error gives the reason for the newest.
again
for step in 2 4 6; do flip now/checkpoint-0000000$step/model.safetensors; done
"$longspan" "${base[@]}" --out now --steps 8 --resume --data text.txt >out.txt 2>err && fail "a damaged checkpoint was taken"
tail -1 err | grep -q "$newest/model.safetensors: corrupted" || fail "all are damaged: $(cat err)"

# Invalid lines of metrics.jsonl stay where they are and do not disturb the run.
again
sed -i '3s/.*/\x01 no line of metrics/' now/metrics.jsonl
printf '{"step": 7, "lo' >>now/metrics.jsonl
run --out now --steps 8 --resume
grep -q 'warning: now/metrics.jsonl line 3 is no record of a step' err || fail "a strange line: $(cat err)"
[ "$(sed -n 3p now/metrics.jsonl | tail -c +2)" = " no line of metrics" ] && [ "$(wc -l <now/metrics.jsonl)" -eq 8 ] || fail "lines: $(cat now/metrics.jsonl)"
grep -q 'polyline\|path' now/loss.svg || fail "no curve beside a strange line"
cmp whole/checkpoint-00000008/model.safetensors now/checkpoint-00000008/model.safetensors || fail "a strange line changes the run"
echo ok
