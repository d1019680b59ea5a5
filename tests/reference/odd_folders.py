"""Folders with vocab.json and merges.txt and no tokenizer.json, as versions 4 and 5 of the Python package `transformers` write them, for
make_odd_tokenizers.py: a name, the files, and words of the refusal where Longspan does not read it."""
import json
import pathlib

TRAINED = pathlib.Path(__file__).parent / "tokenizers"
END = "<|endoftext|>"
ADDED = dict(lstrip=False, normalized=False, rstrip=False, single_word=False, special=True)


def vocabulary(family, size=330):
    """The model of a stored tokenizer, without the longest tokens: the merges that are left make the others."""
    model = json.loads((TRAINED / family / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    pairs = pairs[:size - 256]
    made = {left + right for left, right in pairs}
    tokens = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1]) if len(token) == 1 or token in made]
    return {token: i for i, token in enumerate(tokens)}, pairs


def files(family, end="\n", header="#version: 0.2\n", more=(), **others):
    vocab, pairs = vocabulary(family)
    for token in more:
        vocab[token] = len(vocab)
    merges = (header + "".join(f"{left} {right}\n" for left, right in pairs)).replace("\n", end)
    return {"vocab.json": vocab, "merges.txt": merges, **{name + ".json": value for name, value in others.items()}}


def token(content, **flags):
    return {"content": content, **dict(ADDED, **flags)}


def named(**further):
    return dict(dict(bos_token=END, eos_token=END, unk_token=END), **further)


def folders():
    size = len(vocabulary("gpt2")[0])
    gpt2, qwen2 = dict(tokenizer_class="GPT2Tokenizer"), dict(tokenizer_class="Qwen2Tokenizer")
    yield "gpt2", files("gpt2", more=[END], tokenizer_config=dict(gpt2, **named()), special_tokens_map=named())
    yield "gpt2 by its model_type", files("gpt2", more=[END], config=dict(model_type="gpt2"))
    yield "gpt2 fast, end of text behind the vocabulary", files("gpt2", tokenizer_config=dict(tokenizer_class="GPT2TokenizerFast"))
    yield "gpt2, a space before, bos around", files("gpt2", more=[END], tokenizer_config=dict(
        gpt2, add_prefix_space=True, add_bos_token=True, **named()))
    yield "gpt2, bos and eos around, another bos", files("gpt2", more=[END], tokenizer_config=dict(
        gpt2, add_bos_token=True, add_eos_token=True, **named(bos_token="<s>")))
    yield "gpt2, objects in special_tokens_map", files(
        "gpt2", more=[END, "<mask>"], tokenizer_config=gpt2,
        special_tokens_map=dict(named(bos_token=dict(content=END, lstrip=False, normalized=True, rstrip=False, single_word=False)),
                                mask_token=dict(content="<mask>", lstrip=True, normalized=False, rstrip=True, single_word=False)))
    yield "gpt2, added_tokens.json", files("gpt2", more=[END], tokenizer_config=dict(gpt2, pad_token="<pad>"), special_tokens_map=named(),
                                           added_tokens={"isn't": size + 3, "<pad>": size + 1, " of": size + 2})
    yield "gpt2, an added token that has another id in vocab.json", files("gpt2", more=[END], tokenizer_config=gpt2, added_tokens={
        "the": size + 1}), "expected 266, the id that"
    yield "gpt2, added_tokens_decoder", files("gpt2", more=[END], tokenizer_config=dict(
        gpt2, **named(pad_token="<pad>", additional_special_tokens=["<mask>", "<pad>"]),
        added_tokens_decoder={str(size): token(END), str(size + 2): token("theory", special=False, normalized=True, single_word=True),
                              str(size + 1): token("<pad>", rstrip=True)}))
    yield "gpt2, lines ended by CR and LF, no header", files("gpt2", end="\r\n", header="", more=[END], tokenizer_config=gpt2)
    yield "gpt2, null for unk and bos", files("gpt2", tokenizer_config=dict(gpt2, bos_token=None, unk_token=None, eos_token="</s>"))
    yield "qwen2", files("qwen2", tokenizer_config=dict(
        qwen2, add_prefix_space=False, bos_token=None, eos_token="<|im_end|>", pad_token=END, unk_token=None, split_special_tokens=False,
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        added_tokens_decoder={str(size + i): token(text) for i, text in enumerate([END, "<|im_start|>", "<|im_end|>"])}))
    yield "qwen3 by its model_type", files("qwen2", config=dict(model_type="qwen3"))
    yield "qwen2, added tokens that are text", files("qwen2", tokenizer_config=dict(
        qwen2, eos_token=END, added_tokens_decoder={str(size): token(END), str(size + 1): token("ÉTÉ", special=False, normalized=True),
                                                    str(size + 2): token("<mask>", special=False, lstrip=True)}))
    yield "roberta", files("gpt2", tokenizer_config=dict(tokenizer_class="RobertaTokenizer")), 'tokenizer_class is "RobertaTokenizer"'
    yield "no class", files("gpt2"), "names none"
    yield "model_type of another class", files("gpt2", config=dict(model_type="llama")), 'model_type is "llama"'
    yield "split special tokens", files("gpt2", tokenizer_config=dict(gpt2, split_special_tokens=True)), "split_special_tokens is true"
    yield "an id that another token has", files("gpt2", tokenizer_config=dict(gpt2, added_tokens_decoder={"0": token(END)})), 'id is 0'
    yield "a merge of nothing", files("gpt2", header="#version\na b c\n", tokenizer_config=gpt2), "two tokens with a space between them"
    yield "vocab.json alone", {"vocab.json": {"a": 0}}, "vocab.json is not read by itself"
    yield "merges.txt alone", {"merges.txt": "a b\n"}, "merges.txt is not read by itself"
    yield "a vocabulary of word pieces", {"vocab.txt": "a\n", "config.json": dict(vocab_size=256)}, "vocab.txt is not read by itself"
    yield "tekken", {"tekken.json": {}}, "tekken.json is not read by itself"
    yield "no tokenizer", {"config.json": dict(vocab_size=32000)}, "no tokenizer in"
