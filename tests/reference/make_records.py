#!/usr/bin/env python3
"""Records of many forms as other libraries read them: their ids, and which of them are learnt.

    make_records.py

Writes tests/reference/records/cases.json. Texts, messages, prompts with completions and preferences are read by the functions of
TRL's trainers (extract_prompt, common_prefix_length) and transformers' apply_chat_template; the forms of axolotl and of
LLaMA-Factory by what their documentation says, written here a second time. Tokens past the end of an answer are not learnt here,
so the templates write nothing behind it. The stored file was made by trl 1.16.0, transformers 5.24.0, tokenizers 0.23.1.
"""
import json
import pathlib

from transformers import PreTrainedTokenizerFast
from trl.data_utils import extract_prompt

HERE = pathlib.Path(__file__).resolve().parent
TURN = "{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['role'] == 'assistant' %}{% generation %}"
WRITTEN = (
    "{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}"
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ '<call>' + c.function.name + (c.function.arguments | tojson) }}{% endfor %}{{ '<|im_end|>' }}"
)
TOOLS = "{% if tools %}{{ '<|im_start|>system\n' + (tools | tojson) + '<|im_end|>' }}{% endif %}"
PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
TEMPLATES = {
    "blocks": TOOLS + "{% for m in messages %}" + TURN + WRITTEN + "{% endgeneration %}{% else %}" + WRITTEN + "{% endif %}{% endfor %}" + PROMPT,
    "plain": TOOLS + "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}" + WRITTEN + "{% endfor %}" + PROMPT,
}
tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "tokenizers/qwen2/tokenizer.json"), eos_token="<|im_end|>")


def rendered(messages, template, tools=None, prompt=False):
    return tokenizer.apply_chat_template(messages, chat_template=TEMPLATES[template], tools=tools, add_generation_prompt=prompt, tokenize=True, return_dict=False)


def learnt_after(before, ids):
    """TRL's common_prefix_length: the completion starts where the prompt and the whole diverge."""
    n = 0
    while n < min(len(before), len(ids)) and before[n] == ids[n]:
        n += 1
    return [0] * n + [1] * (len(ids) - n)


def conversation(messages, template, tools=None):
    """Answers are learnt, as by assistant masks; an answer with weight 0 or train false is not."""
    ids, learnt = rendered(messages, template, tools), []
    for i, message in enumerate(messages):
        answer = message["role"] == "assistant"
        before = rendered(messages[:i], template, tools, answer) if i > 0 or answer else []
        after = rendered(messages[: i + 1], template, tools)
        assert ids[: len(before)] == before and ids[: len(after)] == after
        learnt += [0] * (len(before) - len(learnt))
        counts = answer and message.get("weight", 1) != 0 and message.get("train", True)
        learnt += [int(bool(counts))] * (len(after) - len(before))
        if counts and message.get("train_detail") is not None:
            learnt[len(before) :] = detail(message, ids[len(before) : len(after)])
    return {"ids": ids, "learnt": learnt, "end": 0}


def detail(message, ids):
    """axolotl: offsets of characters, the last one included; what no part with train true names is not learnt; the end is."""
    content, out, at = message["content"], [], 0
    for token in ids:
        text = tokenizer.decode([token])
        inside = range(at, min(at + len(text), len(content)))
        out.append(int(at >= len(content) or any(p["train"] and p["begin_offset"] <= c <= p["end_offset"] for p in message["train_detail"] for c in inside)))
        at += len(text)
    return out


def text(record):
    ids = tokenizer(record["text"])["input_ids"]
    return {"ids": ids, "learnt": [1] * len(ids), "end": 1}


def answer(prompt, completion, template="plain", tools=None):
    """A prompt and an answer, both texts or both messages."""
    if isinstance(prompt, list):
        before, ids = rendered(prompt, template, tools, True), rendered(prompt + completion, template, tools)
        return {"ids": ids, "learnt": learnt_after(before, ids), "end": 0}
    before, ids = tokenizer(prompt)["input_ids"], tokenizer(prompt + completion)["input_ids"]
    return {"ids": ids, "learnt": learnt_after(before, ids), "end": 1}


ROLES = {"human": "user", "gpt": "assistant", "observation": "tool", "function_call": "assistant", "system": "system"}


def sharegpt(record, template):
    messages = [{"role": "system", "content": record["system"]}] if record.get("system") else []
    for m in record["conversations"]:
        message = {"role": ROLES[m["from"]], "content": m["value"]}
        if m["from"] == "function_call":
            calls = json.loads(m["value"])
            message.update(content="", tool_calls=[{"type": "function", "function": c} for c in (calls if isinstance(calls, list) else [calls])])
        messages.append(message)
    return conversation(messages, template, json.loads(record["tools"]) if record.get("tools") else None)


def alpaca(record, template):
    messages = [{"role": "system", "content": record["system"]}] if record.get("system") else []
    for question, reply in record.get("history") or []:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": reply}]
    messages.append({"role": "user", "content": "\n".join(t for t in (record["instruction"], record.get("input")) if t)})
    return conversation(messages + [{"role": "assistant", "content": record["output"]}], template)


def segments(record):
    ids, learnt = [], []
    for s in record["segments"]:
        more = tokenizer(s["text"], add_special_tokens=False)["input_ids"]
        ids, learnt = ids + more, learnt + [int(s["label"])] * len(more)
    end = 0
    if ids[-1] == tokenizer.eos_token_id: # the frame adds it again
        ids, end, learnt = ids[:-1], learnt[-1], learnt[:-1]
    return {"ids": ids, "learnt": learnt, "end": end}


def listed(record):
    n = len(record["input_ids"])
    ones, labels = [1] * n, record.get("labels", record["input_ids"])
    rows = zip(record["input_ids"], labels, *(record.get(k, ones) for k in ("attention_mask", "completion_mask", "assistant_masks")))
    kept = [(i, int(l != -100 and c and a)) for i, l, m, c, a in rows if m]
    return {"ids": [i for i, _ in kept], "learnt": [l for _, l in kept], "end": 0}


def preference(record, template="plain"):
    prompted = isinstance(record.get("prompt"), type(record["chosen"]))
    parts = record if prompted else extract_prompt(record)
    return {"answers": [dict(answer(parts["prompt"], parts[k], template), wanted=int(k == "chosen")) for k in ("chosen", "rejected")]}


def label(record, template="plain"):
    return {"answers": [dict(answer(record["prompt"], record["completion"], template), wanted=int(record["label"]))]}


U, A, S = ({"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": "It is four."}, {"role": "system", "content": "Be brief."})
B, V = {"role": "assistant", "content": "Five, perhaps."}, {"role": "user", "content": "Why — warum, 為什麼?"}
C = {"role": "assistant", "content": "Because 1 + 1 + 1 + 1."}
TOOL = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]
CALL = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": [1.5, None, True]}}}]}
THOUGHT = dict(A, reasoning_content="two and two")
DETAIL = dict(C, train_detail=[{"begin_offset": 0, "end_offset": 7, "train": False}, {"begin_offset": 8, "end_offset": 12, "train": True}])


def cases():
    yield "text", None, {"text": "A text, and 数字 too."}, text
    for template in TEMPLATES:
        def talk(record, template=template):
            tools = record.get("tools")
            return conversation(record["messages"], template, json.loads(tools) if isinstance(tools, str) else tools)

        for messages in ([S, U, A], [U, A, V, C], [U, THOUGHT], [U, dict(A, weight=0), V, dict(C, weight=1)], [U, dict(A, train=False), V, C], [U, DETAIL]):
            yield "messages", template, {"messages": messages}, talk
        yield "messages", template, {"messages": [U, CALL, {"role": "tool", "content": "4"}, A], "tools": TOOL}, talk
        yield "messages", template, {"messages": [U, A], "tools": json.dumps(TOOL)}, talk
        shared = {"system": "Be brief.", "tools": json.dumps(TOOL), "conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "function_call", "value": '{"name": "add", "arguments": {"a": 2}}'}, {"from": "observation", "value": "4"}, {"from": "gpt", "value": "Four."}]}
        yield "sharegpt", template, {"conversations": shared["conversations"][:1] + shared["conversations"][3:]}, lambda r, t=template: sharegpt(r, t)
        yield "sharegpt", template, shared, lambda r, t=template: sharegpt(r, t)
        yield "alpaca", template, {"instruction": "Add.", "input": "2 and 2", "output": "4"}, lambda r, t=template: alpaca(r, t)
        yield "alpaca", template, {"instruction": "Add 2 and 2.", "input": "", "output": "4", "system": "Be brief.", "history": [["Hi", "Ho"], ["A", "B"]]}, lambda r, t=template: alpaca(r, t)
        yield "completion", template, {"prompt": [S, U], "completion": [A]}, lambda r, t=template: answer(r["prompt"], r["completion"], t)
        yield "completion", template, {"prompt": [U, A, V], "completion": [C], "tools": TOOL}, lambda r, t=template: answer(r["prompt"], r["completion"], t, r["tools"])
        yield "preference", template, {"prompt": [U], "chosen": [A], "rejected": [B]}, lambda r, t=template: preference(r, t)
        yield "preference", template, {"chosen": [U, A, V, C], "rejected": [U, A, V, B]}, lambda r, t=template: preference(r, t)
        yield "preference", template, {"prompt": "What is 2 + 2?", "chosen": [U, A], "rejected": [U, B]}, lambda r, t=template: preference(r, t)
        yield "label", template, {"prompt": [U], "completion": [B], "label": False}, lambda r, t=template: label(r, t)
    yield "completion", None, {"prompt": "The sky is", "completion": " blue."}, lambda r: answer(r["prompt"], r["completion"])
    yield "preference", None, {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."}, preference
    yield "preference", None, {"chosen": "The sky is blue.", "rejected": "The sky is green."}, preference
    yield "preference", None, {"chosen": "Größe: ä", "rejected": "Größe: ö"}, preference
    yield "label", None, {"prompt": "The sky is", "completion": " blue.", "label": True}, label
    yield "segments", None, {"segments": [{"label": False, "text": "<|im_start|>user\nHi<|im_end|>\n"}, {"label": True, "text": "Ho"}, {"label": True, "text": " ho<|im_end|>"}]}, segments
    yield "segments", None, {"segments": [{"label": True, "text": "Ho"}, {"label": False, "text": " and more"}]}, segments
    yield "ids", None, {"input_ids": [40, 41, 42, 43], "labels": [-100, -100, 42, 43]}, listed
    yield "ids", None, {"input_ids": [40, 41, 42, 0], "labels": [-100, 41, 42, -100], "attention_mask": [1, 1, 1, 0]}, listed
    yield "ids", None, {"input_ids": [40, 41, 42], "completion_mask": [0, 1, 1], "assistant_masks": [1, 0, 1]}, listed
    yield "ids", None, {"input_ids": [40, 41, 42]}, listed


made = [dict({"kind": kind, "template": template, "record": record}, **read(record)) for kind, template, record, read in cases()]
for case in made:
    if "answers" not in case and case["ids"][-1:] == [tokenizer.eos_token_id]: # the frame adds the end of document
        case["ids"], case["learnt"], case["end"] = case["ids"][:-1], case["learnt"][:-1], case["learnt"][-1]
    for one in case.get("answers", []):
        if one["ids"][-1:] == [tokenizer.eos_token_id]:
            one["ids"], one["learnt"], one["end"] = one["ids"][:-1], one["learnt"][:-1], one["learnt"][-1]
with open(HERE / "records/cases.json", "w") as out:
    out.write(json.dumps({"tokenizer": "tokenizers/qwen2", "eos": "<|im_end|>", "templates": TEMPLATES}, ensure_ascii=False)[:-1] + ', "cases": [\n')
    out.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in made) + "\n]}\n")
print(len(made), "cases")
