#!/bin/bash
# A model as a graph.json: train, eval, plan and generate do what they do with the same model as a config.json; it is resumed, exported and
# inspected; and what it cannot do is refused by name.
. "$(dirname "$0")/../support/imported.sh"
alike() { cmp "$1" "$2" || fail "$3: $2 has other bits than $1"; }
graph_of tokens config.json tokens
cp first/model/model.safetensors tokens/
train --model tokens --steps 2 --out mean_tokens
train --model graph --steps 2 --out mean_labels
same_checkpoint mean_tokens/checkpoint-00000002 mean_labels/checkpoint-00000002 # all labels of the data count

# Plans have the same bytes; evaluations the same losses; texts the same tokens.
for spread in "--ranks 3" "--ranks 2 --mesh tp=2"; do
    for model in config graph; do run plan --model $model --seq 128 --json $spread; cp out.txt $model.plan; done
    python3 - <<'CHECK' || fail "plan $spread"
import json
def bytes_of(o):
    if isinstance(o, dict):
        return {k: bytes_of(v) for k, v in o.items() if k not in ("name", "reason") and not isinstance(v, float)}
    return [bytes_of(v) for v in o] if isinstance(o, list) else o
a, b = (bytes_of(json.load(open(f))) for f in ("config.plan", "graph.plan"))
assert a == b and a["predicted_bytes"] > 0, (a, b)
CHECK
    for model in config graph; do run eval --model $model --data text.txt --seq 32 --sequences 8 --threads 1 $spread; grep '^[0-9l]* ' out.txt | grep -v dp= >$model.eval; done
    alike config.eval graph.eval "eval $spread"
    for model in config graph; do run generate --model $model --prompt "line 1" --tokens 8 --threads 1 --ignore-eos $spread; cp out.txt $model.said; done
    alike config.said graph.said "generate $spread"
done
run explain --model graph --seq 32 --ranks 2
grep -q 'model.layers.0.gate' out.txt || fail "explain shows no name of the graph"

# Trained, killed and resumed: as unbroken, and as the config.json. Ranks 2, sharded parameters.
for model in config graph; do train --model $model --steps 30 --save-every 10 --ranks 2 --shard gradients --out $model.whole; done
same_checkpoint config.whole/checkpoint-00000030 graph.whole/checkpoint-00000030
"$longspan" train --data text.txt --seq 32 --threads 1 --lr 0.01 --schedule constant --model graph --steps 30 --save-every 10 --ranks 2 --shard gradients \
    --out killed "${as[@]}" >/dev/null 2>&1 &
job=$!
for _ in $(seq 600); do [ -d killed/checkpoint-00000010 ] && break; sleep 0.02; done
kill -9 $job 2>/dev/null || true
wait $job 2>/dev/null || true
rm -rf killed/checkpoint-00000020 killed/checkpoint-00000030 killed/model # if it was faster than the signal
train --model graph --steps 30 --save-every 10 --ranks 2 --shard gradients --out killed --resume
grep -q 'resuming after step 10' err || fail "not resumed: $(cat err)"
same_checkpoint graph.whole/checkpoint-00000030 killed/checkpoint-00000030
cp -a killed again
sed -i 's/"made_by": "llama_graph.py"/"made_by": "another"/' graph/graph.json
"$longspan" train --data text.txt --seq 32 --threads 1 --lr 0.01 --schedule constant --model graph --steps 70 --out again --resume >out.txt 2>err && fail "another graph was taken"
grep -q -- '--model graph is not the model of again/run.json; expected the same graph.json' err || fail "another graph: $(cat err)"

# Packed documents: as the config.json. A graph without documents is refused.
graph_of documents config.json documents
cp first/model/model.safetensors documents/
for model in config documents; do train --model $model --steps 2 --ranks 2 --pack best --out $model.packed; done
same_checkpoint config.packed/checkpoint-00000002 documents.packed/checkpoint-00000002
"$longspan" train --data text.txt --seq 32 --model graph --steps 1 --pack best --out x >out.txt 2>err && fail "documents were packed apart"
grep -q 'graph/graph.json: documents is false' err || fail "packed: $(cat err)"

# The checkpoint is whole, is inspected, and is exported under the user's names with the graph beside the weights.
run checkpoint verify killed
run checkpoint inspect killed
grep -q 'model  *imported graph · 0.03 M parameters · 44 nodes · V 260 · f32 · made by llama_graph.py' out.txt || fail "inspect: $(cat out.txt)"
run checkpoint inspect killed --json
json 'd["model"]["architecture"] == "imported graph" and d["model"]["nodes"] == 44 and d["files"][3]["name"] == "graph.json"' out.txt
for file in model.safetensors graph.json; do [ -f killed/model/$file ] || fail "the export has no $file"; done
[ ! -e killed/model/config.json ] || fail "the export has a config.json"
run eval --model killed/model --data text.txt --seq 32 --sequences 4
grep '^[0-9l]* ' out.txt | grep -v dp= >exported
run eval --model killed/model --checkpoint killed --data text.txt --seq 32 --sequences 4
grep '^[0-9l]* ' out.txt | grep -v dp= >saved
alike exported saved "eval of the export"
cat >same_tensors.py <<'PYTHON'
import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + n])
    return {k: (v["dtype"], v["shape"], data[8 + n :][slice(*v["data_offsets"])]) for k, v in head.items() if k != "__metadata__"}
a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
for name in sys.argv[3:]:
    assert b[name] == b["model.embed_tokens.weight"], name
    del b[name]
assert a == b, (a.keys() ^ b.keys(), [k for k in a if k in b and a[k] != b[k]])
PYTHON
python3 same_tensors.py killed/checkpoint-00000030/model.safetensors killed/model/model.safetensors || fail "the exported tensors"
run checkpoint export killed --dtype bf16 --out narrow
grep -q '"dtype": "bf16"' narrow/graph.json || fail "the type of the export: $(head -5 narrow/graph.json)"
run eval --model narrow --data text.txt --seq 32 --sequences 4

# A head that is tied has both names in the export, unless the user's files had one.
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' config.json >tied.json
graph_of tied tied.json also
mkdir tied_config
cp tied.json tied_config/config.json
train --model tied_config --steps 1 --out tied_first
cp tied_first/model/model.safetensors tied/
train --model tied --steps 3 --out tied_run
train --model tied_config --steps 1 --out tied_one # the random weights that tied_first has, too
python3 same_tensors.py tied_run/checkpoint-00000003/model.safetensors tied_run/model/model.safetensors || fail "a name was added that the user's files lack"
run checkpoint export tied_run --model text.txt --out tied_both
python3 same_tensors.py tied_run/checkpoint-00000003/model.safetensors tied_both/model.safetensors lm_head.weight || fail "both names"
cp tied/graph.json tied_both/
train --model tied_both --steps 1 --out tied_again # both names are read, and are the same
python3 same_tensors.py tied_again/checkpoint-00000001/model.safetensors tied_again/model/model.safetensors lm_head.weight || fail "both names again"

# What it cannot do.
graph_of mute config.json nologits
cp first/model/model.safetensors mute/
expect 1 "graph.json: logits is null, and generation needs them" generate --model mute --prompt a --tokens 2
expect 2 "--rope-theta for graph: rotary positions are part of the nodes of a graph.json" plan --model graph --rope-theta 5
mkdir bare
cp graph/graph.json bare/
"$longspan" train --data text.txt --model bare --steps 1 --seq 32 --out x >out.txt 2>err && fail "random weights"
grep -q 'bare has no \*.safetensors beside its graph.json' err || fail "no weights: $(cat err)"
cp config.json bare/
expect 2 "bare holds both config.json and graph.json" plan --model bare
echo ok
