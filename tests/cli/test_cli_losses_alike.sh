#!/bin/bash
# Each loss has one value, and one gradient to a millionth of its norm, on any ranks and in unequal micro-batches. The momentum of gradient descent after one
# step is the gradient.
. "$(dirname "$0")/../support/runs.sh"

make_tiny_model
python3 - <<'RECORDS'
from records import pairs, write
made = pairs(8, longest=9)
write("preference.jsonl", made)
write("completion.jsonl", [{"prompt": pair["prompt"], "completion": pair["chosen"]} for pair in made])
write("label.jsonl", [{"prompt": pair["prompt"], "completion": pair["rejected"], "label": i % 3 == 0} for i, pair in enumerate(made)])
RECORDS
# A model that has learnt something, so that its answers have unlike losses.
"$longspan" train --model config.json --data completion.jsonl --records completion --seq 128 --steps 8 --lr 3e-2 --threads 1 --out base >out 2>err || fail "a model"
# Where the head knows nothing yet, both scores of a pair and their gradients nearly cancel: rounding is then as large as 2e-5 of what is left.
"$longspan" train --model base/model --data preference.jsonl --records preference --loss reward --end none --seq 128 --batch 8 --steps 12 --lr 3e-2 --threads 1 --out scores >out 2>err || fail "a model that scores"

"$longspan" train --model config.json --data completion.jsonl --records completion --seq 128 --steps 8 --lr 2e-2 --seed 1 --threads 1 --out other >out 2>err || fail "a teacher"
"$longspan" logprobs --model other/model --data completion.jsonl --records completion --seq 128 --top 6 --threads 1 --out teacher.jsonl >out 2>err || fail "a teacher's words"

for loss in sft:completion "distil --distil-weight 0.6:teacher" dpo:preference simpo:preference orpo:preference kto:label "reward --end none:preference"; do
    n=0
    for place in "--ranks 1" "--ranks 2 --accumulate 8" "--mesh ring=4 --accumulate 2" "--mesh dp=2,tp=2"; do
        # shellcheck disable=SC2086 # options
        "$longspan" train --model "$([ "${loss%% *}" = reward ] && echo scores || echo base)/model" --loss ${loss%:*} --data ${loss#*:}.jsonl --records ${loss#*:} --pack "$(case ${loss#*:} in completion | teacher) echo best ;; *) echo pairs ;; esac)" \
            --seq 144 --batch 8 --threads 1 --ranks-as threads --lr 1e-3 --steps 1 --optimizer sgd --momentum 0.9 --weight-decay 0 --clip 0 --out $n $place >out 2>err ||
            fail "longspan train --loss $loss $place: $(cat err)"
        n=$((n + 1))
    done
    python3 - "$loss" <<'ALIKE' || fail "--loss $loss: another loss or gradient on other ranks or micro-batches"
import json, math, struct, sys
def run(n):
    data = open(f"{n}/checkpoint-00000001/optimizer.safetensors", "rb").read()
    size = int.from_bytes(data[:8], "little")
    header = {name: t["data_offsets"] for name, t in json.loads(data[8:8 + size]).items() if name.startswith("momentum ")}
    tensors = {name: struct.unpack(f"<{(b - a) // 4}f", data[8 + size + a:8 + size + b]) for name, (a, b) in header.items()}
    return json.loads(open(f"{n}/metrics.jsonl").readline())["loss"], tensors
loss, gradients = run(0)
whole = math.hypot(*(math.hypot(*g) for g in gradients.values()))
assert len(gradients) == 12 and whole > 1e-3, whole
for n in range(1, 4):
    other, made = run(n)
    assert abs(other - loss) <= 1e-6 * max(1, abs(loss)), (n, loss, other)
    far = math.hypot(*(math.dist(g, made[name]) for name, g in gradients.items()))
    assert far <= 1e-6 * whole, (n, far / whole)
ALIKE
    rm -r 0 1 2 3
done
echo ok
