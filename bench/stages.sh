#!/bin/bash
# Training steps on stages of a pipeline beside other ways to spread the same step, predicted and measured:
#     bench/stages.sh BUILD "WORD..." SEQ BATCH [STEPS [CONFIG]]
# A WORD is a way to spread, options with commas between: pp=2,1f1b or pp=2,zero-bubble (micro-batches of one sequence), pp=2,1f1b,slices=8 (one
# micro-batch of the whole batch in 8 slices, or of one sequence each), dp=2, ring=2, ulysses=2, one. bf16, random weights, one thread a rank, STEPS (4)
# steps on a text, of which the first warms up; CONFIG: a model, bench/models/28m when left out. All ways take turns, twice. A line for each: the seconds
# of a step by `longspan plan`, the median of those measured, their ratio, and what of it rank 0 waits. Run `longspan bench machine` first; the machine
# should be idle.
#     bench/stages.sh build "dp=2 ring=2 pp=2,1f1b pp=2,zero-bubble pp=2,interleaved:2" 2048 8
#     bench/stages.sh build "ring=2 ulysses=2 pp=2,1f1b,slices=4 pp=2,1f1b,slices=8 pp=2,1f1b,slices=16" 16384 1
set -u
[ $# -ge 4 ] || { sed -n 3p "$0"; exit 2; }
build=$(cd "$1" && pwd) seq=$3 batch=$4 steps=${5:-4}
read -ra ways <<<"$2"
here=$(cd "$(dirname "$0")/.." && pwd)
config=$(realpath "${6:-$here/bench/models/28m}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# options WAY: what train and plan take for it, a word a line.
options() {
    local words=${1//,/ } word mesh="" more="" micro=$batch
    for word in $words; do
        case $word in
            one) mesh=dp=1 ;;
            dp=*) mesh=$word micro=$((batch / ${word#dp=})) ;;
            pp=* | ring=* | ulysses=*) mesh=${mesh:+$mesh,}$word ;;
            slices=*) more+=" --slices ${word#slices=}" ;;
            *) more+=" --pipeline $word" ;;
        esac
    done
    echo "--mesh $mesh --accumulate $micro$more"
}
for round in 1 2; do
    for way in "${ways[@]}"; do
        read -ra more <<<"$(options "$way")"
        both=(--model "$config" --seq "$seq" --batch "$batch" --dtype bf16 --threads 1 "${more[@]}")
        [ $round = 2 ] || "$build/longspan" plan "${both[@]}" --json >"$work/$way.plan" 2>"$work/err" || { tail -1 "$work/err"; exit 1; }
        "$build/longspan" train "${both[@]}" --data "$here"/docs/*.md "$here"/docs/*/*.md --steps "$steps" --warmup 0 --save-every 0 --out "$work/run" >"$work/err" 2>&1 ||
            { tail -1 "$work/err"; exit 1; }
        cat "$work/run/metrics.jsonl" >>"$work/$way.$round"
        rm -rf "$work/run"
    done
done
echo "S $seq x $batch of $(basename "$config"), seconds of a step; each way: predicted, measured (least to most), predicted/measured, rank 0 waits"
python3 - "$work" "${ways[@]}" <<'TABLE'
import json, statistics, sys
work, ways = sys.argv[1], sys.argv[2:]
for way in ways:
    plan = json.load(open(f"{work}/{way}.plan"))["candidates"][0]
    steps = []
    for round in (1, 2):
        lines = [json.loads(line) for line in open(f"{work}/{way}.{round}")]
        steps += [line for line in lines if "loss" in line and "seconds" in line][1:]
    seconds = [step["seconds"] for step in steps]
    median = statistics.median(seconds)
    waits = statistics.median(step.get("wait_seconds", 0) for step in steps)
    print(f"{way:28} {plan['seconds']:8.2f} {median:8.2f} ({min(seconds):.2f} to {max(seconds):.2f}) {plan['seconds'] / median:6.2f} {100 * waits / median:5.0f} %")
TABLE
