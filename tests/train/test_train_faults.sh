#!/bin/bash
# longspan train on a failing disk: it reports and leaves out what it can do without, tries a failed checkpoint again,
# and reports missing space before the first step. tests/support/preload/faults.c makes the calls fail.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] test_train_faults: a sanitizer takes no library before its own"; exit 0; }
faults=$1/tests/libfaults.so
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
make_lines 400 >text.txt
base=(train --model config.json --data text.txt --seq 32 --threads 1 --ranks 2 --schedule constant --tensorboard)

steps=20
# faulty CODE "SETTINGS" ARGUMENTS...: a training with faults; its standard error is in err.
faulty() {
    local code=$1 settings=$2 status=0
    shift 2
    # shellcheck disable=SC2086
    env LD_PRELOAD="$faults" $settings timeout 60 "$longspan" "${base[@]}" --steps "$steps" "$@" >out 2>err || status=$?
    [ $status -eq "$code" ] || fail "$settings: exit $status, expected $code: $(cat err)"
}
# same FOLDER: its last checkpoint equals that of the undisturbed training.
same() { same_checkpoint whole/checkpoint-00000020 "$1/checkpoint-00000020"; }
faulty 0 "" --out whole --save-every 5
[ "$(ls -d whole/checkpoint-* | wc -l)" -eq 4 ] || fail "checkpoints: $(ls whole)"

# Files that a training can do without, one after the other.
n=0
for file in loss.svg metrics.jsonl events.out loss_by_position.svg; do
    faulty 0 "LS_FAULT_PATH=$file LS_FAULT_AT=1 LS_FAULT_TIMES=0" --out "without-$((++n))" --save-every 5
    err_lines 1 "$file"
    err_lines 1 "No space left on device"
    same "without-$n"
done
faulty 0 "LS_FAULT_PATH=metrics.jsonl LS_FAULT_AT=7 LS_FAULT_WITH=EIO" --out once --save-every 5
[ "$(wc -l <once/metrics.jsonl)" -eq 19 ] || fail "lines of metrics: $(wc -l <once/metrics.jsonl)"
cp -r whole again
steps=22
faulty 0 "LS_FAULT_PATH=run.json LS_FAULT_AT=1 LS_FAULT_TIMES=0" --out again --resume
steps=20
err_lines 1 "run.json"
json "d['settings']['steps'] == 20" again/run.json
[ -d again/checkpoint-00000022 ] || fail "no checkpoint of step 22"

# A checkpoint cannot be written, at each kind of call: older ones stay, and the training continues to the same bits.
for call in mkdir open allocate write sync rename; do
    faulty 0 "LS_FAULT_PATH=checkpoint-00000010 LS_FAULT_CALLS=$call LS_FAULT_AT=2" --out "one-$call" --save-every 5
    # Not every kind of call occurs twice. A failure is reported with the checkpoint that is kept; files that did not fail exist.
    if [ -d "one-$call/checkpoint-00000010" ]; then err_lines 0 "is not saved"; else err_lines 1 "step 10 is not saved"; fi
    same "one-$call"
    faulty 0 "LS_FAULT_PATH=checkpoint-00000010 LS_FAULT_CALLS=$call LS_FAULT_AT=1 LS_FAULT_TIMES=0" --out "all-$call" --save-every 5
    err_lines 1 "step 10 is not saved"
    err_lines 1 "kept: all-$call/checkpoint-00000005;"
    [ ! -e "all-$call/checkpoint-00000010.partial" ] && [ ! -e "all-$call/checkpoint-00000010" ] || fail "left behind: $(ls "all-$call")"
    same "all-$call"
done

# A failed last checkpoint is an error that names the one that is kept; resuming from it gives the same bits.
faulty 1 "LS_FAULT_PATH=checkpoint-00000020 LS_FAULT_AT=3 LS_FAULT_TIMES=0" --out last --save-every 5
err_lines 1 "step 20, the last one, is not saved (kept: last/checkpoint-00000015)"
faulty 0 "" --out last --resume
same last
faulty 1 "LS_FAULT_PATH=checkpoint- LS_FAULT_AT=1 LS_FAULT_TIMES=0" --out none --save-every 5
err_lines 1 "there is no checkpoint of this run): "

# Missing space is reported before the first step with its size, for one checkpoint and for all later ones.
bytes=$(cat whole/checkpoint-00000020/{model.safetensors,optimizer.safetensors,config.json} | wc -c)
echo 1000 >free
faulty 1 LS_FAULT_FREE=free --out short --save-every 20
err_lines 1 "warning: short has 1000 B free, and up to 1 checkpoints to come take"
[ "$(grep -n 'are missing' err | cut -d: -f1)" -lt "$(grep -n 'training 1/20' err | cut -d: -f1)" ] || fail "too late: $(cat err)"
err_lines 1 "not enough space in short: 1000 bytes are free, $bytes are needed"
echo $((2 * bytes)) >free
faulty 0 LS_FAULT_FREE=free --out many --save-every 5
err_lines 1 "and up to 4 checkpoints to come take"
faulty 0 LS_FAULT_FREE=free --out few --save-every 5 --keep 1
err_lines 0 "warning"

# Of checkpoints by the clock the two newest stay, beside the last one.
base=(train --model config.json --data text.txt --seq 32 --threads 1 --ranks 2 --schedule constant --max-seconds 3.4)
steps=100000000
faulty 0 "" --out clock --save-every 1s
[ "$(ls -d clock/checkpoint-* | wc -l)" -eq 3 ] || fail "checkpoints by the clock: $(ls clock)"
for checkpoint in clock/checkpoint-*; do "$longspan" checkpoint verify "$checkpoint" >/dev/null || fail "$checkpoint"; done
echo ok
