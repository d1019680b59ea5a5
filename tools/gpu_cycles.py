"""
How many cycles a loop takes on a multiprocessor of an A100, H100 or H200: its instructions (gpu_code.py) are issued one
by one, in the order of the machine code, as the rules of the machine allow. Nothing is executed.

A multiprocessor has four schedulers. Each has warps of its own, tensor cores and units for arithmetic; shared memory
and the way to it are common. All four do the same here, so one is counted, with a quarter of what is common. In each
cycle it issues one instruction of one of its warps
 - whose last instruction allows it (stall), and whose results and operands are there (barriers),
 - whose unit, or the queue before it, takes another one.
Data are always there in time but for asynchronous copies, which take as long as the L2 cache does.

Rates are NVIDIA's, of the CUDA C++ Programming Guide (Arithmetic Instructions: results in each cycle of a
multiprocessor) and of the white papers of A100 and H100 (products); latencies, and HMMA on 9.0, those of Luo et al.,
arXiv 2402.13499 and 2501.12084. Three rules have no document; docs/lab/28-counting-kernels.md says what they rest on:
 - a warp goes on as long as it may, within its turn;
 - a product whose first operand is in registers is issued when at most one product waits before it;
 - where a warp's products go over to other sums, tensor cores lose a cycle for each column of these.
"""
import re

QUEUE = 8  # instructions that wait before shared memory, the exponentials and the way from L2
SHARED_BYTES, FILL_BYTES = 128, 64  # of a multiprocessor in each cycle: shared memory; what L2 sends
COLUMN = 1  # cycles that a change of sums costs, for each column
F32 = "FADD FMUL FFMA HFMA2 HADD2 HMUL2"
INTEGERS = ("IADD3 LOP3 ISETP FSETP FMNMX SEL FSEL SHF LEA PRMT MOV VIADD VIMNMX PLOP3 F2FP IABS FCHK P2R R2P BMSK SGXT VOTE")
UNIFORM = "UIADD3 ULOP3 UMOV USHF ULEA UIMAD USEL UISETP ULDC UPLOP3 R2UR S2UR UPRMT USGXT"
SHARED, FILLS = ("LDS", "LDSM", "STS", "STSM", "SHFL", "ATOMS"), ("LDGSTS", "LDG", "STG", "RED", "REDG", "ATOMG", "LDL", "STL")
LATENCY = {"LDS": 29, "LDSM": 33, "STS": 29, "STSM": 33, "SHFL": 24, "MUFU": 20, "LDG": 600, "LDL": 40, "LDGSTS": 600,
           "HMMA": 33, "HGMMA": 60, "BAR": 24, "R2UR": 12}
OTHERS = 4


class Card:
    """multiplications: of bf16 by a scheduler in each cycle, of HMMA and of HGMMA. ghz: what it has under load."""

    def __init__(self, name, processors, ghz, f32, multiplications):
        self.name, self.processors, self.ghz, self.multiplications = name, processors, ghz, multiplications
        self.units = {word: ("f32", 32 / f32) for word in F32.split()}
        self.units.update({word: ("integers", 2) for word in INTEGERS.split()})
        self.units.update({word: ("uniform", 2) for word in UNIFORM.split()})
        self.units.update({word: ("exponentials", 8) for word in ("MUFU", "POPC", "F2F", "I2F", "F2I", "FLO", "BREV")})
        self.units["IMAD"] = ("products of integers", 2)

    def tflops(self, multiplications, cycles):
        """Of a multiprocessor's multiplications in so many cycles."""
        return 2e-3 * multiplications / cycles * self.processors * self.ghz


CARDS = {card.name: card for card in (
    Card("A100", 108, 1.41 * 271 / 312, 16, {"HMMA": 256}),
    Card("H100", 132, 1.83 * 795 / 989, 32, {"HMMA": 512 * 0.629, "HGMMA": 512}),
    Card("H200", 132, 1.83 * 795 / 989, 32, {"HMMA": 512 * 0.629, "HGMMA": 512}),
)}


class Warp:
    def __init__(self, number, blocks, code):
        self.place_in_block, self.block, self.code = number // blocks, number % blocks, code
        self.at = self.turn = self.ready = 0
        self.barriers = [0] * 6  # when each clears
        self.sums_ready = {}  # of HMMA: first register, when it is there
        self.sums = None  # of the last HGMMA: its first register
        self.ends = []  # of the groups of HGMMA
        self.copies, self.copied = [], 0  # ends of the groups of copies, and of the last copy
        self.meets = False  # waits for the other warps of the block
        self.turns = []  # when each ended


def from_shared(one):
    """Whether the first operand of a product of a warp group lies in shared memory."""
    return "gdesc" in one.operands.split(",")[1]


def threads_of(one):
    """Of a barrier that is not for all threads of the block."""
    found = re.search(r", 0x([0-9a-f]+)$", one.operands)
    return int(found.group(1), 16) if found else None


def open_groups(ends, one):
    """When all but the last n groups have ended; n is the second operand."""
    most = int(one.operands.split(",")[1], 16)
    return ends[-most - 1] if len(ends) > most else 0


class Scheduler:
    """warps: of one block, on this scheduler; blocks: of the multiprocessor."""

    def __init__(self, card, code, warps, blocks):
        self.card, self.per_block = card, warps
        self.warps = [Warp(w, blocks, code) for w in range(warps * blocks)]
        self.goes = [0] * blocks  # which warp of a block goes on, where they take turns
        self.free, self.busy, self.now, self.shared = {}, {}, 0, 0.0

    def cost(self, one):
        """(unit, cycles, instructions that may wait for it)"""
        name = one.name
        if name in self.card.units:
            unit, cycles = self.card.units[name]
            return unit, cycles, QUEUE if unit == "exponentials" else 1
        if one.is_product():
            return "tensor", one.multiplications() / self.card.multiplications[name], 1
        if name in SHARED:
            return "shared memory", 4 * 32 * max(one.bytes(), 4) / SHARED_BYTES, QUEUE
        if name in FILLS:
            return "fills", 4 * 32 * one.bytes() / FILL_BYTES, QUEUE
        return "others", 1, 1

    def takes_turns(self, one):
        """A barrier of two warp groups, whose number is in a register: each lets the next one go on."""
        return one.name == "BAR" and one.operands.startswith("R") and threads_of(one) == 256 and self.per_block > 1

    def may_issue(self, warp):
        one = warp.code[warp.at]
        if warp.ready > self.now or warp.meets:
            return False
        if one.waits and any(one.waits >> b & 1 and warp.barriers[b] > self.now for b in range(6)):
            return False
        if one.op.startswith("BAR.SYNC") and self.takes_turns(one) and self.goes[warp.block] != warp.place_in_block:
            return False
        if one.name == "DEPBAR" and "," in one.operands and open_groups(warp.copies, one) > self.now:
            return False
        if one.op.startswith("WARPGROUP.DEPBAR") and open_groups(warp.ends, one) > self.now:
            return False
        if warp.sums_ready:
            first, others = one.registers()
            if any(warp.sums_ready.get(r, 0) > self.now for r in (others if one.name == "HMMA" else [first] + others)):
                return False
        unit, cycles, queue = self.cost(one)
        if one.name == "HGMMA" and from_shared(one):
            return True
        return self.free.get(unit, 0) < self.now + cycles * queue

    def use(self, unit, cycles):
        begin = max(self.now, self.free.get(unit, 0))
        self.free[unit] = begin + cycles
        self.busy[unit] = self.busy.get(unit, 0) + cycles
        return begin

    def begin(self, warp, one):
        """Gives the instruction to its unit: when that begins, and when operands have been read."""
        unit, cycles, _ = self.cost(one)
        if one.name == "HGMMA":
            m, n, k = one.shape()
            fetched = 2 * k * (n + m * from_shared(one)) / SHARED_BYTES
            self.shared += fetched
            cycles = max(cycles, fetched) + (COLUMN * n if warp.sums not in (None, one.registers()[0]) else 0)
            warp.sums = one.registers()[0]
        elif one.name == "LDGSTS":
            self.shared += 4 * 32 * one.bytes() / SHARED_BYTES
        elif unit == "shared memory":
            self.shared += cycles
        begin = self.use(unit, cycles)
        return begin, begin + cycles

    def issue(self, warp):
        one = warp.code[warp.at]
        begin, read = self.begin(warp, one)
        end = (read if one.name in ("HGMMA", "LDGSTS") else begin) + LATENCY.get(one.name, OTHERS)
        if one.name == "HGMMA" and "gsb0" in one.operands:
            warp.ends.append(end)
        elif one.name == "HMMA":
            first = one.registers()[0]
            warp.sums_ready.update({r: end for r in range(first, first + 4)})
        elif one.name == "LDGSTS":
            warp.copied = max(warp.copied, end)
        elif one.name == "LDGDEPBAR":
            warp.copies.append(warp.copied)
        if one.writes < 6:
            warp.barriers[one.writes] = max(warp.barriers[one.writes], end)
        if one.reads < 6:
            warp.barriers[one.reads] = max(warp.barriers[one.reads], read)
        warp.ready = self.now + max(one.stall, 1)
        warp.at = (warp.at + 1) % len(warp.code)
        if warp.at == 0:
            warp.turn += 1
            warp.turns.append(self.now)
        if one.name == "BAR":
            self.barrier(warp, one)

    def barrier(self, warp, one):
        """Of barriers, those with threads that do other work are taken as passed."""
        if self.takes_turns(one):
            if "ARV" in one.op:
                self.goes[warp.block] = (warp.place_in_block + 1) % self.per_block
        elif threads_of(one) in (None, 128 * self.per_block) and "SYNC" in one.op:
            warp.meets = True
            those = [w for w in self.warps if w.block == warp.block]
            if all(w.meets for w in those):
                for w in those:
                    w.meets, w.ready = False, max(w.ready, self.now + LATENCY["BAR"])

    def run(self, turns):
        last = None
        while any(w.turn < turns for w in self.warps):
            for warp in sorted(self.warps, key=lambda w: (w is not last, w.turn, w.at)):
                if self.may_issue(warp):
                    self.issue(warp)
                    last = warp if warp.at else None  # goes on as long as it may, but not beyond its turn
                    break
            self.now += 1


def cycles_of_turn(card, code, warps, blocks=1, copied=0, turns=12):
    """
    (cycles of a turn of all warps, {unit: cycles that it is busy}). copied: bytes that warps which are not counted copy
    to shared memory in each turn of a block.
    """
    scheduler = Scheduler(card, code, warps, blocks)
    scheduler.run(turns)
    skipped = turns // 3
    cycles = sum(w.turns[turns - 1] - w.turns[skipped - 1] for w in scheduler.warps) / len(scheduler.warps) / (turns - skipped)
    rounds = sum(w.turn for w in scheduler.warps) / len(scheduler.warps)
    busy = {unit: n / rounds for unit, n in scheduler.busy.items()}
    busy["shared memory"] = scheduler.shared / rounds + blocks * copied / SHARED_BYTES
    return max(cycles, busy["shared memory"]), busy
