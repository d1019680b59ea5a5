#!/usr/bin/env python3
"""Makes tests/reference/odd/odd.jsonl: tokenizers that nobody should have made, odd texts, and what the Python packages `tokenizers` (0.23.3) and
`transformers` (5.23) make of them.

    make_odd_tokenizers.py

The first line has the texts. Each further line is a folder: its name, its files, and either words of the refusal, or for each text its ids,
its ids with what the post-processor adds, and the text made of the former.
"""
import json
import os
import pathlib
import tempfile

import odd_folders
import odd_tokenizers
import tokenizers
import transformers

OUT = pathlib.Path(__file__).parent / "odd" / "odd.jsonl"
TEXTS = [
    "Hello, world! It's 12345 of them -- isn't it? they'LL see",
    "  leading and trailing  ",
    "\tde\n\n f\r\n\x85g\u2028h\u00a0i\u3000j\u200b k\ufeff",
    "Ünïcödé ÉTÉ été E\u0301T straße ﬁn ǆ İstanbul ΣΑΣ Ⅷ ⅷ ①",
    "می\u200cخواهم क\u094d\u200dष 👩\u200d👩\u200d👧",
    "x² y³ m¹ ¼ ½ ¾ ٣٤ ๓ ª º µ",
    "<s>a</s>  <mask>  b<mask>c <pad>the the. theory<|endoftext|> of of<|im_start|>user\n<|im_end|>",
    "你好,世界。こんにちは カタカナ ー 한국어 Привет",
    "\x01\x7f a\u0300\u0327b \u1c89x \ua7cb \U0001f7d9 \U00010d4e9 \u2028",
    "ab" * 40,
    "_~foo_bar--baz...«quoted»$5+3=8 a@b.c",
    "the THE tHe éthe the\u0301 the² (the)",
    "<0x41>▁a ▁▁b <unk>",
    "",
]


def opened(folder):
    """What the library makes of the folder's files, as it encodes and decodes."""
    if (folder / "tokenizer.json").exists():
        made = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        made = transformers.AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer
    made.no_truncation()
    made.no_padding()
    return made


def expected(folder):
    made, rows = opened(folder), []
    for text in TEXTS:
        ids = made.encode(text, add_special_tokens=False).ids
        rows.append([ids, made.encode(text).ids, made.decode(ids, skip_special_tokens=False)])
    return rows


def write(folder, files):
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), encoding="utf-8", newline="")


def main():
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    lines = [dict(texts=TEXTS)]
    for name, files, *refusal in [*odd_folders.folders(), *odd_tokenizers.made()]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            write(folder, files)
            outcome = dict(refused=refusal[0]) if refusal else dict(expected=expected(folder))
        # JSON values stay what they are; texts (merges.txt) are texts
        lines.append(dict(name=name, files={k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False, separators=(",", ":"))
                                            for k, v in files.items()}, **outcome))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    print(f"{len(lines) - 1} folders, {OUT.stat().st_size} bytes")


main()
