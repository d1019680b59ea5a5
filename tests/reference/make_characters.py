#!/usr/bin/env python3
"""Makes tests/reference/characters.jsonl: the results of the Python package `tokenizers` (0.23.3) for every character in every class of its expressions,
in pre-tokenizers and in normalizers, as checksums (CRC-32). tests/text/test_text_characters.c computes those of Longspan.

    make_characters.py

A line is a class or a step, and "sums": one for each block of 0x1000 characters below U+20000, one for all above, and of steps one for random
strings. Of classes and pre-tokenizers they are about the places of the matches or pieces in the block as one text; of normalizers, about what
becomes of each character, alone and behind an "a" with a mark of a high class.
"""
import json
import pathlib
import struct
import zlib

import library_classes as library
from tokenizers import Tokenizer, models

OUT = pathlib.Path(__file__).parent / "characters.jsonl"
BLOCKS = [[code for code in range(at, at + 0x1000) if not 0xd800 <= code < 0xe000] for at in range(0, 0x20000, 0x1000)] + [list(range(0x20000, 0x110000))]
SHORT = [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"[\W_]", r"[^\W\d]", r"[\S]", r"[\P{Mc}a]", r"[^\P{L}\P{Lu}]", r"\p{^Han}", r"[\D\p{Nd}]", r"[^\s\p{L}\p{N}]"]
SPLIT = dict(behavior="Isolated", invert=False)
PRE_TOKENIZERS = [dict(type="Whitespace"), dict(type="WhitespaceSplit"), dict(type="Digits", individual_digits=True),
                  dict(type="Digits", individual_digits=False), dict(type="Punctuation", behavior="Isolated"),
                  dict(type="Punctuation", behavior="Contiguous"), dict(type="CharDelimiterSplit", delimiter="é"),
                  dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True),
                  dict(SPLIT, type="Split", pattern=dict(Regex=r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")),
                  dict(SPLIT, type="Split", pattern=dict(Regex=r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\w+\W"))]
NORMALIZERS = [dict(type=name) for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")] + [dict(type="Strip", strip_left=True, strip_right=True)]


def random_strings():
    """2,000 strings of 12 characters, by a generator that the test has too."""
    state = 1
    for _ in range(2000):
        text = ""
        for _ in range(12):
            state = (state * 6364136223846793005 + 1442695040888963407) & 0xffffffffffffffff
            kind, n = state >> 33 & 7, state >> 36
            first, count = [(0, 0x80), (0x20, 0x40), (0x300, 0x70), (0x80, 0x2f80), (0xa000, 0x3000), (0x10000, 0x10000), (0x1100, 0x100), (0x900, 0x400)][kind]
            text += chr(first + n % count)
        yield text


def step(field, value):
    made = Tokenizer.from_str(json.dumps(dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=None,
                                              post_processor=None, decoder=None, model=json.loads(Tokenizer(models.BPE()).to_str())["model"]) | {field: value}))
    return getattr(made, field)


def places(found):
    return b"".join(struct.pack("<II", first, end) for first, end in found)


def of_class(pattern):
    members = set(library.matches(pattern))
    for block in BLOCKS:
        runs = library.ranges([at for at, code in enumerate(block) if code in members])
        yield zlib.crc32(places((first, last + 1) for first, last in runs))


def of_pre_tokenizer(made):
    for block in BLOCKS:
        yield zlib.crc32(places(place for _, place in made.pre_tokenize_str("".join(map(chr, block)))))
    yield zlib.crc32(b"".join(places(place for _, place in made.pre_tokenize_str(text)) for text in random_strings()))


def of_normalizer(made):
    def texts(strings):
        return b"".join(made.normalize_str(text).encode() + b"\xff" for text in strings)
    for block in BLOCKS:
        yield zlib.crc32(texts(part for code in block for part in (chr(code), "a\u0345" + chr(code))))
    yield zlib.crc32(texts(random_strings()))


def main():
    lines = []
    for name in SHORT + [rf"\p{{{name}}}" for name in library.CATEGORIES + library.SCRIPTS]:
        lines.append({"class": name, "sums": list(of_class(name))})
    for value in PRE_TOKENIZERS:
        lines.append({"pre_tokenizer": value, "sums": list(of_pre_tokenizer(step("pre_tokenizer", value)))})
    for value in NORMALIZERS:
        lines.append({"normalizer": value, "sums": list(of_normalizer(step("normalizer", value)))})
    OUT.write_text("".join(json.dumps(dict(line, sums=" ".join(f"{found:x}" for found in line["sums"])), ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} lines, {OUT.stat().st_size} bytes")


main()
