#!/bin/bash
# The demo at its smallest sizes: the last screen fits a terminal, and the files that it names exist.
set -eu
[ -z "${LS_TEST_SANITIZER:-}" ] || exit 0 # forty times slower, and nothing of its own to find
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; cat "$folder/said"; exit 1; }

# A build folder of its own, in which everything is built.
mkdir "$folder/build"
for name in longspan liblongspan.a longspan.pc CMakeCache.txt; do ln -s "$build/$name" "$folder/build/$name"; done
printf 'rule nothing\n  command = true\nbuild all: phony\n' >"$folder/build/build.ninja"
export DEMO_TEXT=$root/docs DEMO_SIZE=small DEMO_STEPS=12 DEMO_RECALL_SEQ=128 DEMO_RECALL_STEPS=20
DEMO_RATE=1000 "$root/tools/demo.sh" "$folder/build" >"$folder/said" 2>&1 || fail "the demo"
sed -n '/^──/,$p' "$folder/said" >"$folder/screen"
[ "$(wc -l <"$folder/screen")" -le 31 ] || fail "more than 31 lines"
python3 - "$folder/screen" <<'CHECK' || fail "more than 100 columns, apart from paths"
import sys
assert not [line for line in open(sys.argv[1], encoding="utf-8") if len(line) > 101 and "/" not in line]
CHECK
grep -q '^  1 rank, alone .* MiB in each rank' "$folder/screen" || fail "the table"
for path in $(grep -o '[^ ]*\.svg' "$folder/screen") $(sed -n 's/^checkpoint  //p' "$folder/screen"); do
    [ -e "$root/$path" ] || [ -e "$path" ] || fail "$path is not there"
done
grep -q '^checkpoint ' "$folder/screen" || fail "no checkpoint"

# The sizes follow the measured rate.
grep -q 'chosen: recall over 128 tokens, the small model' "$folder/said" || fail "what was chosen"
echo ok
