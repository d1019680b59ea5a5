#!/usr/bin/env python3
"""Modules of PyTorch, exported, beside PyTorch itself.

usage: imported.py check LONGSPAN FOLDER
       imported.py wide FOLDER
       imported.py step LONGSPAN FOLDER [WIDTH [SEQ [ROUNDS]]]

LONGSPAN: the program; FOLDER: where the folders of graphs are written.
check, on a GPU: loss and gradients by Longspan beside PyTorch's in f64, a line for each module and type; exit code 1 where one is further off than its
bound. wide, on a GPU: writes the folder of a module without named ops, 2,048 wide, and times PyTorch's steps of it, plain and compiled. step, on the
processor: the same module, 512 wide, 2,048 tokens, in f32 on two threads; rounds of PyTorch's steps and Longspan's in turn, and medians.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import numpy
import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import longspan.torch  # noqa: E402
from longspan.folder import read_safetensors  # noqa: E402

VOCABULARY, LENGTH = 256, 192
SIZES = dict(vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=512,
             max_position_embeddings=512, sliding_window=64)
BOUNDS = {"f32": (1e-5, 1e-4), "bf16": (2e-2, 1e-1)}  # of the loss, and of a gradient beside the norm of its parameter's


class Gated(torch.nn.Module):
    """Layers whose parts no named op takes: shifted tokens, gates of two kinds, a norm without weights."""

    def __init__(self, width=256, layers=2):
        super().__init__()
        self.table = torch.nn.Embedding(VOCABULARY, width)
        self.mixed = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))
        self.gates = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))
        self.share = torch.nn.Parameter(torch.rand(width))
        self.head = torch.nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, input_ids, labels):
        x = self.table(input_ids)
        for mixed, gate in zip(self.mixed, self.gates):
            before = torch.nn.functional.pad(x, (0, 0, 1, -1))
            y = x * self.share + before * (1 - self.share)
            y = (y - y.mean(-1, keepdim=True)) / (1e-3 + y.pow(2).mean(-1, keepdim=True).sqrt())
            x = x + torch.sigmoid(gate(y)) * torch.exp(-torch.relu(mixed(y)) ** 2)
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def modules():
    torch.manual_seed(0)
    yield "gated", Gated()
    yield "llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    yield "gemma2", transformers.Gemma2ForCausalLM(transformers.Gemma2Config(head_dim=64, **SIZES))


def off(program, folder, dtype, batch, loss, gradients):
    """How far the loss and the worst gradient are off, and its parameter; or the program's last line."""
    out = os.path.join(folder, "gradients.safetensors")
    command = [program, "grad", "--model", folder, "--dtype", dtype, "--device", "cuda", "--ranks", "1", "--out", out]
    for name, option in (("input_ids", "--tokens"), ("labels", "--labels")):
        path = os.path.join(folder, f"{name}.npy")
        numpy.save(path, batch[name].numpy().astype("i4"))
        command += [option, path]
    run = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in run.stdout.splitlines() if line.startswith("loss ")]
    if run.returncode != 0 or not lines:
        return None, None, (run.stderr.strip().splitlines() or ["no loss in its output"])[-1]
    theirs = read_safetensors(out)
    norms = {name: numpy.linalg.norm(theirs[name] - g) / max(numpy.linalg.norm(g), 1e-12) for name, g in gradients.items() if name in theirs}
    if len(norms) < len(gradients):
        return None, None, f"{len(gradients) - len(norms)} gradients are missing"
    worst = max(norms, key=norms.get)
    return abs(float(lines[0].split()[1]) - loss) / abs(loss), norms[worst], worst


def check(program, top):
    failed = False
    ids = torch.randint(3, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "labels": ids.clone()}
    for name, module in modules():
        folder = os.path.join(top, name)
        nodes = len(longspan.torch.export(module, batch, folder).graph.nodes)
        module.double().cuda().zero_grad()
        result = module(**{key: x.cuda() for key, x in batch.items()})
        loss = result if isinstance(result, torch.Tensor) else result.loss
        loss.backward()
        gradients = {key: p.grad.cpu().numpy() for key, p in module.named_parameters()}
        for dtype, (of_loss, of_gradient) in BOUNDS.items():
            a, b, worst = off(program, folder, dtype, batch, loss.item(), gradients)
            good = a is not None and a <= of_loss and b <= of_gradient
            failed |= not good
            numbers = worst if a is None else f"loss within {a:.1e}, gradients of {len(gradients)} parameters within {b:.1e} ({worst})"
            print(f"{name:<8} {dtype:<5} {nodes:>4} nodes  {numbers}{'' if good else '  WRONG'}", flush=True)
    return failed


def wide(folder, seq=8192):
    torch.manual_seed(0)
    ids = torch.randint(VOCABULARY, (2, 64))
    longspan.torch.export(Gated(2048), {"input_ids": ids, "labels": ids.clone()}, folder)
    module = Gated(2048).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(VOCABULARY, (1, seq), device="cuda")
    for name, run in (("plain", module), ("compiled", torch.compile(module))):
        times = []
        torch.cuda.reset_peak_memory_stats()
        for _ in range(8):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run(ids, ids).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        print(f"torch {name:<8} S {seq}: {statistics.median(times[3:]):.3f} ms a step, {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB", flush=True)
    return False


def step(program, top, width=512, seq=2048, rounds=7):
    width, seq = int(width), int(seq)
    torch.set_num_threads(2)
    torch.manual_seed(0)
    ids, folder = torch.randint(VOCABULARY, (2, 64)), os.path.join(top, f"gated-{width}")
    longspan.torch.export(Gated(width), {"input_ids": ids, "labels": ids.clone()}, folder)
    module = Gated(width)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(VOCABULARY, (1, seq))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def seconds(run):
        begin = time.perf_counter()
        run(ids, ids).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - begin

    runs = {"plain": module, "compiled": torch.compile(module)}
    for run in runs.values():
        seconds(run), seconds(run)
    command = [program, "bench", "step", "--dtype", "f32", "--config", folder, "--seq", str(seq), "--rounds", "3", "--threads", "2", "--ranks", "1", "--json"]
    ratios = {name: [] for name in runs}
    for _ in range(int(rounds)):
        theirs = {name: statistics.median(seconds(run) for _ in range(3)) for name, run in runs.items()}
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for name, time_of in theirs.items():
            ratios[name].append(result["seconds"] / time_of)
        print(f"longspan {1e3 * result['seconds']:.1f} ms" + "".join(f", {name} {1e3 * t:.1f}" for name, t in theirs.items()), flush=True)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"torch {torch.__version__}, {width} wide, S {seq}, medians of {rounds}: longspan over plain {statistics.median(ratios['plain']):.2f}, "
          f"over compiled {statistics.median(ratios['compiled']):.2f}; memory: longspan {result['mapped_bytes'] / 2**20:.1f} MiB mapped, "
          f"PyTorch {grown:.1f} MiB more than before its first step")
    return False


if __name__ == "__main__":
    what = {"check": check, "wide": wide, "step": step}
    if len(sys.argv) < 3 or sys.argv[1] not in what:
        sys.exit(__doc__)
    sys.exit(what[sys.argv[1]](*sys.argv[2:]))
