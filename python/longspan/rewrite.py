"""Graphs out of graphs: a copy in which a rule replaces nodes, and the small questions that rules ask about values."""
from __future__ import annotations

from .ir import Graph


def like(graph):
    """An empty graph with the same leaves, which it shares, and the same lines of the user's code."""
    new = Graph(graph.dtype)
    new.inputs, new.parameters, new.tokens, new.mean_over = list(graph.inputs), list(graph.parameters), graph.tokens, graph.mean_over
    new.sources, new._sources = graph.sources, graph._sources
    return new


def rebuild(graph, rule):
    """
    A copy, node by node in order. rule(new graph, node, its inputs there) gives the values in the place of the node's, or None: then
    the node is copied. Rules so find their inputs already rewritten.
    """
    new, values = like(graph), {}
    for node in graph.nodes:
        inputs = [None if v is None else values.get(id(v), v) for v in node.inputs]
        results = rule(new, node, inputs)
        if results is None:
            results = new.add(node.op, inputs, node.at, **node.params)
            results = results if isinstance(results, list) else [results]
        values.update((id(old), value) for old, value in zip(node.outputs, results))
    new.loss, new.logits = (values.get(id(v), v) if v is not None else None for v in (graph.loss, graph.logits))
    return new.trim()


def skip_casts(value):
    while value.node is not None and value.node.op == "cast":
        value = value.node.inputs[0]
    return value


def number(operand):
    """A number, or None for a value."""
    return operand if isinstance(operand, (int, float)) and not isinstance(operand, bool) else None


def binary(value):
    """(instruction, operands) of a map of one instruction; (None, ()) of others. Operands: values, numbers, sizes."""
    node = value.node
    if node is None or node.op != "map" or len(node.params["program"]) != 1:
        return None, ()
    word, *operands = node.params["program"][0]
    return word, [node.inputs[int(o[1:])] if isinstance(o, str) else o for o in operands]


def bare(value):
    """The value without casts, and without reshapes that add or remove dimensions of size 1."""
    while True:
        value = skip_casts(value)
        node = value.node
        if node is None or node.op != "reshape" or [n for n in node.inputs[0].shape if n != 1] != [n for n in value.shape if n != 1]:
            return value
        value = node.inputs[0]


def term_of(value):
    """(word, operands) of a value: a map's instruction, or an op with its inputs."""
    node = value.node
    if node is None:
        return None, ()
    word, operands = binary(value)
    if word is None and node.op != "map":
        word, operands = node.op, list(node.inputs)
    if node.op == "scale":
        word, operands = "mul", [node.inputs[0], node.params["factor"]]
    if word == "div" and number(operands[1]):
        word, operands = "mul", [operands[0], 1 / operands[1]]
    return word, operands
