"""Each pattern of recognise.PATTERNS: the named op computes what the general ops did, and takes their place."""
import math
import unittest

import numpy

from support import B, S, embedded, graph_of, losses, ops, sum_of_squares
from longspan import attention
from longspan.ir import Refused
from longspan.normal import normal_form
from longspan.recognise import PATTERNS, flat_parameters, recognise, rope_of

ROOT = math.sqrt(2 / math.pi)


def norm(g, x, epsilon=1e-5):
    mean = g.map("div", g.add("reduce", [g.map("mul", x, x)], kind="sum", dims=[len(x.shape) - 1], keep=True), x.shape[-1])
    return g.map("mul", x, g.map("rsqrt", g.map("add", mean, epsilon)))


def centred(g, x):
    return g.map("sub", x, g.map("div", g.add("reduce", [x], kind="sum", dims=[len(x.shape) - 1], keep=True), x.shape[-1]))


def gelu_tanh(g, x):
    inner = g.map("mul", g.map("add", x, g.map("mul", g.map("pow", x, 3), 0.044715)), ROOT)
    return g.map("mul", g.map("mul", x, 0.5), g.map("add", g.map("tanh", inner), 1.0))


def gelu_erf(g, x, halves_last):
    tail = g.map("add", g.map("erf", g.map("div", x, math.sqrt(2))), 1.0)
    return g.map("mul", x, g.map("mul", tail, 0.5)) if halves_last else g.map("mul", g.map("mul", x, 0.5), tail)


def rope_angles(g, positions, D, theta, factor=1.0):
    f = g.parameter("inv_freq", (D // 2,), theta ** (-numpy.arange(0, D, 2) / D) / factor, frozen=True, buffer=True)
    p = g.add("cast", [g.add("reshape", [positions], size=list(positions.shape) + [1])], dtype="T")
    half = g.map("mul", p, f)
    return g.add("concat", [half, half], dim=2)


def rotated(g, x, angles, halves=(0, 1)):
    """Heads first, as transformers have it: x [B,H,S,D]. halves: which is which."""
    D = x.shape[-1]
    cos, sin = (g.add("reshape", [g.map(word, angles)], size=[B, 1, S, D]) for word in ("cos", "sin"))
    first, second = (g.add("slice", [x], dim=3, start=start, length=D // 2) for start in (halves[0] * (D // 2), halves[1] * (D // 2)))
    turned = g.add("concat", [g.map("neg", second), first], dim=3)
    return g.map("add", g.map("mul", x, cos), g.map("mul", turned, sin))


class Patterns(unittest.TestCase):
    def check(self, expected, build, *shape, names=("input_ids", "labels"), without=("map", "reduce", "contract"), tolerance=1e-12):
        """build(graph, x [B,S,*shape], parameter, inputs) -> value; its graph must become the expected ops."""
        graph, inputs, parameter = graph_of(names)
        y = build(graph, embedded(graph, inputs, parameter, *shape), parameter, inputs)
        sum_of_squares(graph, y)
        named = recognise(normal_form(attention.find(graph))).verify()
        before, after = losses(graph, named)
        self.assertLess(abs(before - after), tolerance * max(1, abs(before)))
        # The part above the loss alone.
        graph.loss, graph.logits = None, y
        alone = recognise(normal_form(attention.find(graph)))
        self.assertIsNotNone(alone.logits)
        count = ops(alone)
        for op, n in expected.items():
            self.assertEqual(count.get(op, 0), n, f"{op} in {count}")
        for op in without:
            self.assertNotIn(op, count)
        return alone

    def test_rmsnorm(self):
        self.check({"rmsnorm": 1}, lambda g, x, p, i: g.map("mul", p("w", 6), norm(g, x)), 6)
        self.check({"rmsnorm": 1}, lambda g, x, p, i: g.map("mul", norm(g, x), p("w", 6)), 6)

    def test_rmsnorm_with_offset(self):
        graph = self.check({"rmsnorm": 1}, lambda g, x, p, i: g.map("mul", norm(g, x), g.map("add", p("w", 6), 1.0)), 6)
        self.assertEqual(next(n for n in graph.nodes if n.op == "rmsnorm").params["offset"], 1.0)

    def test_rmsnorm_through_casts(self):
        self.check({"rmsnorm": 1}, lambda g, x, p, i: g.map("mul", p("w", 6), g.add("cast", [norm(g, g.add("cast", [x], dtype="G"))], dtype="T")), 6)

    def test_no_rmsnorm_where_the_divisor_is_another(self):
        def build(g, x, p, i):
            mean = g.map("div", g.add("reduce", [g.map("mul", x, x)], kind="sum", dims=[2], keep=True), 5)
            return g.map("mul", p("w", 6), g.map("mul", x, g.map("rsqrt", g.map("add", mean, 1e-5))))
        self.check({"rmsnorm": 0}, build, 6, without=())

    def test_layernorm(self):
        def build(g, x, p, i, bias=True):
            c = centred(g, x)
            mean = g.map("div", g.add("reduce", [g.map("mul", c, c)], kind="sum", dims=[2], keep=True), 6)
            y = g.map("mul", g.map("mul", c, g.map("rsqrt", g.map("add", mean, 1e-5))), p("w", 6))
            return g.map("add", y, p("b", 6)) if bias else y
        graph = self.check({"layernorm": 1}, build, 6)
        self.assertEqual(len(next(n for n in graph.nodes if n.op == "layernorm").inputs), 3)
        graph = self.check({"layernorm": 1}, lambda *a: build(*a, bias=False), 6)
        self.assertEqual(len(next(n for n in graph.nodes if n.op == "layernorm").inputs), 2)

    def test_activations(self):
        self.check({"silu": 1}, lambda g, x, p, i: g.map("mul", x, g.map("sigmoid", x)), 6)
        self.check({"relu": 1}, lambda g, x, p, i: g.map("max", x, 0.0), 6)
        self.check({"gelu": 1}, lambda g, x, p, i: gelu_erf(g, x, False), 6)
        self.check({"gelu": 1}, lambda g, x, p, i: gelu_erf(g, x, True), 6)
        self.check({"gelu_tanh": 1}, lambda g, x, p, i: gelu_tanh(g, x), 6, tolerance=1e-11)

    def test_swiglu(self):
        self.check({"swiglu": 1, "silu": 0},
                   lambda g, x, p, i: g.map("mul", g.map("mul", x, g.map("sigmoid", x)), g.add("linear", [x, p("up", 6, 6)])), 6)

    def test_softcap(self):
        self.check({"softcap": 1}, lambda g, x, p, i: g.map("mul", g.map("tanh", g.map("div", x, 30.0)), 30.0), 6)
        self.check({"softcap": 0}, lambda g, x, p, i: g.map("mul", g.map("tanh", g.map("div", x, 30.0)), 20.0), 6, without=())

    def test_rotate(self):
        for factor in (1.0, 4.0):
            with self.subTest(factor=factor):
                def build(g, x, p, i):
                    x = g.add("permute", [x], order=[0, 2, 1, 3])
                    x = rotated(g, x, rope_angles(g, i["position_ids"], 8, 1e4, factor))
                    return g.add("reshape", [g.add("permute", [x], order=[0, 2, 1, 3])], size=[B, S, 16])
                graph = self.check({"rotate": 1, "rope_table": 1, "concat": 0, "slice": 0}, build, 2, 8, names=("input_ids", "position_ids"))
                rope = next(n for n in graph.nodes if n.op == "rope_table").params["rope"]
                self.assertEqual(rope, {"theta": 1e4} if factor == 1 else {"theta": 1e4, "scaling": "linear", "factor": 4.0})

    def test_no_rotation_where_the_halves_are_others(self):
        def build(g, x, p, i):
            x = rotated(g, g.add("permute", [x], order=[0, 2, 1, 3]), rope_angles(g, i["position_ids"], 8, 1e4), halves)
            return g.add("reshape", [g.add("permute", [x], order=[0, 2, 1, 3])], size=[B, S, 16])
        for halves in ((1, 0), (0, 0), (1, 1)):
            self.check({"rotate": 0}, build, 2, 8, names=("input_ids", "position_ids"), without=())

    def test_frequencies_that_are_no_powers_stay_general(self):
        self.assertIsNone(rope_of(numpy.array([1.0, 0.3, 0.2, 0.01])))
        self.assertEqual(rope_of((500000.0 ** (-numpy.arange(0, 64, 2) / 64)).astype(numpy.float32).astype(float)), {"theta": 500000.0})

    def test_linear(self):
        self.check({"linear": 1}, lambda g, x, p, i: g.map("exp", g.add("contract", [x, p("w", 5, 6)], equation="bse,fe->bsf")), 6, without=())
        self.check({"linear_transposed": 1}, lambda g, x, p, i: g.add("contract", [x, p("w", 6, 5)], equation="bse,ef->bsf"), 6)
        graph = self.check({"linear_transposed": 1},
                           lambda g, x, p, i: g.map("add", g.add("contract", [x, p("w", 6, 5)], equation="bse,ef->bsf"), p("b", 5)), 6)
        self.assertEqual(len(next(n for n in graph.nodes if n.op == "linear_transposed").inputs), 3)

    def test_sums_products_and_scales(self):
        self.check({"add": 1}, lambda g, x, p, i: g.map("add", x, g.add("linear", [x, p("w", 6, 6)])), 6)
        self.check({"mul": 1}, lambda g, x, p, i: g.map("mul", x, g.add("linear", [x, p("w", 6, 6)])), 6)
        self.check({"scale": 1}, lambda g, x, p, i: g.map("div", g.map("mul", x, 3.0), 7.0), 6)

    def test_split(self):
        def build(g, x, p, i):
            parts = [g.add("slice", [x], dim=2, start=start, length=n) for start, n in ((0, 4), (4, 2), (6, 2))]
            return g.map("mul", g.map("mul", g.add("linear", [parts[0], p("w", 2, 4)]), parts[1]), parts[2])
        self.check({"split": 1, "slice": 0, "mul": 2}, build, 8)

    def test_rotate_by_halves(self):
        """As programs without a permutation of halves have it, and frequencies that divide."""
        for word in ("mul", "div"):
            def build(g, x, p, i):
                f = 1e4 ** (numpy.arange(0, 8, 2) / 8)
                f = g.parameter("timescale", (4,), f if word == "div" else 1 / f, frozen=True, buffer=True)
                angles = g.map(word, g.add("reshape", [i["position_ids"]], size=[B, S, 1]), f, dtype="T")
                cos, sin = (g.add("reshape", [g.map(name, angles)], size=[B, S, 1, 4]) for name in ("cos", "sin"))
                one, two = (g.add("slice", [x], dim=3, start=start, length=4) for start in (0, 4))
                first = g.map("sub", g.map("mul", one, cos), g.map("mul", two, sin))
                y = g.add("concat", [first, g.map("add", g.map("mul", two, cos), g.map("mul", one, sin))], dim=3)
                return g.add("reshape", [y], size=[B, S, 24])
            with self.subTest(word):
                names = ("input_ids", "labels", "position_ids")
                self.check({"rotate": 1, "rope_table": 1, "concat": 0, "slice": 0}, build, 3, 8, names=names, tolerance=1e-9)

    def test_norms_in_other_forms(self):
        """The variance as the mean of squares minus the square of the mean; the weight at the reciprocal root."""
        def mean(g, x):
            return g.map("div", g.add("reduce", [x], kind="sum", dims=[len(x.shape) - 1], keep=True), x.shape[-1])

        def layernorm(g, x, p, i):
            m = mean(g, x)
            variance = g.map("max", g.map("sub", mean(g, g.map("mul", x, x)), g.map("mul", m, m)), 0.0)
            factor = g.map("mul", g.map("rsqrt", g.map("add", variance, 1e-5)), p("w", 8))
            return g.map("add", g.map("mul", g.map("sub", x, m), factor), p("b", 8))

        def rmsnorm(g, x, p, i):
            return g.map("mul", x, g.map("mul", g.map("rsqrt", g.map("add", mean(g, g.map("mul", x, x)), 1e-5)), p("w", 8)))

        self.check({"layernorm": 1}, layernorm, 8, tolerance=1e-9)
        self.check({"rmsnorm": 1}, rmsnorm, 8)

    def test_weights_of_several_dimensions(self):
        """As parameters [E,H,D] and [H,D,E] with a bias [H,D]."""
        def build(g, x, p, i):
            y = g.map("add", g.add("contract", [x, p("w", 8, 3, 4)], equation="bse,ehd->bshd"), p("b", 3, 4))
            return g.add("contract", [y, p("o", 3, 4, 5)], equation="bshd,hdc->bsc")

        graph = self.check({"linear_transposed": 2}, build, 8, without=("map", "reduce", "contract"))
        self.assertEqual([p.value.shape for p in flat_parameters(graph).parameters if p.value.name in "wbo"], [(8, 12), (12,), (12, 5)])

    def test_every_row_has_a_test(self):
        tested = {"reshape", "rmsnorm", "rmsnorm with offset", "layernorm", "layernorm with bias", "silu", "swiglu", "gelu", "gelu with tanh", "relu",
                  "softcap", "rotate", "rotate by halves", "linear", "linear with bias", "scale of queries", "add", "mul", "scale"}
        self.assertEqual({name for name, _, _ in PATTERNS}, tested)

    # --- attention written out -------------------------------------------------------------------------------------------

    def eager(self, g, x, p, i, cap=0.0, sink=False, heads=4, shared=2, scaled_queries=False):
        q, k, v = (g.add("permute", [g.add("reshape", [g.add("linear", [x, p(name, n * 6, 12)])], size=[B, S, n, 6])], order=[0, 2, 1, 3])
                   for name, n in (("q", heads), ("k", shared), ("v", shared)))
        k, v = (g.add("reshape", [g.add("broadcast", [g.add("reshape", [t], size=[B, shared, 1, S, 6])], size=[B, shared, heads // shared, S, 6])],
                      size=[B, heads, S, 6]) for t in (k, v))
        q = g.map("mul", q, 0.5) if scaled_queries else q
        scores = g.map("mul", g.add("contract", [q, g.add("permute", [k], order=[0, 1, 3, 2])], equation="bhqd,bhdk->bhqk"), 0.4)
        if cap:
            scores = g.map("mul", g.map("tanh", g.map("div", scores, cap)), cap)
        rows, columns = (g.add("iota", [], size=size, dim=dim) for size, dim in (([S, 1], 0), ([1, S], 1)))
        causal = g.map("le", columns, rows)
        scores = g.map("add", scores, g.map("where", g.add("reshape", [causal], size=[1, 1, S, S]), 0.0, -1e30))
        if sink:
            one = g.add("broadcast", [g.add("reshape", [p("sink", heads)], size=[1, heads, 1, 1])], size=[B, heads, S, 1])
            weights = g.add("softmax", [g.add("concat", [scores, one], dim=3)], dim=3)
            weights = g.add("slice", [weights], dim=3, start=0, length=S)
        else:
            weights = g.add("softmax", [scores], dim=3)
        y = g.add("contract", [weights, v], equation="bhqk,bhkd->bhqd")
        return g.add("reshape", [g.add("permute", [y], order=[0, 2, 1, 3])], size=[B, S, heads * 6])

    def test_attention(self):
        for about in ({}, {"cap": 5.0}, {"sink": True}, {"shared": 4}, {"shared": 1}, {"scaled_queries": True}, {"cap": 5.0, "sink": True}):
            with self.subTest(**about):
                graph = self.check({"attention": 1, "softmax": 0, "permute": 0, "broadcast": 0, "scale": 0}, lambda *a: self.eager(*a, **about), 12)
                node = next(n for n in graph.nodes if n.op == "attention")
                self.assertEqual(node.params["mask"], [{"kind": "causal"}])
                self.assertAlmostEqual(node.params["scale"], 0.2 if about.get("scaled_queries") else 0.4)
                self.assertAlmostEqual(node.params.get("softcap", 0.0), about.get("cap", 0.0))
                self.assertEqual(node.inputs[1].shape[2], about.get("shared", 2))

    def test_a_learned_bias_is_refused(self):
        graph, inputs, parameter = graph_of()
        x = embedded(graph, inputs, parameter, 1, 6)
        q = graph.add("permute", [x], order=[0, 2, 1, 3])
        scores = graph.add("contract", [q, q], equation="bhqd,bhkd->bhqk")
        rows, columns = (graph.add("iota", [], size=size, dim=dim) for size, dim in (([S, 1], 0), ([1, S], 1)))
        bias = graph.add("index", [parameter("bias", 64), graph.map("sub", rows, columns, dtype="i32")])
        line = graph.source("model.py", 7)
        weights = graph.add("softmax", [graph.map("add", scores, bias)], line, dim=3)
        sum_of_squares(graph, graph.add("permute", [graph.add("contract", [weights, q], equation="bhqk,bhkd->bhqd")], order=[0, 2, 1, 3]))
        with self.assertRaises(Refused) as caught:
            attention.find(graph)
        self.assertIn("parameter bias", str(caught.exception))
        self.assertEqual(caught.exception.line, 7)


class Losses(unittest.TestCase):
    def loss(self, build):
        graph, inputs, parameter = graph_of()
        logits = embedded(graph, inputs, parameter, 23)
        graph.loss = build(graph, logits, inputs["labels"])
        named = recognise(normal_form(graph)).verify()
        before, after = losses(graph, named)
        self.assertAlmostEqual(before, after, 10)
        return named

    def test_mean_over_labels(self):
        def build(g, logits, labels):
            total = g.add("reduce", [g.add("cross_entropy", [logits, labels])], kind="sum", dims=[0, 1])
            count = g.add("reduce", [g.add("cast", [g.map("ne", labels, -100)], dtype="T")], kind="sum", dims=[0, 1])
            return g.map("div", total, count)
        named = self.loss(build)
        self.assertEqual(named.mean_over, "labels")
        self.assertEqual([n.op for n in named.nodes], ["embedding", "cast", "cross_entropy", "sum"])

    def test_logits_are_wide(self):
        for caps, ops_of_logits in ((0, ["linear_wide"]), (1, ["linear_wide", "softcap"])):
            graph, inputs, parameter = graph_of()
            logits = graph.add("linear", [embedded(graph, inputs, parameter, 6), parameter("head", 23, 6)])
            logits = graph.map("mul", graph.map("tanh", graph.map("div", logits, 30.0)), 30.0) if caps else logits
            graph.loss = graph.add("reduce", [graph.add("cross_entropy", [logits, inputs["labels"]])], kind="sum", dims=[0, 1])
            graph.logits = logits
            named = recognise(normal_form(graph)).verify()
            self.assertEqual([n.op for n in named.nodes], ["embedding"] + ops_of_logits + ["cross_entropy", "sum"])
            self.assertIs(next(n for n in named.nodes if n.op == "cross_entropy").inputs[0], named.logits)
            self.assertEqual(named.logits.dtype, "G")
            before, after = losses(graph, named)
            self.assertAlmostEqual(before, after, 10)

    def test_mean_over_tokens(self):
        named = self.loss(lambda g, logits, labels: g.map(
            "div", g.add("reduce", [g.add("cross_entropy", [logits, labels])], kind="sum", dims=[0, 1]), B * S))
        self.assertEqual(named.mean_over, "tokens")

    def test_sum(self):
        named = self.loss(lambda g, logits, labels: g.add("reduce", [g.add("cross_entropy", [logits, labels])], kind="sum", dims=[0, 1]))
        self.assertIsNone(named.mean_over)

    def test_another_divisor_is_refused(self):
        def build(g, logits, labels):
            total = g.add("reduce", [g.add("cross_entropy", [logits, labels])], kind="sum", dims=[0, 1])
            return g.map("div", total, g.add("reduce", [g.add("cast", [labels], dtype="T")], kind="sum", dims=[0, 1]))
        with self.assertRaises(Refused):
            self.loss(build)


if __name__ == "__main__":
    unittest.main()
