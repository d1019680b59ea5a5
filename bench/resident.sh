#!/bin/bash
# What each rank of a training holds by the plan, and by the operating system while it trains:
#     bench/resident.sh BUILD [CONFIG [RANKS [SEQ [OPTIONS...]]]]
# CONFIG: a model, bench/models/500m when left out; RANKS (8) on a ring, SEQ (256) tokens, bf16; OPTIONS of train and plan, `--shard parameters` when
# left out. Two steps on random weights; then the ranks are killed, so that no checkpoint is written. First the plan, for the rank that maps most, with
# the formula: 18 bytes for each element of a shard (weight 2, gradient, master and two moments 4 each), and what is there beyond shards at the peak:
# whole weights and gradients, or groups of them. Then a line for each rank: bytes predicted, those that the process maps (private memory, and its part of the heap that all ranks
# share), and those that are resident: Rss of private memory, Pss of the heap, Rss + Pss of all of the process.
set -u
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
config=$(realpath "${2:-$here/bench/models/500m}") ranks=${3:-8} seq=${4:-256}
shift $(($# < 4 ? $# : 4))
[ $# -gt 0 ] || set -- --shard parameters
work=$(mktemp -d)
trap '{ kill -9 "${pid:-}" && wait "$pid"; } 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1

cp "$here"/docs/*.md . # a text
options=(--model "$config" --seq "$seq" --ranks "$ranks" --strategy ring --threads 1 --dtype bf16 "$@")
"$build/longspan" plan "${options[@]}" --json >plan.json 2>err || { tail -1 err; exit 1; }
"$build/longspan" train "${options[@]}" --data ./*.md --steps 1000 --warmup 0 --save-every 0 --out run >out 2>&1 &
pid=$!
while [ ! -e run/metrics.jsonl ] || [ "$(wc -l <run/metrics.jsonl)" -lt 2 ]; do
    kill -0 $pid 2>/dev/null || { tail -3 out; exit 1; }
    sleep 0.5
done
python3 - $pid "$ranks" <<'TABLE'
import json, os, re, sys
launcher, ranks = int(sys.argv[1]), int(sys.argv[2])
plan, run = json.load(open("plan.json")), json.load(open("run/run.json"))
MiB = 2.0 ** 20

# The plan: what outlives programs is named as the host finds it; whole groups are named after their first parameter.
buffers = plan["private"]["largest"] + plan["symmetric"]["largest"]
shard = sum(b["bytes"] for b in buffers if b["name"] == "optimizer.master") // 4
kinds = plan["bytes_by_kind"]
persist = 2 * shard + 4 * shard + kinds["optimizer"]
whole = {kind: kinds[kind] - size * shard for kind, size in (("parameter", 2), ("gradient", 4))}
groups = [sum(b["name"].startswith(what) for b in buffers) for what in ("parameters from", "gradients from")]
rest = plan["predicted_bytes"] - persist - sum(whole.values())
print(f"rank {plan['most_rank']} of {ranks}, {run['spread']['strategy']}, {' '.join(k + ' ' + str(run['spread'][k]) for k in ('shard', 'isa'))}, bytes by plan:")
print(f"  shards     {persist:>13,} = {persist / shard:g} x {shard:,} elements (1/{ranks} of {shard * ranks:,}; {run['model']['parameters']:,} parameters)")
print(f"  beyond     {sum(whole.values()):>13,} = weights {whole['parameter']:,} ({groups[0]} groups) + gradients {whole['gradient']:,} ({groups[1]} groups)")
print(f"  all else   {rest:>13,} = " + ", ".join(f"{k} {v:,}" for k, v in kinds.items() if k not in ("parameter", "gradient", "optimizer")))
print(f"  predicted  {plan['predicted_bytes']:>13,}")

def mappings(pid):
    """Name, bytes mapped, Rss and Pss of each mapping."""
    found = []
    for line in open(f"/proc/{pid}/smaps"):
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ *(.*)", line)
        if head:
            found.append({"name": head[3], "Size": int(head[2], 16) - int(head[1], 16)})
        else:
            field = re.match(r"(Rss|Pss): +(\d+) kB", line)
            if field: found[-1][field[1]] = int(field[2]) * 1024
    return found

children = open(f"/proc/{launcher}/task/{launcher}/children").read().split()[:ranks]
print(f"{'rank':>4} {'predicted':>14} {'private':>14} {'heap':>14}   resident: {'private':>14} {'heap (Pss)':>14} {'both':>14}   process: {'Rss':>14} {'Pss':>14}")
everything = 0
for rank, pid in enumerate(children):
    maps = mappings(pid)
    predicted = run["predicted_bytes"][rank]
    # Kernels without names for mappings show no name: then it is the one of that size.
    private = [m for m in maps if m["name"] == "[anon:longspan]"] or [m for m in maps if 0 <= m["Size"] - predicted["private"] < 4096]
    heap = [m for m in maps if "longspan-heap" in m["name"]]
    add = lambda which, field: sum(m[field] for m in which)
    whole = {field: add(maps, field) for field in ("Rss", "Pss")}
    everything += whole["Pss"]
    both = add(private, "Rss") + add(heap, "Pss")
    print(f"{rank:>4} {predicted['private'] + predicted['symmetric']:>14,} {add(private, 'Size'):>14,} {add(heap, 'Size') // ranks:>14,}"
          f"             {add(private, 'Rss'):>14,} {add(heap, 'Pss'):>14,} {both:>14,}            {whole['Rss']:>14,} {whole['Pss']:>14,}")
print(f"all ranks together: {everything:,} bytes (Pss), {everything / ranks / MiB:,.0f} MiB a rank")
TABLE
