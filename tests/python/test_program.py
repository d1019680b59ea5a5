"""What Python does with the program: trainings, gradients, steps on batches, against PyTorch's own; errors and Ctrl-C."""
import os
import pathlib
import signal
import tempfile
import threading
import time
import unittest

import numpy

import support  # noqa: F401  the package's path
import longspan
from longspan import program

if program.find() is None:
    print(f"skipped: {__file__} needs the program longspan (in PATH, or named by the variable LONGSPAN)")
    raise SystemExit(0)
try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as error:
    print(f"skipped: the modules of {__file__} need torch ({error})")
    torch = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "examples/tiny"
V, E, H = 61, 24, 4


class Program(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def train(self, **options):
        return longspan.train(TINY, ROOT / "README.md", self.place / "run", progress=None, **{"seq": 64, "steps": 3, "threads": 1, **options})

    def test_train(self):
        lines = []
        texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
        result = longspan.train(TINY, texts, self.place / "run", progress=lines.append, seq=64, steps=3, ranks=2,
                                group=["model.norm.*:lr=0.5", "lm_head.*:decay=0"])
        self.assertEqual(result.steps, 3)
        self.assertTrue(any("training 3/3" in line for line in lines))
        state = result.state_dict()
        self.assertIn("model.embed_tokens.weight", state)
        self.assertEqual(str(state["model.norm.weight"].dtype).split(".")[-1], "float32")

    def test_what_fails_has_the_programs_line(self):
        with self.assertRaisesRegex(longspan.Failed, 'strategy "rings" is not known'):
            self.train(strategy="rings")
        with self.assertRaisesRegex(longspan.Failed, "no-such-option"):
            self.train(no_such_option=1)
        with self.assertRaisesRegex(ValueError, "the batch needs input_ids"):
            longspan.grad(TINY, {"tokens": numpy.ones((1, 8), int)})
        with self.assertRaisesRegex(ValueError, "weights is no input of"):
            longspan.grad(TINY, {"input_ids": numpy.ones((1, 8), int), "weights": numpy.ones((1, 8))})

    def test_gradients_on_ranks_are_those_of_one(self):
        ids = numpy.random.default_rng(0).integers(0, 250, (2, 20))
        loss, gradients = longspan.grad(TINY, {"input_ids": ids}, dtype="f64")
        for mesh in ("ring=2", "tp=2", "ring=3"):
            found, others = longspan.grad(TINY, {"input_ids": ids}, dtype="f64", mesh=mesh)
            self.assertAlmostEqual(found, loss, delta=1e-8)  # as the program prints it
            for name, gradient in gradients.items():
                self.assertLess(numpy.abs(others[name] - gradient).max(), 1e-12)

    def test_ctrl_c_ends_a_training_with_a_checkpoint(self):
        """As from a notebook: the signal reaches Python alone."""
        started = threading.Event()
        main = threading.main_thread().ident

        def interrupt():
            started.wait(60)
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            longspan.train(TINY, ROOT / "README.md", self.place / "run", progress=lambda line: started.set() if "training" in line else None,
                           seq=64, steps=1000000, ranks=2, threads=1)
        thread.join()
        self.assertTrue(list((self.place / "run").glob("checkpoint-*")))
        self.assertIn("run.json", os.listdir(self.place / "run"))

    def test_steps_without_a_module(self):
        ids = numpy.random.default_rng(0).integers(0, 250, (2, 20))
        with longspan.compile(TINY, {"input_ids": ids}, ranks=2, lr=1e-2) as model:
            losses = [model.step({"input_ids": ids}) for _ in range(4)]
            state = model.state_dict()
            self.assertEqual(model.step_number, 4)
        self.assertLess(losses[-1], losses[0])
        self.assertIn("model.embed_tokens.weight", state)
        with self.assertRaisesRegex(longspan.Failed, "the ranks have ended"):
            model.step({"input_ids": ids})
        with longspan.compile(TINY, {"input_ids": ids}, optimizer=None) as model:
            self.assertAlmostEqual(model.step({"input_ids": ids}), losses[0], places=6)
            self.assertEqual(set(model.gradients), set(state))
            for spread in {"ranks": 1}, {"mesh": "pp=2"}:
                with longspan.compile(TINY, {"input_ids": ids}, optimizer=None, accumulate=2, **spread) as parts:
                    for _ in range(2):
                        self.assertAlmostEqual(parts.step({"input_ids": ids}), losses[0], places=6)
                        for name, gradient in parts.gradients.items():
                            numpy.testing.assert_allclose(gradient, model.gradients[name], rtol=1e-4, atol=1e-6)
            with self.assertRaisesRegex(longspan.Failed, r"shape is \[2,10\], expected \[2,20\]"):
                model.step({"input_ids": ids[:, :10]})

    def test_train_on_arrays(self):
        ids = numpy.random.default_rng(0).integers(0, 250, (6, 20))
        labels = numpy.concatenate([ids[:, 1:], numpy.full((6, 1), -100)], 1)
        options = {"batch": 2, "lr": lambda done: 1e-2 / (1 + done), "ranks": 2, "progress": None}
        whole = longspan.train(TINY, ids, self.place / "whole", steps=7, **options)
        self.assertEqual((whole.steps, len(whole.losses)), (7, 7))
        self.assertLess(whole.losses[6], whole.losses[0])
        self.assertEqual(longspan.train(TINY, {"input_ids": ids, "labels": labels}, self.place / "named", epochs=2, **options).losses, whole.losses[:6])
        part = longspan.train(TINY, ids, self.place / "part", steps=4, **options)  # interrupted within an epoch
        with self.assertRaisesRegex(longspan.Failed, "has a run; resume=True goes on from it"):
            longspan.train(TINY, ids, self.place / "part", steps=7, **options)
        rest = longspan.train(TINY, ids, self.place / "part", steps=7, resume=True, **options)
        self.assertEqual(part.losses + rest.losses, whole.losses)
        expected = whole.state_dict()
        for name, found in rest.state_dict().items():
            self.assertTrue((found == expected[name]).all(), name)
        for what, data, other in [("content", ids[::-1], {}), ("sequences", ids[:4], {}), ("batch", ids, {"batch": 3}), ("seed", ids, {"seed": 1})]:
            with self.assertRaisesRegex(longspan.Failed, f"part.arrays.json: {what} is .*; expected .*, that of this call"):
                longspan.train(TINY, data, self.place / "part", steps=8, resume=True, **{**options, **other})
        with self.assertRaisesRegex(longspan.Failed, 'state.json: optimizer is "adamw"; expected "lion", which goes on from it'):
            longspan.train(TINY, ids, self.place / "part", steps=8, resume=True, optimizer="lion", **options)
        with self.assertWarnsRegex(UserWarning, "state.json: beta1 is 0.9; from here on it is 0.8"):
            longspan.train(TINY, ids, self.place / "part", steps=8, resume=True, beta1=0.8, **options)
        with self.assertRaisesRegex(longspan.Failed, "is where the trained model goes"):
            longspan.train(self.place / "part/model", ids, self.place / "part", steps=8, **options)
        positions = numpy.tile(numpy.arange(20) % 10, (6, 1))  # two documents in each sequence
        packed = longspan.train(TINY, {"input_ids": ids, "position_ids": positions}, self.place / "packed", epochs=1, **options)
        self.assertNotEqual(packed.losses[0], whole.losses[0])
        with self.assertRaisesRegex(ValueError, r"the data has 6 sequences, expected 8 or more \(batch\)"):
            longspan.train(TINY, ids, self.place / "few", **{**options, "batch": 8})
        with self.assertRaisesRegex(ValueError, r"the batch needs labels, \[6, 20\] as input_ids; it is \[5, 20\]"):
            longspan.train(TINY, {"input_ids": ids, "labels": labels[:5]}, self.place / "unlike", **options)

    def test_micro_batches_are_a_batch(self):
        generator = numpy.random.default_rng(0)
        parts = [{"input_ids": generator.integers(0, 250, (2, 20))} for _ in range(3)]
        whole = {"input_ids": numpy.concatenate([part["input_ids"] for part in parts])}
        losses = []
        stages = {"mesh": "pp=2", "pipeline": "zero-bubble"}
        for accumulate, batch, spread in ((1, whole, {"ranks": 2}), (3, whole, {"mesh": "ring=2"}), (3, parts, {"mesh": "ring=2"}),
                                          (1, whole, stages), (3, parts, stages), (3, whole, {"mesh": "pp=2,ring=2", "shard": "parameters"})):
            with longspan.compile(TINY, whole, optimizer="sgd", dtype="f64", lr=1e-2, accumulate=accumulate, **spread) as model:
                losses.append([model.step(batch) for _ in range(3)])
        for others in losses[1:]:
            numpy.testing.assert_allclose(others, losses[0], rtol=1e-12)
        with self.assertRaisesRegex(longspan.Failed, "--batch 6 does not divide into --accumulate 4 micro-batches"):
            longspan.compile(TINY, whole, accumulate=4)
        with longspan.compile(TINY, whole, accumulate=3) as model, self.assertRaisesRegex(ValueError, "micro-batches need the same names"):
            model.step(parts[:2] + [{"labels": parts[0]["input_ids"]}])

    def test_a_resumed_loop_has_the_bits_of_one_that_was_not_interrupted(self):
        batches = [{"input_ids": numpy.random.default_rng(i).integers(0, 250, (2, 20))} for i in range(5)]
        options = {"ranks": 2, "accumulate": 2, "group": ["model.norm.*:lr=0.5", "model.embed_tokens.*:decay=0"]}
        with longspan.compile(TINY, batches[0], **options) as model:
            for batch in batches[:3]:
                model.step(batch)
            model.save(self.place / "run")
            losses = [model.step(batch, lr=2e-3) for batch in batches[3:]]
            expected = model.arrays()
        with longspan.compile(TINY, batches[0], **options) as model:
            self.assertEqual(model.resume(self.place / "run"), 3)
            self.assertEqual([model.step(batch, lr=2e-3) for batch in batches[3:]], losses)
            for name, found in model.arrays().items():
                self.assertTrue(numpy.array_equal(found, expected[name]), name)
            self.assertEqual(model.step_number, 5)
            with self.assertRaisesRegex(ValueError, "line break"):
                model.save("a\nb")
            with self.assertRaisesRegex(longspan.Failed, "no checkpoint in"):
                model.resume(self.place)
        with longspan.compile(TINY, batches[0], **{**options, "accumulate": 1}, optimizer="muon") as model:
            with self.assertRaisesRegex(longspan.Failed, 'state.json: optimizer is "adamw"; expected "muon", which goes on from it'):
                model.resume(self.place / "run")
        with longspan.compile(TINY, batches[0], optimizer=None) as model, self.assertRaisesRegex(longspan.Failed, "the weights are the caller's"):
            model.save(self.place / "other")

    def test_ctrl_c_ends_a_training_on_arrays_with_a_checkpoint(self):
        lines = []

        def progress(line):
            lines.append(line)
            if len(lines) == 2:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        ids = numpy.random.default_rng(0).integers(0, 250, (6, 20))
        with self.assertRaisesRegex(KeyboardInterrupt, "resume=True goes on"):
            longspan.train(TINY, ids, self.place / "run", progress=progress, steps=100000)
        self.assertEqual([p.name for p in (self.place / "run").glob("checkpoint-*")], [f"checkpoint-{len(lines):08}"])
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_ranks_end_with_their_owner(self):
        ids = numpy.ones((1, 8), int)
        model = longspan.compile(TINY, {"input_ids": ids}, ranks=2)
        model.process.stdin.close()
        begin = time.time()
        self.assertEqual(model.process.wait(20), 0)
        self.assertLess(time.time() - begin, 10)
        model.process.stdin = open(os.devnull, "w")
        model.close()


if torch:
    class GPT(nn.Module):
        def __init__(self, bias):
            super().__init__()
            self.wte, self.head = nn.Embedding(V, E), nn.Linear(E, V, bias=False)
            self.norm, self.qkv, self.out = nn.LayerNorm(E, bias=bias), nn.Linear(E, 3 * E, bias=bias), nn.Linear(E, E, bias=bias)

        def forward(self, input_ids, labels):
            x = self.wte(input_ids)
            q, k, v = (t.view(*x.shape[:2], H, E // H).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            return F.cross_entropy(self.head(x + self.out(y)).flatten(0, 1), labels.flatten())


@unittest.skipIf(torch is None, "needs torch")
class Torch(unittest.TestCase):
    def batches(self, n, sizes=(2, 20)):
        generator = torch.Generator().manual_seed(1)
        return [{name: torch.randint(1, V, sizes, generator=generator) for name in ("input_ids", "labels")} for _ in range(n)]

    def five(self, dtype, tolerance, bias, **spread):
        """Five steps of AdamW by the program and by PyTorch."""
        torch.manual_seed(0)
        model = GPT(bias).to(dtype)
        batches = self.batches(5)
        with longspan.compile(model, batches[0], lr=3e-3, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1,
                              dtype="f64" if dtype == torch.float64 else "f32", **spread) as ours:
            matrices, vectors = ([p for p in model.parameters() if (p.dim() > 1) == wanted] for wanted in (True, False))
            groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
            theirs = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.99))
            for batch in batches:
                found = ours.step(batch)
                theirs.zero_grad()
                loss = model(**batch)
                loss.backward()
                theirs.step()
                self.assertAlmostEqual(found, loss.item(), delta=tolerance)
            state = ours.state_dict()
        for name, p in model.named_parameters():
            self.assertLessEqual((state[name] - p).abs().max().item(), tolerance, name)
        # Back bit for bit.
        self.assertEqual(str(model.load_state_dict(state)), "<All keys matched successfully>")
        for name, p in model.named_parameters():
            self.assertTrue(torch.equal(p, state[name].to(p.dtype)), name)

    def test_five_steps_of_adamw(self):
        for spread in ({}, {"mesh": "ring=2"}, {"mesh": "tp=2"}, {"mesh": "ring=3"}):
            with self.subTest(**spread):
                self.five(torch.float32, 1e-5, False, **spread)

    def test_groups_and_micro_batches_are_those_of_pytorch(self):
        torch.manual_seed(0)
        model, batches = GPT(False).double(), self.batches(4, (4, 20))
        for i, batch in enumerate(batches):  # micro-batches with different numbers of labels
            batch["labels"][i % 4, 3:] = -100
        theirs = torch.optim.AdamW([{"params": model.wte.parameters(), "lr": 1.5e-3, "weight_decay": 0.3},
                                    {"params": [model.norm.weight, model.out.weight], "weight_decay": 0.0},
                                    {"params": [model.qkv.weight, model.head.weight]}], lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
        groups = ["wte.*:lr=0.5,decay=0.3", "out.*:decay=0"]
        with longspan.compile(model, batches[0], lr=3e-3, dtype="f64", mesh="ring=2", accumulate=2, group=groups) as ours:
            for batch in batches:
                theirs.zero_grad()
                loss = model(**batch)
                loss.backward()
                theirs.step()
                self.assertAlmostEqual(ours.step([{name: x[rows] for name, x in batch.items()} for rows in (slice(0, 2), slice(2, 4))]), loss.item(),
                                       delta=1e-10)
            state = ours.state_dict()
        for name, p in model.named_parameters():
            self.assertTrue(torch.allclose(state[name], p.float(), rtol=2e-7, atol=1e-9), name)  # state is in f32

    def test_gradients_for_an_optimiser_of_ones_own(self):
        torch.manual_seed(0)
        model, batches = GPT(True), self.batches(3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with longspan.compile(model, batches[0], optimizer=None, mesh="ring=2") as ours:
            for batch in batches:
                loss = model(**batch)
                expected = torch.autograd.grad(loss, list(model.parameters()))
                optimizer.zero_grad()
                self.assertAlmostEqual(ours.step(batch), loss.item(), delta=1e-5)
                for p, g in zip(model.parameters(), expected):
                    self.assertLessEqual((p.grad - g).abs().max().item(), 1e-5 * max(g.abs().max().item(), 1e-3))
                optimizer.step()  # the next gradients are those of other weights

    def test_train_a_module_on_tensors(self):
        torch.manual_seed(0)
        model, data = GPT(False), self.batches(1, (6, 20))[0]
        with tempfile.TemporaryDirectory() as place:
            result = longspan.train(model, data, os.path.join(place, "run"), progress=None, batch=6, steps=5, lr=1e-2, mesh="ring=2")
            self.assertAlmostEqual(result.losses[0], model(**data).item(), delta=1e-5)
            self.assertEqual(str(model.load_state_dict(result.state_dict())), "<All keys matched successfully>")
            self.assertLess(model(**data).item(), result.losses[-1])

    def test_train_a_module_and_load_it_back(self):
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as place:
            class Bytes(GPT):
                def __init__(self):
                    super().__init__(False)
                    self.wte, self.head = nn.Embedding(256, E), nn.Linear(E, 256, bias=False)

            model = Bytes()
            before = model.wte.weight.clone()
            result = longspan.train(model, ROOT / "README.md", os.path.join(place, "run"), example=self.batches(1)[0], progress=None, seq=64, steps=3)
            state = result.state_dict()
            self.assertEqual(str(model.load_state_dict(state)), "<All keys matched successfully>")
            self.assertTrue(torch.equal(model.wte.weight, state["wte.weight"]))
            self.assertFalse(torch.equal(model.wte.weight, before))


if __name__ == "__main__":
    unittest.main()
