#!/bin/bash
# What of a delay of every put a training step waits for, where gradients and parameters are cut over 2 ranks and where the optimiser's state is:
#     bench/exposed_shard.sh BUILD [STEPS [SEQ [SECONDS [CONFIG]]]]
# STEPS (4) steps of SEQ (2048) tokens on random weights, bf16, blocks put, each mesh and --shard without a delay and with SECONDS (0.005) from each put
# to its signal (the transport chaos, which delays messages in both of them), in turn. A line for each: the medians of seconds and of wait_seconds of the
# steps after the first; the puts of a rank in a step (explain) and SECONDS for each of these; and how much of that is hidden: what neither the waits
# nor the step are longer by. CONFIG: a model, bench/models/100m when left out.
set -u
build=$(cd "$1" && pwd) steps=${2:-4} seq=${3:-2048} seconds=${4:-0.005}
here=$(cd "$(dirname "$0")/.." && pwd)
config=$(realpath "${5:-$here/bench/models/100m}")
work=$(mktemp -d)
trap '{ kill -9 "${pid:-}" && wait "$pid"; } 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$here"/docs/*.md . # a text

# measure MESH SHARD DELAY OPTIONS...: a training until its last step, whose metrics go to MESH-SHARD-DELAY.jsonl.
measure() {
    local mesh=$1 shard=$2 delay=$3
    shift 3
    rm -rf run
    LONGSPAN_TRANSPORTS=chaos:1:$delay "$build/longspan" train --model "$config" --data ./*.md --seq "$seq" --mesh "$mesh" --shard "$shard" --transfers put \
        --threads 1 --dtype bf16 --steps 1000 --warmup 0 --save-every 0 --out run "$@" >out 2>&1 &
    pid=$!
    while [ ! -e run/metrics.jsonl ] || [ "$(wc -l <run/metrics.jsonl)" -lt "$steps" ]; do
        kill -0 $pid 2>/dev/null || { tail -3 out; exit 1; }
        sleep 0.2
    done
    cp run/metrics.jsonl "$mesh-$shard-$delay.jsonl"
    { kill -9 $pid && wait $pid; } 2>/dev/null
}
for mesh in ring=2 dp=2; do
    for shard in optimizer parameters; do
        options=(--batch "$([ $mesh = dp=2 ] && echo 2 || echo 1)")
        for delay in 0 "$seconds"; do measure $mesh $shard "$delay" "${options[@]}"; done
        "$build/longspan" explain --model "$config" --seq "$seq" --mesh $mesh --shard $shard --transfers put --threads 1 --dtype bf16 "${options[@]}" |
            sed -n 's/^program step .* in \([0-9]*\) puts$/\1/p' >$mesh-$shard.puts
    done
done
python3 - "$seconds" <<'TABLE'
import json, statistics, sys
delay = float(sys.argv[1])
def median(mesh, shard, seconds, field):
    lines = [json.loads(line) for line in open(f"{mesh}-{shard}-{seconds}.jsonl")][1:]
    return statistics.median(line[field] for line in lines)
print(f"{'mesh':<8} {'shard':<12} {'seconds':>8} {'delayed':>8} {'waits':>8} {'delayed':>8} {'puts':>6} {'injected':>9} {'hidden: of waits':>17} {'of steps':>9}")
for mesh in "ring=2", "dp=2":
    for shard in "optimizer", "parameters":
        step, late, wait, late_wait = (median(mesh, shard, s, f) for f in ("seconds", "wait_seconds") for s in ("0", sys.argv[1]))
        puts = int(open(f"{mesh}-{shard}.puts").read())
        injected = puts * delay
        hidden = [1 - (b - a) / injected for a, b in ((wait, late_wait), (step, late))]
        print(f"{mesh:<8} {shard:<12} {step:>8.3f} {late:>8.3f} {wait:>8.3f} {late_wait:>8.3f} {puts:>6} {injected:>9.3f} {hidden[0]:>17.1%} {hidden[1]:>9.1%}")
TABLE
