#!/bin/bash
# The installed files are what a user needs: each public header compiles alone in C and in C++, the shared library
# exports the functions of the public headers and nothing else, and programs in both languages run with the shared and
# with the static library.
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -z "${LS_TEST_SANITIZER:-}" ] || exit 0 # the programs would need the same sanitizer
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder" >/dev/null

# ---- headers ----
for header in "$folder"/include/longspan/*.h; do
    printf '#include <longspan/%s>\nextern int nothing_else;\n' "$(basename "$header")" >"$folder/one.c"
    cp "$folder/one.c" "$folder/one.cc"
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$folder/include" -fsyntax-only "$folder/one.c"
    c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$folder/include" -fsyntax-only "$folder/one.cc"
done

# ---- symbols ----
for header in "$folder"/include/longspan/*.h; do printf '#include <longspan/%s>\n' "$(basename "$header")"; done >"$folder/all.c"
cc -E -P -I"$folder/include" "$folder/all.c" | sed 's/static inline ls_status ls_[a-z_]*(//' |
    grep -oE '\bls_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$folder/declared"
nm -D --defined-only "$folder/lib/liblongspan.so" | awk '{ print $3 }' | sort >"$folder/visible"
diff "$folder/declared" "$folder/visible" || { echo "declared (<) and visible (>) functions differ"; exit 1; }
[ "$(wc -l <"$folder/visible")" -gt 60 ]

# ---- programs ----
export PKG_CONFIG_PATH=$folder/lib/pkgconfig
shared=$(pkg-config --cflags --libs longspan)
static=$(pkg-config --static --cflags --libs longspan | sed 's/-llongspan/-l:liblongspan.a/')
# shellcheck disable=SC2086 # words are meant
{
    c++ -std=c++11 -Wall -Wextra -Werror "$root/tests/library/user.cc" $shared -Wl,-rpath,"$folder/lib" -o "$folder/user-shared"
    c++ -std=c++11 -Wall -Wextra -Werror "$root/tests/library/user.cc" $static -o "$folder/user-static"
    cc -std=c11 -Wall -Wextra -Werror "$root/examples/library/attention.c" $static -o "$folder/attention-static"
}
if ldd "$folder/user-static" | grep -q liblongspan; then exit 1; fi
"$folder/user-shared" | tee "$folder/said"
"$folder/user-static" | cmp - "$folder/said"
"$folder/attention-static" 2 >/dev/null
