# For tests of the command line that compare runs of `train`: the numbers of their metrics.jsonl, what is refused, and the path of records.py.
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"
export PYTHONPATH=$here/support PYTHONDONTWRITEBYTECODE=1

# The fields of metrics.jsonl that `same` compares, separated by \|, and how many numbers of a run these are at least.
fields='loss\|eval_loss\|grad_norm'
least=1
losses() { grep -o '"\('"$fields"'\)": *[-0-9.e]*' "$1/metrics.jsonl"; }
# same RUN OTHER: their numbers differ by a millionth at most, of 1 or of numbers that are larger.
same() {
    paste <(losses "$1") <(losses "$2") | awk -F'[:\t]' -v least="$least" '
        { d = $2 - $4; if (d < 0) d = -d; size = $2 < 0 ? -$2 : $2; n++
          if ($1 != $3 || d > 1e-6 * (size > 1 ? size : 1)) bad = 1 }
        END { exit bad || n < least }' ||
        fail "$1 and $2 differ: $(losses "$1" | tr '\n' ' ') and $(losses "$2" | tr '\n' ' ')"
}
# same_curve RUN OTHER STEPS: both have a loss for each step, which falls; the losses differ by a ten-thousandth at most.
same_curve() {
    python3 - "$@" <<'CURVES'
import sys
from records import read
one, many = ([line["loss"] for line in read(run + "/metrics.jsonl")] for run in sys.argv[1:3])
assert len(one) == len(many) == int(sys.argv[3]) and one[-1] < one[0] and max(abs(a - b) for a, b in zip(one, many)) < 1e-4, (one, many)
CURVES
}
# refused WORDS COMMAND...: the command fails, and the last line that it says has the words.
refused() {
    local words=$1
    shift
    "$longspan" "$@" >out 2>err </dev/null && fail "longspan $*: expected a failure with '$words'"
    tail -1 err | grep -qF -- "$words" || fail "longspan $*: expected '$words' in: $(tail -1 err)"
}
