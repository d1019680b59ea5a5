#!/bin/bash
# --sums canonical: training has the same bits on any number of ranks, in f32 and bf16, with any mesh that has an order; it resumes so on other ranks.
. "$(dirname "$0")/../support/cli.sh"

make_wide_model 64 # 8 query heads, 4 KV heads
make_lines 400 >text.txt
[ "${LS_TEST_SANITIZER:-}" = thread ] && as_threads=(--ranks-as threads) || as_threads=()
base=(--model config.json --data text.txt --seq 150 --batch 4 --lr 0.01 --warmup 0 --clip 0.5 --seed 3)

# train_on NAME MESH STRATEGY STEPS FLAG...: trains into the folder NAME, with the ranks of the mesh.
train_on() {
    local name=$1 mesh=$2 strategy=$3 steps=$4
    shift 4
    "$longspan" train "${base[@]}" "${as_threads[@]}" --mesh "$mesh" --strategy "$strategy" --steps "$steps" --out "$name" "$@" --json \
        >"$name.json" 2>err || fail "train $name: $(cat err)"
}

# alike A B: whether two runs have the same weights, moments, losses and norms, to the last bit.
alike() {
    local file
    for file in model.safetensors optimizer.safetensors; do
        cmp -s "$(last_of "$1")/$file" "$(last_of "$2")/$file" || return 1
    done
    python3 - "$1" "$2" <<'CHECK'
import json, sys
def steps(run): return [[json.loads(line)[f] for f in ("step", "loss", "grad_norm")] for line in open(run + "/metrics.jsonl")]
sys.exit(0 if steps(sys.argv[1]) == steps(sys.argv[2]) else 1)
CHECK
}
last_of() { printf '%s\n' "$1"/checkpoint-* | tail -1; }

# refused WORDS FLAG...: training ends with exit code 2, and the last line on standard error contains the words.
refused() {
    local words=$1 status=0
    shift
    "$longspan" train "${base[@]}" --steps 5 "$@" >out 2>err || status=$?
    [ $status -eq 2 ] || fail "train $*: exit $status: $(cat err)"
    tail -1 err | grep -qF -- "$words" || fail "train $*: expected '$words' in: $(cat err)"
}

for dtype in f32 bf16; do
    canonical=(--sums canonical --dtype "$dtype")
    train_on "$dtype-one" dp=1 local 3 "${canonical[@]}"
    for place in dp=2/local ulysses=2/ulysses ring=2/gather dp=4/local ring=2,ulysses=2/gather dp=2,ring=2/gather; do
        name=$dtype-${place%/*}
        train_on "$name" "${place%/*}" "${place#*/}" 3 "${canonical[@]}" --shard "$([ "${place#dp=2}" = "$place" ] && echo gradients || echo parameters)"
        alike "$dtype-one" "$name" || fail "$name differs from one rank"
    done
done
train_on fast ring=2 ring 3
alike f32-one fast && fail "sums in another order are found alike"

# Half the steps on one rank and half on four, as all on two.
train_on half dp=1 local 2 --sums canonical --schedule constant
train_on half dp=2,ring=2 gather 4 --schedule constant --resume --replan
train_on whole ulysses=2 ulysses 4 --sums canonical --schedule constant
alike half whole || fail "a run that was resumed on other ranks differs"

# What was chosen is recorded, and a replica has one sequence at a time.
python3 - <<'CHECK' || fail "run.json"
import json
run = json.load(open("f32-dp=2,ring=2/run.json"))
assert run["spread"]["sums"] == "canonical" and run["spread"]["layout"] == "contiguous" and run["spread"]["shard"] == "parameters", run["spread"]
assert run["settings"]["accumulate"] == 2 and run["spread"]["threads"] == 1, run
assert json.load(open("fast/run.json"))["spread"]["sums"] == "fast"
CHECK
refused "--accumulate 2; with --sums canonical, --batch 4 and 1 replicas expected 4" --out no --sums canonical --accumulate 2
refused "strategy ring adds up in an order that depends on the number of ranks" --out no --sums canonical --mesh ring=2 --strategy ring
refused "8 chunks, which 3 ranks cannot share" --out no --sums canonical --mesh ring=3 --strategy gather
refused "layout zigzag, expected contiguous" --out no --sums canonical --mesh ring=2 --strategy gather --layout zigzag
refused "--shard optimizer, expected gradients or parameters" --out no --sums canonical --mesh ulysses=2 --shard optimizer
refused "expected one of fast|canonical" --out no --sums exact
refused "--sums fast contradicts" --resume --out half --sums fast
