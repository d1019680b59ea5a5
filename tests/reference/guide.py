#!/usr/bin/env python3
"""Runs docs/fine-tuning.md word by word.

    guide.py BUILD [FOLDER]

Makes in FOLDER (a temporary one when left out) what the page takes as given: a small Qwen3-4B with random weights and a tokenizer, conversations of 30 to 100,000 tokens,
some held out, and pairs. Then runs the blocks of the page in their order, each as it stands: shell, settings, Python. The training is killed (SIGKILL) at its first checkpoint,
so that the command of the page that resumes it has something to do, and is run once more without interruption: the losses of all steps must be the same digits. In the end the
adapter as peft loads it and the merged model as transformers loads it must have logits alike, and differ from the base.
Takes half an hour on two cores, and 2 GiB. Made with peft 0.21.2, transformers 5.24.0.
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/fine-tuning.md"
WORDS = "the long road goes on over hills and by the sea where ships wait for wind and people talk of what they saw".split()
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
EPOCH = 1_750_000  # words of an epoch: four steps, so that the evaluation after ten steps leaves a checkpoint


def text(random_numbers, words):
    return " ".join(random_numbers.choice(WORDS) for _ in range(words))


def write_model(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.train_from_iterator([text(random.Random(0), 5000), "user assistant"], trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=152, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=40960, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        bos_token_id=None, eos_token_id=tokenizer.token_to_id("<|im_end|>"), pad_token_id=None)
    transformers.Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def write_records(folder):
    numbers = random.Random(1)

    def conversation(words):
        turns = []
        while words > 0:
            n = min(words, numbers.randint(10, 400) if words < 20_000 else words)
            turns += [{"role": "user", "content": text(numbers, n // 3 + 1)}, {"role": "assistant", "content": text(numbers, n - n // 3)}]
            words -= n
        return json.dumps({"messages": turns})

    def write(name, total, longest):
        with open(folder / name, "w") as file:
            while total > 0:
                words = int(numbers.lognormvariate(6, 1)) + 10 if longest == 0 else longest
                longest = 0
                file.write(conversation(words) + "\n")
                total -= words

    write("conversations.jsonl", EPOCH, 95_000)
    write("held-out.jsonl", 20_000, 0)
    with open(folder / "pairs.jsonl", "w") as file:
        for _ in range(40):
            answers = [{"role": "assistant", "content": text(numbers, numbers.randint(5, 60))} for _ in range(2)]
            file.write(json.dumps({"prompt": [{"role": "user", "content": text(numbers, 20)}], "chosen": answers[:1], "rejected": answers[1:]}) + "\n")


def shell(command, folder):
    print("$", command, flush=True)
    began = time.monotonic()
    done = subprocess.run(command, shell=True, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = done.stdout.splitlines()
    print("\n".join(lines[:4] + ["   ..."] + lines[-8:] if len(lines) > 12 else lines), f"\n[{time.monotonic() - began:.0f} s]", flush=True)
    if done.returncode != 0:
        sys.exit(f"exit status {done.returncode}: {command}")


def kill_at_checkpoint(command, folder):
    """Runs the training until its folder has a checkpoint, and kills it with all that it started."""
    run = subprocess.Popen(command, shell=True, cwd=folder, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None and not (folder / "tuned/best").exists():
        time.sleep(0.02)
    if run.poll() is not None:
        sys.exit(f"the training ended (status {run.returncode}) before it had a checkpoint")
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    print(f"$ {command}\n[killed at {sorted(path.name for path in (folder / 'tuned').glob('checkpoint-*'))}]", flush=True)


def losses(folder):
    return {row["step"]: row["loss"] for row in map(json.loads, open(folder / "metrics.jsonl")) if "loss" in row and "step" in row}


def compare(python, folder):
    """The page's Python, then its model beside the merged one."""
    scope = {}
    here = os.getcwd()
    os.chdir(folder)
    exec(python, scope)
    ids = torch.randint(3, scope["config"].vocab_size, (1, 300), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        adapted = scope["model"].float().eval()(ids).logits
        merged = transformers.AutoModelForCausalLM.from_pretrained("Qwen3-4B-tuned", dtype=torch.float32).eval()(ids).logits
        base = transformers.AutoModelForCausalLM.from_pretrained("Qwen3-4B", config=scope["config"], dtype=torch.float32).eval()(ids).logits
    os.chdir(here)
    apart, changed = ((a - merged).abs().max().item() / merged.abs().max().item() for a in (adapted, base))
    print(f"logits: adapter beside merged {apart:.1e}, base beside merged {changed:.1e}")
    if not (apart < 5e-3 and 5 * apart < changed):
        sys.exit("the merged model is not the base with its adapter, to the rounding of bf16")


def main(build, folder):
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{build}:{os.environ['PATH']}"
    write_model(folder / "Qwen3-4B")
    write_records(folder)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    python = ""
    for language, block in blocks:
        if language == "yaml":
            (folder / "finetune.yaml").write_text(block)
        elif language == "python":
            python = block
        for command in block.splitlines() if language == "sh" else []:
            trains = command.startswith("longspan train --config finetune.yaml --out tuned")
            if trains and "--resume" not in command:
                kill_at_checkpoint(command, folder)
                shell(command.replace("--out tuned", "--out whole"), folder)
            else:
                shell(command, folder)
    resumed, whole = losses(folder / "tuned"), losses(folder / "whole")
    print(f"{len(whole)} steps, losses {whole[min(whole)]:.4f} to {whole[max(whole)]:.4f}; resumed the same: {resumed == whole}")
    if resumed != whole:
        sys.exit("the resumed run has other losses")
    compare(python, folder)


if len(sys.argv) == 3:
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
elif len(sys.argv) == 2:
    with tempfile.TemporaryDirectory() as temporary:
        main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(temporary))
else:
    sys.exit(__doc__)
