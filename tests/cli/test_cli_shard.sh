#!/bin/bash
# --shard: every mode trains alike, maps what plan predicts, goes on from any other's checkpoint on any number of ranks; grad, eval and generate agree.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
make_lines 400 >text.txt
base=(--model config.json --seq 32 --threads 1)
[ "${LS_TEST_SANITIZER:-}" = thread ] && as_threads=(--ranks-as threads) || as_threads=()
train=("${base[@]}" "${as_threads[@]}" --data text.txt --batch 4 --accumulate 2 --lr 0.01 --warmup 0 --clip 1 --seed 3 --eval-data text.txt --eval-every 2)
modes=(none optimizer gradients parameters)

"$longspan" train "${train[@]}" --out one --steps 4 --json >one.json 2>err || fail "train: $(cat err)"
for mode in "${modes[@]}"; do
    "$longspan" train "${train[@]}" --out "$mode" --ranks 3 --strategy ring --shard "$mode" --steps 4 --json \
        >"$mode.json" 2>err || fail "train --shard $mode: $(cat err)"
    "$longspan" plan --model config.json --seq 32 --batch 4 --accumulate 2 --ranks 3 --threads 1 --strategy ring --shard "$mode" --json \
        >plan.json 2>err || fail "plan --shard $mode: $(cat err)"
    python3 - "$mode" <<'CHECK' || fail "training with --shard $mode"
import json, sys
mode = sys.argv[1]
one, many, run, plan = (json.load(open(f)) for f in ("one.json", mode + ".json", mode + "/run.json", "plan.json"))
assert run["spread"]["shard"] == mode == plan["candidates"][0]["shard"], run["spread"]
for name in ("first_loss", "last_loss", "eval_loss"):
    assert abs(many[name] - one[name]) < 2e-5 * one[name], (name, many[name], one[name])
most = max(r["private"] + r["symmetric"] for r in run["predicted_bytes"])
assert most == plan["predicted_bytes"], (most, plan["predicted_bytes"])
CHECK
done

# More is cut: less is mapped.
python3 - <<'CHECK' || fail "memory by mode"
import json
of = lambda mode: max(r["private"] + r["symmetric"] for r in json.load(open(mode + "/run.json"))["predicted_bytes"])
bytes = [of(m) for m in ("none", "optimizer", "gradients", "parameters")]
assert bytes == sorted(bytes, reverse=True) and len(set(bytes)) == 4, bytes
CHECK

# From each mode's checkpoint on with another mode on other ranks, as from each other's: the state is the same bit for bit.
"$longspan" train "${train[@]}" --out parameters --resume --replan --ranks 2 --strategy ulysses --shard none --steps 6 --json >there.json 2>err ||
    fail "resume: $(cat err)"
"$longspan" train "${train[@]}" --out none --resume --replan --ranks 2 --strategy ulysses --shard parameters --steps 6 --json >back.json 2>err ||
    fail "resume: $(cat err)"
python3 - <<'CHECK' || fail "resumed with another mode"
import json
there, back = json.load(open("there.json")), json.load(open("back.json"))
assert there["steps"] == back["steps"] == 6 and abs(there["last_loss"] - back["last_loss"]) < 1e-3, (there, back)
CHECK
expect 2 "allow it with --replan" train "${train[@]}" --out optimizer --resume --shard none --steps 6
expect 2 "--shard none contradicts" train "${train[@]}" --out optimizer --resume --shard none --steps 6

# Gradients of one micro-batch have the same bits in every mode.
python3 - <<'CHECK'
import struct
ids = [(i * 7 + i * i) % 50 for i in range(2 * 24)]
header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 24), }"
header += b" " * ((64 - (10 + len(header) + 1) % 64) % 64) + b"\n"
open("ids.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<48i", *ids))
CHECK
mkdir gradients-of # not beside config.json, where they would be weights
for mode in "${modes[@]}"; do
    "$longspan" grad --model config.json --tokens ids.npy --ranks 3 --strategy ring --threads 1 "${as_threads[@]}" --shard "$mode" \
        --out "gradients-of/$mode.safetensors" --json >grad.json 2>err || fail "grad --shard $mode: $(cat err)"
    json "d['shard'] == '$mode'" grad.json
    cmp gradients-of/none.safetensors "gradients-of/$mode.safetensors" || fail "grad --shard $mode: other bits"
done

# Evaluation and generation gather parameters too.
for mode in optimizer parameters; do
    "$longspan" eval --model optimizer/checkpoint-00000004 --data text.txt --seq 32 --ranks 3 --strategy ring --layout zigzag --threads 1 \
        "${as_threads[@]}" --shard "$mode" --json >"eval-$mode.json" 2>err || fail "eval --shard $mode: $(cat err)"
    "$longspan" generate --model optimizer/checkpoint-00000004 --prompt hello --tokens 8 --ranks 2 --threads 1 "${as_threads[@]}" \
        --shard "$mode" >"text-$mode" 2>err || fail "generate --shard $mode: $(cat err)"
done
python3 -c 'import json; a, b = (json.load(open(f"eval-{m}.json"))["loss"] for m in ("optimizer", "parameters")); assert a == b, (a, b)' ||
    fail "evaluation with parameters that are gathered"
cmp text-optimizer text-parameters || fail "generation with parameters that are gathered"

# auto cuts as little as fits, and says it.
less=$(python3 -c 'import json; print(max(r["private"] + r["symmetric"] for r in json.load(open("gradients/run.json"))["predicted_bytes"]) - 1)')
"$longspan" plan --model config.json --seq 32 --batch 4 --accumulate 2 --ranks 3 --threads 1 --strategy ring --tile none --recompute none \
    --memory "$less" >plan.txt 2>err || fail "plan --memory $less: $(cat err)"
grep -q 'shard parameters' plan.txt || fail "the plan does not say what is cut: $(head -3 plan.txt)"
expect 2 "--shard is 'all'" plan --model config.json --shard all
