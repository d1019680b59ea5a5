#!/bin/bash
# longspan eval as a command, and the same table at the end of train: files, agreement, refusals. test_cli_eval.sh BUILD
. "$(dirname "$0")/support/cli.sh"

cat >config.json <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 257, "hidden_size": 16,
 "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false}
CONFIG
for i in $(seq 400); do echo "line $i of a text that is long enough"; done >text.txt
base=(--model config.json --data text.txt --seq 32 --threads 1)
[ "${LS_TEST_SANITIZER:-}" = thread ] && base+=(--ranks-as threads)

# The end of a training writes the table and the picture, of the weights that it saved.
"$longspan" train "${base[@]}" --out run --steps 40 --lr 0.01 --eval-data text.txt >out.txt 2>err || fail "train: $(cat err)"
grep -q 'positions   run/loss_by_position.svg: ' out.txt || fail "summary: $(cat out.txt)"
"$longspan" eval "${base[@]}" --checkpoint run --sequences 4 --ranks 2 --out again --json >out.json 2>err || fail "eval: $(cat err)"
"$longspan" eval "${base[@]}" --checkpoint run --sequences 4 --batch 3 --ranks 1 >out.txt 2>err || fail "eval: $(cat err)"
grep -q 'tokens seen before' out.txt && grep -q 'perplexity' out.txt || fail "page: $(cat out.txt)"
python3 - <<'CHECK' || fail "tables"
import json, math, xml.dom.minidom
of_train, of_eval, out = json.load(open("run/eval.json")), json.load(open("again/eval.json")), json.load(open("out.json"))
assert of_train["sequences"] == of_eval["sequences"] == out["sequences"] == 4, of_train
assert of_eval["by_position"] == out["by_position"] and len(out["by_position"]) == 6, out
for a, b in zip(of_train["by_position"], of_eval["by_position"]):
    assert (a["first"], a["last"], a["tokens"]) == (b["first"], b["last"], b["tokens"]), (a, b)
    assert abs(a["loss"] - b["loss"]) < 1e-5 and abs(a["error"] - b["error"]) < 1e-5, (a, b)
assert out["loss"] < 5 and abs(out["perplexity"] - math.exp(out["loss"])) < 1e-9, out
assert sum(b["tokens"] for b in out["by_position"]) == out["tokens"] == 128, out
assert out["by_position"][-1]["last"] == 32, out
for path in ("run/loss_by_position.svg", "again/loss_by_position.svg"):
    assert "tokens of the document seen before" in xml.dom.minidom.parse(path).toxml()
CHECK

expect 2 "--data" eval --model config.json
expect 2 "--seq" eval "${base[@]}" --seq 0
expect 2 "--sequences" eval "${base[@]}" --sequences -3
expect 2 "--dtype" eval "${base[@]}" --dtype f64
expect 1 "no checkpoint" eval "${base[@]}" --checkpoint .
expect 1 "a sequence of 100000" eval --model config.json --data text.txt --seq 100000
expect 2 "--checkpoin" eval "${base[@]}" --checkpoin run
expect 1 "text.txt" eval "${base[@]}" --checkpoint run --out text.txt/x
echo ok
