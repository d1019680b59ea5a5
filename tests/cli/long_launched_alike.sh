#!/bin/bash
# long_launched_alike.sh BUILD [LAUNCHER...]: under each launcher (all that are installed), with four ranks, the commands of the demo and all others
# that have ranks: the output and the files of ranks that the command starts itself.
. "$(dirname "$0")/../support/cli.sh"
[ "${LS_TEST_SANITIZER:-}" = thread ] && { echo "skipped: ranks are processes, and MPI is not built for this sanitizer"; exit 0; }
. "$here/support/launchers.sh"
shift
make_tiny_model
make_lines 400 >text.txt
root=$(cd "$here/.." && pwd)
# shellcheck disable=SC2086,SC2068 # names
find_launchers ${@:-$LAUNCHERS}
[ -n "$launchers" ] || exit 0
echo "under$launchers:"
ranks=4
does() { echo "  $*" && alike "$@"; }

# --- the demo: shards, a small model of words over four ranks, its checkpoint resumed, exported, evaluated and asked
mkdir model
cp "$root/examples/words/tokenizer.json" model/
sed -e 's/\("num_hidden_layers": \)[0-9]*/\12/' -e 's/\("hidden_size": \)[0-9]*/\132/' -e 's/\("intermediate_size": \)[0-9]*/\172/' \
    "$root/examples/words/config.json" >model/config.json
does data build --tokenizer ../model --out shards ../text.txt
does train --model ../model --data shards --seq 128 --threads 1 --strategy ring --steps 6 --lr 0.003 --warmup 2 --dtype bf16 --ranks 4 --out run --json
does train --model ../model --data shards --eval-data ../text.txt --seq 64 --batch 4 --accumulate 2 --mesh dp=2,ring=2 --threads 1 --steps 4 \
    --eval-every 2 --keep-best --save-every 2 --keep 2 --out second --ranks 4
does train --model ../model --data shards --eval-data ../text.txt --out second --resume --steps 6
does train --model ../model --data shards --seq 128 --threads 1 --strategy ulysses --memory 64M --recompute all --steps 2 --out third --ranks 4
does generate --model run/model --prompt "line 12 of" --tokens 20 --temperature 0.6 --top-k 40 --top-p 0.9 --seed 3 --threads 1 --ranks 4
does eval --model run/model --data shards --seq 128 --sequences 3 --threads 1 --ranks 4 --out eval
does recall --model run/model --lengths 128 --depths 2 --samples 2 --threads 1 --ranks 4 --out recall
does checkpoint export run --out exported
does plan --model run/model --seq 256 --ranks 4
does explain --model run/model --seq 64 --threads 1 --ranks 4 --rank 2

# --- gradients and attention: files that rank 0 alone writes
make_arrays
for strategy in ring tokenring; do
    does grad --model ../config.json --tokens ../tokens.npy --threads 1 --strategy $strategy --ranks 4 --out g-$strategy.safetensors \
        --logits l-$strategy.npy
done
for layout in contiguous zigzag striped; do
    does attention --q ../q.npy --k ../k.npy --v ../v.npy --do ../do.npy --mask causal --layout $layout --threads 1 --ranks 4 --out a-$layout
done
echo ok
