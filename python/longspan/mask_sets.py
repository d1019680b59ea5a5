"""Which integers a condition holds for: sets of them as intervals, exactly, and where a polynomial is not negative.

A set is [(low, high), ...], both ends in it, in order and with gaps between them; ends may be infinite.
"""
from __future__ import annotations

import math
from fractions import Fraction

INFINITE = math.inf
ALL = [(-INFINITE, INFINITE)]


def complement(numbers):
    ends = [-INFINITE] + [end for low, high in numbers for end in (low - 1, high + 1)] + [INFINITE]
    return [(low, high) for low, high in zip(ends[::2], ends[1::2]) if low <= high and high != -INFINITE and low != INFINITE]


def union(a, b):
    found = []
    for low, high in sorted(a + b):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def intersection(a, b):
    return complement(union(complement(a), complement(b)))


# --- polynomials: their coefficients, that of x ** 0 first --------------------------------------------------------------


def times(p, r):
    product = [0] * (len(p) + len(r) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(r):
            product[i + j] += a * b
    return product


def plus(p, r, factor=1):
    return [(p[i] if i < len(p) else 0) + factor * (r[i] if i < len(r) else 0) for i in range(max(len(p), len(r)))]


def value(p, x):
    total = 0
    for c in reversed(p):
        total = total * x + c
    return total


def steps(p):
    """p(x + 1) - p(x), of a degree less."""
    return [sum(p[n] * math.comb(n, i) for n in range(i + 1, len(p))) for i in range(len(p) - 1)]


def not_negative(p):
    """The integers for which the polynomial is 0 or more: between two where its steps change their sign it rises, or falls."""
    p = [Fraction(c) for c in p]
    while p and not p[-1]:
        p.pop()
    if len(p) < 2:
        return ALL if not p or p[0] > 0 else []
    far = 2 + int(max(abs(c / p[-1]) for c in p))  # it has no root beyond
    turns = {end for low, high in not_negative(steps(p)) for end in (low, high + 1) if -far < end < far}
    points = [-far] + sorted(turns) + [far]
    found, begun = [], -INFINITE if value(p, -far) >= 0 else None
    for low, high in zip(points, points[1:]):
        before = value(p, low) >= 0
        if (value(p, high) >= 0) == before:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if (value(p, middle) >= 0) == before else (low, middle)
        if before:
            found.append((begun, low))
        begun = high
    return found + [(begun, INFINITE)] if value(p, far) >= 0 else found
