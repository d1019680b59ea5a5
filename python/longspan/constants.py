"""Numbers that depend on no input and no parameter, computed once: frequencies of positions, tables, masks of a fixed size."""
from __future__ import annotations

import numpy

from . import interpret
from .ir import Graph
from .rewrite import rebuild

LARGEST = 1 << 24  # elements
SIMPLE = ("fill", "iota", "reshape", "broadcast", "cast")  # made where they are needed


def fold(graph: Graph) -> Graph:
    """The graph with a buffer in the place of each value that is computed from constants of fixed sizes alone."""
    known = {id(p.value): p.array() for p in graph.parameters if p.buffer}
    simple = set()
    for node in graph.nodes:
        fixed = all(isinstance(n, int) for v in node.outputs for n in v.shape)
        if not fixed or len(node.outputs) != 1 or numpy.prod(node.outputs[0].shape) > LARGEST or not all(id(v) in known for v in node.inputs) or \
                node.op not in interpret.OPS:
            continue
        known[id(node.outputs[0])] = interpret.OPS[node.op](interpret.NUMPY, node.params, *[known[id(v)] for v in node.inputs], sizes=(1, 1))
        if isinstance(known[id(node.outputs[0])], list):
            known[id(node.outputs[0])] = known[id(node.outputs[0])][0]
        if node.op in SIMPLE and all(v.node is None or id(v) in simple for v in node.inputs):
            simple.add(id(node.outputs[0]))
    made = {}

    def constant(new, value):
        if id(value) not in made:
            array = known[id(value)]
            if array.size and (array == array.flat[0]).all():
                made[id(value)] = new.add("fill", [], size=list(value.shape), value=float(array.flat[0]), dtype=value.dtype)
            else:
                name, data = f"constant.{len(made)}", array.astype(numpy.float32)
                made[id(value)] = new.parameter(name, value.shape, data, dtype="T", frozen=True, buffer=True)
        return made[id(value)]

    def rule(new, node, inputs):
        if id(node.outputs[0]) in known and id(node.outputs[0]) not in simple:
            return [node.outputs[0]]  # replaced where a node reads it
        inputs = [constant(new, v) if v is not None and id(v) in known and id(v) not in simple and v.node is not None else w
                  for v, w in zip(node.inputs, inputs)]
        results = new.add(node.op, inputs, node.at, **node.params)
        return results if isinstance(results, list) else [results]

    return rebuild(graph, rule)
