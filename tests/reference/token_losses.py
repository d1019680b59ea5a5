#!/usr/bin/env python3
"""Options of the loss of tokens against torch and the Hugging Face trainer.

    token_losses.py BUILD

Trains a random Llama for two steps of plain gradient descent on all records at once, by `longspan train --label-smoothing`, `--z-loss`, `--neftune` and
`--loss distil` (of the words of another random Llama, which `longspan logprobs --top` writes and the library's model has to confirm), on 1,
2 and 4 ranks and in micro-batches, and by the library's model with a loss in the words of its paper: torch's cross_entropy with label_smoothing (over the
learnt tokens), the factor of PaLM's (log Z)², Hinton's divergence at a temperature, with the words that are not given as one, and the hook of the library's trainer for NEFTune, whose draws are replaced by those of Longspan. Compares losses
(1e-6 of them, or of 1) and norms of gradients (1e-5). Made with transformers 5.24.0.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

import numpy
import torch
import transformers
from transformers.integrations.neftune import neftune_post_forward_hook

from answer_losses import LR, SPREADS, make_pairs, write_model

S, SEED, STEPS = 96, 7, 2
WORDS = 6
OPTIONS = ({"label_smoothing": 0.1}, {"z_loss": 0.01}, {"label_smoothing": 0.2, "z_loss": 1e-3}, {"neftune": 5.0}, {"neftune": 15.0, "label_smoothing": 0.1},
           {"distil_weight": 1.0, "temperature": 1.0}, {"distil_weight": 0.4, "temperature": 1.0}, {"distil_weight": 0.7, "temperature": 2.5})
M32 = 0xFFFFFFFF


def philox(seed, stream, index):
    """The first word of Philox4x32-10 of a key and a counter."""
    k, c = [seed & M32, seed >> 32], [index & M32, index >> 32, stream & M32, stream >> 32]
    for _ in range(10):
        p = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p[1] >> 32 ^ c[1] ^ k[0], p[1] & M32, p[0] >> 32 ^ c[3] ^ k[1], p[0] & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c[0]


def draws(sequence, n, width):
    """Uniform in [-1, 1): [n, width] of the first n tokens of a sequence."""
    stream = 0xCBF29CE484222325
    for letter in b"noise":
        stream = (stream ^ letter) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    keys = numpy.array([philox(SEED, stream, sequence * S + i) | 1 for i in range(n)], dtype=numpy.uint32)
    with numpy.errstate(over="ignore"):
        h = keys[:, None] ^ (numpy.arange(width, dtype=numpy.uint32) * numpy.uint32(0x9E3779B9) + numpy.uint32(0x85EBCA6B))[None, :]
        h = (h ^ h >> numpy.uint32(16)) * numpy.uint32(0x85EBCA6B)
        h = (h ^ h >> numpy.uint32(13)) * numpy.uint32(0xC2B2AE35)
        h ^= h >> numpy.uint32(16)
    return torch.from_numpy(((h >> numpy.uint32(8)).astype(numpy.int64) - (1 << 23)).astype(numpy.float64) / (1 << 23))


def logits_of(model, ids, options, sequence):
    """Of a sequence that is filled up to S tokens, as a batch of the trainer is; the mask is causal, so that what is behind them changes nothing."""
    inputs = torch.tensor([ids + [0] * (S - len(ids))])
    module = model.get_input_embeddings()
    module.neftune_noise_alpha = options["neftune"]
    handle = module.register_forward_hook(neftune_post_forward_hook)
    width = module.weight.shape[1]

    def uniform(tensor, low, high):
        assert abs(-low - high) == 0 and math.isclose(high, options["neftune"] / math.sqrt(S * width), rel_tol=1e-6)
        return (draws(sequence, S, width) * float(high)).to(tensor.dtype)[None]

    with mock.patch.object(torch.Tensor, "uniform_", uniform):
        logits = model(inputs, use_cache=False).logits[0, : len(ids)]
    handle.remove()
    return logits


def teacher_says(folder, documents, temperature):
    """Of each document, the likeliest words in the place of each of its tokens but the first, and their log-probabilities."""
    teacher = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    with torch.no_grad():
        return [(teacher(torch.tensor([ids[:-1]]), use_cache=False).logits[0] / temperature).log_softmax(-1).topk(WORDS, -1) for ids, _ in documents]


def divergence(logits, labels, words, temperature, weight):
    """The sum over labels of Hinton's loss with all other words as one, and of the labels' own."""
    q = (logits / temperature).log_softmax(-1).gather(-1, words.indices)
    p = words.values.to(q.dtype)
    others_p, others_q = 1 - p.exp().sum(-1), 1 - q.exp().sum(-1)
    far = (p.exp() * (p - q)).sum() + (others_p * (others_p.log() - others_q.log())).sum()
    return weight * temperature ** 2 * far + (1 - weight) * torch.nn.functional.cross_entropy(logits, labels, reduction="sum")


def check_words(path, documents, said):
    """What `longspan logprobs --top` has written is what the teacher says, where tokens are learnt."""
    for record, (ids, first), words in zip(sorted(map(json.loads, open(path)), key=lambda record: record["document"]), documents, said, strict=True):
        assert record["input_ids"] == ids and record["labels"] == [-100] * first + ids[first:] and not any(record["teacher_ids"][:first])
        assert record["teacher_ids"][first:] == words.indices[first - 1 :].tolist()
        assert (torch.tensor(record["teacher_logprobs"][first:]) - words.values[first - 1 :]).abs().max() < 3e-6


def by_torch(folder, documents, options, said):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    smoothing, z, found = options.get("label_smoothing", 0), options.get("z_loss", 0), []
    learnt = sum(len(ids) - learnt for ids, learnt in documents)
    for step in range(STEPS):
        model.zero_grad()
        total = 0
        for b, (ids, first) in enumerate(documents):
            if "neftune" in options:
                logits = logits_of(model, ids[:-1], options, step * len(documents) + b)
            else:
                logits = model(torch.tensor([ids[:-1]]), use_cache=False).logits[0]
            logits, labels = logits[first - 1 :], torch.tensor(ids[first:])
            if said is not None:
                words = type(said[b])([x[first - 1 :] for x in said[b]])
                loss = divergence(logits, labels, words, options["temperature"], options["distil_weight"])
                (loss / learnt).backward()
                total += loss.item()
                continue
            loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing) + z * logits.logsumexp(-1).square().sum()
            (loss / learnt).backward()
            total += loss.item()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found.append((total / learnt, torch.stack([g.norm() for g in gradients]).norm().item()))
        with torch.no_grad():
            for p in model.parameters():
                p -= LR * p.grad
    return found


def by_longspan(build, folder, scratch, batch, options, spread):
    data = ["--data", scratch / "words.jsonl", "--records", "teacher", "--loss", "distil"] if "distil_weight" in options else ["--data", scratch / "records.jsonl", "--records", "completion"]
    command = [f"{build}/longspan", "train", "--model", folder, *data, "--seq", S, "--steps", STEPS,
               "--batch", batch, "--lr", LR, "--schedule", "constant", "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--clip", 0, "--seed", SEED,
               "--save-every", 0, "--threads", 1, "--ranks-as", "threads", "--out", scratch / "run", *spread]
    for name, value in options.items():
        if name == "temperature":  # the records say it
            continue
        command += ["--" + name.replace("_", "-"), value]
    subprocess.run(["rm", "-rf", scratch / "run"], check=True)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [(line["loss"], line["grad_norm"]) for line in map(json.loads, open(scratch / "run" / "metrics.jsonl"))]


def main(build):
    failed = 0
    with tempfile.TemporaryDirectory() as where:
        scratch = pathlib.Path(where)
        folder = scratch / "model"
        tokenizer = write_model(folder)
        torch.manual_seed(9)
        transformers.LlamaForCausalLM(transformers.AutoConfig.from_pretrained(folder)).save_pretrained(scratch / "teacher")
        tokenizer.save_pretrained(scratch / "teacher")
        long = [{"prompt": pair["prompt"] * 2, "completion": pair["chosen"] + pair["rejected"]} for pair in make_pairs()]  # a sequence has room for one
        for options in OPTIONS:
            records = [long[0]] * 10 if "neftune" in options else long  # whichever order sequences are read in
            (scratch / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
            ids = lambda text: tokenizer(text, add_special_tokens=False).input_ids
            documents = [(ids(r["prompt"]) + ids(r["completion"]) + [tokenizer.eos_token_id], len(ids(r["prompt"]))) for r in records]
            assert all(S // 2 < len(document[0]) <= S for document in documents)
            said = None
            if "distil_weight" in options:
                said = teacher_says(scratch / "teacher", documents, options["temperature"])
                subprocess.run([f"{build}/longspan", "logprobs", "--model", scratch / "teacher", "--data", scratch / "records.jsonl", "--records", "completion", "--seq", str(S),
                                "--top", str(WORDS), "--temperature", str(options["temperature"]), "--out", scratch / "words.jsonl", "--mesh", "ring=2", "--threads", "1"],
                               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                check_words(scratch / "words.jsonl", documents, said)
            theirs = by_torch(folder, documents, options, said)
            for spread in SPREADS:
                ours = by_longspan(build, folder, scratch, len(records), options, spread)
                off = [max(abs(a[k] - b[k]) / max(1, abs(b[k])) for a, b in zip(ours, theirs)) for k in range(2)]
                fine = off[0] <= 1e-6 and off[1] <= 1e-5 and len(ours) == STEPS
                failed += not fine
                name = " ".join(f"{key} {value}" for key, value in options.items())
                print(f"{name:36} {' '.join(spread):32} losses {ours[0][0]:.7f} {ours[1][0]:.7f} off by {off[0]:.1e}, norms by {off[1]:.1e}"
                      f"{'' if fine else '   FAILED ' + str((ours, theirs))}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) > 0 if len(sys.argv) == 2 else __doc__)
