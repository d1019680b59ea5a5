#!/bin/bash
# Every call that connects ranks fails once, in use and at the start, on rank 0 and on another rank:
#     check-transport-errors.sh BUILD [MOST [SETTING]]
# MOST: of each kind of call the first, the last and at most so many calls in all (3). Whatever fails, all processes end within 30 s; either with
# the bits of the undisturbed run, or with an error that names the call and the rank; and none of them crashes. SETTING: only those whose names contain
# it. Of local ranks, and ranks that somebody else launched: over shared memory, TCP, both, both under chaos, and MPI by each mpirun that is installed.
# The last line is "N passed, N failed".
set -u
[ $# -ge 1 ] && [ -x "$1/longspan" ] || { echo "usage: check-transport-errors.sh BUILD [MOST]" >&2; exit 2; }
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/../tests" && pwd)
most=${2:-3} only=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/support/tiny_model.sh"
make_tiny_model
make_arrays
export LONGSPAN_RENDEZVOUS_SECONDS=5 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
ranks=3 port=$((20000 + $$ % 10000))

# What a rank runs. The victim's rank number is $victim, its faults are in $faults; rank 0 writes the file $out.0.
export build faults=
cat >rank.sh <<'RANK'
rank=${RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}}
# shellcheck disable=SC2086
[ "$rank" = "$victim" ] && export $faults
exec "$build/longspan" grad --model config.json --tokens tokens.npy --threads 1 --layout zigzag --strategy ring --ranks 3 \
    --wait-timeout 4 --out "$out.0" 2>"$out.err.$rank" >"$out.said.$rank"
RANK

# Each starts the job: the setting is in the environment. The exit codes of what it started go to $codes.
start_local() { codes=0; victim=0 timeout -k 5 30 bash rank.sh || codes=$?; }
start_launched() {
    local pids=() r status
    for ((r = 0; r < ranks; r++)); do
        RANK=$r LOCAL_RANK=$r WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout -k 5 30 bash rank.sh &
        pids+=($!)
    done
    codes=
    for r in "${pids[@]}"; do
        status=0
        wait "$r" || status=$?
        codes="$codes $status"
    done
}
start_mpi() { codes=0; timeout -k 5 30 mpirun."$1" -n $ranks bash rank.sh >"$out.mpirun" 2>&1 || codes=$?; }

sockets="socket,bind,listen,connect,accept4,getsockname,send,recv,poll,getaddrinfo,getnameinfo,pthread_create,eventfd,getrandom"
memory="memfd_create,truncate,mmap,sendmsg,recvmsg"
mpi="MPI_Comm_dup,MPI_Isend,MPI_Irecv,MPI_Iprobe,MPI_Recv,MPI_Test,MPI_Ibarrier,MPI_Iallgather"
# name | how it starts | environment | calls
settings=( # name | how it starts | environment | calls
    "local|start_local||memfd_create,mmap,pipe2,poll,pthread_create"
    "local over tcp|start_local|LONGSPAN_TRANSPORTS=tcp|$sockets"
    "shm|start_launched||$sockets,$memory"
    "tcp|start_launched|LONGSPAN_TRANSPORTS=tcp|$sockets"
    "both|start_launched|LONGSPAN_HOSTS=0,0,1|$sockets,$memory"
    "chaos|start_launched|LONGSPAN_HOSTS=0,0,1 LONGSPAN_TRANSPORTS=chaos:3|send,recv,poll"
)
for name in openmpi mpich; do
    command -v mpirun.$name >/dev/null && [ -e "$build/lib/longspan/mpi-$name.so" ] &&
        settings+=("$name|start_mpi $name|LONGSPAN_TRANSPORTS=mpi|$mpi")
done

# run START ENVIRONMENT VICTIM OUT FAULT...: one job.
run() {
    local start=$1 environment=$2
    export victim=$3 out=$4
    shift 4
    export faults="LD_PRELOAD=$build/tests/libfaults.so $*"
    port=$((port + 17))
    # shellcheck disable=SC2086
    export LONGSPAN_NONE= $environment
    $start
    for pair in $environment; do unset "${pair%%=*}"; done
}

# What is wrong with a job whose CALL failed on a victim, if anything.
judge() {
    local call=$1 n_victim=$2 code
    for code in $codes; do case $code in 124 | 137) echo "hangs ($codes)"; return ;; 13[0-9]) echo "crashes ($codes)"; return ;; esac done
    if [ -z "${codes//[0 ]/}" ]; then
        cmp -s whole.0 "$out.0" || echo "other bits, and no error"
        return
    fi
    local said
    said=$(cat "$out".err.*)
    [[ $said == *"$call"* || ($call == truncate && $said == *ftruncate*) ]] || echo "the call is not named"
    [ "$start" = start_local ] || [[ $said == *"rank $n_victim"* ]] || echo "rank $n_victim is not named"
}

passed=0 failed=0
run start_local "" none whole >/dev/null
[ -s whole.0 ] || { cat whole.err.0; exit 1; }
for setting in "${settings[@]}"; do
    IFS='|' read -r title start environment calls <<<"$setting"
    [[ $title == *"$only"* ]] || continue
    tried=0
    for victim_rank in 0 2; do
        [ "$start" != start_local ] || [ $victim_rank = 0 ] || continue
        for call in ${calls//,/ }; do
            rm -f log
            filter=
            case $call in truncate) filter="LS_FAULT_PATH=memfd" ;; esac
            run "$start" "$environment" $victim_rank counted LS_FAULT_CALLS="$call" LS_FAULT_LOG=log $filter
            count=$(wc -l 2>/dev/null <log || echo 0)
            chosen=
            for ((i = 0; i < most && i < count; i++)); do chosen="$chosen $((1 + i * (count - 1) / (most > 1 ? most - 1 : 1)))"; done
            for n in $(tr ' ' '\n' <<<"$chosen" | sort -nu); do
                run "$start" "$environment" $victim_rank case LS_FAULT_CALLS="$call" LS_FAULT_AT="$n" LS_FAULT_WITH=EIO $filter
                wrong=$(judge "$call" $victim_rank)
                tried=$((tried + 1))
                if [ -z "$wrong" ]; then
                    passed=$((passed + 1))
                else
                    failed=$((failed + 1))
                    echo "FAILED $title: $call $n of $count on rank $victim_rank: $wrong"
                    cat case.err.* | sort -u | head -4
                fi
                rm -f case.*
            done
        done
    done
    echo "$title: $tried calls failed"
done
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
