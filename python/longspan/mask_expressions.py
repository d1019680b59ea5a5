"""Expressions of one element of a mask: numbers, linear forms and polynomials of indices, what an input has for a token, conditions, choices."""
from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from . import mask_sets as sets


class NoMask(Exception):
    """Why a mask cannot be expressed."""


@dataclass(frozen=True)
class Linear:
    """The sum of coefficient * atom, and a constant. Atoms: the indices "b", "h", "q", "k" and "i", a Token, a Running."""

    terms: tuple = ()
    constant: float = 0

    def plus(self, other, factor=1):
        other = linear(other)
        total = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) + factor * c
        return number(Linear(ordered(total), self.constant + factor * other.constant))

    def times(self, factor):
        return number(Linear(ordered({atom: c * factor for atom, c in self.terms}), self.constant * factor))


@dataclass(frozen=True)
class Polynomial:
    """The sum of coefficients[n] * form ** n, to 2 and above, of a form of indices."""

    form: Linear
    coefficients: tuple


@dataclass(frozen=True)
class Token:
    """The number that an input has for token `at` of its sequence."""

    input: str
    at: Any


@dataclass(frozen=True)
class Running:
    """The sum of `what`, which speaks of token "i", over tokens up to `at`."""

    what: Any
    at: Any


@dataclass(frozen=True)
class If:
    """`word` is "positive" (left >= 0), "zero" (left = 0), "same" (left, of q, = right, of k), "and", "or", or "not"."""

    word: str
    left: Any
    right: Any = None


@dataclass(frozen=True)
class Choice:
    condition: Any
    yes: Any
    no: Any


def ordered(total):
    return tuple(sorted(((atom, c) for atom, c in total.items() if c), key=repr))


def atom(x):
    return Linear(((x, 1),))


def number(x):
    return x.constant if isinstance(x, Linear) and not x.terms else x


def linear(x):
    return x if isinstance(x, Linear) else Linear((), x)


def is_linear(x):
    return isinstance(x, (int, float, Linear)) and not isinstance(x, bool)


def is_condition(x):
    return isinstance(x, (bool, If))


def negated(c):
    if isinstance(c, bool):
        return not c
    if c.word == "not":
        return c.left
    if c.word == "positive":  # of integers: not x >= 0 is -x - 1 >= 0
        return If("positive", c.left.times(-1).plus(-1))
    return simple(If("not", c))


# --- conditions on one form of indices are sets of integers ---------------------------------------------------------------


def form_of(x):
    """The form that x is a multiple of, but for a constant: with coefficients without a common divisor, the first one above 0. None: not of indices."""
    if isinstance(x, Polynomial):
        return x.form
    if not isinstance(x, Linear) or not all(isinstance(part, str) for part, _ in x.terms):
        return None
    coefficients = [Fraction(c) for _, c in x.terms]
    common = math.lcm(*(c.denominator for c in coefficients))
    whole = [int(c * common) for c in coefficients]
    divisor = math.gcd(*whole) * (1 if whole[0] > 0 else -1)
    return Linear(tuple((part, c // divisor) for (part, _), c in zip(x.terms, whole)))


def coefficients(x, form):
    """Of x as a polynomial of the form; None: it is none."""
    if isinstance(x, Polynomial):
        return list(x.coefficients) if x.form == form else None
    if not isinstance(x, Linear):
        return [x]
    return [x.constant, Fraction(x.terms[0][1]) / form.terms[0][1]] if form_of(x) == form else None


def leaves(c):
    return leaves(c.left) + (leaves(c.right) if c.right else []) if isinstance(c, If) and c.word in ("and", "or", "not") else [c]


def numbers_of(c, form):
    """The set of what the form may be where the condition holds."""
    if c.word == "not":
        return sets.complement(numbers_of(c.left, form))
    if c.word in ("and", "or"):
        return (sets.intersection if c.word == "and" else sets.union)(numbers_of(c.left, form), numbers_of(c.right, form))
    p = coefficients(c.left, form)
    return sets.not_negative(p) if c.word == "positive" else sets.intersection(sets.not_negative(p), sets.not_negative([-x for x in p]))


def among(form, numbers):
    """The condition that the form is one of a set."""
    if numbers in ([], sets.ALL):
        return numbers == sets.ALL
    gaps = sets.complement(numbers)
    if len(gaps) == 1 and gaps[0][0] == gaps[0][1]:
        return If("not", If("zero", form.plus(-gaps[0][0])))
    found = None
    for low, high in numbers:
        ends = [If("positive", form.plus(-low))] * (low != -sets.INFINITE) + [If("positive", form.times(-1).plus(high))] * (high != sets.INFINITE)
        part = If("zero", form.plus(-low)) if low == high else ends[0] if len(ends) == 1 else If("and", *ends)
        found = part if found is None else If("or", found, part)
    return found


def simple(c):
    """The condition as intervals, where it speaks of one form of indices."""
    parts = leaves(c)
    if len(parts) == 1 and c.word != "not" or any(part.word not in ("positive", "zero") for part in parts):
        return c
    forms = {form_of(part.left) for part in parts}
    return among(*forms, numbers_of(c, *forms)) if len(forms) == 1 and None not in forms else c


def combined(word, a, b):
    """The sum, difference or product of two of which one is a polynomial, or both are linear."""
    form = form_of(a) or form_of(b)
    parts = [coefficients(x, form) for x in (a, b)] if form else [None]
    if None in parts:
        raise NoMask(f"computes {word} of {show(a)} and {show(b)}")
    p = sets.times(*parts) if word == "mul" else sets.plus(*parts, 1 if word == "add" else -1)
    while p and not p[-1]:
        p.pop()
    return number(form.times(p[1]).plus(p[0])) if len(p) == 2 else sum(p) if len(p) < 2 else Polynomial(form, tuple(p))


def implies(a, b):
    """Whether b holds where a does, as two bounds of one linear form say; False: it is not known."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is False or b is True
    if a.word != "positive" or b.word != "positive":
        return a == b
    ahead = linear(b.left).plus(a.left, -1)
    return not isinstance(ahead, Linear) and ahead >= 0


def both(word, a, b):
    neutral = word == "and"
    if isinstance(a, bool) or isinstance(b, bool):
        a, b = (a, b) if isinstance(a, bool) else (b, a)
        return b if a is neutral else a
    if implies(a, negated(b)) if neutral else implies(negated(a), b):  # they exclude each other, or one of them always holds
        return not neutral
    for one, other in ((a, b), (b, a)):
        if implies(one, other):
            return one if neutral else other
    return simple(If(word, a, b))


def choice(condition, yes, no):
    if isinstance(condition, bool):
        return yes if condition else no
    if is_condition(yes) and is_condition(no):
        if implies(condition, no) and implies(negated(condition), yes):
            return both("and", yes, no)
        return both("or", both("and", condition, yes), both("and", negated(condition), no))
    return yes if yes == no else Choice(condition, yes, no)


def spread(function, *arguments):
    """The function of choices is a choice of functions; conditions in arithmetic are 1 or 0."""
    for i, argument in enumerate(arguments):
        if isinstance(argument, Choice):
            return choice(argument.condition, *(spread(function, *arguments[:i], part, *arguments[i + 1:]) for part in (argument.yes, argument.no)))
    return function(*arguments)


def moved(x, start, end):
    """The same of another token: the index `start` becomes `end`."""
    if isinstance(x, If):
        return If(x.word, moved(x.left, start, end), x.right and moved(x.right, start, end))
    if isinstance(x, Choice):
        return Choice(*(moved(part, start, end) for part in (x.condition, x.yes, x.no)))
    if isinstance(x, Token):
        return Token(x.input, moved(x.at, start, end))
    if isinstance(x, Running):
        return Running(x.what, moved(x.at, start, end))
    if isinstance(x, Polynomial):
        return Polynomial(moved(x.form, start, end), x.coefficients)
    if isinstance(x, Linear):
        return number(Linear(ordered({moved(part, start, end): c for part, c in x.terms}), x.constant))
    return end if x == start and isinstance(x, str) else x


def compare(word):
    """The comparison as a function of two: "lt", "le", "eq" or "ne"."""
    def compared(a, b):
        a, b = (choice(x, 1, 0) if is_condition(x) else x for x in (a, b))
        if isinstance(a, Choice) and word in ("eq", "ne") and b in (moved(a, "q", "k"), moved(a, "k", "q")):
            same = If("same", *((a, b) if b == moved(a, "q", "k") else (b, a)))
            return same if word == "eq" else negated(same)
        if isinstance(a, Choice) or isinstance(b, Choice):
            return spread(compared, a, b)
        if isinstance(a, Polynomial) or isinstance(b, Polynomial):
            return _compare_polynomial(word, combined("sub", b, a))
        difference = linear(b).plus(a, -1)  # b - a
        if not isinstance(difference, Linear):
            return bool({"lt": operator.gt, "le": operator.ge, "eq": operator.eq, "ne": operator.ne}[word](difference, 0))
        if word in ("lt", "le"):
            return If("positive", difference if word == "le" else difference.plus(-1))
        sign = 1 if difference.terms[0][1] > 0 else -1
        zero = If("zero", difference.times(sign))
        return zero if word == "eq" else negated(zero)
    return compared


def _compare_polynomial(word, difference):
    if not isinstance(difference, Polynomial):
        return compare(word)(0, difference)
    more, less = (sets.not_negative([c * sign for c in difference.coefficients]) for sign in (1, -1))
    return among(difference.form, {"le": more, "lt": sets.complement(less), "eq": sets.intersection(more, less),
                                   "ne": sets.complement(sets.intersection(more, less))}[word])


def _arithmetic(word):
    def compute(a, b):
        a, b = (choice(x, 1, 0) if is_condition(x) else x for x in (a, b))
        if isinstance(a, Choice) or isinstance(b, Choice):
            return spread(compute, a, b)
        if word in ("add", "sub", "mul") and (isinstance(a, Polynomial) or isinstance(b, Polynomial)):
            return combined(word, a, b)
        if word in ("add", "sub"):
            return linear(a).plus(b, 1 if word == "add" else -1)
        if word == "mul" and not (isinstance(a, Linear) and isinstance(b, Linear)):
            return number(linear(a).times(b)) if isinstance(a, Linear) else number(linear(b).times(a))
        if word == "mul":
            return combined(word, a, b)
        if word == "div" and not isinstance(a, Linear) and not isinstance(b, Linear):
            return a / b
        raise NoMask(f"computes {word} of {show(a)} and {show(b)}")
    return compute


def is_amount(x):
    return is_linear(x) or isinstance(x, Polynomial)


def _largest(a, b):
    return choice(compare("le")(b, a), a, b) if is_amount(a) and is_amount(b) else spread(_largest, a, b)


def _smallest(a, b):
    return choice(compare("le")(a, b), a, b) if is_amount(a) and is_amount(b) else spread(_smallest, a, b)


def _absolute(x):
    return choice(compare("le")(0, x), x, _arithmetic("mul")(x, -1)) if is_amount(x) else spread(_absolute, x)


def _sign(x):
    return choice(compare("lt")(0, x), 1, choice(compare("eq")(x, 0), 0, -1)) if is_amount(x) else spread(_sign, x)


def _power(a, n):
    if not isinstance(n, (int, float)) or n != int(n) or not 1 <= n <= 8:
        raise NoMask(f"computes pow of {show(a)} and {show(n)}")
    return a if n == 1 else _arithmetic("mul")(_power(a, n - 1), a)


def truth(x):
    """A condition of a number: whether it is not 0."""
    return x if is_condition(x) else spread(compare("ne"), x, 0)


STEPS = {
    **{word: compare(word) for word in ("lt", "le", "eq", "ne")},
    **{word: _arithmetic(word) for word in ("add", "sub", "mul", "div")},
    "and": lambda a, b: both("and", truth(a), truth(b)), "or": lambda a, b: both("or", truth(a), truth(b)),
    "not": lambda a: negated(truth(a)), "neg": lambda a: _arithmetic("mul")(a, -1),
    "where": lambda c, a, b: choice(truth(c), a, b), "max": _largest, "min": _smallest,
    "abs": _absolute, "sign": _sign, "pow": _power,
}


def show(x):
    """An expression in a message."""
    if isinstance(x, If):
        if x.word in ("positive", "zero"):
            return f"{show(x.left)} {'>=' if x.word == 'positive' else '='} 0"
        if x.word == "same":
            return f"{show(x.left)} = {show(x.right)}"
        return f"not ({show(x.left)})" if x.word == "not" else f"({show(x.left)}) {x.word} ({show(x.right)})"
    if isinstance(x, Linear):
        terms = sorted(x.terms, key=lambda term: term[1] < 0)
        parts = [f"{c:g}*{show(part)}" if abs(c) != 1 else ("-" if c < 0 else "") + show(part) for part, c in terms]
        return " + ".join(parts + ([f"{x.constant:g}"] if x.constant or not parts else [])).replace("+ -", "- ")
    if isinstance(x, Polynomial):
        return " + ".join(f"{float(c):g}*({show(x.form)})^{n}" for n, c in enumerate(x.coefficients) if c)
    if isinstance(x, Token):
        return f"{x.input}[{show(x.at)}]"
    if isinstance(x, Running):
        return f"cumsum({show(x.what)})[{show(x.at)}]"
    return f"{show(x.yes)} where {show(x.condition)}, else {show(x.no)}" if isinstance(x, Choice) else str(x)
