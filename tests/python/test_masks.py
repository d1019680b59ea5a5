"""Masks: the terms that are found show what the user's mask shows; others are refused by name."""
import unittest

import numpy

from support import B, S, graph_of
from longspan import interpret, mask_sets as sets, masks


def iotas(g):
    rows = g.add("iota", [], size=[1, 1, S, 1], dim=2)
    return rows, g.add("iota", [], size=[1, 1, 1, S], dim=3)


def causal(g):
    rows, columns = iotas(g)
    return g.map("le", columns, rows)


def per_token(g, value):
    """A value [B,S] for the queries and for the keys."""
    return g.add("reshape", [value], size=[B, 1, S, 1]), g.add("reshape", [value], size=[B, 1, 1, S])


def packed(g, positions):
    """The number of each token's document, as transformers finds it from position_ids."""
    first = g.map("sub", g.add("slice", [positions], dim=1, start=0, length=1), 1, dtype="i32")
    joined = g.add("concat", [first, positions], dim=1)
    step = g.map("sub", g.add("slice", [joined], dim=1, start=1, length=S), g.add("slice", [joined], dim=1, start=0, length=S), dtype="i32")
    return g.add("cumsum", [g.map("ne", step, 1)], dim=1)


class Masks(unittest.TestCase):
    NAMES = ("input_ids", "position_ids", "segments", "padding")

    def found(self, build, expected, additive=False):
        """The terms of build(graph, inputs), which must show what the graph's own mask does."""
        graph, inputs, parameter = graph_of(self.NAMES)
        value = build(graph, inputs)
        terms, documents = masks.mask(graph, [value])
        self.assertEqual(terms, expected)
        n = 11
        batch = {"input_ids": numpy.zeros((2, n)), "padding": numpy.ones((2, n)),
                 "position_ids": numpy.array([[i % 5 for i in range(n)], list(range(n))]),
                 "segments": numpy.array([[i // 4 for i in range(n)], [0] * n])}
        graph.loss = value
        mask = interpret.evaluate(graph, batch)[value.name]
        mask = mask > masks.HIDDEN if additive else mask != 0
        ids = batch[documents.input] if documents else None
        if documents and documents.meaning == "positions":
            ids = interpret.documents_of(ids)
        shown = numpy.broadcast_to(interpret.visible(terms, n, ids), (2, 1, n, n))
        self.assertTrue((numpy.broadcast_to(mask, (2, 1, n, n)) == shown).all())
        return documents

    def refused(self, build, words):
        graph, inputs, parameter = graph_of(self.NAMES)
        with self.assertRaises(masks.NoMask) as caught:
            masks.mask(graph, [build(graph, inputs)])
        self.assertIn(words, str(caught.exception))

    def test_causal(self):
        terms = [{"kind": "causal"}]
        self.found(lambda g, i: causal(g), terms)
        self.found(lambda g, i: g.map("not", g.map("lt", iotas(g)[0], iotas(g)[1])), terms)
        self.found(lambda g, i: g.map("le", 0, g.map("sub", *iotas(g), dtype="i32")), terms)
        self.found(lambda g, i: g.map("lt", iotas(g)[1], g.map("add", iotas(g)[0], 1, dtype="i32")), terms)

    def test_distances(self):
        def distance(g):
            return g.map("sub", *iotas(g), dtype="i32")

        def within(g, w):
            return g.map("lt", g.map("abs", distance(g), dtype="i32"), w)

        window = [{"kind": "window", "window": 4, "first": 0}]
        self.found(lambda g, i: g.map("and", within(g, 4), causal(g)), window)
        self.found(lambda g, i: g.map("not", g.map("or", g.map("not", within(g, 4)), g.map("not", causal(g)))), window)
        self.found(lambda g, i: g.map("ne", causal(g), g.map("le", 4, distance(g))), window)  # one triangle without another
        self.found(lambda g, i: g.map("le", g.map("where", g.map("lt", distance(g), 0), 9, distance(g), dtype="i32"), 3), window)
        self.found(lambda g, i: g.map("le", 0, g.map("min", distance(g), 3, dtype="i32")), [{"kind": "causal"}])
        self.found(lambda g, i: g.map("and", g.map("le", -2, distance(g)), causal(g)), [{"kind": "causal"}])
        def squared(g, i):
            return g.map("mul", distance(g), distance(g), dtype="i32")

        only = [{"kind": "causal"}]
        self.found(lambda g, i: g.map("and", g.map("lt", squared(g, i), 16), causal(g)), window)
        self.found(lambda g, i: g.map("and", g.map("le", g.map("pow", distance(g), 2, dtype="i32"), 9), causal(g)), window)
        self.found(lambda g, i: g.map("le", g.map("mul", distance(g), g.map("sub", distance(g), 3, dtype="i32"), dtype="i32"), 0), window)
        self.found(lambda g, i: g.map("eq", g.map("max", distance(g), 0, dtype="i32"), g.map("abs", distance(g), dtype="i32")), only)
        self.found(lambda g, i: g.map("eq", g.map("max", distance(g), 0, dtype="i32"), distance(g)), only)
        self.found(lambda g, i: g.map("le", 0, g.map("sign", distance(g), dtype="i32")), only)
        self.found(lambda g, i: g.map("le", 0, g.map("pow", distance(g), 3, dtype="i32")), only)
        self.found(lambda g, i: g.map("and", g.map("lt", g.map("mul", g.map("abs", distance(g), dtype="i32"), 2, dtype="i32"), 7), causal(g)), window)
        self.found(lambda g, i: g.map("or", g.map("and", causal(g), within(g, 3)), g.map("eq", distance(g), 3)), window)
        self.refused(lambda g, i: g.map("and", g.map("lt", 16, squared(g, i)), causal(g)), "has the term q - k - 5 >= 0")
        self.refused(lambda g, i: g.map("lt", g.map("mul", *iotas(g), dtype="i32"), 9), "computes mul of q and k")
        self.refused(lambda g, i: g.map("and", g.map("ne", squared(g, i), 4), causal(g)), "has the term")  # all but one
        self.refused(lambda g, i: g.map("lt", g.map("pow", distance(g), 0.5), 2), "computes pow of q - k and 0.5")
        self.refused(lambda g, i: within(g, 4), "sees 3 tokens ahead")
        self.refused(lambda g, i: g.map("and", g.map("not", within(g, 4)), causal(g)), "has the term")  # far tokens alone
        self.refused(lambda g, i: g.map("le", 1, distance(g)), "has the term q - k - 1 >= 0")

    def test_sets_of_integers(self):
        """Where random polynomials are not negative, and what sets have in common, integer by integer."""
        generator = numpy.random.default_rng(1)

        def has(numbers, x):
            return any(low <= x <= high for low, high in numbers)

        for _ in range(300):
            p = [int(c) for c in generator.integers(-900, 900, 6) // generator.choice([1, 30, 900], 6)][:generator.integers(1, 7)]
            first, second = sets.not_negative(p), sets.not_negative([int(c) for c in generator.integers(-9, 9, 3)])
            for x in range(-60, 61):
                self.assertEqual(has(first, x), sum(c * x ** n for n, c in enumerate(p)) >= 0, (p, x))
                self.assertEqual(has(sets.complement(first), x), not has(first, x))
                self.assertEqual(has(sets.union(first, second), x), has(first, x) or has(second, x))
                self.assertEqual(has(sets.intersection(first, second), x), has(first, x) and has(second, x))
        self.assertEqual(sets.not_negative([10 ** 20 - 1, 0, -1]), [(1 - 10 ** 10, 10 ** 10 - 1)])

    def test_causal_as_numbers_that_are_added(self):
        self.found(lambda g, i: g.map("where", causal(g), 0.0, -1e38), [{"kind": "causal"}], additive=True)
        self.found(lambda g, i: g.map("mul", g.map("sub", 1.0, g.add("cast", [causal(g)], dtype="T")), -1e9), [{"kind": "causal"}], additive=True)

    def test_a_buffer(self):
        def build(g, i):
            buffer = g.parameter("bias", (1, 1, 32, 32), numpy.tril(numpy.ones((1, 1, 32, 32))), frozen=True, buffer=True)
            part = g.add("slice", [g.add("slice", [buffer], dim=2, start=0, length=S)], dim=3, start=0, length=S)
            return g.map("ne", part, 0)
        self.found(build, [{"kind": "causal"}])

    def test_window(self):
        def build(g, i):
            rows, columns = iotas(g)
            return g.map("and", causal(g), g.map("lt", g.map("sub", rows, 4, dtype="i32"), columns))
        self.found(build, [{"kind": "window", "window": 4, "first": 0}])

    def test_window_that_keeps_the_first(self):
        def build(g, i):
            rows, columns = iotas(g)
            near = g.map("or", g.map("lt", g.map("sub", rows, columns, dtype="i32"), 3), g.map("lt", columns, 2))
            return g.map("and", causal(g), near)
        self.found(build, [{"kind": "window", "window": 3, "first": 2}])

    def test_prefix(self):
        self.found(lambda g, i: g.map("or", causal(g), g.map("lt", iotas(g)[1], 4)), [{"kind": "prefix", "first": 4}])

    def test_full(self):
        self.found(lambda g, i: g.add("fill", [], size=[1, 1, S, S], value=1.0, dtype="bool"), [])

    def test_documents_by_numbers(self):
        def build(g, i):
            return g.map("and", g.map("eq", *per_token(g, i["segments"])), causal(g))
        self.assertEqual(self.found(build, [{"kind": "causal"}, {"kind": "documents"}]), masks.Told("segments", "documents"))

    def test_documents_by_positions(self):
        def build(g, i):
            return g.map("and", causal(g), g.map("eq", *per_token(g, packed(g, i["position_ids"]))))
        self.assertEqual(self.found(build, [{"kind": "causal"}, {"kind": "documents"}]), masks.Told("position_ids", "positions"))

    def padding(self, g, i, causal_too=True):
        hidden = g.map("ne", per_token(g, i["padding"])[1], 0)
        return g.map("and", causal(g), hidden) if causal_too else hidden

    def test_padding(self):
        """What the tokens that count see."""
        def shown(build, expected, additive=False):
            graph, inputs, parameter = graph_of(self.NAMES)
            value = build(graph, inputs)
            terms, by = masks.mask(graph, [value])
            self.assertEqual((terms, by), (expected, masks.Told("padding", "padding")))
            padding = numpy.array([[0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0, 0, 0], [1] * 9])
            graph.loss = value
            mask = interpret.evaluate(graph, {**{name: numpy.zeros(padding.shape) for name in self.NAMES}, "padding": padding})[value.name]
            mask = numpy.broadcast_to(mask > masks.HIDDEN if additive else mask != 0, (3, 1, 9, 9))
            ours = numpy.broadcast_to(interpret.visible(terms, 9, padding), mask.shape)
            self.assertTrue((mask == ours).transpose(0, 2, 3, 1)[padding != 0].all())

        both = [{"kind": "causal"}, {"kind": "documents"}]
        shown(self.padding, both)
        shown(lambda g, i: self.padding(g, i, False), both[1:])
        shown(lambda g, i: g.map("and", causal(g), g.map("lt", 0, per_token(g, i["padding"])[1])), both)
        shown(lambda g, i: g.map("and", self.padding(g, i), g.map("eq", per_token(g, i["padding"])[0], 1)), both)
        shown(lambda g, i: g.map("not", g.map("eq", per_token(g, i["padding"])[1], 0)), both[1:])
        shown(lambda g, i: g.map("mul", g.map("sub", 1, g.add("cast", [per_token(g, i["padding"])[1]], dtype="T")), -1e9), both[1:], additive=True)
        shown(lambda g, i: g.map("where", self.padding(g, i), 0.0, -1e38), both, additive=True)

    def test_documents_by_marks(self):
        """A document begins at each 3 (first), or behind it (last)."""
        def marks(g, i):
            return g.add("cast", [g.map("eq", i["input_ids"], 3)], dtype="i32")

        def up_to(g, i):
            return g.add("cumsum", [g.map("eq", 3, i["input_ids"])], dim=1)

        def before(g, i):
            return g.map("sub", up_to(g, i), marks(g, i), dtype="i32")

        def moved(g, i, front=0.0):
            part = g.add("slice", [up_to(g, i)], dim=1, start=0, length=S - 1)
            return g.add("concat", [g.add("fill", [], size=[B, 1], value=front, dtype="i32"), part], dim=1)

        def padded(g, i):
            return g.add("slice", [g.add("pad", [up_to(g, i)], dim=1, before=1, after=0, value=0)], dim=1, start=0, length=S)

        ids = numpy.array([[3, 5, 3, 1, 2, 3, 3, 4, 1], [1, 2, 4, 5, 6, 7, 8, 9, 3]])
        for count, meaning in ((up_to, "first"), (before, "last"), (moved, "last"), (padded, "last")):
            with self.subTest(count.__name__):
                graph, inputs, parameter = graph_of(self.NAMES)
                value = graph.map("and", graph.map("eq", *per_token(graph, count(graph, inputs))), causal(graph))
                terms, told = masks.mask(graph, [value])
                self.assertEqual(told, masks.Told("input_ids", meaning, 3))
                self.assertEqual(terms, [{"kind": "causal"}, {"kind": "documents"}])
                graph.loss = value
                mask = interpret.evaluate(graph, {**{name: numpy.zeros(ids.shape) for name in self.NAMES}, "input_ids": ids})[value.name]
                self.assertTrue((mask != 0).any(axis=(1, 2)).all())
                self.assertTrue(((mask != 0) == interpret.visible(terms, 9, interpret.numbers_of(ids, meaning, 3))).all())
        self.refused(lambda g, i: g.map("eq", *per_token(g, moved(g, i, 1.0))), "counts from 1")
        self.refused(lambda g, i: g.map("eq", *per_token(g, g.add("cumsum", [g.map("lt", 3, i["input_ids"])], dim=1))), "has the term cumsum")
        self.refused(lambda g, i: g.map("le", *per_token(g, up_to(g, i))), "has the term")

    def test_positions_compared_within_documents(self):
        def build(g, i):
            q, k = per_token(g, i["position_ids"])
            inside = g.map("eq", *per_token(g, packed(g, i["position_ids"])))
            near = g.map("lt", g.map("sub", q, 3, dtype="i32"), k)
            return g.map("and", g.map("and", g.map("le", k, q), near), inside)
        self.found(build, [{"kind": "window", "window": 3, "first": 0}, {"kind": "documents"}])

    def test_positions_compared_without_documents_are_refused(self):
        def build(g, i):
            q, k = per_token(g, i["position_ids"])
            return g.map("le", k, q)
        self.refused(build, "position_ids[q] - position_ids[k] >= 0")

    def test_refusals(self):
        self.refused(lambda g, i: g.map("and", causal(g), g.map("ne", per_token(g, i["padding"])[1], 7)), "padding[k] - 7")
        self.refused(lambda g, i: g.map("and", self.padding(g, i), g.map("eq", *per_token(g, i["segments"]))), "by two inputs, padding and segments")
        self.refused(lambda g, i: g.map("lt", g.map("sub", *iotas(g), dtype="i32"), 3), "no causal bound")
        self.refused(lambda g, i: g.map("lt", *iotas(g)[::-1]), "q - k - 1 >= 0")
        self.refused(lambda g, i: g.map("mul", g.map("sub", *iotas(g), dtype="i32"), -0.5), "a bias")
        self.refused(lambda g, i: g.map("lt", 0, g.parameter("w", (1, 1, 1, 1), numpy.ones((1, 1, 1, 1)))), "the parameter w")


if __name__ == "__main__":
    unittest.main()
