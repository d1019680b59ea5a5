"""The loss: what the program adds up over the tokens, and what the user's model divides the sum by."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from .ir import Value, Weights
from .rewrite import bare, number, term_of
from .size import B, S, Size, divide


@dataclass
class Term:
    """A sum over tokens, a factor, and what it is divided by: "tokens", "labels", Weights, or None."""

    value: Value
    factor: float
    over: Union[str, Weights, None]


def loss(graph):
    """The sum over tokens, and what the user's model divides it by. Several means over the same are the mean of a sum."""
    if graph.loss is None:
        return graph
    at = graph.loss.node.at if graph.loss.node is not None else None
    found = terms_of(graph, bare(graph.loss), 1.0, at)
    over = {term.over for term in found}
    if len(over) > 1:
        words = sorted("a sum" if o is None else f"a mean over {o}" for o in over)
        graph.refuse(f"the loss adds {' and '.join(words)}: one number divides all of it", "loss", at)
    total = bare(graph.loss)
    if over != {None}:
        total = None
        for term in found:
            value = term.value if term.factor == 1 else graph.map("mul", term.value, term.factor, at=at, dtype="G")
            total = value if total is None else graph.map("add", total, value, at=at, dtype="G")
    graph.loss, graph.mean_over = total, over.pop()
    if total.node is not None and total.shape != (1,):
        graph.loss = graph.add("reshape", [total], total.node.at, size=[1])
    graph.trim()
    for name, _ in graph.mean_over.factors if isinstance(graph.mean_over, Weights) else ():
        if not any(i.value.name == name for i in graph.inputs):
            graph.refuse(f"the loss is divided by a sum of {name}, which it does not depend on otherwise", "loss", at)
    return graph


def terms_of(graph, value, factor, at):
    """The terms of a number, each times a factor."""
    word, operands = term_of(value)
    values = [o for o in operands if isinstance(o, Value)]
    if word in ("add", "sub") and len(values) == 2:
        first, second = (bare(o) for o in values)
        return terms_of(graph, first, factor, at) + terms_of(graph, second, -factor if word == "sub" else factor, at)
    if word == "neg":
        return terms_of(graph, bare(values[0]), -factor, at)
    if word == "mul" and len(values) == 1:
        by = next(o for o in operands if not isinstance(o, Value))
        if number(by):
            return terms_of(graph, bare(values[0]), factor * by, at)
    if word == "div" and isinstance(operands[0], Value):
        over, times = divisor(graph, operands[1])
        if over is None and (isinstance(operands[1], Size) or value is bare(graph.loss)):
            graph.refuse("the loss is divided by what is neither the number of labels that count nor that of tokens, nor a sum of inputs", "loss", at)
        if over is not None:
            return [Term(bare(operands[0]), factor / times, over)]
    return [Term(value, factor, None)]


def divisor(graph, by):
    """("tokens", "labels" or Weights, how many times as much), or (None, 1)."""
    if isinstance(by, Value):
        return ("labels" if counts_labels(bare(by), graph) else weights_of(bare(by), graph)), 1
    shifted = any(i.meaning == "labels" and i.shift == 1 and i.ignored is None for i in graph.inputs)
    for over, size in (("tokens", B * S), ("labels", B * S - B)):
        times = divide(by, size)
        if isinstance(times, int) and (over == "tokens" or shifted):
            return over, times
    return None, 1


def counts_labels(value, graph):
    """Whether a value is the sum of (label != the one that is ignored)."""
    node = value.node
    if node is not None and node.op == "map" and term_of(value)[0] == "max" and term_of(value)[1][1] == 1:
        value = bare(term_of(value)[1][0])
        node = value.node
    if node is None or node.op != "sum":
        return False
    word, operands = term_of(bare(node.inputs[0]))
    return word == "ne" and isinstance(operands[0], Value) and is_labels(graph, operands[0]) and operands[1] == -100


def weights_of(value, graph):
    """The Weights that a value is: a sum of products of inputs, with at least a number, and plus one; or None."""
    found = {}
    for word, name in (("add", "plus"), ("max", "least")):
        operands = term_of(value)[1] if term_of(value)[0] == word else ()
        if len(operands) == 2 and any(number(o) is not None for o in operands):
            found[name], value = next((number(a), bare(b)) for a, b in (operands, operands[::-1]) if number(a) is not None)
    if value.node is None or value.node.op != "sum":
        return None
    factors, labels, left = [], False, [bare(value.node.inputs[0])]
    while left:
        one, shift = bare(left.pop()), 0
        if one.node is not None and one.node.op == "shift":
            one, shift = bare(one.node.inputs[0]), -one.node.params["tokens"]
        word, operands = term_of(one)
        about = graph.input_of(one)
        if about is not None and about.meaning != "labels" and one.name != graph.tokens:
            factors.append((one.name, shift))
        elif word == "mul" and not shift and all(isinstance(o, Value) for o in operands):
            left.extend(operands)
        elif word == "ne" and not shift and isinstance(operands[0], Value) and is_labels(graph, operands[0]) and operands[1] == -100:
            labels = True
        else:
            return None
    return Weights(tuple(sorted(factors)), labels, **found) if factors else None


def is_labels(graph, value):
    about = graph.input_of(value)
    return about is not None and about.meaning == "labels"
