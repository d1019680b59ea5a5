#!/usr/bin/env python3
"""Compares Longspan with the reference library on models that the library wrote, at sizes and types that the stored models do not
have.

    parity.py BUILD [WORD]   (tests/model/test_reference_parity.sh, where Python has the packages; written with torch 2.15, transformers 5.23)

- Each model of live_models.py, in f32 on 1 to 4 ranks (ring, ulysses, tp): within the bounds there of the library in f64.
- In bf16, each model is as near to the library's logits in f64 as the library's own bf16 is: the root mean square of the error is at most 1.5 times
  the library's, and of the gradients at most 2 times. Both round weights and activations to 8 bits, at places of their own, so they are not near
  each other.
- Documents packed into one sequence have the logits that the library gives each alone.
- Dynamic rope and longrope: the same logits at sequences shorter than, as long as and longer than the original length.
- --rope-scaling and --rope-theta: a training with them leaves a folder that the library reads as that rope, with the same logits.
"""
import pathlib
import sys
import tempfile

import numpy
import torch
import transformers
from live_models import (FIRST_OF_ITS_KIND, MODELS, TIMES, WORD, bounds_of, check_same, gradients_of, load, longspan, no_narrowing, off, ours, random_ids,
                         rope_kinds_of, write_model)

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve() / "longspan")
SPREADS = ((1, "--strategy", "local"), (2, "--strategy", "ulysses"), (2, "--strategy", "ring", "--layout", "zigzag"), (2, "--mesh", "tp=2"),
           (3, "--strategy", "ring"), (4,))


# Models that are the same for documents alone and packed, whose positions begin anew in each.
PACKED = ("llama, rope default", "qwen3_5", "qwen3_5, types", "mamba2", "mamba2, limits", "nemotron_h")


def check_f32(name, folder):
    worst = (0.0, 0.0)
    for ranks, *flags in SPREADS if name in FIRST_OF_ITS_KIND else SPREADS[-1:]:
        measured = check_same(PROGRAM, folder, random_ids(263), ranks=ranks, options=flags)
        worst = tuple(map(max, worst, measured))
    print(f"{name}, f32: logits within %.1e, gradients %.1e" % worst)


def check_packed(name, folder):
    """Documents in one sequence: each has the logits that the library gives it alone, on any ranks."""
    cuts, ids = (0, 1, 19, 21, 53), random_ids(263)
    positions = numpy.concatenate([numpy.arange(b - a) for a, b in zip(cuts, cuts[1:])])
    numpy.save(folder.parent / "positions.npy", numpy.stack([positions, positions]).astype(numpy.int32))
    with torch.no_grad(), no_narrowing():
        tokens = torch.tensor(ids, dtype=torch.long)
        right, rounded = (torch.cat([model(tokens[:, a:b], use_cache=False).logits for a, b in zip(cuts, cuts[1:])], 1)
                          for model in (load(folder), load(folder, torch.float32)))
    worst = 0.0
    for ranks, *flags in SPREADS:
        _, logits, _ = ours(PROGRAM, folder, ids, "--position-ids", folder.parent / "positions.npy", *flags, ranks=ranks)
        worst = max(worst, off(logits, right))
    own = off(rounded, right)
    print(f"{name}, packed documents: logits within {worst:.1e}, those of the library in float32 within {own:.1e}")
    assert worst <= max(bounds_of(folder)[0], TIMES * own), worst


def library(folder, dtype, ids):
    model, tokens = load(folder, dtype), torch.tensor(ids, dtype=torch.long)
    with no_narrowing():
        right = model(tokens, use_cache=False)
    logits = right.logits.double()
    torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1)).backward()
    return logits.detach(), {name: g.double() for name, g in gradients_of(model).items()}


def rms(tensors, right):
    """Of all of them together, each against its own size, so that small tensors count as large ones do."""
    parts = [((tensors[n].double() - right[n]).norm() / right[n].norm()).square() for n in right if right[n].norm() > 1e-8]
    return (sum(parts) / len(parts)).sqrt().item()


def check_bf16(name, folder):
    ids = random_ids(263)
    right, right_gradients = library(folder, torch.float64, ids)
    theirs, their_gradients = library(folder, torch.bfloat16, ids)
    _, logits, gradients = ours(PROGRAM, folder, ids, "--dtype", "bf16")
    a, b = ((x.double() - right).norm().item() / right.norm().item() for x in (logits, theirs))
    c, d = (rms(x, right_gradients) for x in (gradients, their_gradients))
    print(f"{name}, bf16: logits off by {a:.1e}, the library's by {b:.1e}; gradients {c:.1e} and {d:.1e}")
    assert a < 1.5 * b and a < (0.1 if name.startswith("qwen3_5") else 0.05), (a, b)
    assert c < 2 * d, (c, d)


def check_lengths(name, folder):
    """Each length in a model of its own: the library's keeps the frequencies of the longest sequence that it has seen until one is shorter than the
    original length. Longspan goes by the sequence alone."""
    for length in (8, 31, 32, 33, 48, 96):
        apart, worst = check_same(PROGRAM, folder, random_ids(263, length))
        print(f"{name} from 32, S {length}: logits within {apart:.1e}, gradients {worst:.1e}")
    one = load(folder)
    for length in (96, 20):
        check_same(PROGRAM, folder, random_ids(263, length), model=one)


def check_flags(name, scaling, scratch):
    model, run = scratch / "model", scratch / "run"
    write_model(model, name)
    text = scratch / "text.txt"
    text.write_text("".join(f"line {i} of a text that is long enough\n" for i in range(400)))
    longspan(PROGRAM, "train", "--model", model, "--data", text, "--seq", 40, "--steps", 2, "--ranks", 2, "--threads", 1, "--out", run,
             "--rope-scaling", scaling, "--rope-theta", 7000)
    config = transformers.AutoConfig.from_pretrained(run / "model")
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    kind, *numbers = scaling.split(":")
    assert (rope["rope_type"], rope["rope_theta"]) == (kind, 7000), rope
    assert not numbers or rope["factor"] == float(numbers[0]), rope
    measured = check_same(PROGRAM, run / "model", random_ids(263))
    print(f"{name}, --rope-scaling {scaling}: logits within %.1e, gradients %.1e" % measured)


def main():
    for name in (name for name in MODELS if WORD in name):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "model"
            write_model(folder, name)
            check_f32(name, folder)
            check_bf16(name, folder)
            if name in PACKED:
                check_packed(name, folder)
            if name in ("llama, rope dynamic", "phi3, longrope"):
                check_lengths(name, folder)
    for name in (name for name in FIRST_OF_ITS_KIND if WORD in name):
        for scaling in rope_kinds_of(name):
            with tempfile.TemporaryDirectory() as scratch:
                check_flags(name, scaling, pathlib.Path(scratch))


main()
