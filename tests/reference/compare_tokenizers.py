#!/usr/bin/env python3
"""Compares Longspan's tokenizer with the Python package `tokenizers`: ids, text made of them, and speed.

    compare_tokenizers.py build/bench/tokenizer [--megabytes 10] [--size 8000] [--families gpt2,llama3]
                          [--rounds 2] [--keep FOLDER] [--text FILE]

Trains each family (tokenizer_families.py), or uses the folder of a model if one is given in place of a family's name.
Then tokenizes one text with both, one thread each, in turn, and decodes. The text is the file, or that of tokenizer_texts.py (texts of this machine in many
languages, code, generated scripts, emoji, broken UTF-8, control characters, very long words). Prints a line per family and exits with 1 if
anything differs. `ninja -C build bench_tokenizer` builds the program.
"""
import argparse
import array
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers  # noqa: E402

import tokenizer_families  # noqa: E402
import tokenizer_texts as texts  # noqa: E402


def corpus(megabytes):
    rng = random.Random(1)
    share = megabytes * 1000000
    parts = list(texts.long_words(rng, share // 40)) + list(texts.made(rng, max(1, share // 200000)))
    parts += list(texts.files(["usr/share/perl/*/pod/*.pod", "usr/lib/python3*/*.py", "usr/include/*.h", "usr/share/perl/*/*.pm",
                               "usr/share/doc/*/copyright"], share // 3))
    parts += list(texts.catalogs(share // 20))
    rng.shuffle(parts)
    return b"\n".join(parts)


def sample(data, size):
    """Pieces of the text for training."""
    rng = random.Random(2)
    pieces = [data[at:at + 4000] for at in (rng.randrange(len(data)) for _ in range(size // 4000))]
    return [piece.decode("utf-8", errors="ignore") for piece in pieces]


def by_reference(tokenizer, text):
    start = time.perf_counter()
    ids = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return ids, time.perf_counter() - start


def by_longspan(program, folder, text, out):
    done = subprocess.run([program, folder, text, "1", out], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{folder}: {done.stderr}")
    return json.loads(done.stdout)


def first_difference(ours, theirs):
    return next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))


def compare(name, options, data, folder):
    home = pathlib.Path(name) if os.path.isdir(name) else folder / name
    if name in tokenizer_families.FAMILIES:
        reference = tokenizer_families.save(name, tokenizer_families.FAMILIES[name](sample(data, 2000000), options.size), home)
        (home / "tokenizer_config.json").write_text(json.dumps({"eos_token": reference.id_to_token(0)}))
    else:
        reference = tokenizers.Tokenizer.from_file(str(home / "tokenizer.json"))
    text = data.decode("utf-8", errors="replace")
    ratios, speeds = [], []
    for _ in range(options.rounds):
        theirs, seconds = by_reference(reference, text)
        result = by_longspan(options.program, home, folder / "text", folder / "ids")
        speeds.append((len(data) / 1e6 / result["first_seconds"], len(data) / 1e6 / seconds))
        ratios.append(seconds / result["first_seconds"])
    ours = array.array("i", (folder / "ids").read_bytes())
    different = sum(a != b for a, b in zip(ours, theirs)) + abs(len(ours) - len(theirs))
    back = (folder / "ids.txt").read_bytes().decode("utf-8", errors="strict")
    same_text = back == reference.decode(theirs, skip_special_tokens=False)
    if different:
        at = first_difference(ours, theirs)
        print(f"{name}: first at {at}: {list(ours[at - 3:at + 5])} against {theirs[at - 3:at + 5]}: "
              f"{[reference.id_to_token(i) for i in theirs[at - 3:at + 5]]}")
    mine, other = (statistics.median(column) for column in zip(*speeds))
    print(f"{home.name:10} {len(data) / 1e6:6.1f} MB  {len(theirs):9} ids  different ids {different}  text back {'same' if same_text else 'DIFFERENT'}  "
          f"{mine:6.1f} MB/s against {other:5.1f}, ratio {statistics.median(ratios):.1f}", flush=True)
    return different == 0 and same_text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--families", default=",".join(tokenizer_families.FAMILIES))
    parser.add_argument("--keep")
    parser.add_argument("--text")
    options = parser.parse_args()
    data = pathlib.Path(options.text).read_bytes() if options.text else corpus(options.megabytes)
    print(f"tokenizers {tokenizers.__version__}, {len(data) / 1e6:.1f} MB of text, vocabularies of {options.size}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "text").write_bytes(data.decode("utf-8", errors="replace").encode())
        good = [compare(name, options, data, folder) for name in options.families.split(",")]
    sys.exit(0 if all(good) else 1)


main()
