#!/bin/bash
# The check of words reports each kind of violation at the right line, and nothing in a correct tree.
set -eu
check=$(dirname "$0")/../../tools/check-words.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{src/base,include,docs}
printf '# Glossary\n\n## Not used\n\nflobber, wibble: refused.\n' >"$tree/docs/glossary.md"
good='/* What base.c says of ls_thing; see base/base.h, NAME.c and x.c. */'
printf '%s\n' "$good" 'typedef struct ls_thing {' '    int a;' '} ls_thing;' >"$tree/src/base/base.h"
printf 'int a = job.c;\n' >"$tree/src/base/base.c"
"$check" "$tree" || { echo "a tree without a violation is refused"; exit 1; }

# expect FILE:LINE WORDS: the check fails and prints this place and these words on its only line.
expect() {
    local found
    found=$("$check" "$tree") && { echo "no violation found; expected $1 $2"; exit 1; }
    [ "$(wc -l <<<"$found")" -eq 1 ] || { echo "expected one violation:"; echo "$found"; exit 1; }
    grep -F "$1" <<<"$found" | grep -qF "$2" || { echo "expected $1 $2 in:"; echo "$found"; exit 1; }
    rm "$tree/${1%%:*}"
}
put() { printf '%s\n' "${@:2}" >"$tree/$1"; }
put src/base/worse.h '' 'typedef struct ls_thing {' '    int b;' '} ls_thing;'; expect src/base/worse.h:2 'ls_thing is defined in src/base/base.h:2'
put src/base/bad.c '' 'int free_flobbers(void);';                              expect src/base/bad.c:2 '"flobber" is retired'
put src/base/bad.c '/* As in' ' * base/gone.c. */';                           expect src/base/bad.c:2 'no file base/gone.c'
put src/base/bad.c '/* "%g" */' 'snprintf(a, n, "%d" B, x);' 'snprintf(a, n, "%s %.*f", b, (c), d);'; expect src/base/bad.c:3 'snprintf depends on the locale'
put src/base/bad.c 'x = strtod(a, &b);';                                      expect src/base/bad.c:1 'strtod depends on the locale'
put src/base/bad.c 'vsnprintf(a, n, format, b);';                             expect src/base/bad.c:1 'vsnprintf depends on the locale'
put src/base/bad.c 'strftime(a, n, "%Y", t), strftime(a, n, "%b", t);';       expect src/base/bad.c:1 'strftime depends on the locale'
put docs/bad.md 'See `gone.h`.';                                              expect docs/bad.md:1 'no file gone.h'
