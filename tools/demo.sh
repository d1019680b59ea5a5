#!/bin/bash
# The demo behind `make demo`, some five minutes on a fast machine and on a slow one. It builds, fetches text, measures the machine for a few seconds, chooses sizes that
# fit the time, and shows two things:
#   1. a task that no rank can solve alone (examples/recall), learnt on one rank and on two: the same curve, half the memory;
#   2. a language model (examples/words) learning to write from real text, each sequence shared by two ranks.
# demo.sh BUILD, a folder with a build.ninja. From the environment: DEMO_TEXT (a folder of text files in place of what is fetched), DEMO_RANKS (2),
# DEMO_SECONDS (200) for training on text; and instead of what is measured and chosen: DEMO_RATE (tokens/s), DEMO_SIZE (small, medium or large),
# DEMO_STEPS, DEMO_RECALL_SEQ (512 or 1024), DEMO_RECALL_STEPS (600 at most).
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$build/demo
seconds=${DEMO_SECONDS:-200} ranks=${DEMO_RANKS:-2}
mkdir -p "$work"
cd "$root"
shown=${work#"$root/"}

# --- the build: how far it is, every few seconds
echo "demo: building Longspan in ${build#"$root/"} (a minute or two on two cores, the first time)"
ninja -C "$build" -j "${JOBS:-$(nproc)}" >"$work/build.log" 2>&1 &
builder=$!
for ((waited = 1; ; waited++)); do
    sleep 0.5
    kill -0 $builder 2>/dev/null || break
    ((waited % 10)) || sed -n 's/^\[\([0-9]*\)\/\([0-9]*\)\].*/demo: built \1 of \2 files/p' "$work/build.log" | tail -1
done
wait $builder || { tail -30 "$work/build.log" >&2; echo "demo: the build failed (above: its last lines)" >&2; exit 1; }

# --- the text: the sources of Python's documentation, 11 MB in 497 files. The package is unpacked into the build folder, not installed, so
# nobody's system changes and no root is needed.
package=python3.11-doc
text=${DEMO_TEXT:-$work/text/usr/share/doc/python3.11/html/_sources}
fetch() ( # into the current folder; with package lists of our own where the system has none
    cd "$work"
    apt-get download "$package" >fetch.log 2>&1 && return
    echo "demo: the system has no list of packages; reading one into $work/apt"
    mkdir -p apt/lists/partial apt/cache/archives/partial
    options=(-o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache" -o Debug::NoLocking=1
        -o APT::Sandbox::User=)
    apt-get "${options[@]}" update >fetch.log 2>&1 && apt-get "${options[@]}" download "$package" >>fetch.log 2>&1
)
if [ ! -d "$text" ]; then
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        echo "demo: the text is a Debian package, and there is no apt-get here; run: make demo DEMO_TEXT=a folder with some MB of text files" >&2
        exit 1
    fi
    echo "demo: fetching the text (Debian package $package, 13 MB)"
    if ! fetch; then
        tail -5 "$work/fetch.log" >&2
        echo "demo: $package could not be fetched (above: what apt-get said)" >&2
        exit 1
    fi
    rm -rf "$work/unpacked"
    dpkg-deb -x "$work/$package"_*.deb "$work/unpacked"
    rm -rf "$work/text" "$work/$package"_*.deb
    mv "$work/unpacked" "$work/text"
fi

dtype=f32 # bf16 pays where the processor multiplies it
grep -qw avx512_bf16 /proc/cpuinfo && dtype=bf16

# --- sizes. One row each: least tokens/s of the measurement · name · layers, hidden and inner size · tokens of a sequence · its own
# tokens/s as a multiple of those of the measurement ("medium", 4096 tokens).
# The slower the machine, the shorter the sequence and the smaller the model, so that there are 500 steps or more: with 340 the large model
# wrote noise, with 820 the medium one wrote entries of a manual (perplexity 126 and 65).
sizes='
30000 large  4 256 688 4096 0.45
5000 medium 3 192 512 2048 1.3
0    small  2 128 344 1024 3.0
'
make_model() { # make_model NAME: the folder of that size, from examples/words
    local name layers hidden inner
    read -r _ name layers hidden inner seq faster < <(awk -v name="$1" '$2 == name' <<<"$sizes")
    [ -n "$name" ] || { echo "demo: DEMO_SIZE is \"$1\"; expected small, medium or large" >&2; exit 2; }
    mkdir -p "$work/model-$name"
    cp examples/words/tokenizer.json "$work/model-$name/"
    sed -e "s/\(\"num_hidden_layers\": \)[0-9]*/\1$layers/" -e "s/\(\"hidden_size\": \)[0-9]*/\1$hidden/" \
        -e "s/\(\"intermediate_size\": \)[0-9]*/\1$inner/" examples/words/config.json >"$work/model-$name/config.json"
}
value() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$1" | head -1; } # value FILE KEY: of one line of JSON

rm -rf "$work/shards"
"$build/longspan" data build --tokenizer examples/words --out "$work/shards" "$text" >"$work/shards.log" 2>&1 || { cat "$work/shards.log" >&2; exit 1; }

make_model medium
rate=${DEMO_RATE:-}
if [ -z "$rate" ]; then
    echo "demo: measuring this machine for a few seconds"
    rm -rf "$work/measure"
    "$build/longspan" train --model "$work/model-medium" --data "$work/shards" --seq 4096 --ranks "$ranks" --strategy ring --steps 1000 \
        --max-seconds 6 --dtype $dtype --out "$work/measure" --json >"$work/measure.json" 2>"$work/measure.log" ||
        { cat "$work/measure.log" >&2; exit 1; }
    rate=$(value "$work/measure.json" tokens_per_second)
fi
size=${DEMO_SIZE:-$(awk -v rate="$rate" 'NF && rate >= $1 { print $2; exit }' <<<"$sizes")}
recall=${DEMO_RECALL_SEQ:-$(awk -v rate="$rate" 'BEGIN { print (rate >= 4000 ? 1024 : 512) }')}
make_model "$size"
steps=${DEMO_STEPS:-$(awk -v n="$seconds" -v rate="$rate" -v more="$faster" -v seq="$seq" \
    'BEGIN { n = int(0.9 * n * rate * more / seq); print (n < 20 ? 20 : n) }')}
printf 'demo: %.0f tokens/s; chosen: recall over %d tokens, the %s model on text\n' "$rate" "$recall" "$size"

# --- 1. recall
echo
echo "demo: part 1 of 2: learning what only the other rank has seen, on 1 rank and on $ranks (a minute or two)"
examples/recall/run.sh --build "$build" --seq "$recall" --ranks "$ranks" --strategy ring --steps "${DEMO_RECALL_STEPS:-600}" \
    --compare "$work/recall" >"$work/recall.txt" || [ -s "$work/recall.txt" ]

# --- 2. text
out=$work/run
rm -rf "$out"
echo
echo "demo: part 2 of 2: learning to write from real text, $steps steps of $seq tokens on $ranks ranks ($seconds s)"
"$build/longspan" train --model "$work/model-$size" --data "$work/shards" --seq "$seq" --ranks "$ranks" --strategy ring --steps "$steps" \
    --max-seconds $((seconds * 5 / 4)) --lr 0.003 --warmup 10 --schedule cosine --dtype $dtype --out "$out" --json >"$work/train.json"
about="Python's documentation" prompt="Return the"
[ -z "${DEMO_TEXT:-}" ] || about="your text" prompt="The"
"$build/longspan" generate --model "$out/model" --prompt "$prompt" --tokens 110 --temperature 0.6 --top-k 40 --top-p 0.9 \
    >"$work/sample.txt" 2>"$work/generate.log" || { cat "$work/generate.log" >&2; exit 1; }

# --- the last screen: 30 lines of 100 columns
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }
of() { value "$work/train.json" "$1"; }
last_loss=$(sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$out/metrics.jsonl" | tail -n $((steps / 20 + 1)) | awk '{ sum += $1 } END { print sum / NR }')
guess=$(awk -v v="$(of unigram_loss)" 'BEGIN { printf "%.0f", exp(v) }')
left=$(awk -v v="$last_loss" 'BEGIN { printf "%.0f", exp(v) }')
line() { printf -- '─%.0s' {1..98}; echo; }
echo
line
cat <<SCREEN
Longspan trains language models on sequences that are too long for one device: every sequence is
cut over several ranks (here $ranks processes), and each holds only its part.

1. An answer that only the other rank has seen: "key 5 has value 2" lies on one rank, the question
   "key 5?" more than $((recall / 4)) tokens later on the other. Guessing is right in 25 %.
SCREEN
sed -n '/^accuracy/q; p' "$work/recall.txt"
cat <<SCREEN

2. A language model learns to write like $about: $(of steps) steps on sequences of $seq tokens ($dtype).
   Choices left for the next piece of a word: $guess by frequency alone, $left after training.
   It goes on from "$prompt":
SCREEN
grep -v '^ *$' "$work/sample.txt" | cut -c 1-88 | head -5 | sed 's/^/      | /'
cat <<SCREEN
   Memory of a rank: $(mib "$(of predicted_bytes)") predicted, $(mib "$(of measured_bytes)") measured; one rank alone would need $(mib "$(of one_rank_bytes)").

curves      $shown/recall/curves.svg · $shown/run/loss.svg · $shown/run/loss_by_position.svg
model       $shown/run/model: Hugging Face tools load it as it is
checkpoint  ${out#"$root/"}/$(basename "$(of checkpoint)")
next        ${build#"$root/"}/longspan generate --model $shown/run/model --prompt "Return the" --tokens 100
            README.md: "What you can do"
SCREEN
line
