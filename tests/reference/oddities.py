#!/usr/bin/env python3
"""Unusual fields of a config.json: Longspan reads them as the reference library does, or refuses them by name.

    oddities.py BUILD [WORD] (tests/model/test_reference_parity.sh, where Python has the packages; written with torch 2.15, transformers 5.23)

Each row writes a model (live_models.py), changes its config.json, and compares logits and gradients, or looks for words in Longspan's message.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from live_models import WORD, check_same, random_ids, write_model

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve() / "longspan")
GONE = object()


def scaling(kind, **further):
    """Rotary positions as version 4 of the library writes them."""
    return dict(rope_parameters=GONE, rope_theta=5000.0, rope_scaling=dict(rope_type=kind, **further))


# The model, further fields with which it is made, changes of config.json, and what a refusal says.
ROWS = (
    ("llama, rope linear", {}, scaling("linear", factor=2.5)),
    ("llama, rope linear", {}, dict(scaling("linear"), rope_scaling=dict(type="linear", factor=2.5))),
    ("llama, rope default", {}, dict(rope_parameters=GONE, rope_theta=5000.0, rope_scaling=None)),
    ("llama, rope default", {}, dict(rope_parameters=GONE)),
    ("llama, rope yarn", {}, scaling("yarn", factor=4.0, original_max_position_embeddings=16)),
    ("llama, rope yarn", {}, scaling("yarn", factor=4.0)),
    ("llama, rope yarn", {}, dict(scaling("yarn", factor=4.0, mscale=0.7, mscale_all_dim=0.5), original_max_position_embeddings=16)),
    ("llama, rope yarn", {}, dict(scaling("yarn", factor=4.0, original_max_position_embeddings=32, attention_factor=1.5),
                                  original_max_position_embeddings=16)),
    ("llama, rope yarn", {}, scaling("yarn", factor=4.0, truncate=False, original_max_position_embeddings=16)),
    ("llama, rope dynamic", {}, scaling("dynamic", factor=3.0, original_max_position_embeddings=8)),
    ("llama, rope default", dict(num_key_value_heads=6, head_dim=None), dict(num_key_value_heads=None, head_dim=None)),
    ("llama, rope default", dict(num_key_value_heads=6, head_dim=None), dict(num_key_value_heads=GONE, head_dim=GONE)),
    ("llama, rope default", {}, dict(architectures=GONE, dtype=GONE, torch_dtype="bfloat16")),
    ("llama, rope default", {}, dict(tie_word_embeddings=GONE, hidden_act=GONE, rms_norm_eps=GONE, attention_bias=GONE, mlp_bias=GONE)),
    ("llama, rope default", {}, dict(layer_types=["full_attention"] * 2, sliding_window=3, pretraining_tp=1, use_cache=False)),
    ("mistral", dict(num_attention_heads=16, num_key_value_heads=8), dict(num_key_value_heads=GONE)),
    ("mistral", dict(sliding_window=None), dict(sliding_window=None)),
    ("mistral", {}, dict(attention_bias=True, mlp_bias=True, head_dim=12)),
    ("qwen2, windows", {}, dict(layer_types=["sliding_attention", "full_attention"])),
    ("qwen2, windows", {}, dict(layer_types=GONE)),
    ("qwen2", {}, dict(layer_types=GONE, use_sliding_window=False, sliding_window=5, max_window_layers=0)),
    ("qwen2", dict(num_attention_heads=32, num_key_value_heads=32), dict(num_key_value_heads=GONE)),
    ("qwen2", {}, dict(attention_bias=False)),
    ("qwen3", dict(head_dim=128), dict(head_dim=GONE)),
    ("gemma2", dict(query_pre_attn_scalar=256), dict(query_pre_attn_scalar=GONE, layer_types=GONE)),
    ("gemma2", dict(tied=True), dict(tie_word_embeddings=GONE)),
    ("gpt2", dict(tied=True), dict(tie_word_embeddings=GONE)),
    ("gemma2", dict(query_pre_attn_scalar=100, attn_logit_softcapping=50.0, final_logit_softcapping=30.0),
     dict(attn_logit_softcapping=GONE, final_logit_softcapping=GONE)),
    ("gemma2", {}, dict(hidden_activation=GONE, hidden_act="silu")),
    ("gemma2", dict(num_key_value_heads=3, num_attention_heads=12), dict(sliding_window_size=4)),
    # Of Gemma 3 in the words of version 4: two thetas, scaling for layers without a window alone, a pattern of layers.
    ("gemma3", {}, dict(rope_parameters=GONE, rope_theta=5000.0, rope_local_base_freq=70.0, rope_scaling=dict(rope_type="linear", factor=4.0),
                        layer_types=GONE, sliding_window_pattern=3)),
    ("gemma3", dict(num_hidden_layers=7, layer_types=None), dict(rope_parameters=GONE, layer_types=GONE, _sliding_window_pattern=GONE)),
    ("gemma3", {}, dict(rope_parameters={"full_attention": dict(rope_theta=300.0), "sliding_attention": None})),
    ("gemma3", {}, dict(sliding_window_pattern=2), "sliding_window_pattern is 2"),
    ("gemma3", {}, dict(rope_parameters=dict(rope_type="default", rope_theta=100.0)), "rope_parameters.rope_type is"),
    ("gemma3", {}, dict(attn_logit_softcapping=5.0), "attn_logit_softcapping is 5"),
    ("gemma3, wrapped", {}, dict(architectures=["Gemma3ForSequenceClassification"]), "as model_type says"),
    ("phi3", {}, dict(rope_parameters=GONE, rope_theta=5000.0, partial_rotary_factor=0.5, rope_scaling=None)),
    ("phi3", {}, dict(resid_pdrop=0.1, embd_pdrop=0.1, attention_dropout=0.1)),
    ("phi3", dict(num_key_value_heads=6), dict(num_key_value_heads=None, sliding_window=None)),
    ("phi3, longrope", {}, dict(rope_parameters=GONE, rope_theta=5000.0, rope_scaling=dict(
        type="su", short_factor=[1.0, 1.1, 1.4, 2.0], long_factor=[1.2, 2.5, 6.0, 9.0], original_max_position_embeddings=32))),
    ("phi3, longrope", {}, dict(rope_parameters=GONE, partial_rotary_factor=0.5, original_max_position_embeddings=GONE, rope_scaling=dict(
        type="longrope", short_factor=[1.0, 1.1], long_factor=[1.2, 2.5], attention_factor=1.25, factor=8.0))),
    ("phi3, longrope", {}, dict(original_max_position_embeddings=GONE), "original_max_position_embeddings is 32"),
    ("phi3", {}, dict(rope_parameters=dict(rope_type="yarn", factor=2.0)), 'rope_type is "yarn"'),
    ("phi3, longrope", {}, dict(partial_rotary_factor=0.75, rope_parameters=GONE, rope_scaling=dict(
        type="longrope", short_factor=[1.0], long_factor=[1.2])), "short_factor is an array of 1"),
    ("phi3", {}, dict(rope_parameters=dict(rope_type="default", partial_rotary_factor=0.4)), "partial_rotary_factor is 0.4"),
    ("phi3", {}, dict(attention_bias=True), "attention_bias is true"),
    # What the defaults of version 4 and 5 are, and the words of version 4.
    ("olmo2", {}, dict(rope_parameters=GONE, rope_theta=700.0, rope_scaling=dict(type="linear", factor=2.0), attention_bias=GONE)),
    ("olmo3", dict(num_hidden_layers=5, layer_types=None), dict(layer_types=GONE, rope_parameters=GONE)),
    ("olmo3", {}, dict(rope_parameters=GONE, rope_theta=500000.0, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=16, attention_factor=1.2))),
    ("olmo3", {}, dict(rope_parameters=GONE, rope_theta=7000.0), "rope_theta is 7000"),
    ("smollm3", {}, dict(no_rope_layers=GONE, no_rope_layer_interval=2)),
    ("smollm3", {}, dict(no_rope_layers=GONE, no_rope_layer_interval=GONE, layer_types=GONE, rope_parameters=GONE)),
    ("smollm3, windows", {}, dict(layer_types=GONE)),
    ("smollm3, windows", {}, dict(layer_types=["sliding_attention", "full_attention", "full_attention"])),
    ("smollm3", {}, dict(no_rope_layers=[1, 0]), "no_rope_layers is an array of 2"),
    ("granite", dict(embedding_multiplier=1.0, residual_multiplier=1.0, attention_multiplier=1.0, logits_scaling=1.0), dict(
        embedding_multiplier=GONE, residual_multiplier=GONE, attention_multiplier=GONE, logits_scaling=GONE, attention_dropout=0.1)),
    ("granite", {}, dict(embedding_multiplier=12, logits_scaling=0), "logits_scaling is 0"),
    ("ministral3", dict(num_key_value_heads=8, num_attention_heads=16, head_dim=128), dict(num_key_value_heads=GONE, head_dim=GONE)),
    ("ministral3", {}, dict(sliding_window=19)),
    ("ministral3", {}, dict(rope_parameters=GONE, rope_theta=5000.0, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=5, llama_4_scaling_beta=0.2, max_position_embeddings=7))),
    ("ministral3", {}, dict(rope_parameters=GONE)),
    ("ministral3", {}, dict(rope_parameters=dict(rope_type="default", rope_theta=5000.0)), "llama_4_scaling_beta is missing"),
    ("ministral3, wrapped", dict(head_dim=8), {}),
    ("glm4", {}, dict(rope_parameters=GONE, rope_theta=5000.0, attention_bias=GONE)),
    ("glm4", {}, dict(rope_parameters=dict(rope_type="default", rope_theta=300.0), partial_rotary_factor=0.834)),
    ("glm4", {}, dict(rope_parameters=dict(rope_type="default", partial_rotary_factor=0.1)), "partial_rotary_factor is 0.1"),
    ("cohere2", {}, dict(layer_types=GONE, sliding_window_pattern=3, rope_parameters=GONE, rope_theta=300.0, use_parallel_block=True)),
    ("cohere2", {}, dict(layer_types=GONE, logit_scale=GONE, layer_norm_eps=GONE)),
    ("cohere2", {}, dict(sliding_window=None), "sliding_window to be given"),
    ("cohere2", {}, dict(use_qk_norm=True), "use_qk_norm is true"),
    ("seed_oss", {}, dict(attention_bias=GONE, attention_out_bias=GONE, mlp_bias=GONE, attention_dropout=GONE, residual_dropout=0.1)),
    ("starcoder2", {}, dict(use_bias=GONE, hidden_act=GONE, attention_dropout=0.1, embedding_dropout=0.1)),
    ("starcoder2", {}, dict(layer_types=["full_attention"] * 2), "layer_types is an array of 2"),
    ("gpt2", dict(n_inner=None), dict(n_inner=GONE)),
    ("gpt2", {}, dict(n_inner=56, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, n_ctx=1024)),
    ("gpt2", dict(num_hidden_layers=3), dict(n_layer=2, num_hidden_layers=3)),
    ("gpt2", dict(activation_function="relu"), {}),
    ("gpt2", {}, dict(activation_function="gelu_accurate")),
    ("qwen3_5", dict(num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"]),
     dict(layer_types=GONE, full_attention_interval=2)),
    ("qwen3_5, types", dict(linear_conv_kernel_dim=1, layer_types=["full_attention"] * 3), dict(rope_parameters=GONE, rope_theta=300.0)),
    ("mamba2", dict(expand=1, head_dim=4), {}),
    ("mamba2", dict(expand=3, head_dim=12, conv_kernel=1), dict(hidden_act=GONE, tie_word_embeddings=GONE)),
    ("mamba2", {}, dict(expand=1), "num_heads is 12"),
    ("nemotron_h", {}, dict(attention_bias=True)),
    ("nemotron_h", dict(layers_block_type=["full_attention", "mlp"]), dict(layers_block_type=GONE, hybrid_override_pattern="*-")),
    ("nemotron_h", dict(layers_block_type=["mlp"]), {}),
    ("nemotron_h", dict(mlp_hidden_act="gelu"), dict(mamba_hidden_act=GONE)),
    ("llama, rope default", {}, dict(pad_token_id=47)),
    ("llama, rope default", {}, dict(pad_token_id=None)),
    ("mistral", {}, dict(pad_token_id=-7)),
    ("qwen2", dict(tied=True), dict(pad_token_id=7)),
    ("qwen3", {}, dict(pad_token_id=251)),
    ("gemma2", {}, dict(pad_token_id=GONE)),
    ("gemma2", {}, dict(pad_token_id=None)),
    ("gpt2", {}, dict(pad_token_id=47)),
    ("llama, rope default", {}, dict(pad_token_id=263), "pad_token_id is 263, expected an integer from -263 to 262"),
    ("llama, rope default", {}, dict(hidden_size=GONE, text_config=dict(hidden_size=48)), "hidden_size is missing"),
    ("llama, rope default", {}, dict(per_layer_config={"1": {"num_attention_heads": 2}}), "per_layer_config is an object"),
    ("qwen3", {}, dict(is_causal=False), "is_causal is false"),
    ("gemma2", {}, dict(use_bidirectional_attention=True), "use_bidirectional_attention is true"),
    ("gpt2", {}, dict(activation_function="quick_gelu"), 'activation_function is "quick_gelu"'),
    ("llama, rope default", {}, scaling("longrope", short_factor=[1], long_factor=[1]), "short_factor is an array of 1"),
    ("llama, rope default", {}, scaling("longrope", short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5], long_factor=[1.0, 1.2, 1.5, 2.0, 3.0, 4.0],
                                        original_max_position_embeddings=24)),
    ("mistral", {}, dict(architectures=["MistralForSequenceClassification"]), '"MistralForSequenceClassification"'),
)


def check(row, folder):
    name, fields, changes, *refusal = row
    write_model(folder, name, **fields)
    path = folder / "config.json"
    written = dict(json.loads(path.read_text()), **changes)
    path.write_text(json.dumps({key: value for key, value in written.items() if value is not GONE}))
    ids = random_ids(263)
    if not refusal:
        return "logits within %.1e, gradients %.1e" % check_same(PROGRAM, folder, ids)
    done = subprocess.run([PROGRAM, "explain", "--model", folder, "--seq", "8"], capture_output=True, text=True)
    assert done.returncode != 0 and refusal[0] in done.stderr and done.stderr.count("\n") == 1, done.stderr
    return done.stderr.split("/")[-1].strip()


def main():
    for row in (row for row in ROWS if WORD in row[0]):
        with tempfile.TemporaryDirectory() as scratch:
            changes = ", ".join(f"{k} {'left out' if v is GONE else v}" for k, v in dict(row[1], **row[2]).items())
            print(f"{row[0]}, {changes}: {check(row, pathlib.Path(scratch) / 'model')}")


main()
