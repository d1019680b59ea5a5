#!/usr/bin/env python3
"""Prints the table of src/text/pattern_later.c: characters that the Python package `tokenizers` knows in \\p{...} and Unicode 14 does not have, by
category, and by script for those that patterns of tokenizers name. Made with tokenizers 0.23.3 on Python 3.11, whose tables are Unicode 14's, as are
those of PCRE2 10.42."""
import unicodedata

from tokenizers import Regex, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf".split()
SCRIPTS = "Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Devanagari Thai".split()


def matching(name, codes):
    step = pre_tokenizers.Split(Regex(rf"{name}+"), behavior="removed", invert=True)
    for at in range(0, len(codes), 512):
        for part, _ in step.pre_tokenize_str("".join(map(chr, codes[at:at + 512]))):
            yield from map(ord, part)


assert unicodedata.unidata_version == "14.0.0"
unassigned = [code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cn"]
later = list(matching(r"\P{Cn}", unassigned))
for name in CATEGORIES + SCRIPTS:
    ranges = []
    for code in matching(rf"\p{{{name}}}", later):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    for first, last in ranges:
        print(f'{{"{name}", 0x{first:x}, 0x{last:x}}},')
