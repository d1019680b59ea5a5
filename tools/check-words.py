#!/usr/bin/env python3
"""Checks the names and words of the sources against docs/glossary.md, and prints each violation as file:line: what is wrong.

- a type name (typedef, struct, enum or union NAME) is defined once in src/ and include/
- a source file that a comment or a page names exists: name.c, name.h or folder/name.c
- a real number becomes text, or is read from text, by the functions of base/plain.h: others depend on the locale that a program has
  set (src/cli is a program of its own, which sets none)
- words that the glossary retires (its last section) stand nowhere in src/, include/, tests/, examples/, bench/ and docs/, neither
  alone nor as a part of a name

check-words.py [ROOT]: the tree that this script lies in, unless told otherwise.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs/glossary.md"
FOLDERS = ["src", "include", "tests", "examples", "bench", "docs"]
KINDS = {".c", ".h", ".md", ".py", ".sh"}
# A definition has a body, or gives another type this name. `typedef struct x x;` only declares.
BODY = re.compile(r"^\s*(?:typedef\s+)?(?:struct|union|enum)\s+(\w+)\s*\{")
END = re.compile(r"^\}\s*(\w+);")
ALIAS = re.compile(r"^typedef\s+(?!struct\b|union\b|enum\b)[^;{(]*?\b(\w+)(?:\[[^\]]*\])?;")
FUNCTION = re.compile(r"^typedef\s+.*\(\*(\w+)\)\(")
problems = []


def retired_words():
    """The words of the section "Not used", up to its colon."""
    section = GLOSSARY.read_text().split("## Not used", 1)[1]
    return [word.strip() for word in section.split(":", 1)[0].split(",")]


def check_types():
    """Names that begin with ls_; what a file keeps to itself may be called as it likes."""
    defined = {}
    for folder in ("include", "src"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            inside = None
            for number, line in enumerate(path.read_text().split("\n"), 1):
                body, end = BODY.match(line), END.match(line)
                if body and not line[0].isspace():
                    inside = body.group(1)
                found = body or ALIAS.match(line) or FUNCTION.match(line)
                if end and end.group(1) != inside:
                    found = end
                if end:
                    inside = None
                if not found or not found.group(1).startswith("ls_"):
                    continue
                name, here = found.group(1), f"{path.relative_to(ROOT)}:{number}"
                if name in defined:
                    problems.append(f"{here}: {name} is defined in {defined[name]} already; one name is one type")
                defined.setdefault(name, here)


def check_words():
    """Parts of names count: free_parcels, ls_parcel."""
    words = "|".join(retired_words())
    retired = re.compile(rf"(?<![A-Za-z])({words})(?:s|ed|ing)?(?![A-Za-z])", re.IGNORECASE)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in KINDS or path == GLOSSARY or "lab" in path.parts or not path.is_file():
                continue
            for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
                found = retired.search(line)
                if found:
                    problems.append(f"{path.relative_to(ROOT)}:{number}: \"{found.group(1)}\" is retired (docs/glossary.md)")


def check_files():
    """By its name alone, or by the end of its path. Names of one letter and in capitals are examples."""
    known = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.[ch]") if not path.relative_to(ROOT).parts[0].startswith("build")}
    endings = {"/".join(path.split("/")[-n:]) for path in known for n in range(1, path.count("/") + 2)}
    named = re.compile(r"(?<![\w.*<{}-])((?:\w+/)*[a-z0-9_]{2,}\.[ch])(?!\.?\w|\()")
    comment = re.compile(r"/\*.*|^\s*\*.*|//.*")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".c", ".h", ".md"} or "lab" in path.parts:
                continue
            for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
                text = line if path.suffix == ".md" else " ".join(comment.findall(line))
                for name in named.findall(text):
                    if name not in endings:
                        problems.append(f"{path.relative_to(ROOT)}:{number}: there is no file {name}")


def end_of_call(text, at):
    """Behind the bracket that closes the one at `at`; brackets in texts and characters do not count."""
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'|[()]', text[at:]):
        depth += {"(": 1, ")": -1}.get(token.group(0), 0)
        if depth == 0:
            return at + token.end()
    return len(text)


def check_numbers():
    """A format that is not written where it is used may have any conversion."""
    call = re.compile(r"(?<!\w)(v?(?:as|sn|f|d|s|)printf|f?s?scanf|strto(?:d|f|ld)(?:_l)?|atof|strftime)(?=\()")
    names = re.compile(r"%[EO]?[aAbBcpPrxX]")
    real = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[lL]?[aefgAEFG]")
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        where = path.relative_to(ROOT / "src").as_posix()
        if where.startswith("cli/") or where in ("base/plain.c", "base/plain.h"):
            continue
        text = re.sub(r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment.group(0)), path.read_text(), flags=re.DOTALL)
        for found in call.finditer(text):
            name, end = found.group(1), end_of_call(text, found.end())
            said = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text[found.end() : end])).replace("%%", "")
            if said and not name.startswith(("v", "strto", "ato")) and not (names if name == "strftime" else real).search(said):
                continue
            line = text.count("\n", 0, found.start()) + 1
            problems.append(f"src/{where}:{line}: {name} depends on the locale; expected a function of base/plain.h")


check_types()
check_words()
check_numbers()
check_files()
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
