#!/bin/bash
# An adapter of a model as a graph.json: the same files and losses as of its config.json, and each takes the other's.
. "$(dirname "$0")/../support/imported.sh"

for kind in config graph; do
    train --model $kind --lora r=3,alpha=6,dora --steps 6 --ranks 2 --out run-$kind
    cut -d, -f1,2 run-$kind/metrics.jsonl >losses-$kind
done
cmp losses-config losses-graph || fail "other losses: $(paste losses-config losses-graph)"
cmp run-config/adapter/adapter_model.safetensors run-graph/adapter/adapter_model.safetensors || fail "other adapters"
run eval --model graph --adapter run-config/adapter --data text.txt --seq 32
grep '^loss' out.txt >there
run eval --model config --adapter run-graph/adapter --data text.txt --seq 32
grep '^loss' out.txt >here
cmp there here || fail "other losses: $(cat there here)"
run checkpoint export run-graph --merge --out merged --dtype f32
run eval --model merged --data text.txt --seq 32
grep '^loss' out.txt >merged-loss
python3 - <<'LOSSES' || fail "merged: $(cat merged-loss), expected $(cat here)"
a, b = (float(open(f).read().split()[1]) for f in ("here", "merged-loss"))
assert abs(a - b) < 2e-4
LOSSES
echo ok
