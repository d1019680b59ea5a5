#!/usr/bin/env python3
"""What nvcc made of the kernels for CUDA: registers, memory and instructions of each, and whether that is what they need.

cuda-code.py CUDA.SO [CUOBJDUMP]: a line for each kernel and GPU; then each violation of RULES, of which the first that
fits a kernel's name counts. Before them a line for each GPU, also for those that lack kernels. The last line says how
many violations there are; with any, or where a rule fits no kernel, it fails.
CUOBJDUMP: NVIDIA's tool (the toolkit, or pip's nvidia-cuda-cuobjdump); the one in PATH when left out.
"""
import re
import subprocess
import sys

TENSOR = ("HMMA", "LDSM", "LDGSTS")  # products, matrices and asynchronous copies of tensor cores
GROUPS = ("HGMMA", "LDGSTS")  # products of warp groups, of which compute capability 9.0 alone has any
PRODUCTS = ("HMMA", "HGMMA")
LOCAL = ("LDL", "STL")  # what a thread has beyond its registers
ATTENTION = r"(attend|grad_of_queries|grad_of_keys)"
# Name of a kernel: instructions that it must have; bytes of stack that it may have; local accesses in a loop for each
# product of tensor cores there.
RULES = [
    (r"attend_by_groups<(64|128)>", GROUPS, 0, 0),
    (rf"{ATTENTION}<(64|128)>", TENSOR, 0, 0),
    (rf"{ATTENTION}<(64|128), false>", GROUPS, 0, 0),
    (rf"{ATTENTION}<(64|128), true>", GROUPS, 8, 0),  # a soft cap; what is needed after the loop alone may lie there
    (rf"{ATTENTION}<256>", TENSOR, 1024, 3),  # the sums of such heads alone are 255 registers
    (r"multiply<true,.*product<__nv_bfloat16>", TENSOR, 16, 0.25),
    (r"multiply<false,.*product<__nv_bfloat16>", ("HMMA", "LDSM"), 32, 1),  # of operands that lie anywhere
    (r".", (), 64, 0),
]
REGISTERS, WARPS, THREADS = 65536, {"sm_80": 64, "sm_90a": 64, "sm_100": 64}, 256


class Kernel:
    def __init__(self, gpu, name):
        self.gpu, self.name = gpu, name
        self.registers = self.stack = self.shared = 0
        self.code = []  # (address, instruction, target of a branch)

    def count(self, names, first=0, last=1 << 62):
        return sum(1 for at, word, _ in self.code if first <= at <= last and word in names)

    def loops(self):
        return [(to, at) for at, _, to in self.code if to is not None and to < at]

    def local_in_loops(self):
        """The most local accesses for each product of tensor cores, of the loops that have any product."""
        most = 0.0
        for first, last in self.loops():
            products = self.count(PRODUCTS, first, last)
            if products > 0:
                most = max(most, self.count(LOCAL, first, last) / products)
        return most

    def blocks(self):
        """Blocks of 256 threads that registers leave room for on a multiprocessor."""
        of_warp = (self.registers * 32 + 255) // 256 * 256
        return min(REGISTERS // max(of_warp, 1), WARPS.get(self.gpu, 48)) * 32 // THREADS


def run(tool, option, path):
    return subprocess.run([tool, option, path], check=True, capture_output=True, text=True).stdout


def read_usage(text, kernels):
    gpu = name = None
    for line in text.splitlines():
        if m := re.match(r"arch = (sm_\w+)", line):
            gpu = m.group(1)
        elif m := re.match(r"\s*Function (\S+):$", line):
            name = m.group(1)
        elif (m := re.match(r"\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", line)) and name:
            kernel = kernels.setdefault((gpu, name), Kernel(gpu, name))
            kernel.registers, kernel.stack, kernel.shared = (int(n) for n in m.groups())


def read_code(text, kernels):
    gpu = kernel = None
    instruction = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)(\S*)\s*(.*?)\s*;")
    for line in text.splitlines():
        if m := re.match(r"arch = (sm_\w+)", line):
            gpu = m.group(1)
        elif m := re.match(r"\s*Function : (\S+)", line):
            kernel = kernels.setdefault((gpu, m.group(1)), Kernel(gpu, m.group(1)))
        elif kernel is not None and (m := instruction.match(line)):
            at, word, rest = int(m.group(1), 16), m.group(2), m.group(4)
            target = re.search(r"0x([0-9a-f]+)", rest) if word == "BRA" else None
            kernel.code.append((at, word, int(target.group(1), 16) if target else None))


def demangle(kernels):
    names = "\n".join(k.name for k in kernels)
    plain = subprocess.run(["c++filt"], input=names, check=True, capture_output=True, text=True).stdout.splitlines()
    for kernel, name in zip(kernels, plain):
        kernel.name = re.sub(r"^void ", "", name)


def violations(kernel, rule):
    _, needed, stack, local = rule
    for word in needed if needed != GROUPS or kernel.gpu.startswith("sm_90") else ():
        if kernel.count((word,)) == 0:
            yield f"no {word}"
    if kernel.stack > stack:
        yield f"{kernel.stack} bytes of stack; at most {stack}"
    if kernel.local_in_loops() > local:
        yield f"{kernel.local_in_loops():.2f} local accesses for each product in a loop; at most {local}"


def summary(gpu, kernels):
    own = [k for k in kernels if k.gpu == gpu]
    if not own:
        return f"{gpu}: no kernels: nvcc does not know it, or it was left out"
    stacks = [k for k in own if k.stack > 0]
    return (f"{gpu}: {len(own)} kernels, {sum(k.count(PRODUCTS) > 0 for k in own)} with products of tensor cores, "
            f"{len(stacks)} with a stack, of at most {max((k.stack for k in stacks), default=0)} bytes")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    tool = sys.argv[2] if len(sys.argv) > 2 else "cuobjdump"
    kernels, wrong, unused = {}, [], set(range(len(RULES) - 1))
    read_usage(run(tool, "-res-usage", sys.argv[1]), kernels)
    read_code(run(tool, "-sass", sys.argv[1]), kernels)
    found = sorted(kernels.values(), key=lambda k: (k.gpu, k.name))
    demangle(found)
    print("gpu     registers  stack  shared  blocks  products  matrices  copies  local  code  kernel")
    for k in found:
        number = next(i for i, rule in enumerate(RULES) if re.match(rule[0], k.name))
        unused.discard(number)
        numbers = [k.count(PRODUCTS), k.count(("LDSM",)), k.count(("LDGSTS",))] + [k.count(LOCAL), len(k.code)]
        print(f"{k.gpu:7} {k.registers:9} {k.stack:6} {k.shared:7} {k.blocks():7} "
              + " ".join(f"{n:{w}}" for n, w in zip(numbers, (9, 9, 7, 6, 5))) + f"  {k.name[:100]}")
        wrong += [f"{k.gpu} {k.name[:60]}: {text}" for text in violations(k, RULES[number])]
    wrong += [f"no kernel is called {RULES[i][0]}" for i in sorted(unused)]
    for text in [summary(gpu, found) for gpu in sorted({*WARPS, *(k.gpu for k in found)})] + wrong:
        print(text)
    print(f"{len(found)} kernels, {len(wrong)} violations")
    sys.exit(1 if wrong or not found else 0)


main()
