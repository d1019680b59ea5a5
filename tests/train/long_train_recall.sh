#!/bin/bash
# The recall example as its README gives it: S 4,096 over four ranks, by ring and by Ulysses; and a hybrid over four ranks.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
[ "${LS_TEST_SANITIZER:-}" = "" ] || exit 0 # hours there
"$root/examples/recall/run.sh" --build "$1" --seq 4096 --ranks 4
"$root/examples/recall/run.sh" --build "$1" --seq 1024 --ranks 2 --strategy ulysses
"$root/examples/recall/run.sh" --build "$1" --model examples/recall/hybrid.json --seq 256 --ranks 4 --strategy ring --lr 0.001 --steps 700
