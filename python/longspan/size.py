"""Sizes of dimensions: integers, or polynomials in B (sequences of a batch) and S (tokens of a sequence)."""
from __future__ import annotations


class Size:
    """A sum of terms coefficient * B^b * S^s that is not an integer; `size` makes integers of those that are."""

    __slots__ = ("terms",)

    def __init__(self, terms):
        self.terms = terms  # ((b, s), coefficient), sorted

    def __eq__(self, other):
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self):
        return hash(self.terms)

    def __add__(self, other):
        total = dict(self.terms)
        for power, factor in _terms(other):
            total[power] = total.get(power, 0) + factor
        return size(total)

    __radd__ = __add__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -1 * other

    def __rsub__(self, other):
        return -1 * self + other

    def __mul__(self, other):
        total = {}
        for (b, s), factor in self.terms:
            for (b2, s2), factor2 in _terms(other):
                total[b + b2, s + s2] = total.get((b + b2, s + s2), 0) + factor * factor2
        return size(total)

    __rmul__ = __mul__

    def __str__(self):
        text = ""
        for (b, s), factor in sorted(self.terms, reverse=True):
            word = "*".join(["B"] * b + ["S"] * s) or "1"
            if abs(factor) != 1 or word == "1":
                word = str(abs(factor)) if word == "1" else f"{abs(factor)}*{word}"
            text += (" - " if text else "-") + word if factor < 0 else (" + " if text else "") + word
        return text

    __repr__ = __str__


def _terms(value):
    return value.terms if isinstance(value, Size) else (((0, 0), value),)


def size(terms):
    """The size with these terms {(b, s): coefficient}."""
    left = tuple(sorted((power, factor) for power, factor in terms.items() if factor))
    if not left:
        return 0
    return left[0][1] if len(left) == 1 and left[0][0] == (0, 0) else Size(left)


B = Size((((1, 0), 1),))
S = Size((((0, 1), 1),))


def at(value, sizes):
    """The number that a size is where B, S = sizes."""
    return sum(factor * sizes[0] ** b * sizes[1] ** s for (b, s), factor in _terms(value))


def divide(a, b):
    """The size q with q * b = a, or None."""
    if a == b:
        return 1
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    divisor = _terms(b)
    if len(divisor) != 1:
        # The only quotients by sums that occur are single terms: the first terms give it, and the product is compared.
        (b1, s1), factor1 = max(divisor)
        (b2, s2), factor2 = max(_terms(a))
        if b2 < b1 or s2 < s1 or factor2 % factor1:
            return None
        guess = size({(b2 - b1, s2 - s1): factor2 // factor1})
        return guess if guess * b == a else None
    (b1, s1), factor1 = divisor[0]
    quotient = {}
    for (b2, s2), factor2 in _terms(a):
        if b2 < b1 or s2 < s1 or factor2 % factor1:
            return None
        quotient[b2 - b1, s2 - s1] = factor2 // factor1
    return size(quotient)


def product(sizes):
    total = 1
    for value in sizes:
        total = total * value
    return total


def has_tokens(value):
    """Whether S occurs in the size."""
    return isinstance(value, Size) and any(s for (_, s), _ in value.terms)


def plain(value):
    """As in graph.json: an integer, "B" or "S"."""
    if isinstance(value, int):
        return value
    if value in (B, S):
        return str(value)
    raise ValueError(f"a dimension of size {value}")
