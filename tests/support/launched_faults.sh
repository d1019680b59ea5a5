# Faults of a training under a launcher, for test_launched_faults.sh and long_launched_faults.sh, which set $ranks.
. "$here/support/launchers.sh"
make_tiny_model
make_lines 200 >text.txt
train=(train --model config.json --data text.txt --seq 32 --threads 1 --schedule constant)

# The seconds that the messages took, of all cases: what is asked is 10 on a machine that does nothing else.
most_seconds=${LS_TEST_SECONDS:-20}

seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }
# wait_until SECONDS COMMAND...: until it succeeds; false: it has not in that time.
wait_until() {
    local begin=$EPOCHREALTIME most=$1
    shift
    until "$@"; do
        awk -v a="$begin" -v b="$EPOCHREALTIME" -v most="$most" 'BEGIN { exit !(b - a < most) }' || return 1
        sleep 0.05
    done
}
trains() { [ -e run/metrics.jsonl ] && [ "$(grep -c . run/metrics.jsonl)" -ge 2 ]; }
says() { grep -qE -- "$1" output; }
has_ended() { ! kill -0 "$job" 2>/dev/null; }
has_no_processes() { [ -z "$(marked_processes)" ]; }
has_no_memory() { [ -z "$(left_memory)" ]; }
# Shared memory is files of /dev/shm; folders there belong to tests that run at the same time.
memory_files() { find /dev/shm -maxdepth 1 -type f -printf '%f\n' | sort; }
# Files of shared memory that came during the test and that no process uses.
left_memory() {
    local file
    for file in $(comm -13 memory <(memory_files)); do
        grep -qs "/dev/shm/$file" /proc/[0-9]*/maps || echo "$file"
    done
}

# begin LAUNCHER: a training without end under it; $job is the launcher, and leads a group of processes.
begin() {
    rm -rf run
    memory_files >memory
    launcher_of "$1" "$ranks"
    # As on a terminal: what a script starts in the background ignores Ctrl-C.
    setsid env --default-signal=INT,QUIT "${launcher[@]}" "$longspan" "${train[@]}" --steps 1000000 --wait-timeout 3 --out run >output 2>&1 </dev/null &
    job=$!
    wait_until 100 trains || fail "$1: the training has not begun: $(cat output)"
}

# finish WHAT PATTERN: the job ends with a failure, and with a message that has the pattern; nothing of it is left. $code: the exit code.
finish() {
    local begin=$EPOCHREALTIME said
    wait_until "$most_seconds" says "$2" || fail "$1: nothing says '$2' within $most_seconds s: $(cat output)"
    said=$(seconds_since "$begin")
    wait_until 60 has_ended || fail "$1: the launcher has not ended"
    code=0
    wait "$job" 2>/dev/null || code=$?
    wait_until 10 has_no_processes || fail "$1: processes are left: $(ps -o pid,stat,args -p "$(marked_processes | paste -sd,)")"
    wait_until 10 has_no_memory || fail "$1: left in /dev/shm: $(left_memory)"
    [ "$(grep -c '^longspan: .*\(rank [0-9]* \(ended\|waited\)\|has ended\)' output)" -le 1 ] || fail "$1: said more than once: $(cat output)"
    echo "  $1: $said s until it is said, $(seconds_since "$begin") s until all have ended, exit code $code"
}

# What names a rank that was killed: Longspan, or the launcher, where it kills the others before they can say anything. MPICH's names one of
# the processes, not always the first to die.
death_of() {
    case $1 in
    mpich) echo "BAD TERMINATION" ;;
    openmpi) echo "rank $2 ended before|process rank $2 with" ;;
    srun | pmi2) echo "rank $2 ended before|task $2: Killed" ;;
    *) echo "rank $2 ended before its work was done" ;;
    esac
}

kill_rank() { # kill_rank LAUNCHER RANK
    begin "$1"
    kill -KILL "$(pid_of "$1" "$2")"
    finish "rank $2 killed" "$(death_of "$1" "$2")"
    [ "$code" -ne 0 ] || fail "$1, rank $2 killed: exit code 0"
}

stop_rank() {
    begin "$1"
    kill -STOP "$(pid_of "$1" "$2")"
    finish "rank $2 stopped" "^longspan: rank [0-9]* waited .* for .*rank $2, which is stopped \(SIGSTOP\)"
    [ "$code" -ne 0 ] || fail "$1, rank $2 stopped: exit code 0"
}

# Nobody can hear the ranks where their output went through the launcher.
kill_launcher() {
    local said=.
    case $1 in variables | torchrun) said="the program that launched the ranks .* has ended" ;; esac
    begin "$1"
    kill -KILL "$job"
    finish "launcher killed" "$said"
}

# stops_with_checkpoint LAUNCHER WHAT SIGNAL rank|launcher|group: at the signal to rank 1, to the launcher or to its group (Ctrl-C) all ranks stop
# with a checkpoint, and a resume under the launcher comes to the bits of a training that nobody stopped.
stops_with_checkpoint() {
    local name=$1 what=$2 step to
    begin "$name"
    case $4 in rank) to=$(pid_of "$name" 1) ;; launcher) to=$job ;; group) to=-$job ;; esac
    kill "-$3" -- "$to"
    finish "$what" "^longspan: stopped after step .* continue with --resume"
    # MPICH's mpiexec reports success when it was itself asked to end.
    [ "$code" -ne 0 ] || [ "$name $3 $4" = "mpich TERM launcher" ] || fail "$name, $what: exit code 0"
    step=$(($(grep -c . run/metrics.jsonl) + 2))
    launcher_of "$name" "$ranks"
    timeout 100 "${launcher[@]}" "$longspan" "${train[@]}" --resume --steps $step --out run >output 2>&1 </dev/null ||
        fail "$name, $what: resume: $(cat output)"
    rm -rf undisturbed
    "$longspan" "${train[@]}" --steps $step --ranks "$ranks" --out undisturbed >output 2>&1 || fail "$(cat output)"
    same_checkpoint undisturbed/checkpoint-*"$step" run/checkpoint-*"$step"
}
signal_rank() { stops_with_checkpoint "$1" "SIGUSR1 to a rank" USR1 rank; }
interrupt() { stops_with_checkpoint "$1" "Ctrl-C" INT group; }

# torchrun itself ends at SIGUSR1: its users send SIGTERM.
signal_launcher() { [ "$1" = torchrun ] || stops_with_checkpoint "$1" "SIGUSR1 to the launcher" USR1 launcher; }

# Slurm kills the ranks at once when srun is asked to end.
end_launcher() {
    case $1 in
    srun | pmi2)
        begin "$1"
        kill -TERM "$job"
        finish "SIGTERM to the launcher" "CANCELLED"
        [ "$code" -ne 0 ] || fail "$1, SIGTERM: exit code 0"
        ;;
    *) stops_with_checkpoint "$1" "SIGTERM to the launcher" TERM launcher ;;
    esac
}

# Each rank on a pretended host of its own, where nobody sees its process.
stop_far_rank() {
    export LONGSPAN_HOSTS=$ranks
    begin "$1"
    kill -STOP "$(pid_of "$1" 1)"
    finish "rank 1 stopped, on another host" "^longspan: rank [0-9]* waited .* for .*rank 1(, which has not answered| to (take its|confirm that its) puts)"
    unset LONGSPAN_HOSTS
}
