#!/usr/bin/env python3
"""Packed documents of a hybrid beside the same documents alone: numbers and time.

    packed_hybrid.py BUILD [TOKENS] [MODEL]   (Python with numpy and safetensors)

Documents of 50 to 5,000 tokens, evenly in their logarithms, are packed into one sequence of TOKENS (16,384). Loss and gradients of the packed sequence on
1, 2 and 4 ranks (`longspan grad`, f32) are compared with the sums over the documents, each alone in a program of its own length on one rank. Then
the steps of trainings are timed: the packed sequence on 1, 2 and 4 ranks of one thread each, and each document alone, whose times are added up. MODEL
is a config.json; a small Qwen3.5 (4 layers, E 256) when left out.
"""
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
from safetensors.numpy import load_file

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve() / "longspan")
TOKENS = int(sys.argv[2]) if len(sys.argv) > 2 else 16384
CONFIG = dict(architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", vocab_size=256, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
              num_attention_heads=4, num_key_value_heads=2, head_dim=64, linear_num_key_heads=4, linear_num_value_heads=4, linear_key_head_dim=64,
              linear_value_head_dim=64, linear_conv_kernel_dim=4, max_position_embeddings=65536, hidden_act="silu", rms_norm_eps=1e-6,
              tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.5))
RANKS = (1, 2, 4)
STEPS = 4


def longspan(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, f"longspan {' '.join(map(str, words))}: {done.stderr}"
    return done.stdout


def lengths_of(tokens):
    """Of documents that fill the sequence, the same on every machine."""
    draw, lengths = random.Random(1), []
    while sum(lengths) < tokens:
        lengths.append(min(round(math.exp(draw.uniform(math.log(50), math.log(5000)))), tokens - sum(lengths)))
    return lengths


def gradients(folder, ids, positions=None, ranks=1):
    """The loss added up over the labels, of which a document's last token has none, and the gradients of that sum."""
    labels = numpy.full_like(ids, -100)
    labels[0, :-1] = ids[0, 1:]
    words = []
    if positions is not None:
        labels[0, :-1][positions[0, 1:] == 0] = -100
        numpy.save(folder / "positions.npy", positions)
        words = ["--position-ids", folder / "positions.npy"]
    numpy.save(folder / "ids.npy", ids)
    numpy.save(folder / "labels.npy", labels)
    said = json.loads(longspan("grad", "--model", folder / "model", "--tokens", folder / "ids.npy", "--labels", folder / "labels.npy", "--out",
                               folder / "g.safetensors", "--ranks", ranks, "--threads", 1, "--seed", 5, "--json", *words))
    n = int((labels != -100).sum())
    return said["loss"] * n, {name: g.astype(numpy.float64) * n for name, g in load_file(folder / "g.safetensors").items()}


def seconds(folder, name, documents, tokens, ranks):
    """The fastest step but the first of a training on one sequence of these documents."""
    text = folder / f"{name}.jsonl"
    text.write_text("".join(json.dumps({"text": bytes(97 + int(t) % 26 for t in d).decode()}) + "\n" for d in documents for _ in range(STEPS + 1)))
    out = folder / name
    longspan("train", "--model", folder / "model", "--data", text, "--pack", "stream", "--seq", tokens, "--steps", STEPS, "--batch", 1, "--ranks", ranks,
             "--threads", 1, "--save-every", "0", "--out", out)
    return min(json.loads(line)["seconds"] for line in (out / "metrics.jsonl").read_text().splitlines()[1:])


def main():
    lengths = lengths_of(TOKENS)
    ids = numpy.random.default_rng(2).integers(0, 256, (1, TOKENS), dtype=numpy.int32)
    cuts = numpy.concatenate([[0], numpy.cumsum(lengths)])
    documents = [ids[:, a:b] for a, b in zip(cuts, cuts[1:])]
    positions = numpy.concatenate([numpy.arange(n) for n in lengths])[None].astype(numpy.int32)
    print(f"{len(lengths)} documents of {min(lengths)} to {max(lengths)} tokens, {TOKENS} together")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text(pathlib.Path(sys.argv[3]).read_text() if len(sys.argv) > 3 else json.dumps(CONFIG))
        loss, sums = 0.0, {}
        for document in documents:
            each, g = gradients(folder, document)
            loss += each
            for name in g:
                sums[name] = sums.get(name, 0) + g[name]
        for ranks in RANKS:
            packed, g = gradients(folder, ids, positions, ranks)
            norm, apart = ({n: numpy.linalg.norm(x) for n, x in tensors.items()} for tensors in (sums, {n: g[n] - sums[n] for n in sums}))
            worst = max(sums, key=lambda n: apart[n] / norm[n])
            whole = math.hypot(*apart.values()) / math.hypot(*norm.values())
            print(f"packed on {ranks} ranks: loss off by {abs(packed / loss - 1):.1e}, the whole gradient by {whole:.1e}, that of {worst} by "
                  f"{apart[worst] / norm[worst]:.1e} of its own {norm[worst] / math.hypot(*norm.values()):.1e} of all")
        alone = sum(seconds(folder, f"alone-{i}", [d[0]], d.shape[1], 1) for i, d in enumerate(documents))
        print(f"documents alone, one after the other on 1 rank: {alone:.2f} s")
        for ranks in RANKS:
            print(f"packed on {ranks} ranks: {seconds(folder, f'packed-{ranks}', [d[0] for d in documents], TOKENS, ranks):.2f} s a step")


main()
