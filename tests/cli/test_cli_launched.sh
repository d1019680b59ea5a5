#!/bin/bash
# Commands whose ranks somebody else has launched: the same files as with local ranks, printed once, one status.
. "$(dirname "$0")/../support/cli.sh"

[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes"; exit 0; }
make_tiny_model
make_lines 400 >text.txt
RANKS=3
port=$((20000 + $$ % 20000))

# launched COMMAND...: RANKS processes with the variables of torchrun; what rank R prints goes to out.R and err.R. The
# exit codes, one word each, become $codes.
launched() {
    local pids=() r
    port=$((port + 1))
    for ((r = 0; r < RANKS; r++)); do
        RANK=$r LOCAL_RANK=$r WORLD_SIZE=$RANKS LOCAL_WORLD_SIZE=$RANKS MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            timeout 120 "$longspan" "$@" >out.$r 2>err.$r </dev/null &
        pids+=($!)
    done
    codes=
    for r in "${pids[@]}"; do
        local status=0
        wait "$r" || status=$?
        codes="$codes$status "
    done
    for ((r = 1; r < RANKS; r++)); do
        [ ! -s out.$r ] && [ ! -s err.$r ] || fail "rank $r prints: $(cat out.$r err.$r)"
    done
}

# both COMMAND...: runs it with local ranks into the folder `here`, and launched into `there`; {} stands for the folder.
both() {
    rm -rf here there
    mkdir here there
    "$longspan" "${@//\{\}/here}" --ranks $RANKS >out.here 2>err.here || fail "$*: $(cat err.here)"
    launched "${@//\{\}/there}"
    [ "$codes" = "$(printf '0 %.0s' $(seq $RANKS))" ] || fail "$* launched: exit $codes: $(cat err.0)"
}

# same FILE: the same bytes here and there, but for the folders' own names.
same() { cmp <(LC_ALL=C sed 's/\bthere\b/here/g' here/$1) <(LC_ALL=C sed 's/\bthere\b/here/g' there/$1) || fail "$1 differs"; }

# --- training: weights, moments and losses to the bit, one run folder, one exported model ---
train=(train --model config.json --data text.txt --seq 32 --threads 1 --batch 2 --steps 4 --eval-data text.txt
    --eval-every 2 --keep-best --out '{}/run')
both "${train[@]}"
for file in checkpoint-00000004/model.safetensors checkpoint-00000004/optimizer.safetensors model/model.safetensors \
    eval.json loss_by_position.svg; do
    same run/$file
done
columns='[[l[k] for k in ("step", "loss", "grad_norm", "data_hash") if k in l] for l in map(json.loads, open(f))]'
python3 - <<CHECK || fail "metrics"
import json
a, b = [$columns for f in ("here/run/metrics.jsonl", "there/run/metrics.jsonl")]
assert len(a) == 4 and a == b, (a, b)
CHECK
[ ! -e there/run/longspan.lock ] || fail "the lock is left"

# A resume, launched: the same as one with local ranks.
for where in here there; do cp -r here/run $where/more; done
"$longspan" train --model config.json --data text.txt --eval-data text.txt --out here/more --resume --steps 6 >out.here 2>err.here ||
    fail "resume: $(cat err.here)"
launched train --model config.json --data text.txt --eval-data text.txt --out there/more --resume --steps 6
[ "$codes" = "0 0 0 " ] || fail "resume launched: $codes: $(cat err.0)"
same more/checkpoint-00000006/model.safetensors

# Each process checks its share of the newest checkpoint. Whichever finds a wrong byte, all go on from the one before, to the same bits.
for piece in 1 2 3; do
    rm -rf there/less
    cp -r there/more there/less
    python3 - there/less/checkpoint-00000006 $piece <<'DAMAGE'
import json, sys
folder, piece = sys.argv[1], int(sys.argv[2])
model = next(f for f in json.load(open(folder + "/state.json"))["files"] if f["name"] == "model.safetensors")
with open(folder + "/model.safetensors", "r+b") as f:
    f.seek(model["pieces"][piece]["start"])
    byte = f.read(1)[0]
    f.seek(-1, 1)
    f.write(bytes([byte ^ 1]))
DAMAGE
    launched train --model config.json --data text.txt --eval-data text.txt --out there/less --resume --steps 6
    [ "$codes" = "0 0 0 " ] && grep -q "looking for an older checkpoint" err.0 || fail "piece $piece: $codes: $(cat err.0)"
    cmp there/more/checkpoint-00000006/model.safetensors there/less/checkpoint-00000006/model.safetensors || fail "piece $piece: other bits"
done

# --- shards: each process verifies its share of them ---
"$longspan" data build text.txt text.txt text.txt text.txt --out shards --shard-tokens 1000 >out.txt 2>err || fail "build: $(cat err)"
shards=(shards/*.tokens)
[ ${#shards[@]} -ge 3 ] || fail "${#shards[@]} shards"
launched train --model config.json --data shards --seq 32 --steps 1 --out there/shards
[ "$codes" = "0 0 0 " ] || fail "shards: $codes: $(cat err.0)"
grep -q "verified: $(((${#shards[@]} + 2) / 3)) shards" err.0 || fail "verified: $(cat err.0)"
printf X | dd of="${shards[1]}" bs=1 seek=200 conv=notrunc 2>/dev/null
launched train --model config.json --data shards --seq 32 --steps 1 --out there/damaged
[ "$codes" = "1 1 1 " ] && grep -q "${shards[1]}: checksum is" err.0 || fail "a damaged shard: $codes: $(cat err.0)"

# --- what is refused is said once, with one exit code ---
launched train --model config.json --data text.txt --seq 32 --out there/run --steps 4
[ "$codes" = "2 2 2 " ] && grep -q "already holds a run" err.0 || fail "a run that exists: $codes: $(cat err.0)"
[ "$(grep -c 'already holds a run' err.0)" -eq 1 ] || fail "said more than once"
launched train --model config.json --data text.txt --seq 32 --out there/again --steps 4 --restart 1
[ "$codes" = "2 2 2 " ] && grep -q -- "--restart" err.0 || fail "--restart: $codes: $(cat err.0)"

# --- other commands ---
both eval --model config.json --data text.txt --seq 32 --sequences 4 --out '{}/eval'
same eval/eval.json
both recall --model config.json --lengths 256 --depths 2 --samples 2 --out '{}/recall'
python3 - <<'CHECK' || fail "recall differs"
import json
a, b = [json.load(open(f"{w}/recall/recall.json")) for w in ("here", "there")]
assert a["cells"] == b["cells"], (a, b)
CHECK
make_arrays
for layout in contiguous zigzag striped; do
    both attention --q q.npy --k k.npy --v v.npy --do do.npy --mask causal --layout $layout --threads 1 --out '{}/a'
    for name in o lse dq dk dv; do same a/$name.npy; done
done
both grad --model config.json --tokens tokens.npy --threads 1 --out '{}/g.safetensors' --logits '{}/l.npy'
same g.safetensors
same l.npy
both generate --model config.json --prompt "abc" --tokens 12 --threads 1 --seed 5
cmp out.here out.0 || fail "generate differs: $(cat out.here out.0)"
echo ok
