#!/bin/bash
# Packs what bench/gpu.sh runs on another machine, one with a GPU and without compilers:
#     tools/gpu-pack.sh BUILD ARCHIVE.tar.gz
# It builds it in BUILD (a configured build folder): the binary, the plug-in of kernels, tests and experiments, stripped, with every shared library
# but libc's beside them. Kernels are built for the GPUs of the build folder (-DLS_CUDA_GPUS=90 for one). There:
#     tar xzf ARCHIVE.tar.gz && longspan-gpu/bench/gpu.sh longspan-gpu/build LOGS
set -eu
[ $# -eq 2 ] && [ -e "$1/build.ninja" ] || { echo "usage: gpu-pack.sh BUILD ARCHIVE.tar.gz" >&2; exit 2; }
build=$(cd "$1" && pwd)
archive=$(realpath -m "$2")
root=$(cd "$(dirname "$0")/.." && pwd)
programs=(longspan tests/test_gpu_kernels tests/long_cuda_matrix bench/gpu_micro)
most=$((45 << 20)) # bytes
ninja -C "$build" -j "${JOBS:-$(nproc)}" --quiet longspan_cli cuda test_gpu_kernels long_cuda_matrix bench_gpu_micro
[ -e "$build/lib/longspan/cuda.so" ] || { echo "gpu-pack: no kernels for CUDA were built: nvcc was not found" >&2; exit 1; }

packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT
top=$packed/longspan-gpu
mkdir -p "$top"/build/{tests,bench,lib/longspan} "$top/bench" "$top/docs" "$top/examples"
for program in "${programs[@]}"; do strip -o "$top/build/$program" "$build/$program"; done
strip -o "$top/build/lib/longspan/cuda.so" "$build/lib/longspan/cuda.so"
# Their libraries, but those of libc: the loader and what must be of one version with it.
for program in "${programs[@]}"; do ldd "$build/$program"; done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|libutil|ld-linux[^/]*)\.so' | xargs -I{} cp -L {} "$top/build/lib/"
mkdir -p "$top/python" && cp -r "$root/python/longspan" "$top/python/"
cp -r "$root/bench/gpu.sh" "$root/bench/imported.py" "$root/bench/gpu" "$root/bench/models" "$top/bench/"
cp -r "$root/examples/tiny" "$top/examples/"
cp "$root"/docs/*.md "$top/docs/"
git -C "$root" rev-parse HEAD >"$top/commit" 2>/dev/null || true
tar -C "$packed" -czf "$archive" longspan-gpu
bytes=$(stat -c %s "$archive")
[ "$bytes" -le $most ] || { echo "gpu-pack: $archive has $bytes bytes; expected at most $most" >&2; exit 1; }
printf 'gpu-pack: %s, %s.%s MB\n' "$archive" $((bytes / 1000000)) $((bytes / 100000 % 10))
