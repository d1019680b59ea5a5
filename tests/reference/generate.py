#!/usr/bin/env python3
"""Greedy generation and evaluation against the Hugging Face library.

    generate.py stored BUILD       `longspan generate` on tests/reference/models/ against the tokens stored there, and `longspan eval`
                                   against the logits; needs Python alone
    generate.py live BUILD         the same on larger random models against the library itself, on 1, 2 and 4 ranks
    generate.py make [NAME...]     stores expected*/generated.json beside the logits: {"prompt": ids, "tokens": ids, "margin": the least
                                   difference of the two largest logits}. Made with torch 2.15.0, transformers 5.23.0.

Prompts are longer than the windows, and sequences grow beyond the length that dynamic rope scaling begins at. A tokenizer of one letter
for each id stands between the ids and the command line.
"""
import array
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent / "models"
PROMPT, TOKENS = 15, 16  # GPT-2's, with 24 positions: 10 tokens
ROPES = {"expected": None, "expected-linear": "linear:2", "expected-dynamic": "dynamic:4:16",
         "expected-yarn": '{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16, "beta_fast": 2, "beta_slow": 0.5}'}
SPREADS = (["--ranks", "1"], ["--ranks", "2", "--strategy", "ring", "--layout", "zigzag"],
           ["--ranks", "4", "--mesh", "ring=2,ulysses=2"])


def letter(i):
    return chr(0x4E00 + i)


def write_tokenizer(folder, size):
    """As many tokens as the model has; the last one ends a document."""
    end = {"id": size - 1, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
           "special": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "vocab": {**{letter(i): i for i in range(size - 1)}, "</s>": size - 1},
             "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None, "model": model}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))


def generate(build, folder, prompt, tokens, spread, *more):
    """The result of the command; the prompt on standard input."""
    words = [str(pathlib.Path(build) / "longspan"), "generate", "--model", str(folder), "--prompt-file", "-", "--tokens", str(tokens),
             "--temperature", "0", "--threads", "1", "--json", *spread, *more]
    done = subprocess.run(words, input="".join(map(letter, prompt)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def expect(found, tokens, what):
    if found["ids"] != tokens:
        sys.exit(f"FAILED: {what}: made {found['ids']}, expected {tokens}")


def read_npy(path, kind):
    """Numbers of a file of version 1, in their order."""
    data = path.read_bytes()
    return array.array(kind, data[10 + int.from_bytes(data[8:10], "little"):])


def check_eval(build, folder, expected, changes):
    """The mean loss of the stored tokens and the end of the document behind them is that of the stored logits."""
    tokens = read_npy(HERE / folder.name / "expected/tokens.npy", "i")
    logits = read_npy(expected / "logits.npy", "f")
    vocabulary = len(logits) // len(tokens)
    loss = 0
    for i, right in enumerate([*tokens[1:], vocabulary - 1]):
        row = logits[i * vocabulary:(i + 1) * vocabulary]
        loss += (math.log(math.fsum(math.exp(x - max(row)) for x in row)) + max(row) - row[right]) / len(tokens)
    (folder / "text.txt").write_text("".join("</s>" if i == vocabulary - 1 else letter(i) for i in tokens))
    for spread in SPREADS:
        words = [str(pathlib.Path(build) / "longspan"), "eval", "--model", str(folder), "--data", str(folder / "text.txt"), "--seq",
                 str(len(tokens)), "--threads", "1", "--json", *spread, *changes]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"FAILED: {' '.join(words)}: {done.stderr}")
        found = json.loads(done.stdout)["loss"]
        if not abs(found / loss - 1) < 1e-5:
            sys.exit(f"FAILED: {folder.name} {expected.name} {' '.join(spread)}: loss {found}, expected {loss}")


def scratch_model(scratch, name):
    folder = pathlib.Path(scratch) / name
    shutil.copytree(HERE / name, folder, ignore=shutil.ignore_patterns("expected*"))
    write_tokenizer(folder, json.loads((folder / "config.json").read_text())["vocab_size"])
    return folder


def check_stored(build):
    compared = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in sorted(path.name for path in HERE.iterdir()):
            folder = scratch_model(scratch, name)
            for expected in sorted(HERE.glob(f"{name}/expected*/generated.json")):
                stored = json.loads(expected.read_text())
                rope = ROPES[expected.parent.name]
                changes = ["--rope-scaling", rope] if rope else []
                changes += ["--rope-theta", "200"] if rope and "yarn" in rope else []
                for spread in SPREADS:
                    made = generate(build, folder, stored["prompt"], len(stored["tokens"]), spread, "--ignore-eos", *changes)
                    expect(made, stored["tokens"], f"{name} {expected.parent.name} {' '.join(spread)}")
                    compared += 1
                check_eval(build, folder, expected.parent, changes)
            check_stop(build, folder, json.loads((HERE / name / "expected/generated.json").read_text()))
    print(f"{compared} texts and losses as stored")


def check_stop(build, folder, stored):
    """The text ends before the first of several tokens, said by generation_config.json, and by config.json where that is silent."""
    tokens = stored["tokens"]
    stop = tokens[5]
    ends = tokens[:tokens.index(stop)]
    config = json.loads((folder / "config.json").read_text())
    for generation, eos in (({"eos_token_id": [next(i for i in range(48) if i not in tokens), stop]}, None), ({}, stop)):
        (folder / "generation_config.json").write_text(json.dumps(generation))
        (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": eos}))
        made = generate(build, folder, stored["prompt"], len(tokens), SPREADS[0])
        expect(made, ends, f"{folder.name} stopped by {generation or 'config.json'}")
        assert made["finish"] == "end", made


def greedy(model, prompt, tokens):
    """What the library makes, and by how much each token was the likeliest, as a part of the largest logit."""
    import torch
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, eos_token_id=None,
                         pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    margins = []
    for logits in out.logits:
        top = logits[0].topk(2).values
        margins.append(float((top[0] - top[1]) / logits.abs().max()))
    return out.sequences[0, len(prompt):].tolist(), margins


def prompt_of(vocabulary, length, seed):
    import torch
    return torch.randint(0, vocabulary - 1, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def varied(model, vocabulary, length, tokens, margin):
    """The first prompt behind which the model does not repeat itself and is nowhere in doubt: what it makes, and the margins."""
    best = None
    for seed in range(50):
        prompt = prompt_of(vocabulary, length, seed)
        made, margins = greedy(model, prompt, tokens)
        if min(margins) > margin and (best is None or len(set(made)) > len(set(best[1]))):
            best = prompt, made, margins
        if best is not None and len(set(best[1])) > tokens // 4:
            break
    assert best is not None and len(set(best[1])) > 2, "random weights that make nothing of interest"
    return best


def make():
    import make_models
    import torch
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM
    for name in sys.argv[2:] or make_models.CONFIGS:
        config = make_models.CONFIGS[name]
        for expected in ROPES if name == "llama" else ("expected",):
            changes = make_models.ROPES.get(expected.removeprefix("expected-"), {})
            with tempfile.TemporaryDirectory() as scratch:
                (pathlib.Path(scratch) / "config.json").write_text(json.dumps({**config, **changes}))
                model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(scratch), attn_implementation="eager",
                                                         dtype=torch.float32).double().eval()
            stored = load_file(HERE / name / "model.safetensors")
            called = {make_models.in_files(name, n): n for n, _ in model.named_parameters()}
            model.load_state_dict({called[n]: x.double() for n, x in stored.items()}, strict=False)
            model.tie_weights()
            prompt, tokens, margins = varied(model, 48, PROMPT, 10 if name == "gpt2" else TOKENS, 1e-3)
            print(name, expected, tokens, f"margin {min(margins):.1e}")
            (HERE / name / expected / "generated.json").write_text(
                json.dumps({"prompt": prompt, "tokens": tokens, "margin": round(min(margins), 6)}) + "\n")


def check_live(build):
    import make_models
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging
    logging.disable_progress_bar()
    length, tokens, most = 40, 48, 128
    sizes = dict(vocab_size=200, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, head_dim=16,
                 num_key_value_heads=2)
    ropes = {"default": dict(rope_scaling=None), "llama3": {}, **make_models.ROPES}
    cases = [("llama", rope) for rope in ropes] + [(name, None) for name in make_models.CONFIGS if name != "llama"]
    for name, rope in cases:
        config = dict(make_models.CONFIGS[name], **(sizes if name != "gpt2" else dict(vocab_size=200, n_embd=64, n_positions=most)))
        if name != "gpt2":
            config.update(max_position_embeddings=most)
        config.update(ropes.get(rope, {}))
        if name in ("gemma2", "olmo3"):
            config.update(layer_types=["sliding_attention", "full_attention"] * 2)
        if name == "smollm3":
            config.update(no_rope_layers=[1, 0, 1, 0])
        if name == "phi3":
            config["rope_scaling"] = dict(type="longrope", short_factor=[1.0] * 6, long_factor=[1.1, 1.5, 2.0, 2.5, 3.0, 4.0])
        if name == "qwen3_5":
            config.update(layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"])
        if name == "qwen3":
            config.update(layer_types=["full_attention"] * 4)
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "config.json").write_text(json.dumps(config))
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), attn_implementation="eager", dtype=torch.float32)
            model.load_state_dict({n: x.float() for n, x in make_models.weights_of(model, 3).items()}, strict=False)
            model.tie_weights()
            model.eval().save_pretrained(folder)
            (folder / "config.json").write_text(json.dumps(dict(config, dtype="float32", torch_dtype="float32")))
            write_tokenizer(folder, config["vocab_size"])
            prompt, right, margins = varied(model, config["vocab_size"], length, tokens, 1e-4)
            for spread in SPREADS:
                made = generate(build, folder, prompt, tokens, spread, "--ignore-eos")
                expect(made, right, f"{name} {rope or ''} {' '.join(spread)}")
        print(f"{name} {rope or ''}: {tokens} tokens behind {length} ({len(set(right))} different ones) as the library's, least "
              f"margin {min(margins):.1e}")


if sys.argv[1:2] == ["make"]:
    make()
elif sys.argv[1:2] == ["stored"]:
    check_stored(sys.argv[2])
else:
    check_live(sys.argv[2])
