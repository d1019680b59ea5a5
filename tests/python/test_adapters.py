"""Adapters beside peft: its files in and out, logits and gradients, steps of AdamW, merging."""
import json
import logging
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import numpy

import support  # noqa: F401  the package's path
from longspan.program import find as program

try:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import torch
    import transformers
    from peft import LoraConfig, PeftModel, get_peft_model
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {__file__} needs torch, transformers and peft ({error})")
    raise SystemExit(0)

logging.disable(logging.CRITICAL)
V, LENGTH, BATCH = 300, 24, 4
SIZES = dict(vocab_size=V, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             initializer_range=0.2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES, head_dim=8, attention_bias=True, tie_word_embeddings=False),
    "tied": lambda: transformers.LlamaConfig(**SIZES, head_dim=8, tie_word_embeddings=True),
    "phi3": lambda: transformers.Phi3Config(**SIZES, tie_word_embeddings=False),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0, embd_pdrop=0,
                                            attn_pdrop=0, bos_token_id=1, eos_token_id=2, initializer_range=0.2),
}
SOME = ["q_proj", "v_proj", "o_proj", "down_proj"]
# what is trained, and the model that it is on
ADAPTERS = {
    "lora": ("llama", dict(target_modules="all-linear")),
    "rslora": ("llama", dict(target_modules=SOME, use_rslora=True)),
    "dora": ("llama", dict(target_modules="all-linear", use_dora=True)),
    "patterns": ("llama", dict(target_modules=SOME, rank_pattern={"q_proj": 2, r"layers\.\d\.self_attn\.o_proj": 6},
                               alpha_pattern={"q_proj": 3, r"layers\.\d\.self_attn\.o_proj": 5})),
    "saved": ("llama", dict(target_modules=SOME, modules_to_save=["embed_tokens", "norm", "lm_head"])),
    "table": ("llama", dict(target_modules=SOME + ["embed_tokens", "lm_head"])),
    "tied": ("tied", dict(target_modules="all-linear")),
    "scores": ("llama", dict(target_modules="all-linear", task_type="SEQ_CLS")),
    "fused": ("phi3", dict(target_modules="all-linear")),
    "fused dora": ("phi3", dict(target_modules="all-linear", use_dora=True)),
    "transposed": ("gpt2", dict(target_modules="all-linear", fan_in_fan_out=True)),
    "transposed dora": ("gpt2", dict(target_modules="all-linear", fan_in_fan_out=True, use_dora=True)),
}
SHARDS = "none", "optimizer", "gradients", "parameters"
# one rank; two and four in every mode of --shard; tensor parallelism, stages, micro-batches
MESHES = [["--ranks", "1"], *(["--mesh", mesh, "--shard", shard] for shard in SHARDS for mesh in (("ring=2", "dp=2,ring=2") if shard in SHARDS[::2] else ("dp=2", "ring=4"))),
          ["--mesh", "tp=2"], ["--mesh", "pp=2", "--accumulate", "2"], ["--ranks", "1", "--accumulate", "4"]]


def longspan(*words, fails=None):
    """Runs the program, and returns what it says on standard error."""
    result = subprocess.run([program()] + [str(w) for w in words], capture_output=True, text=True)
    if (result.returncode != 0) != (fails is not None):
        raise AssertionError(f"longspan {words}: {result.returncode}: {result.stderr}")
    if fails is not None and fails not in result.stderr:
        raise AssertionError(f"expected {fails!r} in {result.stderr}")
    return result.stderr


def adapted(name, folder):
    """A model with an adapter whose B is not 0, saved to folder/base and folder/adapter."""
    base, settings = ADAPTERS[name]
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[base](), attn_implementation="eager")
    model.save_pretrained(folder / "base")
    if settings.get("task_type") == "SEQ_CLS":
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "base", num_labels=1, attn_implementation="eager")
    model = get_peft_model(model, LoraConfig(**{"task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, **settings}))
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key or "lora_embedding_A" in key:
                p.normal_(std=0.1)
            if "magnitude" in key:
                p *= 1 + 0.1 * torch.randn_like(p)
    model.save_pretrained(folder / "adapter")
    return model


def tokens():
    return numpy.random.default_rng(1).integers(3, 250, (BATCH, LENGTH + 1))


def loss_of(model, ids):
    """Logits and the mean loss; of a model that scores, its number for each token, and minus their mean."""
    if hasattr(model.base_model.model, "score"):
        inner = model.base_model.model
        scores = inner.score(inner.model(input_ids=torch.tensor(ids[:, :-1])).last_hidden_state)
        return scores, -scores.mean()
    logits = model(input_ids=torch.tensor(ids[:, :-1])).logits
    return logits, torch.nn.functional.cross_entropy(logits.reshape(-1, V), torch.tensor(ids[:, 1:]).reshape(-1))


def gradients(model):
    """By Longspan's names."""
    result = {}
    for key, p in model.named_parameters():
        if p.requires_grad:
            key = key.removeprefix("base_model.model.").replace(".default", "").replace(".modules_to_save", "")
            result[key.replace("magnitude_vector.weight", "magnitude_vector")] = p.grad
    return result


def relative(a, b):
    b = b.detach()
    return float((torch.as_tensor(a).double() - b).abs().max() / b.abs().max().clamp(min=1e-12))


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)


class In(Folder):
    def compare(self, name, meshes):
        """peft's adapter: logits and all gradients, beside peft in f64. The library makes rotations and norms in f32 also in a model of f64. In f32 peft's own
        logits are off by up to 1.5e-6 of the largest one, its gradients by 2.6e-6."""
        model = adapted(name, self.folder).double().eval()
        ids = tokens()
        numpy.save(self.folder / "tokens.npy", ids[:, :-1].astype(numpy.int32))
        numpy.save(self.folder / "labels.npy", ids[:, 1:].astype(numpy.int32))
        logits, loss = loss_of(model, ids)
        loss.backward()
        for dtype, mesh, bound, gradient_bound in [("f64", mesh, 1e-6, 5e-6) for mesh in meshes] + [("f32", mesh, 2e-6, 4e-6) for mesh in [[], *filter(None, meshes)]]:
            longspan("grad", "--model", self.folder / "base", "--adapter", self.folder / "adapter", "--tokens", self.folder / "tokens.npy",
                     "--labels", self.folder / "labels.npy", "--dtype", dtype, "--out", self.folder / "g.safetensors",
                     "--logits", self.folder / "logits.npy", *mesh)
            self.assertLess(relative(numpy.load(self.folder / "logits.npy"), logits), bound, (name, dtype, mesh))
            made, wanted = load_file(self.folder / "g.safetensors"), gradients(model)
            self.assertEqual(set(made), set(wanted))
            for key, gradient in wanted.items():
                self.assertLess(relative(made[key], gradient), gradient_bound, (name, dtype, mesh, key))

    def test_on_meshes(self):
        for name in ("lora", "dora"):
            self.setUp()
            self.compare(name, [[], ["--mesh", "ring=2"], ["--mesh", "ring=2,tp=2"], ["--mesh", "ulysses=2", "--tile", "all", "--recompute", "all"]])

    def test_kinds(self):
        for name in ("rslora", "scores", "patterns", "saved", "table", "tied", "fused", "fused dora", "transposed", "transposed dora"):
            self.setUp()
            self.compare(name, [["--mesh", "tp=2"]])

    def test_refused(self):
        """What would be another adapter than peft's is refused by name."""
        adapted("lora", self.folder)
        config = json.loads((self.folder / "adapter/adapter_config.json").read_text())
        for field, value in [("peft_type", "IA3"), ("bias", "all"), ("init_lora_weights", "pissa"), ("lora_bias", True),
                             ("layer_replication", [[0, 1]]), ("trainable_token_indices", [1])]:
            (self.folder / "adapter/adapter_config.json").write_text(json.dumps({**config, field: value}))
            longspan("plan", "--model", self.folder / "base", "--adapter", self.folder / "adapter", "--seq", 8, fails=f"adapter_config.json: {field}")
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "base")
        model.config.num_hidden_layers = 1
        (self.folder / "adapter/adapter_config.json").write_text(json.dumps(config))
        model.config.save_pretrained(self.folder / "less")
        longspan("plan", "--model", self.folder / "less", "--adapter", self.folder / "adapter", "--seq", 8, fails="is for no module of this model")


class Steps(Folder):
    STEPS = 20

    def train(self, model, ids, lr):
        """Losses of peft's model, and its weights at the end."""
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
        losses = []
        for _ in range(self.STEPS):
            _, loss = loss_of(model, ids)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.save_pretrained(self.folder / "trained")
        return losses, load_file(self.folder / "trained/adapter_model.safetensors")

    def compare(self, name, meshes, lr=3e-3):
        model, ids = adapted(name, self.folder), tokens()
        with open(self.folder / "data.jsonl", "w") as file:
            for row in ids.tolist():
                file.write(json.dumps({"input_ids": row, "labels": row}) + "\n")
        losses, wanted = self.train(model, ids, lr)
        out = self.folder / "run"
        for mesh in meshes:
            shutil.rmtree(out, ignore_errors=True)
            longspan("train", "--model", self.folder / "base", "--adapter", self.folder / "adapter", "--data", self.folder / "data.jsonl",
                     "--records", "ids", "--begin", "none", "--end", "none", "--seq", LENGTH, "--batch", BATCH, "--steps", self.STEPS,
                     "--lr", lr, "--schedule", "constant", "--beta2", "0.999", "--weight-decay", 0, "--clip", 0, "--out", out, *mesh)
            made = load_file(out / "adapter/adapter_model.safetensors")
            written = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]
            self.assertLess(max(abs(a - b) for a, b in zip(written, losses, strict=True)), 1e-5, (name, mesh))
            self.assertEqual(set(made), {key for key in wanted if "base_layer" not in key})
            for key in made:
                self.assertLess(float((made[key] - wanted[key]).abs().max()), 1e-5, (name, mesh, key))
        again = PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(self.folder / "base"), out / "adapter")
        with torch.no_grad():
            self.assertLess(relative(loss_of(again, ids)[0], loss_of(model, ids)[0]), 2e-5)

    def test_lora(self):
        self.compare("lora", MESHES)

    def test_rslora(self):
        self.compare("rslora", MESHES)

    def test_dora(self):
        self.compare("dora", MESHES)

    def test_saved(self):
        self.compare("saved", [MESHES[0], ["--mesh", "dp=2,ring=2", "--shard", "parameters"], ["--mesh", "tp=2"]], lr=1e-3)


class Merge(Folder):
    def test_one_rounding(self):
        """Merged matrices are the f32 sums, rounded once; all else is the model's."""
        for name in ("lora", "dora", "patterns", "table", "transposed dora", "saved"):
            self.setUp()
            model = adapted(name, self.folder)
            base = load_file(self.folder / "base/model.safetensors")
            merged = {key: value for key, value in model.double().merge_and_unload().state_dict().items()}
            for dtype, to in (("f32", torch.float32), ("bf16", torch.bfloat16)):
                longspan("checkpoint", "export", self.folder / "adapter", "--model", self.folder / "base", "--merge", "--dtype", dtype,
                         "--out", self.folder / dtype)
                made = load_file(self.folder / dtype / "model.safetensors")
                self.assertEqual(set(made), set(base))
                for key, value in made.items():
                    self.assertTrue(torch.equal(value, merged[key].float().to(to)), (name, dtype, key))


if __name__ == "__main__":
    unittest.main()
