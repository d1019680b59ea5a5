"""The check of every export: loss and gradients of a small batch, of the imported graph and of the user's model, both in f64.

The graph is computed by interpret.py with the arrays of the user's library, which also differentiates it.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy

from . import interpret, program
from .ir import Graph, Refused

TOLERANCE_LOSS = 1e-6  # models compute positions in f32 whatever their type
TOLERANCE_GRADIENT = 1e-5
IN_F32 = 10  # times so much where both sides compute in f32


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


def probe(graph, example, compute):
    """
    (batch, loss, gradients) of a small batch; compute(batch) gives the last two, of the user's model. Padding stands in front of tokens too,
    unless the model's numbers are not finite then: tokens of padding that see nothing are NaN in some.
    """
    for front in (True, False) if padding_of(graph) else (False,):
        batch = probe_batch(graph, example, front=front)
        loss, gradients = compute(batch)
        if numpy.isfinite(loss) and all(g is None or numpy.isfinite(g).all() for g in gradients.values()):
            break
    graph.labels_of_padding = labels_of_padding(graph, batch)
    return batch, loss, gradients


def padding_of(graph):
    return next((i.value.name for i in graph.inputs if i.meaning == "padding"), None)


def labels_of_padding(graph, batch):
    """Whether the loss depends on what is computed of padding unless that has labels that are ignored. Refuses if it does even so."""
    name = padding_of(graph)
    if name is None:
        return False
    hidden, ids = batch[name] == 0, batch[graph.tokens]
    known = next((i for i in graph.inputs if i.meaning == "labels"), None)

    def reads(given):
        changed = {**given, graph.tokens: numpy.where(hidden, numpy.where(ids == ids.max(), ids.min(), ids.max()), ids)}
        one, other = (float(interpret.loss(graph, x).item()) for x in (given, changed))
        return abs(one - other) > 1e-12 * abs(one)

    if reads(batch):
        graph.refuse(f"the loss depends on what is computed of padding (0 in {name}): give it weights that are 0 there, or labels that are ignored",
                     "loss", graph.loss.node.at)
    if known is None or known.ignored is None:
        return False
    labels = batch[known.value.name]
    return reads({**batch, known.value.name: numpy.where(labels == known.ignored, 0, labels)})


def documents_at_random(random, batch, n):
    """The number of each token's document, [batch, n]: two to four in each row."""
    starts = numpy.zeros((batch, n), int)
    for row in starts:
        row[random.choice(numpy.arange(1, n), min(n - 1, random.integers(1, 4)), replace=False)] = 1
    return numpy.cumsum(starts, 1)


def places_in(documents):
    """The place of each token in its document."""
    starts = numpy.diff(documents, axis=1, prepend=-1) != 0
    places = numpy.broadcast_to(numpy.arange(documents.shape[1]), documents.shape)
    return places - numpy.maximum.accumulate(numpy.where(starts, places, 0), axis=1)


def probe_batch(graph, example, tokens=24, batch=2, front=False):
    """
    A small batch of the example's kind: {name: array}, of random tokens up to the example's largest, documents and padding. front: the first
    sequence has its padding in front of its tokens.
    """
    random = numpy.random.default_rng(0)
    n = min(tokens, example[graph.tokens].shape[1])
    documents = documents_at_random(random, batch, n) if n > 1 else numpy.zeros((batch, n), int)
    padding = numpy.array([numpy.arange(n) >= n // 3 if front and row == 0 else numpy.arange(n) < n - n // (4 + row) for row in range(batch)], int)
    result = {}
    for name, x in example.items():
        about = next((i for i in graph.inputs if i.value.name == name), None)
        meaning = about.meaning if about else None
        if meaning == "positions":
            result[name] = places_in(documents)
        elif meaning == "documents":
            result[name] = documents
        elif meaning == "padding":
            result[name] = padding
        elif x.dtype.kind == "f":
            result[name] = random.uniform(0.5, 1.5, (batch, n))
        else:
            result[name] = random.integers(0, max(int(x.max()), 1) + 1, (batch, n))
        if meaning in ("first", "last"):
            begins = numpy.diff(documents, axis=1, prepend=0) != 0
            result[name][numpy.roll(begins, -1 if meaning == "last" else 0, axis=1)] = about.number
    # Ids whose rows get no gradient are left out: what the array libraries differentiate has no such exception.
    ids = result[graph.tokens]
    left_out = [node.params["padding"] for node in graph.nodes if node.op == "embedding" and "padding" in node.params]
    ids[numpy.isin(ids, left_out)] = next(i for i in range(len(left_out) + 1) if i not in left_out)
    for about in graph.inputs:
        if about.meaning != "labels":
            continue
        labels = result.setdefault(about.value.name, ids)
        if about.ignored is None:
            continue
        ends = numpy.diff(documents, axis=1, prepend=0) != 0  # the first token of another document is predicted by nothing
        hidden = (padding == 0) & (padding_of(graph) is not None)
        hidden = numpy.concatenate([numpy.zeros((batch, about.shift), bool), hidden[:, :n - about.shift]], 1)
        result[about.value.name] = numpy.where(ends | hidden, about.ignored, labels)
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


def compare(loss, gradients, their_loss, their_gradients, who, times=1):
    """
    gradients: {name: NumPy array} that `who` computed; theirs of all that are compared, None where there is none. times: of the usual
    differences are allowed.
    """
    off = abs(loss - their_loss) / max(abs(their_loss), 1e-30)
    if not off <= times * TOLERANCE_LOSS:
        raise Refused(f"the loss of {who} is {loss!r}, the model's {their_loss!r}")
    largest = max((numpy.abs(g).max() for g in their_gradients.values() if g is not None and g.size), default=0.0)
    worst, where = 0.0, "none"
    for name, theirs in their_gradients.items():
        ours = gradients.get(name)
        if ours is None and theirs is None:
            continue
        ours, theirs = (numpy.zeros(1) if g is None else g for g in (ours, theirs))
        difference = numpy.abs(ours - theirs).max() / max(numpy.abs(theirs).max(), 1e-3 * largest, 1e-30)
        if not difference <= times * TOLERANCE_GRADIENT:
            raise Refused(f"the gradient of {name} by {who} is off by {difference:.1e} of its largest element")
        if difference >= worst:
            worst, where = difference, name
    return Checked(off, worst, where, len(their_gradients))
