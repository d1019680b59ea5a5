"""Modules of PyTorch: imports, each checked against the module itself, and refusals with the user's line."""
import json
import logging
import math
import os
import tempfile
import unittest

import support  # noqa: F401  the package's path
from longspan import Refused

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    import longspan.torch
    from longspan.torch_export import compare, lower
except ImportError as error:
    print(f"skipped: {__file__} needs torch ({error})")
    raise SystemExit(0)

logging.disable(logging.CRITICAL)
V, E, H = 61, 24, 4
COPIES = {"permute", "broadcast", "slice", "concat", "map", "reduce", "contract"}


def batch(sizes=(3, 20), **more):
    ids = torch.randint(1, V, sizes, generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "labels": ids.clone(), **more}


class Block(nn.Module):
    """As nanoGPT's (eager: as minGPT's)."""

    def __init__(self, eager, dropout=0.0):
        super().__init__()
        self.ln1, self.qkv, self.proj = nn.LayerNorm(E), nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.ln2, self.fc, self.out = nn.LayerNorm(E), nn.Linear(E, 4 * E), nn.Linear(4 * E, E)
        self.eager, self.drop = eager, nn.Dropout(dropout)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x):
        batch, tokens, width = x.size()
        q, k, v = (t.view(batch, tokens, H, width // H).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(E, dim=2))
        if self.eager:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :tokens, :tokens] == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.proj(y.transpose(1, 2).contiguous().view(batch, tokens, width)))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, eager=False, dropout=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, E), nn.Embedding(64, E)
        self.blocks = nn.ModuleList([Block(eager, dropout) for _ in range(2)])
        self.ln, self.head = nn.LayerNorm(E), nn.Linear(E, V, bias=False)
        self.wte.weight = self.head.weight

    def body(self, input_ids):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))

    def forward(self, input_ids, labels):
        logits = self.body(input_ids)
        return logits, F.cross_entropy(logits.view(-1, V), labels.view(-1), ignore_index=-1)


class Mixer(nn.Module):
    """A module without named ops: the token before, gates, sums of features."""

    def __init__(self):
        super().__init__()
        self.wte, self.mix, self.up, self.head = nn.Embedding(V, E), nn.Parameter(torch.rand(E)), nn.Linear(E, E), nn.Linear(E, V)
        self.register_buffer("scale", torch.tensor(1.5))

    def forward(self, input_ids, labels, weights):
        x = self.wte(input_ids) * self.scale
        before = F.pad(x, (0, 0, 1, -1))
        x = x * self.mix + before * (1 - self.mix)
        x = x + F.softplus(self.up(x)).view(*x.shape[:2], 4, 6).sum(2).repeat(1, 1, 4) * torch.sigmoid(x)
        each = F.cross_entropy(self.head(x)[:, :-1].reshape(-1, V), labels[:, 1:].reshape(-1), reduction="none")
        return each.sum() / (labels[:, 1:] != -100).sum()


class Imports(unittest.TestCase):
    def export(self, model, example, loss=None):
        with tempfile.TemporaryDirectory() as out:
            result = longspan.torch.export(model, example, out, loss)
            with open(os.path.join(out, "graph.json")) as file:
                return result, json.load(file)

    def test_nanogpt_in_both_forms_is_one_graph(self):
        torch.manual_seed(0)
        results = [self.export(GPT(eager), batch()) for eager in (False, True)]
        for result, described in results:
            self.assertEqual(result.checked.parameters, 28)
            self.assertFalse({n["op"] for n in described["nodes"]} & COPIES)
            self.assertEqual(described["parameters"][0]["also"], ["head.weight"])
            self.assertEqual(described["inputs"][1], {"name": "labels", "dtype": "i32", "is": "labels", "shift": 0})
            self.assertTrue(all(s["file"].endswith((".py")) for s in described["sources"]))
        self.assertEqual(results[0][0].graph.hash(), results[1][0].graph.hash())

    def test_a_loss_of_the_callers(self):
        model = GPT()
        result, described = self.export(_Logits(model), {"input_ids": batch()["input_ids"], "targets": batch()["labels"]},
                                        loss=lambda output, targets, **_: F.cross_entropy(output.flatten(0, 1), targets.flatten(), reduction="sum"))
        self.assertIsNone(described["mean_over"])
        self.assertIsNotNone(described["logits"])
        with self.assertRaises(Refused):
            self.export(_Logits(model), {"input_ids": batch()["input_ids"], "targets": batch()["labels"]})

    def test_general_ops(self):
        torch.manual_seed(0)
        result, described = self.export(Mixer(), batch(weights=torch.rand(3, 20)))
        ops = [n["op"] for n in described["nodes"]]
        self.assertIn("shift", ops)
        self.assertEqual(described["inputs"][1]["shift"], 1)

    def test_losses_of_several_terms(self):
        """Means over tokens, of features too, are the mean of one sum; what else is divided otherwise is refused."""
        for kind, over in [("aux", "tokens"), ("weighted", "tokens"), ("half", None), ("counted", None)]:
            with self.subTest(kind):
                torch.manual_seed(0)
                self.assertEqual(self.export(Losses(kind), batch())[1]["mean_over"], over)
        for kind, over in [("smooth", "labels"), ("log-softmax", "labels"), ("gathered", "tokens"), ("normaliser", "tokens")]:
            with self.subTest(kind):
                result, described = self.export(Losses(kind), batch())
                self.assertEqual(described["mean_over"], over)
                self.assertIn("cross_entropy", {n["op"] for n in described["nodes"]})
        for kind, words in [("mixed", "adds a mean over labels and a mean over tokens"), ("summed", "adds a mean over tokens and a sum"),
                            ("within", "depends on the size of the batch, 24.B.S")]:
            with self.subTest(kind), self.assertRaisesRegex(Refused, words):
                self.export(Losses(kind), batch())

    def test_layers_as_people_write_them(self):
        for layer in (activated, in_place, composed, normalised, turned, paired):
            with self.subTest(layer.__name__):
                torch.manual_seed(0)
                self.export(Tiny(layer), batch())

    def test_convolutions(self):
        """Causal and depth-wise: padded before, or on both sides and cut to the length, as Mamba and the delta rules do."""
        def before(model, x):
            return x + F.silu(F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), model.conv.weight, groups=E)).transpose(1, 2)

        def cut(model, x):
            return x + F.silu(model.conv(x.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))

        def cut_from_behind(model, x):
            return x + model.conv(x.transpose(1, 2))[:, :, :-3].transpose(1, 2)

        for layer in (before, cut, cut_from_behind):
            with self.subTest(layer.__name__):
                torch.manual_seed(0)
                _, described = self.export(Tiny(layer, conv=nn.Conv1d(E, E, 4, groups=E, padding=3)), batch())
                self.assertEqual(sorted(n["tokens"] for n in described["nodes"] if n["op"] == "shift"), [1, 2, 3])
        with self.assertRaisesRegex(Refused, "no convolution of each channel by itself"):
            self.export(Tiny(lambda model, x: model.conv(x.transpose(1, 2)).transpose(1, 2), conv=nn.Conv1d(E, E, 3, padding=1)), batch())

    def test_frozen_parameters(self):
        model = GPT()
        model.wpe.weight.requires_grad_(False)
        _, described = self.export(model, batch())
        self.assertEqual([p["name"] for p in described["parameters"] if p["frozen"]], ["wpe.weight"])

    def test_bf16(self):
        """Casts are kept where they are no part of a named op."""
        result, described = self.export(GPT().to(torch.bfloat16), batch())
        self.assertEqual(described["dtype"], "bf16")

    def test_the_check_finds_a_wrong_graph(self):
        model, example = GPT(), batch()
        graph = lower(model, example)
        next(n for n in graph.nodes if n.op == "attention").params["scale"] *= 1.01
        with self.assertRaises(Refused):
            compare(graph, model, example)


    def test_layers_that_fit_are_checked(self):
        from unittest import mock
        model, example = GPT(), batch()
        need = 4 * 8 * sum(p.numel() for p in model.parameters())
        with mock.patch("longspan.check.free_memory", return_value=int(1.5 * need)):
            checked = compare(lower(model, example), model, example)
        self.assertIn("the first 1 of 2 layers", str(checked))
        self.assertLess(checked.parameters, 28)
        self.assertEqual(len(model.blocks), 2)
        for share, words in ((8, "the first 1 of 2 layers, in f32"), (5, "without the gradients of what is around them, in f32")):
            with mock.patch("longspan.check.free_memory", return_value=int(need * share / 10)):
                checked = compare(lower(model, example), model, example)
            self.assertIn(words, str(checked))
            self.assertIn("not run: gradients in f64 do not fit", checked.program)
        self.assertLess(checked.parameters, 14)
        self.assertTrue(all(p.requires_grad for p in model.parameters()))
        with mock.patch("longspan.check.free_memory", return_value=need // 10), self.assertRaises(Refused):
            compare(lower(model, example), model, example)


class _Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, targets):
        return self.model.body(input_ids)


class Losses(nn.Module):
    """A loss of several terms."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.wte, self.fc, self.head = kind, nn.Embedding(V, E), nn.Linear(E, E), nn.Linear(E, V)

    def forward(self, input_ids, labels):
        x = torch.tanh(self.fc(self.wte(input_ids)))
        scores = self.head(x).flatten(0, 1)
        each, labels_mean = F.cross_entropy(scores, labels.flatten(), reduction="none"), F.cross_entropy(scores, labels.flatten())
        return {
            "aux": lambda: each.mean() + 0.01 * (x ** 2).mean(), "weighted": lambda: 0.7 * each.mean() - each.mean() / 5, "half": lambda: each.sum() * 0.5,
            "counted": lambda: each.sum() / (1 + (labels != -100).sum()) * 2, "mixed": lambda: labels_mean + 0.01 * (x ** 2).mean(),
            "summed": lambda: each.mean() + (x ** 2).sum(), "within": lambda: each.sum() * (x ** 2).mean(),
            "smooth": lambda: F.cross_entropy(scores, labels.flatten(), label_smoothing=0.1),
            "log-softmax": lambda: F.nll_loss(F.log_softmax(self.head(x), -1).flatten(0, 1), labels.flatten()),
            "gathered": lambda: -F.log_softmax(self.head(x), -1).gather(-1, labels.unsqueeze(-1)).squeeze(-1).mean(),
            "normaliser": lambda: each.mean() + 1e-3 * (torch.logsumexp(self.head(x), -1) ** 2).mean(),
        }[self.kind]()


class Tiny(nn.Module):
    """A model with one layer that a test gives."""

    def __init__(self, layer, **more):
        super().__init__()
        self.wte, self.head, self.layer = nn.Embedding(V, E), nn.Linear(E, V), layer
        for name, module in more.items():
            setattr(self, name, module)

    def forward(self, input_ids, labels):
        x = self.layer(self, self.wte(input_ids))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def activated(model, x):
    functions = (F.elu, F.selu, F.celu, F.leaky_relu, F.hardtanh, F.relu6, F.hardsigmoid, F.hardswish, F.mish, F.logsigmoid, F.softsign, F.softplus)
    return x + sum(f(3 * x) for f in functions) + torch.square(x)


def in_place(model, x):
    y = 2 * x
    y += x.tanh()
    y[..., :2].mul_(3)
    return y.mul_(x)


def composed(model, x):
    y, positive = torch.lerp(x, x * x, torch.sigmoid(x)) + F.glu(torch.cat((x, 2 * x), -1)), x * x + 0.1
    for f in (torch.expm1, torch.exp2, torch.erfc, torch.ceil, torch.sinh, torch.cosh):
        y = y + f(x)
    y = y + torch.log2(positive) + torch.log10(positive) + torch.logaddexp(x, positive) + torch.hypot(x, positive) + F.threshold(x, 0.1, 0.2)
    y = torch.addcdiv(torch.addcmul(y, x, x, value=0.5), x, positive)
    return (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1) * torch.var(x, -1, unbiased=False, keepdim=True)


def normalised(model, x):
    return F.normalize(x, dim=-1) + x / (1e-3 + torch.linalg.vector_norm(x, dim=-1, keepdim=True))


def angles(x):
    frequencies = 1 / 10000 ** (torch.arange(0, E // H, 2).float() / (E // H))
    return torch.outer(torch.arange(x.shape[1]).float(), frequencies)


def turned(model, x):
    """Rotary positions by halves, with frequencies that are computed where they are used."""
    q, both = x.view(*x.shape[:2], H, E // H).transpose(1, 2), torch.cat((angles(x), angles(x)), -1)
    half = torch.cat((-q[..., q.shape[-1] // 2:], q[..., :q.shape[-1] // 2]), -1)
    q = q * both.cos() + half * both.sin()
    return x + F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(2)


def paired(model, x):
    """Rotary positions of neighbouring pairs, stacked."""
    q, cos, sin = x.view(*x.shape[:2], H, E // H).transpose(1, 2), angles(x).cos(), angles(x).sin()
    even, odd = q[..., ::2], q[..., 1::2]
    q = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
    return x + F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(2)


def attend(x, mask):
    x = x.view(*x.shape[:2], H, E // H).transpose(1, 2)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask).transpose(1, 2).flatten(2)  # ACTIVATION


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))


def loop(model, x):
    state, outputs = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):  # LOOP
        state = 0.5 * state + x[:, t]
        outputs.append(state)
    return torch.stack(outputs, 1)


def unknown(model, x):
    return torch.fft.fft(x).real  # UNKNOWN


def square(model, x):
    return (x @ x.transpose(1, 2)).tanh() @ x  # SQUARE


def by_activation(model, x):
    keep = x.sum(-1) > 0
    return attend(x, keep[:, None, None, :] & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril())


def by_shape(model, x):
    return x[x.sum(-1) > 0].sum() + x  # DATA


def by_branch(model, x):
    if x.sum() > 0:  # BRANCH
        return x
    return -x


def biased(model, x):
    i = torch.arange(x.shape[1])
    return attend(x, model.bias((i[:, None] - i[None, :]).clamp(0, 7)).permute(2, 0, 1)[None])  # BIAS


def stateful(model, x):
    model.counter.seen.add_(1)
    return x


def tokens_cut(model, x):
    return torch.cat([x[:, 5:], x[:, :5]], 1)  # CUT


def pooled(model, x):
    return x + x.max(1, keepdim=True).values  # POOLED


def detached(model, x):
    return x + torch.tanh(x).detach()  # DETACHED


class Refusals(unittest.TestCase):
    def line(self, mark):
        with open(__file__) as file:
            return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith("# " + mark))

    def refused(self, model, words, mark=None, example=None):
        with self.assertRaises(Refused) as caught:
            lower(model, example or batch())
        refusal = caught.exception
        self.assertRegex(str(refusal), words)
        if mark:
            self.assertEqual((os.path.basename(refusal.file), refusal.line), (os.path.basename(__file__), self.line(mark)), str(refusal))
        return refusal

    def test_with_the_line(self):
        for layer, words, mark in [
            (unknown, r"aten\.\w+: this op is not known", "UNKNOWN"), (square, "S × S outside attention", "SQUARE"),
            (by_activation, "mask depends on", "ACTIVATION"), (by_shape, "depends on data", "DATA"), (by_branch, "depends on data", "BRANCH"),
            (tokens_cut, "only a shift", "CUT"), (pooled, "reduces along the sequence", "POOLED"), (detached, "stops a gradient", "DETACHED"),
            (loop, "loop over tokens", "LOOP"),
        ]:
            with self.subTest(mark):
                self.refused(Tiny(layer), words, mark)

    def test_masks_of_triangles(self):
        def ones(x):
            return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)

        def distance(x):
            i = torch.arange(x.shape[1])
            return i[:, None] - i

        window = [{"kind": "window", "window": 5, "first": 0}]
        for mask, expected in [(lambda x: ones(x).tril(), [{"kind": "causal"}]), (lambda x: ones(x).tril() & ones(x).triu(-4), window),
                               (lambda x: ones(x).tril() ^ ones(x).tril(-5), window), (lambda x: ones(x).tril().logical_xor(ones(x).tril(-5)), window),
                               (lambda x: torch.logical_xor(ones(x).float().tril(), ones(x).int().tril(-5)), window),
                               (lambda x: (distance(x) ** 2 < 5 * 5) & (distance(x) >= 0), window),
                               (lambda x: distance(x).clamp(min=0) == distance(x).abs(), [{"kind": "causal"}]), (lambda x: (distance(x).abs() < 5) & (distance(x) >= 0), window),
                               (lambda x: (ones(x).float().tril() - ones(x).float().tril(-5)).bool(), window)]:
            graph = lower(Tiny(lambda model, x: attend(x, mask(x))), batch())
            self.assertEqual([node.params["mask"] for node in graph.nodes if node.op == "attention"], [expected])
        for mask, words in [(lambda x: ones(x).tril(1), "sees 1 tokens ahead"), (lambda x: ones(x).tril(-1), "has the term q - k - 1 >= 0"),
                            (lambda x: distance(x).abs() < 5, "sees 4 tokens ahead")]:
            self.refused(Tiny(lambda model, x: attend(x, mask(x))), words)

    def test_a_learned_bias_of_positions(self):
        self.refused(Tiny(biased, bias=nn.Embedding(8, H)), "attention mask depends on|a bias, not a mask", None)

    def test_a_state(self):
        self.refused(Tiny(stateful, counter=Counter()), "it has a state")

    def test_autocast(self):
        """Refused where it is on; off, as in the rotations of some models, it is nothing."""
        def layer(on):
            def body(model, x):
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
                    return x + torch.sin(model.head(x)[..., :E])  # AUTOCAST
            return Tiny(body)

        self.assertEqual(self.refused(layer(True), "leave autocast away", "AUTOCAST").op, "torch.autocast")
        lower(layer(False), batch())
        with torch.autocast("cpu", dtype=torch.bfloat16), self.assertRaises(Refused) as caught:
            longspan.torch.export(layer(False), batch(), "never")  # AROUND
        self.assertEqual((caught.exception.op, caught.exception.line), ("torch.autocast", self.line("AROUND")))
        self.assertEqual(os.path.basename(caught.exception.file), os.path.basename(__file__))
        self.assertFalse(os.path.exists("never"))

    def test_dropout(self):
        self.assertEqual(self.refused(GPT(dropout=0.1).train(), "drops out with probability 0.1").op, "aten.dropout")
        lower(GPT(dropout=0.1).eval(), batch())

    def test_inputs_of_other_shapes(self):
        example = {"input_ids": torch.ones(2, 8, dtype=torch.long), "labels": torch.ones(2, 7, dtype=torch.long)}
        self.refused(GPT(), r"all inputs are \[batch, tokens\]", example=example)


if __name__ == "__main__":
    unittest.main()
