"""Odd tokenizer.json for make_odd_tokenizers.py: every kind of step, flag and option once, and some together. Each is a name, the files, and words
of the refusal where Longspan has no rule for it."""
import json
import pathlib

from odd_folders import vocabulary

TRAINED = pathlib.Path(__file__).parent / "tokenizers"
BYTES = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
GPT2 = dict(BYTES, use_regex=True)
NO_RULE = "is not supported"


def byte_model(**options):
    vocab, merges = vocabulary("gpt2", 320)
    for token in ("<unk>", "</s>", "the"):
        vocab.setdefault(token, len(vocab))
    return dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                byte_fallback=False, ignore_merges=False, vocab=vocab, merges=merges) | options


def piece_model(**options):
    """A vocabulary of characters: <unk> <s> </s>, the bytes, then pieces."""
    model = json.loads((TRAINED / "llama2" / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    return dict(model, ignore_merges=False) | options


def letters_model(**options):
    """A few letters and no bytes: most characters are unknown."""
    vocab = {token: i for i, token in enumerate(["<unk>", *"abdefhilnorstTE ▁1235", "th", "the", "▁t", "ab"])}
    return dict(type="BPE", unk_token="<unk>", fuse_unk=False, byte_fallback=False, vocab=vocab,
                merges=["t h", "th e", "▁ t", "a b"]) | options


def added(content, **flags):
    return dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) | flags


def with_ids(tokens, vocab):
    """The ids that the library gives: those of the vocabulary, or the next behind it."""
    new = [token["content"] for token in tokens if token["content"] not in vocab]
    return [dict(id=vocab[token["content"]] if token["content"] in vocab else len(vocab) + new.index(token["content"]), **token) for token in tokens]


def document(model, added_tokens=(), **parts):
    empty = dict(truncation=None, padding=None, added_tokens=with_ids(added_tokens, model["vocab"]), normalizer=None, pre_tokenizer=GPT2, post_processor=None, decoder=BYTES)
    files = {"tokenizer.json": dict(version="1.0", **dict(empty, **parts), model=model)}
    return dict(files, **{"tokenizer_config.json": dict(eos_token="a")})


def sequence(field, *members):
    return {"type": "Sequence", field: list(members)}


def replace(pattern, content, kind="Regex"):
    return dict(type="Replace", pattern={kind: pattern}, content=content)


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return dict(type="Split", pattern={kind: pattern}, behavior=behavior, invert=invert)


def normalizers():
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        yield name, dict(type=name)
    for left in (True, False):
        yield f"Strip {left} {not left}", dict(type="Strip", strip_left=left, strip_right=not left)
    yield "Strip both", dict(type="Strip", strip_left=True, strip_right=True)
    yield "Replace the", replace("the", "THE ", "String")
    yield "Replace white space", replace(r"\s+", " ")
    yield "Replace words by nothing", replace(r"\w+", "")
    yield "Replace nothing by a", replace(r"(?=b)", "a")
    yield "Prepend", dict(type="Prepend", prepend=" x▁")
    yield "Sequence of NFD, marks away, Lowercase", sequence("normalizers", dict(type="NFD"), replace(r"\p{Mn}", ""), dict(type="Lowercase"))
    yield "Sequence of none", sequence("normalizers")
    yield "Sequences in a Sequence", sequence("normalizers", sequence("normalizers", dict(type="Strip", strip_left=True, strip_right=True)),
                                              sequence("normalizers", dict(type="Prepend", prepend="é"), dict(type="NFD")))
    yield "BertNormalizer", dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True), NO_RULE
    yield "StripAccents", dict(type="StripAccents"), NO_RULE
    yield "Nmt", dict(type="Nmt"), NO_RULE
    yield "ByteLevel as normalizer", dict(type="ByteLevel"), NO_RULE


def pre_tokenizers():
    yield "Whitespace", dict(type="Whitespace")
    yield "WhitespaceSplit", dict(type="WhitespaceSplit")
    yield "Digits", dict(type="Digits", individual_digits=False)
    yield "Digits apart", dict(type="Digits", individual_digits=True)
    yield "CharDelimiterSplit", dict(type="CharDelimiterSplit", delimiter="é")
    for i, behavior in enumerate(("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")):
        yield f"Split at vowels, {behavior}", split("[aeiou]", behavior)
        yield f"Split inverted, {behavior}", split("[aeiou]|\\s", behavior, invert=True)
        yield f"Split at a text, {behavior}", split(("th", "  ", "e")[i % 3], behavior, kind="String", invert=i % 2 == 1)
    yield "words of Split", split(r"\w+|[^\w\s]+", "Removed", invert=True)
    yield "no words", split(r"\W+")
    yield "letters that are no digits", split(r"[^\W\d_]+", "Contiguous")
    yield "marks", split(r"\p{Mc}|\p{Mn}+|\p{M}")
    yield "not letters, or a", split(r"[\P{L}a]+")
    yield "neither numbers nor Han", split(r"[^\P{Han}\p{N}]|\p{^Latin}+")
    yield "what is not in the tables", split(r"\p{Cn}+|\p{Common}")
    yield "any case", split(r"(?i:the|é|k|[^s]t|(x|a))s|ss")
    yield "any case, two letters for one", split(r"(?i:a|ss)"), NO_RULE
    yield "any case, one letter for two", split(r"(?i:[aß])"), NO_RULE
    yield "any case, capitals", split(r"(?i:[\p{Lu}])"), NO_RULE
    yield "looking about", split(r"(?<=[a-z])(?=[A-Z])|(?<!\w)\d|a(?!b)")
    yield "empty matches", split(r"x*")
    for behavior in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield f"Punctuation, {behavior}", dict(type="Punctuation", behavior=behavior)
    yield "BertPreTokenizer", dict(type="BertPreTokenizer"), NO_RULE
    yield "UnicodeScripts", dict(type="UnicodeScripts"), NO_RULE
    yield "FixedLength", dict(type="FixedLength", length=5), NO_RULE
    yield "a set in a set", split(r"[\w&&[^a]]"), "which is not supported"
    yield "a word's end", split(r"\b"), "which is not supported"
    yield "[:alpha:]", split(r"[[:alpha:]]"), "which is not supported"


def processors(s, e):
    def template(single, **specials):
        pieces = [{"Sequence": dict(id="A", type_id=0)} if part == "$A" else {"SpecialToken": dict(id=part, type_id=0)} for part in single.split()]
        return dict(type="TemplateProcessing", single=pieces, pair=pieces + [{"Sequence": dict(id="B", type_id=1)}],
                    special_tokens={name: dict(id=name, ids=ids, tokens=[str(i) for i in ids]) for name, ids in specials.items()})
    yield "Template", template("x $A y", x=[s], y=[e])
    yield "Template of several", template("x x $A y x", x=[s, 5], y=[e])
    yield "Template of none", template("$A")
    yield "Sequence of processors", sequence("processors", dict(BYTES), template("x $A y", x=[s], y=[e]))
    yield "BertProcessing", dict(type="BertProcessing", sep=["</s>", e], cls=["<unk>", s]), NO_RULE
    yield "RobertaProcessing", dict(type="RobertaProcessing", sep=["</s>", e], cls=["<unk>", s], trim_offsets=True, add_prefix_space=False), NO_RULE


def decoders():
    back = dict(type="Metaspace", replacement="▁", prepend_scheme="always", split=True)
    yield "Metaspace back", sequence("decoders", dict(type="ByteFallback"), back)
    yield "Metaspace back, never first", sequence("decoders", dict(type="ByteFallback"), dict(back, prepend_scheme="never"))
    yield "Llama 2's", sequence("decoders", replace("▁", " ", "String"), dict(type="ByteFallback"), dict(type="Fuse"),
                               dict(type="Strip", content=" ", start=1, stop=0))
    yield "Strip of both ends", sequence("decoders", dict(type="Strip", content="▁", start=1, stop=2))
    yield "Replace back by a pattern", sequence("decoders", replace("▁+|e", "_"), dict(type="ByteFallback"), dict(type="Fuse"))
    yield "no decoder", None
    yield "WordPiece back", dict(type="WordPiece", prefix="##", cleanup=True), NO_RULE
    yield "BPEDecoder", dict(type="BPEDecoder", suffix="</w>"), NO_RULE
    yield "CTC", dict(type="CTC", pad_token="<pad>", word_delimiter_token="|", cleanup=True), NO_RULE


def metaspaces():
    for scheme in ("first", "never", "always"):
        for parts in (True, False):
            yield f"Metaspace {scheme}, {'split' if parts else 'whole'}", dict(type="Metaspace", replacement="▁", prepend_scheme=scheme, split=parts)


def tokens():
    """Lists of added tokens, and the normalizer before them."""
    yield "lstrip", None, [added("<mask>", lstrip=True), added("<pad>")]
    yield "rstrip", None, [added("<mask>", rstrip=True), added("the", rstrip=True)]
    yield "both sides", None, [added("<mask>", lstrip=True, rstrip=True), added("é", lstrip=True, rstrip=True)]
    yield "single words", None, [added("the", single_word=True), added("²", single_word=True), added("b", single_word=True, special=False)]
    yield "single words and white space", None, [added("the", single_word=True, lstrip=True, rstrip=True)]
    yield "one in another", None, [added("<s>"), added("<s>a</s>"), added("s>"), added("</s")]
    yield "ab and ba", None, [added("ba"), added("aba"), added("bab"), added("abab", special=False)]
    yield "normalized, lower case", dict(type="Lowercase"), [added("ÉTÉ", normalized=True), added("The", normalized=True, special=False),
                                                           added("THE")]
    yield "normalized, white space", replace(r"\s+", " "), [added(" of  of", normalized=True, special=False), added("  ")]
    yield "normalized and not, the same place", dict(type="NFKC"), [added("ﬁ"), added("fi", normalized=True), added("Ⅷ", normalized=True)]
    yield "of one letter", None, [added("a"), added(" "), added("\n", special=False)]
    yield "that normalizing empties", replace("<.*?>", ""), [added("<pad>", normalized=True), added("<mask>")], "into 0 bytes"
    yield "with a prefix before them", dict(type="Prepend", prepend="▁"), [added("<mask>"), added("▁the", normalized=True)]


def models():
    yield "merges as texts", byte_model(merges=[" ".join(pair) for pair in byte_model()["merges"]])
    yield "no merges", byte_model(merges=[])
    yield "dropout 0", byte_model(dropout=0.0)
    yield "ignore_merges", byte_model(ignore_merges=True, merges=byte_model()["merges"][:20])
    yield "unk in a byte-level vocabulary without some bytes", byte_model(
        unk_token="<unk>", merges=[], vocab={t: i for i, t in enumerate(t for t in byte_model()["vocab"] if t not in ("e", "Ã", "Ġ"))})
    yield "dropout", byte_model(dropout=0.1), "random dropout of merges is not supported"
    yield "continuing_subword_prefix", byte_model(continuing_subword_prefix="##", merges=[]), "such vocabularies are not read"
    yield "end_of_word_suffix", byte_model(end_of_word_suffix="</w>", merges=[]), "such vocabularies are not read"
    yield "Unigram", dict(type="Unigram", unk_id=0, vocab=[["<unk>", 0.0], ["a", -1.0]], byte_fallback=False), 'model.type is "Unigram"'
    yield "WordPiece", dict(type="WordPiece", unk_token="a", continuing_subword_prefix="##", max_input_chars_per_word=100, vocab={"a": 0}), 'model.type is "WordPiece"'
    yield "WordLevel", dict(type="WordLevel", unk_token="a", vocab={"a": 0}), 'model.type is "WordLevel"'


def piece_models():
    yield "byte_fallback", piece_model()
    yield "byte_fallback, unknown ones apart", piece_model(fuse_unk=False)
    yield "no byte_fallback, unknown ones fused", piece_model(byte_fallback=False)
    yield "letters, unknown ones apart", letters_model()
    yield "letters, unknown ones fused", letters_model(fuse_unk=True)
    yield "letters, unknown ones left out", letters_model(unk_token=None)
    yield "letters, whole words first", letters_model(ignore_merges=True)


def made():
    n = len(byte_model()["vocab"])
    for name, step, *refusal in normalizers():
        yield "normalizer " + name, document(byte_model(), normalizer=step), *refusal
    for name, step, *refusal in pre_tokenizers():
        yield "pre-tokenizer " + name, document(byte_model(), pre_tokenizer=sequence("pretokenizers", step, BYTES)), *refusal
    for prefix in (True, False):
        for regex in (True, False):
            yield f"ByteLevel, prefix {prefix}, regex {regex}", document(byte_model(), pre_tokenizer=dict(BYTES, add_prefix_space=prefix, use_regex=regex))
    yield "ByteLevel before others", document(byte_model(), pre_tokenizer=sequence("pretokenizers", GPT2, dict(type="Whitespace"))), "expected it last"
    yield "prefix behind Whitespace", document(byte_model(), pre_tokenizer=sequence("pretokenizers", dict(type="Whitespace"), dict(BYTES, add_prefix_space=True)))
    for name, step, *refusal in processors(n - 2, n - 3):
        yield "post-processor " + name, document(byte_model(), post_processor=step), *refusal
    for name, step, *refusal in decoders():
        yield "decoder " + name, document(piece_model(), pre_tokenizer=None, normalizer=replace(" ", "▁", "String"), decoder=step), *refusal
    for name, step in metaspaces():
        yield name, document(piece_model(), pre_tokenizer=step, decoder=step)
        yield name + ", added tokens", document(piece_model(), pre_tokenizer=step, decoder=step,
                                                added_tokens=[added("<s>"), added("</s>", lstrip=True), added("the", rstrip=True)])
    for name, step, more, *refusal in tokens():
        yield "added tokens " + name, document(byte_model(), normalizer=step, added_tokens=more), *refusal
    for name, model, *refusal in models():
        yield "model " + name, document(model), *refusal
    for name, model in piece_models():
        yield "model " + name, document(model, pre_tokenizer=dict(type="Whitespace"), decoder=dict(type="Fuse"))
        yield "model " + name + ", no pre-tokenizer", document(model, pre_tokenizer=None, decoder=None)
    cut = dict(truncation=dict(direction="Right", max_length=4, strategy="LongestFirst", stride=0),
               padding=dict(strategy=dict(Fixed=9), direction="Right", pad_to_multiple_of=None, pad_id=0, pad_type_id=0, pad_token="a"))
    yield "truncation and padding", document(byte_model(), **cut)
