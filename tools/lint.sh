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
mapfile -t sources < <(find src -name '*.c' | sort)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! printf '%s\0' "${sources[@]}" |
    xargs -0 -P "$jobs" -n 4 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' >"$log" 2>/dev/null; then
    grep -aE '(warning|error|note):|^ ' "$log"
    failed=1
fi
[ $failed -eq 0 ] && echo "lint: ${#files[@]} files, nothing to report"
exit $failed
