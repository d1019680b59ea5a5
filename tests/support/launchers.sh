# Real launchers of ranks, for tests of the command line (after cli.sh):
#   variables  no launcher: processes with torchrun's variables (variables.py), which any machine can start
#   openmpi    mpirun.openmpi        srun      srun of a Slurm of one node, made for the test (slurm.sh)
#   mpich      mpirun.mpich          pmi2      srun --mpi=pmi2 of the same
#   torchrun   $TORCHRUN, else the torchrun of the path
LAUNCHERS="variables openmpi mpich srun pmi2 torchrun"
unset LONGSPAN_BOOT LONGSPAN_HOSTS LONGSPAN_TRANSPORTS
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # those of MPI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export LS_TEST_JOB=$$-${folder##*.} # the mark of all processes that a launcher of this test starts
. "$here/support/slurm.sh"

end_launchers() {
    local left
    left=$(marked_processes)
    # shellcheck disable=SC2086
    [ -z "$left" ] || kill -KILL $left 2>/dev/null || true
    stop_slurm
}
trap 'end_launchers; rm -rf "$folder"' EXIT

# What the launcher lacks here; nothing: it can be used.
missing_of() {
    case $1 in
    variables) ;;
    openmpi | mpich)
        command -v mpirun.$1 >/dev/null || { echo "no mpirun.$1"; return; }
        [ -e "$(dirname "$longspan")/lib/longspan/mpi-$1.so" ] || echo "the build has no plug-in mpi-$1.so"
        ;;
    srun | pmi2) slurm_missing ;;
    torchrun)
        command -v "${TORCHRUN:-torchrun}" >/dev/null || { echo "no torchrun on the path, and TORCHRUN is not set"; return; }
        # That of Debian 12 (PyTorch 1.13 on Python 3.11) starts nothing at all.
        "${TORCHRUN:-torchrun}" --standalone --nproc_per_node 1 --no_python -- true >/dev/null 2>&1 || echo "${TORCHRUN:-torchrun} does not start 'true'"
        ;;
    *) fail "launcher $1 is not one of: $LAUNCHERS" ;;
    esac
}

# Whether the launcher can be used; where not, a line says why.
has_launcher() {
    local missing
    missing=$(missing_of "$1")
    [ -z "$missing" ] || { echo "skipped: $1: $missing"; return 1; }
    case $1 in srun | pmi2) start_slurm ;; esac
}

# launcher_of NAME RANKS: the array `launcher` becomes the command that starts so many ranks of the command behind it.
launcher_of() {
    case $1 in
    variables) launcher=(python3 "$here/support/variables.py" "$2") ;;
    openmpi) launcher=(mpirun.openmpi --bind-to none --mca odls_base_sigkill_timeout 4 -n "$2") ;;
    mpich) launcher=(mpirun.mpich -n "$2") ;;
    srun) launcher=(srun --quiet --disable-status --kill-on-bad-exit=1 -n "$2") ;;
    pmi2) launcher=(srun --quiet --disable-status --kill-on-bad-exit=1 --mpi=pmi2 -n "$2") ;;
    torchrun) launcher=("${TORCHRUN:-torchrun}" --standalone --nproc_per_node "$2" --no_python --) ;;
    esac
}

# The variable that tells a process its rank.
rank_variable() {
    case $1 in
    variables | torchrun) echo RANK ;;
    openmpi) echo OMPI_COMM_WORLD_RANK ;;
    mpich | pmi2) echo PMI_RANK ;;
    srun) echo SLURM_PROCID ;;
    esac
}

# The processes that carry the mark, without those of this script itself.
marked_processes() {
    local file
    for file in $(env -u LS_TEST_JOB grep -lzxs "LS_TEST_JOB=$LS_TEST_JOB" /proc/[0-9]*/environ); do
        file=${file#/proc/}
        echo "${file%/environ}"
    done
}

# pid_of LAUNCHER RANK: the process of $longspan with that rank; nothing: there is none.
pid_of() {
    local pid
    for pid in $(marked_processes); do
        [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$longspan")" ] || continue
        grep -qzxs "$(rank_variable "$1")=$2" "/proc/$pid/environ" && echo "$pid"
    done
    return 0
}

# alike COMMAND...: runs longspan with it here, in the folder local/, and under every launcher of $launchers with $ranks ranks, in a folder of its
# name. Standard output, messages and all files in the folders must be alike (alike.py), with one exit code. What an earlier command has
# left in the folders stays.
alike() {
    local name status
    mkdir -p local
    (cd local && timeout 200 "$longspan" "$@" >output 2>messages) || fail "longspan $*: $(cat local/messages)"
    for name in $launchers; do
        mkdir -p "$name"
        launcher_of "$name" "$ranks"
        status=0
        (cd "$name" && timeout 200 "${launcher[@]}" "$longspan" "$@" >output 2>messages </dev/null) || status=$?
        [ $status -eq 0 ] || fail "$name, $ranks ranks: longspan $*: exit $status: $(cat "$name/messages")"
        python3 "$here/support/alike.py" local "$name" || fail "$name, $ranks ranks: longspan $*"
        [ -z "$(find "$name" -name '*.lock')" ] || fail "$name: longspan $*: a lock is left"
    done
}

# find_launchers NAME...: those that can be used become $launchers.
find_launchers() {
    local name
    launchers=
    for name in "$@"; do
        ! has_launcher "$name" || launchers="$launchers $name"
    done
}
