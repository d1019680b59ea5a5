/* Published forms of chat templates, by name, for tokenizers whose folder has none. Without tools: a conversation that has any is refused. */
#include "base/base.h"
#include "data/chat.h"

/* Of each message: a role that the form has, a text, no calls. */
#define CHECK(roles)                                                                                             \
    "{%- if tools %}{{ raise_exception('tools are not supported') }}{% endif -%}"                                \
    "{%- for m in messages -%}"                                                                                  \
    "{%- if m.role not in [" roles                                                                               \
    "] %}{{ raise_exception('role is ' ~ m.role ~ ', expected one of ' ~ [" roles                                \
    "] | join(', ')) }}{% endif -%}"                                                                             \
    "{%- if m.tool_calls %}{{ raise_exception('calls of tools are not supported') }}{% endif -%}"                \
    "{%- if m.content is not string %}{{ raise_exception('content of ' ~ m.role ~ ' is no text') }}{% endif -%}" \
    "{%- endfor -%}"
#define ALL_ROLES "'system', 'user', 'assistant'"
#define TWO_ROLES "'user', 'assistant'"
/* The system, where it speaks, comes first; then they take turns, from the user on. */
#define SYSTEM_FIRST                                                                                  \
    "{%- set system = messages[0].content if messages and messages[0].role == 'system' else none -%}" \
    "{%- set talk = messages[1:] if system is not none else messages -%}"
#define TURNS                                                                                                       \
    "{%- for m in talk %}{% if m.role != ['user', 'assistant'][loop.index0 % 2] %}{{ raise_exception('role is ' ~ " \
    "m.role ~ ', expected ' ~ ['user', 'assistant'][loop.index0 % 2] ~ ': they take turns') }}{% endif %}{% endfor -%}"

#define CHATML                                                                                                  \
    CHECK(ALL_ROLES)                                                                                            \
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}"               \
    "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}" \
    "{% endif %}{{ '\\n' }}{% endfor %}"

#define LLAMA3_TURNS(of)                                                                                     \
    "{%- for m in " of " %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"                 \
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|eot_id|>' }}{% endgeneration %}" \
    "{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"

#define GEMMA_TURNS(first)                                                                          \
    "{{ '<bos>' }}{% for m in talk %}{% if m.role == 'assistant' %}{{ '<start_of_turn>model\\n' }}" \
    "{% generation %}{{ m.content | trim + '<end_of_turn>' }}{% endgeneration %}{% else %}"         \
    "{{ '<start_of_turn>user\\n' + " first                                                          \
    " + m.content | trim + '<end_of_turn>' }}{% endif %}{{ '\\n' }}{% endfor %}"

#define MISTRAL_TURNS(user, before, answer)                                                           \
    "{{ '<s>' }}{% for m in talk %}{% if m.role == 'user' %}{{ " user " }}{% else %}{{ " before " }}" \
    "{% generation %}{{ " answer " + '</s>' }}{% endgeneration %}{% endif %}{% endfor %}"

static const struct {
    const char *name, *jinja;
} forms[] = {
    {"chatml", CHATML},
    {"llama3", CHECK(ALL_ROLES) "{{ '<|begin_of_text|>' }}" LLAMA3_TURNS("messages")},
    {"llama3.1", CHECK(ALL_ROLES) SYSTEM_FIRST
     "{%- for m in talk if m.role == 'system' %}{{ raise_exception('the system comes first') }}{% endfor -%}"
     "{{ '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\n"
     "Today Date: 26 Jul 2024\\n\\n' + (system or '') | trim + '<|eot_id|>' }}" LLAMA3_TURNS("talk")},
    {"llama2", CHECK(ALL_ROLES) SYSTEM_FIRST TURNS
     "{%- for m in talk %}{% if m.role == 'user' %}{% set first = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' if "
     "loop.first and system is not none else '' %}{{ '<s>[INST] ' + (first + m.content) | trim + ' [/INST]' }}"
     "{% else %}{{ ' ' }}{% generation %}{{ m.content | trim + ' </s>' }}{% endgeneration %}{% endif %}{% endfor %}"},
    {"mistral", CHECK(TWO_ROLES) "{%- set talk = messages -%}" TURNS MISTRAL_TURNS(
                    "'[INST] ' + m.content + ' [/INST]'", "''", "m.content")},
    {"mistral-v3", CHECK(TWO_ROLES) "{%- set talk = messages -%}" TURNS MISTRAL_TURNS(
                       "'[INST] ' + m.content + '[/INST]'", "' '", "m.content | trim")},
    {"gemma", CHECK(TWO_ROLES) "{%- set talk = messages -%}" TURNS GEMMA_TURNS("''")},
    {"gemma3", CHECK(ALL_ROLES) SYSTEM_FIRST TURNS GEMMA_TURNS(
                   "(system + '\\n\\n' if loop.first and system is not none else '')")},
};

const char *ls_chat_form(size_t i, const char **name) {
    if (i >= LS_COUNT(forms)) return NULL;
    *name = forms[i].name;
    return forms[i].jinja;
}
