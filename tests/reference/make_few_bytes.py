#!/usr/bin/env python3
"""Writes few-bytes/: matrices in few bytes as libraries hold them in files, and what these libraries decode them to, in f32.

bitsandbytes 0.50.2 writes nf4 (with and without nested scales) and int8; torch 2.9 has FP8. MXFP4 is decoded by the tables
of the OCP Microscaling Formats specification 1.0, sections 5.3.3 and 5.4.1, with exact arithmetic."""
import fractions
import pathlib
import struct

import bitsandbytes.functional as bnb
import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parent / "few-bytes"


def matrix(rows, columns):
    torch.manual_seed(rows * columns)
    w = torch.randn(rows, columns) * torch.rand(rows, 1).exp()
    w[0, :64] = 0
    w[1, 3] = 40
    return w.bfloat16()


def nf4(nested, rows, columns):
    w = matrix(rows, columns)
    codes, state = bnb.quantize_4bit(w, blocksize=64, compress_statistics=nested, quant_type="nf4")
    tensors = {"m.weight": codes, "in bf16": bnb.dequantize_4bit(codes, state)}
    state.dtype = torch.float32
    tensors["in f32"] = bnb.dequantize_4bit(codes, state)
    state.dtype = torch.bfloat16
    tensors |= {f"m.weight.{k}": v for k, v in state.as_dict(packed=True).items()}
    if not nested:
        tensors["from"] = w
    return tensors


def int8(rows, columns):
    codes, scale, _ = bnb.int8_vectorwise_quant(matrix(rows, columns).half())
    return {"m.weight": codes, "m.SCB": scale, "m.weight_format": torch.tensor(0, dtype=torch.uint8),
            "in f32": bnb.int8_vectorwise_dequant(codes, scale)}


def fp8(rows, columns):
    """Every code, and scales of squares of 128."""
    codes = (torch.arange(rows * columns) % 256).to(torch.uint8)
    codes[(codes & 127) == 127] = 0x55
    codes = codes.view(rows, columns).view(torch.float8_e4m3fn)
    scale = (torch.rand((rows + 127) // 128, (columns + 127) // 128) + 0.1) / 300
    wide = scale.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
    return {"m.weight": codes, "m.weight_scale_inv": scale, "in f32": codes.float() * wide,
            "in bf16": (codes.float() * wide).bfloat16()}


def e2m1(code):
    sign, exponent, fraction = code >> 3, code >> 1 & 3, code & 1
    size = fractions.Fraction(fraction, 2) if exponent == 0 else (1 + fractions.Fraction(fraction, 2)) * 2 ** (exponent - 1)
    return -1 if sign else 1, size


def mxfp4(rows, columns):
    """Every code with every scale but NaN, as far as an f32 has the product."""
    torch.manual_seed(5)
    codes = torch.randint(0, 256, (rows, columns // 32, 16), dtype=torch.uint8)
    scales = (torch.arange(rows * columns // 32) * 7 % 253).to(torch.uint8).view(rows, columns // 32)
    numbers = []
    for block, scale in zip(codes.view(-1, 16).tolist(), scales.view(-1).tolist()):
        for byte in block:
            for code in (byte & 15, byte >> 4):
                sign, size = e2m1(code)
                exact = float(size * fractions.Fraction(2) ** (scale - 127))
                numbers.append(struct.unpack("f", struct.pack("f", exact * sign))[0])
    return {"m.weight_blocks": codes, "m.weight_scales": scales, "in f32": torch.tensor(numbers).view(rows, columns)}


OUT.mkdir(exist_ok=True)
for name, tensors in {"nf4": nf4(False, 16, 128), "nf4-nested": nf4(True, 80, 256), "int8": int8(16, 128), "fp8": fp8(130, 192),
                      "mxfp4": mxfp4(16, 512)}.items():
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT / f"{name}.safetensors")
