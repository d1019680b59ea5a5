"""Computes a graph in f64: what every op means, and what tests and the check of each export compare with.

The arrays are NumPy's, or those of a library that differentiates (arrays.py): `a` in each function.
"""
from __future__ import annotations

import math

import numpy

from .arrays import Arrays
from .ir import TELL, Weights
from .size import at

NUMPY = Arrays()
STEPS = NUMPY.steps


def _map(a, p, *inputs, sizes):
    results = []

    def operand(word):
        if not isinstance(word, str):
            return float(at(word, sizes))
        return (inputs if word[0] == "i" else results)[int(word[1:])]

    for step in p["program"]:
        results.append(a.array(a.steps[step[0]](*map(operand, step[1:]))))
    shape = numpy.broadcast_shapes(*(tuple(x.shape) for x in inputs))
    return [a.broadcast(operand(word), shape) for word in p.get("results", [f"r{len(results) - 1}"])]


def _softmax(a, p, x, sizes):
    e = a.steps["exp"](x - a.max(x, [p["dim"]], True))
    return e / a.sum(e, [p["dim"]], True)


def _slice(a, p, x, sizes):
    index = [slice(None)] * len(x.shape)
    step = p.get("step", 1)
    index[p["dim"]] = slice(p["start"], p["start"] + (at(p["length"], sizes) - 1) * step + 1, step)
    return x[tuple(index)]


def _iota(a, p, sizes):
    shape = [at(n, sizes) for n in p["size"]]
    along = [1] * len(shape)
    along[p["dim"]] = -1
    return a.broadcast(a.array(numpy.arange(shape[p["dim"]]).reshape(along)), shape)


def _shift(a, p, x, sizes):
    n = p["tokens"]
    zeros = 0 * x[:, :abs(n)]
    return a.concat([zeros, x[:, :x.shape[1] - n]] if n >= 0 else [x[:, -n:], zeros], 1)


def _linear(a, p, x, weight, bias=None, sizes=None):
    y = a.matmul(x, a.permute(weight, [1, 0]))
    return y if bias is None else y + bias


def _linear_transposed(a, p, x, weight, bias=None, sizes=None):
    y = a.matmul(x, weight)
    return y if bias is None else y + bias


def _mean(a, x):
    return a.sum(x, [len(x.shape) - 1], True) / x.shape[-1]


def _rmsnorm(a, p, x, weight, sizes):
    return x / a.steps["sqrt"](_mean(a, x * x) + p["epsilon"]) * (weight + p.get("offset", 0))


def _gated_norm(a, p, x, weight, gate, sizes):
    silu = gate * a.steps["sigmoid"](gate)
    x = x * silu if p.get("gate_first", False) else x
    y = x / a.steps["sqrt"](_mean(a, x * x) + p["epsilon"]) * weight
    return y if p.get("gate_first", False) else y * silu


def _layernorm(a, p, x, weight, bias=None, sizes=None):
    x = x - _mean(a, x)
    y = x / a.steps["sqrt"](_mean(a, x * x) + p["epsilon"]) * weight
    return y if bias is None else y + bias


def _rope_table(a, p, positions, sizes):
    """Cosines of the D/2 frequencies, then sines."""
    rope, D = p["rope"], p["D"]
    frequencies = a.array(rope["theta"] ** (-numpy.arange(0, D, 2) / D) / rope.get("factor", 1))
    angles = positions[..., None] * frequencies
    return a.concat([a.steps["cos"](angles), a.steps["sin"](angles)], len(angles.shape) - 1)


def _rotate(a, p, x, table, sizes):
    half = x.shape[-1] // 2
    cos, sin = table[..., None, :half], table[..., None, half:]
    one, two = x[..., :half], x[..., half:]
    return a.concat([one * cos - two * sin, two * cos + one * sin], len(x.shape) - 1)


def visible(mask, S, documents=None):
    """The keys that each query sees: bool [S,S], with documents [B,1,S,S]. Of NumPy."""
    q, k = numpy.arange(S)[:, None], numpy.arange(S)[None, :]
    seen = numpy.ones((S, S), dtype=bool)
    for term in mask:
        first = term.get("first", 0)
        if term["kind"] == "causal":
            seen = seen & (k <= q)
        elif term["kind"] == "window":
            seen = seen & (k <= q) & ((k > q - term["window"]) | (k < first))
        elif term["kind"] == "prefix":
            seen = seen & ((k <= q) | (k < first))
        else:
            seen = seen & (documents[:, None, :, None] == documents[:, None, None, :])
    return seen


def _attention(a, p, q, k, v, sink=None, sizes=None, documents=None):
    q, k, v = (a.permute(x, [0, 2, 1, 3]) for x in (q, k, v))
    k, v = (a.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = p["scale"] * a.matmul(q, a.permute(k, [0, 1, 3, 2]))
    if p.get("softcap"):
        scores = p["softcap"] * a.steps["tanh"](scores / p["softcap"])
    scores = a.where(a.array(visible(p["mask"], q.shape[2], documents)), scores, -1e300)
    if sink is not None:  # one more logit, whose value is 0
        scores = a.concat([scores, a.broadcast(a.reshape(sink, [1, -1, 1, 1]), tuple(scores.shape[:3]) + (1,))], 3)
    weights = _softmax(a, {"dim": 3}, scores, sizes)
    return a.permute(a.matmul(weights[..., :v.shape[2]], v), [0, 2, 1, 3])


def _cross_entropy(a, p, logits, labels, sizes):
    last = len(logits.shape) - 1
    top = a.max(logits, [last], True)
    lse = (a.steps["log"](a.sum(a.steps["exp"](logits - top), [last], True)) + top)[..., 0]
    ignored = p.get("ignored", -100)
    counted = labels != (-100 if ignored is None else ignored)
    picked = a.along_last(logits, a.where(counted, labels, 0.0))
    return a.where(counted, lse - picked, 0.0)


def _gelu_tanh(a, p, x, sizes):
    return 0.5 * x * (1 + a.steps["tanh"](math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def _split(a, p, x, sizes):
    starts = [sum(p["size"][:i]) for i in range(len(p["size"]))]
    return [x[..., start:start + n] for start, n in zip(starts, p["size"])]


def _take_along(a, x, indices):
    """x[..., indices[..., i]] for each i."""
    return a.concat([a.along_last(x, indices[..., i])[..., None] for i in range(indices.shape[-1])], len(x.shape) - 1)


def _topk(a, x, k):
    ids = a.descending(x)[..., :k]
    return [_take_along(a, x, ids), ids]


OPS = {
    "map": _map, "softmax": _softmax, "slice": _slice, "iota": _iota, "shift": _shift,
    "reduce": lambda a, p, x, sizes: (a.sum if p["kind"] == "sum" else a.max)(x, p["dims"], p.get("keep", False)),
    "contract": lambda a, p, x, y, sizes: a.einsum(p["equation"], x, y),
    "permute": lambda a, p, x, sizes: a.permute(x, p["order"]),
    "reshape": lambda a, p, x, sizes: a.reshape(x, [at(n, sizes) for n in p["size"]]),
    "broadcast": lambda a, p, x, sizes: a.broadcast(x, [at(n, sizes) for n in p["size"]]),
    "concat": lambda a, p, *inputs, sizes: a.concat(inputs, p["dim"]),
    "cast": lambda a, p, x, sizes: x,
    "pad": lambda a, p, x, sizes: a.pad(x, p["dim"], p["before"], p["after"], p["value"]),
    "index": lambda a, p, x, *indices, sizes: a.pick(x, indices),
    "cumsum": lambda a, p, x, sizes: a.cumsum(x, p["dim"]),
    "stop": lambda a, p, x, sizes: x,
    "topk": lambda a, p, x, sizes: _topk(a, x, p["k"]),
    "take_along": lambda a, p, x, indices, sizes: _take_along(a, x, indices),
    "fill": lambda a, p, sizes: a.array(numpy.full([at(n, sizes) for n in p["size"]], float(p["value"]))),
    "linear": _linear, "linear_wide": _linear, "linear_transposed": _linear_transposed, "rmsnorm": _rmsnorm,
    "layernorm": _layernorm, "gated_norm": _gated_norm,
    "embedding": lambda a, p, ids, table, sizes: a.pick(table, [ids]),
    "rope_table": _rope_table, "rotate": _rotate, "attention": _attention, "cross_entropy": _cross_entropy, "split": _split,
    "swiglu": lambda a, p, gate, up, sizes: gate * a.steps["sigmoid"](gate) * up,
    "silu": lambda a, p, x, sizes: x * a.steps["sigmoid"](x),
    "gelu": lambda a, p, x, sizes: 0.5 * x * (1 + a.steps["erf"](x / math.sqrt(2))),
    "gelu_tanh": _gelu_tanh,
    "relu": lambda a, p, x, sizes: a.steps["max"](x, 0.0),
    "softcap": lambda a, p, x, sizes: p["cap"] * a.steps["tanh"](x / p["cap"]),
    "scale": lambda a, p, x, sizes: p["factor"] * x,
    "add": lambda a, p, x, y, sizes: x + y, "mul": lambda a, p, x, y, sizes: x * y,
    "sum": lambda a, p, x, sizes: a.reshape(a.sum(x, range(len(x.shape)), False), [1]),
}


def shifted(labels, about):
    """The graph's labels of the user's: shifted, and -100 where one does not count."""
    labels = numpy.asarray(labels)
    if about.ignored is not None:
        labels = numpy.where(labels == about.ignored, -100, labels)
    if about.shift:
        labels = numpy.concatenate([labels[:, about.shift:], numpy.full_like(labels[:, :about.shift], -100)], 1)
    return labels


def documents_of(positions):
    """The number of each token's document: a new one begins where the position does not follow the one before."""
    starts = numpy.diff(positions, axis=1, prepend=positions[:, :1] - 1) != 1
    return numpy.cumsum(starts, axis=1)


def numbers_of(array, meaning, number=None):
    """The number of each token's document, from an input of one of the meanings TELL. The tokens of padding are documents of their own."""
    if meaning in ("documents", "padding"):
        return array
    marks = (array == number).astype(int)
    return numpy.cumsum(marks, axis=1) - (marks if meaning == "last" else 0)


def evaluate(graph, inputs, parameters=None, arrays=NUMPY):
    """
    {name of a result: array} of the graph. inputs: {name: NumPy array [B,S]}, as the user's model takes them; parameters: {name: array} in
    the place of the graph's own.
    """
    sizes = numpy.asarray(inputs[graph.tokens]).shape
    values, documents = {}, None
    for about in graph.inputs:
        array = numpy.asarray(inputs[about.value.name])
        if about.meaning == "labels":
            array = shifted(array, about)
        elif about.meaning in TELL:
            documents = numbers_of(array, about.meaning, about.number)
        elif about.meaning == "positions" and documents is None:
            documents = documents_of(array)
        values[id(about.value)] = arrays.array(array)
    for parameter in graph.parameters:
        given = (parameters or {}).get(parameter.value.name)
        values[id(parameter.value)] = arrays.array(parameter.array() if given is None else given)
    last = {id(v): i for i, node in enumerate(graph.nodes) for v in node.inputs}
    kept = {id(v) for v in graph.outputs()}
    for i, node in enumerate(graph.nodes):
        arguments = [None if v is None else values[id(v)] for v in node.inputs]
        more = {"documents": documents} if node.op == "attention" else {}
        results = OPS[node.op](arrays, node.params, *arguments, sizes=sizes, **more)
        for value, result in zip(node.outputs, results if isinstance(results, list) else [results]):
            expected = tuple(at(n, sizes) for n in value.shape)
            assert tuple(result.shape) == expected, f"{node}: {result.shape} instead of {expected}"
            values[id(value)] = result
        for value in node.inputs:
            if value is not None and value.node is not None and last[id(value)] == i and id(value) not in kept:
                values.pop(id(value), None)
    return {v.name: values[id(v)] for v in graph.outputs()}


def sum_of_weights(graph, inputs):
    """The number that a graph's weighted mean is divided by."""
    by, product = graph.mean_over, 1.0
    for name, shift in by.factors:
        moved = numpy.zeros(numpy.asarray(inputs[name]).shape)
        n = moved.shape[1]
        moved[:, max(-shift, 0):n - max(shift, 0)] = numpy.asarray(inputs[name])[:, max(shift, 0):n - max(-shift, 0)]
        product = product * moved
    if by.labels:
        about = next(i for i in graph.inputs if i.meaning == "labels")
        product = product * (shifted(inputs[about.value.name], about) != -100)
    total = float(product.sum())
    return (total if by.least is None else max(total, by.least)) + by.plus


def loss(graph, inputs, parameters=None, arrays=NUMPY):
    """The loss as the user's model gives it: the sum, divided by what mean_over says. An array of one element."""
    total = evaluate(graph, inputs, parameters, arrays)[graph.loss.name]
    if isinstance(graph.mean_over, Weights):
        return total / sum_of_weights(graph, inputs)
    if graph.mean_over == "tokens":
        return total / numpy.asarray(inputs[graph.tokens]).size
    if graph.mean_over == "labels":
        about = next(i for i in graph.inputs if i.meaning == "labels")
        return total / int((shifted(inputs[about.value.name], about) != -100).sum())
    return total
