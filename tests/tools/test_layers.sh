#!/bin/bash
# The layer check reports each kind of violation at the right line, and nothing in a correct tree.
set -eu
check=$(dirname "$0")/../../tools/check-layers.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/src/{base,tensor,comm/shm,kernel/cpu,graph,format,compile/redistribute,checkpoint,cli} "$tree/include/longspan"
touch "$tree"/include/longspan/graph.h "$tree"/src/{base/base.h,base/base_impl.h,tensor/tensor.h,comm/comm.h} \
    "$tree"/src/{kernel/kernel.h,graph/graph.h,format/format.h,cli/cli.h,comm/shm/shm.h}

put() { printf '%s\n' "${@:2}" >"$tree/src/$1"; }
put base/a.c '#include "base/base_impl.h"' '#include "longspan/graph.h"' '#include "ls_version.h"'
put graph/a.c '#include "graph/graph.h"' '#include "tensor/tensor.h"' '#include <math.h>'
put comm/shm/a.c '#include "comm/shm/shm.h"' '#include "comm/comm.h"' '#include "base/base.h"'
put cli/a.c '#include "cli/cli.h"' '#include "longspan/graph.h"'
put kernel/cpu/a.c '#include <dnnl.h>' '#include <dnnl_types.h>' '#include "kernel/kernel.h"'
put format/a.c '#include <jansson.h>'
put compile/redistribute/a.c 'ls_build_send(b, channel, peer, from, to);'
"$check" "$tree" || { echo "a tree without a violation is refused"; exit 1; }

# expect FILE:LINE WORDS: the check fails and prints this place and these words on one line.
expect() {
    local found
    if found=$("$check" "$tree"); then
        echo "no violation found; expected $1 $2"
        exit 1
    fi
    grep -F "$1" <<<"$found" | grep -qF "$2" || { echo "expected $1 $2 in:"; echo "$found"; exit 1; }
    [ "$(wc -l <<<"$found")" -eq 2 ] || { echo "expected one violation:"; echo "$found"; exit 1; }
    rm -r "$tree/src/${1%%:*}"
}
put base/bad.c '' '#include "tensor/tensor.h"';       expect base/bad.c:2 'level 0'
put tensor/bad.c '#include "comm/comm.h"';            expect tensor/bad.c:1 'level 1'
put kernel/bad.c '#include "graph/graph.h"';          expect kernel/bad.c:1 'level 2'
put tensor/bad.h '#include "base/base_impl.h"';       expect tensor/bad.h:1 'src/base alone'
put graph/bad.c '#include "graph.h"';                 expect graph/bad.c:1 'not a path'
put graph/bad.c '#include "longspan/absent.h"';       expect graph/bad.c:1 'not in include'
put graph/bad.c '#include <jansson.h>';               expect graph/bad.c:1 'src/format alone'
put kernel/bad.c '#include <dnnl.h>';                 expect kernel/bad.c:1 'src/kernel/cpu alone'
put compile/bad.c '' '    ls_build_send(b, channel, peer, from, to);'
expect compile/bad.c:2 'ls_build_send belongs to src/compile/redistribute'
put checkpoint/bad.c '    x = image->flat_elements;'
expect checkpoint/bad.c:1 '8 files know the flat space'
for i in $(seq 601); do echo "int a$i;"; done >"$tree/src/graph/bad.c"
expect graph/bad.c:601 'at most 600'
{ echo 'int f(void) {'; for i in $(seq 79); do echo "    g($i);"; done; echo '}'; } >"$tree/src/graph/bad.c"
expect graph/bad.c:1 'a function of 81 lines'
{ echo 'typedef struct ls_builder {'; for i in $(seq 15); do echo "    int a$i;"; done; echo '    int b, c;'; echo '} ls_builder;'; } >"$tree/src/compile/bad.h"
expect compile/bad.h:18 'ls_builder has 17 fields'
mkdir -p "$tree/src/compile" && touch "$tree/src/compile/pass.h"
put compile/lower.c '#include "compile/pass.h"';      expect compile/lower.c:1 'must know nothing of'
mkdir "$tree/src/odd"
expect odd:0 'without a level'
