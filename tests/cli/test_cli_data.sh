#!/bin/bash
# longspan data as a command: train reads shards as it reads the text, in the same order on any number of ranks;
# refusals.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
mkdir texts
for i in $(seq 60); do
    for k in $(seq $((i * 7 % 23 + 1))); do echo "line $k of text $i"; done >texts/$i.txt
    printf '{"text": "line of %d"}\n' $i >>lines.jsonl
done

# --- build and inspect ---
"$longspan" data build --out shards texts --shard-tokens 3000 --threads 2 >out.txt 2>err || fail "build: $(cat err)"
grep -q '^60 documents · [0-9]* tokens' out.txt && grep -q 'wrote shards' out.txt || fail "summary: $(cat out.txt)"
"$longspan" data build 'texts/1*.txt' lines.jsonl --out mixed --json >out.json 2>err || fail "build: $(cat err)"
json "d['documents'] == 71 and d['inputs'] == 12 and d['shards'] == 1 and d['bad'] == 0" out.json
"$longspan" data inspect shards --verify >page.txt || fail "inspect"
grep -q '^verified' page.txt && grep -q '^document 0, [0-9]* tokens: line 1 of text 1 line 2' page.txt || fail "page: $(cat page.txt)"
"$longspan" data inspect shards --verify --json --documents 5 >out.json
json "d['verified'] and d['documents'] == 60 and len(d['first_documents']) == 5 and len(d['shards']) > 2" out.json
json "sum(c['tokens'] for c in d['lengths']) == d['tokens'] == d['learnt_tokens']" out.json

"$longspan" data build texts --out framed --begin '^' --end none >out.txt 2>err || fail "build: $(cat err)"
grep -q '^around each document: \^ before, none after' out.txt || fail "frame: $(cat out.txt)"
"$longspan" data inspect framed >page.txt || fail "inspect"
grep -q 'end of document none' page.txt && grep -q '^document 0, [0-9]* tokens: ^line 1 of text 1' page.txt || fail "page: $(cat page.txt)"
python3 -c 'import json; d = json.load(open("framed/shards.json")); assert d["begin"] == [94] and d["end"] == [], d' || fail "shards.json"
expect 2 "other files, options or tokenizer" data build texts --out framed --resume
expect 2 "--begin is '<s>', expected auto, none or a token" data build texts --out x --begin '<s>'
"$longspan" data build --out talks --records messages --template chatml --system 'Be kind.' --json <(:) >/dev/null 2>&1 && fail "a pipe was read"
printf '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}\n' >talk.jsonl
"$longspan" data build talk.jsonl --out talks --records messages --template chatml --system 'Be kind.' >out.txt 2>err || fail "build: $(cat err)"
grep -q 'template chatml; system message where there is none: Be kind.' err || fail "template: $(cat err)"
"$longspan" data inspect talks | grep -q 'tokens: <|im_start|>system Be kind.<|im_end|> <|im_start|>user Hi' || fail "talk: $("$longspan" data inspect talks)"
expect 2 "holds other files" data build talk.jsonl --out texts
cp talk.jsonl talk.csv && expect 1 "talk.csv: is not read; write it as Parquet" data build talk.csv --out y
cp talk.jsonl false.jsonl.gz && expect 1 "false.jsonl.gz: cannot be decompressed as gzip" data build false.jsonl.gz --out y

# --- train from them: the same as from the text ---
base=(--model config.json --seq 64 --steps 4 --batch 2 --seed 5 --threads 1)
[ "${LS_TEST_SANITIZER:-}" = thread ] && base+=(--ranks-as threads)
losses() { python3 -c 'import json, sys; print([json.loads(l)["loss"] for l in open(sys.argv[1] + "/metrics.jsonl")])' "$1"; }
"$longspan" train "${base[@]}" --data texts --out from-text >out.txt 2>err || fail "train: $(cat err)"
"$longspan" train "${base[@]}" --data shards --out from-shards >out.txt 2>err || fail "train: $(cat err)"
[ "$(losses from-text)" = "$(losses from-shards)" ] || fail "losses: $(losses from-text) and $(losses from-shards)"

# --- an interrupted build says how to continue it, and its files are not overwritten ---
awk 'BEGIN { for (i = 0; i < 1000000; i++) print "{\"text\": \"line " i " of a long file, which takes a while to be read and written\"}" }' >long.jsonl
begin_build() { # WAITED FLAGS...: a build in the background, once a file is there
    local waited=$1
    shift
    "$longspan" data build long.jsonl --threads 1 "$@" >out.txt 2>err &
    pid=$!
    for _ in $(seq 1000); do [ -e "$waited" ] && return; sleep 0.01; done
    fail "no $waited: $(cat err)"
}
begin_build cut/shard-000000.tokens --out cut --shard-tokens 100000
kill -INT $pid
wait $pid && fail "an interrupted build was done"
grep -q 'interrupted: [0-9]* shards are complete; the same command with --resume continues after them' err || fail "Ctrl-C: $(cat err)"
expect 2 "cut holds an unfinished build; continue with --resume, or remove it: rm -r cut" data build long.jsonl --out cut --shard-tokens 100000
"$longspan" data build long.jsonl --out cut --shard-tokens 100000 --resume >out.txt 2>err || fail "resume: $(cat err)"
grep -q '^1000000 documents' out.txt || fail "resume: $(cat out.txt)"
begin_build killed/build.jsonl --out killed
kill -KILL $pid
wait $pid && fail "a killed build was done"
expect 2 "killed holds an unfinished build; continue with --resume, or remove it" data build lines.jsonl --out killed
rm -r cut killed long.jsonl
# A build that failed before its first shard leaves nothing to continue from.
expect 1 "lines.jsonl:1: words is missing" data build lines.jsonl --out failed --field words
"$longspan" data build lines.jsonl --out failed >out.txt 2>err || fail "after a failed build: $(cat err)"

# --- every format gives the same tokens to build, training, evaluation and listing ---
gzip -k lines.jsonl
python3 - <<'MAKE'
import json
records = [json.loads(line) for line in open("lines.jsonl")]
json.dump(records, open("lines.json", "w"), indent=1)
with open("many.json", "w") as f: f.write("\n".join(json.dumps(r, indent=1) for r in records))
json.dump([r["text"] for r in records], open("texts.json", "w"))
with open("talks.jsonl", "w") as f:
    for i in range(40):
        print(json.dumps({"messages": [{"role": "user", "content": f"What is {i}?"}, {"role": "assistant", "content": f"It is {i}."}]}), file=f)
MAKE
"$longspan" data build lines.jsonl --out line-shards >out.txt 2>err || fail "build: $(cat err)"
"$longspan" data inspect line-shards --order --seq 64 --steps 5 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["steps"])' >expected
"$longspan" eval --model config.json --seq 64 --data line-shards --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["loss"])' >expected-loss
for data in lines.jsonl lines.jsonl.gz lines.json many.json texts.json; do
    "$longspan" data inspect "$data" --order --seq 64 --steps 5 --json 2>err | python3 -c 'import json, sys; print(json.load(sys.stdin)["steps"])' >order || fail "$data: $(cat err)"
    cmp -s order expected || fail "$data is not read as its shards: $(cat order err)"
    "$longspan" eval --model config.json --seq 64 --data "$data" --json 2>err | python3 -c 'import json, sys; print(json.load(sys.stdin)["loss"])' >loss || fail "$data: $(cat err)"
    cmp -s loss expected-loss || fail "eval --data $data: $(cat loss err)"
    "$longspan" data build "$data" --out "shards-of-$data" >out.txt 2>err && cmp -s "shards-of-$data/shard-000000.tokens" line-shards/shard-000000.tokens ||
        fail "data build $data: $(cat err)"
done
# Conversations are learnt as from shards, the user's turns are not; a resumed run reads them in the same way.
talk=(--records messages --template chatml)
"$longspan" data build talks.jsonl "${talk[@]}" --out talk-shards >out.txt 2>err || fail "build: $(cat err)"
"$longspan" train "${base[@]}" --data talk-shards --out talk-a >out.txt 2>err || fail "train: $(cat err)"
"$longspan" train "${base[@]}" --data talks.jsonl --eval-data talks.jsonl "${talk[@]}" --out talk-b >out.txt 2>err || fail "train: $(cat err)"
[ "$(losses talk-a)" = "$(losses talk-b)" ] || fail "losses of conversations: $(losses talk-a) and $(losses talk-b)"
"$longspan" eval --model talk-b/model --seq 64 --data talks.jsonl "${talk[@]}" --json >out.json 2>err || fail "eval: $(cat err)"
python3 -c 'import json; d = json.load(open("talk-b/run.json"))["settings"]; assert d["records"] == "messages" and d["template"] == "chatml", d' || fail "run.json"
"$longspan" train "${base[@]}" --data talks.jsonl --records text --resume --out talk-b >out.txt 2>err && fail "--records was changed"
grep -q -- "--records text contradicts" err || fail "resume: $(cat err)"
"$longspan" train "${base[@]}" --data talks.jsonl --out talk-c >out.txt 2>err && fail "conversations were read as texts"
grep -q "talks.jsonl:1: text is missing, expected a text; --field says where it is; --records messages reads conversations" err || fail "hint: $(cat err)"
expect 2 "data inspect reads no texts without --order; leave out --records" data inspect shards --records messages

# --- each step reads the same data on 1, 2 and 4 ranks, and after resuming on another number ---
hashes() { python3 -c 'import json, sys; print([json.loads(l)["data_hash"] for l in open(sys.argv[1] + "/metrics.jsonl")])' "$1"; }
for pack in join best stream; do
    order=(--seq 64 --batch 4 --seed 5 --pack $pack)
    "$longspan" data inspect shards --order "${order[@]}" --steps 6 --json >order.json
    expected=$(python3 -c 'import json; print([s["data_hash"] for s in json.load(open("order.json"))["steps"]])')
    run=(--model config.json --data shards "${order[@]}" --threads 1 --schedule constant)
    [ "${LS_TEST_SANITIZER:-}" = thread ] && run+=(--ranks-as threads)
    for ranks in 1 2 4; do
        "$longspan" train "${run[@]}" --steps 6 --accumulate 2 --ranks $ranks --out $pack-$ranks >out.txt 2>err || fail "train: $(cat err)"
        [ "$(hashes $pack-$ranks)" = "$expected" ] || fail "$pack on $ranks ranks read $(hashes $pack-$ranks), not $expected"
    done
    "$longspan" train "${run[@]}" --steps 3 --ranks 2 --out $pack-cut >out.txt 2>err || fail "train: $(cat err)"
    "$longspan" train "${run[@]}" --steps 6 --ranks 4 --out $pack-cut --resume --replan >out.txt 2>err || fail "resume: $(cat err)"
    [ "$(hashes $pack-cut)" = "$expected" ] || fail "$pack after resuming read $(hashes $pack-cut), not $expected"
    "$longspan" data inspect shards --order "${order[@]}" --steps 2 --from 4 --json >later.json
    python3 - <<'CHECK' || fail "--from, or what $pack says of its order"
import json
order, later = json.load(open("order.json")), json.load(open("later.json"))
assert order["steps"][4:] == later["steps"], later
for step in order["steps"]:
    for sequence in step["sequences"]:
        assert sum(p["length"] for p in sequence) <= 64 and sequence[0]["place"] == 0, sequence
CHECK
done
# --- the same for any mesh and any number of micro-batches ---
while read -r ranks mesh accumulate; do
    "$longspan" train "${run[@]}" --steps 6 --accumulate "$accumulate" --ranks "$ranks" --mesh "$mesh" --out "mesh-$mesh-$accumulate" >out.txt 2>err ||
        fail "train on $mesh: $(cat err)"
    [ "$(hashes "mesh-$mesh-$accumulate")" = "$expected" ] || fail "$mesh, $accumulate micro-batches read $(hashes "mesh-$mesh-$accumulate")"
done <<'MESHES'
1 dp=1 4
2 dp=2 1
4 dp=4 1
4 dp=2,ring=2 2
MESHES
expect 2 "--pack" train "${base[@]}" --data shards --out x --pack loosely

# --- grouped by length: the steps that inspect shows, on any mesh and after resuming; what it cannot do is refused ---
order=(--seq 64 --batch 4 --seed 5 --pack best --group-by-length)
"$longspan" data inspect shards --order "${order[@]}" --steps 6 --json >grouped.json
grouped=$(python3 -c 'import json; print([s["data_hash"] for s in json.load(open("grouped.json"))["steps"]])')
run=(--model config.json --data shards "${order[@]}" --threads 1 --schedule constant)
[ "${LS_TEST_SANITIZER:-}" = thread ] && run+=(--ranks-as threads)
"$longspan" train "${run[@]}" --steps 6 --accumulate 2 --ranks 2 --mesh dp=2 --out grouped >out.txt 2>err || fail "train: $(cat err)"
[ "$(hashes grouped)" = "$grouped" ] || fail "grouped, two replicas read $(hashes grouped), not $grouped"
python3 - "$(grep -o 'busiest of 2 replicas has .*' err)" <<'CHECK' || fail "what grouping does: $(cat err)"
import re, sys
with_it, without = map(float, re.findall(r"\d+\.\d+", sys.argv[1]))
assert 1 <= with_it < without, sys.argv[1]
CHECK
"$longspan" train "${run[@]}" --steps 3 --out grouped-cut >out.txt 2>err || fail "train: $(cat err)"
grep -q 'group by length: no replica waits for another one' err || fail "grouping on one rank: $(cat err)"
"$longspan" train "${run[@]}" --steps 6 --ranks 4 --out grouped-cut --resume --replan >out.txt 2>err || fail "resume: $(cat err)"
[ "$(hashes grouped-cut)" = "$grouped" ] || fail "grouped, after resuming read $(hashes grouped-cut), not $grouped"
"$longspan" train --model config.json --seq 64 --steps 1 --batch 100 --threads 1 --data talks.jsonl "${talk[@]}" --group-by-length --out few >out.txt 2>err || fail "train: $(cat err)"
grep -q 'an epoch has fewer sequences than a step' err || fail "few sequences: $(cat err)"

# --- refusals ---
refuses() { # WORDS FLAGS...: train ends with a line that holds them
    local words=$1
    shift
    ! "$longspan" train "${base[@]}" "$@" --out x >out 2>err || fail "train $*: was done"
    tail -1 err | grep -qF -- "$words" || fail "train $*: expected '$words' in: $(cat err)"
}
refuses "--group-by-length with --pack join, whose sequences are all full and one document each; expected best, stream or pairs" --data shards --group-by-length
refuses "--group-by-length with 2 data sets" --data a@1=shards b@2=texts --pack best --group-by-length
expect 2 "expected build or inspect" data
expect 2 "expected build or inspect" data destroy
expect 2 "no files given" data build --out x
expect 2 "--out is missing" data build texts
# A training verifies the bodies of shards before it uses them: a token changed to another valid id is found, except with --trust-data.
"$longspan" data build texts --out whole-shards >out.txt 2>err || fail "build: $(cat err)"
verified=(train --model config.json --seq 16 --threads 1 --steps 1)
"$longspan" "${verified[@]}" --data whole-shards --out verified >out.txt 2>err || fail "train: $(cat err)"
grep -q 'verified: 1 shards, ' err || fail "what the verification cost is not told: $(cat err)"
python3 - <<'CHANGE'
import glob
with open(glob.glob("whole-shards/*.tokens")[0], "r+b") as f:
    f.seek(128 + 100)
    old = f.read(1)
    f.seek(128 + 100)
    f.write(b"a" if old != b"a" else b"b")
CHANGE
for data in "--data whole-shards" "--data texts --eval-data whole-shards"; do
    "$longspan" "${verified[@]}" $data --out changed >out.txt 2>err && fail "$data: a changed token was trained on"
    grep -q 'whole-shards/.*tokens: checksum is .*, expected .*; the file was damaged' err || fail "$data: $(cat err)"
done
"$longspan" "${verified[@]}" --data whole-shards --trust-data --out trusted >out.txt 2>err || fail "--trust-data: $(cat err)"

# A shard that is truncated during the training ends the run with the shard's name.
"$longspan" data build texts --out cut-shards >out.txt 2>err || fail "build: $(cat err)"
"$longspan" train --model config.json --seq 16 --threads 1 --ranks 2 --steps 1000000 --data cut-shards --out cut-run >out.txt 2>err & pid=$!
for _ in $(seq 600); do [ -s cut-run/metrics.jsonl ] && break; sleep 0.02; done
truncate -s 100 cut-shards/*.tokens
status=0
wait $pid || status=$?
[ $status -eq 1 ] && tail -1 err | grep -q '^longspan: cut-shards/.*tokens: it was cut from [0-9]* to 100 bytes while it was read' ||
    fail "a shard that was cut: exit $status: $(tail -3 err)"

expect 2 "--verify is no flag of data build" data build texts --out x --verify
expect 2 "--resume is no flag of data inspect" data inspect shards --resume
expect 2 "holds token shards already" data build texts --out shards
expect 2 "known are text" data build lines.jsonl --out x --records song
expect 1 "none" data build none --out x
expect 1 "lines.jsonl:1: words is missing" data build lines.jsonl --out x --field words
expect 1 "no shards.json in it" data inspect texts
refuses "expected one or the other" --data shards texts
head -c 2000 shards/shard-000001.tokens >short && cp short shards/shard-000001.tokens
expect 1 "shards/shard-000001.tokens: 2000 bytes, expected" data inspect shards
refuses "shards/shard-000001.tokens: 2000 bytes, expected" --data shards
echo "data: passed"
