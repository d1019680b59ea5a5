#!/bin/bash
# Runs that commit a38bee8 made and stopped after 3 of 6 steps (earlier/f32, earlier/bf16: two ranks, instruction set base): their checkpoint
# is exported with the same bits as that commit exported it, which are those of its own model.safetensors; and the run goes on to the losses
# that the commit came to without a stop (undisturbed.jsonl), on the same ranks, and on other meshes with every mode of --shard.
. "$(dirname "$0")/../support/cli.sh"

threads=()
[ "${LS_TEST_SANITIZER:-}" = thread ] && threads=(--ranks-as threads)
cp -r "$here/checkpoint/earlier"/* .

# go_on RUN BOUND OPTIONS...: to the end; numbers may differ by that share.
go_on() {
    local run=$1 bound=$2
    shift 2
    "$longspan" train --model model --data text.txt --steps 6 --out "$run" --resume "${threads[@]}" "$@" >out.txt 2>err ||
        fail "$run $*: $(cat err)"
    grep -q "resuming after step 3 from $run/checkpoint-00000003" err || fail "$run $*: $(cat err)"
    # Sums are added in another order since, and on other ranks. The first lines keep that commit's hash of the step's data, which is made in
    # another way since.
    python3 - "$run/metrics.jsonl" "$run/undisturbed.jsonl" "$bound" <<'EOF' || fail "$run $*: the run goes on otherwise"
import json, sys
resumed, undisturbed = ([json.loads(line) for line in open(path)] for path in sys.argv[1:3])
assert [step["step"] for step in resumed] == list(range(1, 7))
for ours, theirs in zip(resumed, undisturbed):
    assert (ours["data_hash"] == theirs["data_hash"]) == (ours["step"] <= 3), ours
    for number in "loss", "grad_norm":
        assert abs(ours[number] / theirs[number] - 1) < float(sys.argv[3]), (number, ours, theirs)
EOF
}

spreads=("--ranks 1 --shard none" "--mesh ring=4 --shard parameters" "--mesh ulysses=2 --shard gradients"
    "--mesh ring=2,ulysses=2 --shard parameters" "--mesh ring=3 --strategy gather --shard none")
# go_on_elsewhere DTYPE BOUND: on each of the spreads.
go_on_elsewhere() {
    local spread options
    for spread in "${spreads[@]}"; do
        read -ra options <<<"$spread"
        rm -rf again
        cp -r "$1" again
        go_on again "$2" --replan "${options[@]}"
    done
}

for dtype in f32 bf16; do
    checkpoint=$dtype/checkpoint-00000003
    "$longspan" checkpoint export $checkpoint --out $dtype-exported >out.txt 2>err || fail "$dtype: $(cat err)"
    cmp $dtype-exported/model.safetensors $checkpoint/model.safetensors || fail "$dtype is exported with other bits"
done
go_on_elsewhere f32 1e-6
# Instruction sets round products of bf16 at other places: the same numbers with the set of that commit's run, near ones with this machine's.
LONGSPAN_ISA=base go_on_elsewhere bf16 1e-6
go_on_elsewhere bf16 2e-3
go_on f32 1e-6
go_on bf16 1e-6
