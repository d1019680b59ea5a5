#!/bin/bash
# longspan bench predicted --device cuda, on the driver for tests: rates are measured in a process of their own, then eight configurations of a
# small model are run beside their predictions.
. "$(dirname "$0")/../support/cli.sh"

[ -z "${LS_TEST_SANITIZER:-}" ] || exit 0 # an hour there

use_emulated_cuda
export XDG_CACHE_HOME=$PWD/cache
make_wide_model 64
"$longspan" bench predicted --config config.json --seq 16 --rounds 1 --ranks-as threads --device cuda --json >out.json 2>err || fail "bench predicted: $(cat err)"
python3 - <<'CHECK' || fail "bench predicted: $(cat out.json)"
import json
rows = [json.loads(line) for line in open("out.json")]
assert [(r["ranks"], r["dtype"]) for r in rows[:3]] == [(1, "bf16"), (2, "f32"), (1, "f32")] and len(rows) == 8, rows
assert all(r["device"] == "cuda" and r["seq"] == 16 and r["predicted_seconds"] > 0 and r["seconds"] > 0 for r in rows), rows
CHECK
[ ! -e cache ] || fail "the rates were kept: $(find cache)"
echo ok
