#!/bin/bash
# Every call of a training that changes a file fails once, by each error, and the process that makes it is killed there once:
#     check-faults.sh BUILD [CASES]
# CASES: no more than about so many of them, evenly over all. After each case the training is gone on with, and must come to the weights of the
# undisturbed one, bit for bit, with no file left over. What went well is kept in BUILD/faults-done/, one file for each setting, for this binary, so that
# a check that was interrupted goes on. From the environment: FAULT_ERRORS ("ENOSPC EIO EACCES EDQUOT KILL"), FAULT_JOBS (2) at once,
# FAULT_RANKS (2), FAULT_DTYPE (f32), FAULT_HIDDEN (16) the model's width, a multiple of 16: checkpoints of 1 MB at 80, of 500 MB at 2320.
# The last line is "N passed, N failed".
set -u
[ $# -ge 1 ] && [ -x "$1/longspan" ] || { echo "usage: check-faults.sh BUILD [CASES]" >&2; exit 2; }
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/../tests" && pwd)
most=${2:-1000000}
errors=${FAULT_ERRORS:-ENOSPC EIO EACCES EDQUOT KILL}
jobs=${FAULT_JOBS:-2} ranks=${FAULT_RANKS:-2} dtype=${FAULT_DTYPE:-f32} hidden=${FAULT_HIDDEN:-16}
longspan=$build/longspan
done_file=$build/faults-done/ranks-$ranks-$dtype-hidden-$hidden
mkdir -p "$build/faults-done"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
version=$(sha256sum "$longspan" | cut -c1-16)
[ "$(head -1 "$done_file" 2>/dev/null)" = "$version" ] || echo "$version" >"$done_file"

. "$here/support/tiny_model.sh"
make_wide_model "$hidden"
make_lines 400 >text.txt
# train FOLDER ARGUMENTS...: 12 steps with three checkpoints, of which two stay, and the best one.
train() {
    local out=$1
    shift
    timeout -k 5 120 "$longspan" train --model config.json --data text.txt --eval-data text.txt --eval-every 4 --keep-best --tensorboard \
        --seq 32 --threads 1 --ranks "$ranks" --dtype "$dtype" --steps 12 --save-every 4 --keep 2 --out "$out" "$@"
}
# with_faults FOLDER SETTING...: the same, with faults in what it writes there.
with_faults() {
    local out=$1
    shift
    env LD_PRELOAD="$build/tests/libfaults.so" LS_FAULT_PATH="$out" "$@" bash -c "$(declare -f train); longspan=$longspan ranks=$ranks dtype=$dtype; train $out"
}

train whole >log 2>&1 || { cat log; exit 1; }
with_faults counted-run LS_FAULT_LOG=calls >log 2>&1 || { cat log; exit 1; }
calls=$(wc -l <calls)
cmp -s whole/checkpoint-00000012/model.safetensors counted-run/checkpoint-00000012/model.safetensors || { echo "the same training twice gives other bits"; exit 1; }

# What is wrong after one case, if anything: printed.
judge() {
    local out=$1 status=$2
    case $status in 0 | 1 | 2 | 137) ;; *) echo "ended with $status" ;; esac
    if [ "$status" -ne 0 ]; then
        local resume=--resume
        [ -n "$(find "$out" -maxdepth 1 -name 'checkpoint-????????' 2>/dev/null)" ] || resume=
        train "$out" $resume >"$out.again" 2>&1 || { echo "does not go on: $(tail -1 "$out.again")"; return; }
    fi
    for file in model.safetensors optimizer.safetensors; do
        cmp -s "whole/checkpoint-00000012/$file" "$out/checkpoint-00000012/$file" || echo "other bits in $file"
    done
    # A run that lost a call of its cleaning may leave that to the next one.
    [ "$status" -eq 0 ] && train "$out" --resume >>"$out.again" 2>&1
    local left
    left=$(find "$out" -name '*.tmp-*' -o -name '*.partial*' -o -name longspan.lock)
    [ -z "$left" ] || echo "left over: $left"
}
one_case() {
    local error=$1 n=$2 out=case-$1-$2 status=0 wrong
    with_faults "$out" LS_FAULT_AT="$n" LS_FAULT_WITH="$error" >"$out.log" 2>&1 || status=$?
    wrong=$(judge "$out" $status)
    if [ -z "$wrong" ]; then
        echo "$error $n" >>"$done_file"
    else
        echo "FAILED $error at call $n ($(sed -n "${n}p" calls)), exit $status: $wrong"
        tail -3 "$out.log"
        echo "$error $n" >>failed
    fi
    rm -rf "$out" "$out".*
}

total=$((calls * $(wc -w <<<"$errors")))
every=$(((total + most - 1) / most))
echo "$calls calls, $total cases, every ${every}. of them"
index=0 running=0 chosen=0
for error in $errors; do
    for n in $(seq "$calls"); do
        index=$((index + 1))
        ((index % every == 0)) || continue
        chosen=$((chosen + 1))
        ! grep -qx "$error $n" "$done_file" || continue
        if ((running >= jobs)); then
            wait -n
            running=$((running - 1))
        fi
        one_case "$error" "$n" 2>/dev/null &
        running=$((running + 1))
    done
done
wait
touch failed
failed=$(wc -l <failed)
echo "$((chosen - failed)) passed, $failed failed"
((failed == 0 && chosen > 0))
