"""What the tests of the Python package share: the package's path, and graphs computed before and after a pass."""
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from longspan import interpret  # noqa: E402
from longspan.ir import Graph  # noqa: E402
from longspan.size import B, S  # noqa: E402

VOCABULARY = 23


def graph_of(names=("input_ids", "labels")):
    """A graph with these inputs, and a function that draws a parameter."""
    graph, random = Graph(), numpy.random.default_rng(len(names))
    graph.tokens = names[0]
    inputs = {name: graph.input(name) for name in names}

    def parameter(name, *shape, **about):
        return graph.parameter(name, shape, random.standard_normal(shape), **about)

    return graph, inputs, parameter


def embedded(graph, inputs, parameter, *shape):
    """A value [B,S,*shape] that depends on the tokens."""
    width = int(numpy.prod(shape))
    x = graph.add("embedding", [inputs["input_ids"], parameter(f"table{width}.{len(graph.parameters)}", VOCABULARY, width)])
    return graph.add("reshape", [x], size=[B, S] + list(shape))


def sum_of_squares(graph, *values):
    """A loss that depends on every element of the values, and on where it stands."""
    total = None
    for x in values:
        marks = x
        for dim, n in enumerate(x.shape):
            if n == 1 or not (n == S or isinstance(n, int)):
                continue
            position = graph.add("iota", [], size=[1] * dim + [n] + [1] * (len(x.shape) - dim - 1), dim=dim)
            marks = graph.map("mul", marks, graph.map("add", graph.map("sin", position), 2.0))
        one = graph.add("reduce", [graph.map("mul", marks, x)], kind="sum", dims=list(range(len(x.shape))))
        total = one if total is None else graph.map("add", total, one)
    graph.loss = total


def batch(graph, sizes=(2, 7), seed=0):
    random = numpy.random.default_rng(seed)
    result = {i.value.name: random.integers(0, VOCABULARY, sizes) for i in graph.inputs}
    if "labels" in result:
        result["labels"][:, ::3] = -100
    if "position_ids" in result:
        result["position_ids"][:] = [i % 4 for i in range(sizes[1])]
    return result


def losses(*graphs, sizes=(2, 7)):
    """The loss of each graph on the same batch."""
    return [interpret.loss(graph, batch(graphs[0], sizes)).item() for graph in graphs]


def ops(graph):
    """How often each op stands in a graph."""
    count = {}
    for node in graph.nodes:
        count[node.op] = count.get(node.op, 0) + 1
    return count
