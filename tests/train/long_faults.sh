#!/bin/bash
# A hundred cases of `make check-faults`: calls of a training that fail, and processes that are killed at a call.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] long_faults: a sanitizer takes no library before its own"; exit 0; }
exec "$(dirname "$0")/../../tools/check-faults.sh" "$1" 100
