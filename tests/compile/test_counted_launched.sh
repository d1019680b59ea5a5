#!/bin/bash
# Counted rows between ranks that another program has started: over MPI, by each one that is there, and over TCP between pretended hosts.
#     test_counted_launched.sh BUILD
set -u
program=$1/tests/test_counted_rows passed=0
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "[  SKIPPED ] test_counted_launched: the libraries of MPI are not built for sanitizers"; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
unset LONGSPAN_BOOT LONGSPAN_HOSTS LONGSPAN_TRANSPORTS
port=$((20000 + $$ % 10000))

# Launched as by torchrun.
by_environment() {
    local ranks=$1 r pids=() status=0
    port=$((port + 17))
    for ((r = 0; r < ranks; r++)); do
        RANK=$r WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$program" launched &
        pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || status=1; done
    return $status
}
by_openmpi() { mpirun.openmpi -n "$1" "$program" launched; }
by_mpich() { mpirun.mpich -n "$1" "$program" launched; }

# try LAUNCHER RANKS VARIABLE...
try() {
    local launcher=$1 ranks=$2 said
    shift 2
    said=$(export "$@"; "by_$launcher" "$ranks" 2>&1) || { echo "FAILED: $launcher, $ranks ranks, $*: $said"; exit 1; }
    [ "$(grep -c ': ok$' <<<"$said")" -eq 4 ] || { echo "FAILED: $launcher, $ranks ranks, $*: expected 4 routings: $said"; exit 1; }
    passed=$((passed + 1))
}
try environment 4 LONGSPAN_HOSTS=2
try environment 3 LONGSPAN_HOSTS=3 LONGSPAN_TRANSPORTS=chaos:5
for mpi in openmpi mpich; do
    command -v mpirun.$mpi >/dev/null && [ -e "$1/lib/longspan/mpi-$mpi.so" ] || { echo "skipped: mpirun.$mpi or its plug-in is not there"; continue; }
    try $mpi 2 LONGSPAN_TRANSPORTS=mpi
    try $mpi 5 LONGSPAN_TRANSPORTS=mpi
    try $mpi 4 LONGSPAN_HOSTS=2
done
echo "$passed passed"
