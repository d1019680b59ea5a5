#!/usr/bin/env python3
"""The count of cycles (tools/gpu_cycles.py) beside speeds that were measured: FlashAttention-2 and -3, and own kernels.

count_published.py FOLDER [CUDA.SO]: FOLDER keeps the wheels that have the published kernels, which are fetched where
they are not there (published_kernels.py); CUDA.SO is what `make cuda` makes, without which own kernels are left out.
Prints a line for each measured speed, then how many counts are within 15 % and within 5 %.
"""
import pathlib
import sys

from published_kernels import KERNELS, TOOLS, code_of

sys.path.insert(0, TOOLS)
from gpu_code import hot_loop, read_kernels  # noqa: E402
from gpu_cycles import CARDS, cycles_of_turn  # noqa: E402

FORWARD, GRADIENT = 2, 5  # products that are counted as work
LONG = 16384  # tokens beyond which little but the loop counts
PAPER2 = "FlashAttention-2's repository, figures of the A100"
PAPER3 = "FlashAttention-3 (arXiv 2407.08608), figures"
MAGI = "MagiAttention's figures of kernels"
PYTORCH = "PyTorch 2.11 (docs/lab/26-first-gpu.md)"
OWN = "Longspan (docs/lab/26-first-gpu.md)"


def both(d, mask):
    return [(f"fa2_fwd_{d}_{mask}", FORWARD), (f"fa2_bwd_{d}_{mask}", GRADIENT)]


FA3_BWD, OWN_GRAD, OWN_BEFORE = [("fa3_bwd_128_causal", 5)], [("own_dkv_sm90", 4), ("own_dq_sm90", 3)], [("own_dkv", 4), ("own_dq", 3)]
# card, kernels and the products that each executes, products counted, tokens, causal, TFLOP/s, source, and whether a
# rule was made after it.
MEASURED = [
    ("A100", both(128, "full"), 7, 16384, False, 203, PAPER2, False),
    ("A100", both(128, "causal"), 7, 16384, True, 189, PAPER2, False),
    ("A100", both(128, "causal"), 7, 4096, True, 173, PAPER2, False),
    ("A100", both(64, "full"), 7, 16384, False, 176, PAPER2, False),
    ("A100", both(64, "causal"), 7, 16384, True, 171, PAPER2, False),
    ("H100", [("fa2_fwd_64_causal", 2)], 2, 16384, True, 299, PAPER3, False),
    ("H100", [("fa2_fwd_128_causal", 2)], 2, 16384, True, 335, PAPER3, False),
    ("H100", [("fa2_fwd_256_causal", 2)], 2, 16384, True, 298, PAPER3, False),
    ("H100", [("fa2_bwd_128_causal", 5)], 5, 32768, True, 331, MAGI, False),
    ("H200", [("fa2_fwd_128_causal", 2)], 2, 8192, True, 321, PYTORCH, False),
    ("H200", [("fa2_fwd_128_causal", 2)], 2, 32768, True, 342, PYTORCH, False),
    ("H200", [("fa2_fwd_128_causal", 2)], 2, 65536, True, 344, PYTORCH, False),
    ("H200", [("fa2_bwd_128_causal", 5)], 5, 8192, True, 280, PYTORCH, False),
    ("H200", [("fa2_bwd_128_causal", 5)], 5, 32768, True, 317, PYTORCH, False),
    ("H200", [("fa2_bwd_128_causal", 5)], 5, 65536, True, 322, PYTORCH, False),
    ("H100", [("fa3_fwd_128_full", 2)], 2, 16384, False, 648, PAPER3, True),
    ("H100", [("fa3_fwd_128_causal", 2)], 2, 16384, True, 616, PAPER3, False),
    ("H100", [("fa3_fwd_128_causal", 2)], 2, 8192, True, 658, MAGI, False),
    ("H100", [("fa3_fwd_128_causal", 2)], 2, 32768, True, 680, MAGI, False),
    ("H100", [("fa3_fwd_64_causal", 2)], 2, 16384, True, 473, PAPER3, False),
    ("H100", [("fa3_fwd_256_causal", 2)], 2, 16384, True, 642, PAPER3, False),
    ("H100", FA3_BWD, 5, 4096, True, 462, MAGI, False),
    ("H100", FA3_BWD, 5, 8192, True, 517, MAGI, False),
    ("H100", FA3_BWD, 5, 32768, True, 586, MAGI, False),
    ("H200", [("own_fwd_sm90", 2)], 2, 8192, True, 310, OWN, True),
    ("H200", [("own_fwd_sm90", 2)], 2, 32768, True, 389, OWN, True),
    ("H200", [("own_fwd_sm90", 2)], 2, 65536, True, 452, OWN, True),
    ("H200", OWN_GRAD, 5, 8192, True, 274, OWN, False),
    ("H200", OWN_GRAD, 5, 32768, True, 384, OWN, False),
    ("H200", OWN_GRAD, 5, 65536, True, 389, OWN, False),
    ("H200", [("own_fwd", 2)], 2, 8192, True, 132, OWN, False),
    ("H200", [("own_fwd", 2)], 2, 32768, True, 140, OWN, False),
    ("H200", [("own_fwd", 2)], 2, 65536, True, 145, OWN, False),
    ("H200", OWN_BEFORE, 5, 8192, True, 81, OWN, False),
    ("H200", OWN_BEFORE, 5, 32768, True, 102, OWN, False),
    ("H200", OWN_BEFORE, 5, 65536, True, 103, OWN, False),
]


def counted_pairs(tokens, queries, keys, causal):
    """Of the pairs in the tiles that are multiplied, the share that the mask leaves."""
    if not causal:
        return 1
    executed = sum(queries * min(tokens, -(-last // keys) * keys) for last in range(queries, tokens + 1, queries))
    return tokens * tokens / 2 / executed


class Counts:
    """TFLOP/s of all products of each kernel, counted once."""

    def __init__(self, folder, own):
        self.folder, self.own, self.known = folder, own, {}

    def of(self, name, card):
        key = name, card == "A100"
        if key not in self.known:
            self.known[key] = self.count(name, card)
        return self.known[key]

    def count(self, name, card):
        kernel, lines = KERNELS[name], code_of(self.folder, name, card == "A100", self.own)
        if lines is None:
            return None
        (code,) = read_kernels(lines).values()
        loop = hot_loop(code)
        multiplications = 4 * kernel.warps * kernel.blocks * sum(one.multiplications() for one in loop if one.is_product())
        cycles, _ = cycles_of_turn(CARDS[card], loop, kernel.warps, kernel.blocks, kernel.copied)
        return CARDS[card].tflops(multiplications, cycles)

    def predict(self, card, parts, work, tokens, causal):
        time = 0
        for name, products in parts:
            speed = self.of(name, card)
            if speed is None:
                return None
            time += products / (speed * counted_pairs(tokens, KERNELS[name].queries, KERNELS[name].keys, causal))
        return work / time


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    counts, errors, left_out = Counts(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None), {}, 0
    print("card  tokens  measured  counted  difference  kernels: source")
    for card, parts, work, tokens, causal, measured, source, made_after in MEASURED:
        counted = counts.predict(card, parts, work, tokens, causal)
        if counted is None:
            left_out += 1
            continue
        error = counted / measured - 1
        group = "own" if source == OWN else "published", tokens >= LONG
        errors.setdefault(group, []).append(abs(error))
        names = " + ".join(kernel for kernel, _ in parts)
        print(f"{card}  {tokens:6}  {measured:8}  {counted:7.0f}  {error:+10.0%}  {names}: {source}{'; a rule was made after it' * made_after}")
    for (origin, is_long), those in errors.items():
        print(f"{origin}, {f'{LONG:,} tokens and more' if is_long else 'fewer tokens'}: {sum(e <= 0.15 for e in those)} of {len(those)} within 15 %, "
              f"{sum(e <= 0.05 for e in those)} within 5 %")
    print(f"{left_out} speeds left out, for want of a kernel")


main()
