#!/bin/bash
# tools/check.sh runs the suite with the processor's instruction set and again with lesser ones, obeys ISA, and counts
# all parts. The test runner and the commands refuse an instruction set that the machine lacks.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1" >&2; cat "$folder/said" >&2; exit 1; }
unset LONGSPAN_ISA

# A tree in which every part has one test that prints the limit it runs under.
mkdir -p "$folder/tree/tests/base" "$folder/tree/tools"
cp "$here/tools/check.sh" "$here/tools/run-tests.sh" "$folder/tree/tools/"
: >"$folder/tree/tests/not_emulated.txt"
printf '#!/bin/bash\necho "limit ${LONGSPAN_ISA:-none}" >>%s\n' "$folder/limits" >"$folder/tree/tests/base/test_say.sh"
echo 'test_say all' >"$folder/tree/tests/by_isa.txt"
check() { ISA=$1 "$folder/tree/tools/check.sh" "$build" short >"$folder/said" 2>&1; }

[ -z "$(sed -n 's/^LONGSPAN_SANITIZE:STRING=//p' "$build/CMakeCache.txt")" ] || { echo '[  SKIPPED ] sanitizer'; exit 0; }
check base || fail 'ISA=base fails'
[ "$(cat "$folder/limits")" = 'limit base' ] || fail 'ISA=base runs more than base'
[ "$(tail -1 "$folder/said")" = '1 passed, 0 failed' ] || fail 'ISA=base counts wrongly'
rm "$folder/limits"

sets=$("$build/longspan" version | sed -n 's/^isa .*(of \(.*\))$/\1/p' | tr -d ,)
[ "${sets%% *}" = base ] || { echo "version lists instruction sets '$sets'" >&2; exit 1; }
if [ "$(uname -m)" = x86_64 ] && [[ " $sets " == *" avx2 "* ]]; then
    check avx2 && fail 'no test on the emulated processor, and no failure'
    [ "$(cat "$folder/limits")" = $'limit avx2\nlimit base' ] || fail 'ISA=avx2 does not run avx2, then base'
    [ "$(tail -1 "$folder/said")" = '2 passed, 1 failed' ] || fail 'a part without tests is not a failure'
    echo 'test_say all,haswell' >"$folder/tree/tests/by_isa.txt"
    check '' || fail 'the processor'"'"'s own sets fail'
    tried=$(tr ' ' '\n' <<<"$sets" | grep -cxE "base|avx2|${sets##* }")
    [ "$(tail -1 "$folder/said")" = "$((tried + 1)) passed, 0 failed" ] ||
        fail 'not one test for the own instruction set, base and avx2, and one on the emulated processor'
fi
check sse9 && fail 'ISA=sse9 is taken'
grep -q "LONGSPAN_ISA is 'sse9'; expected ref, base" "$folder/said" || fail 'ISA=sse9 is not refused by name'

# Commands: --isa, the environment, and instruction sets that the processor lacks.
if LONGSPAN_ISA=base "$build/longspan" plan --model "$here/examples/tiny" --isa avx2 >"$folder/said" 2>&1; then
    fail '--isa goes beyond LONGSPAN_ISA'
fi
grep -q 'instruction set avx2 (x86-64): .* has no more than base' "$folder/said" || fail '--isa beyond the limit is not refused by name'
LONGSPAN_ISA=base "$build/longspan" version --json >"$folder/said" 2>&1
grep -q '"isa": *"base"' "$folder/said" || fail 'version does not say the limit'
