#!/bin/bash
# Reward models: any ranks, micro-batches and stages give the same losses, and so does a resumed run; the head comes out under its name, and the others stay
# as they were; what has no such form is refused.
. "$(dirname "$0")/../support/runs.sh"

make_tiny_model 4
python3 - <<'RECORDS'
from records import pairs, words, write
write("pairs.jsonl", pairs(24, last=True))
write("others.jsonl", pairs(7, last=True))
write("wrong.jsonl", [{"prompt": "a", "chosen": "b", "rejected": "c", "margin": "1"}])
write("texts.jsonl", [{"text": words(30)} for _ in range(20)])
RECORDS

# A language model, whose head has nothing to do with the rewards.
"$longspan" train --model config.json --data texts.jsonl --seq 64 --batch 2 --steps 3 --threads 1 --out base >out 2>err || fail "a language model"
data=(--data pairs.jsonl --records preference)
job=(--loss reward --seq 96 --batch 8 --threads 1 --ranks-as threads --eval-data others.jsonl --eval-every 3)
train() { "$longspan" train --model base/model "${data[@]}" "${job[@]}" --lr 3e-3 --steps 6 "$@" >out 2>err || fail "longspan train $*: $(cat err)"; }
# A step that changes nothing, and what the evaluation after it finds.
still() {
    rm -rf still
    "$longspan" train --lr 1e-30 --steps 1 --ranks 1 --out still "$@" >out 2>err || fail "longspan train $*: $(cat err)"
    evaluated still
}
evaluated() { losses "$1" | sed -n 's/"eval_loss": *//p' | tail -1; }
fields+='\|reward_chosen\|reward_margin'
least=26
train --ranks 1 --out one
grep -q "no loss by position: the model scores answers" err || fail "scores are taken for losses"
[ ! -e one/loss_by_position.svg ] || fail "scores are drawn as losses"
grep -q "the head of words gives way to one that scores" err || fail "the new head is not said"
grep -q "1 tensors (lm_head.weight) are left out" err || fail "the head that is left out is not named"
python3 - <<'LEARNS' || fail "it does not learn: $(losses one | tr '\n' ' ')"
import json, math
from records import read
lines = read("one/metrics.jsonl")
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
"$longspan" checkpoint inspect x --json >out 2>err || fail "inspect"
grep -q LlamaForSequenceClassification out || fail "inspect does not name the form"
rm -rf x

# A reward model is trained further, with its head; margins, and scores that are held around 0.
python3 - <<'MARGINS'
from records import read, write
write("margins.jsonl", [{**pair, "margin": i / 4} if i % 3 else pair for i, pair in enumerate(read("others.jsonl"))])
MARGINS
further=$(still --model one/model "${data[@]}" "${job[@]}")
grep -q "gives way" err && fail "a head that is there gives way to another"
small=(--model one/model --records preference --loss reward --seq 96 --batch 7 --threads 1 --ranks-as threads)
centred=$(still "${small[@]}" --data others.jsonl --eval-data others.jsonl --center-rewards 0.5)
margins=$(still "${small[@]}" --data margins.jsonl --eval-data margins.jsonl)
grep -q "margin: 4 of 7 pairs have one; that of the others is 0" err || fail "margins that are missing are not counted"
still --model base/model --data margins.jsonl --records preference --loss dpo --seq 96 --threads 1 >evaluation
grep -q "margin: 4 of 7 pairs have one, which --loss dpo does not read" err || fail "margins that are not read are not counted"

# An adapter trains the head, too, and is peft's of a sequence classification; it goes on where it stopped, and merged it is a reward model.
train --lora r=4,alpha=8 --ranks 1 --out lora
for place in "--mesh ring=2,dp=2 --accumulate 2 --shard parameters" "--mesh tp=2"; do
    # shellcheck disable=SC2086 # options
    train --lora r=4,alpha=8 --out y $place
    same lora y
    rm -rf y
done
train --lora r=4,alpha=8 --out y --max-seconds 1e-9
train --lora r=4,alpha=8 --out y --resume --max-seconds 1e6
same lora y
"$longspan" checkpoint export y --merge --dtype f32 --out merged >out 2>err || fail "an adapter of a reward model is not merged: $(cat err)"
again=$(still --model merged "${data[@]}" "${job[@]}")
again+=" $(still --model base/model --adapter lora/adapter "${data[@]}" "${job[@]}")"
again+=" $(still --model lora/adapter "${data[@]}" "${job[@]}")"
python3 - "$(evaluated one) $further $centred $margins" "$(evaluated lora) $again" <<'ADAPTER' || fail "evaluations: of the model $(evaluated one), again $further, centred $centred, margins $margins; of the adapter $(evaluated lora), again $again"
import json, sys
plain, further, centred, margins = map(float, sys.argv[1].split())
assert abs(plain - further) < 1e-6 and centred > plain + 1e-3 and margins > plain + 0.05
lora, *again = map(float, sys.argv[2].split())
assert len(again) == 3 and all(abs(found - lora) < 1e-6 for found in again)
config = json.load(open("lora/adapter/adapter_config.json"))
assert config["task_type"] == "SEQ_CLS" and config["modules_to_save"] == ["score"] and "score" not in config["target_modules"], config
data = open("lora/adapter/adapter_model.safetensors", "rb").read()
header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
assert "base_model.model.score.weight" in header and len(header) == 2 + 4 * 7 * 2, sorted(header)
assert json.load(open("merged/config.json"))["architectures"] == ["LlamaForSequenceClassification"]
ADAPTER

"$longspan" train --model base/model --data texts.jsonl --seq 64 --steps 1 --threads 1 --lora r=2 --out words >out 2>err || fail "an adapter of a language model"
refused "no tensor score.weight" train --model base/model "${data[@]}" "${job[@]}" --adapter words/adapter --out no
refused "--model is an adapter of a language model" train --model words/adapter "${data[@]}" "${job[@]}" --out no
refused "LlamaForSequenceClassification scores texts, and predicts no words" eval --model base/model --adapter lora/adapter --data texts.jsonl --seq 32
refused "LlamaForSequenceClassification scores texts, and predicts no words" train --model one/model --data texts.jsonl --seq 32 --steps 1 --out no
sed 's/"id2label": {"0": "LABEL_0"}/"id2label": {"0": "A", "1": "B"}/' one/model/config.json >labels.json
refused 'id2label is an object, expected one label' train --model labels.json "${data[@]}" "${job[@]}" --out no
refused 'margin is "1"' train --model base/model --data wrong.jsonl --records preference --loss reward --seq 96 --steps 1 --out no
refused "expected --records preference" train --model base/model "${job[@]}" --records text --data texts.jsonl --out no
refused "LlamaForSequenceClassification" eval --model one/model --data texts.jsonl --seq 32
sed 's/LlamaForCausalLM/GraniteForCausalLM/; s/"model_type": *"llama"/"model_type": "granite"/' config.json >granite.json
refused "GraniteForCausalLM has no form with a head that scores" train --model granite.json "${data[@]}" "${job[@]}" --out no
echo ok
