"""Dense models of transformers from random small configs: each import is checked against the model itself; named ops take all of it."""
import json
import logging
import os
import tempfile
import unittest

import support  # noqa: F401  the package's path
from longspan import Refused

try:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import torch
    import transformers
    import longspan.torch
    from longspan.torch_export import lower
except ImportError as error:
    print(f"skipped: {__file__} needs torch and transformers ({error})")
    raise SystemExit(0)

logging.disable(logging.CRITICAL)
V = 97
SIZES = dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
             max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2, sliding_window=8)
GPT2 = dict(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=512, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=1, eos_token_id=2)

# name: (class, config's class, sizes that differ, ops of copies that remain)
MODELS = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", {}, set()),
    "Mistral": ("MistralForCausalLM", "MistralConfig", {}, set()),
    "Qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {}, set()),
    "Qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {"head_dim": 8}, set()),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", None, set()),
    "OLMo-2": ("Olmo2ForCausalLM", "Olmo2Config", {}, set()),
    "Gemma 2": ("Gemma2ForCausalLM", "Gemma2Config", {"head_dim": 8}, set()),
    "Gemma 3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {"head_dim": 8}, set()),
    "Granite": ("GraniteForCausalLM", "GraniteConfig",
                {"embedding_multiplier": 2.0, "residual_multiplier": 0.5, "attention_multiplier": 0.3, "logits_scaling": 3.0}, set()),
    "SmolLM3": ("SmolLM3ForCausalLM", "SmolLM3Config", {}, set()),
    "StarCoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", {}, set()),
    "Phi-3": ("Phi3ForCausalLM", "Phi3Config", {}, {"slice"}),  # gate and up in one product
    "GPT-NeoX": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {"rotary_pct": 0.5}, {"slice", "concat"}),  # half of each head rotates
    "Cohere 2": ("Cohere2ForCausalLM", "Cohere2Config", {}, {"slice", "concat", "map"}),  # pairs rotate, not halves
}


def model(name, attention=None):
    kind, config, more, _ = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, config)(**(GPT2 if more is None else {**SIZES, **more}))
    config._attn_implementation = attention
    return getattr(transformers, kind)(config).train()


def batch(packed=False):
    ids = torch.randint(3, V, (3, 40), generator=torch.Generator().manual_seed(0))
    more = {"position_ids": torch.cat([torch.arange(13), torch.arange(27)])[None].repeat(3, 1)} if packed else {}
    return {"input_ids": ids, "labels": ids.clone(), **more}


def adapted():
    try:
        import peft
    except ImportError:
        return None
    return peft.get_peft_model(model("Llama"), peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"))


def mamba():
    return transformers.MambaForCausalLM(transformers.MambaConfig(vocab_size=V, hidden_size=32, num_hidden_layers=1, state_size=4))


class Models(unittest.TestCase):
    def test_each(self):
        for name, (_, _, _, copies) in MODELS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as out:
                result = longspan.torch.export(model(name), batch(), out)
                with open(os.path.join(out, "graph.json")) as file:
                    described = json.load(file)
                left = {n["op"] for n in described["nodes"]} & {"permute", "broadcast", "slice", "concat", "map", "reduce", "contract", "softmax"}
                self.assertEqual(left, copies)
                self.assertEqual(described["inputs"][1], {"name": "labels", "dtype": "i32", "is": "labels", "shift": 1})
                self.assertEqual(described["mean_over"], "labels")
                self.assertIsNotNone(described["logits"])
                print(f"{name}: {len(described['nodes'])} nodes, {sum(result.seconds.values()):.1f} s, {result.checked}")

    def test_adapters(self):
        """LoRA: the base is frozen, and has no gradient."""
        lora = adapted()
        if lora is None:
            self.skipTest("needs peft")
        with tempfile.TemporaryDirectory() as out:
            result = longspan.torch.export(lora, batch(), out)
            with open(os.path.join(out, "graph.json")) as file:
                trained = [p["name"] for p in json.load(file)["parameters"] if not p["frozen"]]
            self.assertEqual(len(trained), 28)  # two matrices of each of seven products in two layers
            self.assertTrue(all("lora_" in name for name in trained))
            self.assertEqual(result.checked.parameters, 28)

    def test_both_forms_of_attention_are_one_graph(self):
        for name in ("Llama", "Mistral", "Qwen3", "GPT-2", "Gemma 3"):
            with self.subTest(name):
                self.assertEqual(*(lower(model(name, attention), batch()).hash() for attention in ("sdpa", "eager")))

    def test_packed_documents(self):
        for name in ("Llama", "Mistral", "Gemma 2"):
            with self.subTest(name), tempfile.TemporaryDirectory() as out:
                longspan.torch.export(model(name), batch(packed=True), out)
                with open(os.path.join(out, "graph.json")) as file:
                    described = json.load(file)
                self.assertTrue(described["documents"])
                self.assertIn({"name": "position_ids", "dtype": "i32", "is": "positions"}, described["inputs"])
                masks = [n["mask"] for n in described["nodes"] if n["op"] == "attention"]
                self.assertTrue(all(mask[-1] == {"kind": "documents"} for mask in masks))
                self.assertEqual(masks[0][0], {"kind": "causal"} if name == "Llama" else {"kind": "window", "window": 8, "first": 0})

    def test_refused(self):
        for words, make, example in [
            ("loop over tokens", mamba, batch()),
        ]:
            with self.subTest(words), self.assertRaises(Refused) as caught:
                lower(make(), example)
            self.assertIn(words, str(caught.exception))
            self.assertIn("transformers", caught.exception.file)
            self.assertGreater(caught.exception.line, 0)


if __name__ == "__main__":
    unittest.main()
