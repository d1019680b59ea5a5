#!/usr/bin/env python3
"""Checks that the benchmarks of C compile, without making code: a few seconds, where building them takes a minute.

check-bench.py BUILD: a configured build folder. Prints what the compiler says, and exits with 1, if one does not compile.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"


def compile_only(entry):
    """The status of the compiler, told to stop behind the checks."""
    command = shlex.split(entry["command"])
    return subprocess.run(command + ["-fsyntax-only"], cwd=entry["directory"], check=False).returncode


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text(encoding="utf-8"))
    sources = {entry["file"]: entry for entry in entries if BENCH in pathlib.Path(entry["file"]).resolve().parents}
    if not sources:
        sys.exit(f"check-bench.py: {sys.argv[1]}/compile_commands.json has no file of {BENCH}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = sum(status != 0 for status in pool.map(compile_only, sources.values()))
    sys.exit(f"check-bench.py: {failed} of {len(sources)} benchmarks do not compile" if failed else 0)


main()
