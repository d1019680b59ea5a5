#!/bin/bash
# The faults that are planted for the watch (tests/cuda/watch), each of which it must find; then all tests of the kernels for CUDA with it, and for
# each kernel the turns that accesses of a warp take.
set -eu
build=$1
[ -x "$build/tests/watched_planted" ] || { echo "skipped: a sanitizer has the functions of the watch for itself"; exit 0; }
for test in "$build"/tests/watched_*; do
    echo "== ${test##*/}"
    WATCH_REPORT=1 "$test"
done
