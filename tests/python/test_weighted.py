"""Losses that are weighted means: the divisor is a sum of inputs, of which each rank has another part. Against PyTorch's own, and in a loop."""
import logging
import unittest

import support  # noqa: F401  the package's path
from longspan import Refused, program

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    import longspan.torch
    from longspan.torch_export import lower
    from support_torch import E, H, MESHES, V, spread
except ImportError as error:
    print(f"skipped: {__file__} needs torch ({error})")
    raise SystemExit(0)

logging.disable(logging.CRITICAL)


class GPT(nn.Module):
    def __init__(self, loss):
        super().__init__()
        torch.manual_seed(0)
        self.wte, self.head, self.qkv, self.out = nn.Embedding(V, E), nn.Linear(E, V), nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.loss = loss

    def forward(self, input_ids, labels, weights):
        x = self.wte(input_ids)
        q, k, v = (t.view(*x.shape[:2], H, E // H).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        return self.loss(self.head(x + self.out(y)), labels, weights)


def each(scores, labels):
    return F.cross_entropy(scores.transpose(1, 2), labels, reduction="none")


def mean(scores, labels, w):
    return (each(scores, labels) * w).sum() / w.sum()


def of_tokens_that_count(scores, labels, w):
    return (each(scores, labels) * w).sum() / (w * (labels != -100)).sum()


def at_least_one(scores, labels, w):
    return (w * each(scores, labels)).sum() / w.sum().clamp(min=1)


def with_epsilon(scores, labels, w):
    return (w * each(scores, labels)).sum() / (w.sum() + 1e-3)


def shifted(scores, labels, w):
    """As trainers of weighted tokens write it."""
    losses = F.cross_entropy(scores[:, :-1].reshape(-1, V), labels[:, 1:].reshape(-1), reduction="none")
    w = w[:, 1:].reshape(-1)
    return (losses * w).sum() / w.sum()


def not_shifted(scores, labels, w):
    losses = F.cross_entropy(scores[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
    return (losses * w[:, :-1]).sum() / w[:, :-1].sum()


def pairs(scores, labels, w):
    losses = F.cross_entropy(scores[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
    both = w[:, 1:] * w[:, :-1]
    return 2 * (losses * both).sum() / both.sum()


def of_part(scores, labels, w):
    """A sum of activations over the first tokens alone."""
    return mean(scores, labels, w) + 0.1 * (w[:, :-3] * scores[:, :-3].logsumexp(-1)).sum() / w.sum()


def batch(whole=False):
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(1, V, (3, 23), generator=random)
    labels = torch.randint(1, V, (3, 23), generator=random)
    labels[torch.rand(3, 23, generator=random) < 0.3] = -100
    weights = torch.rand(3, 23, generator=random) * torch.linspace(0.01, 2, 23)  # each rank's sum is another
    weights = (64 * weights).round() / 64  # of which sums in f32 are exact
    return {"input_ids": ids, "labels": labels, "weights": (weights > 0.3).long() if whole else weights}


class Weighted(unittest.TestCase):
    def test_each(self):
        forms = {mean: {"product": [{"input": "weights"}]}, of_tokens_that_count: {"product": [{"input": "weights"}], "labels": True},
                 at_least_one: {"product": [{"input": "weights"}], "least": 1.0}, with_epsilon: {"product": [{"input": "weights"}], "plus": 1e-3},
                 shifted: {"product": [{"input": "weights", "shift": 1}]}, not_shifted: {"product": [{"input": "weights", "shift": -1}]},
                 pairs: {"product": [{"input": "weights"}, {"input": "weights", "shift": 1}]}, of_part: {"product": [{"input": "weights"}]}}
        for loss, expected in forms.items():
            for whole in (False, True) if loss in (mean, pairs) else (False,):
                with self.subTest(loss.__name__, whole=whole):
                    given = batch(whole)
                    about = spread(self, GPT(loss), given, [given], meshes=MESHES if loss is mean else ("ring=3", "tp=2"))
                    self.assertEqual(about["mean_over"], expected)
                    self.assertNotIn("attention_mask", [i["name"] for i in about["inputs"]])

    def test_few_weights(self):
        """Of which the sum is less than the least; and without any, the loss is 0."""
        given = batch()
        given["weights"] = given["weights"] * 1e-3
        spread(self, GPT(at_least_one), batch(), [given], meshes=("ring=2",))
        given["weights"] = given["weights"] * 0
        if program.find():
            with longspan.compile(GPT(mean), batch(), optimizer=None, ranks=2) as ranks:
                self.assertEqual(ranks.step(given), 0.0)

    @unittest.skipIf(program.find() is None, "needs the program longspan")
    def test_a_loop(self):
        model = GPT(mean)
        theirs = torch.optim.SGD(model.parameters(), lr=0.5)
        with longspan.compile(model, batch(), optimizer="sgd", momentum=0, weight_decay=0, lr=0.5, mesh="ring=2") as ranks:
            for scale in (1.0, 0.1, 3.0):
                given = batch()
                given["weights"] = given["weights"] ** 2 * scale
                theirs.zero_grad()
                loss = model(**given)
                loss.backward()
                theirs.step()
                self.assertAlmostEqual(ranks.step(given), loss.item(), delta=1e-5)

    def test_refused(self):
        for loss, words in ((lambda scores, labels, w: mean(scores, labels, w) / scores.sum(), "divided by what is neither"),
                            (lambda scores, labels, w: mean(scores, labels, w) + each(scores, labels).mean(), "one number divides all of it"),
                            (lambda scores, labels, w: each(scores, labels).sum() / (w.sqrt()).sum(), "divided by what is neither"),
                            (lambda scores, labels, w: each(scores, labels).sum() / w.sum(), "a sum of weights, which it does not depend on otherwise")):
            with self.assertRaisesRegex(Refused, words) as caught:
                lower(GPT(loss), batch())
            self.assertGreater(caught.exception.line, 0)


if __name__ == "__main__":
    unittest.main()
