#!/usr/bin/env python3
"""Makes tests/reference/tokenizers/: small tokenizers of each family, texts, and the results of the Python package `tokenizers`.
The files there were made with tokenizers 0.23.3 on Python 3.11 (Unicode 14).

    make_tokenizers.py

texts.bin: for each text, its bytes (int32) and itself. FAMILY/expected.bin: for each text, the number of ids (int32), the ids (uint16),
the bytes (int32) of the text made of them and itself; then the same four for each of 8 random lists of ids.
"""
import json
import pathlib
import random
import struct

import tokenizer_families
import tokenizer_texts

HERE = pathlib.Path(__file__).parent
WORDS = """The other day a tokenizer of the house met another: "it's 12345 of them, isn't it?" they'll say -- and WE'LL see in 2026.
def encode(text: str) -> list[int]:\n    return [vocab[t] for t in split(text)]  # été, straße\n\n\n#include <stdio.h>\r\nint main(void) { return 0; }
"""


def texts():
    rng = random.Random(3)
    yield WORDS.encode()
    yield b" leading and trailing  "
    yield b"runs  <s>   <|endoftext|> <mask>    of  </s>spaces   "
    yield b"\n\n\n"
    yield b"a"
    yield "été ÉTÉ the théthe the<< of  of the straße".encode()
    # characters of Unicode 15 and 16: symbols, letters, digits, marks
    yield "x\U0001f7d9 \U0001fa75y \U00031350\U0002ebf0中 12\U00011f503\U00011bf0 \u1c8aa \ua7dbb \U00010d4eA\u0897! .\U00011b00\n".encode()
    for text in tokenizer_texts.made(rng, 1):
        cut = text[:260]
        yield cut if text[:4000].decode(errors="ignore").encode() != text[:4000] else cut.decode(errors="ignore").encode()
    yield b"ab" * 150
    yield b" " * 100 + b"x" + b"=" * 70


def pack(ids, text):
    return struct.pack("<i", len(ids)) + struct.pack(f"<{len(ids)}H", *ids) + struct.pack("<i", len(text)) + text


def main():
    folder = HERE / "tokenizers"
    folder.mkdir(exist_ok=True)
    all_texts = list(texts())
    (folder / "texts.bin").write_bytes(b"".join(struct.pack("<i", len(text)) + text for text in all_texts))
    training = [WORDS * 3] + [text.decode(errors="ignore") for text in all_texts]
    for name, make in tokenizer_families.FAMILIES.items():
        tokenizer = tokenizer_families.save(name, make(training, 520), folder / name)
        if tokenizer.token_to_id("</s>") is None and tokenizer.token_to_id("<|endoftext|>") is None:
            end = next(t for t in ("<|end_of_text|>", "<｜end▁of▁sentence｜>") if tokenizer.token_to_id(t) is not None)
            (folder / name / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}, ensure_ascii=False) + "\n", encoding="utf-8")
        parts = []
        for text in all_texts:
            ids = tokenizer.encode(text.decode(errors="replace"), add_special_tokens=False).ids
            parts.append(pack(ids, tokenizer.decode(ids, skip_special_tokens=False).encode()))
        rng = random.Random(4)
        for _ in range(8):
            ids = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(40)]
            parts.append(pack(ids, tokenizer.decode(ids, skip_special_tokens=False).encode()))
        (folder / name / "expected.bin").write_bytes(b"".join(parts))


main()
