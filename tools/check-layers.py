#!/usr/bin/env python3
"""Checks the shape of the sources, and prints each violation as file:line: what is wrong.

- a folder of src/ includes only folders on a lower level of LEVELS, and itself
- other folders include one header of a folder, FOLDER/FOLDER.h
- includes in quotes are written from src/ or include/ and name a file that is there
- external libraries stay where they belong (EXTERNAL), out of the core
- messages are made in compile/redistribute and by the strategies of compile/attention alone (MESSAGES)
- few files know where elements lie in the flat space of parameters (FLAT_SPACE)
- what a file must not include it does not include (FORBIDDEN); the compiler's builder has at most 16 fields
- a file has at most 600 lines, a function at most 80

check-layers.py [ROOT]: the tree that this script lies in, unless told otherwise.
"""
import pathlib
import re
import sys

# Lowest first. Folders of one level do not see each other.
LEVELS = [
    ["base"],
    ["tensor", "comm", "device", "format"],
    ["kernel", "text"],
    ["graph"],
    ["jinja", "parquet"],
    ["program", "data"],
    ["compile"],
    ["run", "simulate"],
    ["weights"],
    ["adapter"],
    ["model"],
    ["plan", "checkpoint"],
    ["session"],
    ["eval", "report"],
    ["train"],
    ["cli"],
]
LEVEL = {folder: i for i, folders in enumerate(LEVELS) for folder in folders}

# Header of an external library -> folders that may include it.
EXTERNAL = {
    "dnnl": ["kernel/cpu"],
    "jansson": ["format"],
    "pcre2": ["text"],
    "utf8proc": ["text"],
    "zstd": ["data", "checkpoint", "parquet"],
    "zlib": ["data", "parquet"],
    "snappy-c": ["parquet"],
    "lz4": ["parquet"],
    "xxhash": ["data", "checkpoint"],
    "mpi": ["comm/mpi"],
    "cuda_runtime": ["kernel/cuda"],
    "cuda_bf16": ["kernel/cuda"],
}
# Calls of the builder by which ranks exchange -> folders and files of src/ that make them.
MESSAGES = re.compile(r"\bls_build_(grant|send|receive|lease|borrow|return|reclaim)\s*\(")
MESSENGERS = ["compile/redistribute/", "compile/attention/", "compile/build.c", "compile/compile_impl.h"]
# What says where elements of parameters lie in the flat space -> the only files of src/ that know it.
FLAT_SPACE = re.compile(
    r"\b(ls_flat_piece|ls_image_(piece|held)|ls_piece_within|ls_flat_whole|image->n_pieces|image->pieces|"
    r"(flat|trained|whole)_elements|whole_start|flat->start|trained_shard|shard_count)\b"
)
KNOW_FLAT_SPACE = [
    "program/image.h",
    "program/program.c",
    "program/parts.h",
    "program/parts.c",
    "compile/packing.c",
    "compile/persistent.c",
    "compile/optimizer/piece.c",
    "weights/parameters.c",
]
GENERATED = ["ls_version.h", "ls_bench_model.h"]
# File -> headers that it must not include: lowering knows of no pass.
FORBIDDEN = {"compile/lower.c": ["compile/pass.h"]}
MOST_BUILDER_FIELDS = 16
MOST_LINES = 600
MOST_FUNCTION_LINES = 80

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
if len(sys.argv) < 2:
    ROOT = ROOT.parent.parent
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
problems = []


def report(path, line, text):
    problems.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def check_include(path, line, quoted, name):
    inside = path.relative_to(ROOT / "src").parts
    folder = inside[0]
    if not quoted:
        for library, homes in EXTERNAL.items():
            home_found = any("/".join(inside).startswith(home + "/") for home in homes)
            if re.match(library + r"(_\w+)?\.(h|hpp)$", name) and not home_found:
                report(path, line, f"<{name}> belongs to {' and '.join('src/' + h for h in homes)} alone")
        return
    if name in GENERATED:
        return
    if name.startswith("longspan/"):
        if not (ROOT / "include" / name).is_file():
            report(path, line, f'"{name}" is not in include/')
        return
    if not (ROOT / "src" / name).is_file():
        report(path, line, f'"{name}" is not a path from src/ or include/')
        return
    if name in FORBIDDEN.get("/".join(inside), []):
        report(path, line, f'includes "{name}", which it must know nothing of')
    other = name.split("/")[0]
    if other == folder:
        return
    if LEVEL.get(other, len(LEVELS)) >= LEVEL[folder]:
        report(path, line, f'{folder} (level {LEVEL[folder]}) includes "{name}" (level {LEVEL.get(other)})')
    if name != f"{other}/{other}.h":
        report(path, line, f'"{name}" is for src/{other} alone; others include "{other}/{other}.h"')


def check_messages(path, line, text):
    inside = path.relative_to(ROOT / "src").as_posix()
    found = MESSAGES.search(text)
    if found and not inside.startswith(tuple(MESSENGERS)):
        report(path, line, f"{found[0].rstrip('( ')} belongs to src/compile/redistribute")


def check_flat_space(path, line, text):
    inside = path.relative_to(ROOT / "src").as_posix()
    found = FLAT_SPACE.search(text)
    if found and inside not in KNOW_FLAT_SPACE:
        report(path, line, f"{found[0]}: only {len(KNOW_FLAT_SPACE)} files know the flat space (KNOW_FLAT_SPACE)")


def check_public_include(path, line, quoted, name):
    if quoted and not name.startswith("longspan/"):
        report(path, line, f'a public header includes "{name}"')


def check_functions(path, lines):
    start = None
    for number, text in enumerate(lines, 1):
        if text.startswith("}"):
            if start and number - start + 1 > MOST_FUNCTION_LINES:
                report(path, start, f"a function of {number - start + 1} lines; at most {MOST_FUNCTION_LINES}")
            start = None
        elif text.endswith(") {") and not text.startswith((" ", "#", "typedef")):
            start = number


def check_builder(path, lines):
    """The builder emits: a field that a single pass needs belongs to that pass."""
    fields = 0
    for number, text in enumerate(lines, 1):
        if text == "typedef struct ls_builder {":
            fields = 1
        elif text == "} ls_builder;":
            if fields - 1 > MOST_BUILDER_FIELDS:
                report(path, number, f"ls_builder has {fields - 1} fields; at most {MOST_BUILDER_FIELDS}")
            return
        elif fields > 0:
            fields += len(re.sub(r"/\*.*", "", text).split(",")) if ";" in text else 0


def check_file(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    if len(lines) - 1 > MOST_LINES:
        report(path, MOST_LINES + 1, f"{len(lines) - 1} lines; at most {MOST_LINES}")
    if path.suffix not in (".c", ".h"):
        return
    check_functions(path, lines)
    check_builder(path, lines)
    in_source = path.is_relative_to(ROOT / "src")
    in_public = path.is_relative_to(ROOT / "include")
    for number, text in enumerate(lines, 1):
        if in_source:
            check_messages(path, number, text)
            check_flat_space(path, number, text)
        found = INCLUDE.match(text)
        if not found:
            continue
        if in_source:
            check_include(path, number, found[1] == '"', found[2])
        elif in_public:
            check_public_include(path, number, found[1] == '"', found[2])


def main():
    for folder in sorted((ROOT / "src").iterdir()):
        if folder.is_dir() and folder.name not in LEVEL:
            report(folder, 0, "a folder without a level")
    files = []
    for top in ["src", "include", "tests", "bench", "examples", "tools", "cmake"]:
        files += [p for p in (ROOT / top).rglob("*") if p.suffix in (".c", ".h", ".py", ".sh", ".cmake", ".cu")]
    for path in sorted(files):
        if path.is_relative_to(ROOT / "src") and path.relative_to(ROOT / "src").parts[0] not in LEVEL:
            continue
        check_file(path)
    for problem in problems:
        print(problem)
    if problems:
        print(f"layers: {len(problems)} violations")
        sys.exit(1)


main()
