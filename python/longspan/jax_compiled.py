"""longspan.jax.compile: steps, or gradients for a loop with optax, of a function of JAX on several ranks (compiled.py)."""
from __future__ import annotations

import os
import shutil

import numpy

from . import compiled
from .jax_export import export, load, named_leaves


class Compiled(compiled.Compiled):
    """A function on ranks that wait for batches: `step` and `params` with an optimiser, `value_and_grad` without one."""

    def __init__(self, fn, params, example, optimizer="adamw", **options):
        self.like, place = params, compiled.scratch()
        try:
            found = export(fn, params, example, os.path.join(place, "model"))
        except BaseException:
            shutil.rmtree(place)
            raise
        super().__init__(found, example, optimizer=optimizer, place=place, **options)

    def params(self):
        """The pytree with the weights of the ranks."""
        return load(self.arrays(), self.like)

    def value_and_grad(self, params, batch):
        """The loss and the gradients, a pytree as params, of a batch with these parameters. For optimizer=None."""
        leaves = dict(named_leaves(params)[0])
        tensors = []
        for p in self.export.graph.parameters:
            data = p.data
            if not p.buffer:
                name, layer = self.export.origin[p.value.name]
                data = numpy.asarray(leaves[name] if layer is None else leaves[name][layer]).reshape(p.value.shape)
            tensors.append((p.value.name, data))
        self.send(tensors)
        return self.step(batch), load(self.gradients, params)


def compile(fn, params, example, optimizer="adamw", lr=1e-3, clip=0.0, **options):
    """
    Starts ranks for a loss function, as longspan.jax.export takes it, and gives a Compiled. Options as for longspan.compile: with an
    optimiser `.step(batch)` gives the loss and `.params()` the pytree; with optimizer=None `.value_and_grad(params, batch)` is as JAX's.
    """
    return Compiled(fn, params, example, optimizer, lr=lr, clip=clip, **options)
