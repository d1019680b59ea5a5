# A model that trains within a second, and what it is trained on: a text, or arrays. $here: the folder of tests.
# make_tiny_model [LAYERS]: one layer when left out.
make_tiny_model() { sed 's/"num_hidden_layers": 1/"num_hidden_layers": '"${1:-1}"'/' "$here/support/tiny_config.json" >config.json; }
# make_grouped_model LAYERS: one whose matrices have rows of 64 numbers and more, as formats with a scale for a group of numbers need.
make_grouped_model() {
    cat >config.json <<CONFIG
{"architectures": ["LlamaForCausalLM"], "vocab_size": 260, "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": $1,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 128, "initializer_range": 0.1}
CONFIG
}
# make_wide_model HIDDEN: the same model with that hidden size, a multiple of 16, and heads of 8.
make_wide_model() {
    sed -e 's/"hidden_size": 16/"hidden_size": '"$1"'/' -e 's/"intermediate_size": 24/"intermediate_size": '$(($1 * 3 / 2))'/' \
        -e 's/"num_attention_heads": 2/"num_attention_heads": '$(($1 / 8))'/' -e 's/"num_key_value_heads": 1/"num_key_value_heads": '$(($1 / 16))'/' \
        "$here/support/tiny_config.json" >config.json
}
# make_lines N: N lines of text.
make_lines() { for i in $(seq "$1"); do echo "line $i of a text that is long enough"; done; }
# make_arrays: q.npy, k.npy, v.npy and do.npy, of 50 positions with 4 and 2 heads, and tokens.npy, 2 sequences of 40: random, always the same.
make_arrays() {
    python3 - <<'ARRAYS'
import random, struct
def npy(path, type, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (type, shape)
    open(path, "wb").write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n" + data)
random.seed(1)
floats = lambda n: struct.pack("<%df" % n, *(random.uniform(-1, 1) for _ in range(n)))
for name, heads in ("q", 4), ("k", 2), ("v", 2), ("do", 4):
    npy(name + ".npy", "<f4", (1, 50, heads, 8), floats(50 * heads * 8))
npy("tokens.npy", "<i4", (2, 40), struct.pack("<80i", *(random.randrange(100) for _ in range(80))))
ARRAYS
}
