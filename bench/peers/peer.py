"""
What the scripts of the peers share: the numbers they work on, and the conversation with run.py.

A script gets its work as one JSON object, its only argument, does it twice or more to warm up, and then says one line
    {"ready": true, "check": [...], "resident": B, "peak": B, ...}
and from then on answers each line "go" with {"seconds": T}, until its input ends. check: a few numbers about the results, by which run.py sees
that all did the same work. resident: bytes in memory with everything loaded and tried on a small case, but nothing of the work there yet;
peak: the most ever until now. What the work itself takes is their difference.
"""
import json
import sys
import time

import numpy


def work():
    return json.loads(sys.argv[1])


def memory(field):
    """Bytes of a line of /proc/self/status: VmRSS, VmHWM."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def numbers(seed, n):
    """Pieces (begin, end, f32 in [-1, 1)) of n numbers, a hash of seed and index, as in serve.c; small, so that the peak is not theirs."""
    for begin in range(0, n, 1 << 20):
        end = min(begin + (1 << 20), n)
        x = numpy.arange(begin, end, dtype=numpy.uint32) + numpy.uint32(seed << 26)
        x *= numpy.uint32(0x9E3779B9)
        x ^= x >> numpy.uint32(15)
        x *= numpy.uint32(0x85EBCA6B)
        x ^= x >> numpy.uint32(13)
        yield begin, end, (x.astype(numpy.int64) - 2**31).astype(numpy.float32) * numpy.float32(2.0**-31)


def tokens(batch, seq, vocabulary):
    """i64[batch, seq] and the labels, the token that follows; as in step.c."""
    x = numpy.arange(batch * (seq + 1), dtype=numpy.uint32) * numpy.uint32(0x9E3779B9)
    x ^= x >> numpy.uint32(15)
    x = (x % numpy.uint32(vocabulary)).astype(numpy.int64).reshape(batch, seq + 1)
    return x[:, :-1].copy(), x[:, 1:].copy()


def say(**what):
    print(json.dumps(what), flush=True)


def serve(run, resident, check, **more):
    """run(): once through the work, complete when it returns. check(): the numbers of the last run."""
    run()
    run()
    peak = memory("VmHWM")
    say(ready=True, check=[float(c) for c in check()], resident=resident, peak=peak, **more)
    for line in sys.stdin:
        if line.strip() != "go":
            break
        start = time.perf_counter()
        run()
        say(seconds=time.perf_counter() - start)
