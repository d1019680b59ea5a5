#!/usr/bin/env python3
"""Modules of PyTorch on a GPU: exported, and their loss and gradients by Longspan on the GPU beside PyTorch's in f64.

usage: imported.py check LONGSPAN FOLDER
       imported.py wide FOLDER

check: one line for each module and type; exit code 1 where one is further off than its bound. LONGSPAN: the program; FOLDER: where the folders of
graphs are written. wide: writes the folder of a module without named ops, 2,048 wide, and times PyTorch's steps of it, plain and compiled.
"""
import os
import statistics
import subprocess
import sys

import numpy
import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
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


if __name__ == "__main__":
    what = {"check": check, "wide": wide}
    if len(sys.argv) < 3 or sys.argv[1] not in what:
        sys.exit(__doc__)
    sys.exit(what[sys.argv[1]](*sys.argv[2:]))
