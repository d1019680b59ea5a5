"""The check of every export: loss and gradients of a small batch, of the written graph and of the user's module, both in f64.

The graph is computed with NumPy. Each parameter's gradient is compared along a random direction: the derivative of the graph's loss by
central differences with the product of the direction and the module's gradient, relative to the product of their lengths.
"""
from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import numpy

from . import interpret
from .ir import Refused

TOLERANCE_LOSS = 1e-6  # modules compute positions in f32 whatever their type
TOLERANCE_GRADIENT = 1e-5
STEP = 1e-4
SECONDS = 120  # parameters are compared one by one until then, and all others together


@dataclass
class Checked:
    loss: float  # relative difference
    gradient: float  # largest relative difference
    one_by_one: int  # parameters compared alone
    parameters: int

    def __str__(self):
        alone = "each" if self.one_by_one == self.parameters else f"{self.one_by_one} alone, the others together"
        return f"loss within {self.loss:.1e}, gradients of {self.parameters} parameters ({alone}) within {self.gradient:.1e} of the module's"


def probe_batch(graph, example, tokens=24, batch=2):
    """A small batch of the example's kind: {name: array}, of random tokens below the example's largest."""
    random = numpy.random.default_rng(0)
    arrays = {name: numpy.asarray(x) for name, x in example.items()}
    first = arrays[graph.tokens]
    n = min(tokens, first.shape[1]) if first.shape[1] > 1 else tokens
    result = {}
    for name, x in arrays.items():
        about = next((i for i in graph.inputs if i.value.name == name), None)
        if about is not None and about.meaning in ("positions", "documents"):
            cut = n // 3
            documents = numpy.arange(n) >= cut
            result[name] = numpy.tile(numpy.where(documents, numpy.arange(n) - cut * (about.meaning == "positions"), numpy.arange(n)) if about.meaning == "positions"
                                      else documents.astype(int), (batch, 1))
        elif x.dtype.kind == "f":
            result[name] = random.uniform(0.5, 1.5, (batch, n)).astype(x.dtype)
        else:
            result[name] = random.integers(0, max(int(x.max()), 1) + 1, (batch, n))
            if name == graph.tokens:  # a padding id's row has no gradient in the module: differences would see one
                padding = [node.params["padding"] for node in graph.nodes if node.op == "embedding" and "padding" in node.params]
                others = [i for i in range(len(padding) + 2) if i not in padding]
                result[name] = numpy.where(numpy.isin(result[name], padding), others[0], result[name])
    labels = next((i for i in graph.inputs if i.meaning == "labels"), None)
    if labels is not None:
        result[labels.value.name][0, n // 2] = labels.ignored
    return result


def against_torch(graph, model, example, loss, probe):
    import torch
    tensors = {name: x for name, x in example.items() if isinstance(x, torch.Tensor)}
    fixed = {name: x for name, x in example.items() if name not in tensors}
    batch = probe_batch(graph, {name: x.cpu().numpy() for name, x in tensors.items()})
    exact = copy.deepcopy(model).to(torch.float64).cpu()
    inputs = [torch.from_numpy(batch[name]).to(x.dtype) for name, x in tensors.items()]
    names = {id(p): name for name, p in exact.named_parameters()}
    value = probe(exact, list(tensors), fixed, loss)(*inputs)[0]
    trained = {name: p for name, p in exact.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
    theirs = {name: (p.detach().numpy(), None if g is None else g.numpy()) for (name, p), g in zip(trained.items(), gradients)}
    return compare(graph, batch, value.item(), theirs)


def compare(graph, batch, their_loss, theirs):
    """theirs: {name: (value, gradient or None)} of the trained parameters."""
    parameters = {p.value.name: p.array() for p in graph.parameters}
    parameters.update((name, value.astype(numpy.float64)) for name, (value, _) in theirs.items() if name in parameters)
    loss = interpret.loss(graph, batch, parameters)
    off = abs(loss - their_loss) / max(abs(their_loss), 1e-30)
    if not off <= TOLERANCE_LOSS:
        raise Refused(f"the imported graph's loss is {loss!r}, the module's {their_loss!r}")
    names = [p.value.name for p in graph.parameters if not p.frozen]
    for name, (_, gradient) in theirs.items():
        if name not in names and gradient is not None and numpy.abs(gradient).max() > 0:
            raise Refused(f"the imported graph does not depend on {name}, but the module's loss does")
    random, start, worst, alone = numpy.random.default_rng(1), time.time(), 0.0, 0
    typical = max((numpy.sqrt((g ** 2).sum()) for name in names for g in [theirs[name][1]] if g is not None), default=0.0)
    groups = [[name] for name in names]
    while groups:
        group = groups.pop(0)
        if time.time() - start > SECONDS and groups:
            group, groups = group + [name for rest in groups for name in rest], []
        alone += len(group) == 1
        difference, where = along(graph, batch, parameters, theirs, group, random, typical)
        if not difference <= TOLERANCE_GRADIENT:
            raise Refused(f"the gradient of {where} is off by {difference:.1e} of its length")
        worst = max(worst, difference)
    return Checked(off, worst, alone, len(names))


def along(graph, batch, parameters, theirs, group, random, typical):
    """The relative difference of the derivatives along a direction in the parameters of a group."""
    direction, exact, length = {}, 0.0, 0.0
    for name in group:
        value, gradient = theirs[name]
        step = random.standard_normal(value.shape)
        if gradient is not None:  # towards the gradient, so that the derivative is not small by chance
            size = numpy.sqrt((gradient ** 2).sum())
            step = step / numpy.sqrt((step ** 2).sum()) + (gradient / size if size > 0 else 0)
            exact += (gradient * step).sum()
        else:
            step = step / numpy.sqrt((step ** 2).sum())
        direction[name] = step
        length += 0.0 if gradient is None else numpy.sqrt((gradient ** 2).sum())
    losses = [interpret.loss(graph, batch, {**parameters, **{name: parameters[name] + sign * STEP * step for name, step in direction.items()}}) for sign in (1, -1)]
    found = (losses[0] - losses[1]) / (2 * STEP)
    return abs(found - exact) / max(length, 1e-3 * typical, 1e-30), ", ".join(group)
