"""Sizes, graphs, the verifier, the hash."""
import unittest

from support import B, S, graph_of
from longspan.ir import Refused
from longspan.size import at, divide, plain


class Sizes(unittest.TestCase):
    def test_arithmetic(self):
        self.assertEqual((B * S - B) + B, B * S)
        self.assertEqual(S - S, 0)
        self.assertEqual(str(B * S - 2 * S + 3), "B*S - 2*S + 3")
        self.assertEqual(at(B * (S - 1) * 4, (3, 5)), 48)

    def test_divide(self):
        self.assertEqual(divide(B * S * 6, S * 2), 3 * B)
        self.assertEqual(divide(B * S - B, S - 1), B)
        self.assertIsNone(divide(B * S - B, S))
        self.assertIsNone(divide(S, 2))
        self.assertIsNone(divide(7, 2))

    def test_plain(self):
        self.assertEqual([plain(n) for n in (B, S, 3)], ["B", "S", 3])
        with self.assertRaises(ValueError):
            plain(B * S)


class Graphs(unittest.TestCase):
    def test_equal_nodes_are_one(self):
        graph, inputs, parameter = graph_of()
        table = parameter("table", 23, 4)
        self.assertIs(graph.add("embedding", [inputs["input_ids"], table]), graph.add("embedding", [inputs["input_ids"], table]))

    def test_shapes_that_do_not_fit_are_refused_with_the_line(self):
        graph, inputs, parameter = graph_of()
        x = graph.add("embedding", [inputs["input_ids"], parameter("table", 23, 4)])
        line = graph.source("model.py", 12, "y = self.up(x)")
        with self.assertRaises(Refused) as caught:
            graph.add("linear", [x, parameter("w", 6, 5)], line)
        self.assertEqual((caught.exception.op, caught.exception.file, caught.exception.line), ("linear", "model.py", 12))

    def test_the_verifier_finds_a_wrong_shape_and_a_wrong_order(self):
        graph, inputs, parameter = graph_of()
        x = graph.add("embedding", [inputs["input_ids"], parameter("table", 23, 4)])
        graph.loss = graph.add("sum", [graph.map("mul", x, x)])
        graph.verify()
        x.shape = (B, S, 5)
        with self.assertRaises(AssertionError):
            graph.verify()
        x.shape = (B, S, 4)
        graph.nodes.reverse()
        with self.assertRaises(AssertionError):
            graph.verify()

    def test_the_hash_sees_ops_and_not_order(self):
        def build(swapped, factor):
            graph, inputs, parameter = graph_of()
            a, b = parameter("a", 23, 4), parameter("b", 23, 4)
            x, y = (graph.add("embedding", [inputs["input_ids"], table]) for table in ((b, a) if swapped else (a, b)))
            x, y = (y, x) if swapped else (x, y)
            graph.loss = graph.add("sum", [graph.map("mul", graph.add("mul", [x, y]), factor)])
            return graph.trim().hash()

        self.assertEqual(build(False, 2.0), build(True, 2.0))
        self.assertNotEqual(build(False, 2.0), build(False, 3.0))

    def test_trim_removes_what_no_result_needs(self):
        graph, inputs, parameter = graph_of()
        x = graph.add("embedding", [inputs["input_ids"], parameter("table", 23, 4)])
        graph.map("exp", x)
        parameter("unused", 3)
        graph.loss = graph.add("sum", [x])
        graph.trim()
        self.assertEqual([n.op for n in graph.nodes], ["embedding", "sum"])
        self.assertEqual([p.value.name for p in graph.parameters], ["table"])
        self.assertEqual([i.value.name for i in graph.inputs], ["input_ids"])


if __name__ == "__main__":
    unittest.main()
