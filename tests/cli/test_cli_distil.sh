#!/bin/bash
# A student learns from a teacher's likeliest words: `logprobs --top` writes them as records, on any ranks the same, and `train --loss distil` reads them. Of
# itself a model learns nothing; long documents, sequences where documents see each other, mixtures, an adapter, a resumed run and settings from a file; what
# of records is refused.
. "$(dirname "$0")/../support/runs.sh"

make_tiny_model
python3 - <<'RECORDS'
from records import completions, words, write
write("texts.jsonl", [{"prompt": words(2), "completion": words(40)}, *completions(23)])
RECORDS
common=(--threads 1 --ranks-as threads)
"$longspan" train --model config.json --data texts.jsonl --records completion --seq 64 --steps 8 --lr 3e-2 "${common[@]}" --out teacher >out 2>err || fail "a teacher"
teach() { "$longspan" logprobs --model teacher/model --data texts.jsonl --records completion --seq 64 "${common[@]}" "$@" >out 2>err || fail "longspan logprobs $*: $(cat err)"; }
teach --top 4 --ranks 1 --out words.jsonl
teach --top 4 --temperature 2 --ranks 1 --out warm.jsonl
"$longspan" logprobs --model teacher/model --data texts.jsonl --records completion --temperature 2 --out no >out 2>err && fail "a temperature of nothing"
grep -q -- "--temperature 2 needs --top" err || fail "a temperature of nothing: $(cat err)"
n=0
for place in "--ranks 2" "--mesh tp=2 --tile all" "--mesh dp=2,ring=2 --batch 2" "--mesh pp=2"; do
    n=$((n + 1))
    # shellcheck disable=SC2086 # options
    teach --top 4 $place --out words$n.jsonl
done
python3 - <<'CHECK' || fail "a teacher's words"
import math
from records import read
ordered = lambda name: sorted(read(name), key=lambda d: (d["document"], d["offset"]))
one, warm = ordered("words.jsonl"), ordered("warm.jsonl")
# The first text is longer than two sequences, and cut as it is where a model is trained on it.
assert len(one) == 24 and one[0]["offset"] == 0 and len(one[0]["input_ids"]) == 65, [d["offset"] for d in one]
for d, w in zip(one, warm):
    assert d["teacher_temperature"] == 1 and w["teacher_temperature"] == 2 and d["teacher_ids"] == w["teacher_ids"]
    assert len(d["labels"]) == len(d["teacher_ids"]) == len(d["teacher_logprobs"]) == len(d["input_ids"])
    for label, token, ids, logprobs, warmer in zip(d["labels"], d["input_ids"], d["teacher_ids"], d["teacher_logprobs"], w["teacher_logprobs"]):
        assert label in (-100, token) and len(ids) == len(logprobs) == (4 if label != -100 else 0)
        assert sorted(logprobs, reverse=True) == logprobs and sum(map(math.exp, logprobs)) < 1 and all(x < y for x, y in zip(warmer[:1], logprobs[:1]) if y > -1)
        # At twice the temperature differences are half as large.
        assert all(abs((logprobs[0] - x) / 2 - (warmer[0] - y)) < 1e-5 for x, y in zip(logprobs, warmer))
for n in range(1, 5):
    for a, b in zip(one, ordered(f"words{n}.jsonl"), strict=True):
        assert all(a[name] == b[name] for name in ("document", "offset", "input_ids", "labels", "teacher_ids"))
        assert all(abs(x - y) < 1e-5 for r, s in zip(a["teacher_logprobs"], b["teacher_logprobs"]) for x, y in zip(r, s))
CHECK

train() { "$longspan" train --records teacher --loss distil --seq 64 --batch 4 "${common[@]}" --lr 3e-3 "$@" >out 2>err || fail "longspan train $*: $(cat err)"; }
least=8
# The teacher itself is no further from its words than rounding, at any temperature.
for words in words warm; do
    train --model teacher/model --data $words.jsonl --steps 1 --out self
    python3 -c "
from records import read
d = read('self/metrics.jsonl')[0]
assert abs(d['loss']) < 2e-6 and d['grad_norm'] < 1e-4, d" || fail "a teacher learns from itself: $(losses self | tr '\n' ' ')"
    rm -r self
done

# Sets with weights, evaluations, documents that see each other; then an adapter; each on several ranks.
mixed=(--model config.json --data a@2=words.jsonl b@1=words1.jsonl --distil-weight 0.6 --pack join --eval-data words.jsonl --eval-every 2 --steps 3)
adapted=(--model teacher/model --data warm.jsonl --distil-weight 0.5 --neftune 5 --lora r=2,alpha=4 --steps 4 --eval-data warm.jsonl --eval-every 4)
train --out mixed --ranks 1 "${mixed[@]}"
grep -q "teacher: 4 words in the place of each learnt token, at temperature 1; 0.6 of the loss" err || fail "what is learnt is not said"
train --out adapted --ranks 1 "${adapted[@]}"
for place in "--mesh ulysses=2 --accumulate 2" "--mesh dp=2,tp=2 --shard parameters" "--mesh pp=2 --accumulate 4"; do
    # shellcheck disable=SC2086 # options
    train --out x $place "${mixed[@]}"
    same mixed x
    # shellcheck disable=SC2086
    train --out y $place "${adapted[@]}"
    same adapted y
    rm -r x y
done
# A resumed run, and one of the file of settings, have the same bits.
train --out x --ranks 1 "${adapted[@]}" --max-seconds 1e-9
train --out x --resume --ranks 1 "${adapted[@]}" --max-seconds 1e6
cmp adapted/adapter/adapter_model.safetensors x/adapter/adapter_model.safetensors || fail "a resumed run"
"$longspan" train --config adapted/run.json --out again >out 2>err || fail "settings: $(cat err)"
cmp adapted/adapter/adapter_model.safetensors again/adapter/adapter_model.safetensors || fail "settings of a file"
"$longspan" eval --model adapted/adapter --data words.jsonl --records teacher --seq 64 "${common[@]}" >out 2>err || fail "eval: $(cat err)"

# What records say is checked.
python3 - <<'WRONG'
import records
def write(name, change, n=1):
    made = [records.read("words.jsonl")[0] for _ in range(n)]
    change(made[-1])
    records.write(name + ".jsonl", made)
first = records.read("words.jsonl")[0]
at = next(i for i, label in enumerate(first["labels"]) if label != -100) + 1
def rows(name, change): return lambda d: change(d[name][at])
def put(j, x): return lambda row: row.__setitem__(j, x)
write("id", rows("teacher_ids", put(1, 257)))
write("negative", rows("teacher_ids", put(1, -1)))
write("twice", lambda d: put(1, d["teacher_ids"][at][0])(d["teacher_ids"][at]))
write("above", rows("teacher_logprobs", put(0, 0.5)))
write("infinite", rows("teacher_logprobs", put(0, float("-inf"))))
write("text", rows("teacher_logprobs", put(0, "a")))
write("sum", rows("teacher_logprobs", lambda row: row.__setitem__(slice(None), [-0.1] * 4)))
write("short", rows("teacher_logprobs", lambda row: row.pop()))
write("none", rows("teacher_ids", lambda row: row.clear()))
write("list", lambda d: d["teacher_ids"].__setitem__(at, 5))
write("fewer", lambda d: d["teacher_logprobs"].pop())
write("other", lambda d: [row.pop() for name in ("teacher_ids", "teacher_logprobs") for row in d[name] if row], 2)
write("warmer", lambda d: d.update(teacher_temperature=2), 2)
write("cold", lambda d: d.update(teacher_temperature=0))
# Words that are not there, in places that are not learnt, in lists of any kind; and a mask.
def odd(d):
    d["teacher_ids"][0] = d["teacher_logprobs"][1] = None
    d["teacher_ids"][at][2] = -100
    d["teacher_logprobs"][at][2] = 7
    d["attention_mask"] = [1] * (len(d["labels"]) - 2) + [0, 0]
write("odd", odd, 2)
WRONG
loss=(--loss distil)
not_trained() { refused "$1" train "${loss[@]}" --model config.json --seq 64 --steps 1 "${common[@]}" --out no "${@:2}"; }
wrong() { not_trained "$2" --records teacher --data "$1.jsonl"; }
wrong id "[1] is 257, expected an id below 256, or -100 for no word"
wrong negative "[1] is -1, expected an id below 256"
wrong twice "expected each word once"
wrong above "[0] is 0.5, expected a finite log-probability, 0 at most"
wrong infinite "expected a finite log-probability, 0 at most"
wrong text "[0] is \"a\", expected a finite log-probability"
wrong sum "expected probabilities that add up to 1 at most, and not to 3.6193"
wrong short "expected 4 words, as for the learnt tokens before"
wrong none "expected 1 to 64 words, as the token is learnt"
wrong list "is 5, expected an array"
wrong fewer "items, expected"
wrong other "other.jsonl:2: teacher_ids has 3 words for a token, expected 4, as the records before"
wrong warmer "warmer.jsonl:2: teacher_temperature is 2, expected 1, as the records before have it"
wrong cold "teacher_temperature is 0, expected a number from 0.001 to 1000"
not_trained "--data: --loss distil learns from a teacher's words; expected --records teacher" --data words.jsonl --records ids
not_trained "--eval-data: 4 words of a teacher at temperature 2; expected 4 at 1, as in --data" --data words.jsonl --records teacher --eval-data warm.jsonl
not_trained "--label-smoothing with --loss distil" --data words.jsonl --records teacher --label-smoothing 0.1
loss=(--loss sft)
not_trained "words of a teacher, which --loss sft does not read; expected --loss distil, or --records ids" --data words.jsonl --records teacher
not_trained "--distil-weight with --loss sft; expected --loss distil" --data words.jsonl --records ids --distil-weight 0.5
"$longspan" data build --records teacher --out shards words.jsonl >out 2>err && fail "shards"
grep -q "shards hold no words of a teacher" err || fail "shards: $(cat err)"
train --model config.json --data odd.jsonl --steps 1 --out odd
grep -q "2  tokens of padding: their attention_mask is 0\|4  tokens of padding" err || fail "padding is not counted: $(cat err)"
train --model config.json --skip-bad --data other.jsonl --steps 1 --out some
grep -q "1  records that cannot be read" err || fail "--skip-bad does not count: $(cat err)"
echo ok
