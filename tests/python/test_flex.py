"""flex_attention of PyTorch: masks and soft-caps that are Longspan's, compared with PyTorch's own way to call the functions; others refused."""
import os
import tempfile
import unittest

import support  # noqa: F401  the package's path
from longspan import Refused

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention, or_masks
except ImportError as error:
    print(f"skipped: {__file__} needs torch with flex_attention ({error})")
    raise SystemExit(0)

import longspan.torch
from longspan.torch_export import lower
from support_torch import spread

V, E, H = 61, 24, 4


def causal(b, h, q, k):
    return q >= k


def near(b, h, q, k):
    return q - k < 5


class Model(nn.Module):
    def __init__(self, mask=None, score=None, **options):
        super().__init__()
        self.wte, self.head, self.qkv = nn.Embedding(V, E), nn.Linear(E, V, bias=False), nn.Linear(E, 2 * E)
        self.mask, self.score, self.options = mask, score, options

    def forward(self, input_ids, labels, documents=None):
        x = self.wte(input_ids)
        q, k, v = (t.unflatten(2, (-1, E // H)).transpose(1, 2) for t in self.qkv(x).split([E, E // 2, E // 2], -1))
        n, mask = x.shape[1], self.mask(documents) if documents is not None else self.mask
        block_mask = mask and create_block_mask(mask, None, None, n, n, device=x.device)
        y = flex_attention(q, k, v, score_mod=self.score, block_mask=block_mask, enable_gqa=True, **self.options)
        return F.cross_entropy(self.head(x + y.transpose(1, 2).flatten(2)).flatten(0, 1), labels.flatten())


class WrittenOut(Model):
    """The same by its formula: PyTorch's own has no gradient on the CPU."""

    def forward(self, input_ids, labels, documents=None):
        x = self.wte(input_ids)
        q, k, v = (t.unflatten(2, (-1, E // H)).transpose(1, 2) for t in self.qkv(x).split([E, E // 2, E // 2], -1))
        n, mask = x.shape[1], self.mask(documents) if documents is not None else self.mask
        scores = q @ k.repeat_interleave(2, 1).transpose(2, 3) / (E // H) ** 0.5
        scores = scores if self.score is None else self.score(scores, None, None, None, None)
        at, sequence = torch.arange(n), torch.arange(len(x)).view(-1, 1, 1, 1)
        scores = scores.masked_fill(~mask(sequence, None, at.view(1, 1, n, 1), at.view(1, 1, 1, n)), -torch.inf)
        y = scores.softmax(-1) @ v.repeat_interleave(2, 1)
        return F.cross_entropy(self.head(x + y.transpose(1, 2).flatten(2)).flatten(0, 1), labels.flatten())


def batch(**more):
    ids = torch.randint(1, V, (2, 20), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "labels": ids, **more}


class Flex(unittest.TestCase):
    def exported(self, model, example, mask, softcap=None):
        """The export compares the loss and every gradient."""
        with tempfile.TemporaryDirectory() as place:
            graph = longspan.torch.export(model, example, os.path.join(place, "model")).graph
        found = [(node.params["mask"], node.params.get("softcap")) for node in graph.nodes if node.op == "attention"]
        self.assertEqual(found, [(mask, softcap)])

    def test_masks(self):
        torch.manual_seed(0)
        self.exported(Model(causal), batch(), [{"kind": "causal"}])
        self.exported(Model(and_masks(causal, near)), batch(), [{"kind": "window", "window": 5, "first": 0}])
        self.exported(Model(or_masks(causal, lambda b, h, q, k: k < 3)), batch(), [{"kind": "prefix", "first": 3}])
        self.exported(Model(), batch(), [])

    def test_documents(self):
        def inside(documents):
            return lambda b, h, q, k: (q >= k) & (documents[b, q] == documents[b, k])
        documents = (torch.arange(20) // 7).repeat(2, 1)
        self.exported(Model(inside), batch(documents=documents), [{"kind": "causal"}, {"kind": "documents"}])

    def test_scores(self):
        self.exported(Model(causal, lambda s, b, h, q, k: s), batch(), [{"kind": "causal"}])
        self.exported(Model(causal, lambda s, b, h, q, k: 20 * torch.tanh(s / 20)), batch(), [{"kind": "causal"}], 20.0)

    def test_on_ranks(self):
        """Loss and every gradient on 1, 2 and 3 ranks: 20 tokens do not divide by 3."""
        def inside(documents):
            return lambda b, h, q, k: (q >= k) & (documents[b, q] == documents[b, k])
        documents = (torch.arange(20) // 7).repeat(2, 1)
        for mask, score, given in [(and_masks(causal, near), None, batch()),
                                   (or_masks(causal, lambda b, h, q, k: k < 3), lambda s, b, h, q, k: 2 * torch.tanh(s / 2), batch()),
                                   (inside, None, batch(documents=documents))]:
            spread(self, Model(mask, score), given, [given], meshes=("ring=1", "ring=2", "ring=3", "ulysses=2", "dp=2"), reference=WrittenOut(mask, score))

    def test_refused(self):
        def distance(s, b, h, q, k):
            return s + (k - q) * 0.5

        for model, words in [(Model(causal, distance), "a bias, not a mask"), (Model(lambda b, h, q, k: (q - k) % 2 == 0), "depends on mod"),
                             (Model(lambda b, h, q, k: q > k), "has the term"), (Model(causal, return_lse=True), "return_lse")]:
            with self.assertRaises(Refused) as caught:
                lower(model, batch())
            self.assertIn(words, str(caught.exception))
            self.assertTrue(caught.exception.op)
            self.assertEqual(os.path.basename(caught.exception.file or ""), os.path.basename(__file__), str(caught.exception))

    def test_pytorchs_own_is_back(self):
        lower(Model(causal), batch())
        q = torch.randn(1, 2, 16, 8)
        mask = create_block_mask(causal, None, None, 16, 16, device="cpu")
        self.assertEqual(type(mask).__name__, "BlockMask")
        torch.testing.assert_close(flex_attention(q, q, q, block_mask=mask), F.scaled_dot_product_attention(q, q, q, is_causal=True))


if __name__ == "__main__":
    unittest.main()
