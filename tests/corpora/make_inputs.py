#!/usr/bin/env python3
"""Writes the inputs in inputs/ that are not plain text: safetensors, .npy, shards, zstd, and generated texts.

make_inputs.py    needs only Python's standard library; gives the same bytes every time.
"""
import gzip
import json
import pathlib
import struct

INPUTS = pathlib.Path(__file__).resolve().parent / "inputs"


def put(target, name, data):
    folder = INPUTS / target
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
# What each is refused with is in tests/tools/test_fuzz_corpus.c.
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
    "bad-deep-objects": safetensors(b'{"a":' * 2100),
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
    return struct.pack("<" + kind * (len(values) if len(kind) == 1 else 1), *values)


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
    "bad-past-end": npy("<i4", "(3,)", ints("i", 1)),
    "bad-tail": npy("<i4", "(1,)", ints("ii", 1, 2)),
    "bad-duplicate": npy("<i4', 'descr': '<f4", "(1,)", ints("i", 1)),
    "bad-deep": npy("<i4", "(" * 2100, ints("i", 1)),
}

# ---- token shards; the replay puts their checksums and the tokenizer's fingerprint in ----


def shard(texts, learnt=None, ends=None, **changes):
    tokens = [t for d in texts for t in d]
    ends = ends or [sum(len(d) for d in texts[:i + 1]) for i in range(len(texts))]
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
    "bad-overlap": shard(DOCUMENTS, ends=[6, 5, 30, 31]),
    "bad-past-end": shard(DOCUMENTS, ends=[6, 9, 30, (1 << 64) - 1]),
    "bad-wraps": shard(DOCUMENTS, documents=(1 << 44) - 1, tokens=1 << 44),
}

# ---- what is written beside token shards; the checksums are those of fuzz_put_shards ----

CHECKSUMS = ["4793d87c67cc23fc", "269c4da1d6e005d7"]
SIZES = [(2, 8), (1, 6)]  # documents, tokens
REQUEST = "000000000000f022"
NAME = "shard-%06d.tokens"


def row(i, **changes):
    return {"file": NAME % i, "documents": SIZES[i][0], "tokens": SIZES[i][1], "checksum": CHECKSUMS[i]} | changes


def shards(rows=None, **changes):
    record = {"format": "longspan token shards 1", "documents": 3, "tokens": 14, "longest_document": 6, "empty": 0, "bad": 0,
              "request": REQUEST, "shards": [row(0), row(1)] if rows is None else rows}
    return json.dumps(record | changes)


SHARD_LISTS = {
    "good": shards(),
    "good-one": shards([row(1)], documents=1, tokens=6),
    "bad-none": shards([], tokens=0),
    "bad-name": shards([row(0, file="../shard-000000.tokens")]),
    "bad-suffix": shards([row(0, file="shards.json")]),
    "bad-missing": shards([row(0), row(1, file=NAME % 2)]),
    "bad-checksum": shards([row(0), row(1, checksum="f" * 16)]),
    "bad-tokens-2e63": shards([row(0, tokens=(1 << 63) - 1)]),
    "bad-tokens-2e64": shards([row(0, tokens=(1 << 64) - 1)]),
    "bad-documents": shards([row(0, documents=-1)]),
    "bad-format": shards(format="longspan token shards 2\n\u009b2J"),
    "bad-row": shards([[row(0)]]),
    "bad-request": shards(request="0" * 15),
    "bad-repeated": shards([row(0), row(1), row(0)]),
    "bad-duplicate": shards()[:-1] + ', "shards": []}',
}


def line(i, **changes):
    """Of build.jsonl, behind shard i; -1: the first. Offsets are those of the file in journal.c."""
    left_out = ("left_out_" + name for name in "silent changed reduced thinking unwritten longer unlearnt tokens".split())
    record = {"shard": i, "request": REQUEST, "input": 0, "offset": [0, 32, 48][i + 1], "line": [1, 3, 4][i + 1], "documents": [0, 2, 3][i + 1],
              "tokens": [0, 8, 14][i + 1], "longest": [0, 4, 6][i + 1], **dict.fromkeys(["learnt", "empty", "bad", *left_out], 0)}
    return json.dumps(record | ({"checksum": CHECKSUMS[i]} if i >= 0 else {}) | changes) + "\n"


JOURNALS = {
    "good-one": line(-1) + line(0),
    "good-both": line(-1) + line(0) + line(1),
    "good-first": line(-1),
    "good-cut": line(-1) + line(0) + line(1)[:40],
    "bad-checksum": line(-1) + line(0, checksum=CHECKSUMS[1]),
    "bad-order": line(-1) + line(1),
    "bad-input": line(-1) + line(0, input=1 << 40),
    "bad-offset-2e63": line(-1) + line(0, offset=(1 << 63) - 1),
    "bad-offset-2e64": line(-1) + line(0, offset=(1 << 64) - 1),
    "bad-offset": line(-1) + line(0, offset=33),
    "bad-past-end": line(-1) + line(0, offset=1000),
    "bad-line": line(-1) + line(0, line=0),
    "bad-totals": line(-1) + line(0, documents=(1 << 63) - 1, tokens=(1 << 63) - 1),
    "bad-documents": line(-1) + line(0, documents=3),
    "bad-request": line(-1) + line(0, request="1" * 16),
    "bad-hex": line(-1) + line(0, request="0x0000000000f022"),
    "good-duplicate": line(-1) + line(0)[:-2] + ', "line": 2}\n',
    "good-deep": line(-1) + '{"a":' + "[" * 2100 + "\n",
}

# ---- records: kind + 3 * template, or 15 + a further kind; flags (1: what is bad is left out; 2: under zstd), lines ----


def records(kind, lines, template=0, flags=0):
    text = b"\n".join(x if isinstance(x, bytes) else json.dumps(x, ensure_ascii=False).encode() for x in lines) + b"\n"
    return bytes([kind + 3 * template, flags]) + text


def messages(*turns):
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


CHAT = messages(("user", " hello "), ("assistant", "good day"), ("user", "more"), ("assistant", "yes"))
SYSTEM = messages(("system", "be brief"), ("user", "hello"), ("assistant", "yes"))
RECORDS = {
    "good-text": records(0, [{"text": "one"}, {"text": ""}, b"  ", {"text": "z" * 50, "other": [1, {}]}]),
    "good-completion": records(1, [{"prompt": "1 + 1 = ", "completion": "2"}, {"prompt": "", "completion": "b"}]),
    "good-chatml": records(2, [CHAT, SYSTEM], 0),
    "good-llama3": records(2, [CHAT, SYSTEM], 1),
    "good-gemma": records(2, [CHAT], 2),
    "good-llama2": records(2, [SYSTEM, CHAT], 3),
    "good-mistral": records(2, [CHAT], 4),
    "left-out": records(0, [b"{", {"text": 1}, {"text": "left"}, b"[]", b'{"text":"a","text":"b"}', b'{"text":"\\u0000"}', b"\xff"], 0, 1),
    "bad-role": records(2, [messages(("tool", "a"))]),
    "bad-turns": records(2, [messages(("assistant", "a"), ("assistant", "b"))], 4),
    "bad-nothing": records(2, [messages(("user", "a"))]),
    "bad-message": records(2, [{"messages": ["a", 1]}]),
    "bad-missing": records(1, [{"prompt": "a"}]),
    "bad-deep": records(0, [b'{"text":' + b"[" * 2100]),
    "good-duplicate": records(0, [b'{"text": "a", "text": "b"}']),
    "bad-number": records(0, [b'{"text": 18446744073709551616}']),
    "bad-control": records(0, [b'{"text": "a", "\\u001b[2J": }']),
    "bad-utf8": records(0, [b'{"text": "\xc3"}']),
    "bad-empty": records(0, [b""]),
}

# ---- zstd ----


def zstd(text, size=None):
    """One frame of raw blocks (RFC 8878); size: what its header says, None: nothing."""
    blocks = [text[i:i + 1000] for i in range(0, len(text), 1000)] or [b""]
    out = struct.pack("<I", 0xFD2FB528)
    out += struct.pack("<BQ", 0xE0, size) if size is not None else b"\x00\x50"  # 8 bytes of size, or a window
    for i, block in enumerate(blocks):
        out += struct.pack("<I", (len(block) << 3) | (i + 1 == len(blocks)))[:3] + block
    return out


LINES = b'{"text": "one"}\n{"text": "two"}\n'
ZSTD = {
    "good": zstd(LINES, len(LINES)),
    "good-window": zstd(b"ab" * 1500),
    "good-two": zstd(LINES, len(LINES)) + zstd(b"c" * 10, 10),
    "good-skipped": struct.pack("<II", 0x184D2A50, 4) + b"skip" + zstd(LINES, len(LINES)),
    "good-run": struct.pack("<IB", 0xFD2FB528, 0) + b"\x50" + struct.pack("<I", (100000 << 3) | 3)[:3] + b"z",
    "good-empty": b"",
    "bad-size-2e64": zstd(LINES, (1 << 64) - 1),
    "bad-size-2e63": zstd(LINES, 1 << 63),
    "bad-size": zstd(LINES, 7),
    "bad-size-empty": bytes.fromhex("28b52ffde02000000000000000010000"),
    "bad-window": struct.pack("<IB", 0xFD2FB528, 0) + b"\xff" + b"\x01\x00\x00",
    "bad-cut": zstd(LINES, len(LINES))[:-5],
    "bad-header": zstd(LINES, len(LINES))[:6],
    "bad-text": LINES,
    "bad-skip-2e32": struct.pack("<II", 0x184D2A50, (1 << 32) - 1) + b"skip",
}

# ---- texts ----

DEEP = '{"a":' + "[" * 2100  # where it ends is never read
NESTED = {"json": "[" * 2100 + "]" * 2100, "config": DEEP, "shards": DEEP, "weight_index": DEEP, "tokenizer": DEEP,
          "tokenizer_config": DEEP}

# Divided by the byte 0x1e: see the targets.
MIXED = {
    "tokenizer_config": {
        "good-eos": '{"eos_token": "</s>"}',
        "good-object": '{"eos_token": {"content": "b", "lstrip": false}, "chat_template": "<|im_start|>"}',
        "good-id": '\x1e{"eos_token_id": 1}\x1e\x1e[INST] <<SYS>>',
        "good-ids": '\x1e\x1e{"eos_token_id": [1, 0]}',
        "good-several": '{"chat_template": [{"name": "tools", "template": ""}, {"name": "default", "template": "<start_of_turn>"}]}',
        "bad-unknown": '{"eos_token": "<eos>", "chat_template": "{{ \\u001b[2J }}"}',
        "bad-id-2e31": '\x1e{"eos_token_id": 2147483648}',
        "bad-id-2e64": '\x1e{"eos_token_id": 18446744073709551615}',
        "bad-negative": '\x1e\x1e{"eos_token_id": -1}',
        "bad-ids": '\x1e{"eos_token_id": [[1]]}',
        "bad-type": '{"eos_token": [], "chat_template": 1}',
        "bad-row": '{"eos_token": "</s>", "chat_template": [[]]}',
        "bad-duplicate": '{"eos_token": "a", "eos_token": "b"}',
        "bad-jinja": '\x1e\x1e\x1e{% if messages %}',
    },
    "rope_change": {
        "good-linear": "linear:2\x1e\x1e",
        "good-dynamic": "dynamic:4:32\x1e50000\x1e",
        "good-yarn": "yarn:4\x1e\x1e",
        "good-llama3": "llama3:8:16\x1e\x1e",
        "good-default": "default\x1e1e6\x1e",
        "good-object": '{"rope_type": "yarn", "factor": 2.5, "beta_fast": 16, "truncate": false}\x1e\x1e',
        "good-theta": "\x1e500\x1e",
        "bad-factor": "linear:0.5\x1e\x1e",
        "bad-nan": "linear:nan\x1enan\x1e",
        "bad-original": "linear:2:32\x1e\x1e",
        "bad-type": "longrope:2\x1e\x1e",
        "bad-object": '{"rope_type": "llama3"}\x1e\x1e',
        "bad-deep": DEEP + "\x1e\x1e",
    },
}
NEWER = {"vocab_size": 48, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 4,
         "max_position_embeddings": 32}
PARAMETERS = {"rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}


def config(architecture, **changes):
    return json.dumps({"architectures": [architecture]} | NEWER | changes)


CONFIGS = {
    "qwen3": config("Qwen3ForCausalLM", layer_types=["full_attention"], sliding_window=None, max_window_layers=28, **PARAMETERS),
    "llama-yarn": config("LlamaForCausalLM", rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8,
                                                           "mscale": 1.0, "mscale_all_dim": 0.5, "beta_fast": 32, "beta_slow": 1}),
    "llama-dynamic": config("LlamaForCausalLM", rope_scaling={"rope_type": "dynamic", "factor": 2.0}, mlp_bias=True),
    "bad-architecture": config("T5ForConditionalGeneration\n\u001b[2J"),
    "bad-rope": config("LlamaForCausalLM", rope_scaling={"rope_type": "longrope", "factor": 2.0}),
    "bad-activation": config("LlamaForCausalLM", hidden_act="relu6"),
    "bad-overflow": config("LlamaForCausalLM", hidden_size=1 << 63, vocab_size=1 << 64),
    "bad-layers": config("LlamaForCausalLM", num_hidden_layers=1 << 40, layer_types=[]),
    "bad-duplicate": config("LlamaForCausalLM")[:-1] + ', "vocab_size": 2}',
    "bad-heads": config("LlamaForCausalLM", num_attention_heads=3, head_dim=None),
    "bad-nan": config("LlamaForCausalLM").replace("48", "NaN"),
}

# ---- checkpoints to export: type, config, tensors ----

ONES = safetensors({"a": A, "b": tensor("F32", [1], 8, 12)}, 12)
EXPORTS = {
    "good": b'\0{"dtype": "bfloat16", "eos_token_id": [1, 2], "x": {"dtype": 1}}\x1e' + ONES,
    "good-older": b'\1{"torch_dtype": "float64"}\x1e' + ONES,
    "good-half": b"\2{}\x1e" + safetensors({"a": tensor("F32", [1], 0, 4)}) + struct.pack("<f", 1.5),
    "bad-half": b"\2{}\x1e" + safetensors({"a": tensor("F32", [1], 0, 4)}) + struct.pack("<f", 1e9),
    "bad-integers": b"\1{}\x1e" + safetensors({"a": tensor("I64", [1], 0, 8)}, 8),
    "bad-none": b"\3{}\x1e" + safetensors({}),
    "bad-config": b"\3[]\x1e" + ONES,
    "bad-model": b"\3{}\x1e" + ONES[:-1],
}

# ---- weights of the model in weights.c ----

MODEL = {"model.a": tensor("F32", [2, 2], 0, 16), "model.b": tensor("BF16", [3], 16, 22)}
WEIGHTS = {
    "good": safetensors(MODEL, 22),
    "good-derived": safetensors(MODEL | {"x.derived": tensor("U8", [1], 22, 23)}, 23),
    "good-bare": safetensors({"a": tensor("F16", [2, 2], 0, 8), "b": tensor("F64", [3], 8, 32)}, 32),
    "good-copy": safetensors({"head": tensor("F32", [2, 2], 0, 16), "model.a": tensor("F32", [2, 2], 16, 32),
                              "model.b": tensor("F32", [3], 32, 44)})  + bytes(44),
    "bad-copy": safetensors(MODEL | {"head": tensor("F32", [2, 2], 22, 38)}, 38),
    "bad-all": safetensors({"model.a": tensor("F32", [4], 0, 16), "c\n\u009b": tensor("I32", [1], 16, 20)}, 20),
    "bad-type": safetensors(MODEL | {"model.b": tensor("I16", [3], 16, 22)}, 22),
}


def state(second=None, **changes):
    """A checkpoint's state.json; the replay puts its hash in."""
    def piece(of, start, size):
        return {"of": of, "start": start, "bytes": size, "xxh64": "0123456789abcdef"}
    files = [{"name": n, "bytes": 20, "pieces": [piece("header", 0, 8), piece("w", 8, 12) | (second or {})]}
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
    streams = ("add copy fill cast accumulate column_sum embedding embedding_grad rmsnorm rmsnorm_grad layernorm layernorm_grad rope_table "
               "rotate swiglu swiglu_grad activation activation_grad attention_delta cross_entropy cross_entropy_grad sum_squares adamw "
               "gated_norm gated_norm_grad conv conv_silu_grad conv_dw").split()
    passes = [f"{p}_{w}" for p in ("attention", "attention_grad") for w in ("flop", "pair", "row", "byte")]
    flops = {"matmul": 1e11, "recurrence": 1e11, "recurrence_grad": 1e11, "split": 0.01}
    one = {name: 1e-11 for name in passes} | flops | {s: {"near": 1e-11, "far": 1e-10} for s in streams}
    host = {"memory": 1e10, "memory_alone": 1e10, "cache": 1e6, "put_near": 1e-10, "put_far": 1e-10, "latency": 1e-6, "overhead": 1e-6,
            "piece": 1e-9, "to_host": 1e10, "from_host": 1e10, "rows": {"attention bf16": {"own": 2e14, "cudnn": 5e14}, "matmul f32": {"own": 1e11}}}
    return json.dumps({"version": "0.1.0"} | {t: one for t in ("f32", "f64", "bf16")} | host)


def tokenizer(vocab="", model="", **changes):
    text = '{"a": 0, "</s>": 1%s}' % vocab
    return json.dumps({"added_tokens": []} | changes)[:-1] + ', "model": {"type": "BPE", "vocab": %s, "merges": []%s}}' % (text, model)


INDEX = {
    "bad-2e64": '{"metadata": {"total_size": 18446744073709551615}, "weight_map": {"a": 18446744073709551615}}',
    "bad-name-lines": json.dumps({"weight_map": {"a": "x\n\u009b2J.safetensors", "b": "b.safetensors"}}),
}
TOKENIZERS = {
    "bad-id-2e31": tokenizer(', "b": 2147483648'),
    "bad-id-2e64": tokenizer(', "b": 18446744073709551615'),
    "bad-same-id": tokenizer(', "b": 0'),
    "bad-duplicate": tokenizer(', "a": 2'),
    "bad-duplicate-model": tokenizer("", ', "vocab": {}'),
    "good-template": tokenizer(post_processor={"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "a", "type_id": 0}}],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [1]}, "a": {"id": "a", "ids": [0, 1]}}}) + "\x1ea a",
    "good-unicode": tokenizer(""", "e": 2, "\u0301": 3, "'": 4""", normalizer={"type": "Sequence", "normalizers": [
        {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFC"}]}, pre_tokenizer={"type": "Split", "pattern": {"String": "'"},
        "behavior": "MergedWithPrevious", "invert": False}) + "\x1ea'\u00e9\uac00'",
    "good-words": tokenizer(pre_tokenizer={"type": "Whitespace"}) + "\x1ea, a  b",
    "bad-steps": tokenizer(normalizer={"type": "Sequence", "normalizers": [{"type": "\u009b\n"}]}),
}


# ---- calls of graphs, tokens that are added ----


def call(op, x=0, y=0, z=0, name=0, i=0, j=0, u=0, v=0, dtype=0, more=()):
    return bytes([0, op, x, y, z, name, i, j, u, v, dtype, *more])


def graphs():
    leaves = (
        call(0, i=0, j=5)  # tokens [1, 8]
        + call(1, x=1, name=1)  # labels
        + call(2, name=2, i=1, more=(5, 3, 0, 0, 0))  # w [8, 4]
        + call(5, x=1, y=3, i=9)  # x [1, 8, 4]
    )
    causal = (2, *(1, 0, 0) * 4)
    attention = call(28, x=4, i=1, j=1) + call(13, x=5, y=5, z=5, v=1, more=(0xFE, *causal)) + call(29, x=6)
    loss = call(7, x=7, y=3) + call(32, x=8, y=2) + call(33, x=9)
    for name, choice in (("train", 0x10), ("evaluate", 0x22), ("differentiate", 0x05)):
        put("graph", name, bytes([1, choice]) + leaves + attention + loss)
    along = call(25, x=4, i=1) + call(9, x=5, y=3) + call(21, x=4, y=5) + call(24, x=6, dtype=1)
    put("graph", "along", bytes([0, 0x11]) + leaves + along)
    put("graph", "bad-foreign", bytes([0, 0]) + leaves + call(21, x=4, y=0))
    put("graph", "bad-type", bytes([4, 0]) + leaves)
    put("graph", "bad-product", bytes([0, 0]) + leaves + call(27, x=4, i=3, more=(10, 10, 10, 10, 0)))


def added():
    def case(normalizer, text, *tokens):
        return bytes([normalizer]) + b"".join(bytes([flags]) + t + b"\x1e" for flags, t in tokens) + text

    put("added", "plain", case(0, b"a<s>b ab", (0, b"<s>")))
    put("added", "spaces", case(0, b"a <s>  b", (6, b"<s>"), (16, b"  ")))
    put("added", "words", case(1, b"AB abab ab", (1, b"ab"), (9, b"AB")))
    put("added", "prepended", case(2, b"a<s>b<s><s>", (16, b"<s>"), (8, b"b")))
    put("added", "growing", case(6, b"aabaab<s>aaa", (8, b"aaab"), (24, b"<s>"), (8, b"aa")))
    put("added", "overlapping", case(0, b"abcabcdabce", (0, b"abc"), (0, b"abcd"), (1, b"bc"), (0, b"e")))

# ---- messages of the transport tcp ----

KIND = {"put": 0, "piece": 1, "signal": 2, "ask": 3, "flush": 4, "leave": 5, "none": -1}
ONE_PIECE, STRIDED = (1, 1, 1, 0, 0, 0), (2, 2, 1, 128, 512, 0)


def greeting(rank=0, peer=1, ranks=3):
    return struct.pack("<8sIII12xiiiI", b"LONGSPAN", 1, 2, 0x01020304, rank, ranks, peer, 0).ljust(160, b"r")


def message(kind, word=-1, generation=0, offset=0, length=0, pieces=ONE_PIECE, payload=0):
    return struct.pack("<iiQQQ6q", KIND[kind], word, generation, offset % 2**64, length, *pieces) + b"P" * payload


def conversation():
    puts = message("signal", 0, 1) + message("put", 3, 1, 64, 64, payload=64) + message("put", 0, 2, 1024, 256, payload=256)
    pieces = b"".join(message("piece", 0, 3, at, 64, payload=64) for at in (2048, 2176, 2560, 2688)) + message("signal", 0, 3)
    return puts + message("ask") + pieces + message("put", 8, 1, 139264, 100, payload=100) + message("flush") + message("leave")


# ---- what ranks tell each other when they meet (fuzz/rendezvous.c) ----


def said(kind, data=b"", number=0, length=None):
    """A message: a kind, the length of what follows, the number of a gather."""
    return struct.pack("<BHB", kind, len(data) if length is None else length, number) + data


def head(kind, length, number=0):
    """The same as it lies in memory, with a length of its own."""
    return struct.pack("<BIIQ", 255, kind, length, number)


COME, GATHER, ASK, TELL, ABORT, STOP, LEAVE = range(7)
TO_SERVER, TO_CLIENT, STRANGER, GREETING, GATHERED = range(5)
MISSING = struct.Struct("<iid")
MEETINGS = {
    "good-rank": bytes([TO_SERVER, 1]) + said(GATHER, b"8 bytes.", 1) + said(ASK) + said(TELL) + said(STOP) + said(LEAVE),
    "good-early": bytes([TO_SERVER, 0]) + said(GATHER, b"a", 1) + said(ABORT, b"why") + said(LEAVE),
    "bad-number": bytes([TO_SERVER, 1]) + said(GATHER, b"a", 2),
    "bad-twice": bytes([TO_SERVER, 1]) + 2 * said(GATHER, b"a", 1),
    "bad-other-length": bytes([TO_SERVER, 3]) + said(GATHER, bytes(24), 1),
    "bad-long": bytes([TO_SERVER, 1]) + head(GATHER, 1 << 31, 1),
    "bad-kind": bytes([TO_SERVER, 1]) + head(0xFFFFFFFF, 0),
    "bad-text": bytes([TO_SERVER, 1]) + said(ABORT, b"\x1b[2J\n\xff"),
    "good-server": bytes([TO_CLIENT, 1]) + said(ASK) + said(TELL, MISSING.pack(2, 0, 0.5)) + said(GATHER, bytes(24), 1) + said(STOP),
    "bad-early-values": bytes([TO_CLIENT, 1]) + said(GATHER, bytes(24), 2),
    "bad-many-values": bytes([TO_CLIENT, 1]) + said(GATHER, bytes(300), 1),
    "bad-few-values": bytes([TO_CLIENT, 1]) + said(GATHER, bytes(8), 1),
    "bad-gigabytes": bytes([TO_CLIENT, 0]) + head(ABORT, 0xFFFFFFFF),
    "bad-missing": bytes([TO_CLIENT, 1]) + said(TELL, MISSING.pack(1 << 28, 0, 100)),
    "bad-refusal": bytes([TO_CLIENT, 0]) + said(ABORT, b"no\n" * 160),
    "bad-no-reason": bytes([TO_CLIENT, 0]) + said(ABORT, b"\0"),
    "bad-stranger": bytes([STRANGER, 1]) + b"LONGSPAN\1\0\0\0" + bytes(180),
    "bad-forger": bytes([STRANGER, 1]) + b"LONGSPAN" + struct.pack("<III12xiiii", 1, 1, 0, 0, 3, 1, 0) + bytes(144),
    "bad-short": bytes([STRANGER, 0]) + b"GET / HTTP/1.1",
    "good-greeting": bytes([GREETING, 0]),
    "bad-build": bytes([GREETING, 48]) + b"x" * 80,
    "bad-protocol": bytes([GREETING, 8]) + b"\2",
    "bad-ranks": bytes([GREETING, 32]) + b"\xff" * 8,
    "bad-names": bytes([GATHERED, 0]) + struct.pack("<HB", 2000, 0) + b"x",
    "bad-status": bytes([GATHERED, 1]) + struct.pack("<HB", 1536, 0) + b"x",
}


def main():
    graphs()
    added()
    for name, data in (GOOD_SAFETENSORS | BAD_SAFETENSORS).items():
        put("safetensors", name, data)
    for name, data in NPY.items():
        put("npy", name, data)
    for name, data in SHARDS.items():
        put("shard", name, data)
    for target, texts in (("shards", SHARD_LISTS), ("journal", JOURNALS), ("records", RECORDS), ("weights", WEIGHTS), ("export", EXPORTS), ("config", CONFIGS),
                          ("weight_index", INDEX), ("tokenizer", TOKENIZERS)):
        for name, data in texts.items():
            put(target, name, data)
    for name, data in ZSTD.items():
        put("stream", name, b"\x06" + data)
    put("records", "good-zstd", bytes([0, 2]) + ZSTD["good"])
    put("records", "bad-zstd", bytes([0, 2]) + ZSTD["bad-cut"])
    for choice, name in ((3, "lines"), (0, "text"), (5, "behind")):
        put("source", name, bytes([choice]) + LINES + b" \r\n\n" + LINES[:-1])
    put("records", "good-gzip", bytes([0, 4]) + gzip.compress(b'{"text": "a"}\n', mtime=0))
    put("records", "good-array", bytes([0, 6]) + b'[{"text": "a"},\n "b"]')
    put("stream", "good-gzip", b"\x06" + 2 * gzip.compress(b"some text, ", mtime=0) + bytes(3))
    put("source", "array", bytes([132]) + b' [{"a": [1]} ,\n"b", 3,]')
    put("source", "values", bytes([128]) + b'{"a": "}"}\n{"b":\n1} 3 ]')
    put("source", "nul", b"\0a\0b")
    for name, data in MEETINGS.items():
        put("rendezvous", name, data)
    for target, texts in MIXED.items():
        for name, data in texts.items():
            config_text = config("LlamaForCausalLM", **({} if name in ("good-linear", "good-theta") else PARAMETERS))
            put(target, name, data + (config_text if target == "rope_change" else ""))
    for target, text in NESTED.items():
        put(target, "bad-deep", text)
    put("checkpoint", "good", state())
    put("checkpoint", "bad-type", state(type=1))
    put("checkpoint", "bad-step", state(step=1 << 64))
    put("checkpoint", "bad-overlap", state({"start": 4}))
    put("checkpoint", "bad-past-end", state({"bytes": 13}))
    put("checkpoint", "bad-bytes-2e63", state({"bytes": (1 << 63) - 1}))
    put("checkpoint", "bad-bytes-2e64", state({"bytes": (1 << 64) - 1}))
    put("checkpoint", "bad-duplicate", state()[:-1] + ', "step": 4}')
    put("checkpoint", "bad-deep", state()[:-1] + ', "a": ' + "[" * 2100)
    put("run_json", "good", run())
    put("run_json", "bad-accumulate", run({"accumulate": 0}))
    put("run_json", "bad-seq", run({"seq": -64}))
    put("run_json", "bad-steps", run({"steps": 9223372036854775807, "warmup": -9223372036854775807}))
    put("run_json", "bad-mesh", run(None, {"mesh": "ring=0"}))
    put("tcp", "good", greeting() + conversation())
    put("tcp", "good-whole", greeting() + message("signal", 0, 1) + message("put", 0, 3, 2048, 64, STRIDED, 256))
    put("tcp", "bad-offset", greeting() + message("put", 0, 2, -(2**30), 2**30 + 16, payload=64))
    put("tcp", "bad-pieces", greeting() + message("piece", 0, 2, 1024, 8, (2**62, 2, 1, 2**62, -1, 0), 64))
    put("tcp", "bad-kind", greeting() + message("none"))
    put("tcp", "bad-word", greeting() + message("signal", 2**31 - 1, 1))
    put("tcp", "bad-host", greeting() + message("put", 8, 1, 64, 64, payload=64))
    put("tcp", "bad-cut", greeting() + conversation()[:300])
    put("tcp", "bad-rank", greeting(rank=-1) + conversation())
    put("host_rates", "good", rates())
    put("host_rates", "bad-old", '{"f32": {"attention": 1e9, "attention_grad": 1e9, "matmul": 1e9}}')


main()
