#!/bin/bash
# A part of long_attacks.
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes"; exit 0; }
make_arrays
unset LONGSPAN_BOOT LONGSPAN_SECRET LONGSPAN_SECRET_FILE LONGSPAN_TRANSPORTS LONGSPAN_HOSTS
export XDG_CACHE_HOME=$folder/cache
python3 "$here/support/attacks.py" "$longspan" "60 silent, 10 slow, 5 lying" "seat of an old build" "false server" "other addresses" "Ctrl-C" "two jobs" \
    "same rank twice"
