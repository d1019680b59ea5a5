#include "data/chat.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static const ls_chat_template templates[] = {
    {.name = "chatml",
     .marks = {"<|im_start|>"},
     .begin = "",
     .turn = {{"<|im_start|>system\n", "<|im_end|>", "\n"},
              {"<|im_start|>user\n", "<|im_end|>", "\n"},
              {"<|im_start|>assistant\n", "<|im_end|>", "\n"}}},
    {.name = "llama3",
     .marks = {"<|start_header_id|>"},
     .begin = "<|begin_of_text|>",
     .turn = {{"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", ""},
              {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>", ""},
              {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", ""}},
     .trims = true},
    {.name = "gemma",
     .marks = {"<start_of_turn>"},
     .begin = "<bos>",
     .turn = {[LS_CHAT_USER] = {"<start_of_turn>user\n", "<end_of_turn>", "\n"},
              [LS_CHAT_ASSISTANT] = {"<start_of_turn>model\n", "<end_of_turn>", "\n"}},
     .trims = true,
     .takes_turns = true},
    {.name = "llama2",
     .marks = {"[INST]", "<<SYS>>"},
     .begin = "",
     .turn = {{"<s>[INST] <<SYS>>\n", "\n<</SYS>>\n\n", ""},
              {"<s>[INST] ", " [/INST]", ""},
              {" ", " </s>", ""}},
     .trims = true,
     .takes_turns = true,
     .system_opens = true},
    {.name = "mistral",
     .marks = {"[INST]"},
     .begin = "<s>",
     .turn = {[LS_CHAT_USER] = {"[INST] ", " [/INST]", ""}, [LS_CHAT_ASSISTANT] = {"", "</s>", ""}},
     .takes_turns = true},
};

/* --- which template --------------------------------------------------------------------------------------------------------- */

static void list_names(char *out, size_t room) {
    out[0] = 0;
    for (size_t i = 0, used = 0; i < LS_COUNT(templates); i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i > 0 ? ", " : "", templates[i].name);
}

static bool holds_marks(const ls_chat_template *t, const char *jinja) {
    for (size_t i = 0; i < LS_COUNT(t->marks) && t->marks[i] != NULL; i++)
        if (strstr(jinja, t->marks[i]) == NULL) return false;
    return true;
}

static ls_status recognise(const char *file, const char *jinja, const ls_chat_template **out) {
    char names[120];
    LS_ASSERT(jinja != NULL);
    for (size_t i = 0; i < LS_COUNT(templates); i++) {
        if (!holds_marks(&templates[i], jinja)) continue;
        *out = &templates[i];
        return ls_ok();
    }
    list_names(names, sizeof names);
    return ls_error(LS_UNSUPPORTED,
                    "%s: the chat template is of none of the known kinds (%s); name one with --template",
                    file, names);
}

/* The text of tokenizer_config.json's chat_template: by itself, or the one named "default" of several. */
static ls_status template_of(ls_json_value config, const char **out) {
    const ls_json_value field = ls_json_field(config, "chat_template");
    if (ls_json_as_array(field).code != LS_OK) return ls_json_text(config, "chat_template", out);
    for (size_t i = 0; i < ls_json_count(field); i++) {
        const ls_json_value row = ls_json_item(field, i);
        const char *name;
        LS_TRY(ls_json_as_object(row));
        LS_TRY(ls_json_text(row, "name", &name));
        if (strcmp(name, "default") == 0) return ls_json_text(row, "template", out);
    }
    return ls_json_error(field, "a template named \"default\" among them");
}

static ls_status recognise_folder(const char *folder, const ls_chat_template **out) {
    char path[LS_FILE_PATH];
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_join(folder, "chat_template.jinja", path, sizeof path));
    if (ls_file_exists(path)) {
        LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
        const ls_status status = recognise(path, text, out);
        free(text);
        return status;
    }
    ls_json *document = NULL;
    const char *jinja = NULL;
    LS_TRY(ls_file_join(folder, "tokenizer_config.json", path, sizeof path));
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
    ls_status status = template_of(ls_json_root(document), &jinja);
    if (status.code == LS_OK) status = recognise(path, jinja, out);
    ls_json_free(document);
    return status;
}

ls_status ls_chat_find(const char *name, const char *folder, const ls_chat_template **out) {
    char names[120];
    list_names(names, sizeof names);
    if (name == NULL || strcmp(name, "auto") == 0) {
        if (folder != NULL) return recognise_folder(folder, out);
        return ls_error(LS_USAGE, "--template is missing; expected one of %s, or a --tokenizer that has one",
                        names);
    }
    for (size_t i = 0; i < LS_COUNT(templates); i++) {
        if (strcmp(name, templates[i].name) != 0) continue;
        *out = &templates[i];
        return ls_ok();
    }
    return ls_error(LS_USAGE, "--template is '%s'; known are auto, %s", name, names);
}

/* --- rendering -------------------------------------------------------------------------------------------------------------- */

static ls_status role_of(const ls_chat_template *t, ls_json_value message, ls_chat_role *out) {
    static const char *const names[LS_CHAT_ROLES] = {"system", "user", "assistant"};
    const char *role;
    LS_TRY(ls_json_as_object(message));
    LS_TRY(ls_json_text(message, "role", &role));
    for (int r = 0; r < LS_CHAT_ROLES; r++) {
        if (strcmp(role, names[r]) != 0) continue;
        if (t->turn[r].before == NULL)
            return ls_json_error(ls_json_field(message, "role"),
                                 "user or assistant: template %s has no other", t->name);
        *out = (ls_chat_role)r;
        return ls_ok();
    }
    return ls_json_error(ls_json_field(message, "role"), "system, user or assistant");
}

/* Whose turn it may be behind the one before; LS_CHAT_ROLES: nobody's yet. */
static ls_status check_turn(const ls_chat_template *t, ls_json_value message, ls_chat_role before,
                            ls_chat_role role) {
    const ls_json_value field = ls_json_field(message, "role");
    if (role == LS_CHAT_SYSTEM && t->takes_turns && before != LS_CHAT_ROLES)
        return ls_json_error(field, "user or assistant: the system comes first");
    if (!t->takes_turns || role == LS_CHAT_SYSTEM) return ls_ok();
    const bool users = before != LS_CHAT_USER;
    if ((role == LS_CHAT_USER) != users)
        return ls_json_error(field, "%s: in template %s they take turns", users ? "user" : "assistant",
                             t->name);
    return ls_ok();
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static ls_status render_turn(const ls_chat_template *t, ls_json_value message, bool opened, ls_chat_role role,
                             ls_marked_text *out) {
    const char *content, *before = opened ? "" : t->turn[role].before;
    LS_TRY(ls_json_text(message, "content", &content));
    size_t bytes = strlen(content);
    while (t->trims && bytes > 0 && is_space(content[bytes - 1])) bytes--;
    for (; t->trims && bytes > 0 && is_space(*content); bytes--) content++;
    const bool learnt = role == LS_CHAT_ASSISTANT;
    LS_TRY(ls_marked_append(out, before, strlen(before), false));
    LS_TRY(ls_marked_append(out, content, bytes, learnt));
    LS_TRY(ls_marked_append(out, t->turn[role].after, strlen(t->turn[role].after), learnt));
    return ls_marked_append(out, t->turn[role].tail, strlen(t->turn[role].tail), false);
}

ls_status ls_chat_render(const ls_chat_template *t, ls_json_value messages, ls_marked_text *out) {
    ls_chat_role before = LS_CHAT_ROLES;
    bool answered = false;
    LS_TRY(ls_marked_append(out, t->begin, strlen(t->begin), false));
    for (size_t i = 0; i < ls_json_count(messages); i++) {
        const ls_json_value message = ls_json_item(messages, i);
        ls_chat_role role = LS_CHAT_ROLES;
        LS_TRY(role_of(t, message, &role));
        LS_TRY(check_turn(t, message, before, role));
        LS_TRY(render_turn(t, message, t->system_opens && before == LS_CHAT_SYSTEM, role, out));
        before = role;
        answered |= role == LS_CHAT_ASSISTANT;
    }
    return answered
               ? ls_ok()
               : ls_json_error(messages, "a message of the assistant among them: there is nothing to learn");
}
