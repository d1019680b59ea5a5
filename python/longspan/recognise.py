"""Named ops in the place of groups of general ones, in a graph in normal form.

A pattern is a term as in "map" programs: ("mul", "x", ("rsqrt", ...)). A word is a variable, the same value wherever it stands; "#name" is
a number; sums and products match in either order; casts are looked through. Each pattern has a row in PATTERNS: its name, the terms,
and a function that makes the named op of what was bound, or None. `tests/python/test_recognise.py` computes both sides of each row.
"""
from __future__ import annotations

import math

import numpy

from .ir import Graph, Value
from .loss import loss
from .rewrite import bare, number, rebuild, skip_casts, term_of
from .size import B, S, product

COMMUTES = {"add", "mul", "eq", "and", "or", "max"}
ROOT_2_OVER_PI = math.sqrt(2 / math.pi)


def close(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))


def matches(pattern, operand, found):
    """The bindings with which the pattern is the operand, or None."""
    if isinstance(pattern, (int, float)):
        return found if number(operand) is not None and close(operand, pattern) else None
    if isinstance(pattern, str):
        if pattern[0] == "#":
            ok = number(operand) is not None and (pattern not in found or close(found[pattern], operand))
            return {**found, pattern: operand} if ok else None
        if not isinstance(operand, Value):
            return None
        if pattern in found:
            return found if bare(found[pattern]) is bare(operand) else None
        return {**found, pattern: operand}
    if not isinstance(operand, Value):
        return None
    word, operands = term_of(bare(operand))
    if pattern[0] == "mean":
        return mean(pattern[1], operand, found)
    if word != pattern[0] or len(operands) != len(pattern) - 1:
        return None
    orders = [operands, operands[::-1]] if word in COMMUTES and len(operands) == 2 else [operands]
    for order in orders:
        bound = found
        for part, value in zip(pattern[1:], order):
            bound = matches(part, value, bound) if bound is not None else None
        if bound is not None:
            return bound
    return None


def mean(pattern, operand, found):
    """The mean over the last dimension: a sum, divided by its size."""
    word, operands = term_of(bare(operand))
    if word != "mul" or not isinstance(operands[0], Value) or number(operands[1]) is None:
        return None
    total = bare(operands[0]).node
    if total is None or total.op != "reduce" or total.params["kind"] != "sum":
        return None
    x = total.inputs[0]
    return matches(pattern, x, found) if total.params["dims"] == [len(x.shape) - 1] and close(operands[1] * x.shape[-1], 1) else None


# --- one function per named op: graph, what was bound, the value that is replaced -> the new value, or None ------------------


def is_weight(value, x):
    """A vector that is one of the leaves, as long as x's last dimension."""
    return value.node is None and value.shape == x.shape[-1:]


def rmsnorm(graph, v, out):
    x = bare(v["x"])
    weight = bare(v["w"])
    if x.shape != out.shape or not is_weight(weight, x):
        return None
    offset = v.get("#offset", 0)
    return graph.add("rmsnorm", [x, weight], out.node.at, epsilon=v["#eps"], **({"offset": offset} if offset else {}))


def layernorm(graph, v, out):
    x, weight = bare(v["x"]), bare(v["w"])
    return graph.add("layernorm", [x, weight], out.node.at, epsilon=v["#eps"]) if x.shape == out.shape and is_weight(weight, x) else None


def layernorm_bias(graph, v, out):
    node, bias = bare(out).node, bare(v["b"])
    normed = next(bare(x).node for x in node.inputs if bare(x).node is not None and bare(x).node.op == "layernorm")
    return graph.add("layernorm", normed.inputs + [bias], node.at, **normed.params) if is_weight(bias, out) else None


def named(op, **params):
    """An op on single elements with the input x."""
    def make(graph, v, out):
        given = {key: v[name] if isinstance(name, str) else name for key, name in params.items()}
        return graph.add(op, [v["x"]], out.node.at, **given) if v["x"].shape == out.shape else None
    return make


def swiglu(graph, v, out):
    return graph.add("swiglu", [v["gate"], v["up"]], out.node.at) if v["gate"].shape == v["up"].shape == out.shape else None


def softcap(graph, v, out):
    cap = v["#cap"]
    return graph.add("softcap", [v["x"]], out.node.at, cap=cap) if close(cap * v["#factor"], 1) and cap > 0 and v["x"].shape == out.shape else None


def half(v, which, x):
    """Whether a value is the first or the second half of x along the last dimension."""
    node = v.node
    D = x.shape[-1]
    return (node is not None and node.op == "slice" and node.inputs[0] is x and node.params["dim"] == len(x.shape) - 1 and
            node.params["length"] == D // 2 and node.params["start"] == which * (D // 2) and node.params.get("step", 1) == 1)


def table_of(value, function, D):
    """The angles of cos or sin([angles, angles]), where value is that, for each token [B,S,D]: (angles [B,S,D/2], factor)."""
    value = bare(value)
    word, operands = term_of(value)
    factor = 1.0
    if word == "mul" and number(operands[1]) is not None:
        factor, value = operands[1], bare(operands[0])
        word, operands = term_of(value)
    if word != function or value.shape != (B, S, D):
        return None
    both = bare(operands[0])
    if both.node is None or both.node.op != "concat" or len(both.node.inputs) != 2 or both.node.inputs[0] is not both.node.inputs[1]:
        return None
    return bare(both.node.inputs[0]), factor


def frequencies(graph, angles):
    """(positions, frequencies) of angles = positions * frequencies, the latter a buffer."""
    word, operands = term_of(angles)
    if word not in ("mul", "div"):
        return None
    for positions, numbers in (operands, operands[::-1]) if word == "mul" else (operands,):
        if not isinstance(positions, Value) or not isinstance(numbers, Value):
            continue
        positions, numbers = bare(positions), bare(numbers)
        about = graph.parameter_of(numbers)
        if about is not None and about.buffer and positions.dtype == "i32" and positions.shape == (B, S):
            array = about.array().reshape(-1)
            return positions, array if word == "mul" else 1 / array
    return None


def rope_of(numbers):
    """{theta, ...} whose frequencies theta^(-2i/D), divided by a factor, are these numbers; or None."""
    D = 2 * len(numbers)
    if numbers.min() <= 0:
        return None
    exact = (numbers[0] / numbers[1]) ** (D / 2) if D > 2 else 10000.0
    for theta in [float(f"{exact:.{digits}g}") for digits in (2, 3, 4, 5)] + [float(exact)]:
        powers = theta ** (-numpy.arange(0, D, 2) / D)
        factor = float(f"{1 / numbers[0]:.6g}")
        if numpy.abs(powers / factor / numbers - 1).max() < 2e-6:
            return {"theta": theta} if factor == 1 else {"theta": theta, "scaling": "linear", "factor": factor}
    return None


def rotate(graph, v, out):
    """x cos + [-x2, x1] sin, with x = [x1, x2] and cos and sin of the same angles twice."""
    x, D = v["x"], out.shape[-1]
    turned = v["turned"].node
    if x.shape != out.shape or len(x.shape) != 4 or turned is None or turned.op != "concat" or turned.params["dim"] != 3 or len(turned.inputs) != 2:
        return None
    minus, first = turned.inputs
    word, operands = term_of(minus)
    if word != "neg" or not half(operands[0], 1, x) or not half(first, 0, x):
        return None
    cos, sin = table_of(v["cos"], "cos", D), table_of(v["sin"], "sin", D)
    if cos is None or sin is None or cos != sin or cos[1] != 1.0:
        return None
    found = frequencies(graph, cos[0])
    rope = rope_of(found[1]) if found else None
    if rope is None:
        return None
    table = graph.add("rope_table", [found[0]], bare(v["cos"]).node.at, D=D, rope=rope)
    return graph.add("rotate", [x, table], out.node.at)


def rotate_halves(graph, v, out):
    """[x1 cos - x2 sin, x2 cos + x1 sin], with x = [x1, x2] and cos and sin of the same angles."""
    one, D = v["one"], out.shape[-1]
    x = one.node.inputs[0] if one.node is not None and one.node.op == "slice" else None
    if x is None or x.shape != out.shape or len(x.shape) != 4 or out.node.params["dim"] != 3 or not half(one, 0, x) or not half(v["two"], 1, x):
        return None
    (cos, angles), (sin, same) = (term_of(bare(v[name])) for name in ("cos", "sin"))
    if cos != "cos" or sin != "sin" or bare(angles[0]) is not bare(same[0]) or bare(v["cos"]).shape != (B, S, D // 2):
        return None
    found = frequencies(graph, bare(angles[0]))
    rope = rope_of(found[1]) if found else None
    if rope is None:
        return None
    table = graph.add("rope_table", [found[0]], bare(v["cos"]).node.at, D=D, rope=rope)
    return graph.add("rotate", [x, table], out.node.at)


def elementwise(op):
    """add and mul of equal shapes."""
    def make(graph, v, out):
        a, b = v["a"], v["b"]
        return graph.add(op, [a, b], out.node.at) if a.shape == b.shape and a.dtype == b.dtype == "T" and out.dtype == "T" else None
    return make


def scale(graph, v, out):
    x, factor = v["x"], v["#factor"]
    if x.dtype != "T" or out.dtype != "T":
        return None
    if x.node is not None and x.node.op == "scale":
        x, factor = x.node.inputs[0], factor * x.node.params["factor"]
    return graph.add("scale", [x], out.node.at, factor=factor)


def linear(graph, v, out):
    """A contraction of x's last dimensions with a parameter, which is a matrix or can be read as one without moving its numbers."""
    node = out.node
    if node.op != "contract":
        return None
    (left, right), result = node.params["equation"].split("->")[0].split(","), node.params["equation"].split("->")[1]
    for x, w, xs, ws in ((node.inputs[0], node.inputs[1], left, right), (node.inputs[1], node.inputs[0], right, left)):
        summed = "".join(letter for letter in ws if letter not in result)
        free = "".join(letter for letter in ws if letter in result)
        lead = xs[:len(xs) - len(summed)]
        if w.node is not None or not summed or not free or xs != lead + summed or result != lead + free or ws not in (summed + free, free + summed):
            continue
        size = dict(zip(xs + ws, x.shape + w.shape))
        K, N = product(size[letter] for letter in summed), product(size[letter] for letter in free)
        if len(summed) > 1:
            x = graph.add("reshape", [x], node.at, size=[size[letter] for letter in lead] + [K])
        turned = ws == summed + free
        if len(ws) > 2:
            w = graph.add("reshape", [w], node.at, size=[K, N] if turned else [N, K])
        y = graph.add("linear_transposed" if turned else "linear", [x, w], node.at)
        return y if y.shape == out.shape else graph.add("reshape", [y], node.at, size=list(out.shape))
    return None


def bias(graph, v, out):
    node = v["y"].node
    y = bare_of_merges(v["y"])
    if y.node is None or y.node.op not in ("linear", "linear_transposed") or len(y.node.inputs) != 2:
        return None
    bias, width = v["b"], out.shape[len(y.shape) - 1:]
    if bias.node is not None or bias.shape != width:
        return None
    if len(width) > 1:
        bias = graph.add("reshape", [bias], node.at, size=[product(width)])
    new = graph.add(y.node.op, y.node.inputs + [bias], y.node.at)
    return new if new.shape == out.shape else graph.add("reshape", [new], node.at, size=list(out.shape))


def bare_of_merges(value):
    """The value whose last dimension is several of the given one's, if it is the reshape of one."""
    value = skip_casts(value)
    inner = value.node.inputs[0] if value.node is not None and value.node.op == "reshape" else None
    divided = inner is not None and len(inner.shape) < len(value.shape) and inner.shape[:-1] == value.shape[:len(inner.shape) - 1]
    return inner if divided else value


def unscaled(graph, v, out):
    """A scale of attention's queries becomes the attention's own."""
    node = out.node
    if node.op != "attention" or node.inputs[0].node is None or node.inputs[0].node.op != "scale":
        return None
    q = node.inputs[0].node
    return graph.add("attention", q.inputs + node.inputs[1:], node.at, **{**node.params, "scale": node.params["scale"] * q.params["factor"]})


def reshape(graph, v, out):
    """The reshape of a reshape is one, and that to the same shape none."""
    node = out.node
    if node.op != "reshape":
        return None
    x = node.inputs[0]
    while x.node is not None and x.node.op == "reshape":
        x = x.node.inputs[0]
    if x.shape == out.shape:
        return x
    return graph.add("reshape", [x], node.at, size=node.params["size"]) if x is not node.inputs[0] else None


SQUARE_MEAN = ("rsqrt", ("add", ("mean", ("mul", "x", "x")), "#eps"))
CENTRED = ("sub", "x", ("mean", "x"))
VARIANCE = ("mean", ("mul", CENTRED, CENTRED))
FAST_VARIANCE = ("sub", ("mean", ("mul", "x", "x")), ("mul", ("mean", "x"), ("mean", "x")))
VARIANCES = [VARIANCE, FAST_VARIANCE, ("relu", VARIANCE), ("relu", FAST_VARIANCE)]
SPREADS = [("rsqrt", ("add", variance, "#eps")) for variance in VARIANCES]
LAYERNORMS = [term for spread in SPREADS for term in (("mul", ("mul", CENTRED, spread), "w"), ("mul", CENTRED, ("mul", spread, "w")))]
LAYERNORMS += [("mul", ("div", CENTRED, ("sqrt", ("add", variance, "#eps"))), "w") for variance in VARIANCES]
RMSNORMED = [("mul", "x", SQUARE_MEAN), ("div", "x", ("sqrt", ("add", ("mean", ("mul", "x", "x")), "#eps")))]
GELU_TANH = ("add", ("tanh", ("mul", ("add", "x", ("mul", ("pow", "x", 3), 0.044715)), ROOT_2_OVER_PI)), 1)
GELU_ERF = ("add", ("erf", ("mul", "x", math.sqrt(0.5))), 1)

HALVES = ("concat", ("sub", ("mul", "one", "cos"), ("mul", "two", "sin")), ("add", ("mul", "two", "cos"), ("mul", "one", "sin")))

PATTERNS = [
    ("reshape", ["any"], reshape),
    ("layernorm", LAYERNORMS, layernorm),
    ("layernorm with bias", [("add", ("layernorm", "x", "w"), "b")], layernorm_bias),
    ("rmsnorm", [("mul", "w", normed) for normed in RMSNORMED] + [("mul", "x", ("mul", SQUARE_MEAN, "w"))], rmsnorm),
    ("rmsnorm with offset", [("mul", ("add", "w", "#offset"), normed) for normed in RMSNORMED], rmsnorm),
    ("silu", [("mul", "x", ("sigmoid", "x"))], named("silu")),
    ("swiglu", [("mul", ("silu", "gate"), "up")], swiglu),
    ("gelu", [("mul", ("mul", "x", 0.5), GELU_ERF), ("mul", "x", ("mul", GELU_ERF, 0.5))], named("gelu")),
    ("gelu with tanh", [("mul", ("mul", "x", 0.5), GELU_TANH), ("mul", "x", ("mul", GELU_TANH, 0.5))], named("gelu_tanh")),
    ("relu", [("max", "x", 0)], named("relu")),
    ("softcap", [("mul", ("tanh", ("mul", "x", "#factor")), "#cap")], softcap),
    ("rotate", [("add", ("mul", "x", "cos"), ("mul", "turned", "sin"))], rotate),
    ("rotate by halves", [HALVES], rotate_halves),
    ("linear", ["any"], linear),
    ("linear with bias", [("add", "y", "b")], bias),
    ("scale of queries", ["any"], unscaled),
    ("add", [("add", "a", "b")], elementwise("add")),
    ("mul", [("mul", "a", "b")], elementwise("mul")),
    ("scale", [("mul", "x", "#factor")], scale),
]


def replacement(graph, value, patterns=PATTERNS):
    for _, terms, make in patterns:
        for term in terms:
            # What a reshape reads was tried before, and has another shape.
            reshaped = value.node is not None and value.node.op == "reshape"
            found = {} if isinstance(term, str) else matches(term, value, {}) if not reshaped else None
            new = make(graph, found, value) if found is not None else None
            if new is not None and new is not value:
                return new
    return None


def recognise(graph: Graph) -> Graph:
    """Bottom up: each node is replaced as long as a pattern holds."""
    def rule(new, node, inputs):
        results = new.add(node.op, inputs, node.at, **node.params)
        if isinstance(results, list):
            return results
        while True:
            better = replacement(new, results)
            if better is None:
                return [results]
            results = better

    return wide(splits(loss(rebuild(graph, rule))))


def wide(graph):
    """Logits, and what the loss is computed from, have the type of sums: a product by a head is made in it from the beginning."""
    def widened(new, value):
        node = value.node
        if value.dtype == "G" or node is None:
            return value
        if node.op == "linear" and len(node.inputs) == 2:
            return new.add("linear_wide", node.inputs, node.at)
        if node.op in ("softcap", "scale"):
            return new.add(node.op, [widened(new, node.inputs[0])], node.at, **node.params)
        return new.add("cast", [value], node.at, dtype="G")

    def rule(new, node, inputs):
        if node.op != "cross_entropy":
            return None
        return [new.add("cross_entropy", [widened(new, skip_casts(inputs[0])), inputs[1]], node.at)]

    new = rebuild(graph, rule)
    if new.logits is not None:
        new.logits = widened(new, skip_casts(new.logits))
    return new.trim()


def splits(graph):
    """Three slices that together are the last dimension become one split."""
    parts = {}
    for node in graph.nodes:
        if node.op == "slice" and node.params["dim"] == len(node.inputs[0].shape) - 1 and node.params.get("step", 1) == 1:
            parts.setdefault(id(node.inputs[0]), {})[node.params["start"]] = node.params["length"]

    def rule(new, node, inputs):
        cut = parts.get(id(node.inputs[0])) if node.op == "slice" else None
        if not cut or len(cut) != 3 or node.params["start"] not in cut:
            return None
        starts = sorted(cut)
        sizes = [cut[start] for start in starts]
        if starts != [0, sizes[0], sizes[0] + sizes[1]] or sum(sizes) != inputs[0].shape[-1] or cut[node.params["start"]] != node.params["length"]:
            return None
        return [new.add("split", [inputs[0]], node.at, size=sizes)[starts.index(node.params["start"])]]

    return rebuild(graph, rule)


def flat_parameters(graph):
    """A parameter that is only read as a matrix, reshaped, is one in the folder."""
    users, sizes = graph.users(), {}
    for p in graph.parameters:
        reading = users.get(id(p.value), [])
        if reading and p.value is not graph.loss and all(n.op == "reshape" for n in reading) and len({n.outputs[0].shape for n in reading}) == 1:
            if 1 <= len(reading[0].outputs[0].shape) <= 4:
                sizes[id(p.value)] = reading[0].outputs[0].shape
    flat = {}
    for p in graph.parameters:
        if id(p.value) in sizes:
            shape = sizes[id(p.value)]
            old, p.value, p.data = p.value, Value(p.value.name, shape, p.value.dtype), p.data.reshape(shape)
            flat[id(old)] = p.value
    return rebuild(graph, lambda new, node, inputs: [flat[id(inputs[0])]] if node.op == "reshape" and id(inputs[0]) in flat else None)
