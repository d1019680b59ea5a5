#!/bin/bash
# What explain prints for a small fixed model is what tests/golden/ holds: the grammar of the page, and the compiled programs.
# After a change that is meant:  tests/test_explain_golden.sh BUILD --update   and look at the difference before it is committed.
set -eu
longspan=$1/longspan
here=$(cd "$(dirname "$0")" && pwd)
golden=$here/golden/explain-tiny-ring2.txt
page=$(mktemp)
trap 'rm -f "$page"' EXIT

# Reference kernels and one thread, so that nothing of the machine is in it; the candidates' times, which stand first, are left out.
"$longspan" explain --model "$here/../examples/tiny" --seq 49 --ranks 2 --rank 1 --strategy ring --layout zigzag \
    --isa ref --threads 1 | sed -n '/^program /,$p' >"$page"
if [ "${2:-}" = --update ]; then
    mkdir -p "$(dirname "$golden")"
    cp "$page" "$golden"
    echo "wrote $golden"
    exit
fi
if ! diff -u "$golden" "$page" >"$page.diff"; then
    echo "FAILED: explain prints other programs than $golden:"
    head -60 "$page.diff"
    rm -f "$page.diff"
    echo "if that is meant: tests/test_explain_golden.sh $1 --update"
    exit 1
fi
rm -f "$page.diff"
[ "$(grep -c '^program ' "$page")" -eq 2 ] || { echo "FAILED: expected two programs"; exit 1; }
echo ok
