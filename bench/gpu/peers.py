#!/usr/bin/env python3
"""PyTorch's attention, products and training steps on one GPU, at the shapes of bench/gpu.sh.

usage: peers.py attention|gemm|step [SEQ...]

One line for each measurement: what, milliseconds (median, by events on the stream), TFLOP/s. Of causal attention only
the pairs that the mask leaves count; a gradient counts as 2.5 times its forward pass.
"""
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

HEADS, KV_HEADS, HEAD, E, FEED, VOCABULARY, LAYERS = 32, 8, 128, 4096, 14336, 32000, 4
BF16 = {"device": "cuda", "dtype": torch.bfloat16}


def median_ms(run, rounds):
    """Milliseconds of a call: the median of some, after two that warm up."""
    times = []
    for i in range(rounds + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def report(what, ms, flops):
    print(f"torch {what:<58} {ms:10.3f} ms {flops / ms * 1e-9:9.1f} TFLOP/s", flush=True)


def attention(sizes):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for seq in sizes:
        q, k, v = (torch.randn(1, n, seq, HEAD, requires_grad=True, **BF16) for n in (HEADS, KV_HEADS, KV_HEADS))
        do = torch.randn(1, HEADS, seq, HEAD, **BF16)
        flops = 4 * HEADS * HEAD * seq * (seq + 1) / 2
        for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
            try:
                with sdpa_kernel(getattr(SDPBackend, name)):
                    def forward():
                        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                    ms = median_ms(forward, 5)
                    report(f"attention forward {name} S {seq}", ms, flops)
                    out = forward()
                    ms = median_ms(lambda: torch.autograd.grad(out, (q, k, v), do, retain_graph=True), 5)
                    report(f"attention backward {name} S {seq}", ms, 2.5 * flops)
            except RuntimeError as error:
                print(f"torch attention {name} S {seq}: {str(error).splitlines()[0]}")


def gemm(sizes):
    for seq in sizes:
        for n, k in ((E, E), (KV_HEADS * HEAD, E), (FEED, E), (E, FEED), (VOCABULARY, E)):
            x, w, dy = torch.randn(seq, k, **BF16), torch.randn(n, k, **BF16), torch.randn(seq, n, **BF16)
            for what, run in (("forward", lambda: x @ w.T), ("input gradient", lambda: dy @ w), ("weight gradient", lambda: dy.T @ x)):
                report(f"product {what} {seq} x {n} x {k}", median_ms(run, 7), 2.0 * seq * n * k)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.RMSNorm(E, eps=1e-5, **BF16) for _ in range(2)])
        sizes = {"q": (E, HEADS * HEAD), "k": (E, KV_HEADS * HEAD), "v": (E, KV_HEADS * HEAD), "o": (HEADS * HEAD, E),
                 "gate": (E, FEED), "up": (E, FEED), "down": (FEED, E)}
        self.of = torch.nn.ModuleDict({n: torch.nn.Linear(*s, bias=False, **BF16) for n, s in sizes.items()})

    def forward(self, x, cos, sin):
        h = self.norms[0](x)
        q, k, v = (self.of[n](h).unflatten(-1, (-1, HEAD)).transpose(1, 2) for n in "qkv")
        q, k = (t * cos + torch.cat((-t[..., HEAD // 2:], t[..., :HEAD // 2]), -1) * sin for t in (q, k))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.of["o"](o.transpose(1, 2).flatten(-2))
        h = self.norms[1](x)
        return x + self.of["down"](F.silu(self.of["gate"](h)) * self.of["up"](h))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, E, **BF16)
        self.layers = torch.nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = torch.nn.RMSNorm(E, eps=1e-5, **BF16)
        self.head = torch.nn.Linear(E, VOCABULARY, bias=False, **BF16)

    def loss_of(self, h, labels):
        return F.cross_entropy(self.head(h).float().flatten(0, 1), labels.flatten(), reduction="sum")

    def forward(self, tokens, recompute):
        seq = tokens.shape[1]
        angles = torch.outer(torch.arange(seq, device="cuda"), 500000.0 ** -(torch.arange(0, HEAD, 2, device="cuda") / HEAD))
        cos, sin = (t.to(torch.bfloat16) for t in (torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()))
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, cos, sin, use_reentrant=False) if recompute else layer(x, cos, sin)
        x, labels = self.norm(x), torch.roll(tokens, -1, 1)
        parts = [checkpoint(self.loss_of, h, l, use_reentrant=False) for h, l in zip(x.split(8192, 1), labels.split(8192, 1))]
        return sum(parts) / seq


def step(sizes):
    model = Model()
    # Weights and moments in f32 beside bf16 ones, as Longspan has them, are 18 bytes a parameter; this optimiser has 8.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    products = LAYERS * (2 * E * HEADS * HEAD + 2 * E * KV_HEADS * HEAD + 3 * E * FEED) + E * VOCABULARY
    for seq in sizes:
        for recompute in (False, True):
            torch.cuda.reset_peak_memory_stats()
            tokens = torch.randint(VOCABULARY, (1, seq), device="cuda")

            def run():
                model(tokens, recompute).backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            flops = 6 * products * seq + 3.5 * LAYERS * 4 * HEADS * HEAD * seq * (seq + 1) / 2
            try:
                report(f"step of 4 layers of an 8B S {seq}{' recompute' if recompute else ''}", median_ms(run, 3), flops)
                print(f"torch peak of memory {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)
            except torch.OutOfMemoryError:
                print(f"torch step S {seq}{' recompute' if recompute else ''}: out of memory")
                optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()


def main():
    what = {"attention": attention, "gemm": gemm, "step": step}
    if len(sys.argv) < 2 or sys.argv[1] not in what:
        sys.exit(__doc__)
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}")
    what[sys.argv[1]]([int(size) for size in sys.argv[2:]] or [8192])


main()
