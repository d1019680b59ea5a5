"""longspan::attention as an op of PyTorch: against scaled_dot_product_attention; gradients, torch.compile, transformers, refusals."""
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import types
import unittest
from unittest import mock

import support  # noqa: F401  the package's path
from longspan import program

try:
    program.library()
    import torch
    import longspan.torch
    from longspan import attention_calls, torch_attention
except (ImportError, OSError, program.Failed) as error:
    print(f"skipped: {__file__} needs torch and the library longspan ({error})")
    raise SystemExit(0)

try:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import transformers
except ImportError:
    transformers = None

attention = longspan.torch.attention
SPREADS = [{"ranks": 1}, {"ranks": 2, "strategy": "ring"}, {"ranks": 3, "strategy": "gather"}, {"ranks": 4, "strategy": "ulysses"}, {"mesh": "dp=2,ring=2"}]


def arrays(tokens=37, heads=4, kv_heads=2, size=8, batch=2, dtype=torch.float64, seed=0, value_size=None):
    torch.manual_seed(seed)
    make = lambda h, size: torch.randn(batch, tokens, h, size, dtype=dtype).transpose(1, 2).requires_grad_()  # noqa: E731
    return make(heads, size), make(kv_heads, size), make(kv_heads, value_size or size)


def by_formula(q, k, v, seen=None, scale=None, softcap=None, sink=None):
    """softmax over the keys that seen[batch, 1, tokens, tokens] shows."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    logits = q @ k.transpose(2, 3) * (scale if scale is not None else q.shape[3] ** -0.5)
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    logits = logits if seen is None else logits.masked_fill(~seen, -torch.inf)
    if sink is None:
        return logits.softmax(3) @ v
    sinks = sink.view(1, -1, 1, 1).expand(*logits.shape[:3], 1)
    return torch.cat([logits, sinks], 3).softmax(3)[..., :-1] @ v


def positions(tokens):
    at = torch.arange(tokens)
    return at[:, None], at[None, :]


class Op(unittest.TestCase):
    def compare(self, o, reference, inputs, tolerance=1e-12):
        torch.manual_seed(1)
        g = torch.randn_like(reference)
        for name, a, b in [("o", o, reference)] + [
            (f"gradient {i}", x, y) for i, (x, y) in enumerate(zip(torch.autograd.grad(o, inputs, g), torch.autograd.grad(reference, inputs, g)))
        ]:
            self.assertEqual(a.shape, b.shape)
            self.assertLess(((a - b).norm() / b.norm()).item(), tolerance, name)

    def test_formula(self):
        q_at, k_at = positions(37)
        ids = torch.tensor([[0] * 10 + [1] * 27, [5] * 36 + [2]])
        together = (ids[:, :, None] == ids[:, None, :])[:, None]
        sink = torch.randn(4, dtype=torch.float64, requires_grad=True)
        cases = [
            ({}, {}),
            ({"causal": True}, {"seen": q_at >= k_at}),
            ({"window": 5, "scale": 0.2, "softcap": 3.0}, {"seen": (q_at >= k_at) & (k_at > q_at - 5), "scale": 0.2, "softcap": 3.0}),
            ({"causal": True, "documents": ids, "sink": sink}, {"seen": (q_at >= k_at) & together, "sink": sink}),
            ({"documents": ids}, {"seen": together}),
        ]
        for spread in SPREADS:
            for options, meaning in cases:
                with self.subTest(spread=spread, options=list(options)):
                    q, k, v = arrays()
                    inputs = (q, k, v) + ((sink,) if "sink" in options else ())
                    self.compare(attention(q, k, v, **options, **spread), by_formula(q, k, v, **meaning), inputs)

    def test_values_of_another_size(self):
        q_at, k_at = positions(37)
        for spread in SPREADS:
            for size in (1, 5, 12):
                with self.subTest(spread=spread, size=size):
                    q, k, v = arrays(value_size=size)
                    o = attention(q, k, v, causal=True, **spread)
                    self.assertEqual(tuple(o.shape), (2, 4, 37, size))
                    self.compare(o, by_formula(q, k, v, q_at >= k_at), (q, k, v))
        q, k, v = arrays(dtype=torch.float32, value_size=3)
        torch.library.opcheck(torch.ops.longspan.attention.default, (q, k, v, None, None, "causal ranks=2", True))

    def test_types(self):
        for dtype, tolerance in ((torch.float32, 2e-6), (torch.bfloat16, 1e-2)):
            q, k, v = arrays(dtype=dtype)
            reference = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            self.compare(attention(q, k, v, causal=True, ranks=2), reference, (q, k, v), tolerance)

    def test_any_strides(self):
        """Heads first or last in memory, rows apart, the same for all sequences, and the last dimension not the innermost."""
        q, k, v = (x.detach() for x in arrays())
        expected = attention(q, k, v, causal=True, ranks=2)
        shapes = [lambda x: x.contiguous(), lambda x: torch.cat([x, x], 3)[..., :8], lambda x: x.transpose(2, 3).contiguous().transpose(2, 3)]
        for shape in shapes:
            self.assertTrue(torch.equal(attention(shape(q), shape(k), shape(v), causal=True, ranks=2), expected))
        k, v = k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1)
        self.assertTrue(torch.equal(attention(q, k, v, ranks=2), attention(q, k.contiguous(), v.contiguous(), ranks=2)))
        q.requires_grad_()
        attention(q, k, v, ranks=2).sum().backward()  # a gradient that is one number, expanded
        self.assertTrue(torch.isfinite(q.grad).all())

    def test_gradcheck(self):
        q, k, v = arrays(tokens=5, size=3, heads=2, kv_heads=1, value_size=2)
        sink = torch.randn(2, dtype=torch.float64, requires_grad=True)
        function = lambda q, k, v, sink: attention(q, k, v, causal=True, softcap=2.0, sink=sink, ranks=2)  # noqa: E731
        self.assertTrue(torch.autograd.gradcheck(function, (q, k, v, sink)))

    def test_opcheck(self):
        for documents in (None, torch.tensor([[0] * 20 + [1] * 17] * 2, dtype=torch.int32)):
            arguments = (*arrays(dtype=torch.float32), None, documents, "causal ranks=2", True)
            torch.library.opcheck(torch.ops.longspan.attention.default, arguments)
        q, k, v = (x.detach() for x in arrays(dtype=torch.float32))
        o, lse = torch.ops.longspan.attention(q, k, v, None, None, "causal ranks=2", True)
        torch.library.opcheck(torch.ops.longspan.attention_backward.default, (o, q, k, v, o, lse, None, None, "causal ranks=2"))

    def test_compile(self):
        for dynamic in (False, True):

            @torch.compile(fullgraph=True, dynamic=dynamic, backend="aot_eager")
            def layer(x, w):
                q, k, v = (x @ w).unflatten(2, (3, 4, 8)).unbind(2)
                o = attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal=True, ranks=2)
                return o.transpose(1, 2).flatten(2).square().sum()

            for tokens in (16, 23):
                x = torch.randn(2, tokens, 12, dtype=torch.float64, requires_grad=True)
                w = torch.randn(12, 96, dtype=torch.float64, requires_grad=True)
                compiled = torch.autograd.grad(layer(x, w), (x, w))
                q, k, v = (y.transpose(1, 2) for y in (x @ w).unflatten(2, (3, 4, 8)).unbind(2))
                q_at, k_at = positions(tokens)
                plain = torch.autograd.grad(by_formula(q, k, v, q_at >= k_at).square().sum(), (x, w))
                for a, b in zip(compiled, plain):
                    self.assertLess(((a - b).norm() / b.norm()).item(), 1e-12)

    def test_threads(self):
        q, k, v = (x.detach() for x in arrays())
        expected, found = attention(q, k, v, causal=True, ranks=2), []
        threads = [threading.Thread(target=lambda: found.extend(attention(q, k, v, causal=True, ranks=2) for _ in range(20))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 60)
        self.assertTrue(all(torch.equal(o, expected) for o in found))

    def test_many_forms(self):
        """More forms than stay open; what was closed is opened again."""
        for tokens in list(range(3, 3 + attention_calls.MOST_OPEN + 3)) + [3]:
            q, k, v = arrays(tokens=tokens)
            self.compare(attention(q, k, v, ranks=2), by_formula(q, k, v), (q, k, v))
        self.assertLessEqual(len(attention_calls.attentions), attention_calls.MOST_OPEN)

    def test_fork(self):
        q, k, v = (x.detach() for x in arrays())
        expected = attention(q, k, v, causal=True, ranks=2)

        def child(pipe):
            pipe.send(attention(q, k, v, causal=True, ranks=2).numpy())

        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=child, args=(there,))
        process.start()
        self.assertTrue(here.poll(60))
        self.assertTrue((here.recv() == expected.numpy()).all())
        process.join()
        self.assertTrue(torch.equal(attention(q, k, v, causal=True, ranks=2), expected))

    def test_launched(self):
        """In a process of torchrun the ranks are its own."""
        words = "import support, torch, longspan.torch\nx = torch.randn(1, 2, 9, 4)\nprint(longspan.torch.attention(x, x, x, ranks=2).shape[2])"
        environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": "1"}  # fmt: skip
        ran = subprocess.run([sys.executable, "-c", words], env=environment, cwd=os.path.dirname(__file__), capture_output=True, text=True, timeout=120)
        self.assertEqual((ran.returncode, ran.stdout.strip()), (0, "9"), ran.stderr)

    def test_refused(self):
        q, k, v = (x.detach() for x in arrays())
        for words, call in [
            ("k is torch.float32", lambda: attention(q, k.float(), v)),
            ("float16", lambda: attention(q.half(), k.half(), v.half())),
            ("meta", lambda: attention(q.to("meta"), k, v)),
            ("expected the same", lambda: attention(q[:, :, :9], k, v)),
            ("expected the same", lambda: attention(q, k, v[:, :1])),
            ("those of v 0; expected at least 1", lambda: attention(q, k, v[..., :0])),
            ("expected a multiple", lambda: attention(q[:, :3], k, v)),
            ("window is 0", lambda: attention(q, k, v, window=0)),
            ('strategy "none" is not known|"none" is not known', lambda: attention(q, k, v, ranks=2, strategy="none")),
            ("lie apart in sequence 0", lambda: attention(q, k, v, documents=torch.tensor([[0] * 9 + [1] * 9 + [0] * 19] * 2))),
        ]:
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                call()
        with self.assertRaisesRegex(TypeError, "no option rank;"):
            attention(q, k, v, rank=2)


class Gpu(unittest.TestCase):
    """What a call says of arrays on a GPU, as far as none is needed; the rest is the C library's: tests/device/test_gpu_attention.c."""

    def test_words_of_a_call(self):
        one = types.SimpleNamespace(is_cuda=True, device=torch.device("cuda", 1))
        with mock.patch("torch.cuda.current_stream", lambda device: types.SimpleNamespace(cuda_stream=70 + device.index)):
            self.assertEqual(torch_attention.place(one), (1, 71))
        self.assertEqual(torch_attention.place(torch.zeros(1)), (0, 0))

    def test_the_library_reads_them(self):
        q, k, v = (x.detach() for x in arrays())
        o, lse = torch_attention.result(q), torch_attention.lse_of(q)
        opened = attention_calls.opened(torch_attention.form_of(q, k, v, None, None, "causal"), False)
        strided, none = torch_attention.strided, torch_attention.NONE
        words = [*strided(q), *strided(k), *strided(v), *strided(o), lse.data_ptr(), 0, 0, 0, 0, *none * 4, 0]
        opened.forward(*words, 0, 0)
        torch.testing.assert_close(o, attention(q, k, v, causal=True))
        with self.assertRaisesRegex(ValueError, "arrays on a GPU and ranks on the device cpu; expected the device cuda"):
            opened.forward(*words, 1, 0)

    def test_ways_to_the_gpu(self):
        both = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUDA_DEVICE_MAX_COPY_CONNECTIONS": "32"}
        torch_attention.check_ways(both)
        for name in both:
            with self.assertRaisesRegex(ValueError, f"{name} is not set; expected 32"):
                torch_attention.check_ways({other: n for other, n in both.items() if other != name})

    def test_the_device_of_the_ranks(self):
        self.assertEqual(attention_calls.way(causal=True, device="cuda:1"), "causal device=cuda:1")
        self.assertEqual(attention_calls.options_of("causal device=cuda:1")[3].device, b"cuda:1")


@unittest.skipIf(transformers is None, "needs transformers")
class Transformers(unittest.TestCase):
    def models(self, kind="Llama", **sizes):
        """The same model with eager attention and with this one."""
        logging.disable(logging.CRITICAL)
        longspan.torch.register_attention(ranks=2)
        torch.manual_seed(0)
        config = getattr(transformers, f"{kind}Config")(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                                        num_key_value_heads=2, intermediate_size=64, pad_token_id=0, **sizes)  # fmt: skip
        one = getattr(transformers, f"{kind}ForCausalLM")(config).double()
        one.set_attn_implementation("eager")
        two = getattr(transformers, f"{kind}ForCausalLM")(config).double()
        two.load_state_dict(one.state_dict())
        two.set_attn_implementation("longspan")
        return one, two

    def compare(self, models, count=None, **batch):
        """Losses and gradients, over the labels that count."""
        losses = [model(**batch).loss for model in models]
        self.assertAlmostEqual(losses[0].item(), losses[1].item(), delta=1e-12)
        for loss in losses:
            loss.backward()
        for (name, a), b in zip(models[0].named_parameters(), models[1].parameters()):
            self.assertLess((a.grad - b.grad).norm().item(), 1e-10 * (a.grad.norm().item() + 1e-3), name)

    def test_models(self):
        ids = torch.randint(1, 97, (2, 29))
        for kind, sizes in [("Llama", {}), ("Mistral", {"sliding_window": 8}), ("Gemma2", {"head_dim": 8, "sliding_window": 8})]:
            with self.subTest(kind):
                models = self.models(kind, **sizes)
                self.compare(models, input_ids=ids, labels=ids)

    def test_padding(self):
        for left in (False, True):
            ids = torch.randint(1, 97, (3, 21))
            mask = torch.ones_like(ids)
            for b, pads in enumerate((0, 4, 9)):
                mask[b, :pads] = 0
            mask = mask if left else mask.flip(1)
            labels = ids.masked_fill(mask == 0, -100)
            if left:
                labels[:, 1:][mask[:, :-1] == 0] = -100  # what a pad predicts: eager lets pads see all keys
            self.compare(self.models(), input_ids=ids, attention_mask=mask, labels=labels)

    def test_packed(self):
        ids = torch.randint(1, 97, (1, 30))
        at = torch.cat([torch.arange(n) for n in (7, 1, 22)])[None]
        for kind, sizes in [("Llama", {}), ("Mistral", {"sliding_window": 5})]:
            self.compare(self.models(kind, **sizes), input_ids=ids, labels=ids, position_ids=at)

    def test_generate(self):
        ids = torch.randint(1, 97, (2, 11))
        texts = [model.generate(ids, max_new_tokens=8, do_sample=False) for model in self.models()]
        self.assertTrue(torch.equal(*texts))

    def test_refused(self):
        one, model = self.models()
        ids = torch.randint(1, 97, (1, 8))
        with self.assertRaisesRegex(ValueError, "given whole"):
            model(ids, attention_mask=torch.ones(1, 1, 8, 8, dtype=torch.bool))
        model.model.layers[0].self_attn.attention_dropout = 0.5
        model.train()
        with self.assertRaisesRegex(ValueError, "dropout 0.5"):
            model(ids)
        for name in ("chunked_overlay", "or_masks"):
            function = transformers.masking_utils.chunked_overlay(4, torch.zeros(1, dtype=torch.long))
            function = function if name != "or_masks" else transformers.masking_utils.or_masks(function)
            with self.assertRaisesRegex(ValueError, f"mask {name}; expected causal"):
                torch_attention.terms(function)


if __name__ == "__main__":
    unittest.main()
