#!/bin/bash
# A part of long_transport_errors: the first of each kind of call that connects ranks of two hosts.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] test_transport_errors: a sanitizer takes no library before its own"; exit 0; }
exec "$(dirname "$0")/../../tools/check-transport-errors.sh" "$1" 1 both
