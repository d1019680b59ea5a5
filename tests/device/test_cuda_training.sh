#!/bin/bash
# Trains a model with --device cuda: the kernels of src/kernel/cuda, compiled for the host, on the streams of the driver for tests (tests/cuda).
# Losses and norms are those of the processor to rounding, on every mesh and sharding, and have the same bits the second time; the run goes on
# with a checkpoint, and what a GPU cannot do is refused by name.
. "$(dirname "$0")/../support/runs.sh"

use_emulated_cuda
make_wide_model 64
make_lines 300 >text.txt
job=(--model config.json --data text.txt --seq 24 --batch 2 --lr 0.003 --ranks-as threads)

# numbers RUN: losses and norms.
numbers() { python3 -c "import json, sys; print(*[v for d in map(json.loads, open('$1/metrics.jsonl')) for v in (d['loss'], d['grad_norm'])])"; }
# recorded RUN TEST: the bytes that graphs took, as bash compares them with 0.
recorded() { local n=$(head -1 "$1/metrics.jsonl" | sed 's/.*"recorded_bytes": \([0-9]*\).*/\1/'); [ "$n" "$2" 0 ] || fail "$1: graphs took '$n' bytes"; }
# near BOUND NUMBERS OTHERS: they differ by no more than that share.
near() { python3 -c "import sys; a, b = ([float(x) for x in t.split()] for t in sys.argv[2:]); assert len(a) == len(b) and all(abs(x / y - 1) < float(sys.argv[1]) for x, y in zip(a, b)), (a, b)" "$@"; }

for dtype in f32 bf16; do
    [ $dtype = f32 ] && bound=2e-6 || bound=2e-2
    "$longspan" train "${job[@]}" --dtype $dtype --steps 2 --out cpu-$dtype >out 2>err || fail "cpu: $(cat err)"
    places=("--ranks 1" "--mesh ring=2 --strategy ring" "--mesh ulysses=2 --strategy ulysses --shard parameters" "--mesh dp=2 --shard gradients")
    [ $dtype = f32 ] || places=("${places[@]:2}") # kernels of bf16 are others, what moves data is the same
    for place in "${places[@]}"; do
        read -ra options <<<"$place"
        rm -rf run
        "$longspan" train "${job[@]}" "${options[@]}" --device cuda --dtype $dtype --steps 2 --out run >out 2>err || fail "$place: $(cat err)"
        near $bound "$(numbers run)" "$(numbers cpu-$dtype)" || fail "$dtype $place: other losses than on the processor"
    done
    recorded run -gt
    rm -rf first
    mv run first
    # Once without graphs.
    [ $dtype = f32 ] && device=cuda:launched || device=cuda
    "$longspan" train "${job[@]}" "${options[@]}" --device $device --dtype $dtype --steps 2 --out run >out 2>err || fail "again: $(cat err)"
    [ "$(numbers run)" = "$(numbers first)" ] || fail "$dtype: other bits the second time, on $device"
    [ $dtype = bf16 ] || recorded run -eq
done
json "d['spread']['device'] == 'cuda'" run/run.json
# What waits in memory of the host changes no bit, whether the user or the memory that is left asks for it, and a resumed run goes on so. Nor of the
# average of the weights, which is what its formula gives.
averaged=("${job[@]}" --ema 0.75 --save-every 1)
"$longspan" train "${averaged[@]}" --device cuda --steps 2 --out plain >out 2>err || fail "plain: $(cat err)"
python3 - plain/checkpoint-0000000{1,2} <<'PYTHON' || fail "another average than the formula's"
import array, json, sys


def read(path, begins):
    """The numbers of the tensors whose names begin so, by name."""
    data = open(path, "rb").read()
    n = int.from_bytes(data[:8], "little")
    tensors = {name[len(begins):]: t["data_offsets"] for name, t in json.loads(data[8:8 + n]).items() if "dtype" in t and name.startswith(begins)}
    return {name: array.array("f", data[8 + n + a:8 + n + b]) for name, (a, b) in tensors.items()}


before, after = (read(f"{folder}/model.safetensors", "") for folder in sys.argv[1:])
last = read(f"{sys.argv[2]}/optimizer.safetensors", "last ")
assert before.keys() == after.keys() == last.keys() and after, last.keys()
for name in after:
    worst = max(abs(a - 0.75 * b - 0.25 * c) for a, b, c in zip(after[name], before[name], last[name], strict=True))
    assert worst <= 2e-7 * max(map(abs, after[name])), (name, worst)
    assert after[name] != last[name] and after[name] != before[name], name
PYTHON
less=$(python3 -c "import json; print(json.load(open('plain/run.json'))['predicted_bytes'][0]['private'] * 2 // 3)")
for saving in "--offload all" "--offload optimizer+3 --recompute all" "--memory $less"; do
    read -ra options <<<"$saving"
    rm -rf saved
    "$longspan" train "${averaged[@]}" "${options[@]}" --device cuda --steps 2 --out saved >out 2>err || fail "$saving: $(cat err)"
    [ "$(numbers saved)" = "$(numbers plain)" ] || fail "$saving: other bits"
    same_checkpoint plain/checkpoint-00000002 saved/checkpoint-00000002
    json "d['spread']['offload'] != 'none' and d['predicted_bytes'][0]['host'] > 0" saved/run.json
done
"$longspan" train "${job[@]}" --steps 3 --out saved --resume >out 2>err || fail "resume: $(cat err)"
"$longspan" train "${job[@]}" --device cuda --steps 3 --out plain --resume >out 2>err || fail "resume: $(cat err)"
[ "$(numbers saved)" = "$(numbers plain)" ] || fail "resumed, with what waits in memory of the host: other bits"
"$longspan" train "${job[@]}" --steps 3 --out run --resume >out 2>err || fail "resume: $(cat err)"
# Two hosts, as far as messages know: ranks are processes, and a library that stands in for NVSHMEM or NCCL carries them.
export LONGSPAN_NCCL=$1/tests/libfake-nccl.so
for library in "$1/tests/libfake-nvshmem.so" /nowhere; do
    rm -rf run2
    LONGSPAN_HOSTS=2 LONGSPAN_NVSHMEM=$library "$longspan" train "${job[@]/threads/processes}" --mesh ring=2 --strategy ring --device cuda --steps 2 --out run2 \
        >out 2>err || fail "two hosts, NVSHMEM $library: $(cat err)"
    near 2e-6 "$(numbers run2)" "$(numbers cpu-f32)" || fail "two hosts, NVSHMEM $library: other losses than on the processor"
done

# Where NVIDIA's libraries are (here what stands in for them), --kernels says what is taken first, and a run keeps that.
with_libraries() { LONGSPAN_CUDA_LIBRARIES=required LD_LIBRARY_PATH=$fakes "$@"; }
fakes=$1/tests/fake own="matmul/bf16=own attention/bf16=own attention_grad/bf16=own"
with_libraries "$longspan" explain --model config.json --seq 24 --device cuda --dtype bf16 >out 2>err || fail "explain: $(cat err)"
grep -q "by cublaslt" out && grep -q "by cudnn" out || fail "explain names no libraries"
err_lines 1 "libraries of the kernels for CUDA: cuBLASLt 130100 ($fakes/libcublasLt.so.13), cuDNN 92800 ($fakes/libcudnn.so.9)"
with_libraries "$longspan" version >out || fail "version"
grep -qxF "cuda        cuBLASLt 130100 ($fakes/libcublasLt.so.13), cuDNN 92800 ($fakes/libcudnn.so.9)" out || fail "version: $(cat out)"
read -ra options <<<"$place"
with_libraries "$longspan" train "${job[@]}" "${options[@]}" --device cuda --dtype bf16 --steps 2 --out own --kernels "$own" >out 2>err ||
    fail "own kernels: $(cat err)"
[ "$(numbers own)" = "$(numbers first)" ] || fail "other bits than without libraries"
json "d['spread']['kernels'] == '$own'" own/run.json
with_libraries "$longspan" train "${job[@]}" --steps 3 --out own --resume >out 2>err || fail "resume: $(cat err)"
json "d['spread']['kernels'] == '$own'" own/run.json
# refused WORDS COMMAND...: the last line of the error says so.
refused "--kernels table contradicts" train "${job[@]}" --steps 4 --out own --resume --kernels table
refused "no row 'cudnn' of matmul" train "${job[@]}" --device cuda --steps 4 --out none --kernels matmul/f32=cudnn
refused "--device cpu contradicts" train "${job[@]}" --steps 4 --out run --resume --device cpu
LONGSPAN_CUDA_LIBRARIES=there refused "LONGSPAN_CUDA_LIBRARIES=there: expected none or required" train "${job[@]}" --steps 1 --out other --device cuda
LONGSPAN_CUDA_DRIVER=/nowhere/libcuda.so refused "no CUDA driver can be loaded: /nowhere/libcuda.so" train "${job[@]}" --steps 1 --out other --device cuda
LONGSPAN_CUDA_KERNELS=/nowhere/cuda.so refused "cannot load the kernels for CUDA: /nowhere/cuda.so" train "${job[@]}" --steps 1 --out other --device cuda
LONGSPAN_HOSTS=2 LONGSPAN_NVSHMEM=/nowhere LONGSPAN_NCCL=/nowhere refused "they share no memory; nvshmem: it cannot be loaded" \
    train "${job[@]/threads/processes}" --mesh ring=2 --strategy ring --steps 1 --out other --device cuda
FAKE_CUDA=memory=100000 refused "this GPU" train "${job[@]}" --steps 1 --out other --device cuda
refused "device 'cuda:': expected cuda or cuda:N" train "${job[@]}" --steps 1 --out other --device cuda:
refused "cuda:7" train "${job[@]}" --steps 1 --out other --device cuda:7
refused "--offload none contradicts" train "${job[@]}" --steps 4 --out saved --resume --offload none
refused "--offload half; expected auto, none, optimizer" train "${job[@]}" --steps 1 --out other --offload half
refused "there is no device 'gpu'" train "${job[@]}" --steps 1 --out other --device gpu
echo ok
