#!/bin/bash
# --transport of train, grad and attention: it says what connects the ranks, whatever LONGSPAN_TRANSPORTS says; a name that there is none of is
# wrong usage, also in the variable.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
make_lines 40 >text.txt
python3 - <<'ARRAYS'
import struct
def npy(name, descr, shape, data):
    head = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)
npy("tokens.npy", "<i4", (1, 32), struct.pack("<32i", *range(1, 33)))
npy("q.npy", "<f4", (1, 32, 2, 8), struct.pack("<512f", *(i % 7 / 7 for i in range(512))))
ARRAYS
train="train --model config.json --data text.txt --seq 32 --steps 1 --threads 1 --ranks 2 --out run"
grad="grad --model config.json --tokens tokens.npy --threads 1 --ranks 2 --out g.safetensors"
attention="attention --q q.npy --k q.npy --v q.npy --mask causal --threads 1 --ranks 2 --out a"

# Between pretended hosts there is no shared memory.
export LONGSPAN_HOSTS=2 LONGSPAN_TRANSPORTS=shm
for command in "$train" "$grad" "$attention"; do
    expect 2 "'pigeon': expected some of shm, tcp, mpi, each once" $command --transport pigeon
    expect 2 "'tcp,tcp': expected some of shm, tcp, mpi, each once" $command --transport tcp,tcp
    expect 1 "transport mpi is not there: expected an mpirun to start the ranks" $command --transport mpi
    ! "$longspan" $command >out 2>err && grep -q "nothing connects rank 0" err || fail "$command: shm connects hosts: $(cat err)"
    "$longspan" $command --transport tcp >out 2>err || fail "$command --transport tcp: $(cat err)"
    rm -rf run g.safetensors a
    status=0
    LONGSPAN_TRANSPORTS=pigeon "$longspan" $command >out 2>err || status=$?
    [ $status -eq 2 ] && err_lines 1 "'pigeon': expected some of shm, tcp, mpi, each once" || fail "$command: exit $status: $(cat err)"
done
