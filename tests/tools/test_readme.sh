#!/bin/bash
# The README's library example equals examples/library/train.c. It compiles against the public headers, links with the
# shared library, and on two ranks trains to the loss that the command line reaches on one.
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/README.md" >"$folder/readme.c"
cmp "$folder/readme.c" "$root/examples/library/train.c"
[ -z "${LS_TEST_SANITIZER:-}" ] || exit 0 # the rest wants the same sanitizer in the example
cc -std=c11 -Wall -Wextra -Werror -I"$root/include" "$folder/readme.c" -L"$build" -llongspan -Wl,-rpath,"$build" \
    -o "$folder/train"
"$folder/train" "$root/examples/tiny/config.json" "$root/LICENSE" "$folder/out" >"$folder/said" 2>/dev/null
"$build/longspan" train --model "$root/examples/tiny/config.json" --data "$root/LICENSE" --out "$folder/one" --seq 1024 \
    --steps 20 --lr 3e-3 --ranks 1 2>/dev/null >/dev/null
loss=$(sed -n '20s/.*"loss": \([0-9.]*\),.*/\1/p' "$folder/one/metrics.jsonl")
printf 'last loss of one rank by the command: %s; of two by the library: %s\n' "$loss" "$(cat "$folder/said")"
grep -qF -- "-> $(printf '%.3f' "$loss")," "$folder/said"
