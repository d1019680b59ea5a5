"""Modules of PyTorch on several ranks: loss and every gradient in f64 against PyTorch's own, along every axis, of lengths that do not divide."""
import logging
import math
import tempfile
import unittest

import support  # noqa: F401  the package's path
from longspan import program

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    import longspan.torch
    from longspan.torch_export import lower
except ImportError as error:
    print(f"skipped: {__file__} needs torch ({error})")
    raise SystemExit(0)
if program.find() is None:
    print(f"skipped: {__file__} needs the program longspan (in PATH, or named by the variable LONGSPAN)")
    raise SystemExit(0)

logging.disable(logging.CRITICAL)
V, E, H = 61, 32, 4
MESHES = ("ring=1", "ring=2", "ring=3", "ulysses=2", "tp=2", "tp=4", "dp=2", "ring=2,tp=2")


class Model(nn.Module):
    """One layer between a table and logits; the layer and the loss are functions of this module."""

    def __init__(self, layer, loss=None):
        super().__init__()
        torch.manual_seed(0)
        self.wte, self.head, self.qkv, self.out = nn.Embedding(V, E), nn.Linear(E, V), nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.up, self.down, self.norm, self.weight = nn.Linear(E, 2 * E), nn.Linear(2 * E, E), nn.LayerNorm(E), nn.Parameter(torch.rand(E) + 0.5)
        self.conv, self.attention = nn.Conv1d(E, E, 4, groups=E, padding=3), nn.MultiheadAttention(E, H, batch_first=True)
        self.layer, self.loss = layer, loss or (lambda model, scores, labels: F.cross_entropy(scores.flatten(0, 1), labels.flatten()))

    def forward(self, input_ids, labels):
        return self.loss(self, self.head(self.layer(self, self.wte(input_ids))), labels)


def heads(model, x):
    return [t.view(*x.shape[:2], H, E // H).transpose(1, 2) for t in model.qkv(x).chunk(3, -1)]


def attended(model, x, q, k, v):
    return x + model.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))


def pairs_that_rotate(model, x):
    q, k, v = heads(model, x)
    angles = torch.outer(torch.arange(x.shape[1]).float(), 1 / 100 ** (torch.arange(0, E // H, 2).float() / (E // H)))

    def rotated(t):
        even, odd = t[..., ::2], t[..., 1::2]
        return torch.stack((even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()), -1).flatten(-2)

    return attended(model, x, rotated(q), rotated(k), v)


def one_kv_head(model, x):
    q, k, v = heads(model, x)
    return attended(model, x, q, k[:, :1].expand(-1, H, -1, -1), v[:, :1].expand(-1, H, -1, -1))


def normalised_heads(model, x):
    q, k, v = heads(model, x)
    return attended(model, x, F.normalize(q, dim=-1) * 3, F.normalize(k, dim=-1), v)


def attention_of_torch(model, x):
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return x + model.attention(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]


def written_out(model, x):
    q, k, v = (t.transpose(1, 2) for t in heads(model, x))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(E // H)
    future = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
    return x + torch.einsum("bhqk,bkhd->bqhd", scores.masked_fill(future, float("-inf")).softmax(-1), v).flatten(2)


def wide_values(model, x):
    """Heads of values have twice the size of keys: by an op and written out."""
    (q, k, _), v = heads(model, x), model.up(x).view(*x.shape[:2], H, 2 * E // H).transpose(1, 2)
    x = x + model.down(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
    future = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
    weights = (q @ k.transpose(2, 3) * 0.3).masked_fill(future, float("-inf")).softmax(-1)
    return x + model.down((weights @ v).transpose(1, 2).flatten(2))


def convolved(model, x):
    return x + F.silu(model.conv(x.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))


def mixed_heads(model, x):
    return x + torch.einsum("bshd,hgd->bsgd", x.view(*x.shape[:2], H, E // H), model.out.weight.view(H, H, -1)[..., :E // H]).flatten(2)


def gated(model, x):
    return x + model.down(torch.relu(model.up(model.norm(x))) ** 2) * torch.sigmoid(x.mean(-1, keepdim=True) * model.weight + x.amax(-1, keepdim=True))


def two_of_four(model, x):
    """Four experts, of which each token has two: chosen by a router, and weighted."""
    weights, chosen = F.softmax(model.out(x)[..., :4], -1).topk(2, -1)
    weights = weights / weights.sum(-1, keepdim=True)
    return x + sum((weights * (chosen == i)).sum(-1, keepdim=True) * torch.tanh(model.qkv(x)[..., i * 8:i * 8 + E]) for i in range(4))


def picked(model, x):
    """Of four groups the two largest elements of each feature, and what another projection has there; in the end the largest of each."""
    groups, others = (model.qkv(x)[..., i:i + E].view(*x.shape[:2], 4, 8) for i in (0, E))
    largest, chosen = groups.transpose(2, 3).topk(2, -1)
    both = largest * torch.tanh(others.gather(2, chosen.transpose(2, 3)).transpose(2, 3))
    best = largest.gather(-1, both.topk(1, -1)[1]).expand(-1, -1, -1, 2)
    routed = groups.gather(2, model.out(x)[..., :4].topk(2, -1)[1][..., None].expand(-1, -1, -1, 8))  # whole groups
    return x + torch.cat((both.flatten(2), best.flatten(2)), -1) + routed.flatten(2).repeat(1, 1, 2)


def smoothed(model, scores, labels):
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), label_smoothing=0.1)


def two_terms(model, scores, labels):
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none").mean() + 1e-2 * (torch.logsumexp(scores, -1) ** 2).mean()


class Spreads(unittest.TestCase):
    def check(self, model):
        ids = torch.randint(1, V, (2, 20), generator=torch.Generator().manual_seed(1))
        example = {"input_ids": ids, "labels": ids.clone()}
        with tempfile.TemporaryDirectory() as out:
            longspan.torch.export(model, example, out)
            model.double().zero_grad()
            loss = model(**example)
            loss.backward()
            expected = {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
            for mesh in MESHES:
                if "ulysses" in mesh and not any(node.op == "attention" for node in lower(model, example).nodes):
                    continue  # nothing has heads
                with self.subTest(mesh):
                    ours, found = longspan.grad(out, {name: x.numpy() for name, x in example.items()}, mesh=mesh, dtype="f64", ranks_as="threads")
                    self.assertLessEqual(abs(ours - loss.item()), 1e-7 * loss.item())  # as many digits as are printed
                    for name, gradient in expected.items():
                        off = abs(found[name] - gradient).max()
                        self.assertLessEqual(off, 1e-6 * abs(gradient).max() + 1e-12, name)  # angles are in f32

    def test_each(self):
        for layer in (pairs_that_rotate, one_kv_head, normalised_heads, attention_of_torch, written_out, wide_values, convolved, mixed_heads,
                      two_of_four, picked, gated):
            with self.subTest(layer.__name__):
                self.check(Model(layer))
        for loss in (smoothed, two_terms):
            with self.subTest(loss.__name__):
                self.check(Model(gated, loss))


if __name__ == "__main__":
    unittest.main()
