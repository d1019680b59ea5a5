"""Computes a graph with NumPy in f64: what every op means, and what tests compare with."""
from __future__ import annotations

import math

import numpy

from .size import at

_erf = numpy.vectorize(math.erf, otypes=[float])

STEPS = {
    "neg": numpy.negative, "abs": numpy.abs, "sign": numpy.sign, "exp": numpy.exp, "log": numpy.log, "log1p": numpy.log1p, "sqrt": numpy.sqrt,
    "rsqrt": lambda a: 1 / numpy.sqrt(a), "sin": numpy.sin, "cos": numpy.cos, "tanh": numpy.tanh,
    "sigmoid": lambda a: 0.5 * (1 + numpy.tanh(0.5 * a)), "erf": lambda a: _erf(a), "floor": numpy.floor,
    "add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply, "div": numpy.divide, "pow": numpy.power, "min": numpy.minimum,
    "max": numpy.maximum, "mod": numpy.mod, "lt": numpy.less, "le": numpy.less_equal, "eq": numpy.equal, "ne": numpy.not_equal,
    "and": numpy.logical_and, "or": numpy.logical_or, "not": numpy.logical_not, "where": numpy.where,
}


def _map(p, *inputs, sizes):
    results = []

    def operand(word):
        if not isinstance(word, str):
            return float(at(word, sizes))
        return (inputs if word[0] == "i" else results)[int(word[1:])]

    for step in p["program"]:
        results.append(numpy.asarray(STEPS[step[0]](*map(operand, step[1:])), dtype=numpy.float64))
    shape = numpy.broadcast_shapes(*(x.shape for x in inputs))
    return [numpy.broadcast_to(operand(word), shape) for word in p.get("results", [f"r{len(results) - 1}"])]


def _softmax(p, x, sizes):
    e = numpy.exp(x - x.max(p["dim"], keepdims=True))
    return e / e.sum(p["dim"], keepdims=True)


def _slice(p, x, sizes):
    index = [slice(None)] * x.ndim
    step = p.get("step", 1)
    index[p["dim"]] = slice(p["start"], p["start"] + (at(p["length"], sizes) - 1) * step + 1, step)
    return x[tuple(index)]


def _pad(p, x, sizes):
    width = [(0, 0)] * x.ndim
    width[p["dim"]] = (p["before"], p["after"])
    return numpy.pad(x, width, constant_values=p["value"])


def _iota(p, sizes):
    shape = [at(n, sizes) for n in p["size"]]
    along = [1] * len(shape)
    along[p["dim"]] = -1
    return numpy.broadcast_to(numpy.arange(shape[p["dim"]], dtype=numpy.float64).reshape(along), shape)


def _shift(p, x, sizes):
    y, n = numpy.zeros_like(x), p["tokens"]
    if n >= 0:
        y[:, n:] = x[:, :x.shape[1] - n]
    else:
        y[:, :n] = x[:, -n:]
    return y


def _linear(p, x, weight, bias=None, sizes=None):
    return x @ weight.T + (0 if bias is None else bias)


def _linear_transposed(p, x, weight, bias=None, sizes=None):
    return x @ weight + (0 if bias is None else bias)


def _rmsnorm(p, x, weight, sizes):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + p["epsilon"]) * (weight + p.get("offset", 0))


def _layernorm(p, x, weight, bias=None, sizes=None):
    x = x - x.mean(-1, keepdims=True)
    x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + p["epsilon"])
    return x * weight + (0 if bias is None else bias)


def _rope_table(p, positions, sizes):
    """Cosines of the D/2 frequencies, then sines."""
    rope, D = p["rope"], p["D"]
    frequencies = rope["theta"] ** (-numpy.arange(0, D, 2) / D) / rope.get("factor", 1)
    angles = positions[..., None] * frequencies
    return numpy.concatenate([numpy.cos(angles), numpy.sin(angles)], -1)


def _rotate(p, x, table, sizes):
    half = x.shape[-1] // 2
    cos, sin = table[..., None, :half], table[..., None, half:]
    a, b = x[..., :half], x[..., half:]
    return numpy.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def visible(mask, S, documents=None):
    """The keys that each query sees: bool [S,S], with documents [B,1,S,S]."""
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


def _attention(p, q, k, v, sink=None, sizes=None, documents=None):
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    k, v = (numpy.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    scores = p["scale"] * (q @ k.transpose(0, 1, 3, 2))
    if p.get("softcap"):
        scores = p["softcap"] * numpy.tanh(scores / p["softcap"])
    scores = numpy.where(visible(p["mask"], q.shape[2], documents), scores, -numpy.inf)
    top = scores.max(-1, keepdims=True)
    if sink is not None:
        top = numpy.maximum(top, sink[:, None, None])
    e = numpy.exp(scores - top)
    total = e.sum(-1, keepdims=True) + (0 if sink is None else numpy.exp(sink[:, None, None] - top))
    return ((e / total) @ v).transpose(0, 2, 1, 3)


def _cross_entropy(p, logits, labels, sizes):
    labels = labels.astype(int)
    top = logits.max(-1, keepdims=True)
    lse = (numpy.log(numpy.exp(logits - top).sum(-1, keepdims=True)) + top)[..., 0]
    counted = labels != p.get("ignored", -100)
    picked = numpy.take_along_axis(logits, numpy.where(counted, labels, 0)[..., None], -1)[..., 0]
    return numpy.where(counted, lse - picked, 0)


def _gelu_tanh(p, x, sizes):
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


OPS = {
    "map": _map, "softmax": _softmax, "slice": _slice, "pad": _pad, "iota": _iota, "shift": _shift,
    "reduce": lambda p, x, sizes: (numpy.sum if p["kind"] == "sum" else numpy.max)(x, axis=tuple(p["dims"]), keepdims=p.get("keep", False)),
    "contract": lambda p, a, b, sizes: numpy.einsum(p["equation"], a, b, optimize=True),
    "permute": lambda p, x, sizes: x.transpose(p["order"]),
    "reshape": lambda p, x, sizes: x.reshape([at(n, sizes) for n in p["size"]]),
    "broadcast": lambda p, x, sizes: numpy.broadcast_to(x, [at(n, sizes) for n in p["size"]]),
    "concat": lambda p, *inputs, sizes: numpy.concatenate(inputs, p["dim"]),
    "cast": lambda p, x, sizes: numpy.trunc(x) if p["dtype"] == "i32" else x,
    "index": lambda p, x, *indices, sizes: x[tuple(i.astype(int) for i in indices)],
    "cumsum": lambda p, x, sizes: numpy.cumsum(x, p["dim"]),
    "fill": lambda p, sizes: numpy.full([at(n, sizes) for n in p["size"]], float(p["value"])),
    "linear": _linear, "linear_wide": _linear, "linear_transposed": _linear_transposed, "rmsnorm": _rmsnorm, "layernorm": _layernorm,
    "embedding": lambda p, ids, table, sizes: table[ids.astype(int)],
    "rope_table": _rope_table, "rotate": _rotate, "attention": _attention, "cross_entropy": _cross_entropy,
    "split": lambda p, x, sizes: numpy.split(x, numpy.cumsum(p["size"])[:-1], -1),
    "swiglu": lambda p, gate, up, sizes: gate * STEPS["sigmoid"](gate) * up,
    "silu": lambda p, x, sizes: x * STEPS["sigmoid"](x),
    "gelu": lambda p, x, sizes: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": _gelu_tanh,
    "relu": lambda p, x, sizes: numpy.maximum(x, 0),
    "softcap": lambda p, x, sizes: p["cap"] * numpy.tanh(x / p["cap"]),
    "scale": lambda p, x, sizes: p["factor"] * x,
    "add": lambda p, a, b, sizes: a + b, "mul": lambda p, a, b, sizes: a * b,
    "sum": lambda p, x, sizes: x.sum().reshape(1),
}


def shifted(labels, about):
    """The graph's labels of the user's: shifted, and -100 where one does not count."""
    labels = numpy.where(numpy.asarray(labels) == about.ignored, -100, labels)
    if about.shift:
        labels = numpy.concatenate([labels[:, about.shift:], numpy.full_like(labels[:, :about.shift], -100)], 1)
    return labels


def documents_of(positions):
    """The number of each token's document: a new one begins where the position does not follow the one before."""
    starts = numpy.diff(positions, axis=1, prepend=positions[:, :1] - 1) != 1
    return numpy.cumsum(starts, axis=1)


def evaluate(graph, inputs, parameters=None, also=()):
    """Values of the graph's results (and of `also`): {value's name: array}. inputs: {name: array [B,S]}, as the user's model takes them."""
    first = numpy.asarray(inputs[graph.tokens])
    sizes = first.shape
    values, documents = {}, None
    for about in graph.inputs:
        array = numpy.asarray(inputs[about.value.name])
        if about.meaning == "labels":
            array = shifted(array, about)
        elif about.meaning == "documents":
            documents = array
        elif about.meaning == "positions" and documents is None:
            documents = documents_of(array)
        values[id(about.value)] = array.astype(numpy.float64)
    for parameter in graph.parameters:
        given = (parameters or {}).get(parameter.value.name)
        values[id(parameter.value)] = parameter.array() if given is None else numpy.asarray(given, dtype=numpy.float64)
    last = {id(v): i for i, node in enumerate(graph.nodes) for v in node.inputs}
    kept = {id(v) for v in graph.outputs()} | {id(v) for v in also}
    for i, node in enumerate(graph.nodes):
        arguments = [None if v is None else values[id(v)] for v in node.inputs]
        more = {"documents": documents} if node.op == "attention" else {}
        results = OPS[node.op](node.params, *arguments, sizes=sizes, **more)
        for value, result in zip(node.outputs, results if isinstance(results, list) else [results]):
            expected = tuple(at(n, sizes) for n in value.shape)
            assert result.shape == expected, f"{node}: {result.shape} instead of {expected}"
            values[id(value)] = result
        for value in node.inputs:
            if value is not None and value.node is not None and last[id(value)] == i and id(value) not in kept:
                values.pop(id(value), None)
    return {v.name: values[id(v)] for v in list(graph.outputs()) + list(also)}


def loss(graph, inputs, parameters=None):
    """The loss as the user's model gives it: the sum, divided by what mean_over says."""
    total = evaluate(graph, inputs, parameters)[graph.loss.name].item()
    if graph.mean_over == "tokens":
        return total / numpy.asarray(inputs[graph.tokens]).size
    if graph.mean_over == "labels":
        about = next(i for i in graph.inputs if i.meaning == "labels")
        return total / (shifted(inputs[about.value.name], about) != -100).sum()
    return total
