"""The folder of an imported graph: graph.json and safetensors."""
from __future__ import annotations

import json
import os

import numpy

from . import __version__
from .ir import TELL, Graph, Refused, Weights
from .size import Size, plain

NUMPY = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int32": "I32", "int64": "I64", "bool": "BOOL"}


def write(graph: Graph, folder, made_by="", weights=None):
    """
    Writes the graph, and the parameters' numbers. weights: a folder whose safetensors hold the parameters under the same names; they are
    linked, not copied, and only what they lack (buffers) is written.
    """
    os.makedirs(folder, exist_ok=True)
    written = text(describe(graph, made_by))  # refuses before anything is written
    there = linked(folder, weights) if weights else {}
    left = [p for p in graph.parameters if p.value.name not in there and not set(p.also) & set(there)]
    missing = [p.value.name for p in left if not p.buffer]
    if weights and missing:
        raise Refused(f"{weights}: its safetensors have no {missing[0]}")
    name = "buffers.safetensors" if weights else "model.safetensors"
    if left or not weights:
        write_safetensors(os.path.join(folder, name), [(p.value.name, p.data) for p in left])
    index = os.path.join(folder, "model.safetensors.index.json")
    if len(set(there.values())) + bool(left) > 1:
        with open(index, "w") as file:
            json.dump({"metadata": {}, "weight_map": {**there, **{p.value.name: name for p in left}}}, file, indent=1)
    elif os.path.exists(index):
        os.remove(index)
    write_graph(graph, folder, made_by, written)


def write_graph(graph, folder, made_by="", written=None):
    """Writes graph.json alone; again, once a check has found more of the graph."""
    with open(os.path.join(folder, "graph.json"), "w") as file:
        file.write(written or text(describe(graph, made_by)))


def linked(folder, weights):
    """Links the safetensors of another folder. {name of a tensor: file}"""
    there = {}
    for file in sorted(os.listdir(weights)):
        if not file.endswith(".safetensors"):
            continue
        source, target = os.path.abspath(os.path.join(weights, file)), os.path.join(folder, file)
        if os.path.lexists(target):
            os.remove(target)
        os.symlink(source, target)
        with open(source, "rb") as data:
            header = json.loads(data.read(int.from_bytes(data.read(8), "little")))
        there.update((name, file) for name in header if name != "__metadata__")
    return there


def write_safetensors(path, tensors):
    """tensors: [(name, array, or what has dtype, shape and raw())]; written one at a time."""
    header, at = {}, 0
    for name, data in tensors:
        word, shape, size = (data.dtype, data.shape, data.size) if hasattr(data, "raw") else (NUMPY[str(data.dtype)], data.shape, data.nbytes)
        header[name] = {"dtype": word, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path + ".part", "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for _, data in tensors:
            file.write(data.raw() if hasattr(data, "raw") else numpy.ascontiguousarray(data).tobytes())
    os.replace(path + ".part", path)


def read_safetensors(path):
    """{name: array} of a file, as it lies there; bf16 needs ml_dtypes, which JAX brings."""
    with open(path, "rb") as file:
        n = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n - 8))
    whole, result = numpy.memmap(path, numpy.uint8, "r"), {}
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            word = next(key for key, value in NUMPY.items() if value == about["dtype"])
            if word == "bfloat16":
                import ml_dtypes
                word = ml_dtypes.bfloat16
            result[name] = numpy.frombuffer(whole[n + start:n + end], word).reshape(about["shape"])
    return result


def read(folder):
    """{name: array} of all safetensors of a folder; of a run's folder, of the model that it gave."""
    inside = os.path.join(folder, "model")
    place = inside if os.path.isdir(inside) else folder
    files = sorted(f for f in os.listdir(place) if f.endswith(".safetensors"))
    if not files:
        raise Refused(f"{os.fspath(place)}: no safetensors are there")
    result = {}
    for file in files:
        result.update(read_safetensors(os.path.join(place, file)))
    return result


def describe(graph, made_by=""):
    """graph.json as a dictionary."""
    words = {"T": "T", "G": "G", "i32": "i32", "bool": "T"}
    names = Names(graph)
    for node in graph.nodes:
        for number in (o for step in node.params.get("program", ()) for o in step if isinstance(o, Size)):
            graph.refuse(f"a number that depends on the size of the batch, {number}, is no part of the division of the loss", node.op, node.at)
    return {
        "format": "longspan-graph", "version": 1, "made_by": f"longspan {__version__}" + (f", {made_by}" if made_by else ""),
        "dtype": graph.dtype, "tokens": graph.tokens,
        "documents": describe_documents(graph),
        "inputs": [describe_input(i) for i in graph.inputs if i.meaning not in TELL or i.value.name == graph.tokens or id(i.value) in graph.users()],
        "parameters": [describe_parameter(p) for p in graph.parameters],
        "constants": [],
        "nodes": [describe_node(node, names, words) for node in graph.nodes],
        "loss": names(graph.loss), "mean_over": describe_mean(graph.mean_over), "logits": names(graph.logits),
        "sources": [{"file": file, "line": line, "code": code} for file, line, code in graph.sources],
    }


class Names:
    """Names of values in the file: t1, t2, ... in the order of nodes."""

    def __init__(self, graph):
        self.names = {}
        for node in graph.nodes:
            for value in node.outputs:
                self.names[id(value)] = f"t{len(self.names) + 1}"

    def __call__(self, value):
        return None if value is None else self.names.get(id(value), value.name)


def describe_mean(over):
    if not isinstance(over, Weights):
        return over
    result = {"product": [{"input": name, **({"shift": shift} if shift else {})} for name, shift in over.factors]}
    more = {"labels": over.labels or None, "least": over.least, "plus": over.plus or None}
    return {**result, **{key: value for key, value in more.items() if value is not None}}


def describe_documents(graph):
    """Whether attention is told of documents; and if these are not marked by positions, the input that says them."""
    told = any(t["kind"] == "documents" for n in graph.nodes if n.op == "attention" for t in n.params["mask"])
    about = next((i for i in graph.inputs if i.meaning in TELL), None) if told else None
    if about is None:
        return told
    more = {"ignored": True} if graph.labels_of_padding else {} if about.number is None else {"number": about.number}
    return {"input": about.value.name, "is": "numbers" if about.meaning == "documents" else about.meaning, **more}


def describe_input(i):
    result = {"name": i.value.name, "dtype": "i32" if i.value.dtype == "i32" else "f32"}
    if i.meaning in ("labels", "positions"):
        result["is"] = i.meaning
    if i.meaning == "labels":
        result["shift"] = i.shift
    return result


def describe_parameter(p):
    result = {"name": p.value.name, "shape": list(p.value.shape), "frozen": p.frozen}
    if p.buffer:
        result["buffer"] = True
    if p.also:
        result["also"] = p.also
    return result


def describe_node(node, names, words):
    result = {"op": node.op, "in": [names(v) for v in node.inputs], "out": [names(v) for v in node.outputs]}
    if node.at is not None:
        result["at"] = node.at
    for key, value in node.params.items():
        if key == "size":
            value = [plain(n) for n in value] or [1]  # a number is a tensor [1] in a file
        elif key == "dtype":
            value = words[value]
        elif key == "dtypes":
            value = ["G" if word == "i32" else words[word] for word in value]  # maps compute numbers with a fraction
        result[key] = value
    if node.op == "iota":
        del result["size"], result["dim"]
        result["along"] = plain(node.params["size"][node.params["dim"]])
    return result


def text(described):
    """JSON with one node, parameter or source on each line."""
    lines = []
    for key, value in described.items():
        if isinstance(value, list) and value:
            rows = ",\n    ".join(json.dumps(row) for row in value)
            lines.append(f"  {json.dumps(key)}: [\n    {rows}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
