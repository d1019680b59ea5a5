#!/usr/bin/env python3
"""Reward models against TRL, and as the library loads them.

    reward_models.py BUILD

Trains a random Llama for two steps of plain gradient descent on all pairs at once by `longspan train --loss reward`, on 1, 2 and 4 ranks and in micro-batches,
and by TRL's RewardTrainer from the model that a run without a step to speak of exported, which AutoModelForSequenceClassification loads: with a padding token of
its own, where an answer is scored at its end, and with the end as padding, where the library scores the token before it; with margins in the records and centred
rewards; and with adapters that the trainer itself has begun (peft_config), LoRA, rsLoRA and DoRA. Compares losses (1e-6 of them, or of 1), norms of gradients
(1e-5) and the scores of the trained models, which the library and peft load (1e-5). Made with trl 1.16.0, transformers 5.24.0, peft 0.21.2.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from datasets import Dataset
from peft import AutoPeftModelForSequenceClassification, LoraConfig
from trl import RewardConfig, RewardTrainer

from answer_losses import LR, PAIRS, SPREADS, make_pairs, write_model


def add_padding(folder, tokenizer, own):
    """A padding token of its own, or the end of a text, in tokenizer and config."""
    if own:
        tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.save_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if own:
        model.resize_token_embeddings(len(tokenizer))
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)


CENTRE = 0.02
# name: own padding or the end as padding; margins and centred rewards; the adapter, if any
CASES = {
    "own padding": (True, False, None),
    "end as padding": (False, False, None),
    "margins, centred": (True, True, None),
    "lora": (True, False, {"target_modules": "all-linear"}),
    "rslora, margins": (False, True, {"target_modules": ["q_proj", "v_proj", "down_proj"], "use_rslora": True, "modules_to_save": ["score"]}),
    "dora": (True, False, {"target_modules": "all-linear", "use_dora": True}),
}


def by_longspan(build, folder, scratch, spread, lr=LR, steps=2):
    command = [f"{build}/longspan", "train", "--model", folder, "--data", scratch / "pairs.jsonl", "--records", "preference", "--loss", "reward", "--seq", 128,
               "--steps", steps, "--batch", PAIRS, "--lr", lr, "--schedule", "constant", "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--clip", 0,
               "--save-every", 0, "--threads", 1, "--ranks-as", "threads", "--out", scratch / "run", *spread]
    subprocess.run(["rm", "-rf", scratch / "run"], check=True)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(scratch / "run" / "metrics.jsonl")]
    return [(line["loss"], line["grad_norm"], line["reward_chosen"]) for line in lines]


def load(folder):
    """A model that scores, or an adapter on one; which begins with a head of random numbers where it is a language model's folder."""
    if (folder / "adapter_config.json").exists():
        return AutoPeftModelForSequenceClassification.from_pretrained(folder, num_labels=1, dtype=torch.float32)
    return transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, dtype=torch.float32)


def make_trainer(start, tokenizer, pairs, scratch, centred, adapter):
    args = RewardConfig(output_dir=str(scratch), per_device_train_batch_size=PAIRS, max_length=256, report_to=[], use_cpu=True, bf16=False, fp16=False,
                        gradient_checkpointing=False, disable_dropout=True, center_rewards_coefficient=CENTRE if centred else None)
    config = LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, **adapter) if adapter is not None else None
    trainer = RewardTrainer(model=load(start), args=args, train_dataset=Dataset.from_list(pairs), processing_class=tokenizer, peft_config=config)
    if adapter is not None:
        torch.manual_seed(3)
        with torch.no_grad():
            for name, p in trainer.model.named_parameters():
                if "lora_B" in name:
                    p.normal_(std=0.1)
        trainer.model.save_pretrained(scratch / "adapter")
    return trainer


def by_trl(trainer):
    batch = next(iter(trainer.get_train_dataloader()))
    found = []
    for _ in range(2):
        trainer.model.zero_grad()
        loss, outputs = trainer.compute_loss(trainer.model, dict(batch), return_outputs=True)
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in trainer.model.parameters() if p.grad is not None]).norm()
        found.append((loss.item(), norm.item(), outputs.logits[:PAIRS].mean().item()))
        with torch.no_grad():
            for p in trainer.model.parameters():
                if p.grad is not None:
                    p -= LR * p.grad
    batch.pop("margin", None)
    with torch.no_grad():
        return found, trainer.model(**batch).logits, batch


def compare(build, scratch, name, own, centred, adapter):
    """How many spreads are too far off."""
    folder, start, failed = scratch / "model", scratch / "start", 0
    subprocess.run(["rm", "-rf", folder, start, scratch / "trl"], check=True)
    pairs = [{**pair, "margin": i % 4 / 2} if centred else pair for i, pair in enumerate(make_pairs())]
    (scratch / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    tokenizer = write_model(folder)
    add_padding(folder, tokenizer, own)
    by_longspan(build, folder, scratch, [], lr=1e-30, steps=1)
    (scratch / "run" / "model").rename(start)
    trainer = make_trainer(start, tokenizer, pairs, scratch / "trl", centred, adapter)
    theirs, scores, batch = by_trl(trainer)
    more = ["--center-rewards", CENTRE] if centred else []
    for spread in SPREADS:
        on = ["--adapter", scratch / "trl" / "adapter"] if adapter is not None else []
        ours = by_longspan(build, folder, scratch, [*spread, *more, *on])
        made = load(scratch / "run" / ("model" if adapter is None else "adapter"))
        with torch.no_grad():
            far = (made(**batch).logits - scores).abs().max().item()
        off = [max(abs(a[k] - b[k]) / max(1, abs(b[k])) for a, b in zip(ours, theirs)) for k in range(3)]
        fine = off[0] <= 1e-6 and off[1] <= 1e-5 and off[2] <= 1e-6 and far <= 1e-5
        failed += not fine
        print(f"{name:16} {' '.join(spread):32} losses {ours[0][0]:.7f} {ours[1][0]:.7f} off by {off[0]:.1e}, norms by {off[1]:.1e}, "
              f"rewards by {off[2]:.1e}, the trained model's by {far:.1e}{'' if fine else '   FAILED ' + str((ours, theirs))}")
    return failed


def main(build):
    with tempfile.TemporaryDirectory() as where:
        return sum(compare(build, pathlib.Path(where), name, *case) for name, case in CASES.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) > 0 if len(sys.argv) == 2 else __doc__)
