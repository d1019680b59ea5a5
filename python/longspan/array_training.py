"""longspan.train on arrays in memory: the loop over their sequences, by `longspan steps` (compiled.py)."""
from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import signal
import threading

import numpy

from . import batch as batches
from . import program
from .compiled import Compiled
from .training import exported


def order(n, seed, first, count):
    """The sequences number first .. first + count - 1 of a training: every epoch has all n, shuffled anew."""
    places = [divmod(i, n) for i in range(first, first + count)]
    shuffled = {epoch: numpy.random.default_rng((seed, epoch)).permutation(n) for epoch in {epoch for epoch, _ in places}}
    return numpy.array([shuffled[epoch][place] for epoch, place in places])


def as_arrays(data, tokens):
    """{name: array [sequences, tokens]} of what the user gave: one array has the tokens."""
    data = Compiled.numbers(data if isinstance(data, dict) else {tokens: data})
    if tokens not in data:
        raise ValueError(f"the data needs {tokens}, [sequences, tokens]")
    return data


def content(arrays):
    """A hash of the arrays' names, sizes and numbers."""
    found = hashlib.blake2b(digest_size=8)
    for name, x in sorted(arrays.items()):
        found.update(f"{name} {x.shape} {x.dtype.str}".encode())
        found.update(numpy.ascontiguousarray(x))
    return found.hexdigest()


def agree(out, found, now):
    """
    What decides which sequences a step has is in OUT/arrays.json: a run goes on with the same, or it would not have the steps of one that
    was not interrupted. found: the run has a checkpoint.
    """
    path = os.path.join(out, "arrays.json")
    if not found:
        os.makedirs(out, exist_ok=True)
        with open(path, "w") as file:
            json.dump(now, file)
    elif os.path.exists(path):
        with open(path) as file:
            was = json.load(file)
        for name, value in now.items():
            if was.get(name) != value:
                raise program.Failed(f"{path}: {name} is {was.get(name)}; expected {value}, that of this call: a run goes on with its own")


@contextlib.contextmanager
def interrupts():
    """A list that Ctrl-C adds to, so that the step under way ends first; a second one is as always. Elsewhere than in the main thread it stays empty."""
    came = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def note(number, frame):
        if came:
            signal.default_int_handler(number, frame)
        came.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def train_arrays(model, data, out, example=None, loss=None, progress=print, batch=1, steps=None, epochs=1, lr=1e-3, clip=1.0, seed=0,
                 resume=False, save_every=1000, **options):
    """
    Trains on arrays [sequences, tokens] of NumPy or PyTorch: {name: array} of all inputs of the model, labels and positions included, or the
    tokens alone where the model needs no other. batch: sequences of a step; steps: their number, or that of `epochs`; lr: a number, or a
    function of the number of steps done; resume=True goes on from the newest checkpoint in `out`, with the same data, batch, seed and
    optimiser. Other options are those of `longspan steps`. Gives the fields of a Trained.
    """
    first = {name: x[:2] for name, x in data.items()} if isinstance(data, dict) else None
    place, _ = exported(model, example or first, loss, out + "-imported")
    arrays = as_arrays(data, batches.described(place)["tokens"])
    apart = batches.has_documents(batches.arrays_of(place, arrays))
    n = len(next(iter(arrays.values())))
    steps = n * epochs // batch if steps is None else steps
    if steps < 1:
        raise ValueError(f"the data has {n} sequences, expected {batch} or more (batch)")
    if os.path.realpath(place) == os.path.realpath(os.path.join(out, "model")):
        raise program.Failed(f"{place} is where the trained model goes; expected another folder as out")
    found = glob.glob(os.path.join(glob.escape(out), "checkpoint-*"))
    if found and not resume:
        raise program.Failed(f"{out} has a run; resume=True goes on from it")
    agree(out, found, {"sequences": n, "content": content(arrays), "batch": batch, "seed": seed})
    rate = lr if callable(lr) else lambda done: lr
    losses = []

    def taken(done):
        rows = order(n, seed, done * batch, batch)
        return {name: x[rows] for name, x in arrays.items()}

    with interrupts() as came, Compiled(place, taken(0), clip=clip, **{"documents": apart, **options}) as ranks:
        done = ranks.resume(out) if found else 0
        while done < steps and not came:
            losses.append(ranks.step(taken(done), lr=float(rate(done))))
            done += 1
            if progress:
                progress(f"step {done}/{steps}: loss {losses[-1]:.4f}")
            if done % save_every == 0 and done < steps:
                ranks.save(out)
        if losses:
            ranks.save(out)
    if came:
        raise KeyboardInterrupt(f"after step {done}; resume=True goes on from the checkpoint in {out}")
    trained = os.path.join(out, "model")
    shutil.rmtree(trained, ignore_errors=True)  # of the steps before
    program.run(["checkpoint", "export", out, "--out", trained])
    return {"steps": done, "losses": losses}
