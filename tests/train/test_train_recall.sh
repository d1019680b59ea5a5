#!/bin/bash
# A small model learns to recall what only other ranks hold, so gradients must cross ranks.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
flags=()
steps=1000
if [ "${LS_TEST_SANITIZER:-}" != "" ]; then # forty times slower: only that it runs, on a target that nobody misses
    flags=(--target 0.0)
    steps=20
    [ "$LS_TEST_SANITIZER" = thread ] && flags+=(--ranks-as threads)
fi
"$root/examples/recall/run.sh" --build "$1" --seq 512 --ranks 4 --steps "$steps" "${flags[@]}" | tee /dev/stderr |
    grep -q '100.0 % of them copied from another rank'
# One rank beside two: the same losses to rounding while they are steady, and half the memory.
[ -z "${LS_TEST_SANITIZER:-}" ] || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$root/examples/recall/run.sh" --build "$1" --seq 256 --ranks 2 --strategy ring --steps 20 --target 0.01 --compare "$folder" >"$folder/said"
cat "$folder/said"
grep -q '^  1 rank, alone' "$folder/said" && grep -q '^  2 ranks ' "$folder/said"
awk '/MiB in each rank/ { for (i = 1; i < NF; i++) if ($(i + 1) == "MiB") mib[n++] = $i } END { exit !(mib[1] > 0 && mib[1] < 0.75 * mib[0]) }' "$folder/said"
awk '/^  One curve/ { for (i = 1; i < NF; i++) if ($i == "by" && $(i + 1) + 0 <= 0.01) ok++ } END { exit ok < 1 }' "$folder/said"
grep -q '<path' "$folder/curves.svg"
# A hybrid, whose states cross ranks too: the same first losses.
"$root/examples/recall/run.sh" --build "$1" --model examples/recall/hybrid.json --seq 256 --ranks 2 --strategy ring --lr 0.001 --steps 20 --target 0.01 \
    --compare "$folder" >"$folder/said"
cat "$folder/said"
awk '/^  One curve/ { for (i = 1; i < NF; i++) if ($i == "most") ok += $(i + 1) + 0 <= 0.001 } END { exit ok < 1 }' "$folder/said"
