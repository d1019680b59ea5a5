#!/bin/bash
# longspan grad of a model as a graph.json: it gives the bits of the same model as a config.json; its own inputs, labels, positions and
# documents, and what its loss is divided by.
. "$(dirname "$0")/../support/imported.sh"
python3 - <<'ARRAYS'
import random, struct
def npy(path, type, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (2, 40), }" % type
    open(path, "wb").write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n" + data)
ints = lambda path, list: npy(path, "<i4", struct.pack("<80i", *list))
floats = lambda path, list: npy(path, "<f4", struct.pack("<80f", *list))
random.seed(1)
tokens = [random.randrange(260) for _ in range(80)]
places = list(range(15)) + list(range(25)) + list(range(7)) + list(range(33))
users = [-100 if i % 11 == 5 else t for i, t in enumerate(tokens)]
ints("tokens.npy", tokens)
marked = [7 if i % 9 == 4 or i in (0, 39, 79) else max(t, 8) for i, t in enumerate(tokens)]
ints("marked.npy", marked)
ints("found.npy", [sum(m == 7 for m in marked[i // 40 * 40:i]) for i in range(80)])
ints("places.npy", places)
ints("users.npy", users)
ints("shifted.npy", [-100 if i % 40 == 39 else users[i + 1] for i in range(80)])
ints("numbers.npy", [9] * 15 + [4] * 25 + [1] * 7 + [0] * 33)
ints("late.npy", [1 + i % 40 for i in range(80)])
ints("jump.npy", [p + (i == 20) for i, p in enumerate(places)])
floats("ones.npy", [1] * 80)
floats("halves.npy", [0.5] * 80)
floats("half.npy", [i % 40 < 20 for i in range(80)])
ints("half_labels.npy", [tokens[i + 1] if i % 40 < 20 else -100 for i in range(80)])
ARRAYS

# The same bits on any ranks, and the same loss.
grad() { local model=$1 out=$2; shift 2; run grad --model "$model" --tokens "${tokens:-tokens.npy}" --threads 1 --out "$out" --logits "$out.npy" "$@"; head -1 out.txt; }
alike() { cmp "$1" "$2" || fail "$3: $2 has other bits than $1"; }
for type in f64 f32; do
    for spread in "--ranks 1" "--ranks 2" "--ranks 3" "--ranks 2 --mesh tp=2" "--ranks 2 --mesh ulysses=2" "--ranks 4 --mesh tp=2,ring=2"; do
        a=$(grad config a --dtype $type $spread) b=$(grad graph b --dtype $type $spread)
        alike a b "grad $type $spread"
        alike a.npy b.npy "logits $type $spread"
        [ "$a" = "$b" ] || fail "grad $type $spread: '$a' and '$b'"
    done
done

# Labels that the graph takes shifted, and documents by positions: as shifted labels and documents of a config.json.
graph_of documents config.json shift documents
cp first/model/model.safetensors documents/
for spread in "--ranks 3" "--ranks 2 --mesh dp=2"; do
    a=$(grad config a --labels shifted.npy --position-ids places.npy $spread) b=$(grad documents b --labels users.npy --position-ids places.npy $spread)
    alike a b "documents $spread"
    [ "$a" = "$b" ] || fail "documents $spread: '$a' and '$b'"
done
grad config c --labels shifted.npy >/dev/null
cmp -s a c && fail "documents change nothing"
a=$(grad config a --position-ids places.npy) b=$(grad documents b --position-ids places.npy)
alike a b "the next tokens of documents"
[ "$a" = "$b" ] && grep -q 'over 76 tokens' out.txt || fail "labels at the ends of documents: '$a', '$b', $(cat out.txt)"
expect 1 "late.npy: row 0, column 0 is 1; expected 0, where a document begins" grad --model documents --tokens tokens.npy --position-ids late.npy --out x
expect 1 "jump.npy: row 0, column 20 is 6; expected 0, where a document begins, or the position before it + 1" \
    grad --model documents --tokens tokens.npy --position-ids jump.npy --out x
expect 1 "graph/graph.json: documents is false, so that attention sees across documents" grad --model graph --tokens tokens.npy --position-ids places.npy --out x

# Documents by numbers, through which positions count on: rotations go by differences, so that the loss is the same. Where positions begin anew
# is the same for a padding mask's documents, and another model's for others.
for finds in padding numbers last; do
    graph_of $finds config.json shift documents $finds
    cp first/model/model.safetensors $finds/
done
for spread in "--ranks 3" "--ranks 2 --mesh dp=2" "--ranks 2 --mesh tp=2"; do
    grad documents a --labels users.npy --position-ids places.npy --dtype f64 $spread >loss
    for finds in padding numbers; do grad $finds b --labels users.npy --documents numbers.npy --dtype f64 $spread >>loss; done
    grad documents b --labels users.npy --documents numbers.npy --dtype f64 $spread >>loss
    python3 -c 'a = [float(line.split()[1]) for line in open("loss")]; assert len(a) == 4 and all(abs(x - a[0]) < 1e-6 for x in a), a' || fail "numbers $spread: $(cat loss)"
done
for spread in "--ranks 3" "--ranks 2 --mesh tp=2"; do
    a=$(tokens=marked.npy grad numbers a --labels users.npy --documents found.npy $spread) b=$(tokens=marked.npy grad last b --labels users.npy $spread)
    alike a b "documents in the tokens $spread"
    [ "$a" = "$b" ] || fail "documents in the tokens $spread: '$a' and '$b'"
done
tokens=marked.npy grad last c --labels users.npy --documents numbers.npy >/dev/null # what is told comes first
cmp -s a c && fail "numbers of documents change nothing"
a=$(grad documents a --labels users.npy --position-ids places.npy) b=$(grad padding b --labels users.npy --position-ids places.npy)
alike a b "the positions of a padded document"
expect 1 "numbers/graph.json: op iota counts the tokens of a sequence whatever its documents" \
    grad --model numbers --tokens tokens.npy --position-ids places.npy --out x
"$longspan" train --model numbers --data text.txt --pack best --seq 32 --out x 2>err && fail "positions that begin anew were taken"
grep -q "numbers/graph.json: op iota counts the tokens of a sequence" err || fail "$(cat err)"
run train --model padding --data text.txt --pack best --seq 32 --threads 1 --steps 1 --out padded
expect 2 "--documents numbers.npy: attention of the model is told of no documents; expected none" \
    grad --model graph --tokens tokens.npy --documents numbers.npy --out x
expect 2 "both say where documents begin; expected one" \
    grad --model documents --tokens tokens.npy --documents numbers.npy --position-ids places.npy --out x

# Another input: a weight for the loss of each token, on any ranks.
graph_of weighted config.json weighted
cp first/model/model.safetensors weighted/
grad config a >/dev/null
for spread in "--ranks 3" "--ranks 2 --mesh tp=2" "--ranks 2 --mesh dp=2"; do
    grad config a $spread >/dev/null
    grad weighted b --input weights=ones.npy $spread >/dev/null
    alike a b "weights 1 $spread"
    grad weighted c --input weights=half.npy --dtype f64 $spread >loss
    grad config d --labels half_labels.npy --dtype f64 $spread >half
    python3 -c 'import re; a, b = (re.findall(r"[\d.]+", open(f).read()) for f in ("loss", "half")); assert abs(float(a[0]) * int(a[1]) - float(b[0]) * int(b[1])) < 1e-5, (a, b)' ||
        fail "half of the tokens, $spread: $(cat loss), $(cat half)"
done
expect 2 'the model has an input "weights"; expected --input weights=FILE.npy' grad --model weighted --tokens tokens.npy --out x
expect 2 "--input 'weight=ones.npy'; expected NAME=FILE.npy with one of the inputs weights" grad --model weighted --tokens tokens.npy --input weight=ones.npy --out x
expect 2 '"weights" is given twice' grad --model weighted --tokens tokens.npy --input weights=ones.npy weights=ones.npy --out x
expect 1 "tokens.npy: elements are i4, expected f4 or f8" grad --model weighted --tokens tokens.npy --input weights=tokens.npy --out x
expect 2 "expected none" grad --model config --tokens tokens.npy --input weights=ones.npy --out x
expect 1 'graph.json: input "weights" is neither tokens nor labels nor positions' eval --model weighted --data text.txt
expect 1 'graph.json: input "weights" is neither tokens nor labels nor positions' train --model weighted --data text.txt --out x

# What the sum is divided by: 78 labels, 80 tokens, nothing.
for mean in tokens nothing; do
    graph_of $mean config.json $mean
    cp first/model/model.safetensors $mean/
    grad $mean b >$mean.txt
done
grad graph a >labels.txt
python3 - <<'CHECK' || fail "means: $(cat labels.txt tokens.txt nothing.txt)"
import re
labels, tokens, nothing = (float(re.findall(r"[\d.]+", open(f + ".txt").read())[0]) for f in ("labels", "tokens", "nothing"))
assert abs(labels * 78 - nothing) < 1e-3 and abs(tokens * 80 - nothing) < 1e-3, (labels, tokens, nothing)
CHECK
graph_of mute config.json nologits
cp first/model/model.safetensors mute/
expect 1 "graph.json: logits is null, and --logits needs them" grad --model mute --tokens tokens.npy --out x --logits y.npy
echo ok
