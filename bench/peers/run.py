#!/usr/bin/env python3
"""
make bench-peers: the same work by Longspan and by its peers, side by side.

    run.py BUILD        environment: WORD=text  only cases with that in their name (they are listed first)
                                     SIZE=small|full|long  small: to see that it works; long: attention at S 32,768 too
                                     ROUNDS=n   of each case, 5 when left out;  THREADS=n   2 when left out
                                     PEERS=torch  only peers with that in their name
                                     ISA=avx2|avx512  everybody keeps to these instructions (CAPS), and the table says so
                                     PYTHON=path  an interpreter that has the peers; nothing is installed

Of each case all that take part are started, warm up, and then answer in turn, one alone at work at a time, round after round: so all of
them see the same machine. Of each: the median of its seconds, their spread ((largest - smallest) / median), the median over the rounds of its
seconds over those of Longspan in the same round, and the most memory it took beyond what it held before the work was there. Results that
differ from Longspan's are reported and make the exit status 1. A peer that cannot be had, or fails, is named with the reason.
"""
import json
import os
import statistics
import subprocess
import sys
import threading

sys.dont_write_bytecode = True  # nothing is left in the sources

import environment

HERE = os.path.dirname(os.path.abspath(__file__))
THREADS = int(os.environ.get("THREADS") or 2)
ROUNDS = int(os.environ.get("ROUNDS") or 5)
LLAMA = {"L": 12, "E": 768, "Hq": 12, "Hkv": 4, "F": 2048, "V": 32000}
GPT2 = {"L": 12, "E": 768, "Hq": 12, "Hkv": 12, "F": 3072, "V": 50257}
ISA = os.environ.get("ISA") or ""
OURS = "longspan"
LIMIT = 1200  # seconds for one answer, or to be ready: torch.compile takes minutes

# Memory that stays with the process once it has it (fresh memory is slow), and huge pages. The cores are set in child().
SETTINGS = {
    "OMP_NUM_THREADS": str(THREADS), "MKL_NUM_THREADS": str(THREADS), "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no further processes to load PyTorch again
    "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 60), "MALLOC_TOP_PAD_": str(64 << 20), "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "THP_MEM_ALLOC_ENABLE": "1",
}

# What holds Longspan (LONGSPAN_ISA), its oneDNN and the peers' libraries to an instruction set. PyTorch's compiler and JAX's are asked too.
CAPS = {
    "": {},
    "avx2": {"LONGSPAN_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
             "ATEN_CPU_CAPABILITY": "avx2", "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"},
    "avx512": {"LONGSPAN_ISA": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "DNNL_MAX_CPU_ISA": "AVX512_CORE",
               "MKL_ENABLE_INSTRUCTIONS": "AVX512", "ATEN_CPU_CAPABILITY": "avx512", "TORCHINDUCTOR_CPP_MARCH": "x86-64-v4",
               "XLA_FLAGS": "--xla_cpu_max_isa=AVX512"},
}


# --- what is compared -----------------------------------------------------------------------------------------------------------


def attention_case(dtype, seq, head_size, backward):
    name = f"attention-{dtype}-D{head_size}-S{seq}-{'both' if backward else 'forward'}"
    work = {"dtype": dtype, "seq": seq, "heads": 16, "kv_heads": 4, "head_size": head_size, "backward": backward}
    pairs = seq * (seq + 1) / 2 * 16
    return {"name": name, "kind": "attention", "work": work, "per": pairs * head_size * (14 if backward else 4) / 1e9, "unit": "GFLOP/s"}


LAYERS = {"gdn": {"K": 16, "H": 32, "D": 128, "E": 128}, "ssd": {"K": 1, "H": 80, "D": 128, "E": 64}}  # recurrence_calls.c


def recurrence_case(layer, seq, backward):
    name = f"recurrence-{layer}-S{seq}-{'both' if backward else 'forward'}"
    work = {"layer": layer, "seq": seq, "backward": backward, **LAYERS[layer]}
    return {"name": name, "kind": "recurrence", "work": work, "per": seq, "unit": "tokens/s"}


NUMBERS = {"gru": 3, "lstm": 5}  # of each element of a diagonal cell; both have three gates


def cells_case(cell, elements, seq, backward):
    name = f"cells-{cell}-E{elements}-S{seq}-{'both' if backward else 'forward'}"
    work = {"cell": cell, "seq": seq, "elements": elements, "numbers": NUMBERS[cell], "backward": backward}
    return {"name": name, "kind": "cells", "work": work, "per": seq, "unit": "tokens/s"}


def step_case(model, sizes, dtype, batch, seq, budget=None):
    """budget: MiB in which Longspan does it too, by making results of the forward pass again."""
    work = {"model": model, "dtype": dtype, "B": batch, "S": seq, **sizes}
    return {"name": f"step-{model}-{dtype}-B{batch}-S{seq}", "kind": "step", "work": work, "per": batch * seq, "unit": "tokens/s", "budget": budget}


def all_cases(size):
    if size == "small":
        little = {**LLAMA, "L": 2, "V": 4000}
        return [attention_case("bf16", 1024, 64, back) for back in (False, True)] + [
            attention_case("f32", 1024, 64, True), recurrence_case("gdn", 256, True), recurrence_case("ssd", 256, True),
            cells_case("gru", 16, 512, True), cells_case("lstm", 16, 512, True), step_case("llama", little, "bf16", 1, 512, 345),
            step_case("gpt2", {**GPT2, "L": 2, "V": 4000}, "f32", 4, 64)]
    lengths = (4096, 8192, 16384) + ((32768,) if size == "long" else ())
    cases = [attention_case("bf16", seq, D, back) for D in (128, 64) for seq in lengths for back in (False, True)]
    cases += [attention_case("f32", 4096, D, back) for D in (128, 64) for back in (False, True)]
    cases += [recurrence_case(layer, 2048, back) for layer in LAYERS for back in (False, True)]
    cases += [cells_case(cell, elements, 16384, back) for cell in NUMBERS for elements in (256, 16) for back in (False, True)]
    cases += [step_case("llama", LLAMA, "bf16", 1, seq, budget) for seq, budget in ((2048, 2300), (8192, 2700))]
    return cases + [step_case("gpt2", GPT2, "f32", 4, 64), step_case("gpt2", GPT2, "f32", 1, 1024)]


def own(build, case, *isa, memory=0):
    w, program = case["work"], os.path.join(build, "bench", "peers", case["kind"])
    if case["kind"] == "attention":
        order = [w[k] for k in ("dtype", "seq", "heads", "kv_heads", "head_size")] + [THREADS, int(w["backward"])]
    elif case["kind"] == "recurrence":
        order = [w["layer"], w["seq"], THREADS, int(w["backward"])]
    elif case["kind"] == "cells":
        order = [w["cell"], w["seq"], w["elements"], THREADS, int(w["backward"])]
    else:
        order = [w[k] for k in ("model", "dtype", "B", "S", "L", "E", "Hq", "Hkv", "F", "V")] + [THREADS, memory]
    return [program, *map(str, order), *isa]


def available_bytes():
    with open("/proc/meminfo") as lines:
        return next(int(l.split()[1]) * 1024 for l in lines if l.startswith("MemAvailable"))


def too_much_for_jax(w):
    """dot_product_attention makes the S x S logits of all heads, in f32, some three times at once; with gradients three times as much."""
    needs = (9 if w["backward"] else 3) * 4 * w["heads"] * w["seq"] ** 2
    return f"holds S x S logits of all heads: about {needs / 1e9:.0f} GB" if needs > 0.8 * available_bytes() else None


def contestants(build, python, case, left_out):
    """Rows of (name, command, why not); Longspan first, to which the others are compared."""
    w = {**case["work"], "threads": THREADS}

    def script(name, **more):
        return [python, os.path.join(HERE, name), json.dumps({**w, **more})]

    isa = [ISA] if ISA else []
    rows = [(OURS, own(build, case, *isa), None)]
    if case["kind"] == "attention":
        rows += [(f"torch {v}", script("torch_attention.py", variant=v), left_out.get("torch")) for v in ("gqa", "expanded")]
        rows.append(("jax", script("jax_attention.py"), left_out.get("jax") or too_much_for_jax(w)))
        if w["dtype"] == "f32":
            rows.append(("plain C (ref)", own(build, case, "ref"), None))
    elif case["kind"] == "recurrence":
        rows.append(("torch", script("torch_recurrence.py"), left_out.get("torch") or left_out.get("transformers")))
    elif case["kind"] == "cells":
        rows += [(f"torch {v}", script("torch_cells.py", variant=v), left_out.get("torch")) for v in ("loop", "scripted")]
        rows.append(("plain C (ref)", own(build, case, "ref"), None))
    else:
        if case["budget"]:
            rows.append((f"{OURS}, {case['budget']} MiB", own(build, case, *isa, memory=case["budget"]), None))
        rows += [(f"torch {v}", script("torch_step.py", variant=v), left_out.get("torch")) for v in ("eager", "compiled")]
        if w["dtype"] == "f32":
            rows.append(("plain C (ref)", own(build, case, "ref"), None))
    return [row for row in rows if row[0].startswith(OURS) or (os.environ.get("PEERS") or "") in row[0]]


# --- one that takes part ----------------------------------------------------------------------------------------------------------


def child():
    """Everybody has the same cores. When memory runs out, it is this process that is killed, not run.py or the user's."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


class Contestant:
    def __init__(self, name, command, reason):
        self.name, self.command, self.reason, self.process = name, command, reason, None
        self.ready, self.seconds = {}, []

    def start(self, log, cache):
        if self.reason:
            return
        environ = {**os.environ, **SETTINGS, **CAPS[ISA], "TORCHINDUCTOR_CACHE_DIR": cache}
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                        env=environ, preexec_fn=child)
        self.ready = self.listen()

    def listen(self):
        late = threading.Timer(LIMIT, self.process.kill)
        late.start()
        try:
            for line in self.process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            in_time = late.is_alive()
            late.cancel()
        status = self.process.wait()
        self.process = None
        self.reason = f"killed (signal {-status}; out of memory?)" if status < 0 else f"failed, exit status {status}"
        if not in_time:
            self.reason = f"no answer in {LIMIT} s"
        return {}

    def go(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # listen says why
        seconds = self.listen().get("seconds")
        if seconds:
            self.seconds.append(seconds)

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def differences(mine, theirs):
    """The largest relative difference of the numbers that describe the results."""
    if not mine or len(mine) != len(theirs):
        return float("nan")
    return max(abs(a - b) / abs(a) for a, b in zip(mine, theirs))


# --- a case -----------------------------------------------------------------------------------------------------------------------


def array_bytes(case):
    """Inputs and outputs of attention, recurrences and cells; they are not counted as what it takes."""
    if case["kind"] == "step":
        return 0
    w = case["work"]
    if case["kind"] == "recurrence":
        gates = w["H"] * (2 if w["layer"] == "gdn" else 1)
        row = 2 * w["K"] * w["D"] + w["H"] * w["E"] + gates  # of a token
        return 4 * w["seq"] * (row + w["H"] * w["E"] + (row if w["backward"] else 0))
    if case["kind"] == "cells":
        return 4 * w["seq"] * 4 * w["elements"] * (2 if w["backward"] else 1)  # three gates and y, and their gradients
    element = 2 if w["dtype"] == "bf16" else 4
    q, kv = (w["seq"] * w[h] * w["head_size"] * element for h in ("heads", "kv_heads"))
    return 4 * q + 4 * kv if w["backward"] else 2 * q + 2 * kv


def run_case(rows, log, cache):
    for c in rows:
        c.start(log, cache)
    for _ in range(ROUNDS):
        for c in rows:
            if not c.reason:
                c.go()
    for c in rows:
        c.end()


def summary(case, c, base):
    row = {"case": case["name"], "who": c.name, "threads": THREADS, "isa": ISA or "machine", **case["work"]}
    if c.reason:
        return {**row, "left_out": c.reason}
    seconds = statistics.median(c.seconds)
    row.update(seconds=seconds, spread=(max(c.seconds) - min(c.seconds)) / seconds, rounds=len(c.seconds),
               rate=case["per"] / seconds, unit=case["unit"], resident=c.ready["resident"],
               memory=c.ready["peak"] - c.ready["resident"] - array_bytes(case), check=c.ready["check"])
    if base is not None and not base.reason:
        row["times_longspan"] = statistics.median(b / a for a, b in zip(base.seconds, c.seconds))
        row["difference"] = differences(base.ready["check"], c.ready["check"])
    return row


# Means over all elements: of attention in bf16 they differ by rounding alone; the weights of a step are drawn differently.
TOLERANCE = {"attention": 0.01, "step": 0.05, "recurrence": 1e-4, "cells": 1e-4}


def show(case, rows):
    print(f"\n{case['name']}" + (f", everybody held to {ISA}" if ISA else ""))
    print(f"  {'':<18}{'seconds':>11}{'spread':>9}{'rate':>11} {'':<9}{'x time':>8}{'memory':>12}{'differs':>10}")
    wrong = 0
    for r in rows:
        if "left_out" in r:
            print(f"  {r['who']:<18}left out: {r['left_out']}")
            continue
        bad = not r.get("difference", 0) <= TOLERANCE[case["kind"]]
        wrong += bad
        print(f"  {r['who']:<18}{r['seconds']:>11.4f}{r['spread']:>9.0%}{r['rate']:>11.1f} {r['unit']:<9}"
              f"{r.get('times_longspan', 1):>8.2f}{r['memory'] / 2**20:>8.0f} MiB{r.get('difference', 0):>10.1e}"
              + ("  NOT THE SAME RESULT" if bad else ""))
    sys.stdout.flush()
    return wrong


def main():
    build, size, word = sys.argv[1], os.environ.get("SIZE") or "full", os.environ.get("WORD") or ""
    every = all_cases(size) if size in ("small", "full", "long") else sys.exit(f"SIZE={size}; expected small, full or long")
    cases = [c for c in every if word in c["name"]]
    if not cases:
        sys.exit(f"WORD={word}; expected part of one of " + " ".join(c["name"] for c in every))
    if ISA not in CAPS:
        sys.exit(f"ISA={ISA}; expected " + " or ".join(filter(None, CAPS)))
    venv = os.path.abspath(os.path.join(build, "peers-venv"))
    python, left_out = environment.given(os.environ["PYTHON"]) if os.environ.get("PYTHON") else environment.prepare(venv)
    for peer, reason in left_out.items():
        print(f"{peer}: left out: {reason}")
    print("cases: " + " ".join(c["name"] for c in cases))
    wrong, folder = 0, os.path.join(build, "bench")
    with open(os.path.join(folder, "peers.jsonl"), "w") as out, open(os.path.join(folder, "peers.log"), "w") as log:
        for case in cases:
            rows = [Contestant(*row) for row in contestants(build, python, case, left_out)]
            run_case(rows, log, os.path.join(folder, "compiled", ISA))
            results = [summary(case, c, rows[0] if i else None) for i, c in enumerate(rows)]
            out.writelines(json.dumps(r) + "\n" for r in results)
            out.flush()
            wrong += show(case, results)
    print(f"\nx time: over Longspan's in the same round · memory: beyond what was there before the work (attention: and its arrays)\n"
          f"kept in {folder}/peers.jsonl, what the peers said in {folder}/peers.log")
    sys.exit(1 if wrong else 0)


main()
