"""Texts for comparing tokenizers, as bytes: texts of this machine in many languages, and generated ones with a fixed seed."""
import gettext
import pathlib
import random
import unicodedata

LANGUAGES = ["ar", "zh_CN", "zh_TW", "ja", "ko", "ru", "el", "he", "hi", "th", "vi", "de", "fr", "tr", "fa", "ta", "bn"]


def catalogs(limit):
    """Messages of the system's programs, by language."""
    for language in LANGUAGES:
        parts, size = [], 0
        for path in sorted(pathlib.Path("/usr/share/locale").glob(f"{language}/LC_MESSAGES/*.mo")):
            try:
                with open(path, "rb") as file:
                    messages = gettext.GNUTranslations(file)._catalog
            except (OSError, UnicodeDecodeError, ValueError):
                continue
            text = "\n".join(str(value) for _, value in sorted(messages.items(), key=str))
            parts.append(text)
            size += len(text.encode())
            if size > limit:
                break
        if parts:
            yield "\n".join(parts).encode()[:limit]


def files(patterns, limit):
    size = 0
    for pattern in patterns:
        for path in sorted(pathlib.Path("/").glob(pattern)):
            if size > limit:
                return
            try:
                data = path.read_bytes()[:200000]
            except OSError:
                continue
            size += len(data)
            yield data


def assigned():
    """Characters that Unicode 14 has, so that libraries with later tables and with these agree on what they are."""
    return [c for c in map(chr, range(1, 0x30000)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]


def chinese(rng, n):
    common = [chr(c) for c in range(0x4e00, 0x9fa5)][:3000] + list("的一是不了人我在有他这中大来上国" * 100)
    return "".join(rng.choice(common) + ("，。！？、\n"[rng.randrange(6)] if rng.random() < 0.1 else "") for _ in range(n))


def arabic(rng, n):
    letters = [chr(c) for c in range(0x621, 0x64b)] + ["\u064e", "\u0650", "\u0651"]
    return " ".join("".join(rng.choices(letters, k=rng.randrange(1, 9))) for _ in range(n))


def emoji(rng, n):
    faces = [chr(c) for c in range(0x1f300, 0x1f650)] + [chr(c) for c in range(0x1f900, 0x1fa00)]
    joined = ["👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵", "👍🏽", "❤️", "1️⃣", "☕️"]
    return "".join(rng.choice(joined if rng.random() < 0.3 else faces) + (" " if rng.random() < 0.3 else "") for _ in range(n))


def marks(rng, n):
    """Letters with marks in every order, Hangul in parts, compatibility characters: what normal forms change."""
    letters = "aeioucnszAEIOU" + "".join(chr(c) for c in range(0x1100, 0x1113)) + "ﬁﬂ①½㎏ｱﾞＡ２" + "éüñÅ각힣"
    above = [chr(c) for c in range(0x300, 0x345)] + [chr(c) for c in list(range(0x1161, 0x1176)) + list(range(0x11a8, 0x11c3))]
    return "".join(rng.choice(letters) + "".join(rng.choices(above, k=rng.randrange(4))) + (" " if rng.random() < 0.2 else "") for _ in range(n))


def broken(rng, text):
    """Valid text with bytes changed, cut and put in."""
    data = bytearray(text)
    for _ in range(max(4, len(data) // 40)):
        at = rng.randrange(len(data))
        kind = rng.randrange(3)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randrange(1, 4)]
        else:
            data[at:at] = rng.choice([b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\x80"])
    return bytes(data)


def added(rng, n):
    """The contents of added tokens among words, with white space on either side."""
    names = ["<|endoftext|>", "<|begin_of_text|>", "<|im_start|>", "<s>", "</s>", "<unk>", "<mask>", "<bos>", "[INST]", "<tool_call>", "the",
             "other", "of", "<<", "été", "ÉTÉ", "straße", "straßen", "▁▁▁", "\n\n\n", "<table>", "<|end", "<0x0A>", "<｜begin▁of▁sentence｜>"]
    return "".join(rng.choice(names) + rng.choice(["", " ", "  ", "\n", "\t ", "x", "_", "."]) for _ in range(n))


def made(rng, scale):
    """Generated texts; scale 1 is about 40 KB."""
    every = assigned()
    yield chinese(rng, 1500 * scale).encode()
    yield arabic(rng, 700 * scale).encode()
    yield emoji(rng, 700 * scale).encode()
    yield marks(rng, 800 * scale).encode()
    yield "".join(rng.choices(every, k=1200 * scale)).encode()
    yield broken(rng, (chinese(rng, 200 * scale) + arabic(rng, 100 * scale) + emoji(rng, 100 * scale)).encode())
    yield bytes(rng.randrange(256) for _ in range(600 * scale))
    yield bytes(rng.choice(b"\x00\x01\x07\x08\x0b\x0c\r\n\x1b\x7f ab\xc2\x85\xc2\xa0\xe2\x80\xa8") for _ in range(600 * scale))
    yield added(rng, 300 * scale).encode()
    yield "".join(rng.choice([" ", "  ", "\t", "\n", "\r\n", " \n", "\u3000", "\u00a0", "a", "1", "9", "'s", "'LL", ".", "…"]) for _ in range(1500 * scale)).encode()


def long_words(rng, n):
    """Words without an end."""
    yield b"a" * n
    yield bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyz") for _ in range(n))
    yield bytes(rng.choice(b"ACGT") for _ in range(n // 2))
    yield b" " * (n // 4) + b"x"
    yield b"\n" * (n // 4)
    yield b"=-" * (n // 4)
    yield chinese(rng, n // 6).replace("\n", "").encode()
    yield bytes(rng.choice(b"0123456789") for _ in range(n // 4))
