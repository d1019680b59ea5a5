"""Writes a folder with a model of which the layers' matrices are in few bytes: quantize.py FOLDER OUT FORM, of nf4, nf4-nested, int8, fp8, mxfp4."""
import bisect
import json
import os
import shutil
import struct
import sys

NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
CONFIG = {"nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
          "int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
          "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128]},
          "mxfp4": {"quant_method": "mxfp4"}}


def e4m3(code):
    exponent, fraction = code >> 3 & 15, code & 7
    return (fraction / 8 * 2.0**-6) if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)


E4M3 = [e4m3(code) for code in range(127)]


def nearest(values, x):
    at = bisect.bisect(values, x)
    if at == 0 or (at < len(values) and values[at] - x < x - values[at - 1]):
        return at
    return at - 1


def signed(values, x, bit):
    return nearest(values, abs(x)) | (bit if x < 0 else 0)


def f32(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def in_nf4(name, x, rows, columns, nested):
    scales = [max(map(abs, x[i : i + 64])) for i in range(0, len(x), 64)]
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [rows, columns]}
    tensors = {}
    if nested:
        table = [i / 127.5 - 1 for i in range(256)]
        offset = sum(scales) / len(scales)
        groups = [scales[i : i + 256] for i in range(0, len(scales), 256)]
        most = [max(abs(s - offset) for s in group) or 1.0 for group in groups]
        codes = [nearest(table, (s - offset) / m) for group, m in zip(groups, most) for s in group]
        state |= {"nested_blocksize": 256, "nested_offset": offset, "nested_dtype": "float32"}
        tensors = {".absmax": ("U8", [len(scales)], bytes(codes)), ".nested_absmax": ("F32", [len(most)], f32(most)),
                   ".nested_quant_map": ("F32", [256], f32(table))}
        scales = [table[code] * most[i // 256] + offset for i, code in enumerate(codes)]
    else:
        tensors = {".absmax": ("F32", [len(scales)], f32(scales))}
    codes = [nearest(NF4, value / scales[i // 64]) for i, value in enumerate(x)]
    packed = bytes(codes[i] << 4 | codes[i + 1] for i in range(0, len(codes), 2))
    text = json.dumps(state).encode()
    tensors |= {"": ("U8", [len(packed), 1], packed), ".quant_map": ("F32", [16], f32(NF4)),
                ".quant_state.bitsandbytes__nf4": ("U8", [len(text)], text)}
    return {name + end: tensor for end, tensor in tensors.items()}


def in_int8(name, x, rows, columns):
    most = [max(map(abs, x[r * columns : (r + 1) * columns])) for r in range(rows)]
    codes = [round(value / most[i // columns] * 127) for i, value in enumerate(x)]
    return {name: ("I8", [rows, columns], struct.pack(f"{len(codes)}b", *codes)),
            name[: -len("weight")] + "SCB": ("F32", [rows], f32(most))}


def in_fp8(name, x, rows, columns):
    down, across = -(-rows // 128), -(-columns // 128)
    scales = [0.0] * (down * across)
    square = lambda i: i // columns // 128 * across + i % columns // 128
    for i, value in enumerate(x):
        scales[square(i)] = max(scales[square(i)], abs(value) / 448)
    codes = bytes(signed(E4M3, value / scales[square(i)], 128) for i, value in enumerate(x))
    return {name: ("F8_E4M3", [rows, columns], codes), name + "_scale_inv": ("F32", [down, across], f32(scales))}


def in_mxfp4(name, x, rows, columns):
    codes, scales = [], []
    for i in range(0, len(x), 32):
        exponent = 0
        while max(map(abs, x[i : i + 32])) > 6 * 2.0 ** (exponent - 20):
            exponent += 1
        scales.append(exponent - 20 + 127)
        codes += [signed(FP4, value / 2.0 ** (exponent - 20), 8) for value in x[i : i + 32]]
    packed = bytes(codes[i] | codes[i + 1] << 4 for i in range(0, len(codes), 2))
    return {name + "_blocks": ("U8", [rows, columns // 32, 16], packed),
            name + "_scales": ("U8", [rows, columns // 32], bytes(scales))}


FORMS = {"nf4": lambda *m: in_nf4(*m, False), "nf4-nested": lambda *m: in_nf4(*m, True), "int8": in_int8, "fp8": in_fp8,
         "mxfp4": in_mxfp4}


def main(folder, out, form):
    shutil.copytree(folder, out)
    with open(f"{folder}/model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        raw = data[slice(*info["data_offsets"])]
        if "_proj" in name:
            assert info["dtype"] == "F32"
            tensors |= FORMS[form](name, struct.unpack(f"<{len(raw) // 4}f", raw), *info["shape"])
        else:
            tensors[name] = (info["dtype"], info["shape"], raw)
    new, at = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        new[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(new).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{out}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in tensors.values()))
    with open(f"{out}/config.json") as file:
        config = json.load(file)
    config["quantization_config"] = CONFIG[form.split("-")[0]]
    os.remove(f"{out}/config.json")
    with open(f"{out}/config.json", "w") as file:
        json.dump(config, file)


main(*sys.argv[1:])
