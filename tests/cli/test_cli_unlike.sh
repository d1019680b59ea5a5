#!/bin/bash
# Launched ranks that are given other options, inputs or variables are refused by the name of what differs. long_cli_unlike.sh does the same
# with thirty options under every launcher.
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes"; exit 0; }
. "$here/support/unlike.sh"

unlike variables "--lr 0.001" "--lr 0.002" "rank 1 has --lr 0.002, rank 0 0.001;" "${train[@]}" --steps 2
unlike variables "" "--seed 7" "rank 1 has --seed 7, rank 0 0;" "${train[@]}" --steps 2
unlike variables "--steps 5" "--steps 6" "rank 1 has --steps 6, rank 0 5;" "${train[@]}"
unlike variables "--save-every 2" "--save-every 3" "rank 1 has --save-every 3, rank 0 2;" "${train[@]}" --steps 4
unlike variables "--threads 1" "--threads 2" "rank 1 has --threads 2, rank 0 1;" "${train[@]}" --steps 2
unlike variables "" "LONGSPAN_ISA=ref" "rank 1 has instruction set ref, rank 0 " "${train[@]}" --steps 2
grep -q "LONGSPAN_ISA=NAME in the environment of all ranks" err || fail "no cure: $(cat err)"
unlike variables "--mask causal" "--mask full" "rank 1 has --mask full, rank 0 causal;" "${attention[@]}"

# Other inputs of the same names.
mkdir far
cp -- *.npy config.json far
cp other.txt far/text.txt
unlike variables "" WHERE=far "rank 1 has --data with hash " "${train[@]}" --steps 2
cp text.txt far
sed -i 's/"rope_theta": [0-9.]*/"rope_theta": 77777.0/' far/config.json
! cmp -s config.json far/config.json || fail "config.json has no rope_theta"
unlike variables "" WHERE=far "rank 1 has a config.json of " "${train[@]}" --steps 2
cp config.json far
printf '\1' | dd of=far/tokens.npy bs=1 seek=200 conv=notrunc 2>dd
unlike variables "" WHERE=far "rank 1 has --tokens of " "${grad[@]}"

# Another folder than that of rank 0 is found before step 1, as is one that cannot be written to.
job=(train --model config.json --data text.txt --seq 32 --steps 2)
unlike variables "--out out" "--out other" "rank 1 has --out other, rank 0 out;" "${job[@]}"
cp -- *.npy config.json text.txt far
mkdir far/out
unlike variables "--out out" "WHERE=far --out out" "rank 1 writes to another folder than rank 0 as --out out" "${job[@]}"
rmdir far/out
echo "a file" >far/out
unlike variables "--out out" "WHERE=far --out out" "rank 1 cannot write to --out: " "${job[@]}"

# Threads that are left out are those of rank 0.
FIRST="--threads 2" SECOND="" RANK_NAME=RANK python3 "$here/support/variables.py" 2 ./given.sh "$longspan" "${train[@]}" --steps 1 >output 2>err ||
    fail "threads: $(cat err)"
json 'd["spread"]["threads"] == 2' out/run.json
echo ok
