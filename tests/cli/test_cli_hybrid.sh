#!/bin/bash
# A hybrid (gated delta rules and attention) by the command line: packed documents on any ranks, the same bits with --sums canonical, layouts that
# it can have and cannot, evaluation of what is longer than it was trained with, and where its states go.
. "$(dirname "$0")/../support/cli.sh"

cat >config.json <<'CONFIG'
{"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": 256, "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 4,
 "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 12, "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 8,
 "linear_value_head_dim": 6, "linear_conv_kernel_dim": 4, "max_position_embeddings": 256, "rms_norm_eps": 1e-06, "hidden_act": "silu", "tie_word_embeddings": false,
 "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
CONFIG
python3 - >text.jsonl <<'LINES' # records of 1 to 120 characters, a document each
for i in range(400):
    print('{"text": "%s"}' % ("document %d of many, " % i * 8)[: 1 + i * 37 % 120])
LINES
[ "${LS_TEST_SANITIZER:-}" = thread ] && as_threads=(--ranks-as threads) || as_threads=()
cat >mamba2.json <<'CONFIG'
{"architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "vocab_size": 256, "hidden_size": 24, "num_hidden_layers": 2, "num_heads": 6, "head_dim": 8,
 "state_size": 5, "n_groups": 2, "conv_kernel": 4, "expand": 2, "use_bias": false, "use_conv_bias": true}
CONFIG
model=config.json
base=(--data text.jsonl --seq 150 --batch 4 --lr 0.01 --warmup 0 --seed 3 --pack best)

# train_on NAME STEPS FLAG...: trains into the folder NAME.
train_on() {
    local name=$1 steps=$2
    shift 2
    "$longspan" train --model "$model" "${base[@]}" "${as_threads[@]}" --steps "$steps" --out "$name" --json "$@" >"$name.json" 2>err || fail "train $name: $(cat err)"
}
last_of() { printf '%s\n' "$1"/checkpoint-* | tail -1; }

# Canonical sums: maps of chunks, whoever has them.
for dtype in f32 bf16; do
    train_on "$dtype-one" 2 --sums canonical --dtype "$dtype" --mesh dp=1
    [ "$dtype" = f32 ] && places=(ring=2/gather ulysses=2/ulysses) || places=(ring=4/gather dp=2,ring=2/gather)
    for place in "${places[@]}"; do
        name=$dtype-${place%/*}
        train_on "$name" 2 --sums canonical --dtype "$dtype" --mesh "${place%/*}" --strategy "${place#*/}"
        same_checkpoint "$(last_of "$dtype-one")" "$(last_of "$name")"
    done
done

# Mamba-2, whose convolution has a bias.
model=mamba2.json
train_on mamba2-one 2 --sums canonical --dtype bf16 --mesh dp=1
train_on mamba2-ring 2 --sums canonical --dtype bf16 --mesh ring=2 --strategy gather
same_checkpoint "$(last_of mamba2-one)" "$(last_of mamba2-ring)"
model=config.json

# Packed documents and more tokens than in training, on any ranks: the same numbers.
for ranks in 1 2 4; do
    train_on "packed-$ranks" 3 --ranks "$ranks"
    "$longspan" eval --model packed-1/model --data text.jsonl --seq 600 --pack best --ranks "$ranks" "${as_threads[@]}" --json >"eval-$ranks.json" 2>err || fail "eval: $(cat err)"
done
python3 - <<'CHECK' || fail "packed documents on other ranks"
import json
def losses(n): return [json.loads(line)["loss"] for line in open(f"packed-{n}/metrics.jsonl")]
def near(a, b, most): return abs(a / b - 1) < most
for n in (2, 4):
    assert all(near(a, b, 1e-5) for a, b in zip(losses(n), losses(1))), (losses(n), losses(1))
    a, b = json.load(open(f"eval-{n}.json")), json.load(open("eval-1.json"))
    assert near(a["loss"], b["loss"], 1e-6) and a["tokens"] == b["tokens"], (a["loss"], b["loss"])
CHECK

# Layouts: striped is refused by one line; the others are taken, and a plan finds one by itself.
expect 1 "the layout is striped, where no token's neighbour lies on its own rank" plan --model config.json --seq 300 --ranks 2 --layout striped
for layout in contiguous zigzag documents balanced; do
    "$longspan" plan --model config.json --seq 300 --ranks 3 --layout "$layout" >plan.txt 2>err || fail "--layout $layout: $(cat err)"
done
"$longspan" plan --model config.json --seq 300 --ranks 4 --json >plan.json 2>err || fail "plan: $(cat err)"
json 'd["candidates"][0]["layout"] in ("contiguous", "zigzag") and any(c["strategy"] == "ring" for c in d["candidates"])' plan.json
