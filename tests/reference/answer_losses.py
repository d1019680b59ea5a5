#!/usr/bin/env python3
"""Losses of answers against TRL.

    answer_losses.py BUILD

Trains a random Llama for two steps of plain gradient descent on all pairs (of kto: all judged answers) at once, by `longspan train --loss NAME` on 1, 2 and 4 ranks and in micro-batches,
and by the trainer of TRL that has the loss, whose batch, loss function and reference are its own. Compares losses (1e-6 of them, or of 1) and norms of
gradients (1e-5). TRL's trainers are as they are, but for `orpo --imitate answers`, which TRL does not have: there its loss of tokens is taken over the answers.
Made with trl 1.16.0, transformers 5.24.0.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

BETA, GAMMA, LR, PAIRS = 0.3, 0.5, 0.05, 10
TRAINERS = {
    "dpo": (DPOTrainer, DPOConfig, {"loss_type": "sigmoid"}),
    "ipo": (DPOTrainer, DPOConfig, {"loss_type": "ipo"}),
    "hinge": (DPOTrainer, DPOConfig, {"loss_type": "hinge"}),
    "simpo": (CPOTrainer, CPOConfig, {"loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": GAMMA}),
    "orpo": (ORPOTrainer, ORPOConfig, {}),
    "orpo --imitate answers": (ORPOTrainer, ORPOConfig, {}),
    "kto": (KTOTrainer, KTOConfig, {"desirable_weight": 1.25, "undesirable_weight": 0.75, "train_sampling_strategy": "sequential"}),
}
RECORDS = {name: "label" if name == "kto" else "preference" for name in TRAINERS}
SPREADS = (["--ranks", "1"], ["--ranks", "2", "--accumulate", "10"], ["--mesh", "ring=2,dp=2", "--accumulate", "5"], ["--mesh", "tp=2"])


def write_model(folder):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(alphabet)} | {"</s>": len(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="</s>")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=len(vocabulary), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.2, tie_word_embeddings=False,
                                      eos_token_id=len(alphabet), bos_token_id=None, pad_token_id=None)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return fast


def make_pairs():
    """A sequence of 96 tokens has room for one of them."""
    random.seed(5)
    words = lambda n: " ".join("".join(random.choice("abcdefgh") for _ in range(4)) for _ in range(n))
    return [{"prompt": words(3) + ":", "chosen": " yes " + words(random.randint(3, 5)), "rejected": " no " + words(random.randint(3, 5))} for _ in range(PAIRS)]


def make_judged(pairs):
    """Answers of different pairs, some wanted; the rejected ones are three in a row, so that micro-batches have unlike shares of them."""
    return [{"prompt": pair["prompt"], "completion": pair["chosen" if wanted else "rejected"], "label": wanted}
            for pair, wanted in zip(pairs, (True, False, False, False, True, True, False, True, True, True))]


def by_trl(name, folder, tokenizer, pairs, scratch):
    trainer_of, config_of, more = TRAINERS[name]
    args = config_of(output_dir=str(scratch), beta=BETA, per_device_train_batch_size=PAIRS, max_length=256, report_to=[], use_cpu=True, bf16=False, fp16=False,
                     gradient_checkpointing=False, remove_unused_columns=False, disable_dropout=True, **more)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    reference = {"ref_model": transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)} if trainer_of in (DPOTrainer, KTOTrainer) else {}
    trainer = trainer_of(model=model, args=args, train_dataset=Dataset.from_list(pairs), processing_class=tokenizer, **reference)
    batch = next(iter(trainer.get_train_dataloader()))
    found = []
    for _ in range(2):
        trainer.model.zero_grad()
        loss = trainer.compute_loss(trainer.model, dict(batch))
        if name.endswith("--imitate answers"):  # the mean loss of all tokens gives way to that of the answers'
            loss = loss + answers_alone(trainer.model, batch)
        loss.backward()
        gradients = [p.grad for p in trainer.model.parameters() if p.grad is not None]
        found.append((loss.item(), torch.stack([g.norm() for g in gradients]).norm().item()))
        with torch.no_grad():
            for p in trainer.model.parameters():
                p -= LR * p.grad
    return found


def answers_alone(model, batch):
    logits = model(batch["chosen_input_ids"], attention_mask=batch["chosen_attention_mask"], use_cache=False).logits[:, :-1]
    mean = lambda labels: torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
    whole = batch["chosen_input_ids"].masked_fill(batch["chosen_attention_mask"] == 0, -100)
    return mean(batch["chosen_labels"]) - mean(whole)


def by_longspan(build, name, folder, scratch, spread):
    command = [f"{build}/longspan", "train", "--model", folder, "--data", scratch / f"{RECORDS[name]}.jsonl", "--records", RECORDS[name], "--loss", *name.split(), "--loss-beta", BETA,
               "--loss-gamma", GAMMA, "--desirable-weight", 1.25, "--undesirable-weight", 0.75, "--seq", 96, "--steps", 2, "--batch", PAIRS, "--lr", LR, "--schedule", "constant", "--optimizer", "sgd", "--momentum", 0,
               "--clip", 0, "--save-every", 0, "--threads", 1, "--ranks-as", "threads", "--out", scratch / "run", *spread]
    subprocess.run(["rm", "-rf", scratch / "run"], check=True)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(scratch / "run" / "metrics.jsonl")]
    return [(line["loss"], line["grad_norm"], line["pairs"]) for line in lines]


def main(build):
    failed = 0
    with tempfile.TemporaryDirectory() as where:
        scratch = pathlib.Path(where)
        folder = scratch / "model"
        tokenizer = write_model(folder)
        pairs = make_pairs()
        records = {"preference": pairs, "label": make_judged(pairs)}
        for kind, some in records.items():
            (scratch / f"{kind}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in some))
        for name in TRAINERS:
            theirs = by_trl(name, folder, tokenizer, records[RECORDS[name]], scratch / "trl")
            for spread in SPREADS:
                ours = by_longspan(build, name, folder, scratch, spread)
                off = [max(abs(a[k] - b[k]) / max(1, abs(b[k])) for a, b in zip(ours, theirs)) for k in range(2)]
                fine = off[0] <= 1e-6 and off[1] <= 1e-5 and all(line[2] == PAIRS for line in ours)
                failed += not fine
                print(f"{name:22} {' '.join(spread):32} losses {ours[0][0]:.7f} {ours[1][0]:.7f} off by {off[0]:.1e}, norms by {off[1]:.1e}{'' if fine else '   FAILED ' + str((ours, theirs))}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) > 0 if len(sys.argv) == 2 else __doc__)
