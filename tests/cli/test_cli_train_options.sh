#!/bin/bash
# longspan train: length and learning rate (steps, epochs, schedules), which checkpoints it keeps, and option names of
# other programs.
. "$(dirname "$0")/../support/cli.sh"

make_tiny_model
sed -i 's/"max_position_embeddings": 64/"max_position_embeddings": 24/' config.json
make_lines 400 >text.txt
base=(--model config.json --data text.txt --threads 1)
[ "${LS_TEST_SANITIZER:-}" = thread ] && base+=(--ranks-as threads)
# train OUT FLAGS...
train() {
    local out=$1
    shift
    "$longspan" train "${base[@]}" --out "$out" "$@" >out.txt 2>err || fail "train --out $out $*: $(cat err)"
}
# metrics EXPRESSION RUN: the expression is true for the lines `d` of metrics.jsonl.
metrics() { python3 -c "import json, math; d = [json.loads(x) for x in open('$2/metrics.jsonl')]; assert $1, d" || fail "$1 in $(cat "$2/metrics.jsonl")"; }

# A sequence longer than the model's context is reported, and the saved config has the new length, except where a scaling uses that length.
train long --seq 32 --steps 1
grep -q 'warning: --seq 32 is more than max_position_embeddings 24 of config.json' err || fail "no warning: $(cat err)"
json "d['max_position_embeddings'] == 32" long/model/config.json
train short --seq 24 --steps 1
grep -q warning err && fail "a warning: $(cat err)"
json "d['max_position_embeddings'] == 24" short/model/config.json
train dynamic --seq 32 --steps 1 --rope-scaling dynamic:2
json "d['max_position_embeddings'] == 24" dynamic/model/config.json
echo '{"architectures": ["GPT2LMHeadModel"], "vocab_size": 257, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}' >gpt2.json
expect_refused() {
    local words=$1 status=0
    shift
    "$longspan" train "$@" >out 2>err || status=$?
    [ $status -eq 2 ] && grep -qF -- "$words" err || fail "train $*: exit $status: $(cat err)"
}
expect_refused "n_positions 16, which are learned" --model gpt2.json --data text.txt --out g --seq 17

# The last step has the lowest rate; an epoch is as many steps as it takes to read the data once.
train linear --seq 24 --steps 4 --lr 0.01 --min-lr 0 --schedule linear
metrics "[round(x['lr'], 9) for x in d] == [0.0075, 0.005, 0.0025, 0.0]" linear
train cosine --seq 24 --steps 2 --lr 0.01 --min-lr 0.004
metrics "abs(d[-1]['lr'] - 0.004) < 1e-12" cosine
train tenth --seq 24 --steps 2 --lr 0.01
metrics "abs(d[-1]['lr'] - 0.001) < 1e-12" tenth
json "d['settings']['min_lr'] == 0.001" tenth/run.json
expect_refused "--min-lr 0.1 is more than --lr 0.01" "${base[@]}" --out x --lr 0.01 --min-lr 0.1
train epochs --seq 1000 --batch 3 --epochs 1.5
json "len(open('epochs/metrics.jsonl').readlines()) == -(-d['data']['sequences'] * 3 // 2 // 3) == d['settings']['steps']" epochs/run.json
expect_refused "--steps 3 and --epochs 2" "${base[@]}" --out x --steps 3 --epochs 2
"$longspan" train "${base[@]}" --seq 24 --out x --lr 1e30 --steps 1 >out 2>err || fail "--lr 1e30: $(cat err)"

# A finished run continues with more steps, reports the jump of the learning rate, and keeps counting.
train more --seq 24 --steps 4 --lr 0.01
train more --seq 24 --resume
grep -q 'all 4 steps are done; a larger --steps continues the run' err || fail "a run that is done: $(cat err)"
train more --seq 24 --steps 8 --resume
jump='the schedule (cosine) is that of 8 steps from here on: the learning rate of step 5 is 0.00378, and that of step 4 was 0.001'
grep -q "$jump" err || fail "more steps: $(cat err)"
grep -q 'training 8/8' err || fail "progress: $(cat err)"
grep -q 'training [1-4]/' err && fail "steps are counted twice: $(cat err)"
metrics "[x['step'] for x in d] == list(range(1, 9)) and abs(d[-1]['lr'] - 0.001) < 1e-12" more
# So does one that continues a run which was killed before the first checkpoint of its new schedule.
train killed --seq 24 --steps 4 --lr 0.01
sed -i 's/"steps": 4/"steps": 8/' killed/run.json
train killed --seq 24 --resume
grep -q "$jump" err || fail "more steps after a kill: $(cat err)"
train killed --seq 24 --resume
grep -q 'the schedule' err && fail "a schedule that is the same: $(cat err)"
expect_refused "--steps 6 is less than the 8 steps of more that are done" "${base[@]}" --seq 24 --out more --steps 6 --resume
train more --seq 24 --epochs 0.05 --resume
grep -q 'epochs: 0.05 of' err || fail "--epochs with --resume: $(cat err)"

# run.json records which parameters are decayed.
json "[(p['lr_factor'], p['weight_decay']) for p in d['parameters']] == [(1, 0.1), (1, 0)] and \
    'model.norm.weight' in d['parameters'][1]['names'] and len(d['parameters'][1]['names']) == 3" more/run.json

# The best checkpoint stays, and the link leads to it. The learning rate is so large that evaluation gets worse.
train best --seq 24 --steps 6 --lr 3e-3 --schedule constant --eval-data text.txt --eval-every 1 --keep 1 --save-every 1 --keep-best
best=$(readlink best/best)
[ -d "best/$best" ] || fail "best leads to $best: $(ls best)"
metrics "min(d, key=lambda x: x['eval_loss'])['step'] == int('${best#checkpoint-}')" best
grep -q "best/best: evaluation" out.txt || fail "summary: $(cat out.txt)"
train best --seq 24 --steps 9 --eval-data text.txt --resume --keep 1 --keep-best
metrics "min(d, key=lambda x: x.get('eval_loss', 99))['step'] == int('$(readlink best/best | sed s/checkpoint-//)')" best
"$longspan" eval --model config.json --checkpoint best/best --data text.txt --seq 24 --threads 1 >out 2>err || fail "eval of the best: $(cat err)"
# After later, worse evaluations the best checkpoint is not among the newest.
train worse --seq 24 --steps 2 --lr 1e-2 --schedule constant --eval-data text.txt --eval-every 1 --keep-best
train worse --seq 24 --steps 2 --resume --eval-data text.txt --keep-best
expect_refused "--keep-best needs --eval-data" "${base[@]}" --out x2 --keep-best
# Early stopping: the last evaluations were not better than the best, and no other three in a row; a resumed run counts on.
train patient --seq 24 --steps 200 --lr 3e-3 --schedule constant --eval-data text.txt --eval-every 1 --keep-best --patience 3
best=$((10#$(readlink patient/best | sed s/checkpoint-//)))
metrics "len(d) == $best + 3 < 200" patient
grep -q "stopped after step $((best + 3)) of 200: the last 3 evaluations were not better than that after step $best" err || fail "early stopping: $(cat err)"
train patient --seq 24 --steps 200 --eval-data text.txt --resume --keep-best --patience 4
metrics "len(d) >= $best + 4" patient
expect_refused "--patience 3 needs --keep-best" "${base[@]}" --out x2 --eval-data text.txt --patience 3

# Several texts to evaluate on: each has the loss that it has alone, and the first is the one that counts.
head -c 3000 text.txt >other.txt
train sets --seq 24 --steps 2 --eval-every 1 --eval-data a=text.txt,other-1=other.txt --keep-best
train alone --seq 24 --steps 2 --eval-every 1 --eval-data other.txt
metrics "all(x['eval_loss'] == x['eval_loss_a'] and x['eval_loss_other-1'] == y['eval_loss'] != x['eval_loss'] for x, y in zip(d, [json.loads(z) for z in open('alone/metrics.jsonl')])) and len(d) == 2" sets
train sets --seq 24 --steps 3 --resume
metrics "'eval_loss_other-1' in d[2]" sets
for wrong in 'a=text.txt,other.txt' '=text.txt' 'a b=text.txt' 'a=text.txt,a=other.txt' 'a='; do
    expect_refused "--eval-data has '" "${base[@]}" --out x2 --eval-data "$wrong"
done

# Several data sets by weight: metrics count the sequences of each; a set alone is read as without a name.
mixed=(a@3=text.txt b@1=other.txt)
"$longspan" train --model config.json --threads 1 --seq 24 --batch 4 --steps 3 --data "${mixed[@]}" --out mixed >out.txt 2>err || fail "mixture: $(cat err)"
metrics "len(d) == 3 and all(x['sequences_a'] == 3 and x['sequences_b'] == 1 for x in d)" mixed
grep -q "data a: 75.0 % of the sequences" err || fail "mixture: $(cat err)"
"$longspan" train --model config.json --threads 1 --seq 24 --batch 4 --steps 4 --data "${mixed[@]}" --out mixed --resume >out.txt 2>err || fail "mixture resumed: $(cat err)"
if "$longspan" train --model config.json --threads 1 --data a@2=text.txt b@1=other.txt --out mixed --resume >out.txt 2>err; then fail "other weights"; fi
for named in text.txt a@1=text.txt; do
    "$longspan" train --model config.json --threads 1 --seq 24 --steps 2 --data "$named" --out "one-$named" >out.txt 2>err || fail "$named: $(cat err)"
done
metrics "[x['data_hash'] for x in d] == [json.loads(y)['data_hash'] for y in open('one-text.txt/metrics.jsonl')]" one-a@1=text.txt
for wrong in 'a@0=text.txt' 'a@x=text.txt' '@1=text.txt' 'a b@1=text.txt' 'a@1='; do
    expect_refused "--data has '" --model config.json --out x2 --data "$wrong"
done
expect_refused "each name once" --model config.json --out x2 --data a@1=text.txt a@2=other.txt
expect_refused "as the other words have it" --model config.json --out x2 --data a@1=text.txt other.txt
expect_refused "--epochs 1 with several data sets" --model config.json --seq 24 --out x2 --epochs 1 --data "${mixed[@]}"

# Event files for TensorBoard: records have correct checksums; a resumed run begins a file that replaces later steps.
train events --seq 24 --steps 2 --tensorboard --eval-data text.txt --eval-every 2
sleep 1.1 # another name
train events --seq 24 --steps 3 --tensorboard --eval-data text.txt --resume
python3 - <<'CHECK' || fail "event files"
import glob, struct

def crc(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    c ^= 0xffffffff
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff

assert crc(b"123456789") == ((0xe3069283 >> 15 | 0xe3069283 << 17) + 0xa282ead8) & 0xffffffff

def records(path):
    data = open(path, "rb").read()
    while data:
        n, check = struct.unpack("<QI", data[:12])
        assert check == crc(data[:8])
        body, data = data[12:12 + n], data[12 + n:]
        assert struct.unpack("<I", data[:4])[0] == crc(body)
        data = data[4:]
        yield body

first, second = ([*records(p)] for p in sorted(glob.glob("events/events.out.tfevents.*")))
assert b"brain.Event:2" in first[0] and len(first) == 3 and len(second) == 3, (first, second)
assert b"train/loss" in first[1] and b"eval/loss" not in first[1] and b"eval/loss" in first[2]
assert second[1].endswith(b"\x10\x03\x3a\x02\x08\x01"), second[1]
loss = first[1][first[1].index(b"train/loss") + 10:]
import json
assert loss[0] == 0x15 and struct.unpack("<f", loss[1:5])[0] == struct.unpack("<f", struct.pack("<f", json.loads(open("events/metrics.jsonl").readline())["loss"]))[0]
CHECK

# A step whose labels are all ignored has no loss: the line of progress says so in words, and the records have null.
for i in 1 2; do echo '{"segments": [{"text": "0123456789012345678901234567890123456789", "label": false}, {"text": "abc", "label": true}]}'; done >segments.jsonl
"$longspan" train --model config.json --data segments.jsonl --records segments --pack join --too-long split --seq 16 --batch 1 --steps 8 --threads 1 \
    --out idle --json >idle.json 2>err || fail "train --out idle: $(cat err)"
metrics "[x['loss'] is None for x in d] == [x['tokens'] == 0 for x in d] and 0 < sum(x['tokens'] == 0 for x in d) < 8" idle
metrics "d[0]['tokens'] == 0" idle
grep -q 'training 1/8 · nothing to learn' err || fail "the line of a step without labels: $(cat err)"
json "d['idle_steps'] > 0 and d['first_loss'] > 0" idle.json
grep -riqw nan err idle.json idle/metrics.jsonl idle/run.json && fail "NaN: $(cat err idle.json)"

# Option names of other programs.
for pair in "--learning-rate=--lr" "--learning_rate=--lr" "--bf16=--dtype bf16" "--max-steps=--steps" "--num-epochs=--epochs" \
    "--batch-size=--batch" "--gradient-accumulation-steps=--accumulate" "--context-length=--seq" "--max-seq-len=--seq" \
    "--output-dir=--out" "--epoch=--epochs"; do
    expect 2 "unknown option ${pair%%=*}; did you mean ${pair#*=}?" train "${base[@]}" --out x "${pair%%=*}" 3
done
expect 2 "unknown option --max-new-tokens; did you mean --tokens?" generate --model m --max-new-tokens 3
expect 2 "unknown option --context-length; did you mean --seq?" plan --model config.json --context-length 3
echo ok
