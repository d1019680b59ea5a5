#!/bin/bash
# bench/gpu.sh on the driver for tests: steps in their order; one that hangs is killed and named, and the rest goes on; what has ended well is not
# repeated, and what was killed is.
set -u
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1" >&2; cat "$work/page" >&2; exit 1; }
run() {
    PATH=$work/bin:$PATH GPU_SCALE=$1 LS_TEST_GPU='' LONGSPAN_CUDA_DRIVER=$build/tests/libfake-cuda.so LONGSPAN_CUDA_KERNELS=$build/tests/emulated-cuda.so \
        LONGSPAN_CUDA_LIBRARIES=none "$root/bench/gpu.sh" "$build" "$work/logs" handles facts node >"$work/page" 2>&1
}
lines() { sed -n '1,/^== /p' "$work/page" | sed '$d' | sed 's/after [0-9]* s/after N s/' | paste -sd'|'; }

mkdir "$work/bin"
printf '#!/bin/sh\nexec sleep 600\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
run 0.8 && fail "a step was killed, and gpu.sh ended well"
[ "$(lines)" = "facts: == killed: it took longer than 8 s|node: == ended well after N s|handles: == ended well after N s" ] || fail "other lines: $(lines)"
grep -q 'upload: 7' "$work/logs/node.log" || fail "the experiment node did not find its words"
grep -q '^node  *ended well.*graphs of words as they are' "$work/page" || fail "nothing follows from the experiment node"
pgrep -f "$work/bin/nvidia-smi" >/dev/null && fail "the step that was killed goes on"

printf '#!/bin/sh\necho a GPU\n' >"$work/bin/nvidia-smi"
run 1 || fail "gpu.sh did not end well when no step hangs"
[ "$(lines)" = "facts: == ended well after N s" ] || fail "other lines the second time: $(lines)"
