"""The graph of a model: values with symbolic sizes, nodes, and the rule of each op's shapes.

Front ends write a graph with the ops below in the user's own order of dimensions. `normal.py` brings it into normal form, `recognise.py`
puts named ops in the place of groups of nodes, and `folder.py` writes it as graph.json. A value has one of the types
"T" (of the parameters), "G" (that of sums), "i32" and "bool". Docs of the named ops: include/longspan/graph.h.
"""
from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, List, Optional, Union

from .size import B, S, divide, product

UNARY = "neg abs sign exp log log1p sqrt rsqrt sin cos tanh sigmoid erf floor".split()
BINARY = "add sub mul div pow min max mod lt le eq ne and or".split()
CONDITIONS = "lt le eq ne and or not".split()
TELL = ("documents", "padding", "first", "last")  # meanings of inputs by which documents are found, but for positions
OPERANDS = {**{word: 1 for word in UNARY + ["not"]}, **{word: 2 for word in BINARY}, "where": 3}


class Refused(Exception):
    """The model cannot be imported: what is in the way, and where it stands in the user's code."""

    def __init__(self, why, op=None, source=None):
        self.why, self.op, self.source = why, op, source
        self.file, self.line, self.code = source or (None, None, None)
        super().__init__(self.text())

    def text(self):
        where = f"{self.file}:{self.line}: " if self.file else ""
        return f"{where}{self.op + ': ' if self.op else ''}{self.why}" + (f"\n    {self.code}" if self.code else "")


class Wrong(Exception):
    """A node's inputs or parameters do not fit its op."""


class Value:
    """What a node computes, an input or a parameter. `shape` has integers and sizes with B and S."""

    __slots__ = ("name", "shape", "dtype", "node")

    def __init__(self, name, shape, dtype, node=None):
        self.name, self.shape, self.dtype, self.node = name, tuple(shape), dtype, node

    def __repr__(self):
        return f"{self.name}:{self.dtype}[{','.join(str(n) for n in self.shape)}]"


@dataclass(eq=False)
class Node:
    op: str
    inputs: List[Optional[Value]]
    params: dict
    outputs: List[Value] = field(default_factory=list)
    at: Optional[int] = None  # index of Graph.sources

    def __repr__(self):
        words = ", ".join(f"{key}={value}" for key, value in self.params.items())
        return f"{self.outputs} = {self.op}({self.inputs}{', ' + words if words else ''})"


@dataclass(eq=False)
class Input:
    value: Value
    # "labels", "positions", "documents", "padding" (1 and 0), "first" or "last" (a document begins at, or behind, each `number`); None: a file
    # of the user's gives it
    meaning: Optional[str] = None
    shift: int = 0  # of labels: the graph's label of token i is the user's of token i + shift; behind the last ones are ignored
    number: Optional[int] = None  # of "first" and "last"
    ignored: Optional[int] = -100  # of labels: the user's value of labels that do not count; None: all do


@dataclass(frozen=True)
class Weights:
    """What a weighted mean is divided by: the sum over tokens of a product of inputs, at least `least`, and `plus`."""

    factors: tuple  # (name of an input, shift: of token i, its number for token i + shift; 0 beyond the sequence)
    labels: bool = False  # of tokens alone whose label counts
    least: Optional[float] = None
    plus: float = 0.0

    def __str__(self):
        return "the sum of " + " * ".join(name for name, _ in self.factors)


@dataclass(eq=False)
class Parameter:
    value: Value
    data: Any = None  # its numbers: an array, or an object of a front end with array(), raw(), dtype, shape and size
    frozen: bool = False
    buffer: bool = False
    also: List[str] = field(default_factory=list)  # further names of a tied parameter

    def array(self):
        """The numbers as a NumPy array of f64."""
        import numpy
        return numpy.asarray(self.data.array() if hasattr(self.data, "array") else self.data, dtype=numpy.float64)


class Graph:
    """Nodes in order, with inputs, parameters and results. Equal nodes are one."""

    def __init__(self, dtype="f32"):
        self.dtype = dtype
        self.inputs: List[Input] = []
        self.parameters: List[Parameter] = []
        self.nodes: List[Node] = []
        self.sources: List[tuple] = []  # (file, line, code)
        self.tokens: Optional[str] = None
        self.loss: Optional[Value] = None
        self.logits: Optional[Value] = None
        self.mean_over: Union[str, Weights, None] = None  # "labels" or "tokens"
        self.labels_of_padding = False  # whether the loss counts labels of padding, unless they are those that are ignored
        self._known, self._sources, self._count = {}, {}, 0

    def input(self, name, dtype="i32", **about):
        value = Value(name, (B, S), dtype)
        self.inputs.append(Input(value, **about))
        return value

    def parameter(self, name, shape, data=None, dtype="T", **about):
        value = Value(name, shape, dtype)
        self.parameters.append(Parameter(value, data, **about))
        return value

    def parameter_of(self, value):
        return next((p for p in self.parameters if p.value is value), None)

    def input_of(self, value):
        return next((i for i in self.inputs if i.value is value), None)

    def source(self, file, line, code=""):
        """The index of a line of the user's code."""
        key = (file, line, code)
        if key not in self._sources:
            self._sources[key] = len(self.sources)
            self.sources.append(key)
        return self._sources[key]

    def refuse(self, why, op=None, at=None):
        raise Refused(why, op, None if at is None else self.sources[at])

    def add(self, op, inputs, at=None, **params):
        """Adds a node, or finds the one that is equal. Returns its value (several: a list)."""
        inputs = list(inputs)
        key = (op, tuple(id(v) for v in inputs), json.dumps(params, sort_keys=True, default=str))
        node = self._known.get(key)
        if node is None:
            node = Node(op, inputs, params, at=at)
            try:
                results = shapes(node)
            except Wrong as wrong:
                self.refuse(str(wrong), op, at)
            for shape, dtype in results:
                self._count += 1
                node.outputs.append(Value(f"t{self._count}", shape, dtype, node))
            self.nodes.append(node)
            self._known[key] = node
        return node.outputs[0] if len(node.outputs) == 1 else node.outputs

    def map(self, word, *operands, at=None, dtype=None):
        """A map of one instruction; operands are values and numbers."""
        values, words = [], []
        for operand in operands:
            if isinstance(operand, Value):
                if operand not in values:
                    values.append(operand)
                words.append(f"i{values.index(operand)}")
            else:
                words.append(operand)
        params = {} if dtype in (None, "T") else {"dtypes": [dtype]}
        return self.add("map", values, at=at, program=[[word] + words], **params)

    def outputs(self):
        return [value for value in (self.loss, self.logits) if value is not None]

    def trim(self):
        """Removes nodes, parameters and inputs that no result depends on; puts what is needed first in order."""
        order, seen = [], set()

        def visit(value):
            stack = [(value, False)]
            while stack:
                value, done = stack.pop()
                node = value.node if value is not None else None
                if node is None:
                    if value is not None:
                        seen.add(id(value))
                elif done:
                    order.append(node)
                elif id(node) not in seen:
                    seen.add(id(node))
                    stack.append((value, True))
                    stack.extend((v, False) for v in reversed(node.inputs))

        for value in self.outputs():
            visit(value)
        self.nodes = order
        alive = {id(node) for node in order}
        self._known = {key: node for key, node in self._known.items() if id(node) in alive}
        self.inputs = [i for i in self.inputs if id(i.value) in seen or i.value.name == self.tokens or i.meaning in TELL]
        self.parameters = [p for p in self.parameters if id(p.value) in seen]
        return self

    def users(self):
        """{id of a value: nodes that read it}"""
        users = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    users.setdefault(id(value), []).append(node)
        return users

    def verify(self):
        """Derives every shape again, and checks that nodes read what is there."""
        there = {id(i.value) for i in self.inputs} | {id(p.value) for p in self.parameters}
        for node in self.nodes:
            for value in node.inputs:
                assert value is None or id(value) in there, f"{node}: reads {value}, which no node before it gives"
            found = [(tuple(shape), dtype) for shape, dtype in shapes(node)]
            assert found == [(v.shape, v.dtype) for v in node.outputs], f"{node}: its rule gives {found}"
            there |= {id(v) for v in node.outputs}
        assert all(id(v) in there for v in self.outputs()), "a result that no node gives"
        return self

    def hash(self):
        """Equal for graphs of the same ops on the same parameters, whatever the names of values and the order of nodes."""
        names = {}
        for i in self.inputs:
            names[id(i.value)] = f"input {i.value.name} {i.meaning} {i.shift} {i.ignored}"
        for p in self.parameters:
            names[id(p.value)] = f"parameter {p.value} {p.frozen} {p.also}"
        for node in self.nodes:
            text = json.dumps([node.op, [v is not None and names[id(v)] for v in node.inputs], rounded(node.params)], sort_keys=True, default=str)
            digest = hashlib.sha256(text.encode()).hexdigest()
            for i, value in enumerate(node.outputs):
                names[id(value)] = f"{digest}.{i}"
        return hashlib.sha256(repr([names[id(v)] for v in self.outputs()] + [self.mean_over]).encode()).hexdigest()[:16]


def rounded(x):
    """Parameters of nodes, with numbers to 12 digits: 1 / sqrt(D) and D^-0.5 are one scale."""
    if isinstance(x, dict):
        return {key: rounded(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [rounded(value) for value in x]
    return f"{x:.12g}" if isinstance(x, float) else x


# --- shapes: one rule per op -------------------------------------------------------------------------------------------


def need(condition, text):
    if not condition:
        raise Wrong(text)


def broadcast_shapes(inputs):
    """The shape of the inputs' elements side by side: aligned at the last dimension, size 1 and missing ones are repeated."""
    shape = []
    for i in range(-max((len(s) for s in inputs), default=0), 0):
        sizes = {s[i] for s in inputs if len(s) >= -i} - {1}
        need(len(sizes) < 2, f"sizes {sorted(map(str, sizes))} stand in one dimension")
        shape.append(sizes.pop() if sizes else 1)
    return tuple(shape)


def _map(node, *inputs):
    conditions = []
    for step in node.params["program"]:
        need(step[0] in OPERANDS and len(step) == OPERANDS[step[0]] + 1, f"no instruction {step}")
        conditions.append(step[0] in CONDITIONS)
        for operand in step[1:]:
            if isinstance(operand, str):
                last = len(inputs) if operand[0] == "i" else len(conditions) - 1
                need(operand[0] in "ir" and int(operand[1:]) < last, f"no operand {operand}")
    shape = broadcast_shapes([v.shape for v in inputs])
    results = node.params.get("results", [f"r{len(conditions) - 1}"])
    dtypes = node.params.get("dtypes", [None] * len(results))
    return [(shape, dtype or ("bool" if conditions[int(word[1:])] else "T")) for word, dtype in zip(results, dtypes)]


def _reduce(node, x):
    dims = node.params["dims"]
    need(node.params["kind"] in ("sum", "max"), f"no reduction {node.params['kind']}")
    need(all(0 <= d < len(x.shape) for d in dims), f"dimensions {dims} of {x}")
    keep = node.params.get("keep", False)
    return [([1 if i in dims else n for i, n in enumerate(x.shape) if keep or i not in dims], "G")]


def _contract(node, a, b):
    left, right = node.params["equation"].split("->")
    sizes = {}
    for letters, value in zip(left.split(","), (a, b)):
        need(len(letters) == len(value.shape) == len(set(letters)), f"{letters} for {value}")
        for letter, n in zip(letters, value.shape):
            need(sizes.setdefault(letter, n) == n, f"{letter} is {sizes[letter]} and {n}")
    need(set(right) <= set(sizes), f"letters of {right}")
    return [([sizes[letter] for letter in right], "T")]


def _permute(node, x):
    order = node.params["order"]
    need(sorted(order) == list(range(len(x.shape))), f"order {order} for {x}")
    return [([x.shape[i] for i in order], x.dtype)]


def _reshape(node, x):
    need(product(node.params["size"]) == product(x.shape), f"{x} as {node.params['size']}")
    return [(node.params["size"], x.dtype)]


def _broadcast(node, x):
    size = node.params["size"]
    need(len(size) >= len(x.shape) and broadcast_shapes([x.shape, size]) == tuple(size), f"{x} as {size}")
    return [(size, x.dtype)]


def _slice(node, x):
    dim, length = node.params["dim"], node.params["length"]
    need(0 <= dim < len(x.shape), f"dimension {dim} of {x}")
    need(not isinstance(x.shape[dim], int) or not isinstance(length, int) or
         0 <= node.params["start"] + (length - 1) * node.params.get("step", 1) < x.shape[dim], f"{node.params} of {x}")
    return [(x.shape[:dim] + (length,) + x.shape[dim + 1:], x.dtype)]


def _concat(node, *inputs):
    dim = node.params["dim"]
    rest = {v.shape[:dim] + (0,) + v.shape[dim + 1:] for v in inputs}
    need(len(rest) == 1, f"inputs {inputs}")
    return [(inputs[0].shape[:dim] + (sum((v.shape[dim] for v in inputs[1:]), inputs[0].shape[dim]),) + inputs[0].shape[dim + 1:],
             inputs[0].dtype)]


def _pad(node, x):
    dim = node.params["dim"]
    return [(x.shape[:dim] + (x.shape[dim] + node.params["before"] + node.params["after"],) + x.shape[dim + 1:], x.dtype)]


def _index(node, x, *indices):
    return [(broadcast_shapes([i.shape for i in indices]) + x.shape[len(indices):], x.dtype)]


def _take_along(node, x, indices):
    need(len(x.shape) == len(indices.shape) and x.shape[:-1] == indices.shape[:-1], f"{indices} of {x}")
    return [(indices.shape, x.dtype)]


def _topk(node, x):
    need(0 < node.params["k"] <= (x.shape[-1] if isinstance(x.shape[-1], int) else 0), f"{node.params['k']} of {x}")
    shape = x.shape[:-1] + (node.params["k"],)
    return [(shape, x.dtype), (shape, "i32")]


def _linear(node, x, weight, bias=None):
    K, N = reversed(weight.shape) if node.op != "linear_transposed" else weight.shape
    need(len(weight.shape) == 2 and x.shape[-1] == K and (bias is None or bias.shape == (N,)), f"{x}, {weight}, {bias}")
    return [(x.shape[:-1] + (N,), "G" if node.op == "linear_wide" else "T")]


def _norm(node, x, weight, bias=None):
    need(weight.shape == x.shape[-1:] and (bias is None or bias.shape == weight.shape), f"{x}, {weight}, {bias}")
    return [(x.shape, "T")]


def _gated_norm(node, x, weight, gate):
    need(gate.shape == x.shape and weight.shape in (x.shape[-1:], x.shape[-2:]), f"{x}, {weight}, {gate}")
    return [(x.shape, "T")]


def _embedding(node, ids, table):
    need(len(table.shape) == 2, f"a table {table}")
    return [(ids.shape + table.shape[1:], table.dtype)]


def _rope_table(node, positions):
    return [(positions.shape + (node.params["D"],), "G")]


def _rotate(node, x, table):
    need(x.shape[:-2] + x.shape[-1:] == table.shape, f"{x}, {table}")
    return [(x.shape, "T")]


def _attention(node, q, k, v, sink=None):
    need(all(len(x.shape) == 4 for x in (q, k, v)) and q.shape[:2] == k.shape[:2] == v.shape[:2] and q.shape[3] == k.shape[3] and
         k.shape[2] == v.shape[2] and divide(q.shape[2], k.shape[2]) is not None, f"{q}, {k}, {v}")
    need(sink is None or sink.shape == q.shape[2:3], f"a sink {sink}")
    return [(q.shape[:3] + v.shape[3:], "T")]


def _same(node, *inputs):
    need(all(v.shape == inputs[0].shape for v in inputs), f"{inputs}")
    return [(inputs[0].shape, "G" if node.op in ("softcap", "scale") and inputs[0].dtype == "G" else "T")]


def _cast(node, x):
    return [(x.shape, node.params["dtype"])]


def _split(node, x):
    need(sum(node.params["size"]) == x.shape[-1], f"{x} as {node.params['size']}")
    return [(x.shape[:-1] + (n,), x.dtype) for n in node.params["size"]]


def _cross_entropy(node, logits, labels):
    need(logits.shape[:-1] == labels.shape, f"{logits}, {labels}")
    return [(labels.shape, "G")]


def _kept(node, x, *rest):
    return [(x.shape, x.dtype)]


def _created(dtype):
    return lambda node: [(node.params["size"], node.params.get("dtype", dtype))]


# "pad", "index", "cumsum", "fill" and "stop" (of a gradient) are for front ends alone: normal form leaves none of them.
SHAPES = {
    "map": _map, "reduce": _reduce, "softmax": lambda node, x: [(x.shape, "T")], "contract": _contract, "permute": _permute, "reshape": _reshape,
    "broadcast": _broadcast, "slice": _slice, "concat": _concat, "iota": _created("i32"), "shift": _kept, "cast": _cast,
    "pad": _pad, "index": _index, "cumsum": _kept, "fill": _created("T"), "stop": _kept, "take_along": _take_along, "topk": _topk,
    "linear": _linear, "linear_transposed": _linear, "linear_wide": _linear, "rmsnorm": _norm, "layernorm": _norm,
    "gated_norm": _gated_norm, "embedding": _embedding,
    "rope_table": _rope_table, "rotate": _rotate, "attention": _attention, "split": _split,
    "swiglu": _same, "add": _same, "mul": _same, "gelu": _same, "gelu_tanh": _same, "relu": _same, "silu": _same, "softcap": _same, "scale": _same,
    "cross_entropy": _cross_entropy, "sum": lambda node, x: [((1,), "G")],
}


def shapes(node):
    """[(shape, dtype)] of a node's results; raises Wrong."""
    if node.op not in SHAPES:
        raise Wrong(f"no op {node.op}")
    return [(tuple(shape), dtype) for shape, dtype in SHAPES[node.op](node, *node.inputs)]
