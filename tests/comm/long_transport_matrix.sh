#!/bin/bash
# A covering set of the conformance matrix on launched ranks, over MPI and over mixtures of transports: the bits of local ranks that put.
#     long_transport_matrix.sh BUILD [WORD]
# WORD: only settings whose names contain it. MATRIX_EVERY=N (1) runs every Nth case. What has passed with this program is kept in
# BUILD/matrix-done/ and not run again. One line for each setting, the last is "N passed, N failed".
set -u
build=$(cd "$1" && pwd) word=${2:-} every=${MATRIX_EVERY:-1}
program=$build/tests/test_conformance
[ -x "$program" ] || { echo "ninja tests-short first"; exit 2; }
[ -z "${LS_TEST_SANITIZER:-}" ] || { echo "skipped: the libraries of MPI are not built for sanitizers"; exit 0; }
done_folder=$build/matrix-done/$(sha256sum "$program" "$build"/lib/longspan/*.so 2>/dev/null | sha256sum | cut -c1-16)-$every
mkdir -p "$done_folder"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
port=$((20000 + $$ % 10000)) passed=0 failed=0

local_digests() {
    local file=$done_folder/local-$1
    [ -s "$file" ] || { LONGSPAN_BOOT=local LONGSPAN_TRANSPORTS=shm "$program" digests "$1" "$every" >"$file.new" && mv "$file.new" "$file"; }
}
# Launched as by torchrun; rank 0 prints.
by_environment() {
    local ranks=$1 r pids=() status=0
    port=$((port + 17))
    for ((r = ranks - 1; r >= 0; r--)); do
        RANK=$r WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$program" digests "$ranks" "$every" &
        pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || status=1; done
    return $status
}
by_openmpi() { mpirun.openmpi -n "$1" "$program" digests "$1" "$every"; }
by_mpich() { mpirun.mpich -n "$1" "$program" digests "$1" "$every"; }

# setting LAUNCHER RANKS NAME VARIABLE...
setting() {
    local launcher=$1 ranks=$2 name="$1 $2 ranks $3" started=$SECONDS
    shift 3
    [[ $name == *"$word"* ]] || return
    local key=${name// /-}
    if [ -e "$done_folder/$key" ]; then
        echo "$name: passed before"
        passed=$((passed + 1))
        return
    fi
    local_digests "$ranks" || { echo "$name: FAILED, local ranks"; failed=$((failed + 1)); return; }
    if (export "$@"; "by_$launcher" "$ranks") >"$done_folder/new" 2>"$done_folder/err" && cmp -s "$done_folder/local-$ranks" "$done_folder/new"; then
        mv "$done_folder/new" "$done_folder/$key"
        passed=$((passed + 1))
        echo "$name: $(wc -l <"$done_folder/$key") cases, the bits of local ranks, $((SECONDS - started)) s"
    else
        failed=$((failed + 1))
        echo "$name: FAILED: $(diff "$done_folder/local-$ranks" "$done_folder/new" | grep -c '^>') cases differ, $(wc -l <"$done_folder/new") ran; $(tail -1 "$done_folder/err")"
    fi
}

mixtures() {
    setting "$1" 4 "on 2 hosts" LONGSPAN_HOSTS=2
    setting "$1" 6 "on 2 hosts" LONGSPAN_HOSTS=2
    setting "$1" 8 "on 4 hosts" LONGSPAN_HOSTS=4
}
mixtures environment
for mpi in openmpi mpich; do
    command -v mpirun.$mpi >/dev/null && [ -e "$build/lib/longspan/mpi-$mpi.so" ] || { echo "skipped: mpirun.$mpi or its plug-in is not there"; continue; }
    for ranks in 2 3 4 8; do setting $mpi $ranks "all by mpi" LONGSPAN_TRANSPORTS=mpi; done
    mixtures $mpi
done
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
