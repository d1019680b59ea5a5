#!/bin/bash
# longspan steps: requests on standard input. Gradients have the bits of longspan grad, again and again; steps and a checkpoint; what is refused.
. "$(dirname "$0")/../support/imported.sh"
python3 - <<'ARRAYS'
import random, struct
def npy(path, data):
    head = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 40), }"
    open(path, "wb").write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n" + struct.pack("<80i", *data))
import os
random.seed(1)
for folder in ("one", "two"):
    os.mkdir(folder)
    npy(folder + "/tokens.npy", [random.randrange(260) for _ in range(80)])
npy("two/position-ids.npy", list(range(15)) + list(range(25)) + list(range(40)))
ARRAYS

# A batch without documents after one with: each as if it were the only one.
ring="--mesh ring=3 --strategy ring --layout"
for spread in "--ranks 1" "$ring zigzag" "--mesh tp=2" "$ring contiguous --ranks-as threads"; do
    for batch in one two; do
        positions=$([ $batch = one ] || echo --position-ids two/position-ids.npy)
        run grad --model config --tokens $batch/tokens.npy $positions --threads 1 --out $batch.grad $spread
        head -1 out.txt | cut -d' ' -f2 >$batch.loss
    done
    printf 'grad one\ngrad two\nload\ngrad one\n' |
        "$longspan" steps --model config --optimizer none --documents --batch 2 --seq 40 --threads 1 $spread >steps.txt 2>err || fail "steps $spread: $(cat err)"
    python3 - <<'CHECK' || fail "steps $spread: $(cat steps.txt)"
import json
lines = [json.loads(line) for line in open("steps.txt")]
assert lines[0] == {"ready": True} and lines[3] == {}, lines
one, two = (float(open(name + ".loss").read()) for name in ("one", "two"))
assert all(abs(line["loss"] - loss) < 1e-8 * loss for line, loss in zip((lines[1], lines[2], lines[4]), (one, two, one))), (lines, one, two)
CHECK
    for batch in one two; do cmp $batch.grad $batch/gradients.safetensors || fail "gradients of $batch $spread"; done
done

# Documents by numbers.
mkdir three
cp one/tokens.npy three/
python3 -c '
data = open("two/position-ids.npy", "rb").read()
import struct
places = struct.unpack("<80i", data[128:])
open("three/documents.npy", "wb").write(data[:128] + struct.pack("<80i", *[sum(p == 0 for p in places[:i + 1]) for i in range(80)]))'
run grad --model config --tokens three/tokens.npy --documents three/documents.npy --threads 1 --out three.grad $ring zigzag
echo 'grad three' | "$longspan" steps --model config --optimizer none --documents --batch 2 --seq 40 --threads 1 $ring zigzag >steps.txt 2>err || fail "$(cat err)"
cmp three.grad three/gradients.safetensors || fail "gradients of numbered documents"

# Steps learn, and what they learnt is saved.
mkdir saved
printf 'step 0.01 1 one\nstep 0.01 1 one\nstep 0 0 one\nsave saved\n' |
    "$longspan" steps --model config --batch 2 --seq 40 --ranks 2 --beta2 0.99 >steps.txt 2>err || fail "steps: $(cat err)"
python3 - <<'CHECK' || fail "losses: $(cat steps.txt)"
import json
_, a, b, c, saved = [json.loads(line) for line in open("steps.txt")]
assert a["loss"] > b["loss"] > c["loss"] and [x["step"] for x in (a, b, c, saved)] == [1, 2, 3, 3] and a["grad_norm"] > 0
CHECK
run checkpoint export saved --out exported
run grad --model exported --tokens one/tokens.npy --out x
python3 -c '
import json
c = json.loads(open("steps.txt").readlines()[3])["loss"]
loss = float(open("out.txt").read().split()[1])
assert abs(loss - c) < 1e-6, (loss, c)' || fail "the checkpoint has another loss"

refused() { # the request, the message, flags
    local request=$1 message=$2; shift 2
    echo "$request" | "$longspan" steps --model config --batch 2 --ranks 2 --seq "${seq:-40}" "$@" >out.txt 2>err.txt && fail "$request was taken"
    grep -qF -- "$message" err.txt || fail "$request: $(cat err.txt)"
}
expected="expected 'step LR CLIP FOLDER', 'grad FOLDER', 'load' or 'save FOLDER'"
for request in "walk" "step" "step 0.1 one" "step nan 1 one" "step -1 1 one" "grad" "load one" "steps 1 1 one"; do
    refused "$request" "standard input: '$request'; $expected"
done
refused "step 0.1 1 none" "none/tokens.npy"
seq=41 refused "step 0.1 1 one" "one/tokens.npy: shape is [2,40], expected [2,41] (--batch, --seq)"
refused "step 0.1 1 two" "two/position-ids.npy: a sequence has several documents; expected one, or --documents"
refused "step 0.1 1 three" "three/documents.npy: a sequence has several documents; expected one, or --documents"
refused "grad one" "standard input: 'grad', and --optimizer adamw; expected --optimizer none"
refused "step 0.1 1 one" "standard input: 'step', and --optimizer none" --optimizer none
refused "save saved" "'save', and --optimizer none" --optimizer none
refused "load" "--momentum" --momentum 0.5
[ "$("$longspan" steps --model config --batch 2 --seq 40 </dev/null 2>err)" = '{"ready": true}' ] || fail "an empty input"
