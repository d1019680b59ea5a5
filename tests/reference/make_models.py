#!/usr/bin/env python3
"""Makes tests/reference/models/: a small random model of each architecture, and the results of the Hugging Face library.

    make_models.py [NAME...]        writes the folders NAME (all when none is given) beside this script

A folder holds config.json and model.safetensors (bf16), as a user would bring them, and expected/ with
    tokens.npy labels.npy           i32 [B,S]; labels are the next tokens, some of them -100
    logits.npy                      f32 [B,S,V]
    gradients.safetensors           f32, of the mean loss over valid labels, by the published names
    generated.json                  stored by generate.py; to be made again when the weights change
expected-NAME/ holds logits and the gradients of the first layer's queries and keys where rope scaling NAME is put into the config.
The library computes in f64 where it supports that, on the stored weights.

Made with torch 2.15.0, transformers 5.24.0, safetensors 0.8.0, numpy 2.4.6. tests/model/test_reference_models.c reads the folders.
"""
import json
import pathlib
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from live_models import no_narrowing

HERE = pathlib.Path(__file__).resolve().parent / "models"
S = 24

SIZES = dict(vocab_size=48, hidden_size=32, intermediate_size=8, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=4, initializer_range=0.02, hidden_act="silu")

# As a config.json holds them. llama and gpt2 are in the words of version 4 of the library, the others in those of version 5.
CONFIGS = {
    "llama": dict(SIZES, architectures=["LlamaForCausalLM"], model_type="llama", head_dim=8, max_position_embeddings=64,
                  rms_norm_eps=1e-5, rope_theta=100.0, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
                  rope_scaling=dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                    original_max_position_embeddings=16),
                  torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2, pad_token_id=-3),
    "qwen2": dict(SIZES, architectures=["Qwen2ForCausalLM"], model_type="qwen2", max_position_embeddings=32,
                  rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1000.0), tie_word_embeddings=True,
                  use_sliding_window=True, sliding_window=12, max_window_layers=1, pad_token_id=1, dtype="bfloat16"),
    "qwen3": dict(SIZES, architectures=["Qwen3ForCausalLM"], model_type="qwen3", max_position_embeddings=32,
                  rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1000.0), attention_bias=False,
                  tie_word_embeddings=True, use_sliding_window=False, sliding_window=None, max_window_layers=28,
                  layer_types=["full_attention", "full_attention"], dtype="bfloat16"),
    "mistral": dict(SIZES, architectures=["MistralForCausalLM"], model_type="mistral", max_position_embeddings=32,
                    rms_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=1000.0), sliding_window=12,
                    tie_word_embeddings=False, dtype="bfloat16"),
    "gpt2": dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", vocab_size=48, n_positions=24, n_ctx=24, n_embd=32,
                 n_layer=2, n_head=4, n_inner=8, activation_function="gelu_new", layer_norm_epsilon=1e-5,
                 initializer_range=0.02, resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1, summary_type="cls_index",
                 summary_use_proj=True, bos_token_id=1, eos_token_id=1),
    "gemma2": dict(SIZES, architectures=["Gemma2ForCausalLM"], model_type="gemma2", max_position_embeddings=32,
                   hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                   rope_parameters=dict(rope_type="default", rope_theta=1000.0), attention_bias=False, sliding_window=12,
                   query_pre_attn_scalar=6, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
                   layer_types=["sliding_attention", "full_attention"], dtype="bfloat16"),
    # In the words of version 4: a theta of their own for layers with a window, and a pattern.
    "gemma3": dict(SIZES, architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", max_position_embeddings=32,
                   hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, rope_theta=1000.0, rope_local_base_freq=30.0,
                   rope_scaling=dict(rope_type="linear", factor=8.0), sliding_window=12, sliding_window_pattern=2,
                   query_pre_attn_scalar=6, final_logit_softcapping=3.0, torch_dtype="bfloat16"),
    "phi3": dict(SIZES, head_dim=8, architectures=["Phi3ForCausalLM"], model_type="phi3", max_position_embeddings=32,
                 original_max_position_embeddings=4, rms_norm_eps=1e-5, rope_theta=1000.0, partial_rotary_factor=0.75,
                 rope_scaling=dict(type="longrope", short_factor=[1.0, 1.1, 1.4], long_factor=[1.2, 2.5, 6.0]), sliding_window=12,
                 tie_word_embeddings=False, pad_token_id=1, resid_pdrop=0.0, torch_dtype="bfloat16"),
    "olmo2": dict(SIZES, head_dim=8, architectures=["Olmo2ForCausalLM"], model_type="olmo2", max_position_embeddings=32, rms_norm_eps=1e-6,
                  rope_parameters=dict(rope_type="default", rope_theta=1000.0), tie_word_embeddings=False, dtype="bfloat16"),
    "olmo3": dict(SIZES, head_dim=8, architectures=["Olmo3ForCausalLM"], model_type="olmo3", max_position_embeddings=32, rms_norm_eps=1e-6,
                  rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=1000.0, factor=4.0),
                                       sliding_attention=dict(rope_type="default", rope_theta=1000.0)),
                  layer_types=["sliding_attention", "full_attention"], sliding_window=12, tie_word_embeddings=False, dtype="bfloat16"),
    "smollm3": dict(SIZES, head_dim=8, architectures=["SmolLM3ForCausalLM"], model_type="smollm3", max_position_embeddings=32,
                    rms_norm_eps=1e-6, rope_theta=1000.0, no_rope_layers=[1, 0], no_rope_layer_interval=4, tie_word_embeddings=True,
                    pad_token_id=1, use_sliding_window=False, torch_dtype="bfloat16"),
    "granite": dict(SIZES, head_dim=8, architectures=["GraniteForCausalLM"], model_type="granite", max_position_embeddings=32,
                    rms_norm_eps=1e-5, rope_theta=1000.0, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2,
                    logits_scaling=0.7, attention_dropout=0.1, tie_word_embeddings=True, torch_dtype="bfloat16"),
    # The factor of queries changes at 7, 14 and 21 of 24 tokens.
    "ministral3": dict(SIZES, head_dim=8, architectures=["Ministral3ForCausalLM"], model_type="ministral3", max_position_embeddings=32,
                       rms_norm_eps=1e-5, rope_parameters=dict(
                           rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=7, beta_fast=2.0, beta_slow=0.5,
                           mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.5, max_position_embeddings=32),
                       tie_word_embeddings=False, dtype="bfloat16"),
    "glm4": dict(SIZES, head_dim=8, architectures=["Glm4ForCausalLM"], model_type="glm4", max_position_embeddings=32, rms_norm_eps=1e-5,
                 rope_theta=1000.0, partial_rotary_factor=0.5, attention_bias=True, tie_word_embeddings=False, pad_token_id=1,
                 torch_dtype="bfloat16"),
    "cohere2": dict(SIZES, head_dim=8, architectures=["Cohere2ForCausalLM"], model_type="cohere2", max_position_embeddings=32,
                    layer_norm_eps=1e-5, rope_theta=1000.0, sliding_window=12, sliding_window_pattern=2, logit_scale=0.6,
                    tie_word_embeddings=True, torch_dtype="bfloat16"),
    "seed_oss": dict(SIZES, head_dim=8, architectures=["SeedOssForCausalLM"], model_type="seed_oss", max_position_embeddings=32,
                     rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1000.0), attention_bias=True,
                     attention_out_bias=True, attention_dropout=0.1, residual_dropout=0.1, tie_word_embeddings=False, dtype="bfloat16"),
    "starcoder2": dict(SIZES, head_dim=8, architectures=["Starcoder2ForCausalLM"], model_type="starcoder2", max_position_embeddings=32,
                       hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-5, rope_theta=1000.0, sliding_window=12, use_bias=True,
                       residual_dropout=0.1, tie_word_embeddings=True, torch_dtype="bfloat16"),
    "qwen3_5": dict(SIZES, head_dim=8, architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", max_position_embeddings=32,
                    rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1000.0, partial_rotary_factor=0.5),
                    layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4,
                    linear_key_head_dim=3, linear_value_head_dim=5, linear_conv_kernel_dim=4, tie_word_embeddings=False, dtype="bfloat16"),
    "mamba2": dict(architectures=["Mamba2ForCausalLM"], model_type="mamba2", vocab_size=48, hidden_size=32, num_hidden_layers=2, num_heads=8,
                   head_dim=8, state_size=5, n_groups=2, conv_kernel=4, expand=2, chunk_size=8, layer_norm_epsilon=1e-5, use_bias=False,
                   use_conv_bias=True, time_step_limit=[0.0, {"__float__": "Infinity"}], tie_word_embeddings=True, pad_token_id=1,
                   dtype="bfloat16"),
    "nemotron_h": dict(architectures=["NemotronHForCausalLM"], model_type="nemotron_h", vocab_size=48, hidden_size=32, intermediate_size=8,
                       num_attention_heads=4, num_key_value_heads=2, head_dim=8, hybrid_override_pattern="M-*", num_hidden_layers=3,
                       mamba_num_heads=4, mamba_head_dim=8, ssm_state_size=5, n_groups=2, conv_kernel=4, chunk_size=8,
                       layer_norm_epsilon=1e-5, max_position_embeddings=32, mlp_hidden_act="relu2", tie_word_embeddings=False, dtype="bfloat16"),
}

# Of llama, in the place of its own: rope_scaling, theta and further changes, as --rope-scaling and --rope-theta make them.
ROPES = {
    "linear": dict(rope_scaling=dict(rope_type="linear", factor=2.0)),
    "dynamic": dict(rope_scaling=dict(rope_type="dynamic", factor=4.0), max_position_embeddings=16),
    "yarn": dict(rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=2.0,
                                   beta_slow=0.5), rope_theta=200.0),
}


def weights_of(model, seed):
    """Random weights, large enough that every part of the model matters, that bf16 holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, parameter in model.named_parameters():
        x = torch.randn(parameter.shape, generator=generator)
        centre = 1.0 if name.endswith("weight") and x.ndim == 1 and not model.config.model_type.startswith(("gemma", "qwen3_5")) else 0.0
        spread = 0.3 if x.ndim == 1 else 1.5 / x.shape[0 if model.config.model_type == "gpt2" and ".h." in name else 1] ** 0.5
        state[name] = (centre + spread * x).to(torch.bfloat16)
    return state


def in_files(model_type, name):
    """What files call a parameter of the library's model."""
    return name.replace("model.", "backbone.") if model_type == "nemotron_h" else name


def sequences(vocabulary):
    generator = np.random.default_rng(1)
    tokens = generator.integers(0, vocabulary, (1, S), dtype=np.int32)
    labels = np.concatenate([tokens[:, 1:], np.full((1, 1), -100, np.int32)], axis=1)
    labels[0, 5:8] = -100
    return tokens, labels


def compute(config, state, tokens, labels):
    """Logits, and gradients by name."""
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).double().eval()
    model.load_state_dict({name: x.double() for name, x in state.items()}, strict=False)
    model.tie_weights()
    with no_narrowing():
        logits = model(input_ids=torch.tensor(tokens, dtype=torch.int64), use_cache=False).logits
    torch.nn.functional.cross_entropy(logits[0], torch.tensor(labels[0], dtype=torch.int64)).backward()
    gradients = {in_files(model.config.model_type, name): p.grad.float().contiguous() for name, p in model.named_parameters()}
    return logits.detach().float().numpy(), gradients


def write_expected(folder, logits, gradients):
    folder.mkdir(parents=True)
    np.save(folder / "logits.npy", logits)
    save_file(gradients, folder / "gradients.safetensors")


def make(name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name], indent=2) + "\n")
    config = AutoConfig.from_pretrained(folder)
    state = weights_of(AutoModelForCausalLM.from_config(config), 7 + list(CONFIGS).index(name))
    save_file({in_files(name, n): x for n, x in state.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    tokens, labels = sequences(config.vocab_size)
    logits, gradients = compute(config, state, tokens, labels)
    write_expected(folder / "expected", logits, gradients)
    np.save(folder / "expected" / "tokens.npy", tokens)
    np.save(folder / "expected" / "labels.npy", labels)
    print(name, "logits", logits.shape, "largest", abs(logits).max(), sorted(gradients)[:3])
    for rope, changes in ROPES.items() if name == "llama" else ():
        folder_of_rope = HERE / "scratch"
        folder_of_rope.mkdir()
        (folder_of_rope / "config.json").write_text(json.dumps(dict(CONFIGS[name], **changes)))
        other, gradients = compute(AutoConfig.from_pretrained(folder_of_rope), state, tokens, labels)
        shutil.rmtree(folder_of_rope)
        first = {n: g for n, g in gradients.items() if ".layers.0.self_attn.q_proj" in n or ".layers.0.self_attn.k_proj" in n}
        write_expected(folder / f"expected-{rope}", other, first)
        print("   ", rope, "differs by", abs(other - logits).max())


if __name__ == "__main__":
    for wanted in sys.argv[1:] or CONFIGS:
        make(wanted)
