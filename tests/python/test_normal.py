"""Normal form computes the same as the user's graph, and copies nothing that need not be copied."""
import random
import unittest

from support import B, S, embedded, graph_of, losses, ops, sum_of_squares
from longspan.ir import Refused
from longspan.normal import normal_form

COPIES = ("permute", "broadcast", "slice", "concat")


class NormalForm(unittest.TestCase):
    def same(self, graph, free_of=COPIES, tolerance=1e-12):
        """The normal form, which computes the same at two sizes."""
        normal = normal_form(graph).verify()
        for sizes in ((2, 7), (3, 10)):
            before, after = losses(graph, normal, sizes=sizes)
            self.assertLess(abs(before - after), tolerance * max(1, abs(before)))
        for op in free_of:
            self.assertNotIn(op, ops(normal), f"{op} is left")
        for node in normal.nodes:
            for value in node.outputs:
                if any(str(n) in ("B", "S") for n in value.shape):
                    self.assertEqual(value.shape[:2], (B, S))
        return normal

    def test_heads_that_are_moved_to_the_front(self):
        graph, inputs, parameter = graph_of()
        x = graph.add("permute", [embedded(graph, inputs, parameter, 3, 4)], order=[0, 2, 1, 3])
        y = graph.map("mul", x, parameter("w", 4))
        sum_of_squares(graph, graph.add("permute", [y], order=[0, 2, 1, 3]))
        self.same(graph)

    def test_batch_and_sequence_in_one_dimension(self):
        graph, inputs, parameter = graph_of()
        x = graph.add("reshape", [embedded(graph, inputs, parameter, 6)], size=[B * S, 6])
        y = graph.add("linear", [x, parameter("w", 5, 6), parameter("b", 5)])
        sum_of_squares(graph, graph.add("reshape", [y], size=[B, S, 5]))
        self.same(graph)

    def test_batch_and_heads_in_one_dimension(self):
        graph, inputs, parameter = graph_of()
        x = graph.add("permute", [embedded(graph, inputs, parameter, 3, 4)], order=[0, 2, 1, 3])
        x = graph.map("exp", graph.add("reshape", [x], size=[B * 3, S, 4]))
        sum_of_squares(graph, graph.add("reshape", [x], size=[B, 3, S, 4]))
        self.same(graph)

    def test_sequence_first(self):
        graph, inputs, parameter = graph_of()
        x = graph.add("permute", [embedded(graph, inputs, parameter, 6)], order=[1, 0, 2])
        y = graph.add("linear", [x, parameter("w", 5, 6)])
        sum_of_squares(graph, graph.add("permute", [y], order=[1, 0, 2]))
        self.same(graph)

    def test_repeated_heads_stay_one(self):
        graph, inputs, parameter = graph_of()
        q = embedded(graph, inputs, parameter, 4, 6)
        k, v = (embedded(graph, inputs, parameter, 2, 6) for _ in range(2))
        heads = []
        for x in (k, v):
            x = graph.add("reshape", [graph.add("permute", [x], order=[0, 2, 1, 3])], size=[B, 2, 1, S, 6])
            x = graph.add("reshape", [graph.add("broadcast", [x], size=[B, 2, 2, S, 6])], size=[B, 4, S, 6])
            heads.append(graph.add("permute", [x], order=[0, 2, 1, 3]))
        sum_of_squares(graph, graph.add("attention", [q] + heads, mask=[{"kind": "causal"}], scale=0.3))
        normal = self.same(graph)
        attention = next(n for n in normal.nodes if n.op == "attention")
        self.assertEqual(attention.inputs[1].shape, (B, S, 2, 6))

    def test_heads_repeated_as_a_whole_are_not_shared(self):
        """Heads 0 1 0 1 are not the groups 0 0 1 1 that attention shares."""
        graph, inputs, parameter = graph_of()
        q = embedded(graph, inputs, parameter, 4, 6)
        heads = []
        for _ in range(2):
            x = graph.add("reshape", [embedded(graph, inputs, parameter, 2, 6)], size=[B, S, 1, 2, 6])
            heads.append(graph.add("reshape", [graph.add("broadcast", [x], size=[B, S, 2, 2, 6])], size=[B, S, 4, 6]))
        sum_of_squares(graph, graph.add("attention", [q] + heads, mask=[{"kind": "causal"}], scale=0.3))
        self.same(graph, free_of=())

    def test_a_table_sliced_to_the_sequence(self):
        graph, inputs, parameter = graph_of()
        table = graph.add("slice", [parameter("positions", 40, 6)], dim=0, start=0, length=S)
        sum_of_squares(graph, graph.map("add", embedded(graph, inputs, parameter, 6), table))
        normal = self.same(graph)
        self.assertEqual(ops(normal)["iota"] >= 1 and ops(normal)["embedding"], 2)

    def test_a_table_of_more_dimensions_sliced_to_the_sequence(self):
        graph, inputs, parameter = graph_of()
        table = graph.add("slice", [parameter("positions", 1, 40, 2, 3)], dim=1, start=0, length=S)
        sum_of_squares(graph, graph.map("add", embedded(graph, inputs, parameter, 2, 3), table))
        self.same(graph)

    def test_labels_shifted_by_slices(self):
        graph, inputs, parameter = graph_of()
        logits = graph.add("slice", [embedded(graph, inputs, parameter, 23)], dim=1, start=0, length=S - 1)
        labels = graph.add("slice", [inputs["labels"]], dim=1, start=1, length=S - 1)
        each = graph.add("cross_entropy", [graph.add("reshape", [logits], size=[B * S - B, 23]), graph.add("reshape", [labels], size=[B * S - B])])
        graph.loss = graph.add("reduce", [each], kind="sum", dims=[0])
        normal = self.same(graph)
        self.assertEqual([(i.meaning, i.shift) for i in normal.inputs], [(None, 0), ("labels", 1)])

    def test_labels_shifted_by_padding(self):
        graph, inputs, parameter = graph_of()
        labels = graph.add("pad", [inputs["labels"]], dim=1, before=0, after=1, value=-100)
        labels = graph.add("slice", [labels], dim=1, start=1, length=S)
        graph.loss = graph.add("reduce", [graph.add("cross_entropy", [embedded(graph, inputs, parameter, 23), labels])], kind="sum", dims=[0, 1])
        self.assertEqual(self.same(graph).inputs[1].shift, 1)

    def test_tokens_mixed_with_the_one_before(self):
        """As in RWKV: zeros in front, and all but the last token."""
        graph, inputs, parameter = graph_of()
        x = embedded(graph, inputs, parameter, 6)
        zeros = graph.add("fill", [], size=[B, 1, 6], value=0.0)
        before = graph.add("concat", [zeros, graph.add("slice", [x], dim=1, start=0, length=S - 1)], dim=1)
        sum_of_squares(graph, graph.map("mul", graph.map("exp", before), x))
        self.assertEqual(ops(self.same(graph))["shift"], 1)

    def test_contractions_take_permuted_operands(self):
        graph, inputs, parameter = graph_of()
        x = graph.add("permute", [embedded(graph, inputs, parameter, 3, 4)], order=[0, 2, 1, 3])
        w = graph.add("permute", [parameter("w", 3, 5, 4)], order=[0, 2, 1])
        sum_of_squares(graph, graph.add("contract", [x, w], equation="bhsd,hdf->bshf"))
        self.same(graph)

    def test_features_in_another_order_beside_their_own(self):
        """Of equal sizes: that the order differs is not seen in the shape."""
        graph, inputs, parameter = graph_of()
        x = embedded(graph, inputs, parameter, 3, 3)
        sum_of_squares(graph, graph.map("add", x, graph.map("exp", graph.add("permute", [x], order=[0, 1, 3, 2]))))
        self.same(graph, free_of=())

    def test_outer_products_are_maps(self):
        graph, inputs, parameter = graph_of(("input_ids", "position_ids"))
        f = graph.add("reshape", [parameter("f", 4)], size=[1, 4, 1])
        p = graph.add("cast", [graph.add("reshape", [inputs["position_ids"]], size=[B, 1, S])], dtype="T")
        f = graph.add("broadcast", [f], size=[B, 4, 1])
        sum_of_squares(graph, graph.add("contract", [f, p], equation="bdi,bis->bsd"))
        self.assertNotIn("contract", ops(self.same(graph)))

    def test_refusals(self):
        for words, build in {
            "S × S": lambda g, x: g.add("contract", [x, x], equation="bse,bte->bst"),
            "reduces along the sequence": lambda g, x: g.add("reduce", [x], kind="max", dims=[1]),
            "only a shift": lambda g, x: g.add("slice", [x], dim=1, start=2, length=3),
            "concatenates along the sequence": lambda g, x: g.add("concat", [x, x], dim=1),
            "must stay whole": lambda g, x: g.add("softmax", [g.add("reshape", [g.add("permute", [x], order=[0, 2, 1])], size=[B, 6 * S])], dim=1),
            "along the sequence": lambda g, x: g.add("softmax", [x], dim=1),
        }.items():
            graph, inputs, parameter = graph_of()
            sum_of_squares(graph, build(graph, embedded(graph, inputs, parameter, 6)))
            with self.subTest(words):
                with self.assertRaises(Refused) as caught:
                    normal_form(graph)
                self.assertIn(words, str(caught.exception))


class RandomGraphs(unittest.TestCase):
    """Chains of random permutes, reshapes, repetitions, products, sums over features and contractions."""

    def test_random(self):
        for seed in range(150):
            with self.subTest(seed=seed):
                self.one(seed)

    def one(self, seed):
        draw = random.Random(seed)
        graph, inputs, parameter = graph_of()
        x = embedded(graph, inputs, parameter, 2, 6)
        w = parameter("w", 6)
        values = [x]
        for _ in range(8):
            x = draw.choice(values[-3:])
            shape = list(x.shape)
            kind = draw.randrange(7)
            if kind == 0:
                order = list(range(len(shape)))
                draw.shuffle(order)
                x = graph.add("permute", [x], order=order)
            elif kind == 1 and len(shape) > 1:  # two neighbours become one
                i = draw.randrange(len(shape) - 1)
                x = graph.add("reshape", [x], size=shape[:i] + [shape[i] * shape[i + 1]] + shape[i + 2:])
            elif kind == 2:  # one becomes two
                i = next((i for i, n in enumerate(shape) if n in (4, 6, 12)), None)
                if i is not None:
                    x = graph.add("reshape", [x], size=shape[:i] + [2, shape[i] // 2] + shape[i + 1:])
            elif kind == 3 and len(shape) < 6:
                i = draw.randrange(len(shape) + 1)
                x = graph.add("broadcast", [graph.add("reshape", [x], size=shape[:i] + [1] + shape[i:])], size=shape[:i] + [2] + shape[i:])
            elif kind == 4:
                x = graph.map(draw.choice(["sin", "tanh"]), x)
            elif kind == 5:
                i = draw.randrange(len(shape))
                if isinstance(shape[i], int):
                    x = graph.add("reduce", [x], kind=draw.choice(["sum", "max"]), dims=[i], keep=draw.random() < 0.5)
            elif shape[-1] == 6:
                x = graph.map("mul", x, w)
            other = next((v for v in values if v.shape == x.shape and v is not x), None)
            if other is not None:
                x = graph.map("add", x, other)
            if len(x.shape) <= 6:
                values.append(x)
        sum_of_squares(graph, values[-1])
        try:
            normal = normal_form(graph).verify()
        except Refused as refused:  # splits of what token dimensions were merged with
            self.assertRegex(str(refused), "stay whole|reshapes|combines|side by side")
            return
        before, after = losses(graph, normal)
        self.assertLess(abs(before - after), 1e-10 * max(1, abs(before)))


if __name__ == "__main__":
    unittest.main()
