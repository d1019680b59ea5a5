#!/bin/bash
# The covering set of the conformance matrix on the device delayed: three seeds, with holds and without, the bits of cpu.
set -e
for seed in 1 2 3; do
    for kind in "" :awaited; do
        echo "delayed:$seed$kind"
        LS_TEST_DEVICE=delayed:$seed$kind "$1/tests/test_conformance"
    done
done
