#!/bin/bash
# longspan bench: its output and its flags. The figures are those of a busy machine and are not checked.
. "$(dirname "$0")/../support/cli.sh"

# --- attention ---
"$longspan" bench attention --seq 65 --ranks 3 --heads 6 --kv-heads 3 --head-size 16 --rounds 2 --mask window:9+prefix:3 --json >out.json 2>err ||
    fail "bench attention: $(cat err)"
json "{('ring', 'put'), ('ring', 'in-place'), ('ulysses', 'put')} <= {(r['strategy'], r['transfers']) for r in d['strategies']}" out.json
json "all(r['seconds'] >= r['forward_seconds'] > 0 and r['one_rank_seconds'] > 0 for r in d['strategies'] if 'refused' not in r)" out.json
json "all((r['bytes_sent_backward'] > 0) == (r['transfers'] == 'put') for r in d['strategies'] if 'refused' not in r)" out.json
"$longspan" bench attention --seq 64 --ranks 2 --rounds 1 --dtype f32 --strategy ring >page.txt 2>err || fail "bench attention: $(cat err)"
[ "$(grep -c '^ring ' page.txt)" -eq 2 ] || fail "bench attention --strategy ring: $(cat page.txt)"
expect 2 "--ranks is '0'; expected an integer from 1 to 2147483647" bench attention --ranks 0
expect 2 "--threads 2 with --ranks 3; expected --ranks 1" bench attention --ranks 3 --threads 2
expect 2 "--strategy ring with --ranks 1" bench attention --ranks 1 --strategy ring
expect 2 "--heads 3 with --kv-heads 2; expected a multiple" bench attention --ranks 1 --heads 3 --seq 64

# The kernels alone: rates are the operations that the mask leaves, per second, relative to the floor.
"$longspan" bench attention --ranks 1 --threads 2 --seq 200 --heads 4 --kv-heads 2 --head-size 16 --rounds 2 --mask window:9 --json >out.json 2>err ||
    fail "bench attention --ranks 1: $(cat err)"
python3 - <<'CHECK' || fail "bench attention --ranks 1: $(cat out.json)"
import json
page = json.load(open("out.json"))
pairs = {"window:9": 4 * (36 + 192 * 9), "causal": 4 * 200 * 201 / 2}
assert [(p["mask"], p["pass"]) for p in page["passes"]] == [(m, p) for m in pairs for p in ("forward", "backward", "both")]
for p in page["passes"]:
    flops = {"forward": 4, "backward": 10, "both": 14}[p["pass"]] * 16 * pairs[p["mask"]]
    assert abs(p["figure"] * 1e9 * p["seconds"] / flops - 1) < 1e-9 and abs(p["figure"] / p["floor"] / p["ratio"] - 1) < 1e-9
    assert (p["of_causal"] == 1) == (p["mask"] == "causal") and p["beside"] > 0
CHECK
"$longspan" bench attention --ranks 1 --seq 64 --rounds 1 --dtype f32 >page.txt 2>err || fail "bench attention --ranks 1: $(cat err)"
[ "$(grep -c '^causal .* GFLOP/s ' page.txt)" -eq 3 ] || fail "bench attention --ranks 1: $(cat page.txt)"
expect 2 "strategy local: 2 ranks share the sequence" bench attention --ranks 2 --seq 64 --strategy local

# --- flags ---
expect 2 "bench machine does not take --seq; expected no flag but --device, --json" bench machine --seq 64
expect 2 "bench comm does not take --mask; expected no flag but --rounds, --device, --json" bench comm --mask causal
expect 2 "--rounds 65; expected 1 to 64" bench comm --rounds 65
expect 2 "expected one of machine, gemm, attention, comm, step, predicted" bench everything
expect 2 "bench predicted does not take --mask; expected no flag but --seq, --rounds, --config, --device, --ranks-as, --json" bench predicted --mask causal
expect 2 "--dtype f64; expected f32 or bf16" bench gemm --dtype f64
expect 1 "nowhere" bench gemm --config nowhere
expect 2 "bench step does not take --heads; expected no flag but --seq, --batch, --ranks, --threads, --rounds, --dtype, --strategy, --mesh, --shard, --sums, --optimizer, --config, --device, --kernels, --ranks-as, --json" bench step --heads 2
expect 2 "strategy local: 2 ranks share the sequence" bench step --seq 64 --ranks 2 --strategy local

# --- comm ---
"$longspan" bench comm --rounds 2 --json >out.json 2>err || fail "bench comm: $(cat err)"
json "[(r['what'], r['bytes'], r['unit']) for r in d['rows']] == [('latency', 8, 'ns')] + [(what, n << 10, 'GB/s') for what in ('put', 'in place') for n in (4, 64, 1024, 16384)]" out.json
json "d['rounds'] == 2 and all(min(r['floor'], r['figure'], r['ratio']) > 0 for r in d['rows'])" out.json
"$longspan" bench comm --rounds 1 >page.txt 2>err || fail "bench comm: $(cat err)"
[ "$(grep -c '^put .* GB/s ' page.txt)" -eq 4 ] && [ "$(grep -c '^in place .* GB/s ' page.txt)" -eq 4 ] && grep -q '^latency .* ns ' page.txt || fail "bench comm: $(cat page.txt)"

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

# --- step ---
"$longspan" bench step --config model --seq 40 --ranks 2 --threads 1 --rounds 4 --dtype f32 --json >out.json 2>err || fail "bench step: $(cat err)"
python3 - <<'CHECK' || fail "bench step: $(cat out.json)"
import json, math
d = json.load(open("out.json"))
V, E, F, L, Hq, Hkv, D, S = 96, 32, 48, 3, 4, 2, 8, 40
products = L * (2 * E * Hq * D + 2 * E * Hkv * D + 3 * E * F) + V * E
attention = 14 * S * (S + 1) / 2 * Hq * D * L
assert d["work"] == 6 * (products + (2 * L + 1) * E) * S + attention, d["work"]
rows = {r["name"]: r for r in d["rows"]}
assert len(rows) == len(d["rows"]), rows.keys()
assert {"linear 96x32", "linear_dx 32x48", "linear_dw 16x32", "attention", "attention_grad", "rmsnorm", "cross_entropy", "adamw",
        "grant", "waiting for other ranks", "ended before the slowest", "between instructions"} <= rows.keys(), rows.keys()
done = lambda words: d["ranks"] * sum(r["flops"] for n, r in rows.items() if n.split()[0] in words)
assert abs(done({"linear", "linear_dx", "linear_dw"}) / (6 * products * S) - 1) < 1e-9
assert abs(done({"attention", "attention_grad"}) / attention - 1) < 1e-9
assert rows["linear 16x32"]["count"] == 2 * L * d["ranks"], rows["linear 16x32"]
seconds = [r["seconds"] for r in d["rows"]]
assert seconds == sorted(seconds, reverse=True) and abs(sum(seconds) / d["seconds"] - 1) < 1e-9, d["seconds"]
assert abs(sum(r["share"] for r in d["rows"]) - 1) < 1e-9
assert abs(sum(r["predicted"] for r in d["rows"]) / d["predicted_seconds"] - 1) < 1e-9 and not d["host_measured"], d
assert all(r["predicted"] > 0 for n, r in rows.items() if n.split()[0] in {"linear", "linear_dx", "linear_dw", "attention", "adamw"})
assert all(r["seconds"] > 0 for n, r in rows.items() if n.split()[0] in {"linear", "attention", "adamw", "between"})
assert abs(d["figure"] * 1e9 * d["seconds"] / d["work"] - 1) < 1e-9 and abs(d["ratio"] * d["floor"] / d["figure"] - 1) < 1e-9
assert abs(d["tokens_per_second"] * d["seconds"] / S - 1) < 1e-9 and abs(d["loss"] - math.log(V)) < 0.2, d
assert d["peak_bytes"] > 0 and d["mapped_bytes"] > 0 and min(d["start_up"].values()) >= 0, d
CHECK
"$longspan" bench step --config model --seq 20 --batch 2 --threads 1 --rounds 1 --dtype f32 --json >out.json 2>err || fail "bench step: $(cat err)"
python3 - <<'CHECK' || fail "bench step, 2 sequences: $(cat out.json)"
import json
d = json.load(open("out.json"))
weights = 3 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48) + 96 * 32 + 7 * 32
assert d["work"] == 6 * weights * 40 + 14 * 2 * 20 * 21 / 2 * 32 * 3 and d["batch"] == 2, d
assert abs(d["tokens_per_second"] * d["seconds"] / 40 - 1) < 1e-9, d
CHECK
"$longspan" bench step --config model --seq 40 --rounds 1 --threads 1 >page.txt 2>err || fail "bench step: $(cat err)"
grep -q '^6·N·tokens + attention .* GFLOP/s ' page.txt && grep -q '^all .* 100.00 %' page.txt && ! grep -q '^waiting' page.txt || fail "bench step: $(cat page.txt)"
echo ok
