"""Padding masks: batches as trainers pass them, padded behind tokens or in front, on several ranks against PyTorch's own; and what is refused."""
import json
import logging
import math
import os
import tempfile
import unittest

import numpy

import support  # noqa: F401  the package's path
from longspan import Refused, batch, program


class Arrays(unittest.TestCase):
    """What a batch becomes for the program."""

    def folder(self, documents, shift=1):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        inputs = [{"name": "ids", "dtype": "i32"}, {"name": "labels", "dtype": "i32", "is": "labels", "shift": shift}]
        with open(os.path.join(place.name, "graph.json"), "w") as file:
            json.dump({"tokens": "ids", "inputs": inputs, "documents": documents}, file)
        return place.name

    def arrays(self, documents, mask, labels=None, **about):
        ids = numpy.arange(1, 7)[None]
        given = {"ids": ids, "labels": ids if labels is None else numpy.array([labels]), **({} if mask is None else {"mask": numpy.array([mask])})}
        return {flag: array.tolist() for flag, _, array in batch.arrays_of(self.folder(documents, **about), given)}

    def test_padding(self):
        padding = {"input": "mask", "is": "padding"}
        for mask in ([1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 0], [0] * 6, [1] * 6):
            self.assertEqual(self.arrays(padding, mask)["documents"], [mask])
        self.assertEqual(self.arrays(padding, None)["documents"], [[1] * 6])  # no padding
        with self.assertRaisesRegex(ValueError, "row 0 of mask has padding between tokens, at column 2"):
            self.arrays(padding, [1, 1, 0, 1, 1, 0])
        with self.assertRaisesRegex(ValueError, "row 0 of mask has 2, expected 1 and 0"):
            self.arrays(padding, [1, 1, 2, 1, 1, 1])
        with self.assertRaisesRegex(ValueError, r"the batch needs mask, \[1, 6\] as ids; it is \[1, 3\]"):
            self.arrays(padding, [1, 1, 1])

    def test_labels_of_padding_must_be_ignored(self):
        padding = {"input": "mask", "is": "padding", "ignored": True}
        behind, front = [1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]
        self.arrays(padding, behind, [1, 2, 3, 4, -100, -100])
        self.arrays(padding, front, [-100, -100, -100, 4, 5, 6])
        self.arrays(padding, front, [-100, -100, 3, 4, 5, 6], shift=0)
        for mask, labels, where in ((behind, [1, 2, 3, 4, -100, 6], "column 4"), (front, [-100, -100, 3, 4, 5, 6], "column 1")):
            with self.assertRaisesRegex(ValueError, f"row 0, {where}: mask says padding, but what it predicts, {labels[5] if mask is behind else 3}, counts"):
                self.arrays(padding, mask, labels)

    def test_numbers(self):
        numbers = {"input": "mask", "is": "numbers"}
        self.assertEqual(self.arrays(numbers, [7, 7, 2, 2, 9, 9])["documents"], [[7, 7, 2, 2, 9, 9]])
        with self.assertRaisesRegex(ValueError, "row 0 of mask has the document 1 in two places"):
            self.arrays(numbers, [1, 1, 2, 2, 1, 1])
        with self.assertRaisesRegex(ValueError, r"the batch needs mask, \[1, 6\] as ids"):
            self.arrays(numbers, None)


try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    import longspan.torch
    from longspan.torch_export import lower
    from support_torch import E, H, MESHES, V, spread
except ImportError as error:
    print(f"skipped: the modules of {__file__} need torch ({error})")
    torch = None
try:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import transformers
except ImportError as error:
    print(f"skipped: the models of {__file__} need transformers ({error})")
    transformers = None

logging.disable(logging.CRITICAL)


def padded(front, sizes=(3, 23), dtype=None):
    """Three sequences of different lengths, so that ranks have different numbers of labels; front: the padding stands in front."""
    ids = torch.randint(3, V, sizes, generator=torch.Generator().manual_seed(0))
    mask, labels = torch.ones_like(ids), ids.clone()
    for row, n in enumerate((0, 5, 17)[:sizes[0]]):
        hidden = slice(0, n) if front else slice(sizes[1] - n, sizes[1])
        mask[row, hidden], labels[row, hidden] = 0, -100
        if front and n:
            labels[row, n] = -100  # what the last token of padding predicts
    return {"input_ids": ids, "attention_mask": mask.to(dtype or ids.dtype), "labels": labels}


def weighted(model, scores, labels, mask):
    """The mean over the tokens that count, by the mask itself."""
    losses = F.cross_entropy(scores[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
    return (losses * mask[:, 1:] * mask[:, :-1]).sum()


def of_labels(model, scores, labels, mask):
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def of_all(model, scores, labels, mask):
    return scores.logsumexp(-1).square().mean()  # of padding too


if torch:
    class GPT(nn.Module):
        """One layer, with learned positions; the mask and the loss are functions."""

        def __init__(self, mask, loss=of_labels):
            super().__init__()
            torch.manual_seed(0)
            self.wte, self.wpe, self.head, self.qkv, self.out = nn.Embedding(V, E), nn.Embedding(64, E), nn.Linear(E, V), nn.Linear(E, 3 * E), nn.Linear(E, E)
            self.mask, self.loss = mask, loss

        def forward(self, input_ids, attention_mask, labels):
            x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
            q, k, v = (t.view(*x.shape[:2], H, E // H).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            y = self.mask(q, k, v, causal, attention_mask)
            return self.loss(self, self.head(x + self.out(y.transpose(1, 2).reshape(x.shape))), labels, attention_mask)


def called(q, k, v, causal, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal & mask[:, None, None].bool())


def above_zero(q, k, v, causal, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal & (mask[:, None, None] > 0) & (mask[:, None, :, None] == 1))


def added(q, k, v, causal, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
    scores = scores.masked_fill(~causal, float("-inf")) + (1 - mask[:, None, None].to(q.dtype)) * -1e9
    return scores.softmax(-1) @ v


def filled(q, k, v, causal, mask):
    scores = (q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])).masked_fill(~causal, float("-inf"))
    return scores.masked_fill(mask[:, None, None] == 0, float("-inf")).softmax(-1) @ v


def of_both_sides(q, k, v, causal, mask):
    """No causal bound: an encoder."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None].bool())


@unittest.skipIf(torch is None, "needs torch")
class Modules(unittest.TestCase):
    def test_masks(self):
        for mask in (called, above_zero, added, filled, of_both_sides):
            with self.subTest(mask.__name__):
                fronts = (False,) if mask in (filled, added) else (False, True)  # a row that sees nothing is NaN, or sees what follows it
                about = spread(self, GPT(mask), padded(False), [padded(front) for front in fronts], meshes=MESHES if mask is called else ("ring=2", "tp=4"))
                self.assertEqual(about["documents"], {"input": "attention_mask", "is": "padding", "ignored": True})
                self.assertNotIn("attention_mask", [i["name"] for i in about["inputs"]])

    def test_a_mask_of_truths(self):
        spread(self, GPT(called), padded(False, dtype=torch.bool), [padded(True, dtype=torch.bool)])

    def test_a_loss_that_is_weighted_by_the_mask(self):
        """Labels of padding need not be ignored then."""
        every = padded(True)
        every["labels"] = every["input_ids"]
        about = spread(self, GPT(called, weighted), every, [every])
        self.assertEqual(about["documents"], {"input": "attention_mask", "is": "padding"})
        self.assertIn({"name": "attention_mask", "dtype": "i32"}, about["inputs"])

    def test_a_batch_of_other_lengths_in_a_loop(self):
        if program.find() is None:
            self.skipTest("needs the program longspan")
        model = GPT(called)
        with longspan.compile(model, padded(False), optimizer=None, mesh="ring=2") as ranks:
            for front in (False, True, False):
                model.zero_grad()
                given = padded(front)
                self.assertAlmostEqual(ranks.step(given), model(**given).item(), delta=1e-5)
            with self.assertRaisesRegex(ValueError, "attention_mask says padding, but what it predicts"):
                ranks.step({**given, "labels": given["input_ids"]})

    def test_refused(self):
        def by_ids(q, k, v, causal, mask):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=causal & (mask[:, None, None] != 7))

        def on_the_diagonal(q, k, v, causal, mask):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=(causal & mask[:, None, None].bool()) | ~causal)

        for mask, words in ((by_ids, r"attention_mask\[k\] - 7"), (on_the_diagonal, "has the term")):
            with self.subTest(mask.__name__), self.assertRaisesRegex(Refused, words) as caught:
                lower(GPT(mask), padded(False))
            self.assertEqual(os.path.basename(caught.exception.file), os.path.basename(__file__))
        with tempfile.TemporaryDirectory() as out, self.assertRaisesRegex(Refused, "the loss depends on what is computed of padding"):
            longspan.torch.export(GPT(called, of_all), padded(False), out)

    @unittest.skipIf(transformers is None, "needs transformers")
    def test_models_of_transformers(self):
        import test_transformers
        for name, attention in (("Llama", "sdpa"), ("Mistral", "sdpa"), ("GPT-2", "eager"), ("Gemma 2", "eager")):
            with self.subTest(name):
                dtype, tolerance = ("f32", (1e-6, 1e-5)) if attention == "eager" else ("f64", (2e-7, 1e-6))
                about = spread(self, test_transformers.model(name, attention), padded(False), [padded(False), padded(True)], dtype, tolerance, MESHES if name == "Llama" else ("ring=4", "ulysses=2"))
                self.assertEqual(about["documents"], {"input": "attention_mask", "is": "padding", "ignored": True})


if __name__ == "__main__":
    unittest.main()
