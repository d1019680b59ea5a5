"""Models for the tests that run beside the live reference library: a table, and how they are written, run and compared.

Written with torch 2.15, transformers 5.23, safetensors 0.8. Sizes are awkward on purpose: head_dim is not hidden_size over heads, three
query heads share a key head, the vocabulary is a prime, and sequences (S) are longer than windows and than dynamic rope's original length.
"""
import contextlib
import copy
import json
import subprocess
import sys

import numpy
import torch
import transformers
from safetensors.torch import load_file

torch.set_num_threads(1)
S = 53
# Of logits (as a part of the largest), loss and gradients (worst_gradient).
BOUNDS = (3e-6, 3e-6, 1e-5)
# Where rounding to float32 does more, the library's own float32 is off by as much: this many times that is the bound.
TIMES = 4
# Of models with states, whose gradients Longspan sums by chunks.
OF_STATES = (3e-5, 1e-5, 1e-4)
SIZES = dict(vocab_size=263, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, head_dim=12, max_position_embeddings=64, pad_token_id=None, bos_token_id=1, eos_token_id=[2, 3])


def rope(kind, **further):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=5000.0, **further))


ROPES = {
    "default": rope("default"),
    "linear": rope("linear", factor=2.5),
    "dynamic": dict(rope("dynamic", factor=3.0), max_position_embeddings=32),
    "llama3": rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
    "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5),
}
TYPES = ["sliding_attention", "sliding_attention", "full_attention"]
GEMMA3 = dict(num_hidden_layers=3, sliding_window=19, query_pre_attn_scalar=7, final_logit_softcapping=3.0, layer_types=TYPES, rope_parameters={
    "full_attention": dict(rope_type="linear", factor=4.0, rope_theta=5000.0), "sliding_attention": dict(rope_type="default", rope_theta=70.0)})
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
OLMO3 = dict(num_hidden_layers=3, sliding_window=19, layer_types=TYPES, rope_parameters={
    "full_attention": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=5000.0),
    "sliding_attention": dict(rope_type="default", rope_theta=5000.0)})
MINISTRAL3 = rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, mscale=1.0, mscale_all_dim=1.0,
                  llama_4_scaling_beta=0.3)
QWEN3_5 = dict(rope("default", partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True), num_hidden_layers=4, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=6,
               linear_key_head_dim=5, linear_value_head_dim=7, linear_conv_kernel_dim=4)
MAMBA2 = dict(num_heads=12, head_dim=8, state_size=5, n_groups=3, chunk_size=16)
NEMOTRON_H = dict(layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention", "mlp"], mamba_num_heads=6, mamba_head_dim=8,
                  ssm_state_size=5, n_groups=3, chunk_size=16, time_step_min=0.6)
WINDOWS = dict(use_sliding_window=True, sliding_window=19, max_window_layers=1)

# What a row is called, the class of its config, and the fields that are not those of SIZES.
MODELS = {
    **{f"llama, rope {kind}": (transformers.LlamaConfig, fields) for kind, fields in ROPES.items()},
    "llama, biases": (transformers.LlamaConfig, dict(ROPES["default"], attention_bias=True, mlp_bias=True, hidden_act="gelu")),
    "mistral": (transformers.MistralConfig, dict(ROPES["default"], sliding_window=19)),
    "mistral, no window": (transformers.MistralConfig, dict(ROPES["yarn"], sliding_window=None)),
    "qwen2": (transformers.Qwen2Config, dict(ROPES["default"])),
    "qwen2, windows": (transformers.Qwen2Config, dict(ROPES["yarn"], **WINDOWS)),
    "qwen3": (transformers.Qwen3Config, dict(ROPES["default"])),
    "qwen3, windows": (transformers.Qwen3Config, dict(ROPES["linear"], attention_bias=True, **WINDOWS)),
    "gpt2": (transformers.GPT2Config, dict(n_inner=56, n_positions=64)),
    "gpt2, scales": (transformers.GPT2Config, dict(n_positions=64, scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False,
                                                   activation_function="gelu")),
    "gemma2": (transformers.Gemma2Config, dict(ROPES["default"], num_hidden_layers=5, sliding_window=19, query_pre_attn_scalar=7,
                                               attn_logit_softcapping=4.0, final_logit_softcapping=3.0)),
    "gemma2, no caps": (transformers.Gemma2Config, dict(ROPES["llama3"], num_hidden_layers=3, sliding_window=19, attention_bias=True,
                                                        attn_logit_softcapping=None, final_logit_softcapping=None)),
    "gemma3": (transformers.Gemma3TextConfig, GEMMA3),
    "phi3": (transformers.Phi3Config, dict(rope("default", partial_rotary_factor=0.75), head_dim=8, sliding_window=19)),
    "phi3, longrope": (transformers.Phi3Config, dict(rope("longrope", short_factor=[1.0, 1.1, 1.4, 2.0], long_factor=[1.2, 2.5, 6.0, 9.0]),
                                                     head_dim=8, original_max_position_embeddings=32)),
    "olmo2": (transformers.Olmo2Config, dict(ROPES["llama3"], head_dim=8)),
    "olmo3": (transformers.Olmo3Config, dict(OLMO3, head_dim=8)),
    "smollm3": (transformers.SmolLM3Config, dict(ROPES["default"], head_dim=8, num_hidden_layers=5)),
    "smollm3, windows": (transformers.SmolLM3Config, dict(ROPES["yarn"], head_dim=8, num_hidden_layers=3, no_rope_layers=[1, 0, 1, 0],
                                                          use_sliding_window=True, sliding_window=19, mlp_bias=True)),
    "granite": (transformers.GraniteConfig, dict(ROPES["default"], head_dim=8, embedding_multiplier=3.0, residual_multiplier=0.4,
                                                 attention_multiplier=0.2, logits_scaling=0.7, attention_bias=True)),
    "ministral3": (transformers.Ministral3Config, MINISTRAL3),
    "ministral3, wrapped": (transformers.Mistral3Config, dict(text_config=dict(SIZES, **MINISTRAL3, model_type="ministral3"),
                                                              vision_config=dict(VISION, head_dim=8))),
    "glm4": (transformers.Glm4Config, dict(ROPES["default"])),
    "glm4, rope": (transformers.Glm4Config, dict(rope("linear", factor=2.5, partial_rotary_factor=1.0), attention_bias=False)),
    "cohere2": (transformers.Cohere2Config, dict(ROPES["default"], head_dim=8, num_hidden_layers=5, sliding_window=19, logit_scale=0.6)),
    "seed_oss": (transformers.SeedOssConfig, dict(ROPES["default"])),
    "seed_oss, rope": (transformers.SeedOssConfig, dict(ROPES["yarn"], attention_bias=False, attention_out_bias=True, mlp_bias=True)),
    "starcoder2": (transformers.Starcoder2Config, dict(ROPES["default"], head_dim=8, sliding_window=19)),
    "starcoder2, no biases": (transformers.Starcoder2Config, dict(ROPES["linear"], head_dim=8, use_bias=False)),
    "qwen3_5": (transformers.Qwen3_5TextConfig, QWEN3_5),
    "qwen3_5, types": (transformers.Qwen3_5TextConfig, dict(QWEN3_5, num_hidden_layers=3, linear_num_key_heads=1, linear_num_value_heads=5,
                                                            layer_types=["full_attention", "linear_attention", "linear_attention"])),
    "qwen3_5, wrapped": (transformers.Qwen3_5Config, dict(text_config=dict(
        SIZES, **dict(QWEN3_5, num_hidden_layers=2, linear_num_value_heads=4, layer_types=["full_attention", "linear_attention"])), vision_config=dict(
        depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=48, patch_size=4, num_position_embeddings=16))),
    "mamba2": (transformers.Mamba2Config, MAMBA2),
    "mamba2, limits": (transformers.Mamba2Config, dict(MAMBA2, n_groups=1, use_bias=True, use_conv_bias=False, time_step_limit=(0.4, 0.9))),
    "mamba2, deep": (transformers.Mamba2Config, dict(MAMBA2, num_hidden_layers=16)),
    "mamba2, deep, narrow": (transformers.Mamba2Config, dict(MAMBA2, num_hidden_layers=16, residual_in_fp32=False)),
    "nemotron_h": (transformers.NemotronHConfig, NEMOTRON_H),
    "nemotron_h, biases": (transformers.NemotronHConfig, dict(NEMOTRON_H, mlp_bias=True, use_bias=True, use_conv_bias=False, n_groups=1,
                                                              layers_block_type=["full_attention", "linear_attention", "mlp"])),
    "gemma3, wrapped": (transformers.Gemma3Config, dict(text_config=dict(SIZES, **dict(GEMMA3, final_logit_softcapping=None)),
                                                     vision_config=VISION)),
}
# A word behind BUILD: only models with that in their name.
WORD = sys.argv[2] if len(sys.argv) > 2 else ""
FIRST_OF_ITS_KIND = ("llama, rope default", "mistral", "qwen2", "qwen3", "gpt2", "gemma2", "gemma3", "phi3", "olmo2", "olmo3", "smollm3", "granite",
                     "ministral3", "glm4", "cohere2", "seed_oss", "starcoder2", "qwen3_5", "mamba2", "nemotron_h")


def rope_kinds_of(name):
    if name.startswith("ministral3"):
        return "llama3:4:16", "yarn:4:16"
    return () if name.startswith(("gpt2", "phi3", "mamba2", "nemotron_h")) else ("linear:2.5", "dynamic:3:32", "llama3:4:16", "yarn:4:16", "default")


def config_of(name, tied, further):
    config, fields = copy.deepcopy(MODELS[name])  # the library writes into what it is given
    if "text_config" in fields:
        return config(tie_word_embeddings=tied, **dict(fields, text_config=dict(fields["text_config"], **further)))
    sizes = dict(SIZES, **dict(fields, **further))
    if config is transformers.Mamba2Config:
        for absent in ("intermediate_size", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
            sizes.pop(absent)
    if config is transformers.NemotronHConfig:
        sizes.pop("num_hidden_layers")
    if config is transformers.GPT2Config:
        for old, new in (("hidden_size", "n_embd"), ("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head")):
            sizes[new] = sizes.pop(old)
        for absent in ("intermediate_size", "num_key_value_heads", "head_dim", "max_position_embeddings"):
            sizes.pop(absent)
    return config(tie_word_embeddings=tied, **sizes)


def class_of(config):
    return transformers.AutoModelForImageTextToText if "text_config" in config else transformers.AutoModelForCausalLM


def write_model(folder, name, dtype=torch.float32, tied=False, shard_size="5GB", size=1.5, **further):
    """Weights are random and none is 0, so that each part of a model shows; size: of products beside their inputs. config.json has a field that
    nobody knows."""
    config = config_of(name, tied, further)
    model = class_of(config.to_dict()).from_config(config)
    generator = torch.Generator().manual_seed(7)
    for parameter_name, p in model.named_parameters():
        around = 1.0 if p.ndim == 1 and parameter_name.endswith("weight") and not name.startswith(("gemma", "qwen3_5")) else 0.0
        deviation = 0.3 if p.ndim == 1 else size / max(p.shape) ** 0.5
        p.data = around + deviation * torch.randn(p.shape, generator=generator)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard_size)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.get("text_config", config)["our_own"] = {"x": [1.0, None]}
    path.write_text(json.dumps(config, indent=2))


class Refused(AssertionError):
    """The command failed; the message is what it said."""


def longspan(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(f"longspan {chr(32).join(map(str, words))}: {done.stderr}", done.returncode)
    return done.stdout


def tensors_of(folder):
    """Of a model with more than text in it those of its text model, by the names that they have by themselves."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        found.update(load_file(file))
    others = ("vision_tower.", "multi_modal_projector.", "model.visual.")
    return {n.removeprefix("language_model.").replace("model.language_model.", "model."): t for n, t in found.items() if not n.startswith(others)}


def random_ids(vocabulary, length=S, seed=3):
    return numpy.random.default_rng(seed).integers(0, vocabulary, (2, length), dtype=numpy.int32)


@contextlib.contextmanager
def no_narrowing():
    """The library takes parts of some models in float32 whatever the type of the others; here what is float64 stays so. Angles of rotary positions are
    float32 in every type: with these numbers models are trained."""
    narrow, to, softmax = torch.Tensor.float, torch.Tensor.to, torch.nn.functional.softmax
    torch.Tensor.float = lambda t: t if t.dtype == torch.float64 else narrow(t)
    torch.Tensor.to = lambda t, *words, **more: t if t.dtype == torch.float64 and torch.float32 in words else to(t, *words, **more)
    torch.nn.functional.softmax = lambda t, *words, **more: softmax(t, *words, **(dict(more, dtype=None) if t.dtype == torch.float64 else more))
    try:
        yield
    finally:
        torch.Tensor.float, torch.Tensor.to, torch.nn.functional.softmax = narrow, to, softmax


def load(folder, dtype=torch.float64, attention="eager"):
    """The folder in the library, which must find in it exactly the tensors that it looks for."""
    found = class_of(json.loads((folder / "config.json").read_text()))
    model, report = found.from_pretrained(folder, dtype=dtype, attn_implementation=attention, output_loading_info=True)
    assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    return model


def ours(program, folder, ids, *options, ranks=2):
    """Loss, logits and gradients by `longspan grad`."""
    made = folder.parent
    numpy.save(made / "ids.npy", ids)
    said = json.loads(longspan(program, "grad", "--model", folder, "--tokens", made / "ids.npy", "--out", made / "g.safetensors",
                               "--logits", made / "logits.npy", "--ranks", ranks, "--threads", 1, "--json", *options))
    return said["loss"], torch.tensor(numpy.load(made / "logits.npy")), load_file(made / "g.safetensors")


def off(logits, right):
    """As a part of the largest one."""
    return ((logits.double() - right.double()).abs().max() / right.double().abs().max()).item()


def gradients_of(model):
    """By the names that parameters of a text model have by themselves; parts that text does not pass have none."""
    spelt = ("model.", "backbone.") if model.config.model_type == "nemotron_h" else ("model.language_model.", "model.")
    return {n.replace(*spelt): p.grad for n, p in model.named_parameters() if p.grad is not None}


def run_library(model, ids):
    """Logits, loss and gradients."""
    tokens = torch.tensor(ids, dtype=torch.long)
    model.zero_grad()
    with no_narrowing():
        found = model(tokens, labels=tokens, use_cache=False)
        found.loss.backward()
    return found.logits.detach(), found.loss.item(), gradients_of(model)


def errors(found, right):
    """Of logits, loss and gradients, and the name of the worst gradient."""
    assert found[2].keys() == right[2].keys(), found[2].keys() ^ right[2].keys()
    return off(found[0], right[0]), abs(found[1] / right[1] - 1), *worst_gradient(found[2], right[2])


def own_errors(folder, ids, right):
    """Of the library's float32: the largest of its kinds of attention. Its default takes the gradient's delta from the result, as Longspan does, and has
    no cap."""
    kinds = ("eager",) if json.loads((folder / "config.json").read_text())["model_type"] == "gemma2" else ("eager", "sdpa")
    return tuple(map(max, *(errors(run_library(load(folder, torch.float32, kind), ids), right)[:3] for kind in kinds), (0.0,) * 3))


def is_within(found, bounds):
    return all(f <= b for f, b in zip(found, bounds))


def bounds_of(folder):
    config = json.loads((folder / "config.json").read_text())
    return OF_STATES if config.get("text_config", config)["model_type"] in ("qwen3_5_text", "mamba2", "nemotron_h") else BOUNDS


def check_same(program, folder, ids, model=None, ranks=2, options=()):
    """Logits, loss and gradients within the bounds; returns what was measured of logits and gradients."""
    right = run_library(model or load(folder), ids)
    loss, logits, gradients = ours(program, folder, ids, *options, ranks=ranks)
    *found, worst = errors((logits, loss, gradients), right)
    bounds = bounds_of(folder)
    if bounds is OF_STATES:
        assert is_within(found, bounds), (found, worst)
    elif not is_within(found, bounds):
        own = own_errors(folder, ids, right)
        assert is_within(found, [max(b, TIMES * o) for b, o in zip(bounds, own)]), f"{found}, {worst}; the library's float32: {own}"
    return found[0], found[2]


def worst_gradient(gradients, wanted):
    """The largest error and its name. Each against its own norm, at least a thousandth of that of its kind over the layers, and a millionth of the
    largest of all: the gradient of a key's bias is 0 but for rounding, in all layers."""
    def kind(name):
        return ".".join(part for part in name.split(".") if not part.isdigit())
    squares = {}
    for name, g in wanted.items():
        squares[kind(name)] = squares.get(kind(name), 0) + g.square().sum().item()
    norm = {name: max(g.norm().item(), 1e-3 * squares[kind(name)] ** 0.5) for name, g in wanted.items()}
    least = 1e-6 * max(norm.values())
    return max(((gradients[name].double() - g.double()).norm().item() / max(norm[name], least), name) for name, g in wanted.items())
