"""Softmax, lookups by one-hot rows, and the loss of each token, in the place of what a user's program writes out.

JAX has none of these as one op. Rules go bottom-up through a front end's graph, before attention is looked for: what softmax is made of
becomes `softmax`; log-softmax at the labels, or logsumexp minus the labels' logits, becomes `cross_entropy`; signs and sums of sums move
outwards, so that means over the batch of means over the sequence are means over all tokens.
"""
from __future__ import annotations

from .ir import Graph, Value
from .rewrite import binary, number, rebuild, skip_casts
from .size import Size, product


def bare(value):
    """The value without casts, stops of gradients, repetitions and dimensions of size 1."""
    while isinstance(value, Value) and value.node is not None:
        node = value.node
        if node.op in ("cast", "stop", "broadcast"):
            value = node.inputs[0]
        elif node.op == "reshape" and [n for n in node.inputs[0].shape if n != 1] == [n for n in value.shape if n != 1]:
            value = node.inputs[0]
        else:
            break
    return value


def reduced(value, kind):
    """(x, dim) of a sum or a maximum over one dimension; (None, None) of others."""
    node = value.node if isinstance(value, Value) else None
    if node is None or node.op != "reduce" or node.params["kind"] != kind or len(node.params["dims"]) != 1:
        return None, None
    return node.inputs[0], node.params["dims"][0]


def highest(value, x, dim):
    """Whether a value is the maximum of x along a dimension, or 0 where that is not finite."""
    value = bare(value)
    word, operands = binary(value)
    if word == "where" and isinstance(operands[1], Value) and number(operands[2]) == 0 and binary(bare(operands[0]))[0] == "lt":
        value = bare(operands[1])
    of, over = reduced(value, "max")
    return of is not None and over == dim and bare(of) is bare(x)


def centred(value, dim):
    """x of x - max(x), or the value itself."""
    word, operands = binary(skip_casts(value))
    if word == "sub" and isinstance(operands[1], Value) and isinstance(operands[0], Value) and highest(operands[1], operands[0], dim):
        return operands[0]
    return value


def summed_exponentials(value):
    """(x, dim, the exponentials, their operand) of sum(exp(x - max x)), or of sum(exp(x))."""
    value = bare(value)
    if binary(value)[0] == "abs":
        value = bare(binary(value)[1][0])
    e, dim = reduced(value, "sum")
    word, operands = binary(skip_casts(e)) if e is not None else (None, ())
    return (centred(operands[0], dim), dim, skip_casts(e), operands[0]) if word == "exp" else (None,) * 4


def logsumexp(value):
    """x of log(sum(exp(x))) along the last dimension, however it is centred."""
    value = bare(value)
    word, operands = binary(value)
    if word == "add":
        for log, top in (operands, operands[::-1]):
            if not isinstance(log, Value) or not isinstance(top, Value) or binary(bare(log))[0] != "log":
                continue
            x, dim, _, operand = summed_exponentials(binary(bare(log))[1][0])
            if x is not None and x is not operand and highest(top, x, dim) and dim == len(x.shape) - 1:
                return x
    if word == "log":
        x, dim, _, operand = summed_exponentials(operands[0])
        if x is not None and x is operand and dim == len(x.shape) - 1:
            return x
    return None


def log_softmax(value):
    """x of log_softmax(x) along the last dimension."""
    value = bare(value)
    word, operands = binary(value)
    if word == "log" and isinstance(operands[0], Value):
        node = bare(operands[0]).node
        return node.inputs[0] if node is not None and node.op == "softmax" and node.params["dim"] == len(value.shape) - 1 else None
    if word != "sub" or not all(isinstance(o, Value) for o in operands):
        return None
    x = logsumexp(operands[1])
    if x is not None and bare(x) is bare(operands[0]):
        return x
    log = bare(operands[1])
    if binary(log)[0] == "log":
        x, dim, _, operand = summed_exponentials(binary(log)[1][0])
        if x is not None and skip_casts(operand) is skip_casts(operands[0]) and dim == len(x.shape) - 1:
            return x
    return None


def one_hot(value):
    """(ids, number of classes) of a value whose last dimension is 1 at the id and 0 elsewhere."""
    value = bare(value)
    word, operands = binary(value)
    if word != "eq" or not all(isinstance(o, Value) for o in operands):
        return None, None
    for ids, classes in (operands, operands[::-1]):
        node = bare(classes).node
        counts = node is not None and node.op == "iota" and node.params["size"][node.params["dim"]] == value.shape[-1] != 1
        rows = value.shape[:-1], tuple(n for n in value.shape[:-1] if n != 1)
        if counts and bare(classes).shape[-1] == value.shape[-1] and bare(ids).shape in rows:
            return bare(ids), value.shape[-1]
    return None, None


# --- rules: graph, the value that was there -> the one in its place, or None --------------------------------------------------


def softmax(graph, value):
    word, operands = binary(value)
    if word != "div" or not all(isinstance(o, Value) for o in operands):
        return None
    x, dim, e, _ = summed_exponentials(operands[1])
    return graph.add("softmax", [x], value.node.at, dim=dim) if x is not None and e is skip_casts(operands[0]) else None


def loss_of(graph, logits, labels, like, at):
    """cross_entropy of each token, in the shape of another value."""
    labels = bare(labels)
    if labels.shape != logits.shape[:-1]:
        labels = graph.add("reshape", [labels], at, size=list(logits.shape[:-1]))
    each = graph.add("cross_entropy", [logits, labels], at, ignored=None)  # every label counts
    return each if each.shape == like.shape else graph.add("reshape", [each], at, size=list(like.shape))


def improved(graph, value):
    """The value as long as a rule has a better one."""
    while value.node is not None:
        better = next((found for found in (rule(graph, value) for rule in RULES) if found is not None), None)
        if better is None:
            break
        value = better
    return value


def negative(graph, value):
    value = improved(graph, value)
    return graph.map("neg", value, at=value.node.at, dtype=value.dtype)


def at_labels(graph, value):
    """The elements of log-softmax at labels, with the sign of a loss."""
    node = value.node
    if node.op == "take_along" and value.shape[-1] == 1:
        x = log_softmax(node.inputs[0])
        return negative(graph, loss_of(graph, x, node.inputs[1], value, node.at)) if x is not None else None
    product_, dim = reduced(value, "sum")
    word, operands = binary(skip_casts(product_)) if product_ is not None else (None, ())
    if word == "mul" and dim == len(product_.shape) - 1 and all(isinstance(o, Value) for o in operands):
        for hot, log in (operands, operands[::-1]):
            labels, _ = one_hot(hot)
            x = log_softmax(log) if labels is not None else None
            if x is not None:
                return negative(graph, loss_of(graph, x, labels, value, node.at))
    return None


def normaliser_minus_label(graph, value):
    """logsumexp of the logits, minus the label's."""
    word, operands = binary(value)
    if word != "sub" or not all(isinstance(o, Value) for o in operands):
        return None
    x, node = logsumexp(operands[0]), bare(operands[1]).node
    if x is None or node is None or node.op != "take_along" or node.outputs[0].shape[-1] != 1 or skip_casts(node.inputs[0]) is not skip_casts(x):
        return None
    return loss_of(graph, x, node.inputs[1], value, value.node.at)


def replaced_labels(value):
    """The labels before those that do not count were replaced by one that exists."""
    value = bare(value)
    word, operands = binary(value)
    if word == "where":
        return next((bare(o) for o in operands[1:] if isinstance(o, Value)), value)
    if word == "max" and number(operands[1]) == 0 or word == "mul":
        return bare(operands[0])
    return value


def counted(graph, value):
    """The loss of a token times whether its label counts; or the loss where it counts, else 0."""
    word, operands = binary(value)
    pairs = []
    if word == "mul":
        pairs = [operands, operands[::-1]]
    elif word == "where" and number(operands[2]) == 0 or word == "where" and isinstance(operands[2], Value) and is_zero(operands[2]):
        pairs = [(operands[1], operands[0])]
    for each, mask in pairs:
        if not isinstance(each, Value) or not isinstance(mask, Value):
            continue
        node = bare(each).node
        word, compared = binary(bare(mask))
        if node is None or node.op != "cross_entropy" or node.params.get("ignored") is not None or word != "ne" or number(compared[1]) is None:
            continue
        labels = bare(compared[0])
        if labels is bare(node.inputs[1]) or labels is replaced_labels(node.inputs[1]):
            given = labels if labels.shape == node.inputs[1].shape else graph.add("reshape", [labels], node.at, size=list(node.inputs[1].shape))
            new = graph.add("cross_entropy", [node.inputs[0], given], node.at, ignored=int(compared[1]))
            return new if new.shape == value.shape else graph.add("reshape", [new], node.at, size=list(value.shape))
    return None


def is_zero(value):
    value = bare(value)
    return value.node is not None and value.node.op == "fill" and value.node.params["value"] == 0


def looked_up(graph, value):
    """A product of one-hot rows with a table."""
    node = value.node
    if node.op != "contract":
        return None
    sides, out = node.params["equation"].split("->")
    for i, letters in enumerate(sides.split(",")):
        other = sides.split(",")[1 - i]
        ids, _ = one_hot(node.inputs[i])
        rows = len(other) == 2 and letters[-1] == other[0] and out == letters[:-1] + other[1]
        if ids is not None and rows and ids.shape == node.inputs[i].shape[:-1]:
            return graph.add("embedding", [ids, node.inputs[1 - i]], node.at)
    return None


def sign(graph, value):
    """Minus signs move outwards, and two are none."""
    node = value.node
    word, operands = binary(value)
    if word == "neg" and binary(operands[0])[0] == "neg":
        return binary(operands[0])[1][0]
    linear = node.op in ("reduce", "reshape", "broadcast", "cast", "slice") and node.params.get("kind", "sum") == "sum"
    if linear and binary(node.inputs[0])[0] == "neg":
        return negative(graph, graph.add(node.op, binary(node.inputs[0])[1], node.at, **node.params))
    if word in ("mul", "div") and isinstance(operands[0], Value) and binary(operands[0])[0] == "neg":
        return negative(graph, graph.map(word, binary(operands[0])[1][0], operands[1], at=node.at, dtype=value.dtype))
    if word == "mul" and number(operands[1]) is not None and operands[1] < 0 and of_losses(operands[0]):
        return negative(graph, graph.map("mul", operands[0], -operands[1], at=node.at, dtype=value.dtype))
    return None


def of_losses(value):
    """Whether a value is a sum of losses, or these, but for reshapes and factors."""
    value = bare(value)
    while value.node is not None and (value.node.op == "reduce" or binary(value)[0] in ("mul", "div") and isinstance(binary(value)[1][0], Value)):
        value = bare(value.node.inputs[0])
    return value.node is not None and value.node.op == "cross_entropy"


def sums(graph, value):
    """The sum of sums is one, also where these were divided by a number of tokens."""
    node = value.node
    if node.op == "reduce" and node.params["kind"] == "sum":
        x = node.inputs[0]
        word, operands = binary(x)
        if word == "div" and isinstance(operands[1], Size) and operands[0].node is not None and operands[0].node.op == "reduce":
            total = improved(graph, graph.add("reduce", [operands[0]], node.at, **node.params))
            return graph.map("div", total, operands[1], at=node.at, dtype=value.dtype)
        inner = x.node
        both = [n for n in (inner, node) if n is not None and n.op == "reduce" and n.params["kind"] == "sum" and not n.params.get("keep")]
        if len(both) == 2:
            left = [d for d in range(len(inner.inputs[0].shape)) if d not in inner.params["dims"]]
            dims = sorted(inner.params["dims"] + [left[d] for d in node.params["dims"]])
            return graph.add("reduce", inner.inputs, node.at, kind="sum", dims=dims, keep=False)
    word, operands = binary(value)
    if word == "div" and isinstance(operands[1], Size) and isinstance(operands[0], Value):
        before, first = binary(operands[0])
        if before == "div" and isinstance(first[1], Size):
            return graph.map("div", first[0], product([first[1], operands[1]]), at=node.at, dtype=value.dtype)
    return None


RULES = [softmax, at_labels, normaliser_minus_label, counted, looked_up, sign, sums]


def find(graph: Graph) -> Graph:
    def rule(new, node, inputs):
        results = new.add(node.op, inputs, node.at, **node.params)
        if isinstance(results, list):
            return results
        return [improved(new, results)]

    return rebuild(graph, rule)
