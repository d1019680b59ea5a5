#!/bin/bash
# The check of circles reports files that use each other, with the names by which they do, and nothing else.
set -eu
check=$(dirname "$0")/../../tools/check-circles.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{tools,src/graph/ops,src/train}

put() { printf '%s\n' "${@:2}" >"$tree/src/$1"; }
# Uses in one direction; a name in a comment or a text, a member, a static function and a header are no uses.
put graph/graph.h 'int ls_node(int n);' '#define OPS(X) X(add), X(sum)'
put graph/graph.c '/* ls_find */' 'int ls_node(int n) {' '    return n > 0 ? at.ls_find + log("ls_find") : 0;' '}'
put graph/table.c '#define ROW(name) &ls_op_##name' 'static const ls_op *const table[] = {OPS(ROW)};' \
    'const ls_op *ls_find(int n) { return ls_node(n) ? table[n] : 0; }'
put graph/ops/add.c 'static int shape(int (*f)(int), int n) { return ls_node(n); }' 'const ls_op ls_op_add = {.shape = shape};'
put graph/ops/sum.c 'static int helper(int n) { return n; }' 'const ls_op ls_op_sum = {.shape = helper};'
put graph/own.c 'static const ls_op table = {1},' '                   shape = {2};' 'int ls_own(void) { return helper(table, shape); }'
put train/a.c 'int helper(int n) { return ls_find(n); }'
"$check" "$tree" || { echo "a tree without a circle is refused"; exit 1; }

# expect WORDS ...: the check fails, and says of a circle all of these.
expect() {
    local found words
    found=$("$check" "$tree" 2>&1) && { echo "no circle found; expected $*"; exit 1; }
    for words in "$@"; do grep -qF "$words" <<<"$found" || { echo "expected $words in:"; echo "$found"; exit 1; }; done
    [ "$(grep -c '^a circle' <<<"$found")" -le 1 ] || { echo "expected one circle:"; echo "$found"; exit 1; }
}
# A table, whose rows a macro names, and a row that calls what stands beside the table.
put graph/ops/add.c 'static int shape(int n) { return ls_find(n) != 0; }' 'const ls_op ls_op_add = {.shape = shape};'
expect 'a circle in src/graph: graph/ops/add.c graph/table.c' 'src/graph/ops/add.c uses ls_find of src/graph/table.c' \
    'src/graph/table.c uses ls_op_add of src/graph/ops/add.c'

# An allowed circle passes; without a reason, or when it is no more, its line is reported.
printf '%s\n' '# comment' 'graph/ops/add.c graph/table.c: rows find each other' >"$tree/tools/circles.txt"
"$check" "$tree" || { echo "an allowed circle is refused"; exit 1; }
echo 'graph/graph.c graph/own.c: gone' >>"$tree/tools/circles.txt"
expect 'tools/circles.txt:3: there is no such circle'
echo 'graph/ops/add.c graph/table.c:' >"$tree/tools/circles.txt"
expect 'tools/circles.txt:1: no reason'
rm "$tree/tools/circles.txt"

# Three files, by a variable and a function whose result is a pointer.
put graph/ops/add.c 'const ls_op ls_op_add = {.shape = 0};'
put train/a.c 'int ls_a(void) {' '    return ls_b[0];' '}'
put train/b.c 'const int ls_b[] = {1};' 'int ls_d(void) { return *ls_c(1); }'
put train/c.c 'const int *ls_c(int n) {' '    return n + ls_a();' '}'
expect 'train/a.c uses ls_b of src/train/b.c' 'train/b.c uses ls_c of src/train/c.c' 'train/c.c uses ls_a of src/train/a.c'
