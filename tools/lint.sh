#!/bin/bash
# lint.sh BUILD JOBS: formatting, layers, circles of files, words and READMEs of everything, clang-tidy over src/ with the compile commands of BUILD.
# Prints what is wrong; exit 1 then.
set -u
build=$1
jobs=$2
cd "$(dirname "$0")/.." || exit 1
failed=0

# Files that are in git or could be (not ignored): others are none of ours.
mapfile -t files < <(find src include tests bench examples -name '*.[ch]' 2>/dev/null | sort)
for file in "${files[@]}"; do
    clang-format "$file" | cmp -s - "$file" && continue
    echo "$file: not formatted (make format)"
    failed=1
done

tools/check-layers.py || failed=1
tools/check-circles.py || failed=1
tools/check-words.py || failed=1
tools/check-readmes.py || failed=1

# Kernels are compiled many times from one file: the first command of each file is enough.
ninja -C "$build" --quiet ls_version || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# tidy OPTION...: clang-tidy over the files whose names come in.
tidy() { xargs -P "$jobs" -n 4 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option "$@" --warnings-as-errors='*' >>"$log" 2>/dev/null; }
defines='^ls_status ls_(json_)?error\(' # what tools/analysis.h says of these functions is not for the files that define them
here=$PWD
grep -rlE "$defines" src --include='*.c' | tidy || tidied=no
if ! grep -rLE "$defines" src --include='*.c' | sort |
    tidy --extra-arg=-I"$here"/include --extra-arg=-I"$here"/src --extra-arg=-include --extra-arg="$here"/tools/analysis.h || [ -n "${tidied:-}" ]; then
    grep -aE '(warning|error|note):|^ ' "$log"
    failed=1
fi
[ $failed -eq 0 ] && echo "lint: ${#files[@]} files, nothing to report"
exit $failed
