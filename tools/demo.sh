#!/bin/bash
# The demo behind `make demo`: fetches real text, trains a model on it with every sequence shared by two ranks, and lets it write.
# demo.sh BUILD. From the environment: DEMO_SECONDS (300) of training at most, DEMO_STEPS (40), DEMO_SEQ (16384), DEMO_RANKS (2).
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$build/demo
seconds=${DEMO_SECONDS:-300} steps=${DEMO_STEPS:-40} seq=${DEMO_SEQ:-16384} ranks=${DEMO_RANKS:-2}
mkdir -p "$work"
cd "$root"

# The text: the sources of Python's documentation, 11 MB in 497 files of which 16 have more than 100,000 characters. The package is
# unpacked into the build folder, not installed, so nobody's system changes and no root is needed.
package=python3.11-doc
text=$work/text/usr/share/doc/python3.11/html/_sources
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
    echo "demo: fetching the text (Debian package $package, 13 MB)"
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        echo "demo: this needs apt-get and dpkg-deb; elsewhere run: build/longspan train --help" >&2
        exit 1
    fi
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
out=$work/run
rm -rf "$out"
echo "demo: training a Llama of 4 layers, sequences of $seq tokens over $ranks ranks, $dtype, $steps steps or $seconds s"
"$build/longspan" train --model examples/demo/config.json --data "$text" --seq "$seq" --ranks "$ranks" \
    --steps "$steps" --max-seconds "$seconds" --lr 0.002 --warmup 2 --schedule cosine --dtype $dtype --out "$out"
echo
echo "what it writes after \"The following example shows\":"
"$build/longspan" generate --model examples/demo --checkpoint "$out" --prompt "The following example shows" --tokens 200 --temperature 0.7
echo
