#!/bin/bash
# What a training takes before its first step, by part, with 2, 8 and 64 ranks: threads, processes that the command starts, and processes that somebody
# else launched:
#     bench/start_up.sh BUILD [OTHER_BUILD [ROUNDS]]
# OTHER_BUILD, "" for none: its program is measured in turn; one that does not know launched ranks is left out there. Medians over ROUNDS (3), in
# seconds; "whole run" also has the step, a checkpoint and the end. RANKS="2 8" in the environment measures these alone.
set -u
build=$(cd "$1" && pwd) other=${2:-} rounds=${3:-3}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
port=$((20000 + $$ % 10000))

train() {
    local program=$1
    shift
    timeout 300 "$program" train --model "$here/examples/words" --data "$here/docs" --seq 4096 --steps 1 --threads 1 --out run "$@" >/dev/null 2>err
}
as_threads() { train "$1" --ranks "$2" --ranks-as threads; }
as_processes() { train "$1" --ranks "$2"; }
as_launched() {
    local r pids=()
    port=$((port + 17))
    for ((r = $2 - 1; r > 0; r--)); do
        RANK=$r WORLD_SIZE=$2 LOCAL_WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port train "$1" &
        pids+=($!)
    done
    RANK=0 WORLD_SIZE=$2 LOCAL_WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port train "$1"
    wait "${pids[@]}"
}
# measure NAME PROGRAM KIND RANKS: one run, a line of all parts.
measure() {
    local began=$EPOCHREALTIME
    rm -rf run
    "as_$3" "$2" "$4" || { echo "$1, $4 ranks as $3: $(tail -1 err)" >&2; return; }
    echo "$1|$3|$4|$began|$EPOCHREALTIME|$(head -1 run/metrics.jsonl)" >>all
}
programs=("this|$build/longspan")
[ -z "$other" ] || programs+=("other|$other/longspan")
for ((i = 0; i < rounds; i++)); do
    for ranks in ${RANKS:-2 8 64}; do
        for kind in threads processes launched; do
            for program in "${programs[@]}"; do
                [ "$kind" != launched ] || [ "${program%%|*}" = this ] || continue
                measure "${program%%|*}" "${program#*|}" $kind "$ranks"
            done
        done
    done
done
python3 - <<'TABLE'
import json, statistics
rows = {}
for line in open("all"):
    name, kind, ranks, began, ended, metrics = line.rstrip("\n").split("|", 5)
    first = json.loads(metrics)
    parts = {k[:-8]: v for k, v in first["start_up"].items() if k.endswith("_seconds")}
    parts["whole run"] = float(ended) - float(began)
    rows.setdefault((int(ranks), kind, name), []).append(parts)
names = ["read", "plan", "prove", "ranks", "compile", "prepare", "touch", "weights", "exchange", "whole run"]
print(f'{"ranks":>5} {"as":<10} {"program":<8}' + "".join(f"{n:>10}" for n in names))
for (ranks, kind, name), runs in sorted(rows.items()):
    medians = [statistics.median(r[n] for r in runs) if n in runs[0] else None for n in names]
    print(f"{ranks:>5} {kind:<10} {name:<8}" + "".join("         -" if m is None else f"{m:>10.2f}" for m in medians))
TABLE
