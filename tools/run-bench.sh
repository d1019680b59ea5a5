#!/bin/bash
# Runs the benchmarks of a build folder: each prints one JSON object per line, kept in BUILD/bench/NAME.jsonl and shown as a table.
# run-bench.sh BUILD [WORD]: only those with WORD in the name.
set -eu
build=$1 word=${2:-}
table() { # JSON objects with the same fields, as columns; text between quotes and numbers as they are
    sed -E 's/[{}"]//g; s/, */|/g' | awk -F'|' '
        { head = ""; row = ""
          for (i = 1; i <= NF; i++) { split($i, kv, /: */); head = head sprintf("%-18s", kv[1]); row = row sprintf("%-18s", kv[2]) }
          if (head != last) print "  " head; last = head; print "  " row; fflush() }'
}
for program in "$build"/bench/*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    name=$(basename "$program")
    case $name in *"$word"*) ;; *) continue ;; esac
    echo "$name"
    "$program" | tee "$program.jsonl" | table
done
case attention_mpi in *"$word"*) # built only where there is an MPI compiler
    [ -x "$build/bench/attention_mpi" ] ||
        echo "attention_mpi: left out, CMake found no MPI compiler (on Debian: apt-get install libopenmpi-dev, then cmake $build)" ;;
esac
echo "kept in $build/bench/*.jsonl"
