/* Rewrites conversations in other forms into records with "messages". */
#include "data/forms_impl.h"

#include "base/base.h"

#include <string.h>

/* ---- pieces of the new record ---- */

static ls_status add(ls_json_buffer *out, const char *text) { return ls_json_buffer_add(out, text, strlen(text)); }

/* Appends a comma, unless something was opened just before. */
static ls_status separate(ls_json_buffer *out) {
    const char last = out->n > 0 ? out->at[out->n - 1] : '{';
    return last == '{' || last == '[' ? ls_ok() : add(out, ",");
}

static ls_status add_key(ls_json_buffer *out, const char *key) {
    LS_TRY(separate(out));
    LS_TRY(ls_json_buffer_text(out, key, strlen(key)));
    return add(out, ":");
}

static ls_status add_member(ls_json_buffer *out, const char *key, ls_json_value value) {
    LS_TRY(add_key(out, key));
    return ls_json_buffer_value(out, value);
}

/* {"role": role, "content": the text `content` */
static ls_status open_message(ls_json_buffer *out, const char *role, ls_json_value content) {
    LS_TRY(separate(out));
    LS_TRY(ls_json_buffer_print(out, "{\"role\":\"%s\"", role));
    return add_member(out, "content", content);
}

static ls_status open_record(ls_json_buffer *out) { return add(out, "{\"messages\":["); }

static ls_status close_record(ls_json_buffer *out, ls_json_value record) {
    static const char *const shared[] = {"tools", "documents", "chat_template_kwargs"};
    LS_TRY(add(out, "]"));
    for (size_t i = 0; i < LS_COUNT(shared); i++)
        if (ls_json_has(record, shared[i])) LS_TRY(add_member(out, shared[i], ls_json_field(record, shared[i])));
    return add(out, "}");
}

/* Appends the members of an object except those named. */
static ls_status add_other_members(ls_json_buffer *out, ls_json_value object, const char *const *except) {
    void *cursor = NULL;
    const char *key;
    ls_json_value value;
    while (ls_json_next(object, &cursor, &key, &value)) {
        const char *const *name = except;
        while (*name != NULL && strcmp(*name, key) != 0) name++;
        if (*name == NULL) LS_TRY(add_member(out, key, value));
    }
    return ls_ok();
}

static ls_status check_text(ls_json_value value) {
    const char *text;
    size_t bytes;
    return ls_json_as_bytes(value, &text, &bytes);
}

/* A member "system" with a non-empty text becomes the first message. */
static ls_status add_system(ls_json_buffer *out, ls_json_value record) {
    const ls_json_value system = ls_json_field(record, "system");
    if (!ls_json_has(record, "system")) return ls_ok();
    LS_TRY(check_text(system));
    if (ls_json_plain_of(system).bytes == 0) return ls_ok();
    LS_TRY(open_message(out, "system", system));
    return add(out, "}");
}

/* ---- ShareGPT ---- */

/* Roles by their names. calls: the text is a tool call, or an array of tool calls. */
static const struct {
    const char *name, *role;
    bool calls;
} roles[] = {
    {"human", "user", false},
    {"user", "user", false},
    {"gpt", "assistant", false},
    {"assistant", "assistant", false},
    {"chatgpt", "assistant", false},
    {"model", "assistant", false},
    {"system", "system", false},
    {"observation", "tool", false},
    {"tool", "tool", false},
    {"tool_response", "tool", false},
    {"function_response", "tool", false},
    {"function_call", "assistant", true},
    {"tool_call", "assistant", true},
};

static ls_status find_role(ls_json_value value, size_t *out) {
    char known[300] = "";
    const char *name;
    LS_TRY(ls_json_as_text(value, &name));
    for (size_t i = 0, used = 0; i < LS_COUNT(roles); i++) {
        *out = i;
        if (strcmp(roles[i].name, name) == 0) return ls_ok();
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", roles[i].name);
    }
    return ls_json_error(value, "one of %s", known);
}

static ls_status add_call(ls_json_buffer *out, ls_json_value call) {
    LS_TRY(ls_json_as_object(call));
    if (!ls_json_has(call, "name")) return ls_json_error(ls_json_field(call, "name"), "the name of a function");
    LS_TRY(separate(out));
    LS_TRY(add(out, "{\"type\":\"function\",\"function\":"));
    LS_TRY(ls_json_buffer_value(out, call));
    return add(out, "}");
}

/* The text of a message is JSON: a tool call, or an array of them, each with a name and arguments. */
static ls_status add_calls(ls_json_buffer *out, ls_json_value value) {
    LS_PATH name = NULL;
    ls_json *calls = NULL;
    const ls_json_plain text = ls_json_plain_of(value);
    LS_TRY(ls_path_print(&name, "%s: %s", value.file, value.path));
    LS_TRY(ls_json_parse_record(name, text.text, text.bytes, &calls));
    const ls_json_value root = ls_json_root(calls);
    ls_status status = add_key(out, "tool_calls");
    if (status.code == LS_OK) status = add(out, "[");
    if (status.code == LS_OK && !ls_json_is_array(root)) status = add_call(out, root);
    for (size_t i = 0; i < ls_json_count(root) && ls_json_is_array(root) && status.code == LS_OK; i++)
        status = add_call(out, ls_json_item(root, i));
    if (status.code == LS_OK) status = add(out, "]");
    ls_json_free(calls);
    return status;
}

/* A message has from and value, or role and content. */
static ls_status add_shared_message(ls_json_buffer *out, ls_json_value message) {
    static const char *const read[] = {"from", "value", "role", "content", NULL};
    LS_TRY(ls_json_as_object(message));
    const bool older = ls_json_has(message, "from") || !ls_json_has(message, "role");
    const ls_json_value content = ls_json_field(message, older ? "value" : "content");
    size_t role;
    LS_TRY(find_role(ls_json_field(message, older ? "from" : "role"), &role));
    if (older) LS_TRY(check_text(content));
    if (roles[role].calls) {
        LS_TRY(check_text(content));
        LS_TRY(open_message(out, roles[role].role, (ls_json_value){.json = NULL}));
        LS_TRY(add_calls(out, content));
    } else {
        LS_TRY(open_message(out, roles[role].role, content));
    }
    LS_TRY(add_other_members(out, message, read));
    return add(out, "}");
}

ls_status ls_rewrite_sharegpt(ls_json_value record, ls_json_buffer *out) {
    ls_json_value messages;
    LS_TRY(ls_json_array(record, "conversations", &messages));
    LS_TRY(open_record(out));
    LS_TRY(add_system(out, record));
    for (size_t i = 0; i < ls_json_count(messages); i++) LS_TRY(add_shared_message(out, ls_json_item(messages, i)));
    return close_record(out, record);
}

/* ---- Alpaca ---- */

static ls_status add_exchange(ls_json_buffer *out, ls_json_value pair) {
    static const char *const names[] = {"user", "assistant"};
    LS_TRY(ls_json_as_array(pair));
    if (ls_json_count(pair) != LS_COUNT(names)) return ls_json_error(pair, "two texts: an instruction and its answer");
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        LS_TRY(check_text(ls_json_item(pair, i)));
        LS_TRY(open_message(out, names[i], ls_json_item(pair, i)));
        LS_TRY(add(out, "}"));
    }
    return ls_ok();
}

/* The user's message: the instruction and, on a new line, the input; empty ones are left out. */
static ls_status add_instruction(ls_json_buffer *out, ls_json_value record) {
    static const char *const names[] = {"instruction", "input"};
    ls_json_buffer text = {0};
    ls_status status = ls_ok();
    for (size_t i = 0; i < LS_COUNT(names) && status.code == LS_OK; i++) {
        const ls_json_value value = ls_json_field(record, names[i]);
        if (!ls_json_has(record, names[i])) continue;
        status = check_text(value);
        const ls_json_plain plain = ls_json_plain_of(value);
        if (status.code != LS_OK || plain.bytes == 0) continue;
        if (text.n > 0) status = ls_json_buffer_add(&text, "\n", 1);
        if (status.code == LS_OK) status = ls_json_buffer_add(&text, plain.text, plain.bytes);
    }
    if (status.code == LS_OK) status = separate(out);
    if (status.code == LS_OK) status = add(out, "{\"role\":\"user\",\"content\":");
    if (status.code == LS_OK) status = ls_json_buffer_text(out, text.n > 0 ? text.at : "", text.n);
    ls_json_buffer_free(&text);
    return status.code == LS_OK ? add(out, "}") : status;
}

ls_status ls_rewrite_alpaca(ls_json_value record, ls_json_buffer *out) {
    ls_json_value history = {.json = NULL};
    LS_TRY(open_record(out));
    LS_TRY(add_system(out, record));
    if (ls_json_has(record, "history")) LS_TRY(ls_json_array(record, "history", &history));
    for (size_t i = 0; i < ls_json_count(history); i++) LS_TRY(add_exchange(out, ls_json_item(history, i)));
    LS_TRY(add_instruction(out, record));
    LS_TRY(check_text(ls_json_field(record, "output")));
    LS_TRY(open_message(out, "assistant", ls_json_field(record, "output")));
    LS_TRY(add(out, "}"));
    return close_record(out, record);
}

/* ---- a prompt of messages, and an answer of messages ---- */

/* context: if the message is an answer, it is not learnt. */
static ls_status add_message(ls_json_buffer *out, ls_json_value message, bool context) {
    static const char *const train[] = {"train", NULL}, *const none[] = {NULL};
    const char *role = "";
    LS_TRY(ls_json_as_object(message));
    if (ls_json_is_text(ls_json_field(message, "role"))) LS_TRY(ls_json_text(message, "role", &role));
    const bool silent = context && strcmp(role, "assistant") == 0;
    LS_TRY(separate(out));
    LS_TRY(add(out, "{"));
    LS_TRY(add_other_members(out, message, silent ? train : none));
    if (silent) {
        LS_TRY(add_key(out, "train"));
        LS_TRY(add(out, "false"));
    }
    return add(out, "}");
}

ls_status ls_rewrite_answer(ls_json_value record, ls_json_value prompt, ls_json_value answer, size_t context,
                            ls_json_buffer *out) {
    const size_t before = ls_json_count(prompt), all = before + ls_json_count(answer);
    LS_TRY(open_record(out));
    for (size_t i = 0; i < all; i++) {
        const ls_json_value message = i < before ? ls_json_item(prompt, i) : ls_json_item(answer, i - before);
        LS_TRY(add_message(out, message, i < context));
    }
    return close_record(out, record);
}

ls_status ls_rewrite_completion(ls_json_value record, ls_json_buffer *out) {
    ls_json_value prompt, completion;
    LS_TRY(ls_json_array(record, "prompt", &prompt));
    LS_TRY(ls_json_array(record, "completion", &completion));
    return ls_rewrite_answer(record, prompt, completion, ls_json_count(prompt), out);
}
