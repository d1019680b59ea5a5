#include "data/chat.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#define LLAMA3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3_TOKENS \
    { "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" }

/* Of several whose marks a text holds, the first one is meant. */
static const ls_chat_template templates[] = {
    {.name = "chatml",
     .marks = {"<|im_start|>"},
     .tokens = {"<|im_start|>", "<|im_end|>"},
     .begin = "",
     .bare = true,
     .turn = {{"<|im_start|>system\n", "<|im_end|>", "\n", false},
              {"<|im_start|>user\n", "<|im_end|>", "\n", false},
              {"<|im_start|>assistant\n", "<|im_end|>", "\n", false}}},
    {.name = "llama3.1",
     .marks = {"<|start_header_id|>", "Cutting Knowledge Date"},
     .tokens = LLAMA3_TOKENS,
     .begin = "<|begin_of_text|>",
     .system = "",
     .turn = {{LLAMA3("system") "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
               "<|eot_id|>", "", true},
              {LLAMA3("user"), "<|eot_id|>", "", true},
              {LLAMA3("assistant"), "<|eot_id|>", "", true}},
     .system_first = true},
    {.name = "llama3",
     .marks = {"<|start_header_id|>"},
     .tokens = LLAMA3_TOKENS,
     .begin = "<|begin_of_text|>",
     .turn = {{LLAMA3("system"), "<|eot_id|>", "", true},
              {LLAMA3("user"), "<|eot_id|>", "", true},
              {LLAMA3("assistant"), "<|eot_id|>", "", true}}},
    {.name = "gemma3",
     .marks = {"<start_of_turn>", "first_user_prefix"},
     .tokens = {"<bos>", "<start_of_turn>", "<end_of_turn>"},
     .begin = "<bos>",
     .turn = {{"", "\n\n", "", false},
              {"<start_of_turn>user\n", "<end_of_turn>", "\n", true},
              {"<start_of_turn>model\n", "<end_of_turn>", "\n", true}},
     .takes_turns = true,
     .system_opens = true},
    {.name = "gemma",
     .marks = {"<start_of_turn>"},
     .tokens = {"<bos>", "<start_of_turn>", "<end_of_turn>"},
     .begin = "<bos>",
     .turn = {[LS_CHAT_USER] = {"<start_of_turn>user\n", "<end_of_turn>", "\n", true},
              [LS_CHAT_ASSISTANT] = {"<start_of_turn>model\n", "<end_of_turn>", "\n", true}},
     .takes_turns = true},
    {.name = "llama2",
     .marks = {"[INST]", "<<SYS>>"},
     .tokens = {"<s>", "</s>"},
     .words = {"[INST]", "[/INST]"},
     .begin = "",
     .turn = {{"<<SYS>>\n", "\n<</SYS>>\n\n", "", false},
              {"<s>[INST] ", " [/INST]", "", true},
              {" ", " </s>", "", true}},
     .takes_turns = true,
     .system_opens = true,
     .trims_both = true},
    {.name = "mistral-v3",
     .marks = {"[INST]", "[AVAILABLE_TOOLS]"},
     .tokens = {"<s>", "</s>"},
     .words = {"[INST]", "[/INST]"},
     .begin = "<s>",
     .turn =
         {[LS_CHAT_USER] = {"[INST] ", "[/INST]", "", false}, [LS_CHAT_ASSISTANT] = {" ", "</s>", "", true}},
     .takes_turns = true},
    {.name = "mistral",
     .marks = {"[INST]"},
     .tokens = {"<s>", "</s>"},
     .words = {"[INST]", "[/INST]"},
     .begin = "<s>",
     .turn =
         {[LS_CHAT_USER] = {"[INST] ", " [/INST]", "", false}, [LS_CHAT_ASSISTANT] = {"", "</s>", "", false}},
     .takes_turns = true},
};

const ls_chat_template *ls_chat_template_at(size_t i) {
    return i < LS_COUNT(templates) ? &templates[i] : NULL;
}

/* --- text of the template --------------------------------------------------------------------------------------------------- */

/* The token that the text begins with, its number and length; -1: none. */
static int token_at(const ls_chat_template *form, const char *text, size_t *length) {
    for (int i = 0; i < (int)LS_COUNT(form->tokens) + (int)LS_COUNT(form->words); i++) {
        const int word = i - (int)LS_COUNT(form->tokens);
        const char *token = word < 0 ? form->tokens[i] : form->words[word];
        if (token == NULL) continue;
        *length = strlen(token);
        if (strncmp(text, token, *length) == 0) return i;
    }
    return -1;
}

static ls_status put_literal(const ls_chat *chat, const char *text, bool learnt, ls_marked_text *out) {
    const char *at = text;
    for (size_t length = 0; *at != 0;) {
        const int token = token_at(chat->form, at, &length);
        if (token < 0 || (chat->ids[token] < 0 && !chat->parts)) {
            at++;
            continue;
        }
        LS_TRY(ls_marked_append(out, text, (size_t)(at - text), learnt));
        LS_TRY(ls_marked_append_token(out, at, length, learnt, chat->ids[token]));
        text = at += length;
    }
    return ls_marked_append(out, text, (size_t)(at - text), learnt);
}

/* --- contents --------------------------------------------------------------------------------------------------------------- */

typedef struct content {
    const char *text;
    size_t bytes;
} content;

/* What Python's str.strip drops. */
static bool is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

static content trim_end(content c) {
    for (uint32_t code; c.bytes > 0;) {
        size_t last = c.bytes - 1;
        while (last > 0 && (c.text[last] & 0xc0) == 0x80) last--;
        if (ls_utf8_decode(c.text + last, c.bytes - last, &code) <= 0 || !is_space(code)) break;
        c.bytes = last;
    }
    return c;
}

static content trim_start(content c) {
    for (uint32_t code; c.bytes > 0;) {
        const int length = ls_utf8_decode(c.text, c.bytes, &code);
        if (length <= 0 || !is_space(code)) break;
        c.text += length;
        c.bytes -= (size_t)length;
    }
    return c;
}

static ls_status content_of(const ls_chat_template *form, ls_json_value message, ls_chat_role role,
                            content *out) {
    const char *text;
    const ls_json_value calls = ls_json_field(message, "tool_calls");
    if (ls_json_has(message, "tool_calls") && ls_json_count(calls) > 0)
        return ls_json_error(calls, "none: calls of tools are not supported");
    LS_TRY(ls_json_text(message, "content", &text));
    *out = (content){text, strlen(text)};
    if (form->turn[role].trims) *out = trim_end(*out);
    return ls_ok();
}

/* --- turns ------------------------------------------------------------------------------------------------------------------ */

/* A conversation as far as it is rendered. */
typedef struct rendering {
    const ls_chat *chat;
    ls_marked_text *out;
    ls_chat_role before; /* whose the last message was; LS_CHAT_ROLES: there was none */
    content system;      /* said, and waiting for its user's turn */
    bool waits, answered;
} rendering;

static ls_status role_of(const ls_chat_template *form, ls_json_value message, ls_chat_role *out) {
    static const char *const names[LS_CHAT_ROLES] = {"system", "user", "assistant"};
    const char *role;
    LS_TRY(ls_json_as_object(message));
    LS_TRY(ls_json_text(message, "role", &role));
    for (int r = 0; r < LS_CHAT_ROLES; r++) {
        if (strcmp(role, names[r]) != 0) continue;
        if (form->turn[r].before == NULL)
            return ls_json_error(ls_json_field(message, "role"),
                                 "user or assistant: template %s has no other", form->name);
        *out = (ls_chat_role)r;
        return ls_ok();
    }
    return ls_json_error(ls_json_field(message, "role"), "system, user or assistant");
}

/* Whether it may be this one's turn. */
static ls_status check_turn(const rendering *r, ls_json_value message, ls_chat_role role) {
    const ls_chat_template *form = r->chat->form;
    const ls_json_value field = ls_json_field(message, "role");
    if (role == LS_CHAT_SYSTEM && (form->takes_turns || form->system_first) && r->before != LS_CHAT_ROLES)
        return ls_json_error(field, "user or assistant: the system comes first");
    if (!form->takes_turns || role == LS_CHAT_SYSTEM) return ls_ok();
    const bool users = r->before != LS_CHAT_USER;
    if ((role == LS_CHAT_USER) != users)
        return ls_json_error(field, "%s: in template %s they take turns", users ? "user" : "assistant",
                             form->name);
    return ls_ok();
}

/* What the system said, before the content of the first user. */
static ls_status put_system(rendering *r, content user) {
    const ls_chat_template *form = r->chat->form;
    content after = {form->turn[LS_CHAT_SYSTEM].after, strlen(form->turn[LS_CHAT_SYSTEM].after)};
    if (form->trims_both && user.bytes == 0) after = trim_end(after);
    LS_TRY(put_literal(r->chat, form->turn[LS_CHAT_SYSTEM].before, false, r->out));
    LS_TRY(ls_marked_append(r->out, r->system.text, r->system.bytes, false));
    r->waits = false;
    return ls_marked_append(r->out, after.text, after.bytes, false);
}

static ls_status put_turn(rendering *r, ls_chat_role role, content c) {
    const ls_chat_template *form = r->chat->form;
    const bool learnt = role == LS_CHAT_ASSISTANT;
    r->before = role;
    r->answered |= learnt;
    if (role == LS_CHAT_SYSTEM && form->system_opens) {
        r->system = c;
        r->waits = true;
        return ls_ok();
    }
    if (form->turn[role].trims && !(r->waits && form->trims_both)) c = trim_start(c);
    LS_TRY(put_literal(r->chat, form->turn[role].before, false, r->out));
    if (r->waits) LS_TRY(put_system(r, c));
    LS_TRY(ls_marked_append(r->out, c.text, c.bytes, learnt));
    LS_TRY(put_literal(r->chat, form->turn[role].after, learnt, r->out));
    return put_literal(r->chat, form->turn[role].tail, false, r->out);
}

static ls_status put_message(rendering *r, ls_json_value message) {
    ls_chat_role role = LS_CHAT_ROLES;
    content c = {0};
    LS_TRY(role_of(r->chat->form, message, &role));
    LS_TRY(content_of(r->chat->form, message, role, &c));
    if (r->before == LS_CHAT_ROLES && role != LS_CHAT_SYSTEM && r->chat->system != NULL)
        LS_TRY(put_turn(r, LS_CHAT_SYSTEM, (content){r->chat->system, strlen(r->chat->system)}));
    LS_TRY(check_turn(r, message, role));
    return put_turn(r, role, c);
}

ls_status ls_chat_render(const ls_chat *chat, ls_json_value messages, ls_marked_text *out) {
    rendering r = {.chat = chat, .out = out, .before = LS_CHAT_ROLES};
    if (chat->begins) LS_TRY(put_literal(chat, chat->form->begin, false, out));
    for (size_t i = 0; i < ls_json_count(messages); i++) LS_TRY(put_message(&r, ls_json_item(messages, i)));
    return r.answered
               ? ls_ok()
               : ls_json_error(messages, "a message of the assistant among them: there is nothing to learn");
}
