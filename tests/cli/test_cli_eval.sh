#!/bin/bash
# longspan eval as a command, and the same table at the end of train: files, agreement, refusals.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
make_lines 400 >text.txt
base=(--model config.json --data text.txt --seq 32 --threads 1)
[ "${LS_TEST_SANITIZER:-}" = thread ] && base+=(--ranks-as threads)

# At its end a training writes the table and the picture, for the weights that it saved.
"$longspan" train "${base[@]}" --out run --steps 40 --lr 0.01 --eval-data text.txt --eval-sequences 4 >out.txt 2>err || fail "train: $(cat err)"
grep -q 'positions   run/loss_by_position.svg: ' out.txt || fail "summary: $(cat out.txt)"
"$longspan" eval "${base[@]}" --checkpoint run --sequences 4 --ranks 2 --out again --json >out.json 2>err || fail "eval: $(cat err)"
"$longspan" eval "${base[@]}" --checkpoint run --sequences 4 --batch 3 --ranks 1 >out.txt 2>err || fail "eval: $(cat err)"
grep -q 'tokens seen before' out.txt && grep -q 'perplexity' out.txt || fail "page: $(cat out.txt)"
python3 - <<'CHECK' || fail "tables"
import json, math, xml.dom.minidom
of_train, of_eval, out = json.load(open("run/eval.json")), json.load(open("again/eval.json")), json.load(open("out.json"))
assert of_train["sequences"] == of_eval["sequences"] == out["sequences"] == 4, of_train
assert of_eval["by_position"] == out["by_position"], out
for a, b in zip(of_train["by_position"], of_eval["by_position"]):
    assert (a["first"], a["last"], a["tokens"]) == (b["first"], b["last"], b["tokens"]), (a, b)
    assert abs(a["loss"] - b["loss"]) < 1e-5 and abs(a["error"] - b["error"]) < 1e-5, (a, b)
assert out["loss"] < 5 and abs(out["perplexity"] - math.exp(out["loss"])) < 1e-9, out
assert sum(b["tokens"] for b in out["by_position"]) == out["tokens"] == 128, out
assert out["by_position"][-1]["last"] == 32, out
for path in ("run/loss_by_position.svg", "again/loss_by_position.svg"):
    assert "tokens of the document seen before" in xml.dom.minidom.parse(path).toxml()
CHECK

# Packed documents, of which the answers alone count: every learnt token once, and by its distance into its own document. The end of a
# packed training evaluates so too.
for i in $(seq 30); do
    printf '{"prompt": "%s?", "completion": " yes, %s"}\n' "$(seq -s' ' $i)" "$(seq -s, $((i * 5 % 17 + 1)))"
done >lines.jsonl
"$longspan" data build --out shards --records completion lines.jsonl >out.txt 2>err || fail "build: $(cat err)"
"$longspan" data inspect shards --json >shards.json
packed=(--model config.json --data shards "${base[@]:4}" --too-long split --pack best)
"$longspan" train "${packed[@]}" --out packed --steps 3 --eval-data shards --eval-every 2 >out.txt 2>err || fail "train: $(cat err)"
for ranks in 1 2; do
    "$longspan" eval "${packed[@]}" --checkpoint packed --ranks $ranks --out packed-$ranks --json >packed-$ranks.json 2>err || fail "eval: $(cat err)"
    grep -q 'packed (best): documents do not see each other' err || fail "eval says nothing of packing: $(cat err)"
done
"$longspan" eval "${packed[@]:0:8}" --pack join --too-long split --checkpoint packed --json >joined.json 2>err || fail "eval: $(cat err)"
python3 - <<'CHECK' || fail "packed evaluation"
import json
shards, one, two, joined = (json.load(open(f)) for f in ("shards.json", "packed-1.json", "packed-2.json", "joined.json"))
assert 0 < shards["learnt_tokens"] == one["tokens"] == two["tokens"] < shards["tokens"], (shards, one)
assert joined["tokens"] != one["tokens"] and joined["loss"] != one["loss"], joined
assert [b["tokens"] for b in one["by_position"]] == [b["tokens"] for b in two["by_position"]]
assert abs(one["loss"] - two["loss"]) < 1e-5, (one, two)
# The expected counts: a byte is a token, a document ends with one more token, and pieces of 32 begin anew.
bins = {}
for line in open("lines.jsonl"):
    r = json.loads(line)
    prompt = len(r["prompt"])
    for t in range(prompt, prompt + len(r["completion"]) + 1):
        seen = (t - 1) % 32 + 1
        bins[seen] = bins.get(seen, 0) + 1
for b in one["by_position"]:
    assert b["tokens"] == sum(n for seen, n in bins.items() if b["first"] <= seen <= b["last"]), (b, bins)
assert json.load(open("packed/eval.json"))["pack"] == json.load(open("packed-1/eval.json"))["pack"] == "best"
lines = [json.loads(l) for l in open("packed/metrics.jsonl")]
assert [("eval_loss" in l) for l in lines] == [False, True, True], lines
CHECK

expect 2 "--pack" eval "${base[@]}" --pack loosely
expect 2 "--data" eval --model config.json
expect 2 "--seq" eval "${base[@]}" --seq 0
expect 2 "--sequences" eval "${base[@]}" --sequences -3
expect 2 "--dtype" eval "${base[@]}" --dtype f64
expect 1 "no checkpoint" eval "${base[@]}" --checkpoint .
expect 1 "a sequence of 100000" eval --model config.json --data text.txt --seq 100000
expect 2 "--checkpoin" eval "${base[@]}" --checkpoin run
expect 1 "text.txt" eval "${base[@]}" --checkpoint run --out text.txt/x
echo ok
