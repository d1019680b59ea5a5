#!/usr/bin/env python3
"""Checks that the files of a folder of src/ use each other in one direction, and prints each circle of files that do not.

A file uses another if it names a function, table or variable that the other defines and does not keep to itself (static). Headers do
not count. A folder is one of src/ with all below it. A circle is a set of files each of which uses, through others of it, all of it.
tools/circles.txt lists the circles that are allowed, each with its reason; one that is no more is reported too.

check-circles.py [ROOT]: the tree that this script lies in, unless told otherwise.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "tools/circles.txt"
# A text comes before a comment, so that what looks like a comment in it is none.
SILENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|/\*.*?\*/|//[^\n]*', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
# A member (a.name, a->name, .name =) is not a use. What is pasted together (ls_op_##name) uses all names of that beginning.
USE = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)[ \t]*(##)?|(?:(?<=->)|(?<=\.))\w+|>\s*([A-Za-z_]\w*)")
FUNCTION = re.compile(r"(\w+)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*$")
VARIABLE = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
# Of a file alone (also where a macro says so: V_INLINE), or no definition.
NOT_SHARED = re.compile(r"\bstatic\b|\w*INLINE\b|\b(?:typedef|extern|_Static_assert)\b|\s*(?:struct|union|enum)(?:\s+\w+)?\s*$")


def outer_pieces(text):
    """What stands outside all braces, declaration by declaration, and whether a body or a value in braces follows."""
    depth, piece = 0, ""
    for token in re.finditer(r"[{};]|[^{};]+", text):
        token = token.group(0)
        if token == "{":
            if depth == 0:
                yield piece, True
            depth += 1
        elif token == "}":
            depth -= 1
            piece = ""
        elif depth == 0 and token == ";":
            if piece.strip():
                yield piece, False
            piece = ""
        elif depth == 0:
            piece += token


def defined_names(text):
    own = False
    for piece, braces in outer_pieces(DIRECTIVE.sub("", text)):
        head, assigned, _ = piece.strip().partition("=")
        if not head.startswith(","):  # else a further variable of the declaration before
            own = bool(NOT_SHARED.match(head) or re.match(r"[^(]*\bstatic\b", head))
        if own:
            continue
        found = FUNCTION.search(head)
        if found and braces and not assigned:
            yield found.group(1)
        elif not found and len(head.split()) > 1:
            found = VARIABLE.search(head)
            if found and (assigned or not braces):
                yield found.group(1)


def used_names(text):
    """Names, and beginnings of names that are pasted together."""
    names, beginnings = set(), set()
    for found in USE.finditer(text):
        name = found.group(1) or found.group(3)
        if name:
            (beginnings if found.group(2) else names).add(name)
    return names, beginnings


def shared_length(one, other):
    """How many folders two paths have in common: of files that define one name, the nearest is meant."""
    n = 0
    while n < min(len(one.parts), len(other.parts)) - 1 and one.parts[n] == other.parts[n]:
        n += 1
    return n


def uses_between(files):
    """For each file, the other files that it uses, with the names."""
    texts = {path: SILENT.sub(" ", path.read_text(encoding="utf-8")) for path in files}
    definers = {}
    for path, text in texts.items():
        for name in defined_names(text):
            definers.setdefault(name, set()).add(path)
    uses = {path: {} for path in files}
    for path, text in texts.items():
        names, beginnings = used_names(text)
        for beginning in beginnings:
            names |= {name for name in definers if name.startswith(beginning)}
        for name in names & definers.keys():
            nearest = max(shared_length(path, other) for other in definers[name])
            others = {other for other in definers[name] if shared_length(path, other) == nearest}
            for other in others if path not in others else ():
                uses[path].setdefault(other, set()).add(name)
    return uses


def reached(uses, start):
    seen, waiting = set(), [start]
    while waiting:
        for other in uses[waiting.pop()]:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def circles(uses):
    reach = {path: reached(uses, path) for path in uses}
    found = {frozenset(other for other in reach[path] if path in reach[other]) for path in uses if path in reach[path]}
    return sorted(found, key=lambda circle: sorted(circle))


def shortest_walk(uses, circle):
    """From one of its files back to it, over the fewest files."""
    best = None
    for start in circle:
        walks = [[start]]
        for walk in walks:
            if len(walk) > 1 and walk[-1] == start:
                best = walk if best is None or len(walk) < len(best) else best
                break
            walks += [walk + [other] for other in sorted(uses[walk[-1]]) if other in circle and other not in walk[1:]]
            if best and len(walk) >= len(best):
                break
    return best


def allowed_circles():
    """Lines `FILE FILE ...: reason`; # begins a comment."""
    allowed = {}
    lines = ALLOWED.read_text(encoding="utf-8").split("\n") if ALLOWED.exists() else []
    for number, line in enumerate(lines, 1):
        files, _, reason = line.partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not reason.strip():
            sys.exit(f"{ALLOWED.relative_to(ROOT)}:{number}: no reason; expected FILE FILE ...: reason")
        allowed[frozenset(ROOT / "src" / name for name in files.split())] = number
    return allowed


def main():
    allowed = allowed_circles()
    problems = 0
    for folder in sorted(path for path in (ROOT / "src").iterdir() if path.is_dir()):
        uses = uses_between(sorted(path for path in folder.rglob("*") if path.suffix in (".c", ".cu")))
        for circle in circles(uses):
            if allowed.pop(circle, None):
                continue
            problems += 1
            print(f"a circle in src/{folder.name}: {' '.join(path.relative_to(ROOT / 'src').as_posix() for path in sorted(circle))}")
            walk = shortest_walk(uses, sorted(circle))
            for path, other in zip(walk, walk[1:]):
                print(f"  {path.relative_to(ROOT)} uses {', '.join(sorted(uses[path][other]))} of {other.relative_to(ROOT)}")
    for circle, number in allowed.items():
        problems += 1
        print(f"{ALLOWED.relative_to(ROOT)}:{number}: there is no such circle")
    sys.exit(1 if problems else 0)


main()
