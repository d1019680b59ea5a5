#!/bin/bash
# What a loss of power may leave of a training, an export and a build of shards, at every moment: docs/durability.md
# has the promises. This test checks the states in which only synced changes survive, and some of the others;
# long_power_loss checks all.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] test_power_loss: a sanitizer takes no library before its own"; exit 0; }
exec python3 -B "$(dirname "$0")/../support/power_scenarios.py" "$1/longspan" "$1/tests/libfaults.so" 0 20 3
