#!/bin/bash
# --sums canonical: 20 steps of a Llama on 1, 2, 4 and 8 ranks, by dp, ulysses, gather and together, in f32 and bf16, with each instruction set
# of this machine: the same losses, norms, weights and moments, to the last bit.
. "$(dirname "$0")/../support/cli.sh"

make_wide_model 128 # 16 query heads, 8 KV heads
make_lines 3000 >text.txt
for isa in $("$longspan" version --json | python3 -c "import json, sys; print(json.load(sys.stdin)['isas'].replace(',', ''))"); do
    for dtype in f32 bf16; do
        for place in dp=1/local dp=2/local ulysses=2/ulysses ring=2/gather dp=4/local ulysses=4/ulysses ring=4/gather ring=2,ulysses=2/gather \
            dp=8/local ulysses=8/ulysses ring=8/gather dp=2,ring=2,ulysses=2/gather; do
            rm -rf run
            "$longspan" train --model config.json --data text.txt --seq 300 --batch 8 --steps 20 --lr 0.003 --clip 0.5 --sums canonical --isa "$isa" \
                --dtype "$dtype" --mesh "${place%/*}" --strategy "${place#*/}" --out run >out 2>err || fail "$isa $dtype $place: $(cat err)"
            found=$(cat run/checkpoint-*/model.safetensors run/checkpoint-*/optimizer.safetensors | sha256sum | cut -c1-16)
            found+=" $(python3 -c "import json; print([(d['loss'], d['grad_norm']) for d in map(json.loads, open('run/metrics.jsonl'))])" | sha256sum | cut -c1-16)"
            [ "$place" = dp=1/local ] && one=$found
            echo "$isa $dtype $place: weights and moments, losses and norms: $found"
            [ "$found" = "$one" ] || fail "$isa $dtype $place: other bits than one rank"
        done
    done
done
