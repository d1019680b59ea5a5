#!/bin/bash
# Adapters from the command line: trained, resumed, evaluated, generated from, exported and merged; what does not fit is refused.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
make_lines 300 >text
quietly() { "$longspan" "$@" >out 2>err || fail "longspan $*: $(cat err)"; }
loss_of() { sed -n 's/^loss \([0-9.]*\) nats.*/\1/p' out; }
train() { quietly train --data text --seq 48 --batch 2 --lr 1e-2 --ranks 1 "$@"; }

# a model to put it on: without weights there is none
"$longspan" train --data text --seq 48 --model config.json --lora r=2 --out refused >out 2>err && fail "an adapter on no weights was trained"
grep -q "expected the parameters: they are what an adapter is on" err || fail "no weights: $(cat err)"
rm -rf refused
train --model config.json --steps 8 --out first
base=first/model

# the same curve on one rank and on several, whatever is cut; the checkpoint has the adapter alone
train --model $base --lora r=4,alpha=8,modules-to-save=norm --steps 12 --out one --eval-data text --eval-every 6
err_lines 1 "adapter: LoRA r 4, alpha 8 on 7 modules and 1 parameters trained whole"
json "d['model']['path'] == '$base' and d['settings']['lora'] == 'r=4,alpha=8,modules-to-save=norm'" one/run.json
for way in "--mesh ring=2 --shard parameters" "--mesh dp=2 --shard none" "--mesh ring=2,tp=2"; do
    rm -rf many
    # shellcheck disable=SC2086  # words
    quietly train --data text --seq 48 --batch 2 --lr 1e-2 --model $base --lora r=4,alpha=8,modules-to-save=norm --steps 12 --out many $way
    python3 - <<'CURVES' || fail "$way: another curve"
import json
one, many = ([json.loads(line)["loss"] for line in open(f"{run}/metrics.jsonl")] for run in ("one", "many"))
assert len(one) == 12 and one[-1] < one[0] and max(abs(a - b) for a, b in zip(one, many)) < 1e-4, (one, many)
CURVES
done
quietly checkpoint inspect one --json
json "len(d['tensors']) == 15 and all('lora_' in t['name'] or t['name'] == 'model.norm.weight' for t in d['tensors'])" out
[ -f one/checkpoint-00000012/adapter_config.json ] || fail "the checkpoint has no adapter_config.json"
quietly checkpoint verify one
[ "$(ls one/adapter)" = "$(printf 'adapter_config.json\nadapter_model.safetensors')" ] || fail "one/adapter holds $(ls one/adapter)"
json "d['peft_type'] == 'LORA' and d['r'] == 4 and d['lora_alpha'] == 8 and d['modules_to_save'] == ['model.norm'] and 'q_proj' in d['target_modules']" one/adapter/adapter_config.json

# resumed, it goes on as if it had not stopped; on other weights it does not
train --model $base --lora r=4,alpha=8,modules-to-save=norm --schedule constant --steps 12 --out whole
train --model $base --lora r=4,alpha=8,modules-to-save=norm --schedule constant --steps 5 --out part
train --model $base --lora r=4,alpha=8,modules-to-save=norm --schedule constant --steps 12 --out part --resume
same_checkpoint whole/checkpoint-00000012 part/checkpoint-00000012
cp -r first/model kept
train --model config.json --seed 1 --steps 1 --out other
cp other/model/model.safetensors $base/
"$longspan" train --data text --seq 48 --model $base --out part --resume --steps 14 >out 2>err && fail "it was resumed on other weights"
grep -q "it was trained on a model whose files have hash" err || fail "other weights: $(cat err)"
cp kept/model.safetensors $base/

# evaluated in four ways, and as a whole model
for way in "--model $base --adapter one/adapter" "--model one/adapter" "--checkpoint one --model $base" "--model one/checkpoint-00000012"; do
    # shellcheck disable=SC2086
    quietly eval $way --data text --seq 48
    [ -n "${first_loss:-}" ] || first_loss=$(loss_of)
    [ "$(loss_of)" = "$first_loss" ] || fail "$way: loss $(loss_of), expected $first_loss"
done
quietly eval --model $base --data text --seq 48
[ "$(loss_of)" != "$first_loss" ] || fail "the adapter changes nothing"
for from in one one/adapter; do
    quietly checkpoint export $from --merge --out merged --dtype f32
    grep -q "merged: the adapter changes its matrices by .* rounding to F32 by 0$" out || fail "merged: $(cat out)"
    quietly eval --model merged --data text --seq 48
    python3 -c "assert abs($(loss_of) - $first_loss) < 2e-4" || fail "merged from $from: loss $(loss_of), expected $first_loss"
done
quietly checkpoint export one --merge --out merged --dtype bf16 --json
json "d['rounding'] > 0 and d['change'] > 0 and d['tensors'] == 12" out
quietly generate --model $base --adapter one/adapter --prompt "line 1" --tokens 12
cp out said
quietly generate --model $base --checkpoint one --prompt "line 1" --tokens 12
cmp out said || fail "the checkpoint says something else than its adapter"

# an adapter is trained further; a new one of DoRA
train --model $base --adapter one/adapter --steps 2 --out further
python3 -c "
import json
d = json.loads(open('further/metrics.jsonl').readline())
assert abs(d['loss'] - $first_loss) < 0.3, d" || fail "an adapter does not go on from its weights"
train --model $base --lora r=2,dora,rslora --steps 3 --out dora --dtype bf16
json "d['use_dora'] and d['use_rslora']" dora/adapter/adapter_config.json

# plan says what train maps
quietly plan --model $base --lora r=4 --ema 0.9 --seq 64 --ranks 2 --shard parameters --json
planned=$(python3 -c "import json; print(json.load(open('out'))['predicted_bytes'])")
quietly train --model $base --lora r=4 --ema 0.9 --data text --seq 64 --batch 1 --steps 1 --ranks 2 --shard parameters --out mapped --json
json "d['predicted_bytes'] == $planned" out

# what does not fit
expect 2 "--adapter one/adapter and --lora r=2 are both given" train --model $base --data text --adapter one/adapter --lora r=2 --out refused
expect 2 "target=q_prj matches no module; the nearest name is model.layers.0.self_attn.q_proj" train --model $base --data text --lora target=q_prj --out refused
expect 2 "--merge: first/checkpoint-00000008 has no adapter" checkpoint export first --merge --out refused
expect 1 "adapter_config.json: No such file" eval --model $base --adapter first --data text
sed 's|"base_model_name_or_path": "[^"]*"|"base_model_name_or_path": "org/model"|' one/adapter/adapter_config.json >config
cp config one/adapter/adapter_config.json
expect 1 'base_model_name_or_path is "org/model", expected a folder that exists; or --model FOLDER --adapter one/adapter' eval --model one/adapter --data text
[ ! -e refused ] || fail "a refused call left a folder"
echo "adapters: trained, resumed, evaluated, merged"
