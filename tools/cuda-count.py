#!/usr/bin/env python3
"""How fast kernels with products on tensor cores are, by counting the cycles of their loop in machine code.

cuda-count.py CODE [--card A100|H100|H200] [--kernel WORDS] [--warps N] [--blocks N] [--copied BYTES] [--cuobjdump TOOL]
CODE: a library or cubin, which cuobjdump disassembles (NVIDIA's toolkit, or pip's nvidia-cuda-cuobjdump), or what
`cuobjdump -sass` printed, in a file that ends with .sass. A line for each kernel whose name fits WORDS (a regular
expression): TFLOP/s of all products of the loop, its cycles, and for how many of these each unit is busy; "issue" is the
instructions that a scheduler issues. --warps: of a block on each of the four schedulers (2: blocks of 256 threads, all
of which multiply); --blocks: on a multiprocessor; --copied: bytes that other warps copy to shared memory in a turn.
tools/gpu_cycles.py has the rules, docs/lab/28-counting-kernels.md how good they are.
"""
import argparse
import re
import subprocess
import sys

from gpu_code import disassemble, hot_loop, read_kernels
from gpu_cycles import CARDS, cycles_of_turn

UNITS = ("tensor", "shared memory", "exponentials", "fills", "f32", "integers", "products of integers", "issue")


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("code")
    options.add_argument("--card", choices=sorted(CARDS), default="H200")
    options.add_argument("--kernel", default=".")
    options.add_argument("--warps", type=int, default=2)
    options.add_argument("--blocks", type=int, default=1)
    options.add_argument("--copied", type=int, default=0)
    options.add_argument("--cuobjdump", default="cuobjdump")
    given = options.parse_args()
    print(f"TFLOP/s  cycles  {' '.join(UNITS)}  kernel")
    card, counted = CARDS[given.card], 0
    for name, code in read_kernels(disassemble(given.code, given.cuobjdump)).items():
        loop = hot_loop(code)
        plain = subprocess.run(["c++filt", name], check=True, capture_output=True, text=True).stdout.strip()
        if not loop or not re.search(given.kernel, plain):
            continue
        multiplications = 4 * given.warps * given.blocks * sum(one.multiplications() for one in loop if one.is_product())
        cycles, busy = cycles_of_turn(card, loop, given.warps, given.blocks, given.copied)
        busy["issue"] = len(loop) * given.warps * given.blocks
        units = " ".join(f"{busy.get(unit, 0):{len(unit)}.0f}" for unit in UNITS)
        print(f"{card.tflops(multiplications, cycles):7.0f} {cycles:7.0f}  {units}  {plain[:90]}")
        counted += 1
    print(f"{counted} kernels counted on {card.name}")
    sys.exit(0 if counted else 1)


main()
