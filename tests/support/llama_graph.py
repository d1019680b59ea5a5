"""llama_graph.py CONFIG.json OUT.json [--untied-names] ...: writes a Llama of a config.json as a graph.json.

Node for node what src/model/build.c builds, under names as a user's program has them. Words that change the file:
  shift       the labels are the user's own, which the graph takes shifted
  documents   attention is told of documents
  padding     the documents are found by a padding mask, and the positions are those of op iota
  numbers     the same, by numbers of documents
  last        the same, by the tokens: id 7 is the last of a document
  weighted    the loss of each token is multiplied by an input "weights"
  tokens      the loss is divided by the number of tokens
  nothing     the loss is divided by nothing
  nologits    logits is null
  also        a tied head has its own name too
"""
import json
import math
import sys

config = json.load(open(sys.argv[1]))
words = sys.argv[3:]
E, F, V, L = (config[k] for k in ("hidden_size", "intermediate_size", "vocab_size", "num_hidden_layers"))
Hq = config["num_attention_heads"]
Hkv = config.get("num_key_value_heads", Hq)
D = config.get("head_dim", E // Hq)
epsilon = config.get("rms_norm_eps", 1e-6)
tied = config.get("tie_word_embeddings", False)
parameters, nodes, sources = [], [], []


def parameter(name, *shape):
    parameters.append({"name": name, "shape": list(shape)})
    return name


def node(op, inputs, out, **params):
    sources.append({"file": "model.py", "line": len(nodes) + 10, "code": "%s = %s(...)" % (out, op)})
    nodes.append({"op": op, "in": inputs, "out": [out], "at": len(nodes), **params})
    return out


def linear(x, name, to, n_from, out):
    return node("linear", [x, parameter(name, to, n_from), None], out)


table = parameter("model.embed_tokens.weight", V, E)
if tied and "also" in words:
    parameters[-1]["also"] = ["lm_head.weight"]
x = node("embedding", ["input_ids", table], "embedded")
finds = [word for word in ("padding", "numbers", "last") if word in words]
by_tokens = {"input": "input_ids", "is": "last", "number": 7}
positions = node("iota", [], "positions_of_iota", along="S") if finds else "position_ids"
rope = node("rope_table", [positions], "cos_sin", D=D, rope={"theta": config.get("rope_theta", 10000.0)})
mask = [{"kind": "causal"}] + ([{"kind": "documents"}] if "documents" in words else [])
for i in range(L):
    at = "model.layers.%d." % i
    h = node("rmsnorm", [x, parameter(at + "input_layernorm.weight", E)], at + "n1", epsilon=epsilon)
    heads = []
    for one, H in (("q", Hq), ("k", Hkv), ("v", Hkv)):
        heads.append(linear(h, at + "self_attn.%s_proj.weight" % one, H * D, E, at + one))
    heads = [node("reshape", [heads[j]], heads[j] + "h", size=["B", "S", H, D]) for j, H in enumerate((Hq, Hkv, Hkv))]
    q, k = (node("rotate", [one, rope], one + "r") for one in heads[:2])
    o = node("attention", [q, k, heads[2], None], at + "o", mask=mask, scale=1 / math.sqrt(D))
    o = node("reshape", [o], at + "om", size=["B", "S", Hq * D])
    x = node("add", [x, linear(o, at + "self_attn.o_proj.weight", E, Hq * D, at + "op")], at + "x1")
    h = node("rmsnorm", [x, parameter(at + "post_attention_layernorm.weight", E)], at + "n2", epsilon=epsilon)
    gate = linear(h, at + "mlp.gate_proj.weight", F, E, at + "gate")
    up = linear(h, at + "mlp.up_proj.weight", F, E, at + "up")
    down = linear(node("swiglu", [gate, up], at + "f"), at + "mlp.down_proj.weight", E, F, at + "down")
    x = node("add", [x, down], at + "x2")
x = node("rmsnorm", [x, parameter("model.norm.weight", E)], "last", epsilon=epsilon)
head = table if tied else parameter("lm_head.weight", V, E)
node("linear_wide", [x, head], "logits")
loss = node("cross_entropy", ["logits", "labels"], "token_losses")
inputs = [
    {"name": "input_ids", "dtype": "i32"},
    {"name": "labels", "dtype": "i32", "is": "labels", "shift": int("shift" in words)},
] + ([] if finds else [{"name": "position_ids", "dtype": "i32", "is": "positions"}])
if "weighted" in words:
    inputs.append({"name": "weights", "dtype": "f32"})
    loss = node("mul", [loss, "weights"], "weighted")
node("sum", [loss], "loss")
mean = "tokens" if "tokens" in words else None if "nothing" in words else "labels"
graph = {
    "format": "longspan-graph", "version": 1, "made_by": "llama_graph.py", "dtype": "f32", "tokens": "input_ids",
    "documents": by_tokens if "last" in finds else {"input": "mask", "is": finds[0]} if finds else "documents" in words, "inputs": inputs, "parameters": parameters, "constants": [], "nodes": nodes,
    "loss": "loss", "mean_over": mean, "logits": None if "nologits" in words else "logits", "sources": sources,
}  # fmt: skip
json.dump(graph, open(sys.argv[2], "w"), indent=1)
