"""Attention masks, found by evaluating one element: what mask[b,h,q,k] is in terms of the indices b, h, q and k.

The element is an expression (mask_expressions.py): a number, a linear form of the indices, a token's number in an input, a condition, or a choice
between two of these by a condition. Conditions that bound q - k, compare the documents of q and k, or hide tokens of padding, are terms of
Longspan's masks. All others are refused.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .ir import TELL
from .mask_expressions import (STEPS, Choice, If, Linear, NoMask, Running, Token, atom, both, choice, compare, is_condition, is_linear, linear, moved,
                               negated, number, ordered, show, truth)  # fmt: skip

HIDDEN = -1e4  # what is added to a score that must not count is below
MEANINGS = TELL + ("positions",)  # of inputs by which attention is told which tokens see each other


@dataclass(frozen=True)
class Told:
    """The input that tells which tokens see each other, by its meaning (ir.Input); `number` of "first" and "last"."""

    input: str
    meaning: str
    number: Any = None


class Element:
    """Evaluates elements of a graph's values."""

    def __init__(self, graph):
        self.graph = graph

    def of(self, value, index):
        """The element of a value at a list of linear forms."""
        node = value.node
        if node is None:
            return self.leaf(value, index)
        rule = getattr(self, "_" + node.op, None)
        if rule is None:
            raise NoMask(f"depends on {node.op}: on what is learned, or computed from activations")
        return rule(node, index, *node.inputs)

    def leaf(self, value, index):
        parameter = self.graph.parameter_of(value)
        if parameter is None:
            if index[0] not in (atom("b"), 0):
                raise NoMask(f"reads {value.name} of another sequence")
            return atom(Token(value.name, index[1]))
        if not parameter.buffer:
            raise NoMask(f"depends on the parameter {value.name}")
        return self.buffer(parameter.array(), index, value.name)

    def buffer(self, array, index, name):
        """Buffers that occur: one number throughout, 0 1 2 ..., and lower triangles."""
        import numpy
        fixed = tuple(int(i) if not isinstance(i, Linear) else slice(None) for i in index)
        array, index = array[fixed], [i for i in index if isinstance(i, Linear)]
        if array.size and (array == array.flat[0]).all():
            return float(array.flat[0])
        if array.ndim == 1 and (array == numpy.arange(array.size)).all():
            return index[0]
        if array.ndim == 2:
            for upper, (yes, no) in ((False, (array[0, 0], array[0, -1])), (True, (array[-1, -1], array[-1, 0]))):
                triangle = numpy.where((numpy.triu if upper else numpy.tril)(numpy.ones_like(array)) > 0, yes, no)
                if (array == triangle).all():
                    rows, columns = index if not upper else index[::-1]
                    return choice(compare("le")(columns, rows), float(yes), float(no))
        raise NoMask(f"depends on the numbers of the buffer {name}")

    def operand(self, value, index, shape):
        """An operand's element where the result is broadcast."""
        tail = index[len(index) - len(value.shape):]
        return self.of(value, [0 if n == 1 else i for n, i in zip(value.shape, tail)])

    def _map(self, node, index, *inputs):
        results = []
        for step in node.params["program"]:
            operands = [self.operand(inputs[int(w[1:])], index, node.outputs[0].shape) if isinstance(w, str) and w[0] == "i" else
                        results[int(w[1:])] if isinstance(w, str) else w for w in step[1:]]
            if step[0] not in STEPS:
                raise NoMask(f"depends on {step[0]}")
            results.append(STEPS[step[0]](*operands))
        return results[-1]

    def _iota(self, node, index):
        return index[node.params["dim"]]

    def _fill(self, node, index):
        return node.params["value"]

    def _cast(self, node, index, x):
        return self.of(x, index)

    def _broadcast(self, node, index, x):
        return self.operand(x, index, None)

    def _permute(self, node, index, x):
        back = [None] * len(index)
        for i, d in enumerate(node.params["order"]):
            back[d] = index[i]
        return self.of(x, back)

    def _reshape(self, node, index, x):
        """Dimensions of size 1 come and go; others stay."""
        kept = [i for i, n in zip(index, node.outputs[0].shape) if n != 1]
        if [n for n in node.outputs[0].shape if n != 1] != [n for n in x.shape if n != 1]:
            raise NoMask("depends on a reshape")
        return self.of(x, [0 if n == 1 else kept.pop(0) for n in x.shape])

    def _slice(self, node, index, x):
        dim, start, step = node.params["dim"], node.params["start"], node.params.get("step", 1)
        return self.of(x, index[:dim] + [number(linear(index[dim]).times(step).plus(start)) if step != 1 or start else index[dim]] + index[dim + 1:])

    def _index(self, node, index, x, *indices):
        n = len(index) - (len(x.shape) - len(indices))
        first = [self.operand(i, index[:n], None) for i in indices]
        return self.of(x, first + index[n:])

    def _concat(self, node, index, *inputs):
        """Behind what stands in front with a fixed length, the last input; this holds from the second token on."""
        dim, i = node.params["dim"], linear(index[node.params["dim"]])
        front = sum(v.shape[dim] for v in inputs[:-1] if isinstance(v.shape[dim], int))
        if not all(isinstance(v.shape[dim], int) for v in inputs[:-1]) or front > 1 or not i.terms:
            raise NoMask("depends on a concatenation")
        rest = self.of(inputs[-1], index[:dim] + [number(i.plus(-front))] + index[dim + 1:])
        first = self.of(inputs[0], index[:dim] + [0] + index[dim + 1:]) if front else 0
        if isinstance(rest, Linear) and any(isinstance(part, Running) for part, _ in rest.terms) and first != rest.constant:
            raise NoMask(f"counts from {show(first)}")  # a sum over no token is 0
        return rest

    def _pad(self, node, index, x):
        """Zeros in front, as of a sum over tokens that is moved behind them by one."""
        dim, before, value = node.params["dim"], node.params["before"], node.params["value"]
        rest = self.of(x, index[:dim] + [number(linear(index[dim]).plus(-before))] + index[dim + 1:]) if before == 1 and value == 0 else None
        if not isinstance(rest, Linear) or [type(part) for part, _ in rest.terms] != [Running] or rest.constant:
            raise NoMask("depends on padding")
        return rest

    def _cumsum(self, node, index, x):
        dim = node.params["dim"]
        what = self.of(x, index[:dim] + [atom("i")] + index[dim + 1:])
        return 0 if what in (False, 0) else atom(Running(what, index[dim]))


# --- terms -------------------------------------------------------------------------------------------------------------


def conjuncts(condition):
    if isinstance(condition, If) and condition.word == "and":
        return conjuncts(condition.left) + conjuncts(condition.right)
    if isinstance(condition, If) and condition.word == "not" and isinstance(condition.left, If) and condition.left.word == "or":
        return conjuncts(negated(condition.left.left)) + conjuncts(negated(condition.left.right))
    return [] if condition is True else [condition]


def bound(condition):
    """("causal", 0), ("ahead", N), ("window", W) or ("first", N) of a condition on q and k."""
    if isinstance(condition, If) and condition.word == "positive":
        terms, c = dict(condition.left.terms), condition.left.constant
        if terms == {"q": 1, "k": -1} and c >= 0:
            return ("causal", 0) if c == 0 else ("ahead", int(c))
        if terms == {"q": -1, "k": 1} and c >= -1:
            return "window", int(c) + 1
        if terms == {"k": -1} and c >= 0:
            return "first", int(c) + 1
    return None


def documents(condition):
    """The Told of a condition that q and k are in one document."""
    if isinstance(condition, If) and condition.word == "same":
        return marked(condition.left, "last")
    if not isinstance(condition, If) or condition.word != "zero" or condition.left.constant != 0:
        return None
    (a, one), (b, minus) = condition.left.terms if len(condition.left.terms) == 2 else ((None, 0), (None, 0))
    if type(a) is not type(b) or one + minus != 0:
        return None
    if isinstance(a, Running) and a.what == b.what and {a.at, b.at} == {atom("q").plus(-1), atom("k").plus(-1)}:  # the tokens before
        found = marked(atom(Running(a.what, atom("q"))), "first")
        return found and Told(found.input, "last", found.number)
    if {getattr(a, "at", None), getattr(b, "at", None)} != {atom("q"), atom("k")}:
        return None
    if isinstance(a, Token) and a.input == b.input:
        return Told(a.input, "documents")
    if isinstance(a, Running) and a.what == b.what and marked(atom(a), "first"):
        return marked(atom(a), "first")
    if isinstance(a, Running) and a.what == b.what:  # the number of positions so far that do not follow the one before
        for name in {part.input for part in atoms_of(a.what) if isinstance(part, Token)}:
            here, before = atom(Token(name, atom("i"))), atom(Token(name, atom("i").plus(-1)))
            if a.what == compare("ne")(here.plus(before, -1), 1):
                return Told(name, "positions")
    return None


def marked(x, meaning):
    """
    The Told of how often a number was among an input's tokens: up to the token, which then is the first of a document, or before it, so
    that the token is the last of one.
    """
    if isinstance(x, Choice) and isinstance(x.condition, If) and meaning == "last":
        counted = x.no if x.condition.word == "zero" else x.yes
        less = x.yes if x.condition.word == "zero" else x.no
        found = marked(counted, "first")
        if found is None or linear(counted).plus(-1) != less:
            return None
        (running, _), = counted.terms
        here = If("zero", running.what.left) if x.condition.word == "zero" else negated(If("zero", running.what.left))
        return Told(found.input, "last", found.number) if moved(here, "i", running.at.terms[0][0]) == x.condition else None
    if not isinstance(x, Linear) or len(x.terms) != 1 or x.constant or x.terms[0][1] != 1 or not isinstance(x.terms[0][0], Running):
        return None
    what = x.terms[0][0].what
    if not isinstance(what, If) or what.word != "zero" or len(what.left.terms) != 1:
        return None
    (token, factor), = what.left.terms
    value = -what.left.constant * factor
    return Told(token.input, "first", int(value)) if isinstance(token, Token) and token.at == atom("i") and abs(factor) == 1 and value == int(value) else None


def padding(condition):
    """The Told of a condition that k, or q, is no padding: that an input of 1 and 0 is 1 for it."""
    shown = isinstance(condition, If) and condition.word != "not"
    inner = condition if shown else condition.left if isinstance(condition, If) else None
    if not isinstance(inner, If) or not isinstance(inner.left, Linear) or len(inner.left.terms) != 1:
        return None
    (token, factor), = inner.left.terms
    if not isinstance(token, Token) or token.at not in (atom("q"), atom("k")):
        return None
    holds = [{"positive": x >= 0, "zero": x == 0}.get(inner.word) is shown for x in (inner.left.constant, inner.left.constant + factor)]
    return Told(token.input, "padding") if holds == [False, True] else None


def atoms_of(x):
    if isinstance(x, If):
        return atoms_of(x.left) + atoms_of(x.right)
    if isinstance(x, Choice):
        return atoms_of(x.condition) + atoms_of(x.yes) + atoms_of(x.no)
    return [part for part, _ in x.terms] if isinstance(x, Linear) else []


def in_document(condition, name):
    """The condition where q and k are in one document, in which positions count tokens: they differ as q and k do."""
    if isinstance(condition, If) and condition.word in ("and", "or", "not"):
        return If(condition.word, in_document(condition.left, name), condition.right and in_document(condition.right, name))
    if isinstance(condition, If) and condition.word == "positive":
        terms = dict(condition.left.terms)
        q, k = Token(name, atom("q")), Token(name, atom("k"))
        if terms.get(q, 0) == -terms.get(k, 0) != 0:
            c = terms.pop(q)
            terms.pop(k)
            return If("positive", Linear(ordered(terms), condition.left.constant).plus(atom("q").times(c)).plus(atom("k").times(-c)))
    return condition


def visible(x):
    """When a score counts: of a condition, or of a number that is added."""
    if is_condition(x):
        return x
    if is_linear(x) and x == 0:
        return True
    if isinstance(x, Choice):
        hidden = [not is_condition(part) and is_linear(part) and not isinstance(part, Linear) and part < HIDDEN for part in (x.yes, x.no)]
        if hidden[1]:
            return both("and", x.condition, visible(x.yes))
        if hidden[0]:
            return both("and", negated(x.condition), visible(x.no))
    if isinstance(x, Linear) and len(x.terms) == 1 and isinstance(x.terms[0][0], Token) and x.constant < HIDDEN and x.terms[0][1] == -x.constant:
        return If("positive", Linear(((x.terms[0][0], 1),), -1))  # (1 - m) * -1e9, where m is 1 or 0
    raise NoMask(f"adds {show(x)} to the scores: a bias, not a mask")


def terms(conditions):
    """(terms of a Longspan mask, the Told of its documents or None) of the conditions that must all hold."""
    causal, windows, prefix, ahead, found = False, [], [], 0, None
    conditions = [part for c in conditions for part in conjuncts(c)]
    by_position = next((told.input for told in map(documents, conditions) if told and told.meaning == "positions"), None)
    for condition in [in_document(c, by_position) for c in conditions] if by_position else conditions:
        if bound(condition) and bound(condition)[0] != "first":
            kind, n = bound(condition)
            causal, windows, ahead = causal or kind == "causal", windows + ([(n, 0)] if kind == "window" else []), max(ahead, n if kind == "ahead" else 0)
        elif isinstance(condition, If) and condition.word == "or" and None not in (bound(condition.left), bound(condition.right)):
            pair = dict([bound(condition.left), bound(condition.right)])
            if set(pair) == {"causal", "first"}:
                prefix.append(pair["first"])
            elif set(pair) == {"window", "first"}:
                windows.append((pair["window"], pair["first"]))
            else:
                raise NoMask(f"has the term {show(condition)}")
        elif documents(condition) or padding(condition):
            by = documents(condition) or padding(condition)
            if found not in (None, by):
                raise NoMask(f"has documents or padding by two inputs, {found.input} and {by.input}")
            found = by
        else:
            raise NoMask(f"has the term {show(condition)}")
    if ahead and not causal:
        raise NoMask(f"sees {ahead} tokens ahead")
    if windows and not causal:
        raise NoMask("has a window but no causal bound")
    result = [{"kind": "window", "window": w, "first": n} for w, n in sorted(set(windows))]
    result += [{"kind": "prefix", "first": n} for n in prefix]
    if causal and not result:
        result = [{"kind": "causal"}]
    elif causal and prefix:
        result = [{"kind": "causal"}] + [t for t in result if t["kind"] != "prefix"]
    return result + ([{"kind": "documents"}] if found else []), found


def mask(graph, values, causal=False):
    """
    The terms of masks that hold together: conditions, or numbers added to scores. Each is a value that broadcasts to [B,H,Sq,Sk], or
    (value, the index of each of its dimensions: "b", "h", "q" or "k").
    """
    conditions = [If("positive", atom("q").plus(atom("k"), -1))] if causal else []
    for value in values:
        value, letters = value if isinstance(value, tuple) else (value, "bhqk"[4 - len(value.shape):])
        element = Element(graph).of(value, [0 if n == 1 else atom(letter) for n, letter in zip(value.shape, letters)])
        conditions.append(visible(truth(element) if value.dtype == "bool" else element))
    return terms(conditions)
