#!/bin/bash
# Under each launcher that is installed here but torchrun, which takes seconds to start: a rank of two is killed, stopped, and asked to stop.
# long_launched_faults.sh does all of it, with four ranks.
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes, and MPI is not built for this sanitizer"; exit 0; }
ranks=2
. "$here/support/launched_faults.sh"
# shellcheck disable=SC2086 # names
find_launchers ${LAUNCHERS% torchrun}
for name in $launchers; do
    echo "$name:"
    kill_rank "$name" 0
    stop_rank "$name" 1
    signal_rank "$name"
done
stop_far_rank variables
kill_launcher variables
echo ok
