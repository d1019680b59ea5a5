#!/bin/bash
# explain prints for a small fixed model what tests/cli/golden/ holds: the page, and the compiled programs, with
# blocks that are put and with blocks that are read in place. After an intended change run
# tests/cli/test_explain_golden.sh BUILD --update and read the difference before committing it.
set -eu
longspan=$1/longspan
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
page=$folder/page
trap 'rm -rf "$folder"' EXIT

# compare GOLDEN TRANSFERS [--update]: reference kernels and one thread, so that the output does not depend on the machine. The candidates' times,
# which stand first, are left out.
compare() {
    local golden=$here/golden/$1
    "$longspan" explain --model "$here/../../examples/tiny" --seq 49 --ranks 2 --rank 1 --strategy ring --layout zigzag \
        --isa ref --threads 1 --transfers "$2" | sed -n '/^program /,$p' >"$page"
    if [ "${3:-}" = --update ]; then
        mkdir -p "$(dirname "$golden")"
        cp "$page" "$golden"
        echo "wrote $golden"
        return
    fi
    if ! diff -u "$golden" "$page" >"$page.diff"; then
        echo "FAILED: explain prints other programs than $golden:"
        head -60 "$page.diff"
        rm -f "$page.diff"
        echo "if that is meant: tests/cli/test_explain_golden.sh BUILD --update"
        exit 1
    fi
    rm -f "$page.diff"
    [ "$(grep -c '^program ' "$page")" -eq 2 ] || { echo "FAILED: expected two programs"; exit 1; }
}

# The schedule by nominal rates. Ranks that share a core take longer, so a machine with one core gives another picture.
draw() {
    XDG_CACHE_HOME=$folder "$longspan" explain --model "$here/../../examples/tiny" --seq 49 --ranks 2 --strategy ring \
        --layout zigzag --isa ref --threads 1 --transfers put --schedule "$page.svg" >"$page" 2>/dev/null
    if [ "${1:-}" = --update ]; then
        cp "$page.svg" "$here/golden/schedule-tiny-ring2.svg"
    elif "$longspan" version | grep -q ', 1 cores,'; then
        echo "one core: the schedule is NOT COMPARED with the golden one"
    elif ! cmp -s "$page.svg" "$here/golden/schedule-tiny-ring2.svg"; then
        echo "FAILED: explain --schedule draws another picture than golden/schedule-tiny-ring2.svg"
        diff "$here/golden/schedule-tiny-ring2.svg" "$page.svg" | head -20
        exit 1
    fi
}

draw "${2:-}"
compare explain-tiny-ring2.txt put "${2:-}"
compare explain-tiny-ring2-in-place.txt in-place "${2:-}"
echo ok
