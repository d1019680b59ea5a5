"""What the tables of front ends share: the way of an op's row to the graph, and single elements without instructions that change nothing.

A row's function gets the lowering, the traced op and its arguments, where tensors are values, numbers (tensors without dimensions that
are known) or lists of these, and sizes are integers or polynomials in B and S. It returns the same.
"""
from __future__ import annotations

import math

from .interpret import STEPS
from .ir import Value
from .rewrite import number
from .size import Size, divide


def table():
    """An empty table of rows, and the decorator that puts a function there under its names."""
    rows = {}

    def row(*names):
        def put(function):
            for name in names:
                rows[name] = function
            return function
        return put
    return rows, row


class Lowering:
    """Adds the rows' ops to `graph`. A front end's own says what its traced ops are: name, shape, dtype."""

    def __init__(self, graph):
        self.graph, self.at, self.current = graph, None, None

    def add(self, op, *inputs, **params):
        return self.graph.add(op, [self.filled(x) if isinstance(x, (int, float)) else x for x in inputs], self.at, **params)

    def filled(self, number):
        return self.graph.add("fill", [], self.at, size=[1], value=float(number), dtype="T")

    def map(self, word, *operands, node=None, dtype=None):
        dtype = dtype or (self.dtype(node) if node is not None else None)
        return self.graph.map(word, *operands, at=self.at, dtype=None if dtype == "bool" else dtype)

    def trained(self, value):
        """Whether a gradient reaches a trained parameter through the value."""
        stack, seen = [value], set()
        while stack:
            v = stack.pop()
            if v is None or id(v) in seen:
                continue
            seen.add(id(v))
            parameter = self.graph.parameter_of(v) if v.node is None else None
            if parameter is not None and not parameter.frozen:
                return True
            stack.extend(v.node.inputs if v.node is not None else [])
        return False


def is_tensor(x):
    return isinstance(x, Value)


def of_sizes(low, word, operands):
    """Arithmetic of numbers and sizes."""
    if not any(isinstance(o, Size) for o in operands):
        return float(STEPS[word](*operands))
    a, b = (list(operands) + [0])[:2]
    a, b = (int(o) if isinstance(o, float) and o.is_integer() else o for o in (a, b))
    known = {"mul": lambda: a * b, "add": lambda: a + b, "sub": lambda: a - b, "neg": lambda: -1 * a, "div": lambda: divide(a, b),
             "max": lambda: a if isinstance(b, int) and b <= 1 else b if isinstance(a, int) and a <= 1 else None}
    found = known[word]() if word in known else None
    return low.refuse(f"computes {word} of {' and '.join(map(str, operands))}") if found is None else found


def constant(x):
    """The number that a tensor is throughout, or the operand."""
    return x.node.params["value"] if is_tensor(x) and x.node is not None and x.node.op == "fill" else x


NOTHING = {"add": 0, "sub": 0, "mul": 1, "div": 1, "pow": 1, "max": float("-inf"), "min": float("inf"), "and": 1, "or": 0}  # as the second operand
EITHER = {"add", "mul", "max", "min", "and", "or"}


def arithmetic(low, node, word, *operands):
    """A map of one instruction, without those that change nothing; of numbers alone, the number."""
    shape, dtype = low.shape(node), low.dtype(node)
    if any(is_tensor(o) and o.shape == shape and constant(o) is o for o in operands):
        operands = [constant(o) for o in operands]
    if not any(map(is_tensor, operands)):
        return of_sizes(low, word, operands)
    if len(operands) == 2 and word in NOTHING:
        for x, other in (operands, operands[::-1] if word in EITHER else operands):
            if is_tensor(x) and not is_tensor(other) and not isinstance(other, Size) and other == NOTHING[word] and x.shape == shape and \
                    (x.dtype == dtype or {x.dtype, dtype} == {"T", "G"}):
                return x if x.dtype == dtype else low.add("cast", x, dtype=dtype)
    first, second = operands[0], operands[-1]
    if word == "pow" and number(second) is not None and is_tensor(first):
        if second == 2:
            return low.map("mul", first, first, node=node)
        if second in (0.5, -0.5):
            return low.map("sqrt" if second > 0 else "rsqrt", first, node=node)
    return low.map(word, *operands, node=node)


def elementwise(word):
    return lambda low, node, *operands, **_: arithmetic(low, node, word, *operands)


# Functions that are one expression of others: the steps, each a word and operands; a number k in brackets is the result of step k, letters are arguments.
EXPRESSIONS = {
    "lerp": [("sub", "b", "a"), ("mul", [0], "c"), ("add", "a", [1])],
    "expm1": [("exp", "a"), ("sub", [0], 1.0)],
    "exp2": [("mul", "a", math.log(2)), ("exp", [0])],
    "log2": [("log", "a"), ("div", [0], math.log(2))],
    "log10": [("log", "a"), ("div", [0], math.log(10))],
    "erfc": [("erf", "a"), ("neg", [0]), ("add", [1], 1.0)],
    "ceil": [("neg", "a"), ("floor", [0]), ("neg", [1])],
    "sinh": [("exp", "a"), ("neg", "a"), ("exp", [1]), ("sub", [0], [2]), ("div", [3], 2.0)],
    "cosh": [("exp", "a"), ("neg", "a"), ("exp", [1]), ("add", [0], [2]), ("div", [3], 2.0)],
    "logaddexp": [("sub", "a", "b"), ("abs", [0]), ("neg", [1]), ("exp", [2]), ("log1p", [3]), ("max", "a", "b"), ("add", [4], [5])],
    "hypot": [("mul", "a", "a"), ("mul", "b", "b"), ("add", [0], [1]), ("sqrt", [2])],
    "threshold": [("lt", "b", "a"), ("where", [0], "a", "c")],
}


def expression(name):
    """The row of a function of EXPRESSIONS."""
    def put_together(low, node, *given, **_):
        results = []
        for word, *operands in EXPRESSIONS[name]:
            values = [results[o[0]] if isinstance(o, list) else given["abc".index(o)] if isinstance(o, str) else o for o in operands]
            results.append(arithmetic(low, node, word, *values) if word != "where" else low.map(word, *values, node=node))
        return results[-1]
    return put_together


def sliced(low, x, dim, start, length, step=1):
    if length == x.shape[dim] and step == 1:
        return x
    return low.add("slice", x, dim=dim, start=start, length=length, **({"step": step} if step != 1 else {}))
