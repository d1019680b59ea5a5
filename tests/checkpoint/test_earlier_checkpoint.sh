#!/bin/bash
# Runs that commit a38bee8 made and stopped after 3 of 6 steps (earlier/f32, earlier/bf16: two ranks, instruction set base): their checkpoint
# is exported with the same bits as that commit exported it, which are those of its own model.safetensors; and the run goes on to the losses
# that the commit came to without a stop (undisturbed.jsonl), on the same ranks, and on other meshes with every mode of --shard.
. "$(dirname "$0")/../support/cli.sh"

threads=()
[ "${LS_TEST_SANITIZER:-}" = thread ] && threads=(--ranks-as threads)
cp -r "$here/checkpoint/earlier"/* .

# go_on RUN OPTIONS...: to the end.
go_on() {
    local run=$1
    shift
    "$longspan" train --model model --data text.txt --steps 6 --out "$run" --resume "${threads[@]}" "$@" >out.txt 2>err ||
        fail "$run $*: $(cat err)"
    grep -q "resuming after step 3 from $run/checkpoint-00000003" err || fail "$run $*: $(cat err)"
    # Losses are compared to 1e-6: sums are added in another order since, and on other ranks. The first lines keep that commit's hash of the
    # step's data, which is made in another way since.
    python3 - "$run/metrics.jsonl" "$run/undisturbed.jsonl" <<'EOF' || fail "$run $*: the run goes on otherwise"
import json, sys
resumed, undisturbed = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
assert [step["step"] for step in resumed] == list(range(1, 7))
for ours, theirs in zip(resumed, undisturbed):
    assert (ours["data_hash"] == theirs["data_hash"]) == (ours["step"] <= 3), ours
    for number in "loss", "grad_norm":
        assert abs(ours[number] / theirs[number] - 1) < 1e-6, (number, ours, theirs)
EOF
}

spreads=("--ranks 1 --shard none" "--mesh ring=4 --shard parameters" "--mesh ulysses=2 --shard gradients"
    "--mesh ring=2,ulysses=2 --shard parameters" "--mesh ring=3 --strategy gather --shard none")
for dtype in f32 bf16; do
    checkpoint=$dtype/checkpoint-00000003
    "$longspan" checkpoint export $checkpoint --out $dtype-exported >out.txt 2>err || fail "$dtype: $(cat err)"
    cmp $dtype-exported/model.safetensors $checkpoint/model.safetensors || fail "$dtype is exported with other bits"
    for spread in "${spreads[@]}"; do
        read -ra options <<<"$spread"
        rm -rf again
        cp -r $dtype again
        go_on again --replan "${options[@]}"
    done
    go_on $dtype
done
