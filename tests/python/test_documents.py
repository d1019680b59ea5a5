"""Modules that find documents in their tokens: masks of a running sum, on several ranks against PyTorch's own, in gradients and in `longspan eval`."""
import logging
import os
import re
import tempfile
import unittest

import support  # noqa: F401  the package's path
from longspan import Refused, program

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    import longspan.torch
    from longspan.torch_export import lower
    from support_torch import E, H, MESHES, spread
except ImportError as error:
    print(f"skipped: {__file__} needs torch ({error})")
    raise SystemExit(0)

logging.disable(logging.CRITICAL)
V, END = 256, 10


class GPT(nn.Module):
    """One layer with rotary or learned positions; `documents` gives the number of each token's document."""

    def __init__(self, documents):
        super().__init__()
        torch.manual_seed(0)
        self.wte, self.wpe, self.head, self.qkv, self.out = nn.Embedding(V, E), nn.Embedding(64, E), nn.Linear(E, V), nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.documents = documents

    def forward(self, input_ids, labels, **more):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        q, k, v = (t.view(*x.shape[:2], H, E // H).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        number = self.documents(input_ids, **more)
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        mask = causal & (number[:, :, None] == number[:, None, :])[:, None] if number.dim() == 2 else number
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        scores = self.head(x + self.out(y.transpose(1, 2).reshape(x.shape)))
        return F.cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def first(ids):
    return (ids == END).cumsum(-1)


def last(ids):
    return (ids == END).long().cumsum(-1) - (ids == END).long()


def moved(ids):
    return F.pad(torch.cumsum(ids == END, dim=1), (1, 0))[:, :-1]


def by_flags(ids, starts):
    return (starts == 1).cumsum(1)


def batch(sizes=(3, 23)):
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(11, V, sizes, generator=random)
    ids[torch.rand(sizes, generator=random) < 0.15] = END
    ids[2] = ids[2].clamp(min=11)  # one document
    return {"input_ids": ids, "labels": ids.clone()}


class Documents(unittest.TestCase):
    def test_marks(self):
        for documents, meaning in ((first, "first"), (last, "last"), (moved, "last")):
            with self.subTest(documents.__name__):
                about = spread(self, GPT(documents), batch(), [batch()], meshes=MESHES if documents is last else ("ring=2", "tp=2"))
                self.assertEqual(about["documents"], {"input": "input_ids", "is": meaning, "number": END})
                self.assertNotIn("cumsum", [node["op"] for node in about["nodes"]])

    def test_flags(self):
        flags = (torch.rand(3, 23, generator=torch.Generator().manual_seed(1)) < 0.2).long()
        about = spread(self, GPT(by_flags), {**batch(), "starts": flags}, [{**batch(), "starts": flags}])
        self.assertEqual(about["documents"], {"input": "starts", "is": "first", "number": 1})

    def test_numbers_beside_positions_of_the_sequence(self):
        numbers = torch.tensor([[i // 5 for i in range(23)], [i // 23 for i in range(23)], [i // 9 for i in range(23)]])
        spread(self, GPT(lambda ids, numbers: numbers), {**batch(), "numbers": numbers}, [{**batch(), "numbers": numbers}], meshes=("ring=3", "dp=3"))

    @unittest.skipIf(program.find() is None, "needs the program longspan")
    def test_eval_finds_them_too(self):
        """The text is one document of the program's; the module's are its lines."""
        with tempfile.TemporaryDirectory() as place:
            data = bytes(END if i % 17 == 3 or i % 40 == 39 else 32 + (i * i) % 90 for i in range(4 * 48 + 1))
            with open(os.path.join(place, "text.txt"), "wb") as file:
                file.write(data)
            model, out = GPT(last), os.path.join(place, "model")
            longspan.torch.export(model, batch(), out)
            ids = torch.tensor(list(data))
            rows = torch.stack([ids[48 * i:48 * i + 49] for i in range(4)])
            with torch.no_grad():  # labels of the program's go on into the next sequence
                x = model.wte(rows[:, :-1]) + model.wpe(torch.arange(48))
                q, k, v = (t.view(4, 48, H, E // H).transpose(1, 2) for t in model.qkv(x).chunk(3, -1))
                number = last(rows[:, :-1])
                mask = (torch.ones(48, 48, dtype=torch.bool).tril() & (number[:, :, None] == number[:, None, :]))[:, None]
                y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(x.shape)
                expected = F.cross_entropy(model.head(x + model.out(y)).flatten(0, 1), rows[:, 1:].flatten()).item()
            for mesh in ("ring=1", "ring=3", "dp=2"):
                lines = program.run(["eval", "--model", out, "--data", os.path.join(place, "text.txt"), "--seq", "48", "--batch", "2", "--mesh", mesh,
                                     "--ranks-as", "threads", "--threads", "1", "--json"])
                found = float(re.search(r'"loss": ([\d.]+)', "\n".join(lines)).group(1))
                self.assertAlmostEqual(found, expected, delta=2e-6, msg=mesh)
            result = longspan.train(out, os.path.join(place, "text.txt"), os.path.join(place, "run"), progress=None, seq=48, steps=2, ranks=2, batch=2, threads=1)
            self.assertEqual(result.steps, 2)
            with self.assertRaisesRegex(longspan.Failed, "finds documents in its tokens, at id 10.* expected --pack join"):
                longspan.train(out, os.path.join(place, "text.txt"), os.path.join(place, "other"), progress=None, seq=48, steps=1, pack="best")
            with self.assertRaisesRegex(longspan.Failed, "finds documents in its tokens, at id 10, and generation"):
                program.run(["generate", "--model", out, "--prompt", "a", "--tokens", "2"])

    def test_refused(self):
        for documents, words in ((lambda ids: (ids > END).cumsum(1), "has the term cumsum"),
                                 (lambda ids: first(ids) // 2, "computes div of cumsum"),
                                 (lambda ids: (first(ids)[:, :, None] >= first(ids)[:, None, :])[:, None], "has the term")):
            with self.assertRaisesRegex(Refused, words) as caught:
                lower(GPT(documents), batch())
            self.assertEqual(os.path.basename(caught.exception.file), os.path.basename(__file__))
            self.assertGreater(caught.exception.line, 0)


if __name__ == "__main__":
    unittest.main()
