#!/bin/bash
# fuzz.sh BUILD SECONDS [TARGET]: runs every fuzz target of BUILD/longspan-fuzz (or that one) for so many seconds of the processor, two at once.
# One line per target, the command that reproduces each finding, and a last line "N targets, M findings"; exit 1 with findings.
# Findings stay until they are mended. Inputs that reach new code are kept in BUILD/corpus/TARGET, and the next run begins with them.
# What was spent is kept in BUILD/fuzzed/TARGET for this program, so that a run which was interrupted goes on; a whole one begins anew.
set -u
[ $# -ge 2 ] && [ -x "$1/longspan-fuzz" ] && [[ $2 =~ ^[1-9][0-9]*$ ]] ||
    { echo "usage: fuzz.sh BUILD SECONDS [TARGET]; BUILD holds longspan-fuzz (make fuzz builds it), SECONDS is 1 or more" >&2; exit 2; }
build=$1
seconds=$2
corpora=$(dirname "$0")/../tests/corpora
program=$build/longspan-fuzz
findings=$build/findings
ledgers=$build/fuzzed
mkdir -p "$ledgers"
mapfile -t targets < <("$program")
if [ $# -gt 2 ]; then
    printf '%s\n' "${targets[@]}" | grep -qxF -- "$3" || { echo "fuzz.sh: no target '$3'; expected one of: ${targets[*]}" >&2; exit 2; }
    targets=("$3")
fi

# Folders that targets make belong in memory, and go with this script, whatever happens to a target.
TMPDIR=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# A target's own output goes nowhere: readers say thousands of times a second what they refuse. An input of five seconds (well below
# one without sanitizers) is a finding, and so is an allocation that no file of these lengths needs.
limits=(-rss_limit_mb=2000 -malloc_limit_mb=256 -timeout=60 -report_slow_units=5 -max_len=8192 -len_control=100 -close_fd_mask=3)

# libFuzzer goes by the clock, and other work on the machine takes time too: five seconds of the processor are meant.
is_quick() { # TARGET FILE
    local TIMEFORMAT='%U %S' user system
    read -r user system < <({ time FUZZ_TARGET=$1 "$program" "${limits[@]}" "$2" >/dev/null 2>&1; } 2>&1)
    awk -v u="$user" -v s="$system" 'BEGIN { exit u + s >= 5 }'
}

# A line of a ledger is one slice: the program it was of, seconds of the processor, inputs.
version=$(sha256sum "$program" | cut -c1-16)
total_of() { awk -v version="$version" -v column="$1" '$1 == version { sum += $column } END { print sum + 0 }' "$2"; } # COLUMN LEDGER

# slice TARGET SECONDS: fuzzes by the clock, which is what libFuzzer can; its exit status is the program's.
slice() {
    local target=$1 log=$findings/$1.log status TIMEFORMAT='%U %S'
    {
        time FUZZ_TARGET=$target "$program" "${limits[@]}" -max_total_time="$2" -print_final_stats=1 -artifact_prefix="$findings/$target/" \
            $([ -s "$corpora/words/$target" ] && echo "-dict=$corpora/words/$target") "$build/corpus/$target" "$corpora/inputs/$target" >"$log" 2>&1
    } 2>"$log.time"
    status=$?
    awk -v version="$version" '
        FILENAME ~ /time$/ { seconds = int($1 + $2 + 1); next }
        /^stat::number_of_executed_units:/ { runs = $2 } /^#[0-9]+/ { last = substr($1, 2) }
        END { print version, seconds, runs ? runs : last }' "$log.time" "$log" >>"$ledgers/$target"
    return $status
}

run_one() {
    local target=$1 log=$findings/$1.log ledger=$ledgers/$1 status=0 spent=0 found file
    mkdir -p "$findings/$target" "$build/corpus/$target"
    touch "$ledger"
    for file in "$findings/$target"/[!s]*; do # of earlier runs; slow-unit-* tells nothing by its exit
        [ -f "$file" ] && FUZZ_TARGET=$target "$program" "${limits[@]}" "$file" >/dev/null 2>&1 && rm "$file"
    done
    while spent=$(total_of 2 "$ledger") && ((spent < seconds && status == 0)); do
        slice "$target" $((seconds - spent < 60 ? seconds - spent : 60)) || status=$?
    done
    for file in "$findings/$target"/slow-unit-*; do
        [ -f "$file" ] && is_quick "$target" "$file" && rm "$file"
    done
    found=$(find "$findings/$target" -type f | wc -l)
    ((status != 0 && found == 0)) && found=1 # it did not run, or fell without an input
    echo "$found" >"$findings/$target.count"
    awk -v target="$target" -v found="$found" -v spent="$spent" -v runs="$(total_of 3 "$ledger")" '
        / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cover = $(i + 1) } /^stat::peak_rss_mb:/ { peak = $2 }
        END { printf "%-16s %5d s %10d inputs, %6d edges covered, %5d MB at most, %d findings\n", target, spent, runs, cover, peak, found }' "$log"
    for file in "$findings/$target"/*; do
        [ -f "$file" ] && echo "    FUZZ_TARGET=$target $program $file"
    done
    ((status != 0)) && grep -aE '^(SUMMARY|==[0-9]+== ?ERROR)|runtime error|broken invariant' "$log" | head -3 | sed 's/^/    /'
}

for target in "${targets[@]}"; do
    while (($(jobs -rp | wc -l) >= 2)); do wait -n; done
    run_one "$target" &
done
wait

total=0
for target in "${targets[@]}"; do
    total=$((total + $(cat "$findings/$target.count")))
    rm -f "$ledgers/$target"
done
echo "${#targets[@]} targets, $total findings"
((total == 0))
