#!/bin/bash
# `tools/check-transport-errors.sh`: the first, the last and the middle one of each kind of call that connects ranks fail, in every setting.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] long_transport_errors: a sanitizer takes no library before its own"; exit 0; }
exec "$(dirname "$0")/../../tools/check-transport-errors.sh" "$1" 3
