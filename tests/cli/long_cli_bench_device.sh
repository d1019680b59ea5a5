#!/bin/bash
# longspan bench machine --device cuda, on the driver for tests (test_cli_bench_device.sh): its rates are kept for the GPU's model, and plan uses them.
. "$(dirname "$0")/../support/cli.sh"

use_emulated_cuda
export XDG_CACHE_HOME=$PWD/cache
make_wide_model 32
"$longspan" plan --model config.json --seq 64 --ranks 2 --device cuda --json >plan.json 2>err || fail "plan: $(cat err)"
json "'nominal rates' in d['reason']" plan.json
"$longspan" bench machine --device cuda >page.txt 2>err || fail "bench machine: $(cat err)"
grep -q '^attention, own *bf16 ' page.txt && grep -q '^copies, to the host ' page.txt && ! grep -q ' f64 ' page.txt || fail "bench machine: $(cat page.txt)"
[ "$(find cache -type f)" = cache/longspan/Fake-0-gpu.json ] || fail "bench machine kept $(find cache)"
json "all(d[k] > 0 for k in ('peer', 'to_host', 'from_host', 'latency', 'overhead')) and sorted(d['rows']) == sorted(c + ' ' + t for c in ('attention', 'attention_grad', 'matmul') for t in ('f32', 'bf16'))" cache/longspan/Fake-0-gpu.json
json "all(r['own'] > 1 for r in d['rows'].values()) and d['bf16']['matmul'] > 1 and d['f32']['add']['near'] <= d['f32']['add']['far']" cache/longspan/Fake-0-gpu.json
"$longspan" plan --model config.json --seq 64 --ranks 2 --device cuda --json >measured.json 2>err || fail "plan: $(cat err)"
json "'nominal rates' not in d['reason']" measured.json
python3 -c "import json; a, b = (json.load(open(f))['candidates'][0]['seconds'] for f in ('measured.json', 'plan.json')); assert a > 100 * b, (a, b)" ||
    fail "plan: measured and nominal rates predict alike"
"$longspan" plan --model config.json --seq 64 --ranks 2 --json >cpu.json 2>err || fail "plan: $(cat err)"
json "'nominal rates' in d['reason']" cpu.json
"$longspan" bench step --config config.json --seq 24 --rounds 2 --device cuda --json >out.json 2>err || fail "bench step: $(cat err)"
json "d['device'] == 'cuda' and d['host_measured'] and d['predicted_seconds'] > 0 and d['floor'] > 0" out.json
echo ok
