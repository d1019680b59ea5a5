#!/bin/bash
# The machine code of the kernels for CUDA, where nvcc, cuobjdump and nvdisasm are (all are in PyPI, too): what nvcc makes of them for each GPU has the
# instructions that they are written for, and keeps their sums in registers. Prints registers, memory and instructions of each.
set -eu
build=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
export PATH=$PATH:/usr/local/cuda/bin
for tool in nvcc cuobjdump nvdisasm c++filt; do
    command -v "$tool" >/dev/null || { echo "skipped: there is no $tool"; exit 0; }
done
ninja -C "$build" --quiet cuda
"$here/tools/cuda-code.py" "$build/lib/longspan/cuda.so"
