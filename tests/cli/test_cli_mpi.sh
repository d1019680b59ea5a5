#!/bin/bash
# Gradients under the mpirun of each MPI that has a plug-in: all ranks by MPI, two pretended hosts, messages out of order; the bits of ranks that
# the command starts itself. Without MPI this says what is missing, and tests nothing.
. "$(dirname "$0")/../support/cli.sh"

[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: the libraries of MPI are not built for this sanitizer"; exit 0; }
export ASAN_OPTIONS=detect_leaks=0 # MPI's own
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
make_tiny_model
make_arrays
export longspan
cat >rank.sh <<'RANK'
exec "$longspan" grad --model config.json --tokens tokens.npy --threads 1 --layout zigzag --strategy "$1" --out rank.0
RANK

for mpi in openmpi mpich; do
    if ! command -v mpirun.$mpi >/dev/null || [ ! -e "$1/lib/longspan/mpi-$mpi.so" ]; then
        echo "skipped: no mpirun.$mpi, or no plug-in for it"
        continue
    fi
    for ranks in 2 3; do
        for strategy in ring tokenring; do
            "$longspan" grad --model config.json --tokens tokens.npy --threads 1 --layout zigzag --strategy $strategy --ranks $ranks --out local >out 2>err ||
                fail "grad: $(cat err)"
            for setting in LONGSPAN_BOOT=mpi LONGSPAN_TRANSPORTS=mpi LONGSPAN_HOSTS=2 LONGSPAN_TRANSPORTS=chaos:5:0:mpi; do
                rm -f rank.0
                env $setting timeout 120 mpirun.$mpi -n $ranks sh rank.sh $strategy >out 2>&1 || fail "$mpi $setting: $(cat out)"
                cmp local rank.0 || fail "$mpi, $ranks ranks, $strategy, $setting: other bits"
            done
        done
    done
done
