#!/bin/bash
# Reward models: any ranks, micro-batches and stages give the same losses, and so does a resumed run; the head comes out under its name, and the others stay
# as they were; what has no such form is refused.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 4/' config.json
python3 - <<'RECORDS'
import json, random
random.seed(3)
words = lambda n: " ".join("".join(random.choice("abcdefgh") for _ in range(random.randint(2, 5))) for _ in range(n))
for name, n in ("pairs", 24), ("others", 7):
    with open(name + ".jsonl", "w") as out:
        for i in range(n):
            json.dump({"prompt": words(3) + ":", "chosen": words(random.randint(1, 4)) + " good", "rejected": words(random.randint(1, 4)) + " bad"}, out)
            out.write("\n")
open("texts.jsonl", "w").write("".join(json.dumps({"text": words(30)}) + "\n" for _ in range(20)))
RECORDS

# A language model, whose head has nothing to do with the rewards.
"$longspan" train --model config.json --data texts.jsonl --seq 64 --batch 2 --steps 3 --threads 1 --out base >out 2>err || fail "a language model"
data=(--data pairs.jsonl --records preference)
job=(--loss reward --seq 96 --batch 8 --threads 1 --ranks-as threads --lr 3e-3 --steps 6 --eval-data others.jsonl --eval-every 3)
train() { "$longspan" train --model base/model "${data[@]}" "${job[@]}" "$@" >out 2>err || fail "longspan train $*"; }
losses() { grep -o '"\(loss\|eval_loss\|grad_norm\|reward_chosen\|reward_margin\)": *[-0-9.e]*' "$1/metrics.jsonl"; }
# same A B: the numbers of two runs, within a few millionths of one.
same() {
    paste <(losses "$1") <(losses "$2") | awk -F'[:\t]' '{ d = $2 - $4; if (d < 0) d = -d; n++; s = $2 < 0 ? -$2 : $2; if ($1 != $3 || d > 3e-6 * (s > 1 ? s : 1)) bad = 1 } END { exit bad || n < 26 }' ||
        fail "$1 and $2 differ: $(losses "$1" | tr '\n' ' ') and $(losses "$2" | tr '\n' ' ')"
}
train --ranks 1 --out one
grep -q "no loss by position: the model scores answers" err || fail "scores are taken for losses"
[ ! -e one/loss_by_position.svg ] || fail "scores are drawn as losses"
grep -q "the head of words gives way to one that scores" err || fail "the new head is not said"
grep -q "1 tensors (lm_head.weight) are left out" err || fail "the head that is left out is not named"
python3 - <<'LEARNS' || fail "it does not learn: $(losses one | tr '\n' ' ')"
import json, math, struct
lines = [json.loads(line) for line in open("one/metrics.jsonl")]
assert 0 < abs(lines[0]["loss"] - math.log(2)) < 0.2 and lines[-1]["loss"] < lines[0]["loss"] and lines[-1]["reward_margin"] > lines[0]["reward_margin"], lines
assert all(line["pairs"] >= 8 and line["tokens"] == 2 * line["pairs"] for line in lines)
config = json.load(open("one/model/config.json"))
assert config["architectures"] == ["LlamaForSequenceClassification"] and config["id2label"] == {"0": "LABEL_0"}, config
data = open("one/model/model.safetensors", "rb").read()
header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
assert header["score.weight"]["shape"] == [1, config["hidden_size"]] and "lm_head.weight" not in header, header
LEARNS
for place in "--ranks 2" "--ranks 4 --mesh ring=4 --accumulate 2" "--mesh dp=2,tp=2 --shard parameters" "--mesh pp=2 --accumulate 4" "--mesh ulysses=2 --accumulate 8 --recompute all --tile all"; do
    # shellcheck disable=SC2086 # options
    train --out x $place
    same one x
    rm -rf x
done
train --out x --max-seconds 1e-9
train --out x --resume --max-seconds 1e6
same one x
"$longspan" checkpoint export x --out exported >out 2>err || fail "export"
cmp exported/model.safetensors x/model/model.safetensors || fail "an export has other bytes"

refused() {
    local words=$1
    shift
    "$longspan" "$@" >out 2>err && fail "longspan $*: expected a failure with '$words'"
    tail -1 err | grep -qF -- "$words" || fail "longspan $*: expected '$words' in: $(tail -1 err)"
}
refused "trained with the whole model; expected no adapter" train --model base/model "${data[@]}" "${job[@]}" --lora r=2 --out no
refused "expected --records preference" train --model base/model "${job[@]}" --records text --data texts.jsonl --out no
refused "LlamaForSequenceClassification" eval --model one/model --data texts.jsonl --seq 32
sed 's/LlamaForCausalLM/GraniteForCausalLM/; s/"model_type": *"llama"/"model_type": "granite"/' config.json >granite.json
refused "GraniteForCausalLM has no form with a head that scores" train --model granite.json "${data[@]}" "${job[@]}" --out no
echo ok
