"""The check of every export: loss and gradients of a small batch, of the imported graph and of the user's model, both in f64.

The graph is computed by interpret.py with the arrays of the user's library, which also differentiates it.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy

from . import program
from .ir import Graph, Refused

TOLERANCE_LOSS = 1e-6  # models compute positions in f32 whatever their type
TOLERANCE_GRADIENT = 1e-5


@dataclass
class Checked:
    loss: float  # relative difference
    gradient: float  # largest difference of an element, relative to the largest of its parameter's gradient
    worst: str  # the parameter of that
    parameters: int
    of: str = "the whole model"
    program: str = "not run"  # by the program longspan

    def numbers(self):
        gradients = f"gradients of {self.parameters} parameters within {self.gradient:.1e} of the model's ({self.worst})"
        return f"loss within {self.loss:.1e}, {gradients}"

    def __str__(self):
        return f"{self.of}: {self.numbers()}; by the program: {self.program}"


@dataclass
class Export:
    """What an export found and wrote."""

    folder: str
    graph: Graph
    seconds: dict = field(default_factory=dict)
    checked: object = None
    origin: dict = field(default_factory=dict)  # of JAX: {name of a parameter: (name in the pytree, its layer or None)}

    def __str__(self):
        return f"{self.folder}: {len(self.graph.nodes)} nodes, {len(self.graph.parameters)} parameters; {self.checked}"


def free_memory():
    """Bytes that this process may still take."""
    try:
        with open("/proc/meminfo") as file:
            return 1024 * int(next(line for line in file if line.startswith("MemAvailable")).split()[1])
    except (OSError, StopIteration):
        return 8 << 30


def probe_batch(graph, example, tokens=24, batch=2):
    """A small batch of the example's kind: {name: array}, of random tokens up to the example's largest."""
    random = numpy.random.default_rng(0)
    n = min(tokens, example[graph.tokens].shape[1])
    cut = n // 3
    result = {}
    for name, x in example.items():
        about = next((i for i in graph.inputs if i.value.name == name), None)
        meaning = about.meaning if about else None
        if meaning == "positions":
            result[name] = numpy.tile(numpy.concatenate([numpy.arange(cut), numpy.arange(n - cut)]), (batch, 1))
        elif meaning == "documents":
            result[name] = numpy.tile((numpy.arange(n) >= cut).astype(int), (batch, 1))
        elif x.dtype.kind == "f":
            result[name] = random.uniform(0.5, 1.5, (batch, n))
        else:
            result[name] = random.integers(0, max(int(x.max()), 1) + 1, (batch, n))
    # Ids whose rows get no gradient are left out: what the array libraries differentiate has no such exception.
    ids = result[graph.tokens]
    padding = [node.params["padding"] for node in graph.nodes if node.op == "embedding" and "padding" in node.params]
    ids[numpy.isin(ids, padding)] = next(i for i in range(len(padding) + 1) if i not in padding)
    for about in graph.inputs:
        if about.meaning == "labels" and about.ignored is not None:
            result[about.value.name][:, cut] = about.ignored  # the first token of another document is predicted by nothing
    return result


def by_program(checked, folder, graph, batch, their_loss, their_gradients):
    """Adds to a check what the program longspan computes of the same batch from the folder, where the program is there."""
    if folder is None or program.find() is None:
        return checked
    given = {}
    for about in graph.inputs:
        name = about.value.name
        given[name] = batch[name]
        if about.meaning == "labels" and about.ignored is not None:
            given[name] = numpy.where(given[name] == about.ignored, -100, given[name])
    try:
        found, gradients = program.grad(folder, given, dtype="f64")
    except program.Failed as why:
        checked.program = f"not run: {why}"
        return checked
    checked.program = compare(found, gradients, their_loss, their_gradients, "the program longspan").numbers()
    return checked


def compare(loss, gradients, their_loss, their_gradients, who):
    """gradients: {name: NumPy array} that `who` computed; theirs of all that the model trains, None where there is none."""
    off = abs(loss - their_loss) / max(abs(their_loss), 1e-30)
    if not off <= TOLERANCE_LOSS:
        raise Refused(f"the loss of {who} is {loss!r}, the model's {their_loss!r}")
    largest = max((numpy.abs(g).max() for g in their_gradients.values() if g is not None and g.size), default=0.0)
    worst, where = 0.0, "none"
    for name, theirs in their_gradients.items():
        ours = gradients.get(name)
        if ours is None and theirs is None:
            continue
        ours, theirs = (numpy.zeros(1) if g is None else g for g in (ours, theirs))
        difference = numpy.abs(ours - theirs).max() / max(numpy.abs(theirs).max(), 1e-3 * largest, 1e-30)
        if not difference <= TOLERANCE_GRADIENT:
            raise Refused(f"the gradient of {name} by {who} is off by {difference:.1e} of its largest element")
        if difference >= worst:
            worst, where = difference, name
    return Checked(off, worst, where, len(their_gradients))
