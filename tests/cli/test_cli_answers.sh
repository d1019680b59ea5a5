#!/bin/bash
# Losses that compare answers: dpo begins at log 2; any ranks, micro-batches and stages give the same losses, and so does a resumed run; pairs are kept
# whole; what is no pair is refused.
. "$(dirname "$0")/../support/runs.sh"

make_tiny_model 4
python3 - <<'RECORDS'
from records import pairs, words, write
write("pairs.jsonl", pairs(24))
write("others.jsonl", pairs(7))
write("long.jsonl", [{"prompt": "a", "chosen": words(n), "rejected": words(1) + " b"} for n in (1, 60, 2)])
RECORDS
model=(--model config.json)
lr=3e-3
job=(--data pairs.jsonl --records preference --seq 96 --batch 8 --threads 1 --ranks-as threads --eval-data others.jsonl --eval-every 3)
train() { "$longspan" train "${model[@]}" "${job[@]}" --lr "$lr" "$@" >out 2>err || fail "longspan train $*: $(tail -3 err)"; }
fields+='\|reward_margin'
least=14
for loss in dpo ipo hinge simpo orpo; do
    train --loss $loss --steps 4 --out $loss-one --ranks 1
    python3 - $loss <<'LEARNS' || fail "$loss does not learn"
import math, sys
from records import read
lines = read(sys.argv[1] + "-one/metrics.jsonl")
first, last = lines[0]["loss"], lines[-1]["loss"]
begins = {"dpo": math.log(2), "ipo": 25, "hinge": 1}
assert abs(first - begins.get(sys.argv[1], first)) < 1e-6 * first, first
assert last < first and lines[-1]["reward_margin"] > lines[0]["reward_margin"] and lines[-1]["pairs"] >= 8, lines
assert sum("eval_loss" in line for line in lines) == 2
LEARNS
done
for place in "--ranks 2" "--ranks 4 --mesh ring=4 --accumulate 2" "--mesh dp=2,tp=2 --shard parameters" "--mesh pp=2 --accumulate 4" "--mesh ulysses=2 --accumulate 8 --recompute all --tile all"; do
    # shellcheck disable=SC2086 # options
    train --loss dpo --steps 4 --out x $place
    same dpo-one x
    rm -rf x
done
train --loss orpo --steps 4 --out x --mesh ring=2,dp=2 --accumulate 2
same orpo-one x
rm -rf x

# What orpo learns of wanted answers: their prompts too, or not. Its loss is that of these tokens and beta times that of the odds.
lr=1e-30
train --loss orpo --steps 1 --out text --ranks 2
train --loss orpo --imitate answers --steps 1 --out answers --ranks 1
lr=3e-3
sed 's/{"prompt": "\(.\)\(.*\)", "chosen": "\(.*\)", "rejected".*/{"prompt": "\1", "completion": "\2\3"}/' others.jsonl >whole.jsonl
for records in preference completion; do
    [ $records = preference ] && data=others.jsonl || data=whole.jsonl
    "$longspan" logprobs --model text/model --threads 1 --records $records --data $data --seq 96 --out $records.out >out 2>err || fail "longspan logprobs: $(tail -3 err)"
done
python3 - <<'CHECK' || fail "orpo learns other tokens: $(grep -o '"eval_loss[^,]*' text/metrics.jsonl answers/metrics.jsonl)"
import math
from records import read
odds = lambda d: (lambda x: x - math.log(-math.expm1(x)))(d["sum"] / len(d["logprobs"]))
mean = lambda some: -sum(d["sum"] for d in some) / sum(len(d["logprobs"]) for d in some)
pairs, whole = (read(name + ".out") for name in ("preference", "completion"))
wanted, others = pairs[::2], pairs[1::2]
compared = 0.1 * sum(math.log1p(math.exp(odds(b) - odds(a))) for a, b in zip(wanted, others)) / 7
for run, learnt in ("answers", wanted), ("text", whole):
    found = read(run + "/metrics.jsonl")[0]["eval_loss"]
    assert len(learnt) == 7 and abs(found - compared - mean(learnt)) < 1e-6, (run, found, compared, mean(learnt))
assert abs(mean(wanted) - mean(whole)) > 1e-4
CHECK
"$longspan" train --model config.json --data pairs.jsonl --records preference --loss orpo --out answers --resume --imitate text >out 2>err && fail "another --imitate"
grep -q -- "--imitate text contradicts answers/run.json, which says answers" err || fail "another --imitate is not named"
rm -rf answers text

# A resumed run has the reference that it was begun with.
train --loss dpo --steps 4 --out x --max-seconds 1e-9
[ -e x/reference.npy ] || fail "no reference is kept"
train --loss dpo --steps 4 --out x --resume --max-seconds 1e6
same dpo-one x
rm x/reference.npy
"$longspan" train "${model[@]}" "${job[@]}" --lr "$lr" --loss dpo --steps 6 --out x --resume >out 2>err && fail "a reference that is lost is not missed"
tail -1 err | grep -q "reference.npy" || fail "the error does not name the reference"

# With no step to speak of an evaluation is at log 2, of whichever sequences it reads.
lr=1e-30
train --loss dpo --steps 3 --out still --eval-sequences 3 --ranks 2
grep -q '"eval_loss": 0.693147' still/metrics.jsonl || fail "an evaluation of some sequences: $(grep -o '"eval_loss[^,]*' still/metrics.jsonl)"
lr=3e-3

# Their log-probabilities, in the order of the records, are those of the reference; each answer by itself has the same.
logprobs() { "$longspan" logprobs --model dpo-one/model --threads 1 --ranks-as threads --records "$1" --data "$2" --out "$3" "${@:4}" >out 2>err || fail "longspan logprobs $*: $(tail -3 err)"; }
logprobs preference pairs.jsonl one.jsonl --seq 96
logprobs preference pairs.jsonl four.jsonl --seq 150 --batch 2 --mesh ring=2,dp=2
python3 - <<'APART'
from records import read, write
write("apart.jsonl", [{"prompt": pair["prompt"], "completion": pair[answer]} for pair in read("pairs.jsonl") for answer in ("chosen", "rejected")])
APART
logprobs completion apart.jsonl apart.out --seq 64 --ranks 2
python3 - <<'CHECK' || fail "log-probabilities differ"
from records import read
one, four, apart = map(read, ("one.jsonl", "four.jsonl", "apart.out"))
assert [d["document"] for d in one] == list(range(48)) and [d["chosen"] for d in one] == [True, False] * 24
for other in four, apart:
    assert len(other) == 48
    for a, b in zip(one, other):
        assert a["ids"] == b["ids"] and a["places"] == b["places"] and len(a["ids"]) > 3 and abs(a["sum"] - sum(a["logprobs"])) < 1e-9
        assert all(abs(x - y) < 1e-5 and x < 0 for x, y in zip(a["logprobs"], b["logprobs"]))
CHECK

# An adapter's reference is the model without it.
model=(--model dpo-one/model)
train --loss dpo --steps 2 --out adapted --lora r=4,alpha=8
grep -q '"loss": 0.69314' adapted/metrics.jsonl || fail "dpo of an adapter does not begin at log 2"

"$longspan" train --model config.json --data long.jsonl --records preference --loss dpo --seq 64 --steps 1 --out long >out 2>err || fail "a pair that is too long"
grep -q "2  documents in pairs that are longer than a sequence of 64: left out" err || fail "pairs that are too long are not counted"
grep -q '"pairs": 2,' long/metrics.jsonl || fail "the other pairs are not learnt"

make_lines 30 >text.txt
refused "--data: pairs of answers, and --loss sft learns tokens" train "${model[@]}" "${job[@]}" --steps 1 --out no
refused "--loss dpo compares answers; expected --records preference" train --model config.json --data text.txt --seq 48 --loss dpo --steps 1 --out no
refused "--loss dpo compares answers; expected --records preference, packed as pairs" train "${model[@]}" "${job[@]}" --pack best --loss dpo --steps 1 --out no
refused "--pack pairs: the documents are no pairs of answers" train --model config.json --data text.txt --seq 48 --pack pairs --steps 1 --out no
refused "shards hold no pairs of answers" data build --tokenizer dpo-one/model --out no --records preference pairs.jsonl
refused "--loss is 'ppo'" train "${model[@]}" "${job[@]}" --loss ppo --steps 1 --out no
echo ok
