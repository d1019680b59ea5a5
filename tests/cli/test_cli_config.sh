#!/bin/bash
# Settings from a file: JSON, YAML and the run.json of an earlier training give the run of the same flags; flags overrule them; what is wrong is refused by
# file, key and value, and what is left out is said.
. "$(dirname "$0")/../support/cli.sh"
train() { "$longspan" train "$@" >out 2>err || fail "longspan train $*: $(tail -3 err)"; }
losses() { grep -o '"loss": *[0-9.]*' "$1/metrics.jsonl"; }

make_tiny_model
make_lines 60 >a.txt
make_lines 70 >b.txt
train --model config.json --data a.txt b.txt --seq 24 --batch 2 --lr 3e-3 --steps 3 --keep-best --eval-data a.txt --group '*norm*:frozen' --save-every 0 --out flags
cat >settings.json <<'JSON'
{"model": "config.json", "data": ["a.txt", "b.txt"], "seq": 24, "batch": "2", "lr": 0.003, "steps": 3, "keep_best": true, "eval-data": "a.txt",
 "group": ["*norm*:frozen"], "save_every": 0, "clip": null, "nesterov": false}
JSON
cat >settings.yaml <<'YAML'
# the same
model: config.json
data:
  - a.txt
  - "b.txt"
seq: 24
batch: 2
lr: 3e-3
steps: 3
keep_best: True
eval-data: a.txt
group: ['*norm*:frozen']
save_every: 0
clip: ~
YAML
for file in settings.json settings.yaml flags/run.json; do
    train --config $file --out run
    [ "$(losses run)" = "$(losses flags)" ] || fail "$file gives other losses"
    python3 - <<'SAME' || fail "$file gives other settings"
import json
a, b = (json.load(open(name + "/run.json")) for name in ("flags", "run"))
assert a["settings"] == b["settings"] and a["data"] == b["data"] and a["options"].keys() == b["options"].keys()
assert a["options"]["data"] == ["a.txt", "b.txt"] and a["options"]["keep-best"] is True and "out" not in a["options"]
SAME
    rm -rf run
done

# Flags overrule, and it is said; a resumed run keeps what it was begun with.
train --config settings.yaml --out run --steps 2 --lr=1e-3
grep -qF "settings of settings.yaml: 8; given by flags: lr, steps" err || fail "what flags overrule is not said"
train --out run --resume --config run/run.json --steps 4
python3 -c 'import json; o = json.load(open("run/run.json"))["options"]; assert o["steps"] == "4" and o["lr"] == "1e-3" and o["seq"] == "24", o' || fail "options of a resumed run"
"$longspan" plan --config settings.json --ranks 2 >out 2>err || fail "plan: $(tail -3 err)"
grep -qF "left out, as they are of train alone: data, lr, steps, keep-best, eval-data, group, save-every, clip, nesterov" err || fail "what plan leaves out is not said"
grep -q "2 ranks\|ring 2\|dp 2" out || fail "plan has no two ranks"

refused() {
    local words=$1 file=$2
    cat >"$file"
    "$longspan" train --config "$file" --out x >out 2>err && fail "$(cat "$file"): expected a failure with '$words'"
    tail -1 err | grep -qF -- "$words" || fail "expected '$words' in: $(tail -1 err)"
}
refused "s.json: unknown option --sequence; did you mean --seq?" s.json <<<'{"sequence": 3}'
refused "s.json: unknown option --learning-rate; did you mean --lr?" s.json <<<'{"learning_rate": 3}'
refused "s.json: --seq is 'long'; expected an integer" s.json <<<'{"seq": "long"}'
refused "s.json: --save-every is given twice" s.json <<<'{"save-every": 3, "save_every": 4}'
refused "s.json: keep_best is 1, expected true or false" s.json <<<'{"keep_best": 1}'
refused "s.json: lr is an array of 1, expected a text or a number for --lr" s.json <<<'{"lr": [1]}'
refused "s.json: data[1] is \"--x\", expected texts or numbers" s.json <<<'{"data": ["a", "--x"]}'
refused "s.json: unknown option --config in a file of settings" s.json <<<'{"config": "s.json"}'
refused "s.json: " s.json <<<'[1]'
refused "options is missing" s.json <<<'{"version": "0.1.0", "settings": {}}'
refused "s.yaml: line 1, column 4: an anchor" s.yaml <<<'a: &x 1'
refused "s.yaml: line 2, column 4: an alias" s.yaml < <(printf 'a: 1\nb: *x\n')
refused "s.yaml: line 1, column 4: a tag" s.yaml <<<'a: !!str 1'
refused "s.yaml: line 3, column 1: a second document" s.yaml < <(printf 'seq: 1\n\n--- {}\n')
refused "s.yaml: line 1, column 3: a key that is a list" s.yaml <<<'? [a, b]
: 1'
refused "s.yaml" s.yaml <<<'seq: [1'
refused "lists and mappings nest too deeply" s.yaml < <(printf '%0.s[' {1..5000})
echo ok
