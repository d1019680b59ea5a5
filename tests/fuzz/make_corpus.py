#!/usr/bin/env python3
"""Writes the inputs in corpus/ that are not text: safetensors, .npy, and texts that only a program would write.

make_corpus.py    needs Python's standard library alone; gives the same bytes every time.
"""
import json
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def put(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


# ---- safetensors ----


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors(header, data=0, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(i % 256 for i in range(data))


A = tensor("F32", [2], 0, 8)
TYPES = [("F64", 8), ("F32", 4), ("F16", 2), ("BF16", 2), ("I64", 8), ("I32", 4), ("I16", 2), ("I8", 1)]
TYPES += [("U64", 8), ("U32", 4), ("U16", 2), ("U8", 1), ("BOOL", 1), ("F8_E4M3", 1), ("F8_E5M2", 1)]


def every_type():
    header, at = {}, 0
    for name, size in TYPES:
        header[name.lower()] = tensor(name, [1], at, at + size)
        at += size
    return safetensors(header, at)


GOOD_SAFETENSORS = {
    "good-one": safetensors({"a": A}, 8),
    "good-metadata": safetensors({"__metadata__": {"format": "pt"}, "a": A, "b": tensor("U8", [3], 8, 11)}, 11),
    "good-empty": safetensors({"a": tensor("F32", [0, 4], 0, 0), "b": tensor("F16", [], 0, 2)}, 2),
    "good-types": every_type(),
    "good-none": safetensors({}),
}
# What each is refused with is in tests/test_fuzz_corpus.c.
BAD_SAFETENSORS = {
    "bad-short": b"\x02\0\0\0",
    "bad-length-past-end": safetensors({"a": A}, 0, 1000),
    "bad-length-2e63": safetensors({"a": A}, 8, 1 << 63),
    "bad-length-2e64": safetensors({"a": A}, 8, (1 << 64) - 1),
    "bad-length-wraps": safetensors({"a": A}, 8, (1 << 64) - 8),
    "bad-length-0": safetensors({"a": A}, 8, 0),
    "bad-overlap": safetensors({"a": A, "b": tensor("F32", [2], 4, 12)}, 12),
    "bad-same-place": safetensors({"a": A, "b": A}, 8),
    "bad-hole": safetensors({"a": A, "b": tensor("F32", [2], 12, 20)}, 20),
    "bad-tail": safetensors({"a": A}, 12),
    "bad-past-end": safetensors({"a": A, "b": tensor("F32", [2], 8, 16)}, 12),
    "bad-reversed": safetensors({"a": tensor("F32", [2], 8, 0)}, 8),
    "bad-negative": safetensors({"a": tensor("F32", [2], -8, 0)}, 8),
    "bad-offset-2e63": safetensors({"a": tensor("U8", [1], (1 << 63) - 2, (1 << 63) - 1)}, 8),
    "bad-offset-2e64": safetensors({"a": tensor("U8", [1], (1 << 64) - 2, (1 << 64) - 1)}, 8),
    "bad-shape-2e64": safetensors({"a": tensor("U8", [1 << 32, 1 << 32], 0, 0)}),
    "bad-shape-2e63": safetensors({"a": tensor("F64", [1 << 60], 0, 0)}),
    "bad-shape-negative": safetensors({"a": tensor("F32", [-2, -1], 0, 8)}, 8),
    "bad-dimensions": safetensors({"a": tensor("F32", [1] * 9, 0, 4)}, 4),
    "bad-duplicate-tensor": safetensors(b'{"a":' + json.dumps(A).encode() + b',"a":' + json.dumps(A).encode() + b"}", 8),
    "bad-duplicate-field": safetensors(b'{"a":{"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8]}}', 8),
    "bad-duplicate-metadata": safetensors(b'{"__metadata__":{"k":"1","k":"2"},"a":' + json.dumps(A).encode() + b"}", 8),
    "bad-deep-arrays": safetensors(b'{"a":' + b"[" * 2100 + b"]" * 2100 + b"}"),
    "bad-deep-objects": safetensors(b'{"a":' * 2100 + b"1" + b"}" * 2100),
    "bad-name-lines": safetensors({"a\nb\x1b[2J": tensor("F32", [2], 0, 4)}, 8),
    "bad-name-nul": safetensors(b'{"a\\u0000b":' + json.dumps(A).encode() + b"}", 8),
    "bad-name-utf8": safetensors(b'{"a\xff":' + json.dumps(A).encode() + b"}", 8),
    "bad-metadata": safetensors({"__metadata__": {"format": 1}, "a": A}, 8),
    "bad-array": safetensors(b"[]"),
    "bad-text-after": safetensors(b'{"a":' + json.dumps(A).encode() + b"}{}", 8),
}


# ---- .npy ----


def npy(descr, shape, data, version=1, order="False", length=None):
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + text + data


def ints(kind, *values):
    return struct.pack(f"<{len(values)}{kind}", *values)


NPY = {
    "f4": npy("<f4", "(2, 1)", struct.pack("<2f", 1, 2)),
    "f8-number": npy("<f8", "()", struct.pack("<d", 1)),
    "tokens-i4": npy("<i4", "(2, 4)", ints("i", 1, 2, 3, 15, 0, 1, 2, 3)),
    "labels-i4": npy("<i4", "(1, 4)", ints("i", 1, -100, 3, 15)),
    "tokens-i8-v2": npy("<i8", "(1, 3)", ints("q", 1, 2, 3), 2),
    "documents": npy("<i4", "(3,)", ints("i", 0, 5, 8)),
    "documents-v3": npy("<i8", "(2,)", ints("q", 0, 8), 3),
    "bad-i8-large": npy("<i8", "(1, 1)", ints("q", 1 << 40)),
    "bad-order": npy("<i4", "(1, 1)", ints("i", 1), order="True"),
    "bad-shape-2e64": npy("<i8", "(4294967296, 4294967296)", b""),
    "bad-shape-0": npy("<i4", "(0, 9223372036854775807)", b""),
    "bad-digits": npy("<i4", "(18446744073709551617,)", ints("i", 1)),
    "bad-length": npy("<i4", "(1,)", ints("i", 1), 2, length=(1 << 32) - 1),
    "bad-big-endian": npy(">i4", "(1,)", ints("i", 1)),
    "bad-objects": npy("|O", "(1,)", ints("i", 1)),
}

# ---- token shards; the replay puts their checksums and the tokenizer's fingerprint in ----


def shard(texts, learnt=None, **changes):
    tokens = [t for d in texts for t in d]
    ends = [sum(len(d) for d in texts[:i + 1]) for i in range(len(texts))]
    counts = [tokens.count(i) for i in range(256)]
    longest = max((len(d) for d in texts), default=0)
    field = {"width": 1, "flags": learnt is not None, "tokenizer": 0, "vocabulary": 256, "end": 0, "tokens": len(tokens),
             "documents": len(texts), "longest": longest} | changes
    body = bytes(tokens) + bytes(-len(tokens) % 8) + struct.pack(f"<{len(ends)}Q", *ends) + struct.pack("<256Q", *counts)
    return b"LSTOKEN1" + struct.pack("<2I6Q", *field.values()) + bytes(64) + body + (struct.pack("<Q", learnt) if learnt else b"")


DOCUMENTS = [[72, 101, 108, 108, 111, 0], [97, 98, 0], [7] * 20 + [0], [0]]
SHARDS = {
    "good": shard(DOCUMENTS),
    "good-learnt": shard(DOCUMENTS, 0x5555555),
    "good-none": shard([]),
    "bad-tokens-2e64": shard(DOCUMENTS, tokens=(1 << 64) - 1),
    "bad-documents-2e61": shard(DOCUMENTS, documents=1 << 61, tokens=1 << 61),
    "bad-vocabulary": shard(DOCUMENTS, vocabulary=1 << 31, width=4),
    "bad-longest": shard(DOCUMENTS, longest=3),
    "bad-end": shard(DOCUMENTS, end=256),
}

# ---- texts ----

NESTED = {"json": "[" * 2100 + "]" * 2100, "config": '{"a":' * 2100 + "1" + "}" * 2100}


def state(**changes):
    """A checkpoint's state.json; the replay puts its hash in."""
    def piece(of, start, size):
        return {"of": of, "start": start, "bytes": size, "xxh64": "0123456789abcdef"}
    files = [{"name": n, "bytes": 20, "pieces": [piece("header", 0, 8), piece("w", 8, 12)]}
             for n in ("model.safetensors", "optimizer.safetensors")]
    record = {"format": "longspan checkpoint 1", "step": 3, "seed": 1, "sequences": 12, "last_loss": 2.5, "type": "F32",
              "files": files, "state_hash": "0" * 16}
    return json.dumps(record | changes)


SETTINGS = {"seq": 64, "batch": 4, "accumulate": 2, "dtype": "f32", "seed": 1, "steps": 10, "lr": 1e-3, "warmup": 1,
            "schedule": "cosine", "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0,
            "save_every": 5, "keep": 2, "eval_every": 0, "max_seconds": 0.0}
SPREAD = {"ranks": 2, "threads": 1, "strategy": "ring", "mesh": "ring=2", "layout": "zigzag", "isa": "base",
          "transfers": "put", "recompute": "0", "tile": "none", "tile_rows": 0}


def run(settings=None, spread=None):
    return json.dumps({"settings": SETTINGS | (settings or {}), "spread": SPREAD | (spread or {})})


def rates():
    types = ("f32", "f64", "bf16")
    passes = [f"{p}_{w}" for p in ("attention", "attention_grad") for w in ("flop", "pair", "row", "byte")]
    one = {name: 1e-11 for name in passes} | {"matmul": 1e11}
    return json.dumps({t: one for t in types} | {"memory": 1e10, "bandwidth": 1e10, "latency": 1e-6, "overhead": 1e-6})


def main():
    for name, data in (GOOD_SAFETENSORS | BAD_SAFETENSORS).items():
        put("safetensors", name, data)
    for name, data in NPY.items():
        put("npy", name, data)
    for name, data in SHARDS.items():
        put("shard", name, data)
    for target, text in NESTED.items():
        put(target, "bad-deep", text)
    put("checkpoint", "good", state())
    put("checkpoint", "bad-type", state(type=1))
    put("checkpoint", "bad-step", state(step=1 << 64))
    put("run_json", "good", run())
    put("run_json", "bad-accumulate", run({"accumulate": 0}))
    put("run_json", "bad-seq", run({"seq": -64}))
    put("run_json", "bad-steps", run({"steps": 9223372036854775807, "warmup": -9223372036854775807}))
    put("run_json", "bad-mesh", run(None, {"mesh": "ring=0"}))
    put("host_rates", "good", rates())
    put("host_rates", "bad-old", '{"f32": {"attention": 1e9, "attention_grad": 1e9, "matmul": 1e9}}')


main()
