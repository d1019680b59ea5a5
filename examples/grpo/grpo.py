#!/usr/bin/env python3
"""Group relative policy optimisation of a model on several ranks: a loss of your own, by log-probabilities.

    grpo.py MODEL [--ranks N | --mesh ring=2 ...] [--loss grpo|dapo|dr_grpo|gspo] [--steps N] [--check]

MODEL is a folder with config.json and, if it is trained, safetensors. The task is a toy: answers that repeat the last token of their prompt get a reward.
Answers are drawn from random tokens here, so that the example needs nothing but NumPy; a real loop lets the model, or a server that has its weights, write
them. What matters is the middle of `main`: log-probabilities come from the ranks, the loss and its derivative by them are a few lines of NumPy, and the step
takes that derivative. Logits never leave the ranks, and are whole nowhere.

--check compares loss and gradient of the first step with the same formulas written with torch (f64) on the library's model.
"""
import argparse
import sys

import numpy

import longspan

GROUP, PROMPTS, PROMPT, ANSWER = 4, 2, 12, 20  # answers to a prompt, prompts of a step, tokens
LOW, HIGH = 0.2, 0.28                          # how far the ratio of probabilities may go before it is clipped (DAPO: "clip higher")


def make_batch(random, vocabulary):
    """Prompts with answers of several lengths: input_ids and labels [n, tokens], each label at the token that predicts it; and the rewards [n]."""
    n, width = GROUP * PROMPTS, PROMPT + ANSWER
    ids = random.integers(1, vocabulary, (n, width))
    ids[:, :PROMPT] = numpy.repeat(ids[::GROUP, :PROMPT], GROUP, 0)
    labels = numpy.full((n, width), -100)
    rewards = numpy.zeros(n)
    for row in range(n):
        end = PROMPT + random.integers(3, ANSWER + 1)
        copied = random.random(end - PROMPT) < 0.3
        ids[row, PROMPT:end][copied] = ids[row, PROMPT - 1]
        labels[row, PROMPT - 1 : end - 1] = ids[row, PROMPT:end]
        rewards[row] = copied.mean()
    return {"input_ids": ids, "labels": labels}, rewards


def advantages_of(rewards, scaled):
    """The advantage of each answer: its reward minus the mean of its group, and with `scaled` divided by the group's standard deviation."""
    groups = rewards.reshape(-1, GROUP)
    gain = groups - groups.mean(1, keepdims=True)
    return (gain / (groups.std(1, ddof=1, keepdims=True) + 1e-4) if scaled else gain).reshape(-1)


def loss_of(kind, logprobs, old, advantages, mask, exp=numpy.exp, minimum=numpy.minimum, clip=numpy.clip):
    """
    The loss, with NumPy's functions or torch's. Shao et al. (GRPO, arXiv 2402.03300): the mean over answers of the mean over their tokens; Yu et al. (DAPO,
    arXiv 2503.14476): the mean over all tokens; Liu et al. (Dr. GRPO, arXiv 2503.20783): a sum over tokens, divided by a constant; Zheng et al. (GSPO, arXiv
    2507.18071): the ratio is that of a whole answer.
    """
    lengths = mask.sum(1)
    change = (logprobs - old) * mask
    if kind == "gspo":
        change = (change.sum(1) / lengths)[:, None] * mask
    ratio, gain = exp(change), advantages[:, None]
    each = -minimum(ratio * gain, clip(ratio, 1 - LOW, 1 + HIGH) * gain) * mask
    if kind == "dapo":
        return each.sum() / mask.sum()
    return (each.sum(1) / (ANSWER if kind == "dr_grpo" else lengths)).mean()


def derivative_of(kind, logprobs, old, advantages, mask):
    """The derivative of the loss by each log-probability: 0 where the ratio is clipped; elsewhere minus the ratio times the advantage, averaged as the loss is."""
    lengths = mask.sum(1, keepdims=True)
    change = (logprobs - old) * mask
    if kind == "gspo":
        change = change.sum(1, keepdims=True) / lengths * mask
    ratio, gain = numpy.exp(change), advantages[:, None]
    free = ratio * gain <= numpy.clip(ratio, 1 - LOW, 1 + HIGH) * gain
    each = -ratio * gain * free * mask
    if kind == "gspo":  # each token moves the ratio of the whole answer
        each = each.sum(1, keepdims=True) / lengths * mask
    if kind == "dapo":
        return each / mask.sum()
    return each / len(mask) / (ANSWER if kind == "dr_grpo" else lengths)


def by_torch(folder, kind, batch, old, advantages, mask):
    """Loss and gradients of the same batch, computed with torch."""
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    labels = torch.from_numpy(batch["labels"]).clamp(min=0)
    logits = model(torch.from_numpy(batch["input_ids"]), use_cache=False).logits
    logprobs = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    as_torch = [torch.from_numpy(numpy.asarray(x, dtype="f8")) for x in (old, advantages, mask)]
    loss = loss_of(kind, logprobs, *as_torch, exp=torch.exp, minimum=torch.minimum, clip=torch.clamp)
    loss.backward()
    return loss.item(), {name: p.grad.numpy() for name, p in model.named_parameters()}


def check(folder, kind, options, seed=3):
    """The relative difference of loss and gradients from torch's. The old log-probabilities are shifted, so that some ratios are clipped."""
    batch, rewards = make_batch(numpy.random.default_rng(seed), 200)
    mask = batch["labels"] != -100
    advantages = advantages_of(rewards, kind != "dr_grpo")
    with longspan.compile(folder, batch, optimizer=None, weighted=True, **options) as ranks:
        logprobs = ranks.logprobs(batch).astype("f8")
        old = logprobs + 0.3 * numpy.random.default_rng(seed + 1).standard_normal(logprobs.shape)
        loss = loss_of(kind, logprobs, old, advantages, mask)
        ranks.step(batch, by_logprobs=derivative_of(kind, logprobs, old, advantages, mask))
        found = ranks.gradients
    theirs, gradients = by_torch(folder, kind, batch, old, advantages, mask)
    norm = lambda of: sum((of(name) ** 2).sum() for name in found) ** 0.5
    off = norm(lambda name: found[name].astype("f8") - gradients[name]) / norm(lambda name: gradients[name])
    return abs(loss - theirs) / max(1, abs(theirs)), off


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--loss", choices=("grpo", "dapo", "dr_grpo", "gspo"), default="grpo")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--mesh")
    parser.add_argument("--accumulate", type=int)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    options = {name: getattr(args, name) for name in ("ranks", "mesh", "accumulate") if getattr(args, name) is not None}
    if args.check:
        loss, gradient = check(args.model, args.loss, options)
        print(f"{args.loss}: the loss is off by {loss:.1e}, the gradient by {gradient:.1e}")
        return int(loss > 1e-6 or gradient > 1e-5)
    random = numpy.random.default_rng(0)
    batch, rewards = make_batch(random, 200)
    with longspan.compile(args.model, batch, weighted=True, lr=1e-3, weight_decay=0, clip=1.0, **options) as ranks:
        for step in range(args.steps):
            mask = batch["labels"] != -100
            advantages = advantages_of(rewards, args.loss != "dr_grpo")
            old = ranks.logprobs(batch)  # of the model that wrote the answers
            for again in range(2):       # two updates on the same answers: in the second one ratios are no longer 1
                logprobs = ranks.logprobs(batch) if again else old
                loss = loss_of(args.loss, logprobs, old, advantages, mask)
                ranks.step(batch, by_logprobs=derivative_of(args.loss, logprobs, old, advantages, mask))
            better = (advantages[:, None] * (ranks.logprobs(batch) - old) * mask).sum()
            print(f"step {step + 1}: mean reward {rewards.mean():.3f}, loss {loss:.4f}, good answers gained {better:.4f} nats")
            batch, rewards = make_batch(random, 200)
    return 0


if __name__ == "__main__":
    sys.exit(main())
