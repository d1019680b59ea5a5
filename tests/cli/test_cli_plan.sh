#!/bin/bash
# longspan plan: its bytes add up and are those that train maps, and its advice for a budget fits.
. "$(dirname "$0")/../support/cli.sh"

model=$here/../examples/tiny
plan() { "$longspan" plan --model "$model" --threads 1 "$@"; }

plan --seq 256 --ranks 2 --batch 4 --accumulate 2 --json >plan.json 2>err || fail "plan: $(cat err)"
python3 - <<'CHECK' || fail "plan.json"
import json
d = json.load(open("plan.json"))
best, kinds = d["candidates"][0], d["bytes_by_kind"]
assert d["predicted_bytes"] == best["private_bytes"] + best["symmetric_bytes"] == sum(kinds.values()), d
assert all(kinds[k] > 0 for k in ("parameter", "gradient", "optimizer", "activation", "slot")), kinds
for arena in ("private", "symmetric"):
    a = d[arena]
    assert a["live_at_peak"] <= a["lower_bound"] <= a["mapped"] == best[arena + "_bytes"], a
    sizes = [b["bytes"] for b in a["largest"]]
    assert sizes == sorted(sizes, reverse=True) and sizes, a
assert d["one_rank_bytes"] > d["predicted_bytes"], d
assert [c["seconds"] for c in d["candidates"]] == sorted(c["seconds"] for c in d["candidates"])
CHECK

# train maps what was planned.
for i in $(seq 900); do echo "line $i of a text that is long enough"; done >text.txt
as=()
[ "${LS_TEST_SANITIZER:-}" = thread ] && as=(--ranks-as threads)
"$longspan" train --model "$model" --data text.txt --seq 256 --ranks 2 --batch 4 --accumulate 2 --threads 1 --steps 1 \
    --out run "${as[@]}" >/dev/null 2>err || fail "train: $(cat err)"
python3 - <<'CHECK' || fail "train and plan differ"
import json
plan, run = json.load(open("plan.json")), json.load(open("run/run.json"))
most = max(r["private"] + r["symmetric"] for r in run["predicted_bytes"])
assert most == plan["predicted_bytes"] and run["one_rank_bytes"] == plan["one_rank_bytes"], (most, run, plan)
assert run["spread"]["strategy"] == plan["candidates"][0]["strategy"] and run["spread"]["reason"] == plan["reason"]
CHECK

# Planning the longest sequence takes no longer than planning a short one.
timeout 20 "$longspan" plan --model "$model" --threads 1 --ranks 1 --seq $((1 << 30)) >long.txt 2>err || fail "plan of 2^30 tokens: $(cat err)"
grep -q 'TiB' long.txt || fail "plan of 2^30 tokens: $(cat long.txt)"

bytes=$(python3 -c 'import json; print(json.load(open("plan.json"))["predicted_bytes"])')
# A budget slightly below the need: some results are recomputed, and it fits.
plan --seq 256 --ranks 2 --batch 4 --accumulate 2 --memory $((bytes * 97 / 100)) --json >less.json || fail "no recompute"
python3 - "$bytes" <<'CHECK' || fail "saving: $(cat less.json)"
import json, sys
d = json.load(open("less.json"))
best = d["candidates"][0]
assert best["recompute"] > 0 and best["fits"] and d["predicted_bytes"] <= int(sys.argv[1]) * 97 // 100, best
CHECK

# Too little memory: one line says what is needed and what would fit, and that does fit.
plan --seq 256 --ranks 2 --batch 4 --accumulate 2 --memory "$bytes" >page.txt || fail "exactly enough memory is refused"
grep -q '^one rank alone would need' page.txt && grep -q 'maps most' page.txt || fail "page: $(cat page.txt)"
limit=$((bytes * 3 / 5))
status=0
plan --seq 256 --ranks 2 --batch 4 --accumulate 2 --mesh tp=1 --strategy ring --memory $limit >out 2>all || status=$?
grep -v '^longspan: planning: ' all >err || true # progress, after 5 s on a busy machine
[ $status -eq 1 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] || fail "too little memory: exit $status: $(cat out err)"
[ "$(sed -n 's/.*a rank needs \([0-9]*\) bytes.*/\1/p' err)" -le "$bytes" ] && grep -q 'its peak in program' err || fail "$(cat err)"
ranks=$(sed -n 's/.*--ranks \([0-9]*\) would fit.*/\1/p' err)
seq=$(sed -n 's/.*or --seq \([0-9]*\)$/\1/p' err)
[ -n "$ranks" ] && [ -n "$seq" ] || fail "no advice: $(cat err)"
plan --seq 256 --ranks "$ranks" --batch 4 --accumulate 2 --mesh tp=1 --strategy ring --memory $limit >/dev/null || fail "--ranks $ranks does not fit"
plan --seq "$seq" --ranks 2 --batch 4 --accumulate 2 --mesh tp=1 --strategy ring --memory $limit >/dev/null || fail "--seq $seq does not fit"
status=0; plan --seq 256 --mesh tp=1 --strategy ring --memory 10 >out 2>err || status=$?
[ $status -eq 1 ] && grep -q 'nothing up to 64 ranks would fit' err || fail "ten bytes: $(cat err)"
# Where nothing fits that divides the sequence alone, sizes of tp are tried, which divide what every rank has of a layer.
limit=1900000
plan --seq 32 --ranks 2 --memory $limit --mesh tp=1 >out 2>err && fail "it fits without tp: $(cat out)"
without=$(sed -n 's/.*a rank needs \([0-9]*\) bytes.*/\1/p' err)
plan --seq 32 --ranks 2 --memory $limit >page.txt || fail "tp is not tried"
grep -q '^tp 2: ' page.txt && grep -q '^strategy *ring×ulysses×tp ' page.txt && grep -q '^local  *1×1×2 ' page.txt || fail "tp: $(cat page.txt)"
plan --seq 32 --ranks 2 --memory "$without" >page.txt && ! grep -q 'tp 2' page.txt || fail "tp beside what fits: $(cat page.txt)"
status=0; plan --batch 3 --accumulate 2 >out 2>err || status=$?
[ $status -eq 2 ] && grep -q -- '--accumulate 2' err || fail "batch 3: $(cat err)"
echo ok
