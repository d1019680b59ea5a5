#!/usr/bin/env python3
"""Decoders of random odd shapes beside the reference library: how far Longspan in f32 and the library's own f32 are from the library in f64.

    odd_decoders.py BUILD [WORD [SHAPES]] (tests/model/long_reference_decoders.sh, where Python has the packages; written with torch 2.15,
                                           transformers 5.24)

Of each architecture SHAPES models (4), whose sizes and fields a seed draws: heads whose size is not hidden_size over their number, one key head, odd
vocabularies and lengths, windows shorter than a rank's part, lists of layer types, biases, kinds of rope scaling, weights that are tied or not, configs
in the words of version 4 or 5 of the library. Each on 1, 2 and 4 ranks (ring, ulysses, tp). Prints a line for each model and at the end a table: the
largest errors of logits, loss and gradients (live_models.py defines them) by architecture, Longspan's and the library's; and in how many
models all are within 3e-6, 3e-6 and 1e-5. Longspan's must be within these, or four times the library's of that model.
"""
import json
import pathlib
import random
import sys
import tempfile

import transformers
from live_models import (BOUNDS, MODELS, TIMES, VISION, WORD, Refused, errors, is_within, load, ours, own_errors, random_ids, run_library,
                         write_model)

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve() / "longspan")
SHAPES = int(sys.argv[3]) if len(sys.argv) > 3 else 4
SPREADS = ((1,), (2, "--strategy", "ring", "--layout", "zigzag"), (2, "--strategy", "ulysses"), (2, "--mesh", "tp=2"), (4, "--strategy", "ring"),
           (4, "--mesh", "ring=2,ulysses=2"), (4, "--mesh", "ring=2,tp=2"), (4, "--mesh", "tp=4"))


# --- what is drawn -----------------------------------------------------------------------------------------------------------------------------------

def flag(draw):
    return draw.random() < 0.5


def sizes(draw):
    key_heads = draw.choice([1, 1, 2, 3])
    heads = key_heads * draw.randint(1, 4)
    return dict(vocab_size=draw.choice([97, 131, 257, 263, 301]), hidden_size=heads * draw.choice([k for k in range(3, 40) if 24 <= k * heads <= 72]),
                intermediate_size=draw.choice([36, 57, 72]), num_hidden_layers=draw.randint(1, 5), num_attention_heads=heads,
                num_key_value_heads=key_heads, head_dim=draw.choice([4, 6, 8, 10, 16, 20]), pad_token_id=draw.choice([None, 5]),
                max_position_embeddings=draw.choice([32, 128]), S=draw.choice([17, 33, 53, 64, 97]), theta=draw.choice([100.0, 5000.0, 1e4, 1e6]),
                activation=draw.choice(["silu", "silu", "gelu", "gelu_pytorch_tanh", "relu"]), epsilon=draw.choice([1e-6, 1e-5, 0.03]))


def scaling(draw, theta, kinds=("default", "linear", "llama3", "yarn", "dynamic")):
    kind = draw.choice(kinds)
    further = {"default": {}, "linear": dict(factor=2.5), "dynamic": dict(factor=3.0),
               "llama3": dict(factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
               "yarn": dict(factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5)}[kind]
    return dict(rope_type=kind, rope_theta=theta, **further)


def plain(draw, s, **further):
    return dict(rope_parameters=scaling(draw, s["theta"]), **further)


def types(draw, s):
    return [draw.choice(["sliding_attention", "full_attention"]) for _ in range(s["num_hidden_layers"])]


def window(draw):
    return draw.choice([3, 7, 19, 40])


def biases(draw):
    return dict(attention_bias=flag(draw), mlp_bias=flag(draw))


def by_type(draw, s):
    kinds = ("default", "linear", "yarn", "llama3")
    return dict(rope_parameters=dict(full_attention=scaling(draw, s["theta"], kinds), sliding_attention=scaling(draw, 70.0, ("default",))))


def of_gemma(draw):
    return dict(query_pre_attn_scalar=draw.choice([7, 24, 100]), sliding_window=window(draw), attention_bias=flag(draw),
                final_logit_softcapping=draw.choice([None, 3.0, 30.0]))


def qwen(draw, s):
    return plain(draw, s, **(dict(use_sliding_window=True, sliding_window=window(draw), max_window_layers=draw.randint(0, s["num_hidden_layers"]))
                             if flag(draw) else {}))


def phi3(draw, s):
    fields = dict(sliding_window=draw.choice([None, window(draw)]))
    longrope = flag(draw)
    if longrope:  # the library counts factors by hidden_size over heads
        s["head_dim"] = draw.choice([8, 12, 16])
        s["hidden_size"] = s["num_attention_heads"] * s["head_dim"]
    rotary = draw.choice([0.5, 1.0, 0.75] if s["head_dim"] % 8 == 0 else [1.0])
    pairs = int(s["head_dim"] * rotary) // 2
    if not longrope:
        return dict(fields, rope_parameters=dict(rope_type="default", rope_theta=s["theta"], partial_rotary_factor=rotary))
    return dict(fields, original_max_position_embeddings=draw.choice([16, 32, 64]), max_position_embeddings=128, rope_parameters=dict(
        rope_type="longrope", rope_theta=s["theta"], partial_rotary_factor=rotary, short_factor=[round(1 + 0.1 * i, 2) for i in range(pairs)],
        long_factor=[round(1.2 + 1.3 * i, 2) for i in range(pairs)]))


def olmo3(draw, s):
    return dict(by_type(draw, s), layer_types=types(draw, s), sliding_window=window(draw), attention_bias=flag(draw))


def smollm3(draw, s):
    fields = plain(draw, s, no_rope_layers=[draw.randint(0, 1) for _ in range(s["num_hidden_layers"])], **biases(draw))
    return dict(fields, use_sliding_window=True, sliding_window=window(draw), layer_types=types(draw, s)) if flag(draw) else fields


def granite(draw, s):
    return plain(draw, s, embedding_multiplier=draw.choice([3.0, 12.0]), residual_multiplier=draw.choice([0.22, 0.4]),
                 attention_multiplier=draw.choice([0.015625, 0.2]), logits_scaling=draw.choice([0.7, 8.0]), **biases(draw))


def ministral3(draw, s):
    return dict(sliding_window=draw.choice([None, window(draw)]), rope_parameters=dict(
        scaling(draw, s["theta"], ("yarn",)), mscale=1.0, mscale_all_dim=draw.choice([0.7, 1.0]), llama_4_scaling_beta=draw.choice([0.1, 0.3]),
        original_max_position_embeddings=draw.choice([7, 16])))


def glm4(draw, s):
    rotary = draw.choice([0.5, 1.0] if s["head_dim"] % 4 == 0 else [1.0])
    return dict(attention_bias=flag(draw), rope_parameters=dict(scaling(draw, s["theta"]), partial_rotary_factor=rotary))


def gpt2(draw, s):
    for absent in ("pad_token_id", "max_position_embeddings"):
        s.pop(absent)
    s["hidden_size"] = s["num_attention_heads"] * draw.choice([6, 8, 10])
    return dict(n_inner=draw.choice([None, 57]), n_positions=128, scale_attn_by_inverse_layer_idx=flag(draw), scale_attn_weights=flag(draw),
                activation_function=draw.choice(["gelu_new", "gelu", "relu"]))


def wrapped(name):
    """The text model inside of a model with more than text."""
    def fields(draw, s):
        text = dict(ARCHITECTURES[name][1](draw, s), **named(name, s), model_type=ARCHITECTURES[name][0].model_type)
        if name == "gemma3":
            text["final_logit_softcapping"] = None
        return dict(text_config=text, vision_config=dict(VISION, head_dim=8) if name != "gemma3" else VISION)
    return fields


# What an architecture has beyond the sizes of all.
ARCHITECTURES = {
    "llama": (transformers.LlamaConfig, lambda d, s: plain(d, s, **biases(d))),
    "mistral": (transformers.MistralConfig, lambda d, s: plain(d, s, sliding_window=d.choice([None, window(d)]))),
    "qwen2": (transformers.Qwen2Config, qwen),
    "qwen3": (transformers.Qwen3Config, lambda d, s: dict(qwen(d, s), attention_bias=flag(d))),
    "gemma2": (transformers.Gemma2Config, lambda d, s: plain(d, s, layer_types=types(d, s), attn_logit_softcapping=d.choice([None, 4.0, 50.0]), **of_gemma(d))),
    "gemma3": (transformers.Gemma3TextConfig, lambda d, s: dict(by_type(d, s), layer_types=types(d, s), **of_gemma(d))),
    "phi3": (transformers.Phi3Config, phi3),
    "olmo2": (transformers.Olmo2Config, lambda d, s: plain(d, s, attention_bias=flag(d))),
    "olmo3": (transformers.Olmo3Config, olmo3),
    "smollm3": (transformers.SmolLM3Config, smollm3),
    "granite": (transformers.GraniteConfig, granite),
    "ministral3": (transformers.Ministral3Config, ministral3),
    "glm4": (transformers.Glm4Config, glm4),
    "cohere2": (transformers.Cohere2Config, lambda d, s: plain(d, s, layer_types=types(d, s), sliding_window=window(d), attention_bias=flag(d),
                                                               logit_scale=d.choice([0.0625, 0.6]))),
    "seed_oss": (transformers.SeedOssConfig, lambda d, s: plain(d, s, attention_out_bias=flag(d), **biases(d))),
    "starcoder2": (transformers.Starcoder2Config, lambda d, s: plain(d, s, use_bias=flag(d), sliding_window=d.choice([None, window(d)]))),
    "gpt2": (transformers.GPT2Config, gpt2),
    "gemma3, wrapped": (transformers.Gemma3Config, wrapped("gemma3")),
    "mistral, wrapped": (transformers.Mistral3Config, wrapped("mistral")),
    "ministral3, wrapped": (transformers.Mistral3Config, wrapped("ministral3")),
}
EPSILONS = {"cohere2": "layer_norm_eps", "starcoder2": "norm_epsilon", "gpt2": "layer_norm_epsilon"}


def named(name, s):
    """The sizes by the names that the config has for them."""
    common = {key: value for key, value in s.items() if key not in ("S", "theta", "activation", "epsilon")}
    activation = {} if name == "gpt2" else {"hidden_activation" if name.startswith("gemma") else "hidden_act": s["activation"]}
    return dict(common, **{EPSILONS.get(name, "rms_norm_eps"): s["epsilon"]}, **activation)


def drawn(name, seed):
    """The class of the config, its fields, the sizes, and how files are written."""
    draw = random.Random(f"{name} {seed}")
    config, further = ARCHITECTURES[name]
    s = sizes(draw)
    fields = further(draw, s)
    if "text_config" not in fields:
        fields = dict(named(name, s), **fields)
    return config, fields, s, dict(tied=flag(draw), size=draw.choice([0.5, 1.5])), flag(draw)


def in_words_of_version_4(folder):
    """rope_theta, rope_scaling and rope_local_base_freq instead of rope_parameters, where they can say the same."""
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    config = whole.get("text_config", whole)
    rope = config.pop("rope_parameters", None)
    local = (rope or {}).get("sliding_attention")
    if rope is None or (local is not None and config["model_type"] != "gemma3_text"):  # OLMo-3 had one theta for all layers
        return
    rope = dict(rope.get("full_attention", rope))
    if local is not None:
        config["rope_local_base_freq"] = local["rope_theta"]
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    path.write_text(json.dumps(whole))


# --- what is measured --------------------------------------------------------------------------------------------------------------------------------

def measure(name, seed, scratch):
    """The largest errors of Longspan and those of the library."""
    label = f"{name}, shape {seed}"
    config, fields, s, how, old = drawn(name, seed)
    MODELS[label] = config, fields
    folder = scratch / "model"
    write_model(folder, label, **how)
    if old:
        in_words_of_version_4(folder)
    ids = random_ids(s["vocab_size"], s["S"], seed)
    right = run_library(load(folder), ids)
    theirs = own_errors(folder, ids, right)
    most, where, refused = (0.0, 0.0, 0.0), "", 0
    for ranks, *options in SPREADS:
        try:
            loss, logits, gradients = ours(PROGRAM, folder, ids, *options, ranks=ranks)
        except Refused as refusal:  # more ranks than heads, by one line
            said = refusal.args[0].split("longspan: ")[-1]
            assert said.count("\n") == 1 and "expected" in said and "heads" in said, refusal
            refused += 1
            continue
        *found, tensor = errors((logits, loss, gradients), right)
        if found[2] > most[2]:
            where = tensor
        most = tuple(map(max, most, found))
    print(f"{label}, S {s['S']}: logits {most[0]:.1e}, loss {most[1]:.1e}, gradients {most[2]:.1e} ({where}); the library {theirs[0]:.1e}, "
          f"{theirs[1]:.1e}, {theirs[2]:.1e}; {refused} of {len(SPREADS)} refused")
    return most, theirs


def main():
    table, within, over = {}, {}, []
    for name in (name for name in ARCHITECTURES if WORD in name):
        for seed in range(SHAPES):
            with tempfile.TemporaryDirectory() as scratch:
                most, theirs = measure(name, seed, pathlib.Path(scratch))
            table[name] = tuple(map(max, table.get(name, (0.0,) * 6), most + theirs))
            counts = within.setdefault(name, [0, 0])
            counts[0] += is_within(most, BOUNDS)
            counts[1] += is_within(theirs, BOUNDS)
            if not is_within(most, [max(b, TIMES * t) for b, t in zip(BOUNDS, theirs)]):
                over.append(f"{name}, shape {seed}")
    heads = f"{'logits':>9}{'loss':>9}{'gradients':>11}"
    print(f"{'':20}{heads}   the library:{heads}   within, of {SHAPES}: Longspan, the library")
    for name, row in table.items():
        print(f"{name:20}{row[0]:9.1e}{row[1]:9.1e}{row[2]:11.1e}{'':15}{row[3]:9.1e}{row[4]:9.1e}{row[5]:11.1e}{within[name][0]:12}{within[name][1]:9}")
    assert not over, over


main()
