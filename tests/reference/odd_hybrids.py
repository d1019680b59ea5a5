#!/usr/bin/env python3
"""Models with states of random odd shapes beside the reference library: logits, loss and all gradients in f32 on 1, 2, 3 and 4 ranks.

    odd_hybrids.py BUILD [WORD] (tests/model/long_reference_hybrids.sh, where Python has the packages; written with torch 2.15, transformers 5.24)

Twenty models, a third each of Qwen3.5, Mamba-2 and Nemotron-H, whose sizes a seed draws: heads of keys and values, their elements, taps, groups, kinds of
layers, lengths. Logits are within 3e-5 of the library's in f64 (its own f32 is off by as much), the loss within 1e-5, gradients within 1e-4. Prints a
line for each model, and the largest errors of all.
"""
import pathlib
import random
import sys
import tempfile

import transformers
from live_models import MODELS, WORD, check_same, load, random_ids, rope, write_model

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve() / "longspan")
SHAPES = 20
# The ranks, and what else the command is told: by itself, along the sequence, heads shared within.
SPREADS = ((1,), (2, "--strategy", "ring", "--layout", "zigzag"), (3, "--strategy", "ring", "--layout", "contiguous"), (4,), (2, "--mesh", "tp=2"))


def kinds(draw, names, least):
    """A list of kinds of layers, `least` at least of each of the first two."""
    layers = [draw.choice(names) for _ in range(draw.randint(1, 3))] + list(names[:least])
    draw.shuffle(layers)
    return layers


def qwen3_5(draw):
    K, each, key_heads = draw.randint(1, 4), draw.randint(1, 3), draw.randint(1, 3)
    types = kinds(draw, ("linear_attention", "full_attention"), 2)
    return transformers.Qwen3_5TextConfig, dict(
        rope("default", partial_rotary_factor=draw.choice([0.25, 0.5, 1.0])), vocab_size=draw.choice([101, 257, 263]), hidden_size=draw.choice([28, 44, 60]),
        intermediate_size=draw.choice([36, 52]), num_attention_heads=key_heads * draw.randint(1, 3), num_key_value_heads=key_heads, head_dim=8,
        num_hidden_layers=len(types), layer_types=types, linear_num_key_heads=K, linear_num_value_heads=K * each, linear_key_head_dim=draw.randint(3, 11),
        linear_value_head_dim=draw.randint(3, 11), linear_conv_kernel_dim=draw.randint(2, 5))


def mamba2(draw):
    groups, width = draw.choice([1, 2, 3]), draw.choice([3, 5, 6, 7])
    heads = groups * draw.choice([2, 4])
    fields = dict(vocab_size=draw.choice([101, 257, 263]), hidden_size=heads * width // 2, num_hidden_layers=draw.randint(1, 4), num_heads=heads,
                  head_dim=width, state_size=draw.randint(3, 11), n_groups=groups, conv_kernel=draw.randint(2, 5), chunk_size=draw.choice([8, 16, 32]),
                  use_bias=draw.random() < 0.5, use_conv_bias=draw.random() < 0.5)
    if draw.random() < 0.5:
        fields["time_step_limit"] = (0.2, 1.1)
    return transformers.Mamba2Config, fields


def nemotron_h(draw):
    groups, key_heads = draw.choice([1, 2, 3]), draw.randint(1, 3)
    return transformers.NemotronHConfig, dict(
        vocab_size=draw.choice([101, 257, 263]), hidden_size=draw.choice([28, 44, 60]), intermediate_size=draw.choice([36, 52]), head_dim=8,
        num_attention_heads=key_heads * draw.randint(1, 3), num_key_value_heads=key_heads,
        layers_block_type=kinds(draw, ("linear_attention", "full_attention", "mlp"), 2), mamba_num_heads=groups * draw.randint(1, 3),
        mamba_head_dim=draw.randint(3, 9), ssm_state_size=draw.randint(3, 11), n_groups=groups, conv_kernel=draw.randint(2, 5),
        chunk_size=draw.choice([8, 16, 32]), time_step_min=draw.choice([0.001, 0.4]), use_conv_bias=draw.random() < 0.5, mlp_bias=draw.random() < 0.5)


def described(fields):
    return " ".join(f"{name}={value}" for name, value in fields.items() if not isinstance(value, dict))


def main():
    worst = (0.0, 0.0)
    for seed in range(SHAPES):
        draw, make = random.Random(seed), (qwen3_5, mamba2, nemotron_h)[seed % 3]
        name = f"{make.__name__}, shape {seed}"
        if WORD not in name:
            continue
        MODELS[name] = config, fields = make(draw)
        ids, tied = random_ids(fields["vocab_size"], length=draw.choice([17, 37, 53, 71, 83]), seed=seed), draw.random() < 0.3
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "model"
            write_model(folder, name, tied=tied and config is not transformers.NemotronHConfig)
            library = load(folder)
            found = (0.0, 0.0)
            for ranks, *options in SPREADS:
                found = tuple(map(max, found, check_same(PROGRAM, folder, ids, model=library, ranks=ranks, options=options)))
            print(f"{name}, S {ids.shape[1]}: logits within {found[0]:.1e}, gradients {found[1]:.1e} ({described(fields)})")
            worst = tuple(map(max, worst, found))
    print("all: logits within %.1e, gradients %.1e" % worst)


main()
