#!/bin/bash
# The work of a rank falls with the number of ranks: the bytes that it reads of token shards in a step, and of weights at the start. They are
# those of the rank that read most (metrics.jsonl).
. "$(dirname "$0")/../support/cli.sh"

make_wide_model 64
make_lines 400 >text.txt
"$longspan" data build text.txt --out shards >out.txt 2>err || fail "build: $(cat err)"
threads=(--threads 1)
[ "${LS_TEST_SANITIZER:-}" = thread ] && threads+=(--ranks-as threads)
S=128 B=4 data=shards
"$longspan" train --model config.json --data shards --seq $S --batch $B --steps 1 "${threads[@]}" --out made >out.txt 2>err || fail "train: $(cat err)"

# run NAME OPTIONS...: two steps from the weights that were made.
run() {
    local name=$1
    shift
    "$longspan" train --model made/model --data $data --seq $S --batch $B --steps 2 "${threads[@]}" "$@" --out "$name" >out.txt 2>err ||
        fail "train $*: $(cat err)"
}
for dtype in f32 bf16; do
    run one-$dtype --ranks 1 --dtype $dtype
    for P in 2 4; do run ring-$dtype-$P --mesh ring=$P --layout contiguous --dtype $dtype; done
done
for P in 2 4; do
    run zigzag-$P --mesh ring=$P --layout zigzag
    run striped-$P --mesh ring=$P --layout striped
    run dp-$P --mesh dp=$P
    data=text.txt run text-$P --mesh ring=$P
    B=$((2 * B)) run twice-$P --mesh dp=$P --accumulate 2
done
# A checkpoint, from which any number of ranks goes on.
for P in 1 2 4; do
    cp -r one-f32 more-$P
    "$longspan" train --model made/model --data shards --steps 3 --ranks $P "${threads[@]}" --resume --replan --out more-$P >out.txt 2>err ||
        fail "resume: $(cat err)"
done

python3 - $S $B <<'CHECK' || fail "the bytes that ranks read"
import json, os, sys
S, B = map(int, sys.argv[1:])
def lines(run): return [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
def step(run): return {line["read_bytes"] for line in lines(run)}
def weights(run): return [line["start_up"]["weights_read_bytes"] for line in lines(run) if "start_up" in line][-1]

# A token of these shards has one byte. A rank reads its tokens, and the token after each run of them.
assert step("one-f32") == {B * (S + 1)}, step("one-f32")
for P in 2, 4:
    assert step(f"ring-f32-{P}") == {B * (S // P + 1)}, step(f"ring-f32-{P}")
    assert step(f"zigzag-{P}") == {B * (S // P + 2)}, step(f"zigzag-{P}")
    assert step(f"striped-{P}") == {B * 2 * (S // P)}, step(f"striped-{P}")
    assert step(f"dp-{P}") == {B // P * (S + 1)}, step(f"dp-{P}")
    # Of two micro-batches the second is read twice: to count its labels, and to compute.
    assert step(f"twice-{P}") == {3 * B // P * (S + 1)}, step(f"twice-{P}")
    # Text was tokenized before the first step.
    assert step(f"text-{P}") == {0}, step(f"text-{P}")

# Weights: all elements on one rank, each for the parameter and in bf16 for its master too; then 1/P of them, and padding.
size = os.path.getsize("made/model/model.safetensors")
for dtype, times in ("f32", 1), ("bf16", 2):
    one = weights(f"one-{dtype}")
    assert 0.9 * times * size < one < times * size, (dtype, one, size)
    for P in 2, 4:
        share = weights(f"ring-{dtype}-{P}") * P / one
        assert 1 <= share < 1.05, (dtype, P, share)
# A checkpoint is read once to check its pieces, and once to convert them. Pieces are checked as wholes, of which so small a model has few.
one = weights("more-1")
for P in 2, 4:
    assert weights(f"more-{P}") < (1 / P + 0.3) * one, (P, weights(f"more-{P}"), one)
CHECK
echo ok
