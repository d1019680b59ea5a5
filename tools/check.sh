#!/bin/bash
# The tests behind `make check` and `make check-long`:  check.sh BUILD short|long
#   1. the suite of that tier, with the processor's own instruction set, or no more than ISA
#   2. the tests of tests/by_isa.txt with lesser instruction sets, some of them with fewer cases: short: base and avx2 (those between have the same
#      kernels in wider vectors, which tests of kernels go through in part 1), long: all
#   3. on x86, those of tests/by_isa.txt that say so on an emulated Haswell, which has no AVX-512: it faults where a limit is not heeded
# ISA, from the environment: base, avx2, avx512 ...; the last line counts the cases of all parts.
set -u
[ $# -eq 2 ] && [ -d "$1" ] || { echo "usage: check.sh BUILD short|long" >&2; exit 2; }
build=$1 tier=$2
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${ISA:-}" ]; then export LONGSPAN_ISA=$ISA; fi
# Kernels for CUDA compiled for this host: elements of an operand that the long tier goes up to.
if [ "$tier" = long ]; then export LS_TEST_MOST_ELEMENTS=${LS_TEST_MOST_ELEMENTS:-80000}; fi
# The instruction set of this process, and all within it: "avx512" and "base avx2 avx512".
read -r own sets < <("$build/longspan" version --json |
    python3 -c 'import json, sys; v = json.load(sys.stdin); print(v["isa"], v["isas"].replace(",", ""))')
[ -n "$sets" ] || exit 1 # what is wrong was said

# part HEADING TIER [LIST]: runs a part of the tests, and keeps its counts.
passed=0 failed=0
part() {
    echo "---- $1"
    TEST_LIST=${3:-} "$here/tools/run-tests.sh" "$build" "$2" |
        awk -v counts="$work/counts" '
            held != "" { print held; held = "" } # a line of a failed test that only looks like the last one
            /^[0-9]+ passed, [0-9]+ failed$/ { held = $0; next }
            { print; fflush() }
            END { split(held, word); if (held != "") print word[1], word[3] >counts }'
    local p=0 f=1
    read -r p f <"$work/counts"
    rm -f "$work/counts"
    ((p + f > 0)) || f=1 # a part without a test proves nothing
    passed=$((passed + p)) failed=$((failed + f))
}

# The names in tests/by_isa.txt whose line has this word.
tests_for() { awk -v word="$1" '!/^#/ && $2 ~ word { print $1 }' "$here/tests/by_isa.txt" >"$work/$1"; }
tests_for all
tests_for haswell

part "instruction set $own" "$tier"
if grep -q '^LONGSPAN_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then sets=$own; fi # a sanitizer's run is long enough
for isa in $sets; do
    [[ "$tier" = short && "$isa" != base && "$isa" != avx2 ]] && continue
    [ "$isa" = "$own" ] || LS_TEST_REPEATED=1 LONGSPAN_ISA=$isa part "instruction set $isa" short "$work/all"
done
if [[ " $sets " == *" avx2 "* ]]; then
    # A limit above AVX2 is none there, and would be refused.
    LONGSPAN_ISA=${ISA:+avx2} TEST_EMULATOR='qemu-x86_64 -cpu Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid' \
        part "an emulated processor with AVX2 and no AVX-512" short "$work/haswell"
fi
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
