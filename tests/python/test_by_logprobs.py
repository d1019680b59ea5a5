"""Losses of the caller's, by log-probabilities: those of examples/grpo beside the same formulas in torch, on several ranks; and what is refused."""
import importlib.util
import pathlib
import tempfile
import unittest

import support  # noqa: F401  the package's path
import numpy
from longspan import program

try:
    import torch
    import transformers
    import longspan
except ImportError as error:
    print(f"skipped: {__file__} needs torch and transformers ({error})")
    raise SystemExit(0)

place = pathlib.Path(__file__).resolve().parents[2] / "examples" / "grpo" / "grpo.py"
spec = importlib.util.spec_from_file_location("grpo", place)
grpo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(grpo)


@unittest.skipIf(program.find() is None, "needs the program longspan")
class ByLogprobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = cls.scratch.name
        torch.manual_seed(0)
        config = transformers.LlamaConfig(vocab_size=208, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                          max_position_embeddings=64, initializer_range=0.2, tie_word_embeddings=False)
        transformers.LlamaForCausalLM(config).save_pretrained(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_losses(self):
        for kind in ("grpo", "dapo", "dr_grpo", "gspo"):
            for options in ({"ranks": 1}, {"mesh": "ring=2,dp=2", "accumulate": 4}):
                with self.subTest(kind, **options):
                    loss, gradient = grpo.check(self.folder, kind, options)
                    self.assertLess(loss, 1e-6)
                    self.assertLess(gradient, 1e-5)

    def test_steps(self):
        """Plain gradient descent by the derivative of a sum of log-probabilities makes them larger, by about the square of the gradient."""
        batch, _ = grpo.make_batch(numpy.random.default_rng(1), 200)
        with longspan.compile(self.folder, batch, optimizer="sgd", momentum=0, weight_decay=0, lr=1e-4, weighted=True, mesh="tp=2") as ranks:
            before = ranks.logprobs(batch)
            self.assertEqual(before.shape, batch["labels"].shape)
            self.assertTrue(((before < 0) == (batch["labels"] != -100)).all())
            loss = ranks.step(batch, by_logprobs=-numpy.ones(before.shape))
            self.assertAlmostEqual(loss, -before.sum(), delta=1e-5 * abs(loss))
            gained = ranks.logprobs(batch).sum() - before.sum()
            self.assertAlmostEqual(gained, 1e-4 * ranks.grad_norm**2, delta=0.1 * gained)

    def test_refused(self):
        batch, _ = grpo.make_batch(numpy.random.default_rng(1), 200)
        with longspan.compile(self.folder, batch, weighted=True) as ranks:
            with self.assertRaisesRegex(ValueError, "weighted ranks need by_logprobs"):
                ranks.step(batch)
            with self.assertRaisesRegex(ValueError, "the batch needs weights"):
                ranks.step(batch, by_logprobs=numpy.ones((1, 3)))
        with longspan.compile(self.folder, batch) as ranks:
            with self.assertRaisesRegex(ValueError, "by_logprobs is for weighted ranks"):
                ranks.step(batch, by_logprobs=numpy.ones(batch["labels"].shape))
            with self.assertRaisesRegex(longspan.Failed, "expected it with --weighted"):
                ranks.logprobs(batch)


if __name__ == "__main__":
    unittest.main()
