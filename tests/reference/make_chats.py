#!/usr/bin/env python3
"""Conversations as transformers' apply_chat_template renders them, their ids, and which of them are the assistant's.

    make_chats.py [FOLDER]

Writes tests/reference/chats/: cases.json, and a tokenizer.json that has the marks of many templates (chats/tokenizer) beside those of
../tokenizers. The templates are the published ones of the models named beside them, these with common changes, and those
of FOLDER: `examples` of vLLM 0.33.0's source package (Apache License 2.0; the vLLM contributors). Without FOLDER the latter stay as they are
stored. The stored files were made by transformers 5.23.0, tokenizers 0.23.1, Python 3.11. The ids are those of the rendered text, with special tokens where the template put
them and nowhere else: contents are encoded with encode_special_tokens. The learnt tokens are the library's assistant masks where the template has
generation blocks; otherwise the tokens that touch the text written for messages[:i + 1] beyond messages[:i] with add_generation_prompt.
"""
import json
import os
import pathlib
import re
import sys

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

here = os.path.dirname(os.path.abspath(__file__))
ALTERNATE = "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"

# name: (jinja, tokenizer, bos, eos). The tokenizer: of ../tokenizers, or "chats" for the one made here.
TEMPLATES = {
    # Qwen/Qwen2-7B-Instruct
    "qwen2": ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}", "qwen2", None, "<|im_end|>"),
    # the same without a system of its own, as many fine-tunes have it
    "chatml": ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}", "qwen2", None, "<|im_end|>"),
    # NousResearch/Hermes-2-Pro-Llama-3-8B (its default template): chatml behind a begin of text
    "hermes": ("{{bos_token}}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}", "chats", "<|begin_of_text|>", "<|im_end|>"),
    # meta-llama/Meta-Llama-3-8B-Instruct
    "llama3": ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}", "chats", "<|begin_of_text|>", "<|eot_id|>"),
    # meta-llama/Llama-3.1-8B-Instruct, without what it has for tools
    "llama3.1": ("{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- set date_string = \"26 Jul 2024\" %}\n{%- endif %}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n{{- system_message }}\n{{- \"<|eot_id|>\" }}\n{%- for message in messages %}\n    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n", "chats", "<|begin_of_text|>", "<|eot_id|>"),
    # meta-llama/Llama-2-7b-chat-hf
    "llama2": ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}" + ALTERNATE + "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}", "llama2", "<s>", "</s>"),
    # mistralai/Mistral-7B-Instruct-v0.2, as first published
    "mistral": ("{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}", "llama2", "<s>", "</s>"),
    # mistralai/Mistral-7B-Instruct-v0.3, without what it has for tools and for a system; [AVAILABLE_TOOLS] is by what it is known
    "mistral-v3": ("{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if message['role'] == 'user' %}{% if tools %}[AVAILABLE_TOOLS]{% endif %}{{ '[INST] ' + message['content'] + '[/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content']|trim + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}", "mistral3", "<s>", "</s>"),
    # google/gemma-2-9b-it
    "gemma": ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}" + ALTERNATE + "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}", "chats", "<bos>", "<eos>"),
    # google/gemma-3-1b-it, without what it has for images
    "gemma3": ("{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n    {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}\n    {%- set loop_messages = messages[1:] -%}\n{%- else -%}\n    {%- set first_user_prefix = \"\" -%}\n    {%- set loop_messages = messages -%}\n{%- endif -%}\n{%- for message in loop_messages -%}\n    " + ALTERNATE + "\n    {%- if (message['role'] == 'assistant') -%}\n        {%- set role = \"model\" -%}\n    {%- else -%}\n        {%- set role = message['role'] -%}\n    {%- endif -%}\n    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else \"\") }}\n    {{- message['content'] | trim -}}\n    {{ '<end_of_turn>\n' }}\n{%- endfor -%}\n", "chats", "<bos>", "<eos>"),
}
CHATML = TEMPLATES["chatml"][0]
QWEN2 = TEMPLATES["qwen2"][0]
LLAMA3 = TEMPLATES["llama3"][0]
GENERATION = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
# What people change in them.
MODIFIED = {
    "chatml-upper": CHATML.replace("message['role']", "message['role'] | upper"),
    "chatml-renamed": CHATML.replace("message['role']", "{'user': 'human', 'assistant': 'bot', 'system': 'rules'}[message['role']]").replace("assistant\n", "bot\n"),
    "chatml-no-newline": CHATML.replace("'<|im_end|>' + '\n'", "'<|im_end|>'"),
    "chatml-trim": CHATML.replace("message['content']", "message['content'] | trim"),
    "chatml-strip": CHATML.replace("message['content']", "message['content'].strip()"),
    "chatml-bos": "{{bos_token}}" + CHATML,
    "chatml-crlf": CHATML.replace("{% for", "\r\n{%- for").replace("{% endfor %}", "\r\n{% endfor %}\r\n") + "\r\n",
    "chatml-crlf-text": CHATML.replace("+ '\n' +", "+ '\r\n' +"),
    "qwen2-forced-system": QWEN2.replace("You are a helpful assistant.", "You are a pirate."),
    "chatml-drops-system": CHATML.replace("{{'<|im_start|>'", "{% if message['role'] != 'system' %}{{'<|im_start|>'").replace("{% endfor %}", "{% endif %}{% endfor %}"),
    "chatml-system-once": "{% set ns = namespace(system='none') %}{% for m in messages if m.role == 'system' %}{% set ns.system = m.content %}{% endfor %}{{ '<|im_start|>system\n' ~ ns.system ~ '<|im_end|>\n' }}" + CHATML.replace("in messages", "in messages if message.role != 'system'"),
    "chatml-generation": GENERATION,
    "chatml-macro": "{% macro turn(role, text) %}<|im_start|>{{ role }}\n{{ text }}<|im_end|>\n{% endmacro %}{% for m in messages %}{{ turn(m.role, m.content) }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "chatml-think": "{% for m in messages %}{% set c = m.content %}{% if m.role == 'assistant' and '</think>' in c and not loop.last %}{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ c ~ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama3-no-trim": LLAMA3.replace(" | trim", ""),
    "llama3-upper": LLAMA3.replace("message['role']", "message['role'].upper()"),
    "llama3-no-bos": LLAMA3.replace("bos_token + content", "content"),
    "llama3-one-newline": LLAMA3.replace("\n\n", "\n"),
    "llama3-eos": LLAMA3 + "{{ eos_token }}",
    "llama3-forced-system": "{% if messages[0].role != 'system' %}{{ bos_token ~ '<|start_header_id|>system<|end_header_id|>\n\nBe a pirate.<|eot_id|>' }}{% endif %}" + LLAMA3.replace("{% if loop.index0 == 0 %}", "{% if loop.first and message.role == 'system' %}"),
    "zephyr": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    "alpaca": "{% for m in messages %}{% if m.role == 'user' %}### Instruction:\n{{ m.content }}\n\n{% elif m.role == 'assistant' %}### Response:\n{{ m.content }}{{ eos_token }}\n\n{% else %}{{ m.content }}\n\n{% endif %}{% endfor %}{% if add_generation_prompt %}### Response:\n{% endif %}",
    "phi-roles": "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}",
}
MARKS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<bos>", "<eos>",
         "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|eom_id|>", "<|python_tag|>"]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Its name"}, "days": {"type": "integer", "enum": [1, 2]}}, "required": ["city"]}}}]


def talk(*contents, system=None):
    roles = ["user", "assistant"] * len(contents)
    start = [] if system is None else [{"role": "system", "content": system}]
    return start + [{"role": r, "content": c} for r, c in zip(roles, contents)]


# Every mark there is, as a user or an assistant may write it.
HOSTILE = "".join(MARKS) + "<s></s>[INST][/INST]<<SYS>><|endoftext|><|end_of_text|><tool_call>"
CONVERSATIONS = [
    talk("Hi", "Ho"),
    talk("Hi", "Ho", system="Be brief."),
    talk("What is 2 + 2?", "4.", "And 3 + 3?", "It is 6,\nas a rule.", "Thanks!", "You are welcome."),
    talk("  white \t\n", "\n\n space \u00a0\u3000\n", "\u2003x\u0085", "y ", system=" around\n\n"),
    talk("", "", "  ", "\n", system=""),
    talk("", "An answer to nothing.", system="S"),
    talk("a" + HOSTILE + "b", HOSTILE, system="e<|im_end|>\n<|eot_id|></s><end_of_turn>"),
    talk("數學 😀 é", "def f(x):\n    return x  # ünï", "Ω\r\n\r\nx", "end"),
    talk("[INST] no [/INST]", "</s><s>", "x </s>", " [/INST]"),
]


# Of the others: no marks inside.
FRIENDLY = [
    {"messages": talk("Hi", "Ho")},
    {"messages": talk("What is 2 + 2? ", " 4.\n", "And 3 + 3?", "It is 6,\nas a rule.", system="Be brief. ")},
    {"messages": talk("數學 😀", "<think>\nhm\n</think>\n\nΩ", "c", "end")},
    {"tools": TOOLS, "messages": talk("Rain?") + [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "abc123def", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}}]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "abc123def", "content": "{\"sun\": true}"}, {"role": "assistant", "content": "Sunny."}]},
]


def make_tokenizer():
    """The family of Llama 3's form with all marks as special tokens."""
    with open(os.path.join(here, "tokenizers", "llama3", "tokenizer.json")) as f:
        tokenizer = Tokenizer.from_str(f.read())
    tokenizer.add_special_tokens([AddedToken(m, special=True, normalized=False) for m in MARKS])
    os.makedirs(os.path.join(here, "chats", "tokenizer"), exist_ok=True)
    tokenizer.save(os.path.join(here, "chats", "tokenizer", "tokenizer.json"), pretty=False)
    with open(os.path.join(here, "chats", "tokenizer", "tokenizer_config.json"), "w") as f:
        json.dump({"eos_token": "<|end_of_text|>"}, f)


def open_tokenizer(name, bos, eos):
    folder = "chats/tokenizer" if name == "chats" else "tokenizers/" + name
    t = PreTrainedTokenizerFast(tokenizer_file=os.path.join(here, folder, "tokenizer.json"))
    t.add_special_tokens({k: v for k, v in (("bos_token", bos), ("eos_token", eos)) if v})
    return folder, t


def apply(t, jinja, record, upto=None, prompt=False):
    return t.apply_chat_template(record["messages"][:upto], tools=record.get("tools"), chat_template=jinja, tokenize=False, add_generation_prompt=prompt)


def contents_of(t, jinja, record):
    """For each character of the text whether it is content: its letters are hidden behind others. Of friendly conversations nothing needs it."""
    if not any("<" in (m["content"] or "") or "[" in (m["content"] or "") for m in record["messages"]) or "tools" in record or "</think>" in json.dumps(record):
        return None
    hidden = []
    for m in record["messages"]:
        base = 0xF0000 + 2000 * len(hidden)
        hidden.append({"role": m["role"], "content": "".join(c if c.isspace() else chr(base + i) for i, c in enumerate(m["content"]))})
    return [0xF0000 <= ord(c) for c in apply(t, jinja, {"messages": hidden})]


def specials_of(t):
    return sorted((a.content for a in t.backend_tokenizer.get_added_tokens_decoder().values() if a.special), key=len, reverse=True)


def learnt_of(t, jinja, record, text, content):
    """By differences of prefixes; None where they tell nothing simple."""
    learnt = [False] * len(text)
    for i, m in enumerate(record["messages"]):
        if m["role"] != "assistant":
            continue
        before, behind = apply(t, jinja, record, i, True) if i > 0 else None, apply(t, jinja, record, i + 1)
        if before is None or not behind.startswith(before) or not text.startswith(behind):
            return None
        end = len(behind)
        while end > len(before) and behind[end - 1] in " \r\n" and not content[end - 1]:
            end -= 1
        token = next((s for s in specials_of(t) if behind.endswith(s, 0, end) and not any(content[end - len(s):end])), None)
        for k in range(len(before), end if token else len(behind)):
            learnt[k] = True
    return learnt


def encode(t, text, content):
    """Ids and offsets; the marks of the template are found in the text outside contents."""
    backend = t.backend_tokenizer
    special = specials_of(t)
    cuts, at = [], 0
    while at < len(text):
        hit = next((s for s in special if text.startswith(s, at) and not any(content[at:at + len(s)])), None)
        if hit:
            cuts.append((at, at + len(hit), backend.token_to_id(hit)))
        at += len(hit) if hit else 1
    ids, offsets, done = [], [], 0
    backend.encode_special_tokens = True
    for start, end, token in cuts + [(len(text), len(text), None)]:
        if start > done:
            part = backend.encode(text[done:start], add_special_tokens=False)
            ids += part.ids
            offsets += [(a + done, b + done) for a, b in part.offsets]
        if token is not None:
            ids.append(token)
            offsets.append((start, end))
        done = end
    backend.encode_special_tokens = False
    return ids, offsets


def make_case(name, template, record):
    jinja, family, bos, eos = template
    folder, t = open_tokenizer(family, bos, eos)
    case = {"template": name, "tokenizer": folder, "bos": bos, "eos": eos, "line": json.dumps(record, ensure_ascii=False)}
    try:
        text = apply(t, jinja, record)
    except Exception as e:  # the template's own refusal, or what it cannot do with such a message
        case["refused"] = str(e)
        return case
    hidden = contents_of(t, jinja, record)
    content = hidden or [False] * len(text)
    assert len(content) == len(text), (name, text)
    case["text"] = text
    if "{% generation" in jinja and hidden is None:
        out = t.apply_chat_template(record["messages"], chat_template=jinja, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        case["ids"], case["learnt"] = out["input_ids"], out["assistant_masks"]
        return case
    case["ids"], offsets = encode(t, text, content)
    try:
        learnt = None if "{% generation" in jinja else learnt_of(t, jinja, record, text, content)
    except Exception:
        learnt = None
    if learnt and "".join(text[a:b] for a, b in offsets) == text:  # else offsets do not tell
        case["learnt"] = [int(any(learnt[a:b])) for a, b in offsets]
    if hidden is None:
        whole = t(text, add_special_tokens=False)["input_ids"]
        assert whole == case["ids"], (name, text, whole, case["ids"])  # nothing hostile in it: as everyone encodes it
    return case


def vllm_templates(folder):
    """Of those that render a friendly conversation; each once."""
    out = {}
    for path in sorted(pathlib.Path(folder).rglob("*chat_template*.jinja")):
        text = path.read_text(encoding="utf-8")
        if len(text) < 9000 and "strftime_now" not in text and text not in out.values():
            out["vllm/" + path.name] = text
    return out


def main():
    make_tokenizer()
    out = os.path.join(here, "chats", "cases.json")
    if len(sys.argv) > 1:
        published = vllm_templates(sys.argv[1])
    else:
        with open(out, encoding="utf-8") as f:
            published = {k: v for k, v in json.load(f)["templates"].items() if k.startswith("vllm/")}
    others = {name: (text, "chats", "<|begin_of_text|>", "<|eot_id|>") for name, text in {**MODIFIED, **published}.items()}
    cases = [make_case(name, t, {"messages": c}) for name, t in TEMPLATES.items() for c in CONVERSATIONS]
    cases += [make_case(n, TEMPLATES[n], {"messages": talk("a", "b") + [{"role": "assistant", "content": "c"}]}) for n in ("llama2", "mistral", "mistral-v3", "gemma", "gemma3")]
    cases += [make_case(name, t, c) for name, t in others.items() for c in FRIENDLY]
    templates = {name: row[0] for name, row in {**TEMPLATES, **others}.items()}
    print(len(templates), "templates,", len(cases), "cases,", sum("refused" in c for c in cases), "refused,", sum("learnt" in c for c in cases), "with masks")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"templates": templates, "cases": cases}, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
