#!/bin/bash
# Attention alone (examples/library/attention.c) compiles against the public headers as a user compiles it. The
# example itself compares any number of ranks and any strategy with one rank.
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -z "${LS_TEST_SANITIZER:-}" ] || exit 0 # the example would need the same sanitizer
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -std=c11 -Wall -Wextra -Werror -I"$root/include" "$root/examples/library/attention.c" -L"$build" -llongspan -lm \
    -Wl,-rpath,"$build" -o "$folder/attention"
for how in "2" "3" "4" "2 ring" "3 ulysses" "4 usp"; do
    # shellcheck disable=SC2086
    "$folder/attention" $how >"$folder/said" || { cat "$folder/said"; exit 1; }
    echo "$how: $(grep -c differs "$folder/said") results compared"
done
if "$folder/attention" 2 none >/dev/null 2>"$folder/said"; then exit 1; fi
grep -q 'strategy "none" is not known' "$folder/said"
