#!/bin/bash
# tools/cuda-count.py: cycles of small loops that can be counted by hand, one for each rule, and of the loop of a kernel of
# Longspan (grad_of_keys_64.sass, cut out of what nvcc 13.0 made of it for sm_90a).
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONPATH=$here/tools PYTHONDONTWRITEBYTECODE=1

python3 - "$here/tests/tools/grad_of_keys_64.sass" <<'END'
import re
import sys
from gpu_code import hot_loop, read_kernels
from gpu_cycles import CARDS, cycles_of_turn

NONE = 7


def printed(instructions):
    """As cuobjdump prints it: (text, stall, barrier of the result, of the operands, barriers waited for)."""
    yield "\t\tFunction : loop"
    for i, (text, *control) in enumerate(instructions):
        stall, writes, reads, waits = control + [1, NONE, NONE, 0][len(control):]
        upper = (stall | writes << 5 | reads << 8 | waits << 11) << 41
        yield f"        /*{16 * i:04x}*/   {text} ;   /* 0x{0:016x} */"
        yield f"             /* 0x{upper:016x} */"


def loop_of(instructions):
    return hot_loop(read_kernels(printed(instructions))["loop"])


def expect(what, found, wanted, part=0.02):
    if abs(found - wanted) > part * wanted:
        sys.exit(f"FAILED: {what}: {found}; expected {wanted}")


def cycles(instructions, card="H100", warps=1, blocks=1, **more):
    return cycles_of_turn(CARDS[card], loop_of(instructions), warps, blocks, **more)[0]


BACK = ("@P0 BRA 0x0", 5)
hmma = [(f"HMMA.16816.F32.BF16 R{100 + 4 * i}, R8, R12, R{100 + 4 * i}", 1) for i in range(32)]
hgmma = [("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24", 1)] * 7 + [("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0", 1)]
wait = ("WARPGROUP.DEPBAR.LE gsb0, 0x0", 2)
others = [("FADD R1, R2, R3", 1)] * 400
exponentials = [("MUFU.EX2 R1, R2", 1)] * 64

# products: 2,048 multiplications of HMMA at 256 a cycle, 4 * 64 * 128 * 16 / 4 of HGMMA at 512
expect("HMMA on an A100", cycles(hmma + [BACK], "A100", 2), 2 * 32 * 8)
expect("HMMA on an H100", cycles(hmma + [BACK], "H100", 2), 2 * 32 * 8 / 2 / 0.629)
expect("HGMMA of two warp groups", cycles(hgmma + [wait, BACK], warps=2), 2 * 8 * 64)
expect("the wait of one warp group", cycles(hgmma + [wait, BACK]), 8 * 64 + 60 + 7, 0.03)
expect("a product that waits for one before it", cycles([("HMMA.16816.F32.BF16 R4, R8, R12, R4", 1), ("FADD R1, R4, R4", 1), BACK]), 33 + 6, 0.06)
# other units, beside a product
expect("exponentials", cycles(exponentials + hmma[:1] + [BACK], warps=2), 2 * 64 * 8)
expect("f32 on an H100", cycles(others + hmma[:1] + [BACK], warps=2), 2 * 400, 0.03)
expect("f32 on an A100", cycles(others + hmma[:1] + [BACK], "A100", 2), 2 * 2 * 400, 0.03)
expect("stalls", cycles([("FADD R1, R2, R3", 4)] * 100 + hmma[:1] + [BACK]), 400, 0.03)
expect("LDSM of 512 bytes", cycles([("LDSM.16.M88.4 R4, [R3]", 1)] * 64 + hmma[:1] + [BACK], warps=2), 2 * 64 * 16)
expect("bytes that other warps copy", cycles(hmma + [BACK], copied=128 * 5000), 5000)
expect("a result that is waited for", cycles([("LDS R4, [R3]", 1, 0), ("FADD R1, R4, R4", 1, NONE, NONE, 1)] + hmma[:1] + [BACK]), 29 + 7, 0.1)
# what is begun goes on while other instructions are issued, but not where an operand in registers holds the warp
expect("products beside other work", cycles(hgmma + others + [wait, BACK]), 8 * 64 + 60, 0.1)
held = [("HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR4], R24" + ", gsb0" * (i == 7), 1) for i in range(8)]
expect("operands in registers", cycles(held + others + [wait, BACK]), 6 * 64 + 400, 0.1)
turned = hgmma + [(text.replace("R24", "R88"), 1) for text, _ in hgmma]
expect("a change of sums", cycles(turned + [wait, BACK], warps=2), 2 * (16 * 64 + 2 * 128), 0.03)
# warps that meet, and warps that take turns
together = [("BAR.SYNC.DEFER_BLOCKING 0x0", 1)]
expect("a barrier", cycles(together + hgmma + [wait, BACK], warps=2), 2 * 8 * 64 + 60 + 24, 0.05)
expect("blocks do not meet", cycles(together + hgmma + [wait, BACK], blocks=2), 2 * 8 * 64)
turns = [("BAR.SYNC.DEFER_BLOCKING R5, 0x100", 1)] + hgmma + [wait, ("BAR.ARV R6, 0x100", 1), BACK]
expect("warps that take turns", cycles(turns, warps=2), 2 * (8 * 64 + 60), 0.05)

# The path: products and copies are on it; a quotient, and what is not needed, is not.
code = [("@P1 BRA 0x40", 1), ("LDGSTS.E.128 [R1], [R2]", 1), ("@P2 BRA 0x50", 1), ("FADD R1, R2, R3", 1), ("MUFU.RCP R1, R2", 1), hmma[0], BACK]
way = [one.name for one in loop_of(code)]
if way != ["BRA", "LDGSTS", "BRA", "HMMA", "BRA"]:
    sys.exit(f"FAILED: the path is {way}")
two = hmma[:1] + [BACK] + hmma[:3] + [("@P0 BRA 0x20", 5)]
expect("of two loops the one with more products", len(loop_of(two)), 4)
if loop_of([("FADD R1, R2, R3", 1), BACK]):
    sys.exit("FAILED: a loop without products has a path")

# The kernel, and what becomes of it by each change: its cycles, of which tensor cores are busy for some 1,525.
kernel = open(sys.argv[1], encoding="utf-8").read()
for what, pattern, instead, wanted in (
        ("the kernel", "none", "", 2043),
        ("sums for exponentials", r"MUFU\.EX2", "FADD", 1997),
        ("exponentials for products", "FMUL", "MUFU.EX2", 2353),
        ("products of twice as many columns", r"64x64x16", "64x128x16", 3320),
        ("copies of half as many bytes", r"BYPASS\.128", "BYPASS.64", 1946),
        ("each wait is for all products", r"gsb0, 0x[1-9]", "gsb0, 0x0", 2238),
        ("no barrier", r"BAR\.SYNC[^;]*;", "NOP ;", 1838)):
    (changed,) = read_kernels(re.sub(pattern, instead, kernel).splitlines()).values()
    found, busy = cycles_of_turn(CARDS["H100"], hot_loop(changed), 2)
    expect(what, found, wanted, 0.01)
    if found < max(busy.values()):
        sys.exit(f"FAILED: {what}: {found} cycles, and a unit is busy for longer: {busy}")
END

count=$here/tools/cuda-count.py sass=$here/tests/tools/grad_of_keys_64.sass
out=$("$count" "$sass" --card H100 --kernel "grad_of_keys<64")
echo "$out" | sed -n 2p | grep -qE "^ +399 +2043 +1525 +1217 +576 +256 +192 +361 +196 +844  void grad_of_keys<64, false>" || { echo "FAILED: $out"; exit 1; }
[ "$(echo "$out" | tail -1)" = "1 kernels counted on H100" ] || { echo "FAILED: $out"; exit 1; }
if "$count" "$sass" --kernel nothing >/dev/null; then echo "FAILED: no kernel, and no failure"; exit 1; fi
if out=$("$count" "$sass.so" --cuobjdump no-such-tool 2>&1); then echo "FAILED: no tool, and no failure"; exit 1; fi
echo "$out" | grep -q "^there is no no-such-tool: " || { echo "FAILED: $out"; exit 1; }
echo ok
