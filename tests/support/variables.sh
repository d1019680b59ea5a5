#!/bin/bash
# variables.sh RANKS COMMAND...: the least launcher. It starts the command RANKS times with torchrun's variables, passes signals on to all of
# them, and ends when all have, with the exit code of the first that failed.
ranks=$1
shift
port=$((20000 + $$ % 20000)) pids=()
pass() { kill -"$1" "${pids[@]}" 2>/dev/null; }
for signal in USR1 INT TERM HUP; do trap "pass $signal" $signal; done
for ((r = 0; r < ranks; r++)); do
    # A command that a shell starts in the background ignores SIGINT; env gives it back.
    RANK=$r LOCAL_RANK=$r WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        env --default-signal=INT "$@" </dev/null &
    pids+=($!)
done
first=0
for pid in "${pids[@]}"; do
    while :; do # a signal ends a wait
        wait "$pid"
        status=$?
        kill -0 "$pid" 2>/dev/null || break
    done
    [ $first -ne 0 ] || first=$status
done
exit $first
