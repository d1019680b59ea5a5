"""A model that learns from a teacher's likeliest words, beside torch and TRL's functions, on several ranks; and what is refused."""
import tempfile
import unittest

import support  # noqa: F401  the package's path
import numpy
from longspan import program

try:
    import torch
    import torch.nn.functional as F
    import transformers
    import longspan
except ImportError as error:
    print(f"skipped: {__file__} needs torch and transformers ({error})")
    raise SystemExit(0)
try:
    from trl.experimental.server_distillation.server_distillation_trainer import _add_tail_bucket, _jsd_divergence
except ImportError:
    _add_tail_bucket = None

V, B, S, K = 97, 4, 24, 5


def divergence(logits, ids, logprobs, labels):
    """The mean over labels of Σ p (log p - log q) over the teacher's words, and all others as one."""
    there = ids >= 0
    q = logits.log_softmax(-1).gather(-1, ids.clamp(min=0))
    p = logprobs.exp() * there
    others_p, others_q = (1 - p.sum(-1)).clamp(min=1e-7), (1 - (q.exp() * there).sum(-1)).clamp(min=1e-7)
    each = (p * (logprobs - q)).where(there, 0).sum(-1) + others_p * (others_p.log() - others_q.log())
    return each[labels != -100].sum() / (labels != -100).sum()


def by_trl(logits, ids, logprobs, labels):
    there = torch.ones_like(ids, dtype=torch.bool)
    q, _ = _add_tail_bucket(logits.log_softmax(-1).gather(-1, ids), there)
    p, mask = _add_tail_bucket(logprobs, there)
    return _jsd_divergence(q, p, 0, mask).sum(-1)[labels != -100].sum() / (labels != -100).sum()


def make_batch(words=K):
    random = torch.Generator().manual_seed(4)
    teacher = (2 * torch.randn(B, S, V, generator=random, dtype=torch.float64)).log_softmax(-1)
    logprobs, ids = teacher.topk(words, -1)
    labels = torch.randint(0, V, (B, S), generator=random)
    labels[torch.rand(B, S, generator=random) < 0.4] = -100
    return {"input_ids": torch.randint(0, V, (B, S), generator=random), "labels": labels, "teacher_ids": ids, "teacher_logprobs": logprobs}


@unittest.skipIf(program.find() is None, "needs the program longspan")
class Teacher(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = cls.scratch.name
        torch.manual_seed(0)
        config = transformers.LlamaConfig(vocab_size=V, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                          max_position_embeddings=64, initializer_range=0.2, tie_word_embeddings=False)
        transformers.LlamaForCausalLM(config).save_pretrained(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def by_torch(self, batch, loss_of):
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float64)
        loss = loss_of(model(batch["input_ids"], use_cache=False).logits, batch["teacher_ids"], batch["teacher_logprobs"], batch["labels"])
        loss.backward()
        return loss.item(), {name: p.grad.numpy() for name, p in model.named_parameters()}

    def compare(self, batch, theirs, words=K, parts=1, **options):
        loss, gradients = theirs
        with longspan.compile(self.folder, batch, optimizer=None, teacher=words, **options) as ranks:
            given = batch if parts == 1 else [{name: x[i * B // parts : (i + 1) * B // parts] for name, x in batch.items()} for i in range(parts)]
            self.assertAlmostEqual(ranks.step(given), loss, delta=1e-6)
            found = ranks.gradients
        norm = lambda of: sum((of(name) ** 2).sum() for name in gradients) ** 0.5
        self.assertLess(norm(lambda name: found[name].astype("f8") - gradients[name]) / norm(lambda name: gradients[name]), 1e-5)

    def test_divergence(self):
        batch = make_batch()
        theirs = self.by_torch(batch, divergence)
        for options in ({"ranks": 1}, {"mesh": "ring=2"}, {"mesh": "ring=2,dp=2", "accumulate": 2, "parts": 2}, {"mesh": "tp=2"}, {"ranks": 2, "tile": "all"}):
            with self.subTest(**options):
                self.compare(batch, theirs, **options)

    def test_temperature(self):
        """Beside the loss of labels, with log-probabilities at a temperature at which the model's are taken too."""
        batch = make_batch()

        def mixed(logits, ids, logprobs, labels):
            hard = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
            return 0.6 * 2.5**2 * divergence(logits / 2.5, ids, logprobs, labels) + 0.4 * hard

        for options in ({"ranks": 1}, {"mesh": "ring=2,tp=2"}):
            self.compare(batch, self.by_torch(batch, mixed), distil_weight=0.6, distil_temperature=2.5, **options)

    @unittest.skipIf(_add_tail_bucket is None, "needs trl")
    def test_trl(self):
        for words in (1, K, 20):
            batch = make_batch(words)
            self.compare(batch, self.by_torch(batch, by_trl), words, ranks=2)

    def test_fewer_words(self):
        """A teacher may have fewer words for some tokens, and all of its probability on the given ones."""
        batch = make_batch()
        batch["teacher_ids"][::2, ::3, 2:] = -100
        batch["teacher_logprobs"][1, 1] = torch.log(torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625], dtype=torch.float64))
        self.compare(batch, self.by_torch(batch, divergence), ranks=2)

    def test_a_loop(self):
        batch = make_batch()
        with longspan.compile(self.folder, batch, optimizer="sgd", momentum=0, weight_decay=0, lr=0.3, teacher=K, mesh="ring=2") as ranks:
            losses = [ranks.step(batch) for _ in range(6)]
        self.assertLess(losses[-1], 0.9 * losses[0])
        self.assertGreater(losses[-1], 0)

    def test_refused(self):
        batch = make_batch()
        with longspan.compile(self.folder, batch, teacher=K) as ranks:
            with self.assertRaisesRegex(ValueError, "the batch needs teacher_ids, .batch, tokens, 5."):
                ranks.step({name: x for name, x in batch.items() if name != "teacher_ids"})
            with self.assertRaisesRegex(ValueError, "the batch needs teacher_logprobs.*it is .4, 24, 4."):
                ranks.step({**batch, "teacher_logprobs": batch["teacher_logprobs"][..., :4]})
            with self.assertRaisesRegex(longspan.Failed, "teacher_ids.1"):
                ranks.step({**batch, "teacher_ids": batch["teacher_ids"] + V * (torch.arange(K) == 1)})
        with self.assertRaisesRegex(longspan.Failed, "--weighted and --teacher"):
            longspan.compile(self.folder, batch, teacher=K, weighted=True)
        with self.assertRaisesRegex(longspan.Failed, "--distil-weight and --distil-temperature need --teacher"):
            longspan.compile(self.folder, batch, distil_weight=0.5)


if __name__ == "__main__":
    unittest.main()
