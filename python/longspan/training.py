"""longspan.train: a training of the program, from a model to its trained weights."""
from __future__ import annotations

import json
import os
import sys

from . import folder as folders
from . import program


class Trained:
    """What a training gave: `folder` (the run), and the fields that `longspan train --json` prints, as attributes."""

    def __init__(self, folder, fields):
        self.folder, self.fields = folder, fields
        for name, value in fields.items():
            setattr(self, name, value)

    def state_dict(self):
        """{name: weight} under the user's names: of PyTorch where it is imported, else of NumPy."""
        return as_state(folders.read(self.folder))

    def __repr__(self):
        return f"Trained({self.folder!r}, {self.fields})"


def as_state(arrays):
    """Arrays of safetensors as tensors of PyTorch, where a program has imported it, bit for bit."""
    torch = sys.modules.get("torch")
    if torch is None:
        return arrays
    result = {}
    for name, array in arrays.items():
        own = array.copy()
        bits = own.view("int16") if own.dtype.name == "bfloat16" else own
        tensor = torch.from_numpy(bits)
        result[name] = tensor.view(torch.bfloat16) if bits is not own else tensor
    return result


def exported(model, example, loss, place):
    """(folder, what the export found or None) of a module of PyTorch, of what an export gave, or of a path."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        if example is None:
            raise ValueError("a module needs example={name: tensor [batch, tokens]}")
        from . import torch_export
        return place, torch_export.export(model, example, place, loss)
    if hasattr(model, "graph") and hasattr(model, "folder"):
        return model.folder, model
    return os.fspath(model), None


def train(model, data, out, example=None, loss=None, progress=print, **options):
    """
    Trains a model with `longspan train`, and waits for it; with arrays as data see array_training.py. model: a module of PyTorch with `example` and, where it gives none, `loss`, as
    for longspan.torch.export; or what an export gave; or a folder. data: a file, folder or pattern of text, JSONL or token shards, or a list
    of these; or arrays in memory. out: the folder of the run. Options are the program's: seq=4096, ranks=2, steps=100, lr=3e-4, mesh="ring=2", memory="8G",
    resume=True ... progress: a function of each line that it logs, or None. Ctrl-C ends it after the current step, with a checkpoint.
    Raises Refused for what cannot be imported, and Failed with the program's line.
    """
    out = os.fspath(out)
    if isinstance(data, dict) or hasattr(data, "shape"):
        from .array_training import train_arrays
        return Trained(out, train_arrays(model, data, out, example, loss, progress, **options))
    place, _ = exported(model, example, loss, out + "-imported")
    paths = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    words = ["train", "--model", place, "--out", out, "--json"] + program.flags({"data": paths, **options})
    text = "\n".join(program.run(words, progress))
    return Trained(out, json.loads(text[text.index("{"):]))
