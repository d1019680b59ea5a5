#!/bin/bash
# Adapters on matrices in few bytes: the same curve wherever it runs, resumed, evaluated, generated from, merged; predicted bytes; refusals.
. "$(dirname "$0")/../support/runs.sh"

make_grouped_model 2
make_lines 300 >text
quietly() { "$longspan" "$@" >out 2>err || fail "longspan $*: $(cat err)"; }
loss_of() { sed -n 's/^loss \([0-9.]*\) nats.*/\1/p' out; }
train() { quietly train --data text --seq 48 --batch 2 --lr 1e-2 "$@"; }
train --model config.json --steps 8 --ranks 1 --out first
base=first/model

# one rank and several, whatever is cut
declare -A most=([nf4]=12 [int8]=1 [fp8]=4 [bf16]=1)
for type in nf4 int8 fp8 bf16; do
    rm -rf one
    train --model $base --lora r=4,alpha=8 --base $type --steps 6 --ranks 1 --out one
    json "d['settings']['base'] == '$type'" one/run.json
    if [ $type != bf16 ]; then
        grep -q "base: 14 matrices in $type, .* bytes a number; 2 matrices in f32" err || fail "$type: $(cat err)"
        error=$(sed -n "s/.*rounded to $type, which changes them by \([0-9.]*\) %.*/\1/p" err)
        python3 -c "assert 0 < $error < ${most[$type]}" || fail "$type: $(cat err)"
    fi
    ways=("--mesh ring=2,tp=2 --tile all --recompute all")
    if [ $type = nf4 ]; then ways+=("--mesh ring=2 --shard parameters" "--mesh dp=2 --shard none" "--mesh pp=2 --accumulate 2"); fi
    for way in "${ways[@]}"; do
        rm -rf many
        # shellcheck disable=SC2086  # words
        train --model $base --lora r=4,alpha=8 --base $type --steps 6 --out many $way
        same_curve one many 6 || fail "$type, $way: another curve"
    done
    quietly eval --model $base --checkpoint one --base $type --data text --seq 48 --ranks 1
    loss=$(loss_of)
    quietly eval --model $base --adapter one/adapter --base $type --data text --seq 48 --mesh ring=2,tp=2
    python3 -c "assert abs($(loss_of) - $loss) < 2e-5" || fail "$type: loss $(loss_of), expected $loss"
    quietly eval --model $base --checkpoint one --data text --seq 48 --ranks 1
    [ "$(loss_of)" != "$loss" ] || fail "$type changes nothing"
done

# DoRA, of which norms of rows of the matrix are part; bf16
train --model $base --lora r=2,dora --base nf4 --steps 6 --ranks 1 --out dora
train --model $base --lora r=2,dora --base nf4 --steps 6 --mesh tp=2 --out dora2
same_curve dora dora2 6 || fail "DoRA: another curve on two ranks"
train --model $base --lora r=2 --base nf4 --steps 3 --dtype bf16 --mesh ring=2 --out bf16
grep -q "2 matrices in bf16" err || fail "bf16: $(cat err)"

# without an adapter, where nothing is trained
quietly eval --model $base --base nf4 --data text --seq 48
quietly generate --model $base --base int8 --prompt "line 1" --tokens 5
quietly generate --model $base --checkpoint dora --base nf4 --prompt "line 1" --tokens 5

# resumed, it goes on as if it had not stopped; a whole model is made with the matrices of the files
train --model $base --lora r=4 --base nf4 --schedule constant --steps 6 --ranks 1 --out whole
train --model $base --lora r=4 --base nf4 --schedule constant --steps 3 --ranks 1 --out part
train --model $base --lora r=4 --base nf4 --schedule constant --steps 6 --ranks 1 --out part --resume
same_checkpoint whole/checkpoint-00000006 part/checkpoint-00000006
expect 2 "base" train --model $base --data text --base int8 --out part --resume --steps 8
quietly checkpoint export whole --merge --out merged --dtype f32
quietly eval --model merged --data text --seq 48

# plan says what train maps, and fewer bytes are fewer
for type in bf16 nf4; do
    quietly plan --model $base --lora r=4 --base $type --dtype bf16 --seq 64 --ranks 2 --shard none --json
    planned=$(python3 -c "import json; print(json.load(open('out'))['predicted_bytes'])")
    quietly train --model $base --lora r=4 --base $type --dtype bf16 --data text --seq 64 --batch 1 --steps 1 --ranks 2 --shard none --out mapped-$type --json
    json "d['predicted_bytes'] == $planned and d['measured_bytes'] <= $planned + 4 * 4096" out
    json "all(r['common'] > 0 for r in d['predicted_bytes'])" mapped-$type/run.json # the base, once for both ranks
    [ $type = bf16 ] && most_bytes=$planned
done
python3 -c "assert $planned < $most_bytes - 80000" || fail "nf4 takes $planned bytes, bf16 $most_bytes"

# what does not fit
expect 2 "--base nf4: matrices in that type are not trained; expected --lora or --adapter beside it" train --model $base --data text --base nf4 --out refused
expect 2 "base" train --model $base --data text --lora r=2 --base q4 --out refused
if "$longspan" train --model $base --data text --lora r=2 --base nf4 --group 'model.embed*:frozen=bf16' --out unlike >out 2>err; then fail "two types"; fi
grep -q "expected one type beside that of --dtype" err || fail "two types: $(cat err)"
sed 's/\("hidden_size": \|"intermediate_size": \|"head_dim": \)[0-9]*/\1 8/g' config.json >narrow.json
refused "--base nf4: no matrix can be kept in it, since none has rows of whole blocks of 64 numbers" \
    plan --model narrow.json --lora r=2 --base nf4 --seq 64 --ranks 1
[ ! -e refused ] || fail "a refused call left a folder"
echo "adapters on matrices in few bytes: trained, resumed, evaluated, merged"
