"""The program `longspan`, where it is there: named by the variable LONGSPAN, or found in PATH."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile

import numpy

from .ir import Refused


def find():
    """Its path, or None."""
    named = os.environ.get("LONGSPAN")
    if named and not os.access(named, os.X_OK):
        raise Refused(f"the variable LONGSPAN names {named}, which is no program")
    return named or shutil.which("longspan")


def read_safetensors(path):
    """{name: array of f64} of a file of F32 and F64."""
    with open(path, "rb") as file:
        data = file.read()
    n = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:n])
    result = {}
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            array = numpy.frombuffer(data[n + start:n + end], {"F32": "<f4", "F64": "<f8"}[about["dtype"]])
            result[name] = array.reshape(about["shape"]).astype(numpy.float64)
    return result


def grad(program, folder, graph, batch):
    """
    (loss, {name: gradient}, None) of a batch in f64, as `longspan grad` computes them from a folder; or (None, None, why it does not).
    batch: {name: array [B,S]}, as the user's model takes them.
    """
    with tempfile.TemporaryDirectory() as place:
        command = [program, "grad", "--model", str(folder), "--dtype", "f64", "--out", os.path.join(place, "gradients.safetensors")]
        for about in graph.inputs:
            name = about.value.name
            path = os.path.join(place, f"{name}.npy")
            numpy.save(path, batch[name].astype("f8" if about.value.dtype == "G" else "i4"))
            if name == graph.tokens:
                command += ["--tokens", path]
            elif about.meaning in ("labels", "positions"):
                command += ["--labels" if about.meaning == "labels" else "--position-ids", path]
            else:
                command += ["--input", f"{name}={path}"]
        run = subprocess.run(command, capture_output=True, text=True)
        found = re.search(r"^loss (\S+)", run.stdout, re.MULTILINE)
        if run.returncode != 0 or not found:
            return None, None, (run.stderr.strip().splitlines() or ["no loss in its output"])[-1]
        return float(found[1]), read_safetensors(os.path.join(place, "gradients.safetensors")), None
