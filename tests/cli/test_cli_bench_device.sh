#!/bin/bash
# longspan bench and plan with --device cuda: the kernels of src/kernel/cuda, compiled for the host, on the driver for tests
# (tests/cuda). The figures are those of threads and are not checked, but for what they must have in common. The machine's rates, whose
# kernels take long: long_cli_bench_device.sh.
. "$(dirname "$0")/../support/cli.sh"

use_emulated_cuda
export XDG_CACHE_HOME=$PWD/cache
mkdir model
cat >model/config.json <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
CONFIG

# --- what is refused, in one line ---
expect 1 "device 'cuda:': expected cuda or cuda:N, the number of a device" bench comm --device cuda:
expect 1 "device 'cpu:1': expected cpu alone" bench gemm --device cpu:1
expect 1 "there is no device 'gpu'" bench machine --device gpu
expect 1 "cuda:7" bench machine --device cuda:7
expect 2 "--threads 2 with --device cuda; expected none" bench gemm --threads 2 --device cuda
expect 2 "--ranks 2 with --device cuda; expected --ranks 1" bench attention --ranks 2 --seq 64 --device cuda
expect 2 "bench machine --device delayed:1; expected a processor or a GPU" bench machine --device delayed:1
LONGSPAN_CUDA_DRIVER=/nowhere/libcuda.so expect 1 "no CUDA driver can be loaded: /nowhere/libcuda.so" bench machine --device cuda
LONGSPAN_CUDA_KERNELS=/nowhere/cuda.so expect 1 "cannot load the kernels for CUDA: /nowhere/cuda.so" bench attention --seq 64 --device cuda
[ ! -e cache ] || fail "rates were kept: $(find cache)"

# --- nominal rates, before any are measured ---
"$longspan" plan --model model --seq 64 --ranks 2 --device cuda --json >plan.json 2>err || fail "plan: $(cat err)"
json "'nominal rates' in d['reason'] and d['device'] == 'cuda'" plan.json
LONGSPAN_CUDA_DRIVER=/nowhere/libcuda.so "$longspan" plan --model model --seq 64 --ranks 2 --device cuda >/dev/null 2>err || fail "plan: $(cat err)"
grep -q "nominal rates are used" err || fail "plan without a driver: $(cat err)"

# --- gemm, attention, comm ---
"$longspan" bench gemm --config model --seq 24 --rounds 1 --dtype bf16 --device cuda --json >out.json 2>err || fail "bench gemm: $(cat err)"
json "d['device'] == 'cuda' and [s['dtype'] for s in d['settings']] == ['bf16'] and len(d['settings'][0]['products']) == 15" out.json
json "all(p['kernel'] == 'own' and 0 < p['figure'] <= p['floor'] for p in d['settings'][0]['products'])" out.json
"$longspan" bench attention --seq 40 --heads 2 --kv-heads 1 --head-size 16 --rounds 1 --mask window:9:2 --device cuda:1 --json >out.json 2>err ||
    fail "bench attention: $(cat err)"
json "d['device'] == 'cuda:1' and [(p['mask'], p['pass'], p.get('kernel')) for p in d['passes']] == [(m, p, k) for m in ('window:9:2', 'causal') for p, k in (('forward', 'own'), ('backward', 'own'), ('both', None))]" out.json
json "all(p['seconds'] > 0 and p['floor'] > 0 for p in d['passes'])" out.json
FAKE_CUDA=devices=1 "$longspan" bench comm --rounds 2 --device cuda --json >out.json 2>err || fail "bench comm: $(cat err)"
json "[(r['ranks_on'], r['what'], r['bytes']) for r in d['rows']] == [('one device', 'latency', 8)] + [('one device', 'put', n << 10) for n in (4, 64, 1024)]" out.json
json "all(min(r['floor'], r['figure'], r['ratio']) > 0 for r in d['rows'])" out.json
"$longspan" bench comm --rounds 1 --device cuda >page.txt 2>err || fail "bench comm: $(cat err)"
[ "$(grep -c '^two devices *put ' page.txt)" -eq 3 ] || fail "bench comm: $(cat page.txt)"

# Emulated kernels are thirty times slower there: what else runs is the same code on more of them.
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo ok; exit 0; }

# --- step ---
"$longspan" bench step --config model --seq 24 --rounds 2 --device cuda --json >out.json 2>err || fail "bench step: $(cat err)"
json "d['device'] == 'cuda' and not d['host_measured'] and d['predicted_seconds'] > 0 and d['floor'] > 0" out.json
json "d['mapped_bytes'] <= d['device_used_bytes'] <= d['device_bytes']" out.json
json "abs(sum(r['share'] for r in d['rows']) - 1) < 1e-9 and all(r['seconds'] > 0 for r in d['rows'] if r['count'])" out.json
"$longspan" bench step --config model --seq 24 --rounds 1 --ranks 2 --ranks-as threads --strategy ring --device cuda >page.txt 2>err || fail "bench step: $(cat err)"
grep -q '^memory of a GPU: ' page.txt && grep -q '^put ' page.txt && ! grep -q ' of [0-9]* thread' page.txt || fail "bench step: $(cat page.txt)"
echo ok
