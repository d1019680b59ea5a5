#!/bin/bash
# A training on two hosts, which are network namespaces of this machine: shared memory within each, TCP between them. Its losses and weights have
# the bits of local ranks. A rank that is killed is named by the ranks of the other host.
. "$(dirname "$0")/../support/cli.sh"
. "$here/support/two_hosts.sh"

[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes"; exit 0; }
trap 'remove_two_hosts; rm -rf "$folder"' EXIT
if ! make_two_hosts 2>whynot; then
    echo "skipped: network namespaces are not permitted: $(tail -1 whynot 2>/dev/null)"
    exit 0
fi

# launched COMMAND...: 4 processes with the variables of torchrun, two in each namespace. Their exit codes become $codes, their processes $pids.
start() {
    local r
    pids=()
    for r in 0 1 2 3; do
        local space=$host_a
        [ $r -lt 2 ] || space=$host_b
        RANK=$r LOCAL_RANK=$((r % 2)) WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=$network.1 MASTER_PORT=29400 \
            ip netns exec $space timeout 120 "$longspan" "$@" >out.$r 2>err.$r </dev/null &
        pids+=($!)
    done
}
finish() {
    local r status
    codes=
    for r in "${pids[@]}"; do
        status=0
        wait "$r" || status=$?
        codes="$codes$status "
    done
}

make_tiny_model
make_lines 400 >text.txt
train=(train --model config.json --data text.txt --seq 64 --threads 1 --steps 4 --layout zigzag --strategy ring --transfers put)
"$longspan" "${train[@]}" --ranks 4 --out here >out 2>err || fail "local: $(cat err)"
start "${train[@]}" --out there
finish
[ "$codes" = "0 0 0 0 " ] || fail "two hosts: exit $codes: $(cat err.0)"
same_checkpoint here/checkpoint-00000004 there/checkpoint-00000004
python3 - <<'CHECK' || fail "losses differ"
import json
a, b = ([json.loads(l)["loss"] for l in open(f + "/metrics.jsonl")] for f in ("here", "there"))
assert len(a) == 4 and a == b, (a, b)
CHECK

# Only shared memory may be used: refused by name.
export LONGSPAN_TRANSPORTS=shm
start "${train[@]}" --out refused
finish
unset LONGSPAN_TRANSPORTS
[[ " $codes" != *" 0 "* ]] && grep -q "nothing connects rank" err.0 || fail "shm between hosts: exit $codes: $(cat err.0)"

# A rank of the other host is killed in its work.
start "${train[@]/#4/100000}" --out killed
for _ in $(seq 300); do
    [ ! -s killed/metrics.jsonl ] || break
    sleep 0.1
done
began=$SECONDS
pkill -KILL -P "${pids[3]}" || kill -KILL "${pids[3]}"
finish
[[ " $codes" != *" 0 "* ]] || fail "killed: exit $codes"
grep -q "rank 3" err.0 || fail "killed: rank 0 does not name it: $(cat err.0)"
[ $((SECONDS - began)) -le 10 ] || fail "killed: $((SECONDS - began)) s until the others ended"
