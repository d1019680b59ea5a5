#!/bin/bash
# A put with a signal by Longspan beside a message of MPI, each in turn, on one host and between two:
#     bench/comm_hosts.sh BUILD [ROUNDS [WORD]]
# The two hosts are network namespaces of this machine, joined by a pair of virtual interfaces: root is needed, else that half is left out. Longspan's
# ranks are on the transport mpi under each mpirun that is installed, and on tcp (started without MPI). A line for each size: microseconds one way of
# 8 bytes, else of bytes until they are there, read and answered; medians over ROUNDS (5). The ratio is the median of the rounds' ratios. Both sides
# poll, and Longspan's ranks yield to whatever else runs: on a busy machine run it under `chrt -f 20`.
set -u
build=$(cd "$1" && pwd) rounds=${2:-5} word=${3:-}
mine=$build/bench/comm_launched
[ -x "$mine" ] || { echo "ninja -C $1 bench-programs first"; exit 2; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
work=$(mktemp -d)
. "$(dirname "$0")/../tests/support/two_hosts.sh"
trap 'remove_two_hosts; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
# Stands for ssh: runs a command of a launcher in the namespace of the host, under a host name of its own.
cat >"$work/agent" <<AGENT
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
case \$1 in $network.1) space=$host_a ;; *) space=$host_b ;; esac
host=host-\${1##*.}
shift
exec ip netns exec \$space unshare --uts bash -c "hostname \$host; \$*"
AGENT
chmod +x "$work/agent"
in_first() { ip netns exec $host_a unshare --uts bash -c "hostname host-1; $*"; }

openmpi_here() { mpirun.openmpi -n 2 "$@"; }
mpich_here() { mpirun.mpich -n 2 "$@"; }
openmpi_apart() {
    in_first mpirun.openmpi --mca plm_rsh_agent "$work/agent" --mca btl_tcp_if_include $network.0/24 --mca oob_tcp_if_include $network.0/24 \
        --mca btl tcp,self -H $network.1:1,$network.2:1 -x LONGSPAN_TRANSPORTS -n 2 "$@"
}
# UCX would find the memory that the namespaces share.
mpich_apart() { UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1 in_first mpiexec.mpich -launcher ssh -launcher-exec "$work/agent" -hosts $network.1,$network.2 -ppn 1 -n 2 "$@"; }
tcp_here() { by_environment "" "" 127.0.0.1 "$@"; }
tcp_apart() { by_environment "ip netns exec $host_a" "ip netns exec $host_b" $network.1 "$@"; }
by_environment() {
    local first=$1 second=$2 at=$3
    shift 3
    export MASTER_ADDR=$at MASTER_PORT=$((20000 + RANDOM % 10000)) WORLD_SIZE=2
    RANK=1 $second "$@" &
    RANK=0 $first "$@"
    wait $!
}
export -f in_first

# measure NAME HOW MPI: rounds of both in turn; MPI's messages are those of the same launcher, or of the one named.
measure() {
    local name=$1 how=$2 peer=$3 transport=$4 round
    [[ $name == *"$word"* ]] || return
    : >"$work/all"
    for ((round = 0; round < rounds; round++)); do
        export LONGSPAN_TRANSPORTS=$transport
        ${how} timeout -k 2 60 "$mine" 2>"$work/err" | sed -n "s/^said/$round/p" >>"$work/all"
        unset LONGSPAN_TRANSPORTS
        ${peer} 2>>"$work/err" | sed -n "s/^said/$round/p" >>"$work/all"
    done
    python3 - "$name" "$work/all" <<'TABLE' || tail -3 "$work/err"
import statistics, sys
rows = {}
for line in open(sys.argv[2]):
    i, way, size, seconds = line.split()
    rows.setdefault(int(size), {}).setdefault(i, {})[way] = float(seconds)
assert rows, sys.argv[1] + ": nothing was measured"
print(f"{sys.argv[1]}")
for size, rounds in sorted(rows.items()):
    both = [r for r in rounds.values() if len(r) == 2]
    half = 2 if size == 8 else 1
    put, send = (statistics.median(r[w] for r in both) / half * 1e6 for w in ("put", "send"))
    ratio = statistics.median(r["put"] / r["send"] for r in both)
    print(f"  {size:>9} bytes   put {put:10.2f} us   MPI_Send {send:10.2f} us   ratio {ratio:5.2f}")
TABLE
}
# MPICH 4.0 often hangs in MPI_Finalize between hosts, when all is measured.
plain() { "$1" timeout -k 2 20 "$build/bench/peers/comm_$2" send; }

for mpi in openmpi mpich; do
    command -v mpirun.$mpi >/dev/null && [ -x "$build/bench/peers/comm_$mpi" ] && [ -e "$build/lib/longspan/mpi-$mpi.so" ] ||
        { echo "$mpi: left out, its mpirun, its program or its plug-in is not there"; continue; }
    measure "$mpi, one host" ${mpi}_here "plain ${mpi}_here $mpi" mpi
done
measure "tcp beside MPICH's messages, one host" tcp_here "plain mpich_here mpich" tcp
if ! make_two_hosts 2>/dev/null; then
    echo "two hosts: left out, network namespaces are not permitted"
    exit 0
fi
for mpi in openmpi mpich; do measure "$mpi, two hosts" ${mpi}_apart "plain ${mpi}_apart $mpi" mpi; done
measure "tcp beside MPICH's messages, two hosts" tcp_apart "plain mpich_apart mpich" tcp
