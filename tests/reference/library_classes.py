"""The characters in the classes of the Python package `tokenizers` and of PCRE2, for make_characters.py."""
import ctypes
import functools

from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [code for code in range(0x110000) if not 0xd800 <= code < 0xe000]
TEXT = "".join(map(chr, CODES))
CATEGORIES = "C Cc Cf Cn Co L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs".split()
SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo Brahmi Braille
Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic
Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati
Gunjala_Gondi Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu
Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui
Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari New_Tai_Lue Newa Nko Nushu
Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic
Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada
Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri
Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi
Zanabazar_Square""".split()
WORD = r"[\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]"  # as pattern_dialect.c writes \w


def ranges(codes):
    found = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def matches(pattern):
    """The characters that an expression for one of them has in the library."""
    step = pre_tokenizers.Split(Regex(f"{pattern}+"), behavior="removed", invert=True)
    found = []
    for at in range(0, len(TEXT), 2048):
        for _, (first, end) in step.pre_tokenize_str(TEXT[at:at + 2048]):
            found += CODES[at + first:at + end]
    return found


@functools.cache
def utf8():
    places, at = {}, 0
    for code in CODES:
        places[at] = code
        at += len(chr(code).encode())
    return TEXT.encode(), places


def pcre2_matches(pattern):
    """The same in PCRE2."""
    library = ctypes.CDLL("libpcre2-8.so.0")
    for name in ("pcre2_compile_8", "pcre2_match_data_create_8"):
        getattr(library, name).restype = ctypes.c_void_p
    library.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
    text, places = utf8()
    utf, number, place = ctypes.c_uint32(0x00080000), ctypes.c_int(), ctypes.c_size_t()
    code = library.pcre2_compile_8(f"{pattern}+".encode(), ctypes.c_size_t(len(pattern) + 1), utf, ctypes.byref(number), ctypes.byref(place), None)
    assert code, pattern
    data = ctypes.c_void_p(library.pcre2_match_data_create_8(ctypes.c_uint32(1), None))
    vector, found, start = library.pcre2_get_ovector_pointer_8(data), [], 0
    while library.pcre2_match_8(ctypes.c_void_p(code), text, ctypes.c_size_t(len(text)), ctypes.c_size_t(start), ctypes.c_uint32(0x40000000), data, None) > 0:
        start = vector[1]
        found += map(ord, text[vector[0]:start].decode())
    return found


def steps(kind, **options):
    return getattr(pre_tokenizers, kind)(**options)


def joined(step):
    """The characters that stay in one piece with an "a" before them."""
    return [code for code in CODES if [place for _, place in step.pre_tokenize_str("a" + chr(code))] == [(0, 2)]]


def apart(step):
    return [code for code in CODES if len(step.pre_tokenize_str("a" + chr(code))) == 2]


def lower_case():
    """Rows of first, last, step, distance; and the characters that become two."""
    lower, rows, longer = normalizers.Lowercase(), [], []
    for code in CODES:
        text = lower.normalize_str(chr(code))
        if text == chr(code):
            continue
        if len(text) > 1:
            longer.append(code)
            continue
        distance = ord(text) - code
        if rows and rows[-1][3] == distance and (code - rows[-1][1] == rows[-1][2] or (rows[-1][0] == rows[-1][1] and code - rows[-1][1] <= 2)):
            rows[-1][1:3] = code, code - rows[-1][1]
        else:
            rows.append([code, code, 1, distance])
    assert longer == [0x130], longer
    return rows
