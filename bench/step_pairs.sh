#!/bin/bash
# The time of a training step with one --shard over that with another, pair by pair:
#     bench/shard_pairs.sh BUILD [PAIRS [SEQS [RANKS [OPTIONS...]]]]
# PAIRS (7) pairs of `bench step` (bf16, bench/models/100m, RANKS (2) of one thread) at each S of SEQS ("2048 8192"): --shard parameters over optimizer,
# who goes first in turn. Each bench warms up by a step and takes the median of ROUNDS (3, in the environment) more. A line for each S: the medians of
# both, and the median and the quartiles of the pairs' ratios. OPTIONS go to `bench step`. The machine should be idle.
set -u
build=$(cd "$1" && pwd) pairs=${2:-7} seqs=${3:-2048 8192} ranks=${4:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
shift $(($# < 4 ? $# : 4))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measure PAIR SEQ SHARD OPTIONS...: a line "SEQ PAIR SHARD SECONDS".
measure() {
    local pair=$1 seq=$2 shard=$3
    shift 3
    "$build/longspan" bench step --config "$here/bench/models/100m" --seq "$seq" --ranks "$ranks" --threads 1 --dtype bf16 --rounds "${ROUNDS:-3}" \
        --shard "$shard" --json "$@" >"$work/json" 2>"$work/err" || { tail -1 "$work/err"; exit 1; }
    python3 -c 'import json, sys; print(*sys.argv[2:], json.load(open(sys.argv[1]))["seconds"])' "$work/json" "$seq" "$pair" "$shard" >>"$work/all"
}
for seq in $seqs; do
    for ((pair = 0; pair < pairs; pair++)); do
        both=(optimizer parameters)
        ((pair % 2 == 0)) || both=(parameters optimizer)
        for shard in "${both[@]}"; do measure $pair "$seq" "$shard" "$@"; done
    done
done
python3 - "$work/all" <<'TABLE'
import statistics, sys
pairs = {}
for line in open(sys.argv[1]):
    seq, pair, shard, seconds = line.split()
    pairs.setdefault(int(seq), {}).setdefault(pair, {})[shard] = float(seconds)
print(f"{'S':>6} {'pairs':>6} {'optimizer':>10} {'parameters':>11} {'ratio':>7}  quartiles")
for seq, of in pairs.items():
    ratios = [p["parameters"] / p["optimizer"] for p in of.values()]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    medians = [statistics.median(p[shard] for p in of.values()) for shard in ("optimizer", "parameters")]
    print(f"{seq:>6} {len(ratios):>6} {medians[0]:>9.3f}s {medians[1]:>10.3f}s {middle:>7.3f}  {low:.3f} to {high:.3f}")
TABLE
