"""Tokenizers like those of published models, trained by the Python package `tokenizers`: the patterns, normalizers,
decoders and added tokens of each family, with a new vocabulary. For make_tokenizers.py and compare_tokenizers.py."""
import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + ENDS
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + ENDS
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + ENDS)
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + ENDS)


def special(content, **flags):
    return AddedToken(content, special=True, normalized=False, **flags)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)


def byte_level(texts, size, pre_tokenizer, normalizer=None, prefix=False, **model):
    """A byte-level vocabulary: trained by its own pre-tokenizer, then put into a fresh model."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        trained.normalizer = normalizer
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                                           initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return fresh(trained, [], normalizer, pre_tokenizer, decoders.ByteLevel(add_prefix_space=prefix), **model)


def with_bytes(texts, size, normalizer, pre_tokenizer, decoder, **model):
    """A vocabulary of the SentencePiece kind: <unk> <s> </s>, 256 bytes, then pieces."""
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.pre_tokenizer = split("▁*[^▁]*")  # tokens of several spaces, and none with a space inside
    texts = [text.replace("\0", "") for text in texts]  # Longspan's reader of JSON has no keys with NUL
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size - len(first), show_progress=False, limit_alphabet=size // 4))
    return fresh(trained, first, normalizer, pre_tokenizer, decoder, unk_token="<unk>", fuse_unk=True, byte_fallback=True, **model)


def fresh(trained, first, normalizer, pre_tokenizer, decoder, **model):
    parts = json.loads(trained.to_str())["model"]
    vocab = {token: i for i, token in enumerate(first)}
    for token, _ in sorted(parts["vocab"].items(), key=lambda item: item[1]):
        vocab.setdefault(token, len(vocab))
    made = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m) for m in parts["merges"]], **model))
    if normalizer is not None:
        made.normalizer = normalizer
    if pre_tokenizer is not None:
        made.pre_tokenizer = pre_tokenizer
    made.decoder = decoder
    return made


def begin_with(tokenizer, token):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token}:1 $B:1", special_tokens=[(token, tokenizer.token_to_id(token))])


def gpt2(texts, size):
    made = byte_level(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=False))
    made.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=True)])
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


def llama3(texts, size):
    steps = [split(LLAMA3), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    made = byte_level(texts, size, pre_tokenizers.Sequence(steps), ignore_merges=True)
    names = ["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(8)]
    made.add_special_tokens([special(name) for name in names])
    template = processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                             special_tokens=[("<|begin_of_text|>", made.token_to_id("<|begin_of_text|>"))])
    made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return made


def qwen2(texts, size):
    steps = [split(QWEN2), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    made = byte_level(texts, size, pre_tokenizers.Sequence(steps), normalizers.NFC())
    made.add_special_tokens([special(name) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    made.add_tokens([AddedToken(name, special=False, normalized=False) for name in ("<tool_call>", "</tool_call>")])
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


def o200k(texts, size):
    steps = [split(O200K), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    made = byte_level(texts, size, pre_tokenizers.Sequence(steps), ignore_merges=True)
    made.add_special_tokens([special("<|endoftext|>"), special("<|endofprompt|>")])
    return made


def deepseek(texts, size):
    steps = [split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    made = byte_level(texts, size, pre_tokenizers.Sequence(steps), normalizers.Sequence([]))
    made.add_special_tokens([special("<｜begin▁of▁sentence｜>"), special("<｜end▁of▁sentence｜>")])
    begin_with(made, "<｜begin▁of▁sentence｜>")
    return made


def llama2(texts, size):
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    before = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made = with_bytes(texts, size, before, None, decoders.Sequence(back))
    made.add_special_tokens([special("<unk>"), special("<s>"), special("</s>")])
    begin_with(made, "<s>")
    return made


def mistral3(texts, size):
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    space = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    made = with_bytes(texts, size, None, space, decoders.Sequence(back))
    made.add_special_tokens([special("<unk>"), special("<s>"), special("</s>"), special("[INST]"), special("[/INST]")])
    begin_with(made, "<s>")
    return made


def gemma(texts, size):
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made = with_bytes(texts, size, normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                      decoders.Sequence(back))
    made.add_special_tokens([special("<unk>"), special("<s>"), special("</s>"), special("<bos>"), special("<eos>")])
    plain = ["\n" * n for n in range(2, 8)] + ["▁" * n for n in range(2, 8)] + ["<table>", "</table>", "<unused0>"]
    made.add_tokens([AddedToken(name, special=False, normalized=False) for name in plain])
    begin_with(made, "<bos>")
    return made


def metaspace(texts, size):
    """Metaspace as pre-tokenizer and decoder, words apart; unknown characters one by one; added tokens of every kind."""
    made = with_bytes(texts, size, None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True),
                      decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")]))
    made.add_special_tokens([special("<unk>"), special("<s>"), special("</s>"), special("<mask>", lstrip=True)])
    made.add_tokens([AddedToken("the", single_word=True, normalized=True), AddedToken("<<", rstrip=True, normalized=False),
                     AddedToken(" of ", lstrip=True, rstrip=True, normalized=True), AddedToken("été", normalized=False)])
    return made


def rare(texts, size):
    """Steps that no known model puts together."""
    before = normalizers.Sequence([normalizers.Strip(), normalizers.NFKD(), normalizers.Lowercase(),
                                   normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("''", "")])
    steps = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.CharDelimiterSplit("_"), pre_tokenizers.CharDelimiterSplit("~"),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex(r"[aeiou]\w"), "contiguous"),
        pre_tokenizers.Split("th", "merged_with_next"), pre_tokenizers.Split(Regex(r"z|\d\d"), "removed", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=True)])
    made = byte_level(texts, size, steps, before, prefix=True)
    made.add_special_tokens([special("</s>", rstrip=True)])
    made.add_tokens([AddedToken("ÉTÉ", normalized=True), AddedToken("straße", single_word=True, normalized=True)])
    made.post_processor = processors.TemplateProcessing(single="</s> $A </s>", special_tokens=[("</s>", made.token_to_id("</s>"))])
    return made


FAMILIES = {f.__name__: f for f in (gpt2, llama3, qwen2, o200k, deepseek, llama2, mistral3, gemma, metaspace, rare)}
TEXT_MERGES = ("gpt2", "llama2", "rare")  # "a b", as files were written before the form of pairs


def to_json(name, tokenizer):
    document = json.loads(tokenizer.to_str())
    if name in TEXT_MERGES:
        document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def save(name, tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(to_json(name, tokenizer), encoding="utf-8")
    return Tokenizer.from_file(str(folder / "tokenizer.json"))
