#!/bin/bash
# Builds the recall example against a build folder and runs it:  run.sh [--build FOLDER] [flags of recall]
# Flags: --seq 4096 --ranks 4 --batch 8 --steps 1500 --lr 0.003 --target 0.99 --seed 1 --strategy NAME --mesh ... --ranks-as threads
#        --compare FOLDER: on one rank first, then on --ranks; a table, and FOLDER/curves.svg
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build
if [ "${1:-}" = --build ]; then
    build=$(cd "$2" && pwd)
    shift 2
fi
[ -e "$build/liblongspan.a" ] || { echo "run.sh: $build/liblongspan.a is not there; run make first" >&2; exit 1; }
program=$(mktemp -t recall.XXXXXX)
trap 'rm -f "$program"' EXIT
sanitizer=$(sed -n 's/^LONGSPAN_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
# libraries that the static library needs
libraries=$(sed -n "s/^Libs.private://p" "$build/longspan.pc")
cc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra ${sanitizer:+-g -fsanitize=$sanitizer} -I"$root/include" -I"$root/src" \
    "$here"/{recall,compare,task}.c "$build/liblongspan.a" $libraries -o "$program"
cd "$root"
"$program" "$@"
