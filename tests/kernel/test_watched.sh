#!/bin/bash
# The kernels for CUDA with the watch (tests/cuda/watch): it finds the faults that are planted for it, and none in small examples of each kernel.
# long_watched.sh runs all tests of kernels with it.
set -eu
build=$1
[ -x "$build/tests/watched_planted" ] || { echo "skipped: a sanitizer has the functions of the watch for itself"; exit 0; }
"$build/tests/watched_planted"
LS_TEST_MOST_ELEMENTS=6000 "$build/tests/watched_cuda"
