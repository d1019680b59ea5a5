#!/usr/bin/env python3
"""Conversations as transformers' apply_chat_template renders them, their ids, and which of them are the assistant's.

Writes tests/reference/chats/: cases.json, and a tokenizer.json that has the marks of every template (chats/tokenizer) beside those of
../tokenizers. The templates are the published ones of the models named beside them. What stands in the repository was made by
transformers 5.23.0, tokenizers 0.23.1, Python 3.11. The ids are those of the rendered text, with special tokens where the template put
them and nowhere else: contents are encoded with encode_special_tokens. What is learnt, from the offsets of tokens: each that touches an
answer or what the template ends it with.
"""
import json
import os

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
MARKS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<bos>", "<eos>",
         "<start_of_turn>", "<end_of_turn>"]


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


def render(t, jinja, messages):
    """The text, and for each of its characters whether it is content, and whether it is learnt."""
    text = t.apply_chat_template(messages, chat_template=jinja, tokenize=False)
    hidden, known = [], []
    for m in messages:
        base = 0xF0000 + 2000 * len(hidden)
        hidden.append({"role": m["role"], "content": "".join(c if c.isspace() else chr(base + i) for i, c in enumerate(m["content"]))})
    shown = t.apply_chat_template(hidden, chat_template=jinja, tokenize=False)
    assert len(shown) == len(text), (shown, text)
    content = [0xF0000 <= ord(c) for c in shown]
    answers = {2000 * i + k for i, m in enumerate(messages) if m["role"] == "assistant" for k in range(len(m["content"]))}
    learnt = [ord(c) - 0xF0000 in answers for c in shown]
    return text, content, learnt


def encode(t, text, content):
    """Ids and offsets; the marks of the template are found in the text outside contents."""
    backend = t.backend_tokenizer
    special = sorted((a.content for a in backend.get_added_tokens_decoder().values() if a.special), key=len, reverse=True)
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


def make_case(name, messages):
    jinja, family, bos, eos = TEMPLATES[name]
    folder, t = open_tokenizer(family, bos, eos)
    case = {"template": name, "tokenizer": folder, "line": json.dumps({"messages": messages}, ensure_ascii=False)}
    try:
        text, content, learnt = render(t, jinja, messages)
    except Exception as e:  # the template's own refusal
        case["refused"] = str(e)
        return case
    end = {"qwen2": "<|im_end|>", "chatml": "<|im_end|>", "hermes": "<|im_end|>", "llama3": "<|eot_id|>", "llama3.1": "<|eot_id|>",
           "llama2": " </s>", "mistral": "</s>", "mistral-v3": "</s>", "gemma": "<end_of_turn>", "gemma3": "<end_of_turn>"}[name]
    head = {"gemma": "<start_of_turn>model\n", "gemma3": "<start_of_turn>model\n", "llama2": " [/INST] ", "mistral": " [/INST]",
            "mistral-v3": "[/INST] ", "llama3": "<|start_header_id|>assistant<|end_header_id|>\n\n",
            "llama3.1": "<|start_header_id|>assistant<|end_header_id|>\n\n"}.get(name, "<|im_start|>assistant\n")
    # Behind each of the template's own heads of an answer, up to and with the end that the template put.
    at = 0
    while (at := text.find(head, at)) >= 0:
        inside = any(content[k] for k in range(at, at + len(head)))
        at += 1
        if inside:
            continue
        k = at - 1 + len(head)
        while not (text.startswith(end, k) and not any(content[k:k + len(end)])):
            learnt[k] = True
            k += 1
        for i in range(k, k + len(end)):
            learnt[i] = True
    ids, offsets = encode(t, text, content)
    case["text"] = text
    case["ids"] = ids
    if "".join(text[a:b] for a, b in offsets) == text:  # else offsets do not tell
        case["learnt"] = [int(any(learnt[a:b])) for a, b in offsets]
    if not any(m["content"].find("<") >= 0 or m["content"].find("[") >= 0 for m in messages):
        whole = t(text, add_special_tokens=False)["input_ids"]
        assert whole == ids, (name, text, whole, ids)  # nothing hostile in it: as everyone encodes it
    return case


def main():
    make_tokenizer()
    cases = [make_case(name, c) for name in TEMPLATES for c in CONVERSATIONS]
    cases += [make_case(n, talk("a", "b") + [{"role": "assistant", "content": "c"}]) for n in ("llama2", "mistral", "mistral-v3", "gemma", "gemma3")]
    os.makedirs(os.path.join(here, "chats"), exist_ok=True)
    jinja = {name: row[0] for name, row in TEMPLATES.items()}
    with open(os.path.join(here, "chats", "cases.json"), "w") as f:
        json.dump({"templates": jinja, "cases": cases}, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
