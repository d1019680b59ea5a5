"""Attention as a call of XLA's FFI: against its formula, in jit, grad, scan, vmap and shard_map; refusals."""
import functools
import os
import unittest

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"

import support  # noqa: E402, F401  the package's path
from longspan import program  # noqa: E402

try:
    program.library()
    import jax
    import jax.numpy as jnp
    import numpy
    from jax.sharding import Mesh, PartitionSpec
    from longspan.jax import attention
    from longspan.jax_attention import handlers
except (ImportError, OSError, program.Failed) as error:
    print(f"skipped: {__file__} needs jax and the library longspan ({error})")
    raise SystemExit(0)
try:
    handlers()
except RuntimeError as error:
    print(f"skipped: {__file__}: {error}")
    raise SystemExit(0)

jax.config.update("jax_enable_x64", True)
SPREADS = [{"ranks": 1}, {"ranks": 2, "strategy": "ring"}, {"ranks": 3, "strategy": "gather"}, {"mesh": "dp=2,ulysses=2"}]


def arrays(tokens=19, heads=4, kv_heads=2, size=8, batch=4, dtype=jnp.float64, seed=0, value_size=None):
    random = numpy.random.default_rng(seed)
    sizes = (heads, size), (kv_heads, size), (kv_heads, value_size or size)
    return [jnp.asarray(random.standard_normal((batch, tokens, h, d)), dtype) for h, d in sizes]


def by_formula(q, k, v, seen=None, scale=None, softcap=None, sink=None):
    """softmax over the keys that seen[batch, 1, tokens, tokens] shows."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (scale if scale is not None else q.shape[3] ** -0.5)
    logits = logits if softcap is None else softcap * jnp.tanh(logits / softcap)
    logits = logits if seen is None else jnp.where(seen, logits, -jnp.inf)
    if sink is not None:
        logits = jnp.concatenate([logits, jnp.broadcast_to(sink[None, :, None, None], (*logits.shape[:3], 1))], 3)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits, 3)[..., : k.shape[1]], v)


def causal(tokens):
    at = numpy.arange(tokens)
    return at[:, None] >= at[None, :]


def loss_of(function):
    """A number that depends on each element of the result, and on where it stands."""

    def loss(*inputs):
        o = function(*inputs)
        return (jnp.sin(jnp.arange(o.size)).reshape(o.shape) * o).sum()

    return loss


class Op(unittest.TestCase):
    def compare(self, a, b, tolerance=1e-12):
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            self.assertEqual((x.shape, x.dtype), (y.shape, y.dtype))
            self.assertLess(float(jnp.linalg.norm(x - y) / jnp.linalg.norm(y)), tolerance)

    def values(self, function, inputs):
        """The loss and the gradients of all inputs."""
        return jax.jit(jax.value_and_grad(loss_of(function), tuple(range(len(inputs)))))(*inputs)

    def test_formula(self):
        ids = numpy.array([[0] * 10 + [1] * 9, [5] * 18 + [2]] * 2)
        together = (ids[:, :, None] == ids[:, None, :])[:, None]
        at = numpy.arange(19)
        sink = jnp.asarray([0.5, -1.0, 2.0, 0.0])
        cases = [
            ({}, {}),
            ({"causal": True}, {"seen": causal(19)}),
            ({"window": 5, "scale": 0.2, "softcap": 3.0}, {"seen": causal(19) & (at[None, :] > at[:, None] - 5), "scale": 0.2, "softcap": 3.0}),
            ({"causal": True, "documents": ids, "sink": sink}, {"seen": causal(19) & together, "sink": sink}),
        ]
        for spread in SPREADS:
            for options, meaning in cases:
                with self.subTest(spread=spread, options=list(options)):
                    inputs = arrays() + ([sink] if "sink" in options else [])
                    options, meaning = ({n: x for n, x in given.items() if n != "sink"} for given in (options, meaning))
                    call = lambda q, k, v, sink=None: attention(q, k, v, sink=sink, **options, **spread)  # noqa: E731, B023
                    formula = lambda q, k, v, sink=None: by_formula(q, k, v, sink=sink, **meaning)  # noqa: E731, B023
                    self.compare(call(*inputs), formula(*inputs))
                    self.compare(self.values(call, inputs), self.values(formula, inputs))

    def test_values_of_another_size(self):
        for spread in SPREADS:
            for size in (1, 11):
                with self.subTest(spread=spread, size=size):
                    inputs = arrays(value_size=size)
                    own, formula = functools.partial(attention, causal=True, **spread), functools.partial(by_formula, seen=causal(19))
                    self.compare(own(*inputs), formula(*inputs))
                    self.compare(self.values(own, inputs), self.values(formula, inputs))

    def test_types(self):
        for dtype, tolerance in ((jnp.float32, 2e-6), (jnp.bfloat16, 1e-2)):
            inputs = arrays(dtype=dtype)
            own = functools.partial(jax.nn.dot_product_attention, is_causal=True)
            self.compare(functools.partial(attention, causal=True, ranks=2)(*inputs), own(*inputs), tolerance)

    def test_scan(self):
        """Layers as a scan with recomputation: one compiled call for all of them."""
        weights = jnp.asarray(numpy.random.default_rng(1).standard_normal((3, 8, 3, 4, 2)) * 0.3)
        x = jnp.asarray(numpy.random.default_rng(2).standard_normal((2, 17, 8)))

        def stack(attend):
            @jax.checkpoint
            def layer(x, w):
                q, k, v = jnp.moveaxis(jnp.einsum("bte,ephd->btphd", x, w), 2, 0)
                return x + attend(q, k, v).reshape(x.shape), None

            return lambda x, weights: jax.lax.scan(layer, x, weights)[0]

        own = stack(functools.partial(attention, causal=True, ranks=2))
        formula = stack(functools.partial(by_formula, seen=causal(17)))
        self.compare(self.values(own, (x, weights)), self.values(formula, (x, weights)))

    def test_vmap(self):
        inputs = [jnp.stack([x, 2 * x]) for x in arrays(batch=2)]
        own = jax.vmap(functools.partial(attention, causal=True, ranks=2))
        formula = jax.vmap(functools.partial(by_formula, seen=causal(19)))
        self.compare(self.values(own, inputs), self.values(formula, inputs))

    def test_shard_map(self):
        """Four devices, each with its sequence, or with its KV head; a sink that all share."""
        sink = jnp.asarray([0.5, -1.0, 2.0, 0.0])
        own = lambda q, k, v, sink: attention(q, k, v, causal=True, sink=sink, ranks=2)  # noqa: E731
        formula = lambda q, k, v, sink: by_formula(q, k, v, seen=causal(19), sink=sink)  # noqa: E731
        mesh = Mesh(numpy.array(jax.devices()), ("shard",))
        self.assertEqual(mesh.size, 4)
        heads = PartitionSpec(None, None, "shard")
        for kv_heads, where, of_sink in ((2, PartitionSpec("shard"), PartitionSpec()), (4, heads, PartitionSpec("shard"))):
            inputs = arrays(kv_heads=kv_heads) + [sink]
            sharded = jax.shard_map(own, mesh=mesh, in_specs=(where, where, where, of_sink), out_specs=where)
            for _ in range(5):  # devices call at the same time
                self.compare(self.values(sharded, inputs), self.values(formula, inputs))

    def test_refused(self):
        q, k, v = arrays()
        for words, call in [
            ("expected one type for all", lambda: attention(q, k.astype(jnp.float32), v)),
            ("float16", lambda: attention(*(x.astype(jnp.float16) for x in (q, k, v)))),
            ("the same but for the heads", lambda: attention(q[:, :9], k, v)),
            ("expected a multiple", lambda: attention(q[:, :, :3], k, v)),
            ("heads of v have size 0", lambda: attention(q, k, v[..., :0])),
            ('"none" is not known', lambda: attention(q, k, v, ranks=2, strategy="none")),
            ("the sink is", lambda: attention(q, k, v, sink=jnp.zeros(3))),
        ]:
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                call()
        with self.assertRaisesRegex(Exception, "tokens of a document lie apart"):
            attention(q, k, v, documents=jnp.asarray([[0] * 5 + [1] * 5 + [0] * 9] * 4)).block_until_ready()


if __name__ == "__main__":
    unittest.main()
