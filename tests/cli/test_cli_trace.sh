#!/bin/bash
# train --trace: the file is JSON, its spans are those of the programs, in order, and none overlaps another of its thread.
. "$(dirname "$0")/../support/cli.sh"

for i in $(seq 900); do echo "line $i of a text that is long enough"; done >text.txt
base=(--model "$here/../examples/tiny" --data text.txt --seq 128 --ranks 3 --strategy ring --threads 1 --batch 2 --accumulate 2)
[ "${LS_TEST_SANITIZER:-}" = thread ] && base+=(--ranks-as threads)
"$longspan" train "${base[@]}" --steps 20 --out run --trace trace.json >/dev/null 2>err || fail "train: $(cat err)"
[ "$(echo trace*)" = trace.json ] || fail "left: $(echo trace*)"
"$longspan" explain --model "$here/../examples/tiny" --seq 128 --ranks 3 --strategy ring --threads 1 --accumulate 2 --json >explain.json
python3 - <<'CHECK' || fail "trace.json"
import collections, json
events = json.load(open("trace.json"))["traceEvents"]
for e in events:  # ranks and tracks, counted from 0
    e["pid"] -= 1
    e["tid"] -= 10 * (e["pid"] + 1)
lines = {p["name"]: p["lines"][2:] for p in json.load(open("explain.json"))["programs"]}
names = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"}
assert names == {(r, f"rank {r}") for r in range(3)}, names
threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert set(threads.values()) == {"compute", "copy", "program", "asleep"} and len(threads) == 12, threads
tracks = {name: tid for (_, tid), name in threads.items()}
spans = collections.defaultdict(list)
for e in events:
    if e["ph"] == "X":
        assert e["dur"] >= 0 and e["ts"] >= 0, e
        spans[e["pid"], e["tid"]].append(e)
rounding = 0.01  # of microseconds as doubles
for key, list_ in spans.items():
    for a, b in zip(list_, list_[1:]):
        assert a["ts"] + a["dur"] <= b["ts"] + rounding, (key, a, b)
for rank in range(3):
    programs = spans[rank, tracks["program"]]
    last = {}
    for e in programs:
        last[e["args"]["program"]] = e["args"]["run"]
    assert last == {"micro": 19, "step": 19}, last  # the newest are kept,
    assert 4 <= len([e for e in programs if e["args"]["program"] == "step"]) < 20  # and the ring is no longer than it says
    for whole in programs[-6:]:
        name, run = whole["args"]["program"], whole["args"]["run"]
        seen = {}
        for tid in (tracks["compute"], tracks["copy"]):
            inside = [e for e in spans[rank, tid] if (e["args"]["program"], e["args"]["run"]) == (name, run)]
            numbers = [e["args"]["instruction"] for e in inside]
            assert numbers == sorted(set(numbers)), numbers  # a queue is an order
            assert inside[0]["ts"] >= whole["ts"] - rounding
            assert inside[-1]["ts"] + inside[-1]["dur"] <= whole["ts"] + whole["dur"] + rounding
            for e in inside:
                seen[e["args"]["instruction"]] = (threads[rank, tid], e["args"]["op"])
                assert e["name"].split()[0] == e["args"]["op"] and e["name"].split()[-1] == str(e["args"]["instruction"])
                assert e["cat"] in ("kernel", e["args"]["op"])
        assert sorted(seen) == list(range(len(seen))), (name, seen)
        if rank == 0:  # what explain prints is what ran
            assert {int(l[0]): tuple(l[1:3]) for l in map(str.split, lines[name])} == seen
ends = collections.defaultdict(dict)
for e in events:
    if e["ph"] in "sf":
        assert e["ph"] not in ends[e["id"]], e
        ends[e["id"]][e["ph"]] = e
pairs = [a for a in ends.values() if len(a) == 2]
assert len(pairs) > 0.8 * len(ends), (len(pairs), len(ends))  # the rest was cut off by the ring
for a in pairs:
    assert a["s"]["ts"] <= a["f"]["ts"] + 1, a  # no wait ends before its signal was sent
    assert a["s"]["pid"] != a["f"]["pid"], a
CHECK
status=0
"$longspan" train "${base[@]}" --steps 1 --out run2 --trace no/trace.json >out 2>err || status=$?
[ $status -eq 1 ] && grep -q 'no/trace.json' err || fail "an impossible file: exit $status: $(cat err)"
echo ok
