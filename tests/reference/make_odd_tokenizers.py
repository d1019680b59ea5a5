#!/usr/bin/env python3
"""Makes tests/reference/odd/odd.jsonl: odd tokenizers, odd texts, and the results of the Python packages `tokenizers` (0.23.3) and
`transformers` (5.23).

    make_odd_tokenizers.py

The first line has the texts, and models that several files share. Each further line is a folder: its name, its files, and either words of the
refusal, or the ids that the post-processor adds before and after a text, and for each text its ids and the text made of them (null where the library
panics).
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


def row(made, text):
    try:
        ids = made.encode(text, add_special_tokens=False).ids
        return [ids, made.decode(ids, skip_special_tokens=False)]
    except BaseException as error:  # the library panics: nothing is asked of Longspan
        assert "PanicException" in repr(error), error
        return None


def around(made):
    """What the post-processor puts before and behind the ids."""
    inner, all_ids = made.encode("ab", add_special_tokens=False).ids, made.encode("ab").ids
    at = next(i for i in range(len(all_ids) + 1) if all_ids[i:i + len(inner)] == inner)
    return all_ids[:at], all_ids[at + len(inner):]


def outcome(files):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name, content in files.items():
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), encoding="utf-8", newline="")
        made = opened(folder)
        before, after = around(made)
        return dict(before=before, after=after, expected=[row(made, text) for text in TEXTS])


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text_of(content, models):
    """A file's text; the model of a tokenizer.json is "@N", a line of the list of models."""
    if isinstance(content, str):
        return content
    model = content.get("model")
    if not isinstance(model, dict):
        return compact(content)
    if model not in models:
        models.append(model)
    return compact(dict(content, model=f"@{models.index(model)}"))


def main():
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    lines, models = [], []
    for name, files, *refusal in [*odd_folders.folders(), *odd_tokenizers.made()]:
        found = dict(refused=refusal[0]) if refusal else outcome(files)
        lines.append(dict(name=name, files={file: text_of(content, models) for file, content in files.items()}, **found))
    lines.insert(0, dict(texts=TEXTS, models=[compact(model) for model in models]))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("".join(compact(line) + "\n" for line in lines), encoding="utf-8")
    print(f"{len(lines) - 1} folders, {OUT.stat().st_size} bytes")


main()
