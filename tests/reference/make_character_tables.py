#!/usr/bin/env python3
"""Makes src/text/character_tables_impl.h and src/text/pattern_tables_impl.h: the characters of classes as the Python package `tokenizers` has them.

    make_character_tables.py

Made with tokenizers 0.23.3 and PCRE2 10.42 (Unicode 14). The library has Unicode 16 in expressions, 17 in Rust's own functions, and older ones
in what it calls punctuation.
"""
import pathlib
import subprocess

import library_classes as library

SOURCE = pathlib.Path(__file__).parents[2] / "src" / "text"


def pairs(found):
    return ", ".join(f"{{0x{first:x}, 0x{last:x}}}" for first, last in found)


def write(name, comment, guard, body):
    path = SOURCE / name
    made = "Made by tests/reference/make_character_tables.py; not to be edited."
    path.write_text(f"/*\n * {comment}\n * {made}\n */\n#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stdint.h>\n\n{body}\n#endif\n")
    subprocess.run(["clang-format", "-i", str(path)], check=True)


def write_characters():
    step = library.steps
    parts = ["typedef struct ls_code_range {\nuint32_t first, last;\n} ls_code_range;\n\n"]
    for name, comment, found in (("words", "Letters, marks, decimal digits, connectors, the two joiners.", library.joined(step("Whitespace"))),
                                 ("numbers", "Nd, Nl, No.", library.apart(step("Digits", individual_digits=False))),
                                 ("punctuation", "ASCII's, and P of an older Unicode.", library.apart(step("Punctuation", behavior="isolated")))):
        parts.append(f"/* {comment} */\nstatic const ls_code_range {name}[] = {{{pairs(library.ranges(found))}}};\n\n")
    rows = ", ".join(f"{{0x{first:x}, 0x{last:x}, {step}, {distance}}}" for first, last, step, distance in library.lower_case())
    parts.append("/* Every step-th character from first to last has its lower case at that distance. U+0130, which becomes two, is none of them. */\n"
                 f"static const struct {{\nuint32_t first, last;\nint16_t step;\nint32_t distance;\n}} lower[] = {{{rows}}};\n")
    write("character_tables_impl.h", "text: characters as Rust's functions know them, which the reference library asks.", "LS_TEXT_CHARACTER_TABLES_IMPL_H", "".join(parts))


def differences(name, pattern, base, more):
    """Rows of what the library's class has beside PCRE2's; and, but for what `more` of other rows takes care of, what it has not."""
    theirs, ours = set(library.matches(pattern)), set(library.pcre2_matches(base))
    rows = [(name, "false", *found) for found in library.ranges(sorted(theirs - ours))] if more else []
    return rows + [(name, "true", *found) for found in library.ranges(sorted(ours - theirs))]


def write_patterns():
    rows = differences("w", r"[\w]", library.WORD, True)
    for name in library.CATEGORIES:
        rows += differences(name, rf"\p{{{name}}}", rf"\p{{{name}}}", len(name) == 2)
    for name in library.SCRIPTS:
        rows += differences(name, rf"\p{{{name}}}", rf"\p{{sc:{name}}}", True)
    body = "".join(
        f"/* {comment} */\nstatic const char *const {array}[] = {{{', '.join(chr(34) + name + chr(34) for name in names)}}};\n\n"
        for array, comment, names in (("categories", "Names that are known.", library.CATEGORIES), ("scripts", "Scripts that are known.", library.SCRIPTS)))
    body += ("/* Those of a category of two letters are in that of its first letter too. w: the class of \\\\w. gone: PCRE2 has them, the library has not. */\n"
             "static const struct {\nconst char *name;\nbool gone;\nuint32_t first, last;\n} differences[] = {"
             + ", ".join(f'{{"{name}", {gone}, 0x{first:x}, 0x{last:x}}}' for name, gone, first, last in rows) + "};\n")
    write("pattern_tables_impl.h", "text: where classes of the reference library's expressions (Unicode 16) differ from PCRE2 10.42's (Unicode 14).",
          "LS_TEXT_PATTERN_TABLES_IMPL_H", body)


write_characters()
write_patterns()
