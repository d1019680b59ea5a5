#!/bin/bash
# --rope-scaling and --rope-theta: a training keeps them through checkpoint, export and --resume, for each
# architecture with rotary positions, and the exported folder alone is the model that was trained.
# tests/reference/export.py compares it with the reference library.
. "$(dirname "$0")/../support/cli.sh"
threads=()
[ "${LS_TEST_SANITIZER:-}" = thread ] && threads=(--ranks-as threads)

# config ARCHITECTURE TYPE FURTHER: writes a model's folder, TYPE/config.json.
config() {
    mkdir -p "$2"
    cat >"$2/config.json" <<CONFIG
{"architectures": ["$1"], "model_type": "$2", "vocab_size": 257, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 12, "max_position_embeddings": 16,
 "initializer_range": 0.3, "our_own": {"x": [1.0]}, $3}
CONFIG
}
old='"rope_theta": 100.0'
new='"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}'
config LlamaForCausalLM llama "$old"
config MistralForCausalLM mistral "$new, \"sliding_window\": 9"
config Qwen2ForCausalLM qwen2 "$old, \"rope_scaling\": null"
config Qwen3ForCausalLM qwen3 "$new"
config Gemma2ForCausalLM gemma2 "$old, \"sliding_window\": 9"
mkdir gpt2
echo '{"architectures": ["GPT2LMHeadModel"], "vocab_size": 257, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}' >gpt2/config.json
for i in $(seq 400); do echo "line $i of a text that is long enough"; done >text.txt
python3 - <<'TOKENS'
import struct
head = "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 24), }".ljust(117) + "\n"
ids = [i * 7 % 257 for i in range(24)]
open("ids.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + struct.pack("<24i", *ids))
TOKENS

# train MODEL STEPS FLAGS...: into run.
train() {
    local model=$1 steps=$2
    shift 2
    "$longspan" train --model "$model" --data text.txt --seq 24 --threads 1 --ranks 2 "${threads[@]}" --schedule constant --out run \
        --steps "$steps" "$@" >out 2>err || fail "train $model $*: $(cat err)"
}
# logits MODEL FILE FLAGS...
logits() {
    local model=$1 file=$2
    shift 2
    "$longspan" grad --model "$model" --tokens ids.npy --out g.safetensors --logits "$file" --threads 1 "$@" >out 2>err ||
        fail "grad $model $*: $(cat err)"
}

# MODEL SCALING WANT: the expression WANT is true for the rotary positions `r` of the exported config `d`.
check() {
    local model=$1 scaling=$2 want=$3
    rm -rf run
    train "$model" 1 --rope-scaling "$scaling" --rope-theta 300
    json "d['our_own'] == {'x': [1.0]} and (r := d.get('rope_parameters') or d['rope_scaling'] | {'rope_theta': d['rope_theta']}) \
        and (r['rope_type'], r['rope_theta']) == ('${scaling%%:*}', 300) and $want" run/model/config.json
    # The exported folder needs no flags. Its weights in the original model's folder need them; without them the results differ.
    cp run/model/model.safetensors "$model"
    logits run/model exported.npy
    logits "$model" flags.npy --rope-scaling "$scaling" --rope-theta 300
    logits "$model" neither.npy
    rm "$model/model.safetensors"
    cmp exported.npy flags.npy || fail "$model $scaling: the exported model has other logits"
    ! cmp -s exported.npy neither.npy || fail "$model $scaling: the flags change nothing"
}
# Sequences have 24 tokens and the model 16 positions: the config gets the longer length, except where the scaling uses that number.
longest="d['max_position_embeddings']"
check llama default "$longest == 24"
check llama linear:2 "r['factor'] == 2 and $longest == 24"
check llama dynamic:4:8 "r['factor'] == 4 and $longest == 8"
check llama llama3:8:8 "(r['factor'], r['original_max_position_embeddings'], $longest) == (8, 8, 64)"
check llama yarn:4 "(r['factor'], r['original_max_position_embeddings'], $longest) == (4, 16, 64)"
check mistral yarn:4 "(r['factor'], r['original_max_position_embeddings'], $longest) == (4, 16, 64)"
check qwen2 llama3:8 "(r['low_freq_factor'], r['original_max_position_embeddings'], $longest) == (1, 16, 128)"
check qwen3 dynamic:2 "r['factor'] == 2 and $longest == 16"
check gemma2 linear:2 "r['factor'] == 2 and $longest == 24"

# Dynamic scaling goes by the length of a sequence: documents that are apart would get that of --seq.
apart=(--model llama --rope-scaling dynamic:4:8 --data text.txt --seq 24 --pack best)
refusal='rope scaling "dynamic" goes by the length of a sequence'
expect 1 "$refusal" eval "${apart[@]}"
"$longspan" train "${apart[@]}" --out other >out.txt 2>err && fail "documents apart are trained with dynamic scaling"
err_lines 1 "$refusal"
"$longspan" eval --model llama --rope-scaling dynamic:4:8 --data text.txt --seq 8 --pack best >out.txt 2>err ||
    fail "sequences that are not stretched: $(cat err)"

# A resumed run keeps its settings, whether they are repeated or not, and refuses others.
rm -rf run
train qwen3 1 --rope-scaling yarn:4 --rope-theta 300
train qwen3 2 --resume
train qwen3 3 --resume --rope-scaling yarn:4 --rope-theta 300
json "d['rope_parameters']['factor'] == 4 and d['rope_parameters']['rope_theta'] == 300 and $longest == 64" run/model/config.json
json "(d['settings']['rope_scaling'], d['settings']['rope_theta']) == ('yarn:4', 300)" run/run.json
again=(train --model qwen3 --data text.txt --out run --steps 4 --resume)
expect 2 "--rope-scaling yarn:8 contradicts run/run.json, which says yarn:4" "${again[@]}" --rope-scaling yarn:8
expect 2 "--rope-theta 500 contradicts run/run.json, which says 300" "${again[@]}" --rope-theta 500
rm -rf run
train qwen3 1
expect 2 "--rope-scaling yarn:4 contradicts run/run.json" "${again[@]}" --rope-scaling yarn:4
expect 2 "--rope-theta 500 contradicts run/run.json, which says 0" "${again[@]}" --rope-theta 500

# Learned positions have no angles to change.
for flags in "--rope-scaling yarn:4" "--rope-theta 500"; do
    # shellcheck disable=SC2086
    expect 2 "gpt2 is a GPT2LMHeadModel, whose positions are learned; --rope-scaling and --rope-theta are for rotary positions" \
        train --model gpt2 --data text.txt --seq 24 --out other $flags
done
expect 2 "--rope-scaling longrope:4; expected default, linear:FACTOR" train --model qwen3 --data text.txt --out other --rope-scaling longrope:4
[ ! -e other ] || fail "a refused training left a folder"
