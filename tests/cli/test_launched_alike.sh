#!/bin/bash
# Under each launcher that is installed here, with two ranks and with three: the output and the files of ranks that the command starts itself.
# long_launched_alike.sh does the same with four ranks and all commands.
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes, and MPI is not built for this sanitizer"; exit 0; }
. "$here/support/launchers.sh"
make_tiny_model
make_lines 200 >text.txt
# shellcheck disable=SC2086 # names
find_launchers $LAUNCHERS

ranks=2
alike train --model ../config.json --data ../text.txt --seq 32 --threads 1 --steps 3 --eval-data ../text.txt --eval-every 2 --keep-best --ranks 2 --out run
ranks=3 launchers=${launchers% torchrun} # the latter takes seconds to start
alike generate --model run/model --prompt "line 7" --tokens 8 --threads 1 --ranks 3

# What starts ranks of its own is refused by name, once.
launcher_of variables 3
! "${launcher[@]}" "$longspan" bench step --config config.json >out 2>err || fail "bench step was not refused"
err_lines 1 "bench step starts ranks itself, but this process was launched as one of 3"
echo ok
