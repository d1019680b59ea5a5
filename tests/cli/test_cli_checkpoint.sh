#!/bin/bash
# longspan checkpoint as a command, and the folder that train exports at its end: files, messages, refusals.
. "$(dirname "$0")/../support/cli.sh"

# says WORDS COMMAND...: the command succeeds and its output contains the words.
says() {
    local words=$1
    shift
    "$longspan" "$@" >out 2>err || fail "longspan $*: $(cat err)"
    grep -qF -- "$words" out || fail "longspan $*: expected '$words' in: $(cat out)"
}
mkdir pretrained
cat >pretrained/config.json <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 257, "hidden_size": 16,
 "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "our_own": {"x": [1.0]}}
CONFIG
echo '{"temperature": 0.6}' >pretrained/generation_config.json
echo '{}' >pretrained/tokenizer_config.json
for i in $(seq 400); do echo "line $i of a text that is long enough"; done >text.txt
threads=()
[ "${LS_TEST_SANITIZER:-}" = thread ] && threads=(--ranks-as threads)

# A training on 2 ranks exports a complete folder at its end.
"$longspan" train --model pretrained --data text.txt --seq 32 --threads 1 --ranks 2 "${threads[@]}" --out run --steps 2 --json \
    >out.json 2>err || fail "train: $(cat err)"
grep -q 'weights: random, from seed 0' err || fail "train: $(cat err)"
[ "$(cd run/model && echo *)" = "config.json generation_config.json model.safetensors tokenizer_config.json" ] ||
    fail "run/model holds $(ls run/model)"
cmp pretrained/generation_config.json run/model/generation_config.json || fail "generation_config.json"
grep -q '"model": "run/model"' out.json || fail "result: $(cat out.json)"
grep -q '"our_own": {"x": \[1.0\]}' run/model/config.json || fail "config.json: $(cat run/model/config.json)"

# checkpoint export writes the same folder, by default and with explicit options; other types give other files.
says 'run         2 ranks' checkpoint inspect run
says 'step        2' checkpoint inspect --checkpoint run/checkpoint-00000002
says 'good' checkpoint verify run
says 'carried over: tokenizer_config.json, generation_config.json' checkpoint export run --out whole
diff -r run/model whole || fail "export is not what train wrote"
says 'in BF16' checkpoint export run/checkpoint-00000002 --out narrow --dtype bf16 --shard-size 5K
[ -e narrow/model.safetensors.index.json ] || fail "narrow holds $(ls narrow)"
says 'in F32' checkpoint export run --out narrow --dtype f32
diff -r run/model narrow || fail "the newer export is not what train wrote"
"$longspan" checkpoint export run --out json --model pretrained --json >out.json 2>err || fail "export: $(cat err)"
json "(d['dtype'], d['files'], d['tensors']) == ('F32', 1, 11)" out.json
"$longspan" checkpoint inspect run --json >out.json 2>err || fail "inspect: $(cat err)"
json "d['step'] == 2 and d['run']['ranks'] == 2 and len(d['tensors']) == 11 and d['model']['tied']" out.json
"$longspan" checkpoint verify run --json >out.json 2>err || fail "verify: $(cat err)"
json "d['ok'] and len(d['files']) == 4" out.json
# If the model's folder is gone, the folder that the run exported provides the files.
mv pretrained away
says 'carried over: tokenizer_config.json, generation_config.json' checkpoint export run --out again
diff -r whole again || fail "an export without the model's folder is another"
mv away pretrained

# The exported model is the trained one: training it further starts with the loss of the checkpoint.
python3 - <<'TOKENS'
import struct
ids = [i * 7 % 257 for i in range(64)]
head = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 32), }".ljust(117) + "\n"
open("ids.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + struct.pack("<64i", *ids))
TOKENS
for model in run/model run/checkpoint-00000002; do
    "$longspan" grad --model $model --tokens ids.npy --out g.safetensors --threads 1 2>err | head -1 || fail "grad: $(cat err)"
done >losses
[ "$(uniq losses | wc -l)" = 1 ] && grep -q loss losses || fail "losses differ: $(cat losses)"

# A training that starts from it says so.
"$longspan" train --model run/model --data text.txt --seq 32 --threads 1 "${threads[@]}" --out further --steps 1 >out 2>err || fail "train: $(cat err)"
grep -q 'weights: the \*.safetensors of run/model' err || fail "train: $(cat err)"

# Refusals.
expect 2 "expected inspect, verify or export" checkpoint
expect 2 "'prune' is unknown, expected inspect, verify or export" checkpoint prune run
expect 2 'no path is given; expected a checkpoint' checkpoint inspect
expect 2 '--out is missing' checkpoint export run
expect 2 '--out is for export, not for verify' checkpoint verify run --out x
expect 2 'dtype' checkpoint export run --out x --dtype f8
expect 2 "no part of an exported model" checkpoint export run --out .
expect 2 "the model's own folder" checkpoint export run --out pretrained
expect 1 'no checkpoint in' checkpoint inspect pretrained
printf 'X' | dd of=run/checkpoint-00000002/optimizer.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
! "$longspan" checkpoint verify run >out 2>err || fail "a bad checkpoint was called good"
grep -q '1 of 4 files are bad' err || fail "verify: $(cat err)"
grep -q 'optimizer.safetensors   BAD' out || fail "verify: $(cat out)"
# A run that would overwrite other files is refused before it starts.
mkdir -p other/model && touch other/model/notes.txt
! "$longspan" train --model pretrained --data text.txt --seq 32 --threads 1 --out other --steps 1 2>err || fail "a folder would have been written over"
grep -q 'notes.txt' err || fail "train: $(cat err)"
[ ! -e other/run.json ] || fail "a training was started"
