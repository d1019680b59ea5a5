"""
Training steps of Llama or GPT-2 in PyTorch on the CPU, as a PyTorch user has them: modules with f32 weights, autocast to bf16 where the work
says bf16, scaled_dot_product_attention, fused AdamW, gradients clipped. variant "eager" or "compiled" (torch.compile).
"""
import contextlib
import math

import peer
import torch
from torch import nn
from torch.nn import functional as F

torch.set_flush_denormal(True)


def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] != q.shape[1])


class LlamaBlock(nn.Module):
    def __init__(self, w):
        super().__init__()
        E, self.D = w["E"], w["E"] // w["Hq"]
        self.norm1, self.norm2 = nn.RMSNorm(E, 1e-5), nn.RMSNorm(E, 1e-5)
        self.q, self.o = nn.Linear(E, E, bias=False), nn.Linear(E, E, bias=False)
        self.k, self.v = (nn.Linear(E, w["Hkv"] * self.D, bias=False) for _ in "kv")
        self.gate, self.up = (nn.Linear(E, w["F"], bias=False) for _ in "gu")
        self.down = nn.Linear(w["F"], E, bias=False)

    def rotate(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x, cos, sin):
        B, S, E = x.shape
        y = self.norm1(x)
        q, k, v = (p(y).view(B, S, -1, self.D).transpose(1, 2) for p in (self.q, self.k, self.v))
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        x = x + self.o(attend(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v).transpose(1, 2).reshape(B, S, E))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, w):
        super().__init__()
        D = w["E"] // w["Hq"]
        self.embedding, self.head = nn.Embedding(w["V"], w["E"]), nn.Linear(w["E"], w["V"], bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(w) for _ in range(w["L"]))
        self.norm = nn.RMSNorm(w["E"], 1e-5)
        angle = torch.outer(torch.arange(w["S"]), 500000.0 ** (-torch.arange(0, D, 2) / D))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


class Gpt2Block(nn.Module):
    def __init__(self, w):
        super().__init__()
        E, self.D = w["E"], w["E"] // w["Hq"]
        self.norm1, self.norm2 = nn.LayerNorm(E), nn.LayerNorm(E)
        self.qkv, self.o = nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.up, self.down = nn.Linear(E, w["F"]), nn.Linear(w["F"], E)

    def forward(self, x):
        B, S, E = x.shape
        q, k, v = (p.view(B, S, -1, self.D).transpose(1, 2) for p in self.qkv(self.norm1(x)).split(E, 2))
        x = x + self.o(attend(q, k, v).transpose(1, 2).reshape(B, S, E))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(w["V"], w["E"]), nn.Embedding(w["S"], w["E"])
        self.blocks = nn.ModuleList(Gpt2Block(w) for _ in range(w["L"]))
        self.norm = nn.LayerNorm(w["E"])

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight)


def initialise(model):
    for name, p in model.named_parameters():
        if p.ndim > 1:
            nn.init.normal_(p, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(p)


def main():
    w = peer.work()
    torch.set_num_threads(w["threads"])
    torch.manual_seed(1)
    torch.linspace(0, 1, 1000).reshape(1, -1).mm(torch.ones(1000, 1))  # threads and libraries are there
    resident = peer.memory("VmRSS")
    model = {"llama": Llama, "gpt2": Gpt2}[w["model"]](w)
    initialise(model)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    tokens, labels = (torch.from_numpy(x) for x in peer.tokens(w["B"], w["S"], w["V"]))
    narrow = torch.autocast("cpu", torch.bfloat16) if w["dtype"] == "bf16" else contextlib.nullcontext()

    def loss_of(tokens, labels):
        with narrow:
            logits = model(tokens)
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())

    compute = torch.compile(loss_of) if w["variant"] == "compiled" else loss_of
    losses = []

    def run():
        loss = compute(tokens, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())

    peer.serve(run, resident, lambda: [losses[0], losses[1]])
    if not math.isfinite(losses[-1]):
        raise SystemExit("the loss is not finite")


main()
