# For tests of models as a graph.json: to be sourced. It makes the same small Llama in the folders `config`, as a config.json, and `graph`, as a
# graph.json, with the same weights, and text.txt to train on.
. "$(dirname "$0")/../support/cli.sh"
graph_of() { local out=$1 from=$2; shift 2; mkdir -p "$out"; python3 "$here/support/llama_graph.py" "$from" "$out/graph.json" "$@"; }

cat >config.json <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "vocab_size": 260, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
 "tie_word_embeddings": false}
CONFIG
make_lines 200 >text.txt
as=()
[ "${LS_TEST_SANITIZER:-}" = thread ] && as=(--ranks-as threads)
run() { "$longspan" "$@" "${as[@]}" >out.txt 2>err || fail "$*: $(cat err)"; }
train() { run train --data text.txt --seq 32 --threads 1 --lr 0.01 --schedule constant "$@"; }

# Weights for both.
mkdir config
cp config.json config/
train --model config --steps 1 --out first
cp first/model/model.safetensors config/
graph_of graph config.json
cp first/model/model.safetensors graph/
