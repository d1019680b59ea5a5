"""What computing a graph needs of an array library: of NumPy, or of one with NumPy's names (jax.numpy). `torch_arrays.py` is PyTorch's."""
from __future__ import annotations

import math

import numpy

_erf = numpy.vectorize(math.erf, otypes=[float])


class Arrays:
    def __init__(self, backend=numpy, erf=_erf):
        self.backend = np = backend
        self.steps = {
            "neg": np.negative, "abs": np.abs, "sign": np.sign, "exp": np.exp, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
            "rsqrt": lambda a: 1 / np.sqrt(a), "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sigmoid": lambda a: 0.5 * (1 + np.tanh(0.5 * a)),
            "erf": erf, "floor": np.floor, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
            "min": np.minimum, "max": np.maximum, "mod": np.mod, "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
            "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "where": np.where,
        }

    def array(self, x):
        return self.backend.asarray(x, dtype=self.backend.float64)

    def permute(self, x, order):
        return self.backend.transpose(x, order)

    def reshape(self, x, size):
        return self.backend.reshape(x, size)

    def broadcast(self, x, size):
        return self.backend.broadcast_to(x, size)

    def sum(self, x, dims, keep):
        return self.backend.sum(x, axis=tuple(dims), keepdims=keep)

    def max(self, x, dims, keep):
        return self.backend.max(x, axis=tuple(dims), keepdims=keep)

    def where(self, condition, a, b):
        return self.backend.where(condition, a, b)

    def concat(self, inputs, dim):
        return self.backend.concatenate(inputs, dim)

    def einsum(self, equation, *inputs):
        return self.backend.einsum(equation, *inputs, optimize=True)

    def matmul(self, a, b):
        return self.backend.matmul(a, b)

    def repeat(self, x, n, dim):
        return self.backend.repeat(x, n, axis=dim)

    def pick(self, x, indices):
        """x[indices], one array of indices for each of the first dimensions."""
        return x[tuple(i.astype(int) for i in indices)]

    def along_last(self, x, indices):
        """x[..., indices[...]]"""
        return self.backend.take_along_axis(x, indices[..., None].astype(int), -1)[..., 0]

    def descending(self, x):
        """The indices of each row's elements, the largest first, equal ones in their order."""
        how = {"kind": "stable"} if self.backend is numpy else {}  # jax.numpy's is stable
        return self.backend.argsort(-x, axis=-1, **how)

    def cumsum(self, x, dim):
        return self.backend.cumsum(x, dim)

    def pad(self, x, dim, before, after, value):
        width = [(0, 0)] * len(x.shape)
        width[dim] = (before, after)
        return self.backend.pad(x, width, constant_values=value)
