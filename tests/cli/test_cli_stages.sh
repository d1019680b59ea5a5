#!/bin/bash
# longspan train on stages of a pipeline: the losses of one rank, packed documents and an evaluation among them, with predicted memory; a run goes on
# with another number of stages; and what is refused.
. "$(dirname "$0")/../support/runs.sh"

make_tiny_model 4
for i in 1 2 3 4 5 6 7 8 9; do { make_lines $i; echo "end of text $i"; } >text$i.txt; done
make_lines 60 >eval.txt
job=(--model config.json --data text?.txt --seq 48 --batch 8 --accumulate 4 --lr 0.003 --threads 1 --eval-data eval.txt --eval-every 2 --ranks-as threads --save-every 2)
text=("${job[@]}")
fields='loss\|eval_loss'
least=6
train() { "$longspan" train "${job[@]}" "$@" >out 2>err || fail "longspan train $*: $(tail -3 err)"; }

train --steps 4 --out one --ranks 1
grep -q '"documents": [2-9]' one/run.json || fail "the text is not of several documents"
for place in "pp=2" "pp=4 --pipeline zero-bubble" "pp=2,dp=2 --pipeline interleaved:2" "pp=2,tp=2 --shard gradients" \
    "pp=2 --slices 4" "pp=2 --offload all" "pp=2,ring=2 --slices 3 --pipeline zero-bubble"; do
    # shellcheck disable=SC2086 # options
    train --steps 4 --out stages --mesh $place
    same one stages
    rm -rf stages
done

# Documents apart, which several slices of a sequence have parts of.
train --steps 4 --out apart --ranks 1 --pack best
train --steps 4 --out sliced --mesh pp=2 --slices 3 --pack best
same apart sliced

# The last stage trains nothing, and saves with the others.
job=("${job[@]/config.json/one/model}" --lora "r=2,alpha=4,target=layers.0.self_attn.q_proj")
train --steps 4 --out adapted --ranks 1
train --steps 4 --out tuned --mesh pp=2 --max-seconds 1e-9
train --steps 4 --out tuned --resume --max-seconds 1e6
same adapted tuned
job=("${text[@]}")

# Two steps on two stages, then two on four, on one rank, and as replicas.
train --steps 4 --out first --mesh pp=2 --max-seconds 1e-9
mkdir copies && cp -r first copies/a && cp -r first copies/b
rm -rf first
for place in "a --mesh pp=4" "b --mesh dp=2"; do
    # shellcheck disable=SC2086
    train --steps 4 --out copies/${place%% *} --resume --replan --max-seconds 1e6 ${place#* }
    same one copies/${place%% *}
done

refused "expected 1f1b, interleaved:N" train "${job[@]}" --steps 1 --out x --mesh pp=2 --pipeline gpipe
refused "expected 1f1b, interleaved:N" train "${job[@]}" --steps 1 --out x --mesh pp=2 --pipeline interleaved:1
refused "needs stages; expected --mesh with pp=2" train "${job[@]}" --steps 1 --out x --ranks 1 --pipeline 1f1b
refused "4 micro-batches of a step on 3 stages; expected a multiple of 3" train "${job[@]}" --steps 1 --out x --mesh pp=3 --pipeline interleaved:2
refused "needs stages, which it keeps busy" train "${job[@]}" --steps 1 --out x --ranks 1 --slices 2
refused "a sequence of 48 tokens; expected a multiple of 5" train "${job[@]}" --steps 1 --out x --mesh pp=2 --slices 5
refused "the model can be cut at" train "${job[@]}" --steps 1 --out x --mesh pp=64
refused "stages add up micro-batches in another order" train --model config.json --data text1.txt --seq 48 --batch 2 --accumulate 2 --steps 1 --out x --mesh pp=2 --sums canonical
"$longspan" plan --model config.json --seq 48 --batch 8 --accumulate 4 --mesh pp=2 >out 2>err || fail "plan: $(tail -3 err)"
grep -q "pp 2" out || fail "plan does not name the stages"
echo ok
