#!/bin/bash
# Under each mpirun that is installed: one of its processes runs another command, so MPI never starts. Longspan's says which rank does not come, its
# process and command, whichever rank it is itself, and ends.
. "$(dirname "$0")/../support/cli.sh"
. "$here/support/launchers.sh"

make_tiny_model
make_lines 40 >text.txt
export LONGSPAN_RENDEZVOUS_SECONDS=2
train=("$longspan" train --model config.json --data text.txt --seq 32 --threads 1 --steps 1 --out run)
for mpi in openmpi mpich; do
    has_launcher $mpi || continue
    other=1 jobs=(-n 1 "${train[@]}" : -n 1 sleep 60)
    [ $mpi = openmpi ] || other=0 jobs=(-n 1 sleep 60 : -n 1 "${train[@]}")
    said="rank $((1 - other)) of 2 .* in MPI_Init for all ranks to start: rank $other is process [0-9]*, which runs 'sleep'"
    ! timeout 50 mpirun.$mpi "${jobs[@]}" >output 2>&1 </dev/null || fail "$mpi, rank $other runs sleep: exit code 0"
    grep -q "^longspan: warning: $said" output && grep -q "^longspan: $said" output || fail "$mpi, rank $other runs sleep: $(cat output)"
done
