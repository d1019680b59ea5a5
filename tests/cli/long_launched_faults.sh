#!/bin/bash
# long_launched_faults.sh BUILD [LAUNCHER...]: under each launcher (all that are installed), with four ranks: each rank is killed, each rank is
# stopped, the launcher is killed, asked to end, interrupted, and launcher or rank are asked to stop by SIGUSR1.
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes, and MPI is not built for this sanitizer"; exit 0; }
ranks=4
. "$here/support/launched_faults.sh"
shift
# shellcheck disable=SC2086,SC2068 # names
find_launchers ${@:-$LAUNCHERS}
for name in $launchers; do
    echo "$name:"
    for ((rank = 0; rank < ranks; rank++)); do
        kill_rank "$name" $rank
        stop_rank "$name" $rank
    done
    stop_far_rank "$name"
    kill_launcher "$name"
    signal_rank "$name"
    interrupt "$name"
    signal_launcher "$name"
    end_launcher "$name"
done
echo ok
