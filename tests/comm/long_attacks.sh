#!/bin/bash
# What strangers and ranks that do not fit try at the port where ranks meet, and what becomes of the job: a table (support/attacks.py).
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes"; exit 0; }
make_arrays
unset LONGSPAN_BOOT LONGSPAN_SECRET LONGSPAN_SECRET_FILE LONGSPAN_TRANSPORTS LONGSPAN_HOSTS
export XDG_CACHE_HOME=$folder/cache
python3 "$here/support/attacks.py" "$longspan"
