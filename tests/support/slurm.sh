# A Slurm of one node for tests, as this user, without other services: start_slurm, which sets SLURM_CONF for srun, and stop_slurm. It lives in the
# folder of the test. The node has 16 processors, whatever the machine has, so that any number of ranks may start at once.

slurm_missing() {
    local program
    for program in srun slurmctld slurmd; do
        command -v $program >/dev/null || [ -x /usr/sbin/$program ] || { echo "no $program"; return; }
    done
}

slurm_daemon() { # slurm_daemon NAME: in the foreground, as a child of this shell
    PATH=$PATH:/usr/sbin exec env -u LS_TEST_JOB "$1" -D -f "$SLURM_CONF" >"$slurm_home/$1.out" 2>&1 </dev/null
}

start_slurm() {
    [ -z "${slurm_home:-}" ] || return 0
    slurm_home=$folder/slurm
    mkdir -p "$slurm_home/state" "$slurm_home/spool"
    export SLURM_CONF=$slurm_home/slurm.conf
    local host port=$((22000 + $$ % 4000 * 2)) user waited
    host=$(hostname -s) user=$(id -un)
    # Authentication by "none": of all that reach this host's ports, nobody is asked who he is. Nothing of it outlives the test.
    cat >"$SLURM_CONF" <<CONF
ClusterName=longspan-test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$slurm_home/state
SlurmdSpoolDir=$slurm_home/spool
SlurmctldPidFile=$slurm_home/slurmctld.pid
SlurmdPidFile=$slurm_home/slurmd.pid
SlurmctldLogFile=$slurm_home/slurmctld.log
SlurmdLogFile=$slurm_home/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=16
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
    slurm_daemon slurmctld &
    slurm_pids=$!
    for ((waited = 0; waited < 100; waited++)); do
        [ ! -e "$slurm_home/slurmctld.pid" ] || break
        sleep 0.1
    done
    slurm_daemon slurmd &
    slurm_pids="$slurm_pids $!"
    for ((waited = 0; waited < 200; waited++)); do
        [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && return 0
        sleep 0.1
    done
    fail "Slurm has not started: $(cat "$slurm_home"/*.out "$slurm_home"/*.log)"
}

stop_slurm() {
    [ -n "${slurm_home:-}" ] || return 0
    # shellcheck disable=SC2086
    kill $slurm_pids 2>/dev/null && wait $slurm_pids 2>/dev/null
    # What a step that did not end has left.
    local file
    for file in $(grep -lzxs "SLURM_CONF=$slurm_home/slurm.conf" /proc/[0-9]*/environ); do
        [ "$(readlink "${file%environ}exe")" != /usr/sbin/slurmstepd ] || kill -KILL "$(cut -d/ -f3 <<<"$file")" 2>/dev/null || true
    done
    slurm_home=
}
