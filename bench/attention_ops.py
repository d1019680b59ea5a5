#!/usr/bin/env python3
"""Attention as an op of PyTorch and of JAX beside their own, on the processor:

    LONGSPAN=build/longspan bench/attention_ops.py torch|jax [TOKENS ...]      default: 4096 8192 16384

Causal, 1 sequence, 4 heads of 64 (HEADS=N: as many), 2 threads; f32, with PyTorch bf16 too. One JSON object for each length and type:
forward, and forward with gradients, in milliseconds: medians of rounds in which both run, one after the other, for 50 ms at least; times: the
median of the rounds' ratios (own / Longspan's). On cores that others use too, threads of OpenMP that wait by spinning hold up PyTorch at short
lengths: OMP_WAIT_POLICY=passive.
"""
import json
import os
import pathlib
import sys
import time

HEADS = int(os.environ.get("HEADS", 4))
SIZE, THREADS, SECONDS, TURN = 64, 2, 20, 0.05

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))


def median(x):
    return sorted(x)[len(x) // 2]


def compare(calls):
    """Milliseconds of each call, and of how many times the second's time the first takes."""
    turns = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        turns.append(max(1, min(1000, int(TURN / (time.perf_counter() - start)))))
    rounds, began = [], time.perf_counter()
    while len(rounds) < 3 or (time.perf_counter() - began < SECONDS and len(rounds) < 1001):
        times = []
        for call, n in zip(calls, turns):
            start = time.perf_counter()
            for _ in range(n):
                call()
            times.append((time.perf_counter() - start) / n)
        rounds.append(times)
    own, longspan = (median(times) * 1e3 for times in zip(*rounds))
    return {"own_ms": round(own, 3), "longspan_ms": round(longspan, 3), "times": round(median([a / b for a, b in rounds]), 2), "rounds": len(rounds)}


def report(library, tokens, dtype, forward, gradients):
    about = {"library": library, "tokens": tokens, "dtype": dtype}
    for name, calls in (("forward", forward), ("with gradients", gradients)):
        print(json.dumps({**about, "what": name, **compare(calls)}), flush=True)


def with_torch(lengths):
    import torch
    import longspan.torch

    torch.set_num_threads(THREADS)

    def own(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def ours(q, k, v):
        return longspan.torch.attention(q, k, v, causal=True, ranks=1, threads=THREADS)

    def step(function, inputs, g):
        return torch.autograd.grad(function(*inputs), inputs, g)

    for tokens in lengths:
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v, g = (torch.randn(1, tokens, HEADS, SIZE, dtype=dtype).transpose(1, 2) for _ in range(4))
            inputs = [x.clone().requires_grad_() for x in (q, k, v)]
            report("torch " + torch.__version__, tokens, str(dtype), [lambda f=f: f(q, k, v) for f in (own, ours)],
                   [lambda f=f: step(f, inputs, g) for f in (own, ours)])  # fmt: skip


def with_jax(lengths):
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + f" --xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={THREADS}"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import longspan.jax

    def own(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    def ours(q, k, v):
        return longspan.jax.attention(q, k, v, causal=True, ranks=1, threads=THREADS)

    for tokens in lengths:
        q, k, v, g = jax.random.normal(jax.random.key(0), (4, 1, tokens, HEADS, SIZE))
        forward = [jax.jit(f) for f in (own, ours)]
        gradients = [jax.jit(jax.grad(lambda q, k, v, f=f: (f(q, k, v) * g).sum(), (0, 1, 2))) for f in (own, ours)]
        report("jax " + jax.__version__, tokens, "float32", [lambda f=f: jax.block_until_ready(f(q, k, v)) for f in forward],
               [lambda f=f: jax.block_until_ready(f(q, k, v)) for f in gradients])  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("torch", "jax"):
        sys.exit(__doc__)
    lengths = [int(word) for word in sys.argv[2:]] or [4096, 8192, 16384]
    (with_torch if sys.argv[1] == "torch" else with_jax)(lengths)
