#!/bin/bash
# test_power_loss over more steps, with random states beside the systematic ones, all of them checked.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] long_power_loss: a sanitizer takes no library before its own"; exit 0; }
exec python3 -B "$(dirname "$0")/../support/power_scenarios.py" "$1/longspan" "$1/tests/libfaults.so" 3 0 200
