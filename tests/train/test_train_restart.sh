#!/bin/bash
# longspan train --restart: ranks that die are started again from the newest complete checkpoint, to the bits of the
# undisturbed run, and no more where that does not help. tests/support/preload/faults.c kills a rank at a chosen call.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] test_train_restart: a sanitizer takes no library before its own"; exit 0; }
faults=$1/tests/libfaults.so
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
make_lines 400 >text.txt
base=(train --model config.json --data text.txt --seq 32 --threads 1 --ranks 2 --steps 20 --save-every 5 --eval-data text.txt --eval-every 5 --keep-best)

# killed CODE "SETTINGS" ARGUMENTS...: a training whose ranks are killed; its standard error is in err.
killed() {
    local code=$1 settings=$2 status=0
    shift 2
    # shellcheck disable=SC2086
    env LD_PRELOAD="$faults" LS_FAULT_WITH=KILL $settings timeout 60 "$longspan" "${base[@]}" "$@" >out 2>err || status=$?
    [ $status -eq "$code" ] || fail "$settings: exit $status, expected $code: $(cat err)"
}
# same FOLDER: its weights, losses and best checkpoint equal those of the undisturbed training.
same() {
    same_checkpoint whole/checkpoint-00000020 "$1/checkpoint-00000020"
    python3 - "$1" <<'CHECK' || fail "$1: other losses"
import json, sys
steps = [[(d["step"], d["loss"], d.get("eval_loss")) for d in map(json.loads, open(f"{run}/metrics.jsonl"))] for run in ("whole", sys.argv[1])]
assert steps[0] == steps[1] and len(steps[0]) == 20, steps
CHECK
    [ "$(readlink whole/best)" = "$(readlink "$1/best")" ] || fail "$1: $(readlink "$1/best") is the best"
    [ -z "$(find "$1" -name '*.partial*' -o -name '*.tmp-*' -o -name longspan.lock)" ] || fail "left behind in $1: $(find "$1")"
}
killed 0 "" --out whole

# Deaths before any checkpoint, within one, between two; and three deaths, each further on.
killed 0 "LS_FAULT_PATH=metrics.jsonl LS_FAULT_AT=6" --out early --restart 1
err_lines 1 "rank 0 was killed by signal 9 (Killed); the ranks are started again from step 0 (restart 1 of 1)"
same early
killed 0 "LS_FAULT_PATH=checkpoint-00000010 LS_FAULT_AT=9" --out within --restart 1
err_lines 1 "the ranks are started again from step 5 (restart 1 of 1)"
same within
killed 0 "LS_FAULT_PATH=metrics.jsonl LS_FAULT_AT=26" --out between --restart 7
err_lines 1 "the ranks are started again from step 10 (restart 1 of 7)"
same between
killed 0 "LS_FAULT_PATH=/state.json LS_FAULT_CALLS=rename LS_FAULT_AT=2 LS_FAULT_EVERY=2" --out often --restart 3
err_lines 1 "the ranks are started again from step 5 (restart 1 of 3)"
err_lines 1 "the ranks are started again from step 10 (restart 2 of 3)"
err_lines 1 "the ranks are started again from step 15 (restart 3 of 3)"
same often

# Restarts are limited to N, need progress, and happen only with --restart; otherwise --resume continues the run.
killed 1 "LS_FAULT_PATH=/state.json LS_FAULT_CALLS=rename LS_FAULT_AT=2 LS_FAULT_EVERY=2" --out most --restart 2
err_lines 1 "not started again, as 2 restarts were made: rank 0 was killed by signal 9"
killed 1 "LS_FAULT_PATH=checkpoint-00000010 LS_FAULT_CALLS=write LS_FAULT_AT=2 LS_FAULT_TIMES=0" --out stuck --restart 9
err_lines 1 "(restart 1 of 9)"
err_lines 1 "not started again: the last restart came no further than step 5, where it began: rank 0 was killed"
killed 1 "LS_FAULT_PATH=metrics.jsonl LS_FAULT_AT=26" --out unasked
err_lines 0 "started again"
for run in most stuck unasked; do
    killed 0 "" --out $run --resume
    same $run
done

echo ok
