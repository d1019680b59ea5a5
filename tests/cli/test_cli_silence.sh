#!/bin/bash
# Ranks on two hosts, which are network namespaces of this machine, two on each: the link between them goes down, or rank 0 is stopped. Ranks of
# both hosts say which rank does not answer and on which host, before --wait-timeout ends the run; and after Ctrl-C nobody waits for such a rank.
. "$(dirname "$0")/../support/cli.sh"
. "$here/support/two_hosts.sh"

[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes"; exit 0; }
pids=()
end() {
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    remove_two_hosts
    rm -rf "$folder"
}
trap end EXIT
if ! make_two_hosts 2>whynot; then
    echo "skipped: network namespaces are not permitted: $(tail -1 whynot 2>/dev/null)"
    exit 0
fi
most_seconds=${LS_TEST_SECONDS:-20} # what is asked is 10 and 2 on a machine that does nothing else

make_tiny_model
make_lines 400 >text.txt

seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }
# wait_until WHAT COMMAND...: until it succeeds.
wait_until() {
    local begin=$EPOCHREALTIME what=$1
    shift
    until "$@"; do
        awk -v a="$begin" -v b="$EPOCHREALTIME" -v most="$most_seconds" 'BEGIN { exit !(b - a < most) }' ||
            fail "$what: not within $most_seconds s: $(tail -n 5 err.*)"
        sleep 0.05
    done
}
trains() { [ -s run/metrics.jsonl ] && [ "$(grep -c . run/metrics.jsonl)" -ge 2 ]; }
have_ended() { for pid in "$@"; do ! kill -0 "$pid" 2>/dev/null || return 1; done; }
says() { grep -qE -- "$2" err."$1" 2>/dev/null; }

# start SECONDS: a training without end; ${pids[R]} is the process of rank R, err.R what it says. As on a terminal: what a script starts in the
# background ignores Ctrl-C.
start() {
    local r space host
    rm -rf run err.*
    pids=()
    for r in 0 1 2 3; do
        space=$host_a host=host-a
        [ $r -lt 2 ] || space=$host_b host=host-b
        RANK=$r LOCAL_RANK=$((r % 2)) WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=$network.1 MASTER_PORT=29400 \
            ip netns exec $space unshare --uts env --default-signal=INT,QUIT bash -c "hostname $host; exec \"\$@\"" - "$longspan" train --model config.json \
            --data text.txt --seq 64 --threads 1 --steps 100000 --wait-timeout "$1" --out run >out.$r 2>err.$r </dev/null &
        pids+=($!)
    done
    wait_until "the training begins" trains
}
# ended WHAT: all ranks end, none with exit code 0.
ended() {
    local r
    wait_until "$1: all end" have_ended "${pids[@]}"
    for r in 0 1 2 3; do ! wait "${pids[r]}" || fail "$1: rank $r ends with exit code 0"; done
}

# The link goes down: rank 0 says so on its host, one rank on the other.
start 4
begin=$EPOCHREALTIME
ip -n $host_a link set l$$a down
silent="which has not answered for .* s: it is stopped, or host"
wait_until "link down: rank 0 says so" says 0 "warning: rank 0 waits for rank [23], $silent host-b is not reached"
near=$(seconds_since "$begin")
wait_until "link down: rank 2 says so" says 2 "warning: rank 2 waits for rank [01], $silent host-a is not reached"
far=$(seconds_since "$begin")
ended "link down"
says 0 "^longspan: rank [01] waited .* for rank [0-3], .*$silent host-b is not reached" || fail "link down: why rank 0 ended: $(cat err.0)"
says 2 "^longspan: rank [23] waited .* for rank [0-3], .*$silent host-a is not reached" || fail "link down: why rank 2 ended: $(cat err.2)"
[ ! -s err.1 ] && [ ! -s err.3 ] || fail "link down: ranks 1 and 3 say something, too: $(cat err.1 err.3)"
echo "  link down: said after $near s and $far s, all ended after $(seconds_since "$begin") s"
ip -n $host_a link set l$$a up

# Nobody waits for the other host after Ctrl-C, though the limit of waits is far.
start 600
ip -n $host_a link set l$$a down
sleep 3
begin=$EPOCHREALTIME
kill -INT "${pids[@]}"
ended "Ctrl-C"
says 0 "$silent host-b is not reached" && says 2 "$silent host-a is not reached" || fail "Ctrl-C: $(cat err.0 err.2)"
echo "  Ctrl-C with the link down: all ended after $(seconds_since "$begin") s"
ip -n $host_a link set l$$a up

# Rank 0, which speaks for all, is stopped.
start 4
begin=$EPOCHREALTIME
kill -STOP "${pids[0]}"
wait_until "rank 0 stopped: rank 1 says so" says 1 "warning: rank 0 \(process [0-9]*\) is stopped, and the others wait for it"
near=$(seconds_since "$begin")
wait_until "rank 0 stopped: rank 2 says so" says 2 "warning: rank 2 waits for rank 0, $silent host-a is not reached"
far=$(seconds_since "$begin")
wait_until "rank 0 stopped: the others end" have_ended "${pids[@]:1}"
says 1 "^longspan: rank 1 wait(ed|s) .*rank 0, which is stopped" || fail "rank 0 stopped: why rank 1 ended: $(cat err.1)"
echo "  rank 0 stopped: said after $near s and $far s, the others ended after $(seconds_since "$begin") s"
kill -KILL "${pids[0]}"
