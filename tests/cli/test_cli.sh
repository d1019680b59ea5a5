#!/bin/bash
# The command line: help, version, usage errors, failures, results. Each mistake is one line on standard error, with
# exit code 2 for wrong words and 1 for files or values that are wrong.
. "$(dirname "$0")/../support/cli.sh"

# npy FILE TYPE SHAPE BYTES: an array of zeros.
npy() {
    { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
      head -c "$4" /dev/zero; } >"$1"
}

# --- help and version ---
status=0; "$longspan" >out 2>err || status=$?
[ $status -eq 2 ] && grep -q '^usage: longspan COMMAND' err || fail "no command: exit $status"
"$longspan" help >help.txt
commands=$(sed -n 's/^  \([a-z]*\)  .*/\1/p' help.txt)
[ "$(wc -w <<<"$commands")" -ge 7 ] || fail "few commands: $commands"
for command in $commands; do
    "$longspan" "$command" --help >page.txt 2>err || fail "$command --help"
    [ ! -s err ] || fail "$command --help: $(cat err)"
    grep -q "^usage: longspan $command " page.txt || fail "$command --help has no usage"
    for flag in --help --json; do grep -q -- "^  $flag " page.txt || fail "$command --help lacks $flag"; done
    [ "$(wc -L <page.txt)" -le 100 ] || fail "$command --help is wider than 100"
    "$longspan" help "$command" | cmp -s - page.txt || fail "help $command is not $command --help"
done
"$longspan" help --man | cmp -s - "$here/../docs/longspan.1" || fail "docs/longspan.1 is not what 'longspan help --man' prints"
"$longspan" help --json >out.json && json "{'train', 'grad'} <= {c['name'] for c in d}" out.json
"$longspan" version --json >out.json
json "d['kernels'] > 50 and d['isa'] and 'shm' in d['transports'] and 'dnnl' in d['libraries']" out.json
"$longspan" --version | grep -q "^longspan [0-9.]* (.*)" || fail "--version"

# --- wrong words: exit code 2 ---
expect 2 "did you mean train?" trian
expect 2 "lists the known ones" xyzzyplugh
expect 2 "did you mean --model?" grad --modle m
expect 2 "--tokens FILE is required" grad --model m --out x
expect 2 "unexpected word 'm'" grad m
expect 2 "did you mean grad?" help gard
expect 2 "--ranks is '0'; expected an integer from 1 to 2147483647" grad --model m --tokens t --out x --ranks 0
expect 2 "--ranks is '3000000000'" grad --model m --tokens t --out x --ranks 3000000000
expect 2 "--dtype is 'f16'; expected one of f32|f64|bf16" grad --model m --tokens t --out x --dtype f16
expect 2 "--seed is given twice" grad --seed 1 --seed 2
expect 2 "--json takes no value" version --json=yes
expect 2 "--temperature is '-1'" generate --model m --prompt p --temperature -1

# --- attention ---
npy q.npy '<f4' '(1, 12, 4, 8)' 1536
npy k.npy '<f4' '(1, 12, 2, 8)' 768
npy k3.npy '<f4' '(1, 12, 3, 8)' 1152
npy ends.npy '<i4' '(2,)' 8
files=(--q q.npy --k k.npy --v k.npy)
"$longspan" attention "${files[@]}" --do q.npy --mask causal --ranks 3 --strategy ring --threads 1 --out o --json >out.json 2>err
[ ! -s err ] || fail "attention: $(cat err)"
json "d['strategy'] == 'ring' and d['mesh'] == 'dp=1,ring=3,ulysses=1,tp=1' and d['layout'] in ('contiguous', 'zigzag')" out.json
json "d['transfers'] == 'in-place' and d['bytes_read_forward'] == 2 * 2 * 4 * 2 * 8 * 4 and d['seconds'] > 0" out.json
json "d['bytes_read_backward'] > 0 and d['bytes_sent_forward'] == 0 and d['bytes_sent_backward'] == 0" out.json
"$longspan" attention "${files[@]}" --do q.npy --mask causal --ranks 3 --strategy ring --threads 1 --out o3 --transfers put --json >out.json
json "d['transfers'] == 'put' and d['bytes_sent_forward'] == 2 * 2 * 4 * 2 * 8 * 4 and d['bytes_read_forward'] == 0" out.json
for name in o lse dq dk dv; do cmp o/$name.npy o3/$name.npy || fail "--transfers changes $name.npy"; done
expect 2 "--transfers" attention "${files[@]}" --mask full --ranks 2 --transfers push --out x
for name in o lse dq dk dv; do [ -s o/$name.npy ] || fail "attention wrote no $name.npy"; done
# Equal scores: query i sees i + 1 keys, so its lse is log(i + 1).
tail -c 48 o/lse.npy | od -An -v -tf4 | tr -s ' \n' '\n' | sed '/^$/d' |
    awk '{ d = $1 - log(NR); if (d < 0) d = -d; if (d > 1e-5) bad = 1 } END { exit bad || NR != 12 }' || fail "lse of zeros"
"$longspan" attention "${files[@]}" --mask full --ranks 2 --ranks-as threads --threads 1 --out o2 | grep -q '^wrote o2/{o,lse}.npy' ||
    fail "attention without --json"
# A sink of 0 counts as one more key; its gradient is 0 where all values are 0.
npy sink.npy '<f4' '(4,)' 16
"$longspan" attention "${files[@]}" --do q.npy --sink sink.npy --softcap 5 --mask causal --ranks 3 --threads 1 --out o4 | tail -1 |
    grep -q '^wrote o4/{o,lse,dq,dk,dv,dsink}.npy' || fail "attention with a sink"
tail -c 48 o4/lse.npy | od -An -v -tf4 | tr -s ' \n' '\n' | sed '/^$/d' |
    awk '{ d = $1 - log(NR + 1); if (d < 0) d = -d; if (d > 1e-5) bad = 1 } END { exit bad || NR != 12 }' || fail "lse with a sink"
tail -c 16 o4/dsink.npy | cmp - <(head -c 16 /dev/zero) || fail "dsink of zeros"
expect 2 "--softcap is '0'" attention "${files[@]}" --softcap 0 --mask full --out x
expect 1 "ends.npy: shape is [2], expected [4]" attention "${files[@]}" --sink ends.npy --mask full --out x
expect 2 "mask term 'windows:4'" attention "${files[@]}" --mask windows:4 --out x
expect 2 "12 tokens cannot be shared by 13 ranks" attention "${files[@]}" --mask full --ranks 13 --out x
expect 2 "5 ranks but only 4 query heads" attention "${files[@]}" --mask full --ranks 5 --strategy ulysses --out x
expect 2 "strategy \"rings\" is not known" attention "${files[@]}" --mask full --ranks 2 --strategy rings --out x
expect 2 "does not multiply to 4 ranks" attention "${files[@]}" --mask full --ranks 4 --mesh ring=3 --out x
expect 2 "does not multiply to 3 ranks" attention "${files[@]}" --mask full --ranks 3 --mesh dp=2,ring=2 --out x
expect 1 "ends.npy" attention "${files[@]}" --mask documents:ends.npy --out x
expect 1 "absent.npy" attention --q absent.npy --k k.npy --v k.npy --mask full --out x
expect 1 "4 heads and k3.npy has 3" attention --q q.npy --k k3.npy --v k3.npy --mask full --out x
expect 1 "q.npy: Not a directory" attention "${files[@]}" --mask full --out q.npy/x

# --- grad, explain ---
mkdir model
cat >model/config.json <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32, "hidden_size": 32,
 "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false}
CONFIG
npy t.npy '<i4' '(1, 13)' 52
"$longspan" grad --model model --tokens t.npy --out g.safetensors --logits l.npy --ranks 2 --threads 1 --dtype f64 \
    --json >out.json 2>err || fail "grad: $(cat err)"
json "d['tokens'] == 12 and 0 < d['loss'] < 5 and d['bytes_sent_backward'] + d['bytes_read_backward'] > 0" out.json
python3 - g.safetensors <<'CHECK' || fail "grad wrote no good safetensors or logits"
import json, math, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
assert header["model.embed_tokens.weight"]["dtype"] == "F64", header
assert header["model.layers.1.self_attn.k_proj.weight"]["shape"] == [16, 32], header
# The same loss, from the logits.
array, tokens = open("l.npy", "rb").read(), struct.unpack("<13i", open("t.npy", "rb").read()[-52:])
assert b"'<f8'" in array and b"(1, 13, 32)" in array, array[:128]
rows = [struct.unpack_from("<32d", array, len(array) - 8 * 32 * (13 - i)) for i in range(12)]
loss = sum(math.log(sum(map(math.exp, row))) - row[label] for row, label in zip(rows, tokens[1:])) / 12
assert abs(loss - json.load(open("out.json"))["loss"]) < 1e-12, loss
CHECK
[ -z "$(ls g.safetensors.* 2>/dev/null)" ] || fail "grad left a partial file"
expect 1 "t.npy" grad --model model/config.json --tokens model/t.npy --out x
expect 1 "nowhere" grad --model nowhere --tokens t.npy --out x
expect 1 "config.json" grad --model . --tokens t.npy --out x
expect 1 "no/where" grad --model model --tokens t.npy --out no/where
"$longspan" grad --model model --tokens t.npy --out x --logits no/where >out 2>err && fail "logits were written nowhere"
grep -qF no/where err || fail "grad: $(cat err)"
[ ! -e x ] || fail "a failed command left its output"
"$longspan" explain --model model --seq 16 --ranks 4 --rank 3 >page.txt
grep -q '^program step · rank 3 of 4' page.txt && grep -q ' copy     put ' page.txt || fail "explain: $(head -20 page.txt)"
"$longspan" explain --model model --seq 16 --ranks 2 --program step --json >out.json
json "[p['name'] for p in d['programs']] == ['step'] and len(d['candidates']) >= 3 and d['reason']" out.json
json "all(sum(o['count'] for o in p['ops']) == len(p['lines']) - 2 == d['passes'][p['name']]['instructions'] for p in d['programs'])" out.json
json "all(abs(sum(o['flops'] for o in p['ops']) - p['flops']) <= 1e-9 * p['flops'] for p in d['programs'])" out.json
json "all(d['passes'][s]['lower_bound'] <= d['passes'][s]['mapped'] < d['passes'][s]['side_by_side'] for s in ('private', 'symmetric'))" out.json
"$longspan" explain --model model --seq 16 --ranks 2 --passes >page.txt
grep -q '^differentiate .* nodes → ' page.txt && grep -q '^place  *symmetric ' page.txt && grep -q '^attention_grad ' page.txt &&
    grep -q '^recompute ' page.txt && ! grep -q ' → rank ' page.txt || fail "explain --passes: $(cat page.txt)"
"$longspan" explain --model model --seq 16 --ranks 2 --mesh pp=1 --accumulate 4 --passes --json >out.json # a step is three runs of micro and one of step
json "(lambda f: abs(d['stages'][-1]['flops'] - 3 * f['micro'] - f['step']) <= 1e-9 * f['step'])({p['name']: p['flops'] for p in d['programs']})" out.json
"$longspan" explain --model model/config.json --seq 64 --ranks 2 --rank 1 --memory-map map.svg >page.txt 2>err || fail "memory map: $(cat err)"
grep -q '>model · rank 1 of 2 · ' map.svg && python3 -c 'import xml.dom.minidom as m; m.parse("map.svg")' || fail "map.svg"
expect 1 "no/map.svg" explain --model model --seq 16 --memory-map no/map.svg
ranks_as=processes
[ "${LS_TEST_SANITIZER:-}" = thread ] && ranks_as=threads
"$longspan" explain --model model --seq 48 --ranks 3 --mesh pp=1 --threads 1 --accumulate 2 --program micro --schedule times.svg >page.txt 2>err || fail "schedule: $(cat err)"
grep -q 'program micro: .* predicted$' err && ! grep -q measured times.svg || fail "a schedule that was only predicted: $(cat err)"
"$longspan" explain --model model --seq 48 --ranks 3 --threads 1 --ranks-as $ranks_as --schedule times.svg --run --json >out.json 2>err || fail "schedule: $(cat err)"
grep -q 'program step: .* predicted, .* measured$' err || fail "schedule: $(cat err)"
[ "$(grep -c '>compute · measured<' times.svg)" -eq 3 ] && grep -q ' times as long<' times.svg &&
    python3 -c 'import xml.dom.minidom as m; m.parse("times.svg")' || fail "times.svg"
json "[p['name'] for p in d['programs']] == ['step', 'evaluate']" out.json
expect 1 "no/times.svg" explain --model model --seq 16 --schedule no/times.svg
expect 2 "--schedule" explain --model model --seq 16 --run
"$longspan" explain --model model --seq 96 --ranks 80 --threads 1 --strategy ring --schedule times.svg >page.txt 2>err || fail "80 ranks: $(cat err)"
"$longspan" explain --model model --seq 16 --ranks 2 --mesh pp=1 --accumulate 2 --json >out.json
json "[p['name'] for p in d['programs']] == ['micro', 'step', 'evaluate']" out.json
expect 2 "--accumulate" explain --model model --seq 16 --program micro
expect 2 "--rank 2; expected 0 to 1" explain --model model --seq 16 --ranks 2 --rank 2
if [ -e /dev/full ]; then
    status=0; "$longspan" version >/dev/full 2>err || status=$?
    [ $status -eq 1 ] && grep -q 'standard output' err || fail "a full output: exit $status"
fi
echo ok
