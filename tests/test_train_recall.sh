#!/bin/bash
# A small model learns to recall what only other ranks hold: gradients cross ranks. test_train_recall.sh BUILD
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
flags=()
steps=1000
if [ "${LS_TEST_SANITIZER:-}" != "" ]; then # forty times slower: only that it runs, on a target that nobody misses
    flags=(--target 0.0)
    steps=20
    [ "$LS_TEST_SANITIZER" = thread ] && flags+=(--ranks-as threads)
fi
"$root/examples/recall/run.sh" --build "$1" --seq 512 --ranks 4 --steps "$steps" "${flags[@]}" | tee /dev/stderr |
    grep -q '100.0 % of them copied from another rank'
