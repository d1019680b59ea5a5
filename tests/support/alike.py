#!/usr/bin/env python3
"""alike.py FOLDER OTHER: says how two runs of one command differ, and fails if they do.

Every file of one is in the other, with the same bytes. How long something took, and how much memory was resident, is left out: such fields of .json
and .jsonl, and such numbers in the files named `output` (standard output) and `messages` (standard error, of which only Longspan's own lines
count: launchers write there, too).
"""
import json
import pathlib
import re
import sys

NAMES = "[a-z_]*seconds|tokens_per_second|wait_fraction|start_up|(?:peak|measured|resident)_bytes"
MEASURED, FIELD = re.compile(NAMES), re.compile(f'"({NAMES})": [0-9.e+-]*')
NUMBER = re.compile(r"[0-9.]+[kM]? ?((?:ns|µs|ms|s|tokens/s)\b|% of the time|[KMG]?i?B (?:measured|resident))")


def without_measured(value):
    if isinstance(value, dict):
        return {key: without_measured(v) for key, v in value.items() if not MEASURED.fullmatch(key)}
    return [without_measured(v) for v in value] if isinstance(value, list) else value


def lines(path):
    text = path.read_text(errors="replace").splitlines()
    if path.name == "messages":  # progress is shown by the clock
        text = [line for line in text if line.startswith("longspan: ") and "tokens/s" not in line and "planning: " not in line]
    return [FIELD.sub("#", NUMBER.sub("#", line)) for line in text]


def content(path):
    if path.name in ("output", "messages"):
        return lines(path)
    if path.suffix == ".jsonl":
        return [without_measured(json.loads(line)) for line in path.read_text().splitlines()]
    return without_measured(json.loads(path.read_text())) if path.suffix == ".json" else path.read_bytes()


def files(root):
    return {p.relative_to(root) for p in root.rglob("*") if p.is_file() and not p.is_symlink()}


def main():
    a, b = (pathlib.Path(name) for name in sys.argv[1:3])
    wrong = [f"{name}: only in {a if name in files(a) else b}" for name in sorted(files(a) ^ files(b))]
    for name in sorted(files(a) & files(b)):
        x, y = content(a / name), content(b / name)
        if x != y:
            wrong.append(f"{name}: {a} and {b} differ" + ("" if isinstance(x, bytes) else f":\n  {x}\n  {y}"))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


sys.exit(main())
