#!/usr/bin/env python3
"""Exported folders against the reference library: models that it wrote are read, and what Longspan writes it loads.

    export.py BUILD          (tests/test_reference_export.sh, where Python has the packages; written with torch 2.15, transformers 5.23,
                              tokenizers 0.23)

For small random Llamas in float32, bfloat16 and float16, in one file and in shards, tied and untied:
- after a training that changes nothing (a learning rate of 1e-30) on 2 ranks the exported tensors have the same bits;
- after a real one the library loads the folder without missing or unexpected tensors, and loss and all gradients are those of
  `longspan grad` on the same folder (loss 1e-5; gradients 1e-4 of their norm);
- generation config and tokenizer load from the folder.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import safetensors.torch
import tokenizers
import torch
import transformers

LONGSPAN = str(pathlib.Path(sys.argv[1]).resolve() / "longspan")
TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def longspan(*words):
    done = subprocess.run([LONGSPAN, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: longspan {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def make_model(folder, dtype, tied, shard_size):
    """Without a padding token: the library starts its row at 0, which even a rate of 1e-30 changes, and makes no gradient of it."""
    config = transformers.LlamaConfig(
        vocab_size=257, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=128, tie_word_embeddings=tied, bos_token_id=1, eos_token_id=[2, 3])
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(config).to(dtype)
    model.save_pretrained(folder, max_shard_size=shard_size)
    return model


def train(model, out, lr):
    text = out.parent / "text.txt"
    text.write_text("".join(f"line {i} of a text that is long enough\n" for i in range(400)))
    longspan("train", "--model", model, "--data", text, "--seq", 32, "--steps", 2, "--lr", lr, "--weight-decay", 0, "--ranks", 2,
             "--threads", 1, "--out", out)


def tensors_of(folder):
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        found.update(safetensors.torch.load_file(file))
    return found


def check_same_bits(model, exported):
    before, after = tensors_of(model), tensors_of(exported)
    before.pop("lm_head.weight", None) if "lm_head.weight" not in after else None
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype, name
        assert torch.equal(tensor.view(torch.uint8), after[name].view(torch.uint8)), f"{name}: other bits"


def check_loads(folder, dtype):
    """The folder as the library sees it, in float32, against `longspan grad`."""
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    written = transformers.AutoConfig.from_pretrained(folder).dtype
    assert written in (dtype, str(dtype).removeprefix("torch.")), written
    assert transformers.GenerationConfig.from_pretrained(folder).eos_token_id == [2, 3]
    ids = numpy.random.default_rng(3).integers(0, 257, (2, 48), dtype=numpy.int32)
    numpy.save(folder.parent / "ids.npy", ids)
    made = json.loads(longspan("grad", "--model", folder, "--tokens", folder.parent / "ids.npy", "--out",
                               folder.parent / "g.safetensors", "--ranks", 2, "--threads", 1, "--json"))
    tokens = torch.tensor(ids, dtype=torch.long)
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    assert abs(made["loss"] / loss.item() - 1) < 1e-5, (made["loss"], loss.item())
    gradients = safetensors.torch.load_file(folder.parent / "g.safetensors")
    worst = 0
    for name, parameter in model.named_parameters():
        error = (gradients[name] - parameter.grad).norm() / parameter.grad.norm()
        worst = max(worst, error.item())
        assert error < 1e-4, (name, error.item())
    return loss.item(), made["loss"], worst


def check_tokenizer(folder, run, out):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=257, special_tokens=["<s>"],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(["some text"], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")
    fast.chat_template = "{{ messages[0].content }}"
    fast.save_pretrained(folder)
    said = longspan("checkpoint", "export", run, "--out", out, "--json")
    carried = json.loads(said)["carried"]
    loaded = transformers.AutoTokenizer.from_pretrained(out)
    text = "some text, and ünïcode"
    assert loaded(text)["input_ids"] == fast(text)["input_ids"]
    assert loaded.chat_template == fast.chat_template
    return carried


def main():
    for dtype, name in TYPES.items():
        for tied, shard_size in ((False, "20KB"), (True, "5GB")):
            with tempfile.TemporaryDirectory() as scratch:
                scratch = pathlib.Path(scratch)
                make_model(scratch / "model", dtype, tied, shard_size)
                files = len(list((scratch / "model").glob("*.safetensors")))
                train(scratch / "model", scratch / "same", 1e-30)
                check_same_bits(scratch / "model", scratch / "same/model")
                train(scratch / "model", scratch / "run", 1e-3)
                carried = check_tokenizer(scratch / "model", scratch / "run", scratch / "out")
                longspan("checkpoint", "export", scratch / "run", "--out", scratch / "sharded", "--shard-size", "20K")
                for folder in (scratch / "run/model", scratch / "out", scratch / "sharded"):
                    reference, ours, worst = check_loads(folder, dtype)
                print(f"{name} {'tied' if tied else 'untied'}, {files} files: same bits; loss {ours:.7f}, reference {reference:.7f}, "
                      f"gradients within {worst:.1e}; carried {carried}")


main()
