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

# launched NAME RANKS COMMAND...: under the launcher, into the files out and err; $status
launched() {
    local name=$1 ranks=$2
    shift 2
    launcher_of "$name" "$ranks"
    status=0
    timeout 100 "${before[@]}" "${launcher[@]}" "$longspan" "$@" >out 2>err </dev/null || status=$?
}
before=()

# Hosts that nothing connects are refused by name.
export LONGSPAN_HOSTS=2 LONGSPAN_TRANSPORTS=shm
for name in $launchers; do
    launched "$name" 2 train --model config.json --data text.txt --seq 32 --steps 1 --out refused
    [ $status -ne 0 ] || fail "$name: hosts without a transport are not refused"
    err_lines 1 "nothing connects rank 0 on host $(hostname) (pretended 0) with rank 1 on host $(hostname) (pretended 1): tried shm"
done
unset LONGSPAN_HOSTS LONGSPAN_TRANSPORTS

# The first lines say what Open MPI does at Ctrl-C, unless it was told otherwise, and which ranks share a core.
short=(train --model config.json --data text.txt --seq 32 --threads 1 --steps 1)
before=(taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')") # the first core that this script may use
launched variables 3 "${short[@]}" --out bound
err_lines 1 "warning: 3 ranks are bound to one core"
before=()
case $launchers in *openmpi*)
    launched openmpi 2 "${short[@]}" --out told
    err_lines 0 "Ctrl-C"
    timeout 100 mpirun.openmpi --bind-to none -n 2 "$longspan" "${short[@]}" --out untold >out 2>err || fail "untold: $(cat err)"
    err_lines 1 "Open MPI's mpirun kills the ranks a second after Ctrl-C; with --mca odls_base_sigkill_timeout 30"
    ;;
esac

# What starts ranks of its own is refused by name, once.
launched variables 3 bench step --config config.json
[ $status -ne 0 ] || fail "bench step was not refused"
err_lines 1 "bench step starts ranks itself, but this process was launched as one of 3"
echo ok
