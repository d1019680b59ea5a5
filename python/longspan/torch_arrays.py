"""arrays.Arrays with PyTorch, so that PyTorch differentiates what a graph computes."""
import torch

from .arrays import Arrays


class TorchArrays(Arrays):
    def __init__(self, dtype=torch.float64):
        self.dtype = dtype
        names = {"mod": "remainder", "min": "minimum", "max": "maximum", "and": "logical_and", "or": "logical_or", "not": "logical_not"}
        words = "neg abs sign exp log log1p sqrt rsqrt sin cos tanh sigmoid erf floor add sub mul div pow min max mod lt le eq ne and or not".split()
        self.steps = {word: self.step(getattr(torch, names.get(word, word))) for word in words}
        self.steps["where"] = lambda c, a, b: torch.where(self.array(c) != 0, self.array(a), self.array(b))

    def step(self, function):
        return lambda *operands: function(*map(self.array, operands))

    def array(self, x):
        return torch.as_tensor(x, dtype=self.dtype)

    def permute(self, x, order):
        return x.permute(order)

    def reshape(self, x, size):
        return x.reshape(size)

    def broadcast(self, x, size):
        return x.expand(size)

    def sum(self, x, dims, keep):
        return x.sum(dim=tuple(dims), keepdim=keep)

    def max(self, x, dims, keep):
        return x.amax(dim=tuple(dims), keepdim=keep)

    def where(self, condition, a, b):
        return torch.where(self.array(condition) != 0, self.array(a), self.array(b))

    def concat(self, inputs, dim):
        return torch.cat(list(inputs), dim)

    def einsum(self, equation, *inputs):
        return torch.einsum(equation, *inputs)

    def matmul(self, a, b):
        return a @ b

    def repeat(self, x, n, dim):
        return x.repeat_interleave(n, dim)

    def pick(self, x, indices):
        return x[tuple(i.long() for i in indices)]

    def along_last(self, x, indices):
        return x.gather(-1, indices[..., None].long())[..., 0]

    def descending(self, x):
        return torch.sort(x, dim=-1, descending=True, stable=True).indices

    def cumsum(self, x, dim):
        return x.cumsum(dim)

    def pad(self, x, dim, before, after, value):
        return torch.nn.functional.pad(x, [0, 0] * (x.dim() - 1 - dim) + [before, after], value=value)
