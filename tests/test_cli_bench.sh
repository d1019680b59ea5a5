#!/bin/bash
# longspan bench: what is printed, and which flags are taken; the figures are those of a busy machine.
set -eu
longspan=$1/longspan
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

. "$here/support/cli.sh"

# --- attention ---
"$longspan" bench attention --seq 65 --ranks 3 --heads 6 --kv-heads 3 --head-size 16 --rounds 2 --mask window:9+prefix:3 --json >out.json 2>err ||
    fail "bench attention: $(cat err)"
json "{('ring', 'put'), ('ring', 'in-place'), ('ulysses', 'put')} <= {(r['strategy'], r['transfers']) for r in d['strategies']}" out.json
json "all(r['seconds'] >= r['forward_seconds'] > 0 and r['one_rank_seconds'] > 0 for r in d['strategies'] if 'refused' not in r)" out.json
json "all((r['bytes_sent_backward'] > 0) == (r['transfers'] == 'put') for r in d['strategies'] if 'refused' not in r)" out.json
"$longspan" bench attention --seq 64 --ranks 2 --rounds 1 --dtype f32 --strategy ring >page.txt 2>err || fail "bench attention: $(cat err)"
[ "$(grep -c '^ring ' page.txt)" -eq 2 ] || fail "bench attention --strategy ring: $(cat page.txt)"
expect 2 "expected 2 to 1024" bench attention --ranks 1
expect 2 "strategy local: 2 ranks share the sequence" bench attention --ranks 2 --seq 64 --strategy local

# --- flags ---
expect 2 "bench machine does not take --seq; expected no flag but --json" bench machine --seq 64
expect 2 "bench comm does not take --mask; expected no flag but --rounds, --json" bench comm --mask causal
expect 2 "--rounds 65; expected 1 to 64" bench comm --rounds 65
expect 2 "expected one of machine, gemm, attention, comm" bench everything
expect 2 "--dtype f64; expected f32 or bf16" bench gemm --dtype f64
expect 1 "nowhere" bench gemm --config nowhere

# --- comm ---
"$longspan" bench comm --rounds 2 --json >out.json 2>err || fail "bench comm: $(cat err)"
json "[(r['what'], r['bytes'], r['unit']) for r in d['rows']] == [('latency', 8, 'ns')] + [('bandwidth', n << 10, 'GB/s') for n in (64, 1024, 16384)]" out.json
json "d['rounds'] == 2 and all(min(r['floor'], r['figure'], r['ratio']) > 0 for r in d['rows'])" out.json
"$longspan" bench comm --rounds 1 >page.txt 2>err || fail "bench comm: $(cat err)"
[ "$(grep -c '^bandwidth .* GB/s ' page.txt)" -eq 3 ] && grep -q '^latency .* ns ' page.txt || fail "bench comm: $(cat page.txt)"

# --- gemm ---
mkdir model
cat >model/config.json <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
CONFIG
"$longspan" bench gemm --config model --seq 40 --rounds 2 --dtype bf16 --threads 2 --json >out.json 2>err || fail "bench gemm: $(cat err)"
python3 - <<'CHECK' || fail "bench gemm: $(cat out.json)"
import json
d = json.load(open("out.json"))
# q and o, k and v, gate and up, down, head: [out, in] of each weight, and how often the step uses it.
weights = {(32, 32): 6, (16, 32): 6, (48, 32): 6, (32, 48): 3, (96, 32): 1}
expected = {}
for (n, k), uses in weights.items():
    expected["forward", 40, n, k] = uses
    expected["input gradient", 40, k, n] = uses
    expected["weight gradient", n, k, 40] = uses
assert [(s["dtype"], s["threads"]) for s in d["settings"]] == [("bf16", 1), ("bf16", 2)], d
for s in d["settings"]:
    products = s["products"]
    assert {(p["product"], p["M"], p["N"], p["K"]): p["uses"] for p in products} == expected, products
    for p in products + [s]:
        assert p["unit"] == "GFLOP/s" and 0 < p["figure"] <= p["floor"] == s["floor"], p
        assert abs(p["ratio"] - p["figure"] / p["floor"]) < 1e-9, p
    flops = [2 * p["M"] * p["N"] * p["K"] * p["uses"] for p in products]
    seconds = sum(f / p["figure"] for f, p in zip(flops, products))
    assert abs(sum(flops) / seconds / s["figure"] - 1) < 1e-9, s
CHECK
"$longspan" bench gemm --config model/config.json --seq 40 --rounds 1 --dtype bf16 --threads 1 >page.txt 2>err || fail "bench gemm: $(cat err)"
[ "$(grep -c '^bf16  *1  weight gradient .* GFLOP/s ' page.txt)" -eq 5 ] && grep -q '^bf16  *1  all of a step ' page.txt || fail "bench gemm: $(cat page.txt)"
echo ok
