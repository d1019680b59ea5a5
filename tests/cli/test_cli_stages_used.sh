#!/bin/bash
# What is not training, on stages of a pipeline: evaluation, generation, recall, gradients and steps of a caller give the numbers of one rank, with tables
# that are embedding and head at once and without; what is saved and exported there has the same bits.
. "$(dirname "$0")/../support/runs.sh"

# Weights so large that attention counts.
make_tiny_model
sed -e 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 4/' -e 's/"rms_norm_eps"/"initializer_range": 0.3, &/' config.json >own.json
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' own.json >tied.json
for i in 1 2 3 4 40; do { make_lines $i; echo "end of text $i"; } >text$i.txt; done
common=(--threads 1 --ranks-as threads)
run() {
    local more=("${common[@]}")
    [ "$1" = generate ] && more=(--threads 1) # its ranks always are threads
    [ "$1" = checkpoint ] && more=()
    "$longspan" "$@" "${more[@]}" >out 2>err || fail "longspan $*: $(tail -3 err)"
}

python3 - <<'ARRAYS'
import os, random, struct
def npy(path, data):
    head = "{'descr': '<i4', 'fortran_order': False, 'shape': (4, 24), }"
    open(path, "wb").write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n" + struct.pack("<96i", *data))
random.seed(1)
for folder in ("one", "two"):
    os.mkdir(folder)
    npy(folder + "/tokens.npy", [random.randrange(257) for _ in range(96)])
npy("two/position-ids.npy", list(range(15)) + list(range(9)) + list(range(24)) * 3)
ARRAYS
cat >near.py <<'NEAR'
# near.py A B: gradients, or logits, within 1e-12 of each other.
import json, math, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    if path.endswith(".npy"):
        yield path, struct.unpack(f"<{(len(data) - 128) // 8}d", data[128:])
        return
    n = int.from_bytes(data[:8], "little")
    for name, t in json.loads(data[8:8 + n]).items():
        if name[0] != "_":
            a, b = t["data_offsets"]
            yield name, struct.unpack(f"<{(b - a) // 8}d", data[8 + n + a:8 + n + b])
a, b = (dict(tensors(path)) for path in sys.argv[1:])
assert len(a) == len(b) > 0
for one, two in zip(a, b) if len(a) == 1 else ((name, name) for name in a):
    assert math.dist(a[one], b[two]) <= 1e-12 * math.hypot(*a[one]) > 0, one
NEAR

for model in own tied; do
    # Losses by position, of documents in one sequence and apart; the last batches are not full.
    for pack in join best; do
        run eval --model $model.json --data text*.txt --seq 24 --pack $pack --json
        mv out eval.json
        for place in "pp=2" "pp=4 --slices 2" "pp=2,ring=2 --pipeline interleaved:2" "pp=2,dp=2 --batch 4"; do
            # shellcheck disable=SC2086 # options
            run eval --model $model.json --data text*.txt --seq 24 --pack $pack --json --mesh $place
            python3 - <<'CHECK' || fail "eval of $model, $pack, on $place"
import json
a, b = json.load(open("eval.json")), json.load(open("out"))
assert a["tokens"] == b["tokens"] and abs(a["loss"] - b["loss"]) < 1e-6 * a["loss"], (a["loss"], b["loss"])
assert len(a["by_position"]) == len(b["by_position"]) > 1
assert all(abs(x["loss"] - y["loss"]) < 1e-6 * x["loss"] and x["tokens"] == y["tokens"] for x, y in zip(a["by_position"], b["by_position"]))
assert 0 <= b["resident_bytes"] - b["predicted_bytes"] < 3 * 4096, (b["resident_bytes"], b["predicted_bytes"])
CHECK
        done
    done

    # The same tokens; each stage has the caches of its layers.
    generate=(generate --model $model.json --prompt "line 1" --tokens 30 --temperature 0 --seed 5 --json)
    run "${generate[@]}"
    mv out one.json
    for place in pp=2 pp=4 pp=2,ring=2 pp=2,dp=1,tp=1 pp=2,ulysses=2; do
        run "${generate[@]}" --mesh $place
        python3 - <<'CHECK' || fail "generate with $model on $place: $(cat out)"
import json
a, b = json.load(open("one.json")), json.load(open("out"))
assert a["ids"] == b["ids"] and len(set(a["ids"])) > 5
assert b["cache_bytes"] < a["cache_bytes"] and 0 <= b["resident_bytes"] - b["predicted_bytes"] < 3 * 4096, b
CHECK
    done
    run generate --model $model.json --prompt a --tokens 5 --temperature 0 --seed 5 --mesh pp=2 --ignore-eos # nothing is known before it
    run recall --model $model.json --lengths 300 --samples 1 --depths 2 --seed 3 --json
    mv out one.json
    run recall --model $model.json --lengths 300 --samples 1 --depths 2 --seed 3 --json --mesh pp=2,ring=2
    python3 -c 'import json; a, b = (json.load(open(f))["loss"] for f in ("one.json", "out")); assert abs(a - b) < 1e-5 * a, (a, b)' || fail "recall on stages"

    # Gradients and logits, with documents and without; in micro-batches also on one rank.
    grad=(grad --model $model.json --tokens two/tokens.npy --dtype f64)
    [ $model = tied ] && grad+=(--position-ids two/position-ids.npy)
    run "${grad[@]}" --out one.grad --logits one.npy
    for place in "dp=1 --accumulate 2" "pp=2" "pp=2,ring=2 --accumulate 2 --pipeline zero-bubble" "pp=2,dp=2 --accumulate 2 --shard parameters" \
        "pp=2,tp=2 --accumulate 2 --pipeline interleaved:2" "pp=3 --accumulate 4 --slices 3"; do
        # shellcheck disable=SC2086 # options
        run "${grad[@]}" --out x.grad --logits x.npy --mesh $place
        python3 near.py one.grad x.grad && python3 near.py one.npy x.npy || fail "grad of $model on $place"
    done
done

# A model with states, which each stage has of its layers.
python3 - "$here/reference/models/qwen3_5/config.json" <<'STATES'
import json, sys
config = json.load(open(sys.argv[1]))
config.update(vocab_size=257, num_hidden_layers=4, max_position_embeddings=512, initializer_range=0.3,
              layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"])
json.dump(config, open("states.json", "w"))
STATES
for place in dp=1 pp=2,ring=2 pp=4; do
    run generate --model states.json --prompt "line 1" --tokens 20 --temperature 0 --json --ignore-eos --mesh $place
    grep -o '"ids": [^]]*' out >ids.$place && cmp ids.dp=1 ids.$place || fail "generate with states on $place"
done
[ "$(grep -o , ids.dp=1 | wc -l)" = 19 ] || fail "generate with states: $(cat ids.dp=1)"

# Steps that another program asks for, gradients and losses; a run goes on elsewhere from what it saved.
asked() { # the requests, flags: answers go to steps.txt
    local requests=$1
    shift
    printf '%b' "$requests" | "$longspan" steps --model own.json --batch 4 --seq 24 --documents --dtype f64 "${common[@]}" "$@" >steps.txt 2>err || fail "longspan steps $*: $(tail -3 err)"
}
asked 'step 0.01 1 one\nstep 0.01 1 two\n' --ranks 1
mv steps.txt expected.txt
asked 'grad two\n' --ranks 1 --optimizer none
mv two/gradients.safetensors two.grad
for place in "pp=2 --accumulate 2" "pp=2,dp=2 --accumulate 2 --shard gradients" "pp=2,ring=2" "pp=4 --accumulate 4 --pipeline zero-bubble"; do
    # shellcheck disable=SC2086 # options
    asked 'step 0.01 1 one\nstep 0.01 1 two\n' --mesh $place
    python3 - <<'CHECK' || fail "steps on $place: $(cat steps.txt)"
import json
for a, b in zip(*([json.loads(line) for line in open(f)][1:] for f in ("expected.txt", "steps.txt")), strict=True):
    assert a["step"] == b["step"] and all(abs(a[key] - b[key]) < 1e-11 * a[key] for key in ("loss", "grad_norm")), (a, b)
CHECK
    # shellcheck disable=SC2086 # options
    asked 'grad one\ngrad two\n' --mesh $place --optimizer none # the second is not the sum of both
    python3 near.py two.grad two/gradients.safetensors || fail "gradients of steps on $place"
done

# A checkpoint that is read and saved on another mesh, and what is exported of it, have the same bits.
mkdir here
asked 'step 0.01 1 one\nstep 0.01 1 two\nsave here\n' --ranks 2
run checkpoint export here --out here.model
for place in "pp=2" "pp=2,ring=2 --shard parameters" "pp=4" "pp=2,tp=2" "pp=2,dp=2 --accumulate 2"; do
    rm -rf there there.model
    mkdir there
    # shellcheck disable=SC2086 # options
    asked 'resume here\nsave there\n' --mesh $place
    for file in model optimizer; do cmp {here,there}/checkpoint-00000002/$file.safetensors || fail "$file of a checkpoint saved on $place"; done
    run checkpoint export there --out there.model
    cmp {here,there}.model/model.safetensors || fail "what is exported of a checkpoint saved on $place"
done

# A weight that is not finite is found on the stage that has it.
python3 - <<'BROKEN'
import json, os, struct
os.mkdir("broken")
data = bytearray(open("here.model/model.safetensors", "rb").read())
n = int.from_bytes(data[:8], "little")
at = 8 + n + json.loads(data[8:8 + n])["model.layers.3.mlp.up_proj.weight"]["data_offsets"][0]
data[at + 20:at + 24] = struct.pack("<f", float("nan"))
open("broken/model.safetensors", "wb").write(data)
open("broken/config.json", "w").write(open("own.json").read())
BROKEN
for command in "eval --data text1.txt --seq 24" "generate --prompt a --tokens 2"; do
    # shellcheck disable=SC2086 # options
    "$longspan" $command --model broken --mesh pp=2 --threads 1 >out 2>err && fail "$command with a weight that is not finite"
    grep -qF "not finite: element 5 of tensor model.layers.3.mlp.up_proj.weight is nan" err || fail "$command does not name the weight"
done

refused "1 micro-batches of a step on 2 stages; expected a multiple of 2" generate --model own.json --prompt a --mesh pp=2 --pipeline interleaved:2
refused "attention_cached" generate --model own.json --prompt abc --mesh pp=2 --slices 2
refused "do not divide into --accumulate 3 micro-batches" grad --model own.json --tokens one/tokens.npy --out x --mesh pp=2 --accumulate 3
make_arrays
refused "nothing in the graph can use the mesh axis pp=2, which divides the layers of a model" attention --q q.npy --k k.npy --v v.npy --mask causal --mesh pp=2 --out x
echo ok
