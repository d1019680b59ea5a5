#!/usr/bin/env python3
"""Reward models against TRL, and as the library loads them.

    reward_models.py BUILD

Trains a random Llama for two steps of plain gradient descent on all pairs at once by `longspan train --loss reward`, on 1, 2 and 4 ranks and in micro-batches,
and by TRL's RewardTrainer from the model that a run without a step to speak of exported, which AutoModelForSequenceClassification loads: with a padding token of
its own, where an answer is scored at its end, and with the end as padding, where the library scores the token before it. Compares losses (1e-6 of them, or of
1), norms of gradients (1e-5) and the scores of the trained models (1e-5). Made with trl 1.16.0, transformers 5.24.0.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from datasets import Dataset
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


def by_longspan(build, folder, scratch, spread, lr=LR, steps=2):
    command = [f"{build}/longspan", "train", "--model", folder, "--data", scratch / "pairs.jsonl", "--records", "preference", "--loss", "reward", "--seq", 128,
               "--steps", steps, "--batch", PAIRS, "--lr", lr, "--schedule", "constant", "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--clip", 0,
               "--save-every", 0, "--threads", 1, "--ranks-as", "threads", "--out", scratch / "run", *spread]
    subprocess.run(["rm", "-rf", scratch / "run"], check=True)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(scratch / "run" / "metrics.jsonl")]
    return [(line["loss"], line["grad_norm"], line["reward_chosen"]) for line in lines]


def load(folder):
    return transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)


def by_trl(folder, tokenizer, pairs, scratch):
    args = RewardConfig(output_dir=str(scratch), per_device_train_batch_size=PAIRS, max_length=256, report_to=[], use_cpu=True, bf16=False, fp16=False,
                        gradient_checkpointing=False, disable_dropout=True)
    trainer = RewardTrainer(model=load(folder), args=args, train_dataset=Dataset.from_list(pairs), processing_class=tokenizer)
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
                p -= LR * p.grad
    with torch.no_grad():
        return found, trainer.model(**batch).logits, batch


def main(build):
    failed = 0
    with tempfile.TemporaryDirectory() as where:
        scratch = pathlib.Path(where)
        pairs = make_pairs()
        (scratch / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        for own in (True, False):
            folder = scratch / f"model{own}"
            tokenizer = write_model(folder)
            add_padding(folder, tokenizer, own)
            by_longspan(build, folder, scratch, [], lr=1e-30, steps=1)
            (scratch / "run" / "model").rename(scratch / f"start{own}")
            theirs, scores, batch = by_trl(scratch / f"start{own}", tokenizer, pairs, scratch / "trl")
            for spread in SPREADS:
                ours = by_longspan(build, folder, scratch, spread)
                with torch.no_grad():
                    far = (load(scratch / "run" / "model")(**batch).logits - scores).abs().max().item()
                off = [max(abs(a[k] - b[k]) / max(1, abs(b[k])) for a, b in zip(ours, theirs)) for k in range(3)]
                fine = off[0] <= 1e-6 and off[1] <= 1e-5 and off[2] <= 1e-6 and far <= 1e-5
                failed += not fine
                print(f"{'own padding' if own else 'end as padding':15} {' '.join(spread):32} losses {ours[0][0]:.7f} {ours[1][0]:.7f} off by {off[0]:.1e}, norms by {off[1]:.1e}, "
                      f"rewards by {off[2]:.1e}, the trained model's by {far:.1e}{'' if fine else '   FAILED ' + str((ours, theirs))}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) > 0 if len(sys.argv) == 2 else __doc__)
