#!/bin/bash
# Options of the loss of tokens, and kto: any ranks and micro-batches give the same losses and norms, and so does a resumed run; noise is in steps alone;
# steps by weights of the caller's have the gradient of the loss that they are of; what does not go together is refused.
. "$(dirname "$0")/../support/runs.sh"

make_tiny_model
python3 - <<'RECORDS'
from records import completions, random, words, write
def judged(n):
    for _ in range(n):
        wanted = random.random() < 0.4
        yield {"prompt": words(2) + ":", "completion": (" good " if wanted else " bad ") + words(random.randint(1, 3)), "label": wanted}
write("texts.jsonl", completions(40))
write("judged.jsonl", judged(26))
write("others.jsonl", judged(5))
write("one.jsonl", [{"prompt": "a", "completion": "b", "label": True}])
RECORDS
model=(--model config.json)
lr=3e-3
loss=()
job=(--data texts.jsonl --records completion --seq 64 --batch 8 --threads 1 --ranks-as threads --steps 4 --eval-data texts.jsonl --eval-every 2 --eval-sequences 4)
train() { "$longspan" train "${model[@]}" "${job[@]}" "${loss[@]}" --lr "$lr" "$@" >out 2>err || fail "longspan train $*"; }
fields+='\|divergence'
least=10
first() { losses "$1" | grep -m 1 "\"$2\"" | sed 's/.*: *//'; }

train --out plain --ranks 1
train --out smoothed --ranks 1 --label-smoothing 0.1
train --out squared --ranks 1 --z-loss 1e-2
all=(--label-smoothing 0.1 --z-loss 1e-2 --neftune 5)
train --out all --ranks 1 "${all[@]}"
for place in "--ranks 2" "--ranks 4 --mesh ring=4 --accumulate 2" "--mesh dp=2,tp=2 --shard parameters" "--mesh ulysses=2 --accumulate 8 --recompute all --tile all" "--mesh pp=2 --accumulate 4"; do
    # shellcheck disable=SC2086 # options
    train --out x $place "${all[@]}"
    same all x
    rm -rf x
done
train --out x --max-seconds 1e-9 "${all[@]}"
train --out x --resume --max-seconds 1e6
same all x
rm -rf x

# The random model's logits are small: all words have about the same probability, so smoothing changes little and (log Z)^2 is that of 260 words or so.
python3 - "$(first plain loss)" "$(first smoothed loss)" "$(first squared loss)" <<'SIZES' || fail "the terms have another size"
import math, sys
plain, smoothed, squared = map(float, sys.argv[1:])
assert 0 < abs(smoothed - plain) < 0.05, (smoothed, plain)
assert abs(squared - plain - 1e-2 * math.log(260) ** 2) < 0.05, (squared, plain)
SIZES

# Without a step to speak of, noise changes the loss of steps, another seed's noise again, and no evaluation.
lr=1e-30
train --out still --ranks 1
train --out noisy --ranks 2 --neftune 50
[ "$(losses still | grep -c eval_loss)" = 2 ] || fail "no evaluations"
cmp -s <(losses still | grep eval_loss | cut -c1-20) <(losses noisy | grep eval_loss | cut -c1-20) || fail "noise in an evaluation"
[ "$(first still loss | cut -c1-7)" != "$(first noisy loss | cut -c1-7)" ] || fail "no noise in a step"
rm -rf still noisy

# kto.
lr=3e-3
job=(--data judged.jsonl --records label --seq 96 --batch 6 --threads 1 --ranks-as threads --steps 4 --eval-data others.jsonl --eval-every 3)
loss=(--loss kto --undesirable-weight 0.7)
train --out kto --ranks 1
python3 - <<'LEARNS' || fail "kto does not learn: $(losses kto | tr '\n' ' ')"
from records import read
lines = read("kto/metrics.jsonl")
assert lines[0]["divergence"] == 0 and 0.35 <= lines[0]["loss"] <= 0.5 and all(line["pairs"] >= 6 for line in lines), lines
assert lines[-1]["loss"] < lines[0]["loss"] and lines[-1]["reward_margin"] > 0 and "reward_accuracy" not in lines[0], lines
LEARNS
for place in "--ranks 2" "--ranks 4 --mesh ring=4 --accumulate 2" "--mesh dp=2,tp=2 --shard parameters" "--mesh ulysses=2 --accumulate 6"; do
    # shellcheck disable=SC2086 # options
    train --out x $place
    same kto x
    rm -rf x
done
# Answers to other prompts are no answers of the records.
"$longspan" logprobs --model kto/model --threads 1 --records label --data judged.jsonl --seq 96 --out judged.out >out 2>err || fail "longspan logprobs"
python3 - <<'CHECK' || fail "log-probabilities of judged answers"
from records import read
records, found = read("judged.jsonl"), read("judged.out")
assert [d["document"] for d in found] == list(range(26)) and [d["chosen"] for d in found] == [r["label"] for r in records], found
CHECK

# Weights of the caller's: those of a mean give the loss and the gradients of a mean; log-probabilities are those of the losses.
python3 - <<'ARRAYS'
import os, random, struct
random.seed(1)
def npy(path, kind, values):
    head = "{'descr': '<%s', 'fortran_order': False, 'shape': (4, 32), }" % kind
    open(path, "wb").write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n" + struct.pack("<128" + {"i4": "i", "f8": "d"}[kind], *values))
os.mkdir("batch")
labels = [random.randrange(200) if random.random() < 0.6 else -100 for _ in range(128)]
npy("batch/tokens.npy", "i4", [random.randrange(200) for _ in range(128)])
npy("batch/labels.npy", "i4", labels)
n = sum(label != -100 for label in labels)
npy("batch/weights.npy", "f8", [1 / n] * 128)
ARRAYS
steps() { "$longspan" steps --model kto/model --batch 4 --seq 32 --threads 1 --ranks-as threads --optimizer none "$@" 2>err; }
printf 'grad batch\n' | steps >plain.txt || fail "steps"
mv batch/gradients.safetensors plain.gradients
for place in "--ranks 1" "--ranks 2" "--mesh ring=2,dp=2 --accumulate 2" "--mesh tp=2 --accumulate 4"; do
    # shellcheck disable=SC2086 # options
    printf 'logprobs batch\ngrad batch\nlogprobs batch\ngrad batch\n' | steps --weighted $place >steps.txt || fail "steps --weighted $place"
    python3 - <<'CHECK' || fail "weights of the caller's, $place: $(cat plain.txt steps.txt)"
import json, math, struct
from records import read
plain = read("plain.txt")[1]["loss"]
ready, _, once, _, again = read("steps.txt")
logprobs = struct.unpack("<128f", open("batch/logprobs.npy", "rb").read()[-512:])
labels = struct.unpack("<128i", open("batch/labels.npy", "rb").read()[-512:])
n = sum(label != -100 for label in labels)
assert all((x < 0) == (label != -100) for x, label in zip(logprobs, labels))
for loss in once["loss"], again["loss"], -sum(logprobs) / n:
    assert abs(loss - plain) < 1e-6 * plain, (loss, plain)
def tensors(path):
    data = open(path, "rb").read()
    size = int.from_bytes(data[:8], "little")
    for name, t in json.loads(data[8:8 + size]).items():
        if name[0] != "_":
            a, b = t["data_offsets"]
            yield name, struct.unpack(f"<{(b - a) // 4}f", data[8 + size + a:8 + size + b])
for (name, a), (_, b) in zip(tensors("plain.gradients"), tensors("batch/gradients.safetensors")):
    assert math.dist(a, b) <= 1e-6 * math.hypot(*a) and math.hypot(*a) > 0, name
CHECK
done

refused "--z-loss with --loss kto; expected --loss sft" train "${model[@]}" "${job[@]}" "${loss[@]}" --z-loss 1 --out no
refused "--label-smoothing is '1.5'; expected a finite number from 0 to 1" train "${model[@]}" --data texts.jsonl --label-smoothing 1.5 --out no
refused "--data: --loss dpo compares pairs of answers; expected --records preference" train "${model[@]}" "${job[@]}" --loss dpo --out no
refused "--data: answers that are judged, and --loss sft learns tokens; expected a loss that judges, kto" train "${model[@]}" "${job[@]}" --loss sft --out no
refused "--loss kto judges answers; expected --records label, packed as pairs" train "${model[@]}" --data texts.jsonl --records completion --loss kto --seq 32 --out no
refused "--records label: 1 records; expected two at least" train "${model[@]}" --data one.jsonl --records label --loss kto --seq 32 --out no
refused "--label-smoothing 0.2 contradicts all/run.json" train "${model[@]}" --data texts.jsonl --records completion --out all --resume --label-smoothing 0.2
echo 'logprobs batch' | steps >/dev/null && fail "logprobs without weights"
grep -q "expected it with --weighted alone" err || fail "logprobs without weights"
echo 'grad batch' | steps --weighted --teacher 2 >/dev/null && fail "two losses"
grep -q -- "--weighted and --teacher: both say what the loss is" err || fail "two losses"
rm batch/weights.npy
echo 'grad batch' | steps --weighted >/dev/null && fail "a step without weights"
grep -q 'cannot open batch/weights.npy' err || fail "a step without weights is not explained"
echo ok
