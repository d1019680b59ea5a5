# For tests of the command line, which get the build folder as their argument: $longspan is the program, $here the folder of tests. A test runs
# in a temporary folder, which is removed at its end.
set -eu
longspan=$1/longspan
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

. "$here/support/tiny_model.sh"
fail() { echo "FAILED: $*"; exit 1; }
# expect CODE WORDS COMMAND...: the command ends with the exit code, one line on standard error that contains the words (besides the lines about
# the tokenizer, where one is opened, and about libraries of kernels, where these are loaded), and nothing on standard output.
expect() {
    local code=$1 words=$2 status=0
    shift 2
    "$longspan" "$@" >out 2>all || status=$?
    grep -v '^longspan: tokenizer: \|^longspan: libraries of the kernels for CUDA: ' all >err || true
    [ $status -eq "$code" ] || fail "longspan $*: exit $status, expected $code: $(cat err)"
    [ "$(wc -l <err)" -eq 1 ] || fail "longspan $*: expected one line: $(cat err)"
    grep -qF -- "$words" err || fail "longspan $*: expected '$words' in: $(cat err)"
    [ ! -s out ] || fail "longspan $*: wrote to standard output: $(cat out)"
}
# use_emulated_cuda: --device cuda is the kernels of src/kernel/cuda, compiled for the host, on the driver for tests (tests/cuda).
use_emulated_cuda() {
    local tests=${longspan%/*}/tests
    export LONGSPAN_CUDA_KERNELS=$tests/emulated-cuda.so LONGSPAN_CUDA_DRIVER=$tests/libfake-cuda.so LONGSPAN_CUDA_LIBRARIES=none
}
# json EXPRESSION FILE: the Python expression is true; the document is `d`.
json() { python3 -c "import json, sys; d = json.load(open('$2')); assert $1, d" || fail "$1 in $(cat "$2")"; }
# err_lines N WORDS: N lines of the last command's standard error, in the file err, contain the words.
err_lines() { [ "$(grep -cF -- "$2" err)" -eq "$1" ] || fail "expected $1 lines with '$2' in: $(cat err)"; }
# same_checkpoint FOLDER OTHER: weights and optimizer state of both have the same bits.
same_checkpoint() {
    local file
    for file in model.safetensors optimizer.safetensors; do cmp "$1/$file" "$2/$file" || fail "$2: other bits than in $1"; done
}
