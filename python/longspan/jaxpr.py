"""A traced function of JAX as plain data, with sizes that are polynomials in B and S.

`trace` traces with symbolic dimensions (jax.export.symbolic_shape). Where the function or JAX needs numbers, it traces at five pairs of a
batch and a length instead, and what differs between these traces must be such a polynomial: so a program whose ops depend on the length is
found, and refused with the line where the traces part.
"""
from __future__ import annotations

import difflib
import linecache
import os
import traceback
from dataclasses import dataclass, field
from typing import Any, List

import jax
import jax.extend.core
import numpy
from jax._src import source_info_util

from .ir import Refused
from .size import at, size

LIBRARIES = ("jax", "jaxlib", "flax", "equinox", "optax", "jaxtyping", "haiku")
POINTS = [(2, 10007), (3, 10007), (2, 20011), (3, 20011), (7, 15013), (5, 4001)]


@dataclass(eq=False)
class Variable:
    shape: tuple
    dtype: Any


@dataclass(eq=False)
class Constant:
    value: Any  # a number, a Size, or a NumPy array


@dataclass(eq=False)
class Equation:
    name: str  # of the primitive
    inputs: list
    outputs: list
    params: dict
    source: Any  # (file, line, code), or None


@dataclass(eq=False)
class Program:
    inputs: list
    outputs: list
    equations: List[Equation] = field(default_factory=list)


class Differ(Exception):
    """Two traces have other ops: those of one equation, by its source."""

    def __init__(self, equation):
        self.equation = equation


# --- the user's lines ---------------------------------------------------------------------------------------------------


def library(file):
    """The library that a file belongs to, of those that are no user's."""
    parts = os.path.abspath(file).split(os.sep)
    inside = parts[max((i for i, p in enumerate(parts) if p in ("site-packages", "dist-packages")), default=len(parts)):]
    if os.path.dirname(os.path.abspath(file)) == os.path.dirname(os.path.abspath(__file__)):
        return "longspan"
    return next((name for name in LIBRARIES if name in inside[1:2]), None)


def innermost(frames):
    """(file, line, code) of the innermost frame [(file, line)] that is the user's, else of one that is not JAX's."""
    mine = [f for f in frames if library(f[0]) is None] or [f for f in frames if library(f[0]) not in ("jax", "jaxlib", "longspan")]
    return (mine[0][0], mine[0][1], linecache.getline(*mine[0]).strip()) if mine else None


def source_of(equation):
    traced = equation.source_info.traceback
    return innermost([(f.file_name, f.start_line) for f in source_info_util.user_frames(traced)]) if traced else None


def refusal(error):
    """A failure while JAX traces, in one line, with the user's line."""
    frames = [(f.filename, f.lineno) for f in reversed(traceback.extract_tb(error.__traceback__))]
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    depends = isinstance(error, (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError, jax.errors.TracerBoolConversionError,
                                 jax.errors.TracerIntegerConversionError, jax.errors.TracerArrayConversionError))
    return Refused(("a shape or a branch depends on data: " if depends else "") + text, type(error).__name__, innermost(frames))


# --- traces -------------------------------------------------------------------------------------------------------------


def fitted(points, values):
    """The polynomial 1, B, S, B*S that has these values at the points; None if there is none."""
    if all(v == values[0] for v in values):
        return int(values[0]) if float(values[0]).is_integer() else values[0]
    rows = numpy.array([[1, b, s, b * s] for b, s in points], dtype=float)
    found = numpy.linalg.lstsq(rows, numpy.array(values, dtype=float), rcond=None)[0].round()
    result = size({power: int(c) for power, c in zip(((0, 0), (1, 0), (0, 1), (1, 1)), found)})
    return result if all(at(result, p) == v for p, v in zip(points, values)) else None


class Merge:
    """One program of the traces of one function at several points, or of one symbolic trace."""

    def __init__(self, points, symbolic):
        self.points, self.symbolic, self.source = points, symbolic, None

    def refuse(self, what):
        raise Refused(f"{what} depends on the batch or the length of the sequence, and is no sum of products of these", None, self.source)

    def size(self, values):
        if self.symbolic:
            names = dict(zip("BS", (None, None)))
            d = values[0]
            if not jax.export.is_symbolic_dim(d):
                return int(d)
            values = [d._evaluate({**names, "B": b, "S": s}) for b, s in self.points]
        found = fitted(self.points, values)
        return self.refuse("a size") if found is None else found

    def constant(self, values):
        arrays = [numpy.asarray(v) for v in values]
        first = arrays[0]
        if first.ndim == 0:
            if first.dtype.kind not in "biuf" and first.dtype.name != "bfloat16":
                self.refuse("a constant that is no number")
            if all(a == first or (a != a and first != first) for a in arrays):
                return Constant(bool(first) if first.dtype.kind == "b" else int(first) if first.dtype.kind in "iu" else float(first))
            found = fitted(self.points, [float(a) for a in arrays])
            return self.refuse("a number") if found is None else Constant(found)
        if all(a.shape == first.shape and (a == first).all() for a in arrays):
            return Constant(first)
        if first.ndim == 1 and all((a == numpy.arange(a.size)).all() for a in arrays):
            return Constant(("iota", self.size([a.size for a in arrays])))
        return self.refuse("a constant array")

    def of(self, values):
        """A parameter of a primitive."""
        first = values[0]
        if isinstance(first, bool) or first is None:
            return first
        if isinstance(first, (int, numpy.integer)) or jax.export.is_symbolic_dim(first):
            return self.size(values)
        if isinstance(first, jax.extend.core.ClosedJaxpr):
            return self.program([v.jaxpr for v in values], [v.consts for v in values])
        if isinstance(first, jax.extend.core.Jaxpr):
            return self.program(values, [[] for _ in values])
        if isinstance(first, (tuple, list)) and not hasattr(first, "_fields"):
            return [self.of(list(parts)) for parts in zip(*values)]
        return first

    def program(self, jaxprs, constants):
        known = {}

        def read(atoms):
            first = atoms[0]
            if isinstance(first, jax.extend.core.Literal):
                return self.constant([a.val for a in atoms])
            return known[first]

        def variables(groups):
            results = []
            for group in zip(*groups):
                v = Variable(tuple(self.size(list(sizes)) for sizes in zip(*(v.aval.shape for v in group))), group[0].aval.dtype)
                known[group[0]] = v
                results.append(v)
            return results

        for i, variable in enumerate(jaxprs[0].constvars):
            known[variable] = self.constant([c[i] for c in constants])
        result = Program(variables([j.invars for j in jaxprs]), [])
        for equations in zip(*(j.eqns for j in jaxprs)):
            first, source = equations[0], source_of(equations[0])
            self.same(equations)
            self.source = source
            inputs = [read(list(atoms)) for atoms in zip(*(e.invars for e in equations))]
            params = {key: self.of([e.params[key] for e in equations]) for key in first.params}
            result.equations.append(Equation(first.primitive.name, inputs, variables([e.outvars for e in equations]), params, source))
        longest = max(jaxprs, key=lambda j: len(j.eqns))
        if len(longest.eqns) != len(result.equations):
            raise Differ(longest.eqns[len(result.equations)])
        result.outputs = [read(list(atoms)) for atoms in zip(*(j.outvars for j in jaxprs))]
        return result

    def same(self, equations):
        """Raises Differ unless these are one op in each trace."""
        first = equations[0]
        for other in equations[1:]:
            if other.primitive is not first.primitive or len(other.invars) != len(first.invars) or \
                    [len(v.aval.shape) for v in other.outvars] != [len(v.aval.shape) for v in first.outvars]:
                raise Differ(first)


def specification(shapes, sizes):
    return [jax.ShapeDtypeStruct(tuple(sizes if shape is None else shape), dtype) for shape, dtype in shapes]


def symbolic(function, leaves):
    closed = jax.make_jaxpr(function)(*specification(leaves, jax.export.symbolic_shape("B, S")))
    return Merge(POINTS, True).program([closed.jaxpr], [closed.consts])


def at_points(function, leaves, length):
    points = [(2, length), (3, length), (2, length - 1), (3, length - 1), (5, length - 2)]
    traces = [jax.make_jaxpr(function)(*specification(leaves, point)) for point in points]
    try:
        return Merge(points, False).program([t.jaxpr for t in traces], [t.consts for t in traces])
    except Differ as differ:
        raise Refused("the ops that run depend on the batch or the length of the sequence (a loop over tokens)", differ.equation.primitive.name,
                      source_of(differ.equation)) from None


def trace(function, leaves, length):
    """
    The Program of function(*arrays). leaves: [(shape, dtype)], with shape None for [B,S]; length: the longest at which it is traced, where
    it cannot be traced with symbols.
    """
    try:
        return symbolic(function, leaves)
    except Exception:  # what it is, the other traces say: JAX has many errors for sizes that are no numbers
        pass
    try:
        return at_points(function, leaves, length)
    except Refused:
        raise
    except Exception as error:
        raise refusal(error) from error


def sharpen(program, exact):
    """Takes numbers that a program has rounded to its type from one that is the same in f64, but for casts: where these stand in line."""
    names = [[e.name for e in p.equations] for p in (program, exact)]
    for block in difflib.SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
        for e, other in zip(program.equations[block.a:block.a + block.size], exact.equations[block.b:block.b + block.size]):
            for x, y in zip(e.inputs, other.inputs):
                numbers = isinstance(x, Constant) and isinstance(y, Constant) and isinstance(x.value, float) and isinstance(y.value, float)
                if numbers and abs(x.value - y.value) <= 2 ** -8 * abs(y.value):
                    x.value = y.value
            for a, b in zip(e.params.values(), other.params.values()):
                for one, same in zip(a, b) if isinstance(a, list) and isinstance(b, list) else [(a, b)]:
                    if isinstance(one, Program) and isinstance(same, Program):
                        sharpen(one, same)
