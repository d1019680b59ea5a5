"""Functions of JAX: imports, each checked against the function itself, and refusals with the user's line."""
import json
import os
import tempfile
import unittest

import numpy

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # compiling takes most of the time here

import support  # noqa: F401  the package's path
from longspan import Refused, program

try:
    import jax
    import jax.numpy as jnp
    import longspan.jax
    from longspan.jax_export import lower
except ImportError as error:
    print(f"skipped: {__file__} needs jax ({error})")
    raise SystemExit(0)
try:
    import equinox as eqx
    import flax.linen as nn
    import optax
    from flax import nnx
except ImportError as error:
    print(f"skipped: modules of flax and equinox, and losses of optax ({error})")
    eqx = nn = nnx = optax = None

V, E, H, D, F = 61, 24, 4, 6, 40
COPIES = {"permute", "broadcast", "slice", "concat", "map", "reduce", "contract"}


def batch(sizes=(3, 20), **more):
    ids = numpy.random.default_rng(0).integers(1, V, sizes)
    return {"tokens": ids, "labels": numpy.roll(ids, -1, 1), **more}


def numbers(*shapes, seed=0):
    random = numpy.random.default_rng(seed)
    return [jnp.asarray(random.standard_normal(s) * 0.3, jnp.float32) for s in shapes]


def parameters(layers=2, heads=2, value=D):
    """Layers' parameters are stacked, for scan."""
    wq, wk, wv, wo, up, down, gate = numbers((layers, E, H, D), (layers, E, heads, D), (layers, E, heads, value), (layers, H, value, E), (layers, E, F),
                                             (layers, F, E), (layers, E, F))
    emb, head = numbers((V, E), (E, V), seed=1)
    one = jnp.ones((layers, E))
    return {"emb": emb, "head": head, "blocks": {"wq": wq, "wk": wk, "wv": wv, "wo": wo, "up": up, "down": down, "gate": gate, "n1": one, "n2": one}}


def rmsnorm(x, w):
    return w * (x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6))


def rope(x, positions):
    angles = positions[..., None].astype(jnp.float32) * 10000.0 ** (-jnp.arange(0, D, 2) / D)
    cos, sin = jnp.cos(angles)[:, :, None], jnp.sin(angles)[:, :, None]
    one, two = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([one * cos - two * sin, two * cos + one * sin], -1).astype(x.dtype)


def written_attention(q, k, v):
    """With grouped heads, by einsum."""
    batch, tokens, heads, width = q.shape
    q = q.reshape(batch, tokens, k.shape[2], -1, width)
    scores = jnp.einsum("btkgd,bskd->bkgts", q, k) * width ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e30)
    return jnp.einsum("bkgts,bskd->btkgd", jax.nn.softmax(scores, axis=-1), v).reshape(batch, tokens, heads, -1)


def llama(attend, unrolled=False):
    def block(x, p, positions):
        h = rmsnorm(x, p["n1"])
        q, k, v = (jnp.einsum("bse,ehd->bshd", h, p[name]) for name in ("wq", "wk", "wv"))
        x = x + jnp.einsum("bshd,hde->bse", attend(rope(q, positions), rope(k, positions), v), p["wo"])
        h = rmsnorm(x, p["n2"])
        return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]

    def loss(params, batch):
        tokens = batch["tokens"]
        positions = jnp.arange(tokens.shape[1])[None]
        x = params["emb"][tokens]
        if unrolled:
            for i in range(params["blocks"]["n1"].shape[0]):
                x = block(x, jax.tree.map(lambda w: w[i], params["blocks"]), positions)
        else:
            x, _ = jax.lax.scan(jax.checkpoint(lambda x, p: (block(x, p, positions), None)), x, params["blocks"])
        logits = x @ params["head"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), batch["labels"][..., None], axis=-1))

    return loss


class Imports(unittest.TestCase):
    def export(self, fn, params, example):
        with tempfile.TemporaryDirectory() as out:
            result = longspan.jax.export(fn, params, example, out)
            with open(os.path.join(out, "graph.json")) as file:
                return result, json.load(file)

    def test_attention_in_both_forms_scanned_or_not_is_one_graph(self):
        def called(q, k, v):
            return jax.nn.dot_product_attention(q, k, v, is_causal=True)

        params = parameters()
        results = [self.export(fn, params, batch()) for fn in (llama(written_attention), llama(called), llama(called, unrolled=True))]
        for result, described in results:
            self.assertEqual(result.checked.parameters, 20)
            self.assertFalse({n["op"] for n in described["nodes"]} & COPIES)
            self.assertEqual(described["mean_over"], "tokens")
            rope_of = next(n["rope"] for n in described["nodes"] if n["op"] == "rope_table")
            self.assertEqual(rope_of, {"theta": 10000.0})
            self.assertIn("blocks.wq.0", [p["name"] for p in described["parameters"]])
            self.assertTrue(all(s["file"] == os.path.abspath(__file__) for s in described["sources"]))
        self.assertEqual(len({result.graph.hash() for result, _ in results}), 1)

    def test_values_of_another_size(self):
        for value in (2, 10):
            with self.subTest(value):
                _, described = self.export(llama(written_attention), parameters(value=value), batch())
                self.assertEqual(sum(n["op"] == "attention" for n in described["nodes"]), 2)
                self.assertFalse({n["op"] for n in described["nodes"]} & COPIES)

    def test_a_window(self):
        def attend(q, k, v):
            return jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(4, 0))

        _, described = self.export(llama(attend), parameters(), batch())
        masks = [n["mask"] for n in described["nodes"] if n["op"] == "attention"]
        self.assertEqual(masks, [[{"kind": "window", "window": 5, "first": 0}]] * 2)

    def test_the_way_back(self):
        params = parameters()
        with tempfile.TemporaryDirectory() as out:
            longspan.jax.export(llama(written_attention), params, batch(), out)
            zeros = jax.tree.map(jnp.zeros_like, params)
            back = longspan.jax.load(out, zeros)
            for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(back)):
                self.assertEqual(numpy.asarray(a).tobytes(), numpy.asarray(b).tobytes())
            with self.assertRaisesRegex(Refused, "not in the pytree"):
                longspan.jax.load(out, {"emb": params["emb"]})
            with self.assertRaisesRegex(Refused, r"emb is float32\[61, 24\], expected float32\[2, 2\]"):
                longspan.jax.load(out, {**params, "emb": jnp.zeros((2, 2))})

    def test_bf16(self):
        params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), parameters())
        with tempfile.TemporaryDirectory() as out:
            result = longspan.jax.export(llama(written_attention), params, batch(), out)
            self.assertEqual(result.graph.dtype, "bf16")
            back = longspan.jax.load(out, params)
            self.assertEqual(numpy.asarray(back["emb"]).tobytes(), numpy.asarray(params["emb"]).tobytes())

    def losses(self, tail, expected, keep="labels"):
        """The loss of one small model, by several endings."""
        emb, mix = numbers((V, E), (E, E))

        def loss(p, b):
            x = jnp.tanh(p["emb"][b["tokens"]] @ p["mix"])
            return tail(x @ p["emb"].T, b)

        result, described = self.export(loss, {"emb": emb, "mix": mix}, batch())
        self.assertEqual(described["mean_over"], expected)
        self.assertIn("cross_entropy", {n["op"] for n in described["nodes"]})
        self.assertFalse({n["op"] for n in described["nodes"]} & (COPIES - {"map"}))
        return described

    def test_losses(self):
        def one_hot(logits, b):
            return -jnp.sum(jax.nn.one_hot(b["labels"], V) * jax.nn.log_softmax(logits), -1).mean()

        def normaliser(logits, b):
            picked = jnp.take_along_axis(logits, b["labels"][..., None], axis=-1)[..., 0]
            return jnp.sum(jax.nn.logsumexp(logits, axis=-1) - picked)

        def masked(logits, b):
            counts = b["labels"] != -1
            each = jax.nn.log_softmax(logits)[jnp.arange(logits.shape[0])[:, None], jnp.arange(logits.shape[1]), jnp.where(counts, b["labels"], 0)]
            return -(each * counts).sum() / counts.sum()

        def each_sequence(logits, b):
            def one(logits, labels):
                return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(labels.shape[0]), labels])
            return jnp.mean(jax.vmap(one)(logits, b["labels"]))

        self.losses(one_hot, "tokens")
        self.losses(normaliser, None)
        self.losses(masked, "labels")
        self.losses(each_sequence, "tokens")
        if optax:
            self.losses(lambda logits, b: optax.softmax_cross_entropy_with_integer_labels(logits, b["labels"]).mean(), "tokens")
            self.losses(lambda logits, b: optax.softmax_cross_entropy(logits, jax.nn.one_hot(b["labels"], V)).mean(), "tokens")

    def test_labels_that_are_the_tokens(self):
        def loss(p, b):
            logits = p["emb"][b["tokens"]] @ p["head"]
            picked = jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), b["tokens"][:, 1:, None], axis=-1)
            return -picked.mean()

        def on_all_but_the_last(p, b):
            x = p["emb"][b["tokens"][:, :-1]]
            h = x[:, :, None]
            x = x + jax.nn.dot_product_attention(h, h, h, is_causal=True)[:, :, 0]
            return -jnp.take_along_axis(jax.nn.log_softmax(x @ p["head"]), b["tokens"][:, 1:, None], axis=-1).mean()

        emb, head = numbers((V, E), (E, V))
        for fn in (loss, on_all_but_the_last):
            _, described = self.export(fn, {"emb": emb, "head": head}, {"tokens": batch()["tokens"]})
            self.assertEqual(described["mean_over"], "labels")
            self.assertEqual(described["inputs"][1], {"name": "labels", "dtype": "i32", "is": "labels", "shift": 1})

    def test_a_table_of_positions(self):
        def loss(p, b):
            x = p["emb"][b["tokens"]] + p["pos"][:b["tokens"].shape[1]]
            return -jnp.take_along_axis(jax.nn.log_softmax(x @ p["emb"].T), b["labels"][..., None], axis=-1).mean()

        emb, pos = numbers((V, E), (64, E))
        _, described = self.export(loss, {"emb": emb, "pos": pos}, batch())
        self.assertEqual([n["op"] for n in described["nodes"]][:4].count("embedding"), 2)

    def test_documents(self):
        def loss(p, b):
            x = p["emb"][b["tokens"]]
            h = x[:, :, None]
            same = b["documents"][:, :, None] == b["documents"][:, None, :]
            x = x + jax.nn.dot_product_attention(h, h, h, mask=same[:, None], is_causal=True)[:, :, 0]
            return -jnp.take_along_axis(jax.nn.log_softmax(x @ p["head"]), b["labels"][..., None], axis=-1).mean()

        emb, head = numbers((V, E), (E, V))
        result, described = self.export(loss, {"emb": emb, "head": head}, batch(documents=numpy.arange(20) // 7 + numpy.zeros((3, 1), int)))
        self.assertTrue(described["documents"])


@unittest.skipIf(program.find() is None, "needs the program longspan")
class Ranks(unittest.TestCase):
    def test_padding_and_documents_in_the_tokens(self):
        """Masks of a batch, and of a running sum of a token's: on ranks beside JAX, where labels of padding have no weight."""
        def loss(params, batch, of):
            tokens, weights = batch["tokens"], batch.get("mask", jnp.ones_like(batch["tokens"]))

            def attend(q, k, v):
                shown = jnp.tril(jnp.ones((tokens.shape[1], tokens.shape[1]), bool)) & of(batch)
                return jax.nn.dot_product_attention(q, k, v, mask=shown)
            x = params["emb"][tokens]
            q, k, v = (jnp.einsum("bse,ehd->bshd", x, params["blocks"][name][0]) for name in ("wq", "wk", "wv"))
            x = x + jnp.einsum("bshd,hde->bse", attend(q, k, v), params["blocks"]["wo"][0])
            each = jnp.take_along_axis(jax.nn.log_softmax(x @ params["head"]), batch["labels"][..., None], axis=-1)[..., 0]
            return -jnp.sum(each * weights)

        def padding(batch):
            return batch["mask"][:, None, None, :] != 0

        def first(batch):
            number = jnp.cumsum(batch["tokens"] == 7, axis=1)
            return (number[:, :, None] == number[:, None, :])[:, None]

        mask = numpy.array([[1] * 20, [1] * 13 + [0] * 7, [0] * 5 + [1] * 15])
        for of, example, expected in ((padding, batch(mask=mask), {"input": "mask", "is": "padding"}),
                                      (first, batch(), {"input": "tokens", "is": "first", "number": 7})):
            with self.subTest(of.__name__), tempfile.TemporaryDirectory() as out:
                function, params = lambda params, batch, of=of: loss(params, batch, of), parameters(1)
                result = longspan.jax.export(function, params, example, out)
                with open(os.path.join(out, "graph.json")) as file:
                    self.assertEqual(json.load(file)["documents"], expected)
                if program.find() is None:
                    continue
                theirs, gradients = jax.value_and_grad(function)(params, example)
                for mesh in ("ring=3", "tp=2", "ulysses=2"):
                    ours, found = longspan.grad(out, example, mesh=mesh)
                    self.assertLessEqual(abs(ours - float(theirs)), 1e-6 * float(theirs))
                    own = longspan.jax.load(found, params)
                    for one, other in zip(jax.tree.leaves(own["blocks"]["wo"]), jax.tree.leaves(gradients["blocks"]["wo"])):
                        self.assertLessEqual(numpy.abs(one - other).max(), 1e-5 * numpy.abs(other).max())

    def test_loss_and_gradients_on_ranks(self):
        """f32, S = 20, which 3 does not divide, against the function's own."""
        def windowed(q, k, v):
            return jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(6, 0))

        params, example = parameters(), batch((2, 20))
        for attend in (written_attention, windowed):
            fn = llama(attend)
            theirs, gradients = jax.jit(jax.value_and_grad(fn))(params, example)
            with tempfile.TemporaryDirectory() as out:
                longspan.jax.export(fn, params, example, out)
                for mesh in ("ring=1", "ring=2", "ulysses=2", "tp=2", "ring=3"):
                    with self.subTest(mesh):
                        loss, found = longspan.grad(out, example, mesh=mesh, strategy="ring" if "ring=" in mesh and mesh != "ring=1" else None)
                        self.assertLessEqual(abs(loss - float(theirs)), 1e-6 * float(theirs))
                        ours = longspan.jax.load(found, params)
                        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(gradients)):
                            self.assertLessEqual(float(jnp.abs(a - b).max()), 1e-5 * float(jnp.abs(b).max()))


    def test_a_loop_of_ones_own(self):
        params, examples = parameters(), [batch((2, 20)), batch((2, 20))]
        examples[1]["labels"] = examples[1]["tokens"]
        fn = llama(written_attention)
        gradients = jax.jit(jax.value_and_grad(fn))
        with longspan.jax.compile(fn, params, examples[0], optimizer=None, mesh="ring=2") as ours:
            for example in examples:
                loss, found = ours.value_and_grad(params, example)
                theirs, expected = gradients(params, example)
                self.assertLessEqual(abs(loss - float(theirs)), 1e-6 * float(theirs))
                for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
                    self.assertLessEqual(float(jnp.abs(a - b).max()), 1e-5 * float(jnp.abs(b).max()))
                params = jax.tree.map(lambda p, g: p - 0.1 * g, params, found)
        with longspan.jax.compile(fn, params, examples[0], ranks=2, lr=1e-2) as ours:
            before = ours.params()
            for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(params)):
                self.assertEqual(numpy.asarray(a).tobytes(), numpy.asarray(b).tobytes())
            losses = [ours.step(examples[0]) for _ in range(3)]
        self.assertLess(losses[2], losses[0])


@unittest.skipIf(nn is None, "needs flax, equinox and optax")
class Modules(unittest.TestCase):
    export = Imports.export

    def test_linen(self):
        class Block(nn.Module):
            @nn.compact
            def __call__(self, x, mask):
                x = x + nn.MultiHeadDotProductAttention(num_heads=H)(nn.LayerNorm()(x), mask=mask)
                return x + nn.Dense(E)(nn.gelu(nn.Dense(F)(nn.LayerNorm()(x))))

        class GPT(nn.Module):
            @nn.compact
            def __call__(self, ids):
                embed = nn.Embed(V, E)
                x = embed(ids) + nn.Embed(64, E)(jnp.arange(ids.shape[1]))
                mask = nn.make_causal_mask(ids)
                for _ in range(2):
                    x = Block()(x, mask)
                return embed.attend(nn.LayerNorm()(x))

        model, example = GPT(), batch()
        params = model.init(jax.random.key(0), example["tokens"])

        def loss(params, b):
            return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, b["tokens"]), b["labels"]).mean()

        result, described = self.export(loss, params, example)
        self.assertFalse({n["op"] for n in described["nodes"]} & COPIES)
        self.assertIn("params.Block_0.MultiHeadDotProductAttention_0.query.kernel", [p["name"] for p in described["parameters"]])

    def test_nnx(self):
        class Model(nnx.Module):
            def __init__(self, rngs):
                self.embed = nnx.Embed(V, E, rngs=rngs)
                self.attend = nnx.MultiHeadAttention(H, E, decode=False, rngs=rngs)
                self.norm, self.head = nnx.RMSNorm(E, rngs=rngs), nnx.Linear(E, V, rngs=rngs)

            def __call__(self, ids):
                x = self.embed(ids)
                x = x + self.attend(x, mask=nnx.make_causal_mask(ids))
                return self.head(self.norm(x))

        graph, state = nnx.split(Model(nnx.Rngs(0)))

        def loss(state, b):
            return optax.softmax_cross_entropy_with_integer_labels(nnx.merge(graph, state)(b["tokens"]), b["labels"]).mean()

        result, described = self.export(loss, state, batch())
        self.assertFalse({n["op"] for n in described["nodes"]} & COPIES)
        self.assertIn("head.kernel", [p["name"] for p in described["parameters"]])

    def test_equinox(self):
        class Block(eqx.Module):
            norm: eqx.nn.LayerNorm
            attend: eqx.nn.MultiheadAttention
            fc: eqx.nn.MLP

            def __call__(self, x, mask):
                h = jax.vmap(self.norm)(x)
                return jax.vmap(self.fc)(x + self.attend(h, h, h, mask))

        class Model(eqx.Module):
            embed: eqx.nn.Embedding
            blocks: list
            head: eqx.nn.Linear

            def __call__(self, ids):
                x = jax.vmap(self.embed)(ids)
                mask = jnp.tril(jnp.ones((ids.shape[0], ids.shape[0]), bool))
                for block in self.blocks:
                    x = block(x, mask)
                return jax.vmap(self.head)(x)

        keys = jax.random.split(jax.random.key(0), 6)
        blocks = [Block(eqx.nn.LayerNorm(E), eqx.nn.MultiheadAttention(H, E, key=keys[i]), eqx.nn.MLP(E, E, F, 1, key=keys[i + 2])) for i in range(2)]
        model = Model(eqx.nn.Embedding(V, E, key=keys[4]), blocks, eqx.nn.Linear(E, V, key=keys[5]))

        def loss(model, b):
            return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(model)(b["tokens"]), b["labels"]).mean()

        result, described = self.export(loss, model, batch())
        self.assertFalse({n["op"] for n in described["nodes"]} & COPIES)
        self.assertIn("blocks.0.attend.query_proj.weight", [p["name"] for p in described["parameters"]])


def tokens_one_by_one(p, x):
    state = x[:, 0]
    outputs = []
    for i in range(x.shape[1]):
        state = jnp.tanh(state + x[:, i])  # LOOP
        outputs.append(state)
    return jnp.stack(outputs, 1)


def scan_over_tokens(p, x):
    def step(state, x):
        state = jnp.tanh(state + x)
        return state, state
    return jax.lax.scan(step, x[:, 0], x.swapaxes(0, 1))[1].swapaxes(0, 1)  # SCAN


def drops_out(p, x):
    key = jax.random.key(0)  # DROPOUT
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0)


def by_data(p, x):
    return x[x.sum(-1) > 0].sum() + x  # DATA


def by_branch(p, x):
    if x.sum() > 0:  # BRANCH
        return x
    return -x


def square(p, x):
    scores = x @ x.swapaxes(1, 2)  # SQUARE
    return x + scores.sum(-1, keepdims=True)


def by_activation(p, x):
    h = x[:, :, None]
    return x + jax.nn.dot_product_attention(h, h, h, mask=(x[..., 0] > 0)[:, None, None, :])[:, :, 0]  # ACTIVATION


def stopped(p, x):
    return x + jax.lax.stop_gradient(x)  # STOPPED


def sorts(p, x):
    return jnp.sort(x, axis=-1)  # SORT


def pooled(p, x):
    return x + x.max(1, keepdims=True)  # POOLED


def turned(p, x):
    return x[:, ::-1]  # TURNED


class Refusals(unittest.TestCase):
    def test_with_the_line(self):
        emb, head = numbers((V, E), (E, V))
        with open(__file__) as file:
            lines = {text.rstrip().split("# ")[-1]: i for i, text in enumerate(file, 1) if "  # " in text}
        for layer, op, words, mark in [
            (tokens_one_by_one, "", "a loop over tokens", "LOOP"), (scan_over_tokens, "scan", "a loop over tokens", "SCAN"),
            (drops_out, "random", "draws random numbers", "DROPOUT"), (by_data, "", "depends on data", "DATA"),
            (by_branch, "", "depends on data", "BRANCH"),
            (square, "contract", "S × S outside attention", "SQUARE"), (by_activation, "attention", "mask depends on", "ACTIVATION"),
            (stopped, "stop", "stops a gradient", "STOPPED"), (sorts, "sort", "not known", "SORT"),
            (pooled, "reduce", "reduces along the sequence", "POOLED"), (turned, "rev", "turns a dimension", "TURNED"),
        ]:
            def loss(p, b, layer=layer):
                logits = layer(p, p["emb"][b["tokens"]]) @ p["head"]
                return -jnp.take_along_axis(jax.nn.log_softmax(logits), b["labels"][..., None], axis=-1).mean()
            with self.subTest(mark), self.assertRaises(Refused) as caught:
                lower(loss, {"emb": emb, "head": head}, batch())
            refusal = caught.exception
            self.assertRegex(str(refusal), words)
            self.assertIn(op, refusal.op or "")
            self.assertEqual((os.path.basename(refusal.file), refusal.line), (os.path.basename(__file__), lines[mark]), str(refusal))

    def test_what_is_no_loss(self):
        emb, = numbers((V, E))
        with self.assertRaisesRegex(Refused, "must give the loss"):
            lower(lambda p, b: p["emb"][b["tokens"]], {"emb": emb}, batch())
        with self.assertRaisesRegex(Refused, r"all inputs are \[batch, tokens\]"):
            lower(lambda p, b: p["emb"].sum(), {"emb": emb}, {"tokens": numpy.ones((2, 8), int), "labels": numpy.ones((2, 7), int)})
        with self.assertRaisesRegex(Refused, "has no arrays"):
            lower(lambda p, b: 0.0, {"emb": 1}, batch())


if __name__ == "__main__":
    unittest.main()
