#!/bin/bash
# Adapters on files that hold few bytes already (NF4 plain and nested, INT8, FP8, MXFP4), without --base: one curve wherever it runs, resumed, evaluated,
# exported, merged.
. "$(dirname "$0")/../support/runs.sh"

make_grouped_model 1
make_lines 150 >text
quietly() { "$longspan" "$@" >out 2>err || fail "longspan $*: $(cat err)"; }
train() { quietly train --data text --seq 48 --batch 2 --lr 1e-2 --lora r=4,alpha=8 "$@"; }
# loss_of OPTIONS: of the text
loss_of() {
    quietly eval --data text --seq 48 "$@"
    sed -n 's/^loss \([0-9.]*\) nats.*/\1/p' out
}
near() { awk "BEGIN {d = $1 - $2; exit !(d <= $3 && -d <= $3)}" || fail "$4: loss $1, expected $2"; }
quietly train --data text --seq 48 --batch 2 --lr 1e-2 --model config.json --steps 8 --ranks 1 --out first
exact=$(loss_of --model first/model)

# how far each may be from what its files were made of, and where it is trained, too
declare -A most=([nf4]=0.1 [nf4-nested]=0.1 [int8]=0.01 [fp8]=0.03 [mxfp4]=0.2)
declare -A ways=([nf4]="--mesh dp=2 --shard none" [nf4-nested]="--mesh tp=2 --shard parameters" [int8]="--mesh ring=2" [fp8]="--mesh ring=2 --shard parameters" [mxfp4]="--mesh tp=2")
for form in nf4 nf4-nested int8 fp8 mxfp4; do
    python3 "$here/support/quantize.py" first/model $form $form
    loss=$(loss_of --model $form)
    near "$loss" "$exact" ${most[$form]} "$form"
    [ "$loss" != "$exact" ] || fail "$form changes nothing"
    train --model $form --steps 4 --ranks 1 --out one-$form
    grep -q "base: 7 matrices in ${form%-nested}, .* bytes a number; 2 matrices in f32" err || fail "$form: $(cat err)"
    if grep -q "rounded" err; then fail "$form is rounded again: $(cat err)"; fi
    # shellcheck disable=SC2086  # words
    train --model $form --steps 4 --out many-$form ${ways[$form]}
    same_curve one-$form many-$form 4 || fail "$form, ${ways[$form]}: another curve"

    # its adapter, on the files and merged into what they decode to
    trained=$(loss_of --model $form --checkpoint one-$form)
    near "$(loss_of --model $form --adapter one-$form/adapter --ranks 1)" "$trained" 2e-5 "$form with its adapter"
    quietly checkpoint export one-$form --merge --out merged-$form --dtype f32
    json "'quantization_config' not in d" merged-$form/config.json
    near "$(loss_of --model merged-$form)" "$trained" 1e-4 "$form merged"
done

# resumed, it goes on as if it had not stopped, also on several ranks
train --model nf4-nested --schedule constant --steps 4 --mesh ring=2 --out whole
train --model nf4-nested --schedule constant --steps 2 --mesh ring=2 --out part
train --model nf4-nested --schedule constant --steps 4 --mesh ring=2 --out part --resume
same_checkpoint whole/checkpoint-00000004 part/checkpoint-00000004
echo "adapters on files in few bytes: trained, resumed, evaluated, exported, merged"
