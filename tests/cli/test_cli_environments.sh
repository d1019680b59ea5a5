#!/bin/bash
# What the environment says of ranks: commands that run none work in any environment; what makes no sense is one line with exit code 2; of several
# launchers the nearest counts; a rank that waits says for whom.
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes, and MPI is not built for this sanitizer"; exit 0; }
make_tiny_model
make_arrays
make_lines 5 >text.txt
export XDG_CACHE_HOME=$folder/cache LONGSPAN_RENDEZVOUS_SECONDS=60 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset LONGSPAN_BOOT LONGSPAN_SECRET LONGSPAN_SECRET_FILE LONGSPAN_TRANSPORTS
port=$((20000 + $$ % 20000))
torchrun="RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
slurm="SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost"
pmi="PMI_RANK=0 PMI_SIZE=2 PMI_FD=913"
work=(attention --q "$folder/q.npy" --k "$folder/k.npy" --v "$folder/v.npy" --mask causal --threads 1)

# with VARIABLES COMMAND...: within 20 s; its exit code becomes $status.
with() {
    status=0
    # shellcheck disable=SC2086 # several variables
    env $1 timeout 20 "$longspan" "${@:2}" >out 2>err </dev/null || status=$?
}

# --- commands that run no ranks ask nobody ---
for variables in "$torchrun" "$slurm" "$pmi" "RANK=0 WORLD_SIZE=2147483647" "LONGSPAN_BOOT=mip" "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2"; do
    for command in help version "train --help" "plan --model config.json --seq 64 --ranks 2" "explain --model config.json --seq 64 --ranks 2"; do
        # shellcheck disable=SC2086
        with "$variables" $command
        [ $status -eq 0 ] && [ -s out ] || fail "$variables longspan $command: exit $status: $(cat err)"
    done
    with "$variables" bogus
    [ $status -eq 2 ] || fail "$variables longspan bogus: exit $status: $(cat err)"
done
with "RANK=1 WORLD_SIZE=2" version
[ -s out ] || fail "rank 1 does not tell its version"
with "RANK=1 WORLD_SIZE=2" data build text.txt --out shards
[ $status -eq 0 ] && [ ! -e shards ] || fail "rank 1 builds shards, too"
err_lines 1 "rank 1 of 2 leaves 'data' to rank 0"

# --- what makes no sense is said in one line, with exit code 2 ---
# refused WORDS VARIABLES
refused() {
    with "$2" "${work[@]}" --out o
    [ $status -eq 2 ] || fail "$2: exit $status: $(cat err)"
    err_lines 1 "$1"
    [ "$(wc -l <err)" -eq 1 ] || fail "$2: more than one line: $(cat err)"
}
refused "LONGSPAN_BOOT=mip: expected one of mpi, environment, local" LONGSPAN_BOOT=mip
refused "transports 'tpc': expected some of shm, tcp" LONGSPAN_TRANSPORTS=tpc
refused "WORLD_SIZE=2147483647: expected a number of ranks, at most 1048576" "RANK=0 WORLD_SIZE=2147483647 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
refused "RANK=2, WORLD_SIZE=2: expected a number of ranks" "RANK=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
refused "two launchers started this process" "$torchrun PMI_RANK=1 PMI_SIZE=4"
refused "LONGSPAN_SECRET has 5 characters; expected 16 or more" "$torchrun LONGSPAN_SECRET=short"
refused "LONGSPAN_SECRET and LONGSPAN_SECRET_FILE are set; expected one of them" "$torchrun LONGSPAN_SECRET=0123456789abcdef LONGSPAN_SECRET_FILE=a"
if [ -e "$(dirname "$longspan")/lib/longspan/mpi-mpich.so" ]; then
    refused "PMI_FD=913 is no open connection to a launcher, which has ended" "$pmi"
fi

# --- who waits says for whom, and nobody waits longer than it may ---
# waits RANK WORDS
waits() {
    local began=$SECONDS
    mkdir "rank$1"
    cd "rank$1"
    with "RANK=$1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 20 * $1)) LONGSPAN_RENDEZVOUS_SECONDS=6" "${work[@]}" --out o
    [ $status -eq 1 ] && [ $((SECONDS - began)) -le 12 ] || fail "rank $1: exit $status after $((SECONDS - began)) s: $(cat err)"
    err_lines 1 "$2"
}
waits 0 "rank 0 waits for rank 1 of 2 ranks at 127.0.0.1, port $port, 5 of 6 s" &
waits 1 "rank 1 of 2 waits for rank 0 at 127.0.0.1, port $((port + 20)), 5 of 6 s" &
wait %1 || fail "rank 0 waits in another way"
wait %2 || fail "rank 1 waits in another way"

# --- an interactive shell of Slurm is no rank: what runs there starts its ranks itself; a script of the same step is one ---
shell() { # shell COMMAND...: as a job of an interactive shell that Slurm started as task 0 of 4
    python3 - "$@" <<'SHELL'
import os, pty, sys
task, terminal = pty.fork()
if task == 0:
    os.environ.update(SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="4", SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_STEP_NODELIST="localhost",
                      SLURM_TASK_PID=str(os.getpid()))
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        out = os.open("out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.execvp(sys.argv[1], sys.argv[1:])
    os._exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(task, 0)[1]))
SHELL
}
shell timeout 20 "$longspan" "${work[@]}" --ranks 2 --out shell || fail "in a shell of Slurm: $(cat out)"
[ -e shell/o.npy ] || fail "in a shell of Slurm there is no result"
with "$slurm SLURM_TASK_PID=$$ LONGSPAN_RENDEZVOUS_SECONDS=1" "${work[@]}" --out script
err_lines 1 "waited 1 s for rank 1, rank 2, rank 3"

# --- of two launchers the inner one counts; plain commands beside each other under one launcher are none of its ranks ---
# inner COMMAND...: the job ends well within 60 s, and its result is that of local ranks.
inner() {
    rm -rf o
    timeout 60 "$@" >out 2>err </dev/null || fail "$*: exit $?: $(cat err)"
    cmp o/o.npy local/o.npy || fail "$*: another result"
}
"$longspan" "${work[@]}" --ranks 2 --out local >out 2>err || fail "local: $(cat err)"
plugins=$(dirname "$longspan")/lib/longspan
if command -v mpirun.openmpi >/dev/null && [ -e "$plugins/mpi-openmpi.so" ]; then
    inner mpirun.openmpi -n 1 bash -c '"$0" "$@" --out o & "$0" "$@" --out other & wait' "$longspan" "${work[@]}" --ranks 2
    inner mpirun.openmpi --oversubscribe -n 2 bash -c '[ $OMPI_COMM_WORLD_RANK = 1 ] || exec python3 "$0" 2 "$@"' "$here/support/variables.py" \
        "$longspan" "${work[@]}" --out o
    if command -v mpirun.mpich >/dev/null && [ -e "$plugins/mpi-mpich.so" ]; then
        inner mpirun.openmpi --oversubscribe -n 2 bash -c '[ $OMPI_COMM_WORLD_RANK = 1 ] || exec mpirun.mpich -n 2 "$0" "$@"' "$longspan" "${work[@]}" --out o
    fi
else
    echo "skipped: one launcher in another: no mpirun.openmpi, or the build has no plug-in for it"
fi
echo ok
