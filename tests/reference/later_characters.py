#!/usr/bin/env python3
"""Prints the table `newer` of src/text/characters.c: characters to which utf8proc gives a combining class or a decomposition, and the Python package
`tokenizers` none, because its normal forms are those of an older Unicode. Made with tokenizers 0.23.3 and utf8proc 2.8.0."""
import ctypes

from tokenizers import normalizers

LIBRARY = ctypes.CDLL("libutf8proc.so.2")


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_uint16), ("combining_class", ctypes.c_uint16)]


LIBRARY.utf8proc_get_property.restype = ctypes.POINTER(Property)
NFD, NFKD = normalizers.NFD(), normalizers.NFKD()
IOTA = "\u0345"  # the mark of the highest class, 240: others are put before it


def has_class(code):
    return LIBRARY.utf8proc_get_property(code).contents.combining_class != 0 and chr(code) != IOTA


def decomposes(code):
    parts = (ctypes.c_int32 * 32)()
    last = ctypes.c_int(0)
    compat_decompose = (1 << 4) | (1 << 2)  # UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
    n = LIBRARY.utf8proc_decompose_char(code, parts, 32, compat_decompose, ctypes.byref(last))
    return n != 1 or parts[0] != code


def later(code):
    character = chr(code)
    if has_class(code) and NFD.normalize_str("a" + IOTA + character) == "a" + IOTA + character:
        return True
    return decomposes(code) and NFKD.normalize_str(character) == character


ranges = []
for code in range(0x110000):
    if 0xd800 <= code < 0xe000 or not later(code):
        continue
    if ranges and ranges[-1][1] == code - 1:
        ranges[-1][1] = code
    else:
        ranges.append([code, code])
print(", ".join(f"{{0x{first:x}, 0x{last:x}}}" for first, last in ranges))
