#!/bin/bash
# The time of a training step with some options over that with others, pair by pair:
#     bench/step_pairs.sh BUILD "OPTIONS" "OTHER OPTIONS" [PAIRS [SEQS [MORE...]]]
# PAIRS (7) pairs of `bench step` (bf16, bench/models/100m, 2 ranks of one thread) at each S of SEQS ("2048 8192"): the other options over the first ones,
# who goes first in turn. Each bench warms up by a step and takes the median of ROUNDS (3, in the environment) more. A line for each S: the medians of
# both, and the median and the quartiles of the pairs' ratios. MORE options go to both. The machine should be idle.
#     bench/step_pairs.sh build "--shard optimizer" "--shard parameters"
#     bench/step_pairs.sh build "--shard gradients" "--shard gradients --sums canonical" 5 "1024 4096" --strategy ulysses
set -u
[ $# -ge 3 ] || { sed -n 3p "$0"; exit 2; }
build=$(cd "$1" && pwd) first=$2 other=$3 pairs=${4:-7} seqs=${5:-2048 8192}
here=$(cd "$(dirname "$0")/.." && pwd)
shift $(($# < 5 ? $# : 5))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measure PAIR SEQ WHICH OPTIONS...: a line "SEQ PAIR WHICH SECONDS".
measure() {
    local pair=$1 seq=$2 which=$3
    shift 3
    "$build/longspan" bench step --config "$here/bench/models/100m" --seq "$seq" --ranks 2 --threads 1 --dtype bf16 --rounds "${ROUNDS:-3}" \
        --json "$@" >"$work/json" 2>"$work/err" || { tail -1 "$work/err"; exit 1; }
    python3 -c 'import json, sys; print(*sys.argv[2:], json.load(open(sys.argv[1]))["seconds"])' "$work/json" "$seq" "$pair" "$which" >>"$work/all"
}
for seq in $seqs; do
    for ((pair = 0; pair < pairs; pair++)); do
        both=(first other)
        ((pair % 2 == 0)) || both=(other first)
        for which in "${both[@]}"; do
            read -ra options <<<"${!which}"
            measure $pair "$seq" "$which" "${options[@]}" "$@"
        done
    done
done
echo "first: $first; other: $other${*:+; both: $*}"
python3 - "$work/all" <<'TABLE'
import statistics, sys
pairs = {}
for line in open(sys.argv[1]):
    seq, pair, which, seconds = line.split()
    pairs.setdefault(int(seq), {}).setdefault(pair, {})[which] = float(seconds)
print(f"{'S':>6} {'pairs':>6} {'first':>10} {'other':>10} {'ratio':>7}  quartiles")
for seq, of in pairs.items():
    ratios = [p["other"] / p["first"] for p in of.values()]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    medians = [statistics.median(p[which] for p in of.values()) for which in ("first", "other")]
    print(f"{seq:>6} {len(ratios):>6} {medians[0]:>9.3f}s {medians[1]:>9.3f}s {middle:>7.3f}  {low:.3f} to {high:.3f}")
TABLE
