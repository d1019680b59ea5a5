#!/bin/bash
# longspan generate and longspan recall as commands: only text on standard output, the same for any ranks, ended by
# Ctrl-C; the grid's files; refusals.
. "$(dirname "$0")/../support/cli.sh"

cat >config.json <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256, "hidden_size": 16,
 "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.2,
 "max_position_embeddings": 1280, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false}
CONFIG
for i in $(seq 400); do echo "line $i of a text that is long enough"; done >text.txt
base=(--model config.json --threads 1)
ranks=()
[ "${LS_TEST_SANITIZER:-}" = thread ] && ranks+=(--ranks-as threads)

# --- generate ---
greedy=(generate "${base[@]}" --tokens 40 --temperature 0 --seed 3)
"$longspan" "${greedy[@]}" --prompt "line 12 of" >one.txt 2>err || fail "generate: $(cat err)"
grep -q '40 tokens at .*, after a prompt of 10 at' err || fail "figures: $(cat err)"
printf 'line 12 of' >prompt.txt
"$longspan" "${greedy[@]}" --prompt-file prompt.txt --ranks 3 --strategy ring >three.txt 2>err || fail "generate: $(cat err)"
cmp one.txt three.txt || fail "ranks change the text"
grep -q 'memory of a rank: .* predicted, .* keys and values; .* resident' err || fail "memory: $(cat err)"
"$longspan" "${greedy[@]}" --prompt-file - <prompt.txt >three.txt 2>err || fail "generate: $(cat err)"
cat prompt.txt | "$longspan" "${greedy[@]}" --prompt-file - 2>err | cmp one.txt - && cmp one.txt three.txt || fail "standard input: $(cat err)"
"$longspan" "${greedy[@]}" --prompt "line 12 of" --ranks 2 --json >out.json 2>err || fail "generate: $(cat err)"
python3 - <<'CHECK' || fail "generate --json"
import json, os
d, text = json.load(open("out.json")), open("one.txt", encoding="utf-8").read()
assert d["prompt"] == "line 12 of" and d["prompt_tokens"] == 10 and d["tokens"] == 40, d
assert len(d["ids"]) == 40 and d["finish"] == "tokens", d
# Keys and values: 1 layer, 2 of them, 1 head of 8, f32; half of 49 tokens, rounded up.
assert d["cache_bytes"] == 2 * 8 * 4 * 25 and d["cache_bytes"] < d["predicted_bytes"], d
assert d["resident_bytes"] < d["predicted_bytes"] + 2 * 4096, d
# qemu accepts MADV_POPULATE_WRITE without doing anything.
assert d["predicted_bytes"] <= d["resident_bytes"] or os.environ.get("TEST_EMULATOR"), d
assert text == d["text"] + "\n" and d["decode_seconds"] > 0 and d["mesh"] in ("dp=1,ring=2,ulysses=1,tp=1", "dp=1,ring=1,ulysses=2,tp=1"), d
CHECK

# Generation ends at the model's end-of-text tokens, and at the last learned position.
stop=$(python3 -c 'import json; d = json.load(open("out.json"))["ids"]; print(d[7], d.index(d[7]))')
mkdir ends
sed "s/\"vocab_size\"/\"eos_token_id\": [255, ${stop% *}], &/" config.json >ends/config.json
for more in "" --ignore-eos; do
    "$longspan" generate --model ends --threads 1 --tokens 40 --temperature 0 --seed 3 --prompt "line 12 of" --json $more >out.json 2>err || fail "generate: $(cat err)"
    [ -n "$more" ] && ends='"tokens"' n=40 || { ends='"end"'; n=${stop#* }; }
    json "d['finish'] == $ends and d['tokens'] == len(d['ids']) == $n" out.json
done
echo '{"architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 24}' >learned.json
"$longspan" generate --model learned.json --threads 1 --prompt "line 12 of" --tokens 15 >out 2>err || fail "all positions: $(cat err)"
expect 2 "--tokens 16 after a prompt of 10: the model has 24 positions, which are learned; expected at most 15" \
    generate --model learned.json --threads 1 --prompt "line 12 of" --tokens 16

# A model with a number that is not finite, and one whose results overflow: both are errors.
python3 - <<'MODELS'
import json, math, os, struct
config = json.load(open("config.json"))
E, F, V, D = 16, 24, 256, 8
layer = {"self_attn.q_proj": (2 * D, E), "self_attn.k_proj": (D, E), "self_attn.v_proj": (D, E), "self_attn.o_proj": (E, 2 * D),
         "mlp.gate_proj": (F, E), "mlp.up_proj": (F, E), "mlp.down_proj": (E, F), "input_layernorm": (E,), "post_attention_layernorm": (E,)}
shapes = {"model.embed_tokens.weight": (V, E), "lm_head.weight": (V, E), "model.norm.weight": (E,)}
shapes.update({f"model.layers.0.{name}.weight": shape for name, shape in layer.items()})
for folder, value in (("nan", math.nan), ("huge", 3e38)):
    os.mkdir(folder)
    json.dump(config, open(f"{folder}/config.json", "w"))
    header, data = {}, b""
    for name, shape in shapes.items():
        numbers = [0.01 * (i % 7 + 1) for i in range(math.prod(shape))]
        if name == "model.layers.0.mlp.up_proj.weight" and folder == "nan": numbers[37] = value
        if name in ("lm_head.weight", "model.norm.weight") and folder == "huge": numbers = [value] * len(numbers)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(numbers)]}
        data += struct.pack(f"<{len(numbers)}f", *numbers)
    text = json.dumps(header).encode()
    open(f"{folder}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
MODELS
for n in 1 2; do
    expect 1 "not finite: element 37 of tensor model.layers.0.mlp.up_proj.weight is nan" \
        generate --model nan --threads 1 --ranks $n --prompt ab --tokens 5
    expect 1 "the loss is not finite: element 37 of tensor model.layers.0.mlp.up_proj.weight is nan" \
        eval --model nan --threads 1 --ranks $n --data text.txt --seq 32 ${ranks[@]+"${ranks[@]}"}
done
expect 1 "element 37 of tensor model.layers.0.mlp.up_proj.weight is nan" recall --model nan --threads 1 --lengths 400
expect 1 "every weight is" generate --model huge --threads 1 --prompt ab --tokens 5

# Ctrl-C: the text so far stays, and one line says how it ended.
"$longspan" generate "${base[@]}" --tokens 1000000 --prompt a --seed 3 --top-k 5 >out 2>err & pid=$!
for _ in $(seq 600); do [ -s out ] && break; sleep 0.1; done
kill -INT $pid
status=0
wait $pid || status=$?
[ $status -eq 1 ] || fail "Ctrl-C: exit $status: $(cat err)"
grep -q 'stopped after [0-9]* tokens' err || fail "Ctrl-C: $(cat err)"
iconv -f utf-8 -t utf-8 out >/dev/null && [ "$(tail -c 1 out | od -An -tx1)" = " 0a" ] || fail "Ctrl-C leaves half a character"

expect 2 "expected one of them" generate "${base[@]}"
expect 2 "expected one of them" generate "${base[@]}" --prompt a --prompt-file prompt.txt
expect 1 "absent.txt" generate "${base[@]}" --prompt-file absent.txt
expect 2 "--tokens is '0'" generate "${base[@]}" --prompt a --tokens 0
expect 2 "--top-p is '1.5'" generate "${base[@]}" --prompt a --top-p 1.5
expect 2 "--temperature is 'nan'" generate "${base[@]}" --prompt a --temperature nan
expect 2 "--window" generate "${base[@]}" --prompt a --window 8

# --- recall ---
recall=(recall "${base[@]}" "${ranks[@]}" --depths 3 --samples 2 --seed 3)
"$longspan" "${recall[@]}" --lengths 288 400 --out grid >out.txt 2>err || fail "recall: $(cat err)"
grep -q '0 of 12 pass keys right' out.txt && grep -q 'grid/recall.svg' out.txt || fail "recall: $(cat out.txt)"
"$longspan" "${recall[@]}" --lengths 288 400 --ranks 2 --data text.txt --json >out.json 2>err || fail "recall: $(cat err)"
python3 - <<'CHECK' || fail "recall's grid"
import json, xml.dom.minidom
one, two = json.load(open("grid/recall.json")), json.load(open("out.json"))
for d in (one, two):
    cells = d["cells"]
    assert [(c["length"], c["depth"]) for c in cells] == [(l, f) for l in (288, 400) for f in (0, 0.5, 1)], cells
    assert all(c["samples"] == 2 and c["right"] == 0 and c["accuracy"] == 0 and 4 < c["loss"] < 9 for c in cells), cells
    assert d["samples"] == 12 and d["accuracy"] == 0, d
assert one["loss"] != two["loss"] # other filler
picture = xml.dom.minidom.parse("grid/recall.svg").toxml()
assert "288 tokens, depth 50 %: 0 of 2 right" in picture and picture.count(">0 %<") == 6 + 1, picture
CHECK
expect 2 "--lengths is 'many'" recall "${base[@]}" --lengths many
expect 2 "--lengths is '-5'" recall "${base[@]}" --lengths -5
expect 2 "--depths is '99'" recall "${base[@]}" --depths 99
expect 1 "no checkpoint" recall "${base[@]}" --lengths 288 --checkpoint .
echo ok
