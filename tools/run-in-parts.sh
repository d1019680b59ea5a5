#!/bin/bash
# Runs a long test in parts, so that it can be stopped and gone on with:  run-in-parts.sh BUILD NAME PARTS LOG [FOLDER...]
# NAME: a test of BUILD/tests that obeys LS_TEST_PART=I/N (long_conformance, long_matrix). Each part that passes is a line of LOG with its commit. A part
# is not run again while nothing in FOLDER... (src and tests, when left out) has changed since that commit. The exit code is 0 when all have passed.
set -u
[ $# -ge 4 ] && [ -x "$1/tests/$2" ] || { echo "usage: run-in-parts.sh BUILD NAME PARTS LOG [FOLDER...]; BUILD/tests has NAME" >&2; exit 2; }
build=$1 name=$2 parts=$3 log=$4
shift 4
(($# > 0)) || set -- src tests
[ -z "$(git status --porcelain -- "$@")" ] || { echo "run-in-parts.sh: $* is not as committed: a part would be logged under a commit that it did not test" >&2; exit 2; }
commit=$(git rev-parse --short HEAD)
touch "$log"

# Whether the part has passed at a commit with the same files.
has_passed() { # PART FOLDER...
    local part=$1 earlier
    shift
    while read -r earlier; do
        git diff --quiet "$earlier" HEAD -- "$@" 2>/dev/null && return 0
    done < <(awk -v name="$name" -v part="$part" '$1 == name && $2 == part && $3 == "passed" { sub(/,$/, "", $5); print $5 }' "$log" | sort -u)
    return 1
}

failed=0
for ((i = 0; i < parts; i++)); do
    has_passed "$i/$parts" "$@" && continue
    begin=$SECONDS
    if output=$(LS_TEST_PART=$i/$parts "$build/tests/$name" 2>&1); then
        echo "$name $i/$parts passed at $commit, $((SECONDS - begin)) s: $(grep -a ' cases ran, ' <<<"$output" | tail -1)" >>"$log"
    else
        printf '%s\n' "$output" "$name $i/$parts failed at $commit" >>"$log"
        failed=$((failed + 1))
    fi
    tail -1 "$log"
done
exit $((failed > 0))
