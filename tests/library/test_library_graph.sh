#!/bin/bash
# A user's own network (examples/library/graph.c) compiles against the installed headers by pkg-config, learns its
# task, and shows the same losses on 1, 2 and 4 ranks and under another strategy.
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -z "${LS_TEST_SANITIZER:-}" ] || exit 0 # the example would need the same sanitizer
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir -p "$folder/lib/pkgconfig" "$folder/include"
cp -r "$root/include/longspan" "$folder/include/"
cp "$build"/liblongspan.so* "$folder/lib/"
cp "$build/longspan.pc" "$folder/lib/pkgconfig/"
export PKG_CONFIG_PATH=$folder/lib/pkgconfig
command -v pkg-config >/dev/null || # what it would say
    pkg-config() { echo "-I$folder/include -L$folder/lib -llongspan"; }
# shellcheck disable=SC2046 # words are meant
cc -std=c11 -Wall -Wextra -Werror "$root/examples/library/graph.c" $(pkg-config --cflags --libs longspan) -lm \
    -Wl,-rpath,"$folder/lib" -o "$folder/graph"

for how in "1" "2" "4" "3 ring" "2 ulysses"; do
    # shellcheck disable=SC2086
    "$folder/graph" $how >"$folder/said.${how// /-}"
    grep '^step' "$folder/said.${how// /-}" | cut -c1-22 >"$folder/losses.${how// /-}" # loss to three digits
done
head -1 "$folder/said.4"
tail -1 "$folder/said.4"
for how in 2 4 3-ring 2-ulysses; do cmp "$folder/losses.1" "$folder/losses.$how"; done
awk '/^loss/ { exit !($2 > 2.5 && $4 < 0.05) }' "$folder/said.4" # from about ln 16 to knowing it
