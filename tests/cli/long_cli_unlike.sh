#!/bin/bash
# Thirty options, of which one differs on a rank, under every launcher that is installed here: each is refused by its name, before anything is
# read that takes long.
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes"; exit 0; }
. "$here/support/unlike.sh"
# shellcheck disable=SC2086 # names
find_launchers $LAUNCHERS

# OPTION VALUE OTHER: "-" is left out, "+" a flag without a value.
pairs="lr 0.001 0.002
seed 1 2
weight-decay 0.1 0
clip 1 0.5
beta1 0.9 0.8
beta2 0.95 0.9
eps 1e-8 1e-6
min-lr - 0.0001
warmup 0 1
schedule cosine linear
optimizer adamw muon
batch 2 4
accumulate 1 2
steps 5 6
epochs - 2
pack join best
dtype f32 bf16
group *:lr=0.5 *:lr=0.25
save-every 2 3
keep 0 1
max-seconds - 60
rope-theta - 500
rope-scaling - linear:2
mesh ring=2 dp=2
strategy ring gather
layout zigzag contiguous
transfers put in-place
shard none optimizer
sums fast canonical
recompute none all
tile none all
tile-rows - 64
memory - 1G
kernels - table
threads 1 2
wait-timeout - 100
tensorboard - +
data text.txt other.txt"

for name in $launchers; do
    while read -r option value other; do
        given=("--$option $value" "--$option $other")
        case $value in -) given[0]= ;; esac
        case $other in +) given[1]="--$option" ;; esac
        command=(train --model config.json --seq 32 --out "$folder/out")
        [ "$option" = data ] || command+=(--data text.txt)
        unlike "$name" "${given[0]}" "${given[1]}" "rank 1 has --$option " "${command[@]}" </dev/null
    done <<<"$pairs"
    unlike "$name" "" LONGSPAN_ISA=ref "rank 1 has instruction set ref" "${train[@]}" --steps 2
    unlike "$name" "--seed 1" "--seed 2" "rank 1 has --seed 2, rank 0 1" "${grad[@]}"
    unlike "$name" "--mask full" "--mask causal" "rank 1 has --mask causal, rank 0 full" "${attention[@]}"
    unlike "$name" "--sequences 2" "--sequences 3" "rank 1 has --sequences 3, rank 0 2" eval --model config.json --data text.txt --seq 32
    unlike "$name" "--depths 1" "--depths 2" "rank 1 has --depths 2, rank 0 1" recall --model config.json --lengths 64
    unlike "$name" "--seed 1" "--seed 2" "rank 1 has --seed 2, rank 0 1" generate --model config.json --prompt a --tokens 2
done
echo ok
