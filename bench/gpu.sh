#!/bin/bash
# What a GPU shows in the minutes that one is there:
#     bench/gpu.sh BUILD LOGS [1|2|3|STEP...]
# BUILD: a build folder with what tools/gpu-pack.sh builds, or that of its archive; LOGS: a folder; then the phases or steps to run, all when left
# out. Each step has a limit in seconds; one that passes it is killed, and the rest goes on. A step that its log says has ended well is not
# repeated, so that the script can be started again. The last lines say of each step how it ended and what follows from it.
# GPU_SCALE=F multiplies the limits, for machines without a GPU, where the driver and kernels for tests take its place.
set -u
[ $# -ge 2 ] && [ -x "$1/longspan" ] || { echo "usage: gpu.sh BUILD LOGS [1|2|3|STEP...]" >&2; exit 2; }
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$2"
logs=$(cd "$2" && pwd)
shift 2
longspan=$build/longspan
shape=(--heads 32 --kv-heads 8 --dtype bf16 --ranks 1)
model=$here/bench/models/8b-4layers

# phase, step, limit in seconds
steps='
1 facts          10
1 node           10
1 chain          20
1 blocked        40
1 latency        10
1 depth          15
1 wake           10
1 beside         30
1 handles        10
1 products       20
1 kernels        75
2 bits           150
2 imported       75
2 attention      75
2 peer-attention 40
2 gemm           30
2 peer-gemm      20
2 machine        75
2 step           75
2 peer-step      50
2 wide           75
2 matrix         60
3 comm           30
3 heads          60
3 masks          60
3 offload        90
3 sanitizer      120
3 profile        90
'

has() { command -v "$1" >/dev/null; }
# Whether this is a machine with a GPU and PyTorch.
has_torch() { has python3 && python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; }
peers() { if has_torch; then python3 "$here/bench/gpu/peers.py" "$@"; else echo "left out: there is no PyTorch with a GPU"; fi; }

# trained OUT OPTIONS...: losses and norms of a training's steps, on one line. One that takes longer than TRAINED_LIMIT seconds is killed, and its
# last lines are said.
small=(--model "$here/examples/tiny" --seq "${GPU_SEQ:-512}" --batch 2 --steps "${GPU_STEPS:-10}")
trained() {
    local out=$1 code
    shift
    rm -rf "$out"
    timeout -k 3 "$(awk "BEGIN { print int(${TRAINED_LIMIT:-25} * ${GPU_SCALE:-1}) }")" \
        "$longspan" train --data "$here"/docs/*.md --dtype bf16 --out "$out" "$@" >"$out.log" 2>&1
    code=$?
    [ $code -eq 0 ] || { echo "ended with $code after $(wc -l <"$out/metrics.jsonl" 2>/dev/null || echo 0) lines of metrics: $(tail -2 "$out.log" | tr '\n' ' ')"; return 1; }
    sed -n 's/.*"loss": *\([^,]*\),.*"grad_norm": *\([^,]*\),.*/\1 \2/p' "$out/metrics.jsonl" | tr '\n' ' '
}

experiment() { "$build/bench/gpu_micro" "$1"; }
step_facts() { nvidia-smi; "$longspan" version; uname -a; }
step_node() { experiment node; }
step_chain() { experiment chain; }
step_blocked() { experiment blocked; }
step_latency() { experiment latency; }
step_depth() { experiment depth; }
step_wake() { experiment wake; }
step_beside() { experiment beside; }
step_handles() { experiment handles; }
step_products() { experiment products; }
step_kernels() { "$build/tests/test_gpu_kernels"; }
step_bits() {
    local place graphs other failed=0
    echo "cpu, one rank: $(trained cpu "${small[@]}" --ranks 1)"
    for place in "--ranks 1" "--mesh ring=2 --strategy ring --ranks-as threads" "--ranks 1 --offload all" \
        "--mesh ring=2,tp=2 --strategy ring --ranks-as threads" "--mesh ulysses=4 --strategy ulysses --shard parameters --ranks-as threads" \
        "--mesh ring=2 --strategy ring"; do
        # shellcheck disable=SC2086 # options
        graphs=$(trained graphs "${small[@]}" $place --device cuda) || { echo "$place: FAILED: $graphs"; failed=1; continue; }
        echo "$place, after $SECONDS s: $graphs"
        for other in cuda cuda:launched; do
            # shellcheck disable=SC2086
            [ "$graphs" = "$(trained other "${small[@]}" $place --device $other)" ] && echo "  $other: the same bits, after $SECONDS s" || { echo "  $other: OTHER BITS: $(tail -1 other.log)"; failed=1; }
        done
    done
    return $failed
}
step_imported() {
    has_torch || { echo "left out: there is no PyTorch with a GPU"; return 0; }
    python3 "$here/bench/imported.py" check "$longspan" graphs
}
step_wide() {
    has_torch || { echo "left out: there is no PyTorch with a GPU"; return 0; }
    python3 "$here/bench/imported.py" wide graphs/wide
    "$longspan" bench step --device cuda --dtype bf16 --config graphs/wide --seq 8192 --rounds 5
}
step_attention() {
    local seq row failed=0
    for seq in 8192 32768 65536; do
        for row in own cudnn; do
            "$longspan" bench attention --device cuda "${shape[@]}" --head-size 128 --rounds 3 --seq $seq --kernels "attention/bf16=$row attention_grad/bf16=$row" || failed=1
        done
    done
    return $failed
}
step_peer-attention() { peers attention 8192 32768 65536; }
step_gemm() { "$longspan" bench gemm --device cuda --dtype bf16 --config "$model" --seq 8192; }
step_peer-gemm() { peers gemm 8192; }
step_step() {
    local seq failed=0
    for seq in 8192 65536; do "$longspan" bench step --device cuda --dtype bf16 --config "$model" --seq $seq --rounds 3 || failed=1; done
    return $failed
}
step_peer-step() { peers step 8192 65536; }
step_matrix() { LS_TEST_GPU_EVERY=50 "$build/tests/long_cuda_matrix"; }
step_machine() { "$longspan" bench machine --device cuda; }
step_comm() { "$longspan" bench comm --device cuda; }
step_heads() {
    local head failed=0
    for head in 64 256; do
        "$longspan" bench attention --device cuda "${shape[@]}" --head-size "$head" --rounds 3 --seq 32768 --kernels "attention/bf16=own attention_grad/bf16=own" || failed=1
    done
    return $failed
}
step_masks() {
    local mask failed=0
    for mask in window:4096 prefix:4096 full; do "$longspan" bench attention --device cuda "${shape[@]}" --head-size 128 --rounds 3 --seq 32768 --mask $mask || failed=1; done
    return $failed
}
step_offload() {
    local what failed=0
    for what in none optimizer results all; do
        trained "run-$what" --model "$here/bench/models/500m" --seq 32768 --batch 1 --steps 4 --ranks 1 --device cuda --offload $what || failed=1
        echo
        grep -o '"seconds": *[0-9.]*' "run-$what/metrics.jsonl" | tr '\n' ' '
        echo "a step, offload $what"
    done
    return $failed
}
step_sanitizer() {
    has compute-sanitizer || { echo "left out: there is no compute-sanitizer"; return 0; }
    compute-sanitizer --error-exitcode 9 "$build/tests/test_gpu_kernels"
}
step_profile() {
    has ncu || { echo "left out: there is no ncu"; return 0; }
    ncu --clock-control none --section SpeedOfLight --section Occupancy --launch-skip 4 --launch-count 4 --kernel-name regex:attention\|grad_of \
        "$longspan" bench attention --device cuda "${shape[@]}" --head-size 128 --rounds 1 --seq 8192 --kernels "attention/bf16=own attention_grad/bf16=own"
}

# what_follows STEP LOG: one line, where the log decides something.
what_follows() {
    case $1 in
    node) ! grep 'captured together' "$2" | grep -qv ' 1 nodes' && grep -q 'upload: 7' "$2" && echo "graphs of words as they are" || echo "words are other nodes than expected, or need an upload: cuda:launched is the default" ;;
    blocked) grep -q BLOCKED "$2" && echo "launches block: graphs in segments, the longest that did not block" || echo "no launch blocked: whole programs as graphs" ;;
    chain) if grep -q BLOCKED "$2"; then echo "at most $(grep 'goes on' "$2" | tail -1 | grep -o '[0-9]* streams') wait for each other"; else echo "no limit was met"; fi ;;
    depth) echo "room of a queue: less than $(grep -o 'takes [a-z ]*[0-9]*' "$2" | grep -o '[0-9]*' | sort -n | head -1) launches" ;;
    beside) grep -q WAITS "$2" && echo "to be done before anything is held: $(grep WAITS "$2" | sed 's/^beside: //; s/, beside.*//' | paste -sd, | sed 's/,/, /g')" || echo "nothing waits beside a stream that is held" ;;
    latency) sed -n 's/.*by a word of the \(host\|device\).*: \(.*\) us/\1 \2 us/p; s/.*by an event: \(.*\) us/event \1 us/p' "$2" | paste -sd, | sed 's/^/between streams: /' ;;
    kernels) grep -q '  PASSED ' "$2" && ! grep -q 'FAILED' "$2" && echo "every row is right" || echo "rows that are wrong are left out until they are mended" ;;
    imported) grep -q WRONG "$2" && echo "what is wrong is refused on a GPU until it is mended" || echo "modules have PyTorch's gradients" ;;
    bits) grep -q 'OTHER BITS\|FAILED' "$2" && echo "places without their bits are refused until they are mended" || echo "graphs and launches have the same bits" ;;
    esac
}

work=${GPU_WORK:-}
if [ "${1:-}" = --run ]; then # this script, started by itself for one step
    cd "$work" || exit 1
    "step_$2"
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GPU_WORK=$work LS_TEST_GPU=${LS_TEST_GPU-1} XDG_CACHE_HOME=$work/cache
[ -n "$LS_TEST_GPU" ] || unset LS_TEST_GPU
failed=0 began_all=$(date +%s)
chosen=()
while read -r phase step limit; do
    [ -n "$phase" ] || continue
    wanted=$([ $# -eq 0 ] && echo yes)
    for word in "$@"; do [ "$word" = "$phase" ] || [ "$word" = "$step" ] && wanted=yes; done
    [ -n "$wanted" ] || continue
    chosen+=("$step")
    log=$logs/$step.log
    if [ -e "$log" ] && tail -1 "$log" | grep -q '^== ended well'; then continue; fi
    limit=$(awk "BEGIN { print int($limit * ${GPU_SCALE:-1}) }")
    began=$(date +%s)
    timeout -k 3 "$limit" bash "$here/bench/gpu.sh" "$build" "$logs" --run "$step" >"$log" 2>&1 </dev/null
    code=$?
    took=$(($(date +%s) - began))
    if [ $code -eq 0 ]; then echo "== ended well after $took s" >>"$log"
    elif [ $code -eq 124 ] || [ $code -eq 137 ]; then echo "== killed: it took longer than $limit s" >>"$log"
    else echo "== failed ($code) after $took s" >>"$log"; fi
    echo "$step: $(tail -1 "$log")"
done <<<"$steps"
echo "== $(($(date +%s) - began_all)) s in all"
for step in "${chosen[@]}"; do
    log=$logs/$step.log
    printf '%-15s %-34s %s\n' "$step" "$(tail -1 "$log" | sed 's/^== //')" "$(what_follows "$step" "$log")"
    tail -1 "$log" | grep -q '^== ended well' || failed=1
done
exit $failed
