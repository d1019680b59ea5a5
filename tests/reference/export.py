#!/usr/bin/env python3
"""Exported folders against the reference library: Longspan reads models that the library wrote, and the library loads folders that Longspan writes.

    export.py BUILD [WORD]   (tests/checkpoint/test_reference_export.sh, where Python has the packages; written with torch 2.15, transformers 5.23,
                              tokenizers 0.23)

For each model of live_models.py, and of each architecture in float32, bfloat16 and float16, in one file and in shards, tied and untied:
- after a training that changes nothing (a learning rate of 1e-30) on 2 ranks the exported tensors have the same bits;
- after a real training the library loads the folder that it exported, and the folder that `longspan checkpoint export` makes of its checkpoint,
  without missing or unexpected tensors, with the same logits, loss and gradients as Longspan (within the bounds of live_models.py);
- config.json keeps all its fields, unknown ones too; generation config and tokenizer load from the folder;
- other types are rounded as the library rounds them.
"""
import json
import pathlib
import sys
import tempfile

import tokenizers
import torch
import transformers
from live_models import FIRST_OF_ITS_KIND, MODELS, WORD, check_same, longspan, random_ids, tensors_of, write_model

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve() / "longspan")
# dtype, tied, shard size. The first is that of all models, the others of the first one of each architecture.
VARIANTS = ((torch.float32, False, "20KB"), (torch.bfloat16, True, "5GB"), (torch.float16, False, "5GB"), (torch.float32, True, "20KB"))
FLAGS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def train(model, out, lr):
    text = out.parent / "text.txt"
    text.write_text("".join(f"line {i} of a text that is long enough\n" for i in range(400)))
    longspan(PROGRAM, "train", "--model", model, "--data", text, "--seq", 40, "--steps", 2, "--lr", lr, "--weight-decay", 0, "--ranks", 2,
             "--threads", 1, "--out", out)


def check_same_bits(model, exported):
    before, after = tensors_of(model), tensors_of(exported)
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype, name
        assert torch.equal(tensor.view(torch.uint8), after[name].view(torch.uint8)), f"{name}: other bits"


def check_config(model, exported, dtype):
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (model, exported))
    assert after.pop("dtype") == str(dtype).removeprefix("torch."), after
    before = before.get("text_config", before)
    before.pop("dtype", None)
    if "architectures" not in before:  # it was wrapped
        for key in ("architectures", "tie_word_embeddings"):
            before.pop(key, None), after.pop(key)
    assert before == after and "our_own" in after, (before, after)
    assert transformers.GenerationConfig.from_pretrained(exported).eos_token_id == [2, 3]


def write_tokenizer(folder):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=257, special_tokens=["<s>"],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(["some text"], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")
    fast.chat_template = "{{ messages[0].content }}"
    fast.save_pretrained(folder)
    return fast


def check_tokenizer(folder, fast):
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    text = "some text, and ünïcode"
    assert loaded(text)["input_ids"] == fast(text)["input_ids"]
    assert loaded.chat_template == fast.chat_template


def check_types(run, scratch):
    longspan(PROGRAM, "checkpoint", "export", run, "--out", scratch / "f32", "--dtype", "f32")
    masters = tensors_of(scratch / "f32")
    for dtype, flag in FLAGS.items():
        longspan(PROGRAM, "checkpoint", "export", run, "--out", scratch / flag, "--dtype", flag, "--shard-size", "30K")
        check_config(run / "model", scratch / flag, dtype)
        for name, tensor in tensors_of(scratch / flag).items():
            assert torch.equal(tensor, masters[name].to(dtype)), (name, flag)


def check(name, dtype, tied, shard_size, scratch):
    model, run = scratch / "model", scratch / "run"
    write_model(model, name, dtype, tied, shard_size)
    files = len(list(model.glob("*.safetensors")))
    assert (files > 1) == (shard_size != "5GB"), files
    train(model, scratch / "same", 1e-30)
    check_same_bits(model, scratch / "same/model")
    fast = write_tokenizer(model)
    train(model, run, 1e-3)
    longspan(PROGRAM, "checkpoint", "export", run, "--out", scratch / "sharded", "--shard-size", "20K")
    for folder in (run / "model", scratch / "sharded"):
        measured = check_same(PROGRAM, folder, random_ids(263))
        check_config(model, folder, dtype)
        check_tokenizer(folder, fast)
    if dtype == torch.float32 and not tied:
        check_types(run, scratch)
    print(f"{name}, {FLAGS[dtype]}, {'tied' if tied else 'untied'}, {files} files: same bits; logits within %.1e, gradients %.1e" % measured)


def main():
    for name in (name for name in MODELS if WORD in name):
        for dtype, tied, shard_size in VARIANTS if name in FIRST_OF_ITS_KIND else VARIANTS[:1]:
            if tied and name == "nemotron_h":
                continue  # the library ties no head there
            with tempfile.TemporaryDirectory() as scratch:
                check(name, dtype, tied, shard_size, pathlib.Path(scratch))


main()
