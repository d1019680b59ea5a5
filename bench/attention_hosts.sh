#!/bin/bash
# Attention over 2 x 2 ranks whose hosts are joined by a link of 1 Gbit/s: double-ring, ring, ulysses, usp and burst, each in turn.
#     bench/attention_hosts.sh BUILD [ROUNDS [SIZES...]]
# SIZES: S:HQ:HKV:D:MASK, "4096:8:8:64:full". The two hosts are network namespaces of this machine, joined by a pair of virtual interfaces, each of which a
# token bucket (tc, tbf) holds to RATE (1gbit): root is needed. Ranks are on tcp between the hosts and on shared memory within them; the kernel's
# buffers of a connection hold what a put copies into them, so that a rank computes while the link sends. A table for each size: medians over
# ROUNDS (5) of forward and forward with backward, the ratio to the ring of the same round, and the bytes that crossed the link to the second host.
set -u
build=$(cd "$1" && pwd) rounds=${2:-5}
shift $(($# < 2 ? $# : 2))
sizes=("$@")
[ ${#sizes[@]} -gt 0 ] || sizes=(2048:8:8:64:full 8192:8:8:64:full 8192:8:2:64:full 8192:8:8:64:causal)
program=$build/bench/attention_hosts
[ -x "$program" ] || { echo "ninja -C $1 bench-programs first"; exit 2; }
. "$(dirname "$0")/../tests/support/two_hosts.sh"
work=$(mktemp -d)
trap 'remove_two_hosts; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
make_two_hosts || { echo "network namespaces are not permitted"; exit 2; }
limit() {
    ip netns exec $1 tc qdisc add dev $2 root tbf rate ${RATE:-1gbit} burst 128k latency 400ms || exit 2
    ip netns exec $1 sysctl -q -w net.ipv4.tcp_wmem="4096 33554432 67108864" net.ipv4.tcp_rmem="4096 33554432 67108864" || exit 2
}
limit $host_a l$$a
limit $host_b l$$b
port=$((20000 + RANDOM % 10000))

crossed() { ip netns exec $host_a cat /sys/class/net/l$$a/statistics/tx_bytes; }

# Ranks 0 and 1 are on the first host, 2 and 3 on the second; rank 0 prints.
launch() {
    local r host pids=() status=0
    port=$((port + 1))
    for r in 3 2 1 0; do
        host=$host_a
        [ $r -ge 2 ] && host=$host_b
        RANK=$r WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=$network.1 MASTER_PORT=$port ip netns exec $host timeout -k 2 120 "$program" "$@" &
        pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || status=1; done
    return $status
}

passes=5
for size in "${sizes[@]}"; do
    IFS=: read -r S HQ HKV D mask <<<"$size"
    layout=contiguous
    [ "$mask" = full ] || layout=zigzag
    : >"$work/all"
    for ((round = 0; round < rounds; round++)); do
        for setting in ring/ring=4 double-ring/outer=2,ring=2 usp/ring=2,ulysses=2 ulysses/ulysses=4 burst/ring=4; do
            before=$(crossed)
            launch "${setting%%/*}" "${setting#*/}" $layout "$mask" "$S" "$HQ" "$HKV" "$D" $passes 2>>"$work/err" >"$work/out"
            sed -n "s|^said|$round $setting $((($(crossed) - before) / (passes + 1)))|p" "$work/out" >>"$work/all"
        done
    done
    python3 - "$size" "$layout" "$rounds" "$work/all" <<'TABLE' || tail -3 "$work/err"
import statistics, sys
size, layout, rounds, file = sys.argv[1:]
rows = {}
for line in open(file):
    i, setting, crossed, forward, both, *_ = line.split()
    rows.setdefault(setting, {})[i] = (float(forward), float(both), int(crossed))
assert rows, "nothing was measured"
S, hq, hkv, d, mask = size.split(":")
print(f"S {S} · Hq {hq} · Hkv {hkv} · D {d} · {mask} · {layout} · bf16 · medians of {rounds} rounds")
ring = rows.get("ring/ring=4", {})
for setting, of in rows.items():
    forward, both, crossed = (statistics.median(x[k] for x in of.values()) for k in range(3))
    ratios = [x[1] / ring[i][1] for i, x in of.items() if i in ring]
    ratio = statistics.median(ratios) if ratios else float("nan")
    strategy, mesh = setting.split("/")
    print(f"  {strategy:12} {mesh:18} forward {forward * 1e3:8.1f} ms   with backward {both * 1e3:8.1f} ms   {ratio:5.2f} of ring   link {crossed / 2**20:7.1f} MiB")
TABLE
done
