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

# Two micro-batches of one sequence: the steps of the whole batch, again and again, with documents and without.
for spread in "--ranks 1" "--mesh ring=2" "--mesh tp=2" "--mesh ring=3"; do
    for parts in 1 2; do
        printf 'step 0.01 1 one\nstep 0.01 1 two\nstep 0.01 1 one\nstep 0 1 two\n' |
            "$longspan" steps --model config --optimizer sgd --dtype f64 --documents --batch 2 --accumulate $parts --seq 40 $spread >parts$parts.txt 2>err || fail "$(cat err)"
    done
    python3 - <<'CHECK' || fail "micro-batches $spread: $(cat parts1.txt parts2.txt)"
import json
whole, parts = ([json.loads(line) for line in open(f"parts{n}.txt")][1:] for n in (1, 2))
assert len(whole) == len(parts) == 4 and whole[0]["loss"] != whole[2]["loss"]
assert all(abs(a[key] - b[key]) < 1e-11 for a, b in zip(whole, parts) for key in ("loss", "grad_norm")), (whole, parts)
CHECK
done

# Gradients of two micro-batches are those of the whole batch, again and again.
for spread in "--ranks 1" "--mesh ring=2" "--mesh tp=2" "--mesh dp=2" "--ranks 2 --shard parameters" "--ranks 3"; do
    for parts in 1 2; do
        case "$spread $parts" in *dp=2\ 2) continue ;; esac # a replica has one sequence alone
        printf 'grad two\ngrad one\n' | "$longspan" steps --model config --optimizer none --dtype f64 --documents --batch 2 --accumulate $parts --seq 40 $spread >parts$parts.txt 2>err ||
            fail "$spread: $(cat err)"
        mv one/gradients.safetensors one.$parts; mv two/gradients.safetensors two.$parts
    done
    python3 - <<'CHECK' || fail "gradients of micro-batches $spread: $(cat parts1.txt parts2.txt)"
import json, math, struct
def tensors(path):
    data = open(path, "rb").read()
    n = int.from_bytes(data[:8], "little")
    for name, t in json.loads(data[8:8 + n]).items():
        if name[0] != "_":
            a, b = t["data_offsets"]
            yield name, struct.unpack(f"<{(b - a) // 8}d", data[8 + n + a:8 + n + b])
whole, parts = ([json.loads(line) for line in open(f"parts{n}.txt")][1:] for n in (1, 2))
assert all(abs(a["loss"] - b["loss"]) < 1e-12 * a["loss"] for a, b in zip(whole, parts))
for batch in ("one", "two"):
    for (name, a), (_, b) in zip(tensors(batch + ".1"), tensors(batch + ".2")):
        assert math.dist(a, b) <= 1e-12 * math.hypot(*a) and math.hypot(*a) > 0, (batch, name)
CHECK
done

# A run that is saved and resumed has the bits of one that was not, on another mesh too; groups stay as they were.
weights="--group model.norm.*:lr=0.5 *.mlp.*:decay=0 model.embed_tokens.*:frozen"
steps() { # the requests, flags
    local requests=$1; shift
    printf "%b" "$requests" | "$longspan" steps --model config --batch 2 --accumulate 2 --seq 40 --documents "$@" $weights >steps.txt 2>err || fail "steps: $(cat err)"
}
mkdir half whole again
steps 'step 0.01 1 one\nstep 0.01 1 two\nsave half\nstep 0.02 1 one\nstep 0.01 1 two\nsave whole\n' --ranks 2
tail -n 3 steps.txt >expected
steps 'resume half\nstep 0.02 1 one\nstep 0.01 1 two\nsave again\n' --ranks 2
tail -n 3 steps.txt | cmp - expected || fail "resumed steps differ: $(cat steps.txt expected)"
[ "$(sed -n 2p steps.txt)" = '{"step": 2}' ] || fail "resumed at another step: $(cat steps.txt)"
for file in model optimizer; do cmp {whole,again}/checkpoint-00000004/$file.safetensors || fail "$file of a resumed run differs"; done
python3 - <<'CHECK' || fail "a frozen parameter is not as it was, or another one is"
import json
def tensors(path):
    data = open(path, "rb").read()
    n = int.from_bytes(data[:8], "little")
    return {name: data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]] for name, t in json.loads(data[8:8 + n]).items() if name[0] != "_"}
half, whole = (tensors(f"{run}/model.safetensors") for run in ("half/checkpoint-00000002", "whole/checkpoint-00000004"))
assert {name for name in half if half[name] == whole[name]} == {name for name in half if "embed_tokens" in name} != set(), half.keys()
CHECK
steps 'resume half/checkpoint-00000002\n' --mesh ring=3

# Another optimiser cannot go on from a checkpoint; other numbers can, and are said.
for pair in adamw:lion adamw:muon adamw:sgd lion:adamw lion:sgd sgd:lion muon:adamw muon:sgd; do
    was=${pair%:*} is=${pair#*:}
    mkdir -p of.$was
    [ -e of.$was/checkpoint-00000001 ] || steps "step 0.01 1 one\nsave of.$was\n" --optimizer $was
    printf "resume of.$was\n" | "$longspan" steps --model config --batch 2 --seq 40 --optimizer $is >steps.txt 2>err && fail "$is goes on from $was"
    grep -qF "of.$was/checkpoint-00000001/state.json: optimizer is \"$was\"; expected \"$is\", which goes on from it" err || fail "$pair: $(cat err)"
done
steps 'resume half\n' --beta2 0.9 --weight-decay 0.3
grep -qF "half/checkpoint-00000002/state.json: beta2 is 0.95; from here on it is 0.9" err || fail "no line about beta2: $(cat err)"
grep -qF "state.json: weight_decay is 0.1; from here on it is 0.3" err || fail "no line about the decay: $(cat err)"
[ "$(grep -c 'from here on it is' err)" = 2 ] || fail "more lines: $(cat err)"
printf 'resume half\n' | "$longspan" steps --model config --batch 1 --seq 30 $weights >steps.txt 2>err || fail "$(cat err)"
grep -qF "state.json: seq is 40; from here on it is 30" err && grep -qF "state.json: batch is 2; from here on it is 1" err || fail "no line about sizes: $(cat err)"
printf 'resume half\n' | "$longspan" steps --model config --batch 2 --seq 40 --group 'model.*:frozen' >steps.txt 2>err || fail "$(cat err)"
grep -qE "half/checkpoint-00000002/optimizer.safetensors: [0-9]+ states are left out, of parameters that are frozen from here on" err || fail "no line about frozen parameters: $(cat err)"

refused() { # the request, the message, flags
    local request=$1 message=$2; shift 2
    echo "$request" | "$longspan" steps --model config --batch 2 --ranks 2 --seq "${seq:-40}" "$@" >out.txt 2>err.txt && fail "$request was taken"
    grep -qF -- "$message" err.txt || fail "$request: $(cat err.txt)"
}
expected="expected 'step LR CLIP FOLDER', 'grad FOLDER', 'logprobs FOLDER', 'load', 'save FOLDER' or 'resume FOLDER'"
for request in "walk" "step" "step 0.1 one" "step nan 1 one" "step -1 1 one" "grad" "load one" "resume" "steps 1 1 one"; do
    refused "$request" "standard input: '$request'; $expected"
done
refused "step 0.1 1 none" "none/tokens.npy"
seq=41 refused "step 0.1 1 one" "one/tokens.npy: shape is [2,40], expected [2,41] (--batch, --seq)"
refused "step 0.1 1 two" "two/position-ids.npy: a sequence has several documents; expected one, or --documents"
refused "step 0.1 1 three" "three/documents.npy: a sequence has several documents; expected one, or --documents"
refused "grad one" "standard input: 'grad', and --optimizer adamw; expected --optimizer none"
refused "step 0.1 1 one" "standard input: 'step', and --optimizer none" --optimizer none
refused "save saved" "'save', and --optimizer none" --optimizer none
refused "resume saved" "'resume', and --optimizer none" --optimizer none
refused "resume one" "no checkpoint in one"
refused "load" "--momentum" --momentum 0.5
refused "load" "--batch 2 does not divide into --accumulate 3 micro-batches" --accumulate 3
refused "load" "--group 'x:frozen', and --optimizer none" --optimizer none --group x:frozen
refused "load" "--group 'nothing:lr=2' matches no parameter" --group nothing:lr=2
[ "$("$longspan" steps --model config --batch 2 --seq 40 </dev/null 2>err)" = '{"ready": true}' ] || fail "an empty input"
