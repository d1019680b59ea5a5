#!/bin/bash
# What a GPU shows in the first minutes that one is there, each step with its log:
#     bench/gpu.sh BUILD LOGS [STEP...]
# BUILD: a build folder with `ninja cuda tests-short tests-long` done; LOGS: a folder; STEP: only these steps, in this order. A step that a log says
# has ended well is not repeated, so that the script goes on after it was cut off. The last lines say how each step ended. The steps: what the machine
# is (facts), every kernel against f64 (kernels), a training with graphs and without, which must have the same bits (bits), rates and their file
# (machine), benches (comm, gemm, attention, windows, step), the matrix of trainings on 1 to 8 ranks of the one GPU (matrix), offload (offload).
set -u
[ $# -ge 2 ] && [ -x "$1/longspan" ] || { echo "usage: gpu.sh BUILD LOGS [STEP...]" >&2; exit 2; }
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$2"
logs=$(cd "$2" && pwd)
shift 2
longspan=$build/longspan
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export LS_TEST_GPU=1

# trained OUT OPTIONS...: losses and norms of ten steps of a small Llama.
trained() {
    local out=$1
    shift
    "$longspan" train --model "$here/examples/tiny" --data "$here"/docs/*.md --seq "${GPU_SEQ:-512}" --batch 2 --dtype bf16 --steps "${GPU_STEPS:-10}" --ranks-as threads --out "$out" "$@" >"$out.log" 2>&1 ||
        { tail -2 "$out.log"; return 1; }
    python3 -c "import json; print(*[v for d in map(json.loads, open('$out/metrics.jsonl')) for v in (d['loss'], d['grad_norm'])])"
}

step_facts() { nvidia-smi -q; "$longspan" version; git -C "$here" rev-parse HEAD; }
step_kernels() { "$build/tests/test_gpu_kernels"; }
step_bits() {
    local place graphs
    for place in "--ranks 1" "--mesh ring=2 --strategy ring" "--mesh ulysses=4 --strategy ulysses --shard parameters" "--mesh ring=8 --strategy ring" "--ranks 1 --offload all"; do
        rm -rf graphs again launched cpu
        # shellcheck disable=SC2086 # options
        graphs=$(trained graphs $place --device cuda) || { echo "$place: $graphs"; return 1; }
        # shellcheck disable=SC2086
        [ "$graphs" = "$(trained again $place --device cuda)" ] && [ "$graphs" = "$(trained launched $place --device cuda:launched)" ] ||
            { echo "$place: other bits"; return 1; }
        echo "$place: the same bits again, and without graphs"
        # shellcheck disable=SC2086
        echo "  gpu $graphs"
        # shellcheck disable=SC2086
        echo "  cpu $(trained cpu $place)"
    done
}
step_machine() { "$longspan" bench machine --device cuda; }
step_comm() { "$longspan" bench comm --device cuda; }
step_gemm() { "$longspan" bench gemm --device cuda --dtype bf16; }
step_attention() {
    local seq
    for seq in 8192 32768 65536 131072 262144; do
        "$longspan" bench attention --device cuda --ranks 1 --dtype bf16 --heads 32 --kv-heads 8 --head-size 128 --seq $seq || return 1
    done
}
step_windows() {
    local mask
    for mask in window:4096 prefix:4096 full; do
        "$longspan" bench attention --device cuda --ranks 1 --dtype bf16 --heads 32 --kv-heads 8 --head-size 128 --seq 65536 --mask $mask || return 1
    done
}
step_step() { "$longspan" bench step --device cuda --dtype bf16 --seq 8192 && "$longspan" bench step --device cuda --dtype bf16 --seq 65536; }
step_matrix() { "$build/tests/long_cuda_matrix"; }
step_offload() {
    local what
    for what in none optimizer results all; do
        "$longspan" train --model "$here/bench/models/500m" --data "$here"/docs/*.md --seq 32768 --dtype bf16 --steps 6 --device cuda --offload $what --out "run-$what" 2>&1 |
            tail -2 || return 1
        python3 -c "import json, statistics; print('$what:', statistics.median(json.loads(l)['seconds'] for l in open('run-$what/metrics.jsonl')), 's a step')" || return 1
    done
}

all=(facts kernels bits machine comm gemm attention windows step matrix offload)
[ $# -gt 0 ] && all=("$@")
failed=0
for step in "${all[@]}"; do
    log=$logs/$step.log
    if [ -e "$log" ] && tail -1 "$log" | grep -q '^== ended well'; then continue; fi
    began=$(date +%s)
    "step_$step" >"$log" 2>&1
    code=$?
    [ $code -eq 0 ] && echo "== ended well after $(($(date +%s) - began)) s" >>"$log" || echo "== failed ($code) after $(($(date +%s) - began)) s" >>"$log"
done
for step in "${all[@]}"; do
    echo "$step: $(tail -1 "$logs/$step.log")"
    tail -1 "$logs/$step.log" | grep -q '^== ended well' || failed=1
done
exit $failed
