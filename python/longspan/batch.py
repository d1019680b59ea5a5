"""A batch as files: which array of the user's the program takes as what."""
from __future__ import annotations

import json
import os

import numpy

from .interpret import numbers_of


def described(folder):
    """The fields of graph.json; of a model of a config.json, what stands for them."""
    path = os.path.join(folder, "graph.json") if os.path.isdir(folder) else folder
    if not os.path.exists(path) or not os.path.basename(path).startswith("graph"):
        known = (("labels", "labels"), ("position_ids", "positions"))
        return {"tokens": "input_ids", "inputs": [{"name": name, "is": meaning, "optional": True} for name, meaning in known]}
    with open(path) as file:
        return json.load(file)


def arrays_of(folder, batch, more=None):
    """
    [(flag, name or None, array)] of a batch as the user's model takes it: {name: array [batch, tokens]}. more: inputs of a loss that the
    program was asked for, in the same form. Raises ValueError.
    """
    about = described(folder)
    batch = {name: numpy.asarray(x) for name, x in batch.items()}
    left, tokens, documents = dict(batch), about["tokens"], about.get("documents")
    ids = left.pop(tokens, None)
    if ids is None or ids.ndim != 2:
        raise ValueError(f"the batch needs {tokens}, [batch, tokens]")

    def needed(name, array):
        if array is None or array.shape != ids.shape:
            raise ValueError(f"the batch needs {name}, {list(ids.shape)} as {tokens}" + ("" if array is None else f"; it is {list(array.shape)}"))
        return array

    found, labels = [("tokens", None, ids)], None
    for i in about["inputs"]:
        name, meaning = i["name"], i.get("is")
        if name == tokens:
            continue
        array = left.pop(name, ids if meaning == "labels" and i.get("shift") else None)
        if array is None and i.get("optional"):
            continue
        found.append(({"labels": "labels", "positions": "position-ids"}.get(meaning, "input"), name, needed(name, array)))
        if meaning == "labels":
            labels = numpy.concatenate([array[:, 1:], numpy.full_like(array[:, :1], -100)], 1) if i.get("shift") else array
    if isinstance(documents, dict):
        name, meaning = documents["input"], documents["is"]
        given = needed(name, batch.get(name, numpy.ones_like(ids) if meaning == "padding" else None))
        if meaning == "padding":
            check_padding(name, given)
            if documents.get("ignored") and labels is not None:
                check_ignored(name, given, labels)
        elif meaning == "numbers":
            check_numbers(name, given)
        else:
            given = numbers_of(given, meaning, documents["number"])
        found.append(("documents", None, given))
        left.pop(name, None)
    found += [("input", name, needed(name, numpy.asarray(array))) for name, array in (more or {}).items()]
    if left:
        raise ValueError(f"{next(iter(left))} is no input of {os.fspath(folder)}")
    return found


def has_documents(arrays):
    """Whether sequences may have several documents. arrays: as arrays_of gives them."""
    return any(flag == "documents" or flag == "position-ids" and (array != numpy.arange(array.shape[1])).any() for flag, _, array in arrays)


def starts(line):
    """Where the numbers of a sequence change."""
    return [0] + [i for i in range(1, len(line)) if line[i] != line[i - 1]]


def check_padding(name, mask):
    """A padding mask: 1 and 0, and each row's ones side by side."""
    for row, line in enumerate(mask):
        if not numpy.isin(line, (0, 1)).all():
            raise ValueError(f"row {row} of {name} has {line[~numpy.isin(line, (0, 1))][0]}, expected 1 and 0: a padding mask")
        if sum(line[i] == 1 for i in starts(line)) > 1:
            inside = next(i for i in starts(line) if line[i] == 0 and line[:i].any())
            raise ValueError(f"row {row} of {name} has padding between tokens, at column {inside}; expected it in front of them or behind them")


def check_numbers(name, numbers):
    """Numbers of documents: each document's tokens stand side by side."""
    for row, line in enumerate(numbers):
        seen = [line[i] for i in starts(line)]
        if len(set(seen)) < len(seen):
            twice = next(number for number in seen if seen.count(number) > 1)
            raise ValueError(f"row {row} of {name} has the document {twice} in two places, expected the tokens of each document side by side")


def check_ignored(name, mask, labels):
    """What a token of padding predicts does not count. labels: of each token."""
    counted = numpy.argwhere((mask == 0) & (labels != -100))
    if len(counted):
        row, column = counted[0]
        raise ValueError(f"row {row}, column {column}: {name} says padding, but what it predicts, {labels[row, column]}, counts; expected the label "
                         "-100 there, as what is computed of padding is not defined")


def as_file(array):
    """The array in a type that the program reads."""
    return array.astype("f8" if array.dtype.kind == "f" else "i4")
