#!/usr/bin/env python3
"""Checks that the README of each folder of src/ names the files that lie there, and none that do not. Prints each violation.

A file is named by a word in `back quotes`, with its ending or without; `step_*` names all that begin so. A folder inside that has no
README of its own is named as a whole. What is for a folder alone (*_impl.h) need not be named.
"""
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENDINGS = (".c", ".h", ".py", ".sh")


def words_of(readme):
    quoted = re.findall(r"`([^`]+)`", readme.read_text(encoding="utf-8"))
    return [word for text in quoted for word in re.findall(r"[\w*./-]+", text)]


def check(folder, files):
    readme = folder / "README.md"
    words = words_of(readme)
    named = {re.sub(r"\.[ch]$", "", word).rstrip("/") for word in words}
    for path in files:
        inside = path.relative_to(folder)
        name = inside.parts[0] if len(inside.parts) > 1 else inside.stem
        if not inside.stem.endswith("_impl") and not any(fnmatch.fnmatchcase(name, word) for word in named):
            yield f"{readme.relative_to(ROOT)}: does not name {inside}"
    for word in words:
        there = any(folder.rglob(pathlib.Path(word).name)) or any((ROOT / top / word).is_file() for top in ["", "src", "include"])
        if word.endswith((".c", ".h")) and "*" not in word and not there:
            yield f"{readme.relative_to(ROOT)}: names {word}, which is not there"


def main():
    files = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in (".c", ".h"))
    homes = {readme.parent: [] for readme in sorted((ROOT / "src").rglob("README.md"))}
    for path in files:
        homes[next(parent for parent in path.parents if parent in homes)].append(path)
    problems = [problem for home, inside in homes.items() for problem in check(home, inside)]
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
