#!/bin/bash
# Runs the tests of a build folder:  run-tests.sh BUILD short|long [WORD]
# WORD: only tests whose name holds it. `long` runs the short tier too.
# One line per test, the whole output of those that fail, and a last line "N passed, N failed" that counts single cases.
# A test is an executable of cmocka (tests/FOLDER/test_*.c, long_*.c) or a script (test_*.sh, long_*.sh; one case, given BUILD).
# From the environment: TEST_JOBS tests at once (3: on two cores there is often one that waits),
# TEST_TIMEOUT seconds for each (300, under an emulator 1200; long tests 7200),
# TEST_LIST: a file with the names of the tests to run, one a line, in that order (all when empty),
# TEST_EMULATOR: what to start programs of the build with ("qemu-x86_64 -cpu Haswell"); tests/not_emulated.txt is then left out.
set -u
[ $# -ge 2 ] && [ -d "$1" ] || { echo "usage: run-tests.sh BUILD short|long [WORD]" >&2; exit 2; }
build=$(cd "$1" && pwd)
tier=$2
word=${3:-}
here=$(cd "$(dirname "$0")/.." && pwd)
jobs=${TEST_JOBS:-3}
read -ra emulator <<<"${TEST_EMULATOR:-}"
limit_short=$((${#emulator[@]} > 0 ? 1200 : 300))
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# The build folder that scripts are given. Under an emulator it is one that holds links to all that is in the real one, but for the binary:
# in its place stands a script that starts it by the emulator.
script_build=$build
if ((${#emulator[@]} > 0)); then
    script_build=$results/build
    mkdir "$script_build"
    ln -s "$build"/* "$script_build/"
    rm "$script_build/longspan"
    printf '#!/bin/sh\nexec %s %s "$@"\n' "${emulator[*]}" "$build/longspan" >"$script_build/longspan"
    chmod +x "$script_build/longspan"
fi
# Whether the test is to run here.
is_wanted() {
    [[ $1 == *"$word"* ]] && { ((${#emulator[@]} == 0)) || ! grep -q "^${1%.*}  *" "$here/tests/not_emulated.txt"; }
}

# What a test can know of the build that it runs in.
LS_TEST_SANITIZER=$(sed -n 's/^LONGSPAN_SANITIZE:STRING=//p' "$build/CMakeCache.txt" 2>/dev/null)
export LS_TEST_SANITIZER
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:suppressions=$(cd "$(dirname "$0")" && pwd)/tsan.supp}
export CMOCKA_MESSAGE_OUTPUT=stdout
export XDG_CACHE_HOME=$results/cache # predictions by nominal rates, whatever was measured on this machine

# Runs one test; leaves NAME.out and NAME.counts ("passed failed") in $results, prints the line for it.
run_one() {
    local source=$1 name limit=${TEST_TIMEOUT:-$limit_short} begin status passed failed skipped verdict
    name=$(basename "$source")
    name=${name%.*}
    [[ $name == long_* ]] && limit=${TEST_TIMEOUT:-7200}
    local out=$results/$name.out
    local command=("${emulator[@]}" "$build/tests/$name")
    [[ $source == *.sh ]] && command=(bash "$source" "$script_build")
    # A test in C keeps the memory that it frees: to give back and clear pages takes a tenth of the suite.
    [[ $source == *.c && -z $LS_TEST_SANITIZER ]] &&
        command=(env MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 "${command[@]}")
    begin=$EPOCHREALTIME
    { timeout -k 5 "$limit" "${command[@]}" >"$out" 2>&1 </dev/null; } 2>/dev/null
    status=$?
    if [[ $source == *.sh ]]; then
        passed=$((status == 0)) failed=$((status != 0))
    else
        passed=$(grep -ac '\[       OK \] ' "$out")
        # A group that fails lists its cases once more at its end; lines there look the same, so count names once.
        failed=$(grep -aoE '\[  FAILED  \] [A-Za-z_][A-Za-z_0-9]*' "$out" | grep -v ' tests$' | sort -u | wc -l)
    fi
    skipped=$(grep -aoE '\[  SKIPPED \] [A-Za-z_][A-Za-z_0-9]*' "$out" | sort -u | wc -l)
    if [[ $source == *.c ]] && ((failed == 0)); then
        # A crash or a sanitizer's report ends a test without such a line; a test without cases proves nothing.
        if ((status != 0 || passed + skipped == 0)); then failed=1; fi
    fi
    verdict=ok
    ((skipped > 0)) && verdict="ok ($skipped skipped, not counted)"
    [[ $source == *.sh ]] && ((skipped > 0)) && passed=0
    ((failed > 0)) && verdict=FAILED
    ((status == 124 || status == 137)) && verdict="FAILED (no end after $limit s)"
    ((failed > 0 && status > 128 && status != 137)) && verdict="FAILED (signal $((status - 128)))"
    echo "$passed $failed" >"$results/$name.counts"
    awk -v name="$name" -v a="$begin" -v b="$EPOCHREALTIME" -v cases="$((passed + failed))" -v verdict="$verdict" \
        'BEGIN { printf "%-36s %4d cases %8.2f s  %s\n", name, cases, b - a, verdict }'
}

shopt -s nullglob
sources=("$here"/tests/*/test_*.c "$here"/tests/*/test_*.sh)
[ "$tier" = long ] && sources+=("$here"/tests/*/long_*.c "$here"/tests/*/long_*.sh)
if [ -n "${TEST_LIST:-}" ]; then
    listed=()
    while read -r name; do
        for source in "${sources[@]}"; do [[ $source == */$name.* ]] && listed+=("$source"); done
    done <"$TEST_LIST"
    sources=("${listed[@]}")
fi
running=0
for source in "${sources[@]}"; do
    is_wanted "$(basename "$source")" || continue
    if ((running >= jobs)); then
        wait -n
        running=$((running - 1))
    fi
    run_one "$source" &
    running=$((running + 1))
done
wait

passed=0 failed=0
for counts in "$results"/*.counts; do
    read -r p f <"$counts"
    passed=$((passed + p)) failed=$((failed + f))
    if ((f > 0)); then
        name=$(basename "$counts" .counts)
        printf '\n==== output of %s ====\n' "$name"
        cat "$results/$name.out"
    fi
done
((passed + failed == 0)) && echo "no test was run" >&2
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
