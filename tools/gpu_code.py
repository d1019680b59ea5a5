"""Machine code of NVIDIA GPUs (compute capability 8.0 and 9.0), as cuobjdump -sass prints it, and the path that its
loops take.

An instruction has 128 bits. Bits 105 to 121 say when the next one may be issued: 4 bits for how many cycles later, 1
that is not used here, 3 for the barrier that clears when the result is there, 3 for the one that clears when the
operands have been read, 6 for the barriers that it waits for itself (Jia et al., arXiv 1804.06826, section 2).
"""
import functools
import re
import shutil
import subprocess
import sys

INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/")
UPPER_HALF = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
PRODUCT = re.compile(r"\.?(\d+)x(\d+)x(\d+)")
COPIES = ("LDGSTS", "UTMALDG")  # from global to shared memory, asynchronous
NONE = 7  # of the three bits that name a barrier


class Instruction:
    """One instruction; name is the first word of op, guard the predicate that it has, without a sign."""

    def __init__(self, at, guard, op, operands):
        self.at, self.guard, self.op, self.operands = at, guard, op, operands
        self.name = op.split(".")[0]
        self.stall, self.writes, self.reads, self.waits = 1, NONE, NONE, 0
        target = re.search(r"\b0x([0-9a-f]+)\s*$", operands) if self.name in ("BRA", "BSSY") else None
        self.target = int(target.group(1), 16) if target else None

    def control(self, upper):
        bits = upper >> 41
        self.stall, self.writes, self.reads, self.waits = bits & 15, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63

    def is_product(self):
        return self.name in ("HMMA", "HGMMA")

    @functools.cache
    def shape(self):
        """m, n, k of a product: HMMA.16816 or HGMMA.64x128x16."""
        if self.name == "HMMA":
            return 16, 8, int(self.op.split(".")[1][3:])
        return tuple(int(n) for n in PRODUCT.search(self.op).groups())

    @functools.cache
    def multiplications(self):
        """Of one warp; a warp group shares its products among four."""
        m, n, k = self.shape()
        return m * n * k // (4 if self.name == "HGMMA" else 1)

    @functools.cache
    def registers(self):
        """(the first of those that a product of one warp writes, the first of each that it reads)"""
        found = [int(n) for n in re.findall(r"\bR(\d+)", self.operands)]
        return (found[0], found[1:]) if found else (None, [])

    def bytes(self):
        """What each thread moves between registers and a memory."""
        if self.name == "LDSM":
            return 4 * int(self.op.rsplit(".", 1)[1])
        width = re.search(r"\.(64|128|U8|S8|U16|S16|8|16)\b", self.op)
        return {None: 4, "64": 8, "128": 16, "U8": 1, "S8": 1, "8": 1}.get(width and width.group(1), 2)


def read_kernels(lines):
    """name: list of Instruction, of each kernel that cuobjdump -sass printed."""
    kernels, code = {}, None
    for line in lines:
        if m := re.match(r"\s*Function : (\S+)", line):
            code = kernels.setdefault(m.group(1), [])
        elif code is None:
            continue
        elif m := INSTRUCTION.match(line):
            code.append(Instruction(int(m.group(1), 16), (m.group(2) or "").lstrip("!"), m.group(3), m.group(4)))
        elif (m := UPPER_HALF.match(line)) and code:
            code[-1].control(int(m.group(1), 16))
    return kernels


def disassemble(path, tool="cuobjdump", options=()):
    """The lines that the tool prints of a library or cubin; a file that ends with .sass has them already."""
    if str(path).endswith(".sass"):
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    command = [shutil.which(tool) or sys.exit(f"there is no {tool}: NVIDIA's toolkit has it, and pip's nvidia-cuda-cuobjdump"), "-sass", *options, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{tool} -sass {path}: {done.stderr.strip()[-200:]}")
    return done.stdout.splitlines()


def _next_of(code, places, i):
    """The instructions that may follow i. BSYNC goes to where the last BSSY of its barrier says."""
    one = code[i]
    if one.name == "EXIT" and not one.guard:
        return []
    if one.name == "BSYNC":
        barrier = one.operands.split()[0]
        for other in reversed(code[:i]):
            if other.name == "BSSY" and other.operands.startswith(barrier + ","):
                return [places[other.target]]
        return [i + 1]
    if one.name != "BRA" or one.target not in places:
        return [i + 1]
    always = not one.guard and "," not in one.operands and not re.match(r"!?U?P\d", one.operands)
    return [places[one.target]] if always else [i + 1, places[one.target]]


def _worth(one):
    """What a path is chosen for, by the least sum: products, no quotients (a soft cap), copies, exponentials, shortness."""
    return (-one.is_product(), one.op.startswith("MUFU.RCP"), -(one.name in COPIES), -one.op.startswith("MUFU.EX2"), 1)


def _path(code, first, last):
    """The way from first to last that goes forward only and has the least sum of _worth."""
    places = {one.at: i for i, one in enumerate(code)}
    best = {last: (_worth(code[last]), None)}  # sum, next
    for i in range(last - 1, first - 1, -1):
        ways = [(best[n][0], n) for n in _next_of(code, places, i) if i < n <= last and n in best]
        if ways:
            least, after = min(ways)
            best[i] = (tuple(map(sum, zip(least, _worth(code[i])))), after)
    way, i = [], first if first in best else None
    while i is not None:
        way.append(code[i])
        i = best[i][1]
    return way


def hot_loop(code, chosen=None):
    """
    The path once round the loop in which the kernel spends its time: of the loops that have products and no loop with
    products inside, the one with most, then the one with fewest instructions. chosen: the first of all loops that have
    products in their order is 0, instead of that.
    """
    places = {one.at: i for i, one in enumerate(code)}
    backs = [(places[one.target], i) for i, one in enumerate(code)
             if one.name == "BRA" and one.target in places and places[one.target] < i]
    ways = {back: _path(code, *back) for back in backs}
    with_products = [b for b in backs if any(one.is_product() for one in ways[b])]
    inner = [b for b in with_products if not any(c != b and b[0] <= c[0] and c[1] <= b[1] for c in with_products)]
    if not inner:
        return []
    if chosen is not None:
        return ways[sorted(inner)[chosen]]
    return min((ways[b] for b in inner), key=lambda way: (-sum(one.multiplications() for one in way if one.is_product()), len(way)))
