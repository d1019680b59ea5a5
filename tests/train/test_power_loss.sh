#!/bin/bash
# What a loss of power may leave of a training, an export and a build of shards, at every point: docs/durability.md says what is promised.
# The states with nothing but what is safe, and some of the others; long_power_loss looks at all.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] test_power_loss: a sanitizer takes no library before its own"; exit 0; }
exec python3 -B "$(dirname "$0")/../support/power_scenarios.py" "$1/longspan" "$1/tests/libfaults.so" 0 40 6
