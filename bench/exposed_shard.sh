#!/bin/bash
# What of a delay of every put a training step waits for, where parameters are cut over 2 ranks and where the optimiser's state alone is:
#     bench/exposed_shard.sh BUILD [awake|asleep [STEPS [SEQ [SECONDS [CONFIG]]]]]
# Runs build/bench/exposed: STEPS (5) steps of SEQ (2048) tokens in f32, on ring=2 and dp=2, each --shard without a delay and with SECONDS (0.005) from
# each put to its signal, in turn. asleep (the default): kernels sleep for their nominal time, for a machine with other work. A line for each: medians of
# the step's seconds and of what a rank waits for the other, the puts of a rank in a step and SECONDS for each of these, and how much of that is
# hidden: what neither the waits nor the step are longer by. CONFIG: a model, bench/models/100m when left out.
set -u
build=$(cd "$1" && pwd) kernels=${2:-asleep} steps=${3:-5} seq=${4:-2048} seconds=${5:-0.005}
config=${6:-$(dirname "$0")/models/100m/config.json}
for mesh in ring dp; do
    for shard in optimizer parameters; do
        for delay in 0 "$seconds"; do "$build/bench/exposed" "$config" "$seq" $mesh 2 chaos:1:$delay "$steps" "$kernels" $shard || exit 1; done
    done
done | python3 -c '
import json, sys
delay, lines = float(sys.argv[1]), [json.loads(line) for line in sys.stdin]
print("mesh    shard         seconds  delayed  waiting  delayed   puts  injected  hidden: of waits  of steps")
for plain, late in zip(lines[::2], lines[1::2]):
    step, wait = ([of["step_seconds"] * share(of) for of in (plain, late)] for share in (lambda of: 1, lambda of: of["waiting"]))
    injected = delay * plain["puts"]
    hidden = [1 - (after - before) / injected for before, after in (wait, step)]
    print("%-7s %-12s %8.3f %8.3f %8.3f %8.3f %6d %9.3f %17.1f%% %8.1f%%" %
          (plain["mesh"], plain["shard"], *step, *wait, plain["puts"], injected, 100 * hidden[0], 100 * hidden[1]))
' "$seconds"
