"""graph.json and safetensors, as written."""
import json
import os
import tempfile
import unittest

import numpy

from support import S, embedded, graph_of
from longspan import folder
from longspan.ir import Refused
from longspan.normal import normal_form
from longspan.recognise import recognise


def small():
    graph, inputs, parameter = graph_of()
    graph.source("model.py", 3, "loss")
    x = embedded(graph, inputs, parameter, 6)
    x = graph.map("add", x, graph.add("slice", [parameter("positions", 40, 6)], dim=0, start=0, length=S))
    graph.logits = graph.add("linear", [x, parameter("head", 23, 6)], 0)
    labels = graph.add("slice", [graph.add("pad", [inputs["labels"]], dim=1, before=0, after=1, value=-1)], dim=1, start=1, length=S)
    graph.loss = graph.add("reduce", [graph.add("cross_entropy", [graph.logits, labels], ignored=-1)], kind="sum", dims=[0, 1])
    return recognise(normal_form(graph))


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    return {name: numpy.frombuffer(data[8 + n:][slice(*about["data_offsets"])], "<f8").reshape(about["shape"]) for name, about in header.items()}


class Folder(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.place.name, "out")

    def tearDown(self):
        self.place.cleanup()

    def test_graph(self):
        folder.write(small(), self.out, "a test")
        with open(os.path.join(self.out, "graph.json")) as file:
            graph = json.load(file)
        self.assertEqual((graph["format"], graph["version"], graph["tokens"], graph["documents"]), ("longspan-graph", 1, "input_ids", False))
        self.assertEqual(graph["inputs"][1], {"name": "labels", "dtype": "i32", "is": "labels", "shift": 1})
        self.assertEqual({node["op"] for node in graph["nodes"]}, {"embedding", "iota", "add", "linear_wide", "cross_entropy", "sum"})
        self.assertEqual(next(n for n in graph["nodes"] if n["op"] == "iota"), {"op": "iota", "in": [], "out": ["t2"], "along": "S"})
        self.assertEqual(graph["sources"], [{"file": "model.py", "line": 3, "code": "loss"}])
        given = {i["name"] for i in graph["inputs"]} | {p["name"] for p in graph["parameters"]}
        for node in graph["nodes"]:
            self.assertLessEqual(set(node["in"]), given)
            given |= set(node["out"])
        self.assertLessEqual({graph["loss"], graph["logits"]}, given)

    def test_parameters(self):
        graph = small()
        folder.write(graph, self.out)
        tensors = read(os.path.join(self.out, "model.safetensors"))
        self.assertEqual(set(tensors), {p.value.name for p in graph.parameters})
        for p in graph.parameters:
            self.assertTrue((tensors[p.value.name] == p.data).all())

    def test_files_of_the_user_are_linked(self):
        graph = small()
        mine = os.path.join(self.place.name, "mine")
        os.makedirs(mine)
        graph.parameters[1].buffer = True
        rest = [p for p in graph.parameters if not p.buffer]
        folder.write_safetensors(os.path.join(mine, "weights.safetensors"), [(p.value.name, p.data) for p in rest])
        folder.write(graph, self.out, weights=mine)
        self.assertTrue(os.path.islink(os.path.join(self.out, "weights.safetensors")))
        self.assertEqual(list(read(os.path.join(self.out, "buffers.safetensors"))), [graph.parameters[1].value.name])
        with open(os.path.join(self.out, "model.safetensors.index.json")) as file:
            self.assertEqual(len(json.load(file)["weight_map"]), len(graph.parameters))
        graph.parameters[1].buffer = False
        with self.assertRaises(Refused) as caught:
            folder.write(graph, self.out, weights=mine)
        self.assertIn(graph.parameters[1].value.name, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
