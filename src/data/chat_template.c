/*
 * Opening a chat template: one of the published forms below, one of the tokenizer's folder, or a file.
 */
#include "base/base.h"
#include "data/chat_impl.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "chat_template.jinja"
#define MORE_FOLDER "additional_chat_templates"
#define CONFIG_NAME "tokenizer_config.json"

/* ---- published forms, for tokenizers whose folder has no template; none of them has tools ---- */

/* Refuses tools, and messages with another role, without a text, or with calls of tools. */
#define CHECK(roles)                                                                                             \
    "{%- if tools %}{{ raise_exception('tools are not supported') }}{% endif -%}"                                \
    "{%- for m in messages -%}"                                                                                  \
    "{%- if m.role not in [" roles "] %}{{ raise_exception('role is ' ~ m.role ~ ', expected one of ' ~ [" roles \
    "] | join(', ')) }}{% endif -%}"                                                                             \
    "{%- if m.tool_calls %}{{ raise_exception('calls of tools are not supported') }}{% endif -%}"                \
    "{%- if m.content is not string %}{{ raise_exception('content of ' ~ m.role ~ ' is no text') }}{% endif -%}" \
    "{%- endfor -%}"
#define ALL_ROLES "'system', 'user', 'assistant'"
#define TWO_ROLES "'user', 'assistant'"
/* The system message, if any, comes first; then user and assistant take turns. */
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
    {"mistral", CHECK(TWO_ROLES) "{%- set talk = messages -%}" TURNS MISTRAL_TURNS("'[INST] ' + m.content + ' [/INST]'",
                                                                                   "''", "m.content")},
    {"mistral-v3", CHECK(TWO_ROLES) "{%- set talk = messages -%}" TURNS MISTRAL_TURNS(
                       "'[INST] ' + m.content + '[/INST]'", "' '", "m.content | trim")},
    {"gemma", CHECK(TWO_ROLES) "{%- set talk = messages -%}" TURNS GEMMA_TURNS("''")},
    {"gemma3", CHECK(ALL_ROLES)
                   SYSTEM_FIRST TURNS GEMMA_TURNS("(system + '\\n\\n' if loop.first and system is not none else '')")},
};

const char *ls_chat_form(size_t i, const char **name) {
    if (i >= LS_COUNT(forms)) return NULL;
    *name = forms[i].name;
    return forms[i].jinja;
}

static void list_forms(char *out, size_t room) {
    const char *name;
    out[0] = 0;
    for (size_t i = 0, used = 0; ls_chat_form(i, &name) != NULL && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i > 0 ? ", " : "", name);
}

/* ---- adding a template ---- */

/* Parses a template into *out and adds it to the hash. file: for errors, and the name of the main template. */
static ls_status add_template(const char *file, const char *text, size_t bytes, ls_chat *chat, ls_jinja **out) {
    const uint64_t both[] = {chat->hash, ls_hash_bytes(text, bytes)};
    LS_TRY(ls_jinja_read(file, text, bytes, out));
    chat->hash = ls_hash_bytes(both, sizeof both);
    return chat->jinja == *out ? ls_path_print(&chat->name, "%s", file) : ls_ok();
}

static ls_status add_file(const char *path, ls_chat *chat) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    const ls_status status = add_template(path, text, bytes, chat, &chat->jinja);
    free(text);
    return status;
}

/* ---- templates of a tokenizer_config.json ---- */

/* Finds the template of this name; *out NULL: there is none. */
static ls_status find_named(ls_json_value templates, const char *name, const char **out) {
    *out = NULL;
    for (size_t i = 0; i < ls_json_count(templates) && *out == NULL; i++) {
        const ls_json_value row = ls_json_item(templates, i);
        const char *row_name;
        LS_TRY(ls_json_as_object(row));
        LS_TRY(ls_json_text(row, "name", &row_name));
        if (strcmp(name, row_name) == 0) LS_TRY(ls_json_text(row, "template", out));
    }
    return ls_ok();
}

static ls_status add_text(const char *file, const char *text, ls_chat *chat, ls_jinja **out) {
    return text != NULL ? add_template(file, text, strlen(text), chat, out) : ls_ok();
}

/*
 * chat_template is a single text, or an array of named ones. name NULL: the single text, or the template "default" and
 * the one for tools. If there is no template of that name, chat->jinja stays NULL.
 */
static ls_status add_from_value(const char *path, ls_json_value config, const char *name, ls_chat *chat) {
    const ls_json_value field = ls_json_field(config, "chat_template");
    const char *text = NULL, *tools = NULL;
    LS_PATH file = NULL;
    if (!ls_json_is_array(field)) {
        if (name != NULL) return ls_ok();
        LS_TRY(ls_json_text(config, "chat_template", &text));
        LS_TRY(ls_path_print(&file, "%s chat_template", path));
        return add_text(file, text, chat, &chat->jinja);
    }
    LS_TRY(find_named(field, name != NULL ? name : "default", &text));
    if (name == NULL) LS_TRY(find_named(field, "tool_use", &tools));
    if (text == NULL && name == NULL) return ls_json_error(field, "a template named \"default\" among them");
    LS_TRY(ls_path_print(&file, "%s chat_template %.30s", path, name != NULL ? name : "default"));
    LS_TRY(add_text(file, text, chat, &chat->jinja));
    LS_TRY(ls_path_print(&file, "%s chat_template tool_use", path));
    return add_text(file, tools, chat, &chat->with_tools);
}

static ls_status add_from_config(const char *folder, const char *name, ls_chat *chat) {
    LS_PATH path = NULL;
    ls_json *document = NULL;
    LS_TRY(ls_path_join(folder, CONFIG_NAME, &path));
    if (name != NULL && !ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
    ls_status status = ls_json_as_object(ls_json_root(document));
    if (status.code == LS_OK) status = add_from_value(path, ls_json_root(document), name, chat);
    ls_json_free(document);
    return status;
}

/* ---- templates of a folder ---- */

static ls_status add_from_folder(const char *folder, ls_chat *chat) {
    LS_PATH path = NULL;
    LS_TRY(ls_path_join(folder, FILE_NAME, &path));
    return ls_file_exists(path) ? add_file(path, chat) : add_from_config(folder, NULL, chat);
}

/* Adds one of the folder's additional templates. If there is none of that name, chat->jinja stays NULL. */
static ls_status add_from_folder_by_name(const char *folder, const char *name, ls_chat *chat) {
    LS_PATH inside = NULL;
    LS_PATH path = NULL;
    if (strchr(name, '/') != NULL || strlen(name) > 100) return ls_ok();
    LS_TRY(ls_path_print(&inside, MORE_FOLDER "/%s.jinja", name));
    LS_TRY(ls_path_join(folder, inside, &path));
    return ls_file_exists(path) ? add_file(path, chat) : add_from_config(folder, name, chat);
}

static ls_status find_template(const ls_chat_options *o, ls_chat *chat) {
    char known[120];
    const char *text, *name;
    list_forms(known, sizeof known);
    if (o->name == NULL || strcmp(o->name, "auto") == 0) {
        if (o->folder != NULL) return add_from_folder(o->folder, chat);
        return ls_error(LS_USAGE, "--template is missing; expected one of %s, a file, or a --tokenizer that has one",
                        known);
    }
    if (o->folder != NULL) LS_TRY(add_from_folder_by_name(o->folder, o->name, chat));
    for (size_t i = 0; chat->jinja == NULL && (text = ls_chat_form(i, &name)) != NULL; i++)
        if (strcmp(o->name, name) == 0) LS_TRY(add_template(name, text, strlen(text), chat, &chat->jinja));
    if (chat->jinja == NULL && ls_file_exists(o->name)) LS_TRY(add_file(o->name, chat));
    return chat->jinja != NULL ? ls_ok()
                               : ls_error(LS_USAGE, "--template is '%s'; known are auto, %s%s and files", o->name,
                                          known, o->folder != NULL ? ", those of the tokenizer's folder" : "");
}

/* ---- tokens ---- */

/* Reads tokens. A token is a text, or an object with the text as "content". Tokens that were found earlier are kept. */
static ls_status read_tokens(const char *folder, const char *file, ls_chat *chat) {
    LS_PATH path = NULL;
    ls_json *document = NULL;
    LS_TRY(ls_path_join(folder, file, &path));
    if (!ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
    ls_status status = ls_ok();
    for (size_t i = 0; i < LS_CHAT_TOKENS && status.code == LS_OK; i++) {
        const char *text = NULL;
        ls_json_value value = ls_json_field(ls_json_root(document), ls_chat_token_names[i]);
        if (chat->token[i] != NULL || !ls_json_has(ls_json_root(document), ls_chat_token_names[i])) continue;
        if (ls_json_has(value, "content")) value = ls_json_field(value, "content");
        status = ls_json_as_text(value, &text);
        if (status.code == LS_OK && (chat->token[i] = strdup(text)) == NULL)
            status = ls_error(LS_NO_MEMORY, "no memory for a chat template");
    }
    ls_json_free(document);
    return status;
}

static ls_status find_tokens(const ls_chat_options *o, ls_chat *chat) {
    if (o->folder == NULL) return ls_ok();
    LS_TRY(read_tokens(o->folder, CONFIG_NAME, chat));
    LS_TRY(read_tokens(o->folder, "special_tokens_map.json", chat));
    for (size_t i = 0; i < LS_CHAT_TOKENS; i++) {
        const uint64_t both[] = {chat->hash,
                                 chat->token[i] != NULL ? ls_hash_bytes(chat->token[i], strlen(chat->token[i])) : i};
        chat->hash = ls_hash_bytes(both, sizeof both);
        if (chat->token[i] == NULL && ls_jinja_names(chat->jinja, ls_chat_token_names[i]))
            ls_log("%s reads %s, which the tokenizer's files do not name: it is undefined, as in transformers",
                   chat->name, ls_chat_token_names[i]);
    }
    return ls_ok();
}

/* ---- the day ---- */

static ls_status find_day(const char *today, ls_chat *chat) {
    int year, month, day, end = 0;
    const time_t now = time(NULL);
    if (today == NULL) {
        localtime_r(&now, &chat->today);
    } else {
        if (sscanf(today, "%4d-%2d-%2d%n", &year, &month, &day, &end) != 3 || today[end] != 0 || month < 1 ||
            month > 12 || day < 1 || day > 31 || year < 1900)
            return ls_error(LS_USAGE, "--today is '%s', expected a day such as 2025-07-09", today);
        chat->today =
            (struct tm){.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = 12, .tm_isdst = -1};
        mktime(&chat->today); /* sets the day of the week */
    }
    if (!ls_jinja_names(chat->jinja, "strftime_now")) return ls_ok();
    char text[40];
    strftime(text, sizeof text, "%Y-%m-%d", &chat->today);
    ls_log("template %s writes the date %s; --today sets another", chat->name, text);
    const uint64_t both[] = {chat->hash, ls_hash_bytes(text, strlen(text))};
    chat->hash = ls_hash_bytes(both, sizeof both);
    return ls_ok();
}

/* ---- the system message ---- */

/* Checks that the template can render a conversation with this system message. */
static ls_status set_system(const char *system, ls_chat *chat) {
    static const char probe[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, "
                                "{\"role\": \"assistant\", \"content\": \"y\"}]}";
    ls_json *document = NULL;
    ls_marked_text text = {0};
    ls_left_out left_out = {0};
    ls_unread unread = {0};
    if (system == NULL) return ls_ok();
    chat->system = strdup(system);
    if (chat->system == NULL) return ls_error(LS_NO_MEMORY, "no memory for the system message");
    LS_TRY(ls_json_parse("a conversation", probe, sizeof probe - 1, &document));
    const ls_status status = ls_chat_render(chat, ls_json_root(document), &text, &left_out, &unread);
    ls_marked_free(&text);
    ls_json_free(document);
    if (status.code == LS_OK) return status;
    return ls_error(LS_USAGE, "--system is given, but template %s cannot render a system message: %s", chat->name,
                    status.text);
}

/* ---- opening ---- */

static ls_status open_chat(const ls_chat_options *o, ls_chat *chat) {
    LS_TRY(find_template(o, chat));
    LS_TRY(find_tokens(o, chat));
    LS_TRY(find_day(o->today, chat));
    LS_TRY(set_system(o->system, chat));
    ls_log(
        "conversations use template %s%s%.80s%s", chat->name,
        chat->system != NULL ? "; system message where there is none: " : "", chat->system != NULL ? chat->system : "",
        ls_jinja_generates(chat->jinja) ? ""
                                        : "; it has no generation blocks, so what it writes for an answer is learnt");
    return ls_ok();
}

ls_status ls_chat_open(const ls_tokenizer *tokenizer, const ls_chat_options *options, ls_chat *out) {
    ls_chat chat = {.tokenizer = tokenizer};
    const ls_status status = open_chat(options, &chat);
    if (status.code != LS_OK)
        ls_chat_close(&chat);
    else
        *out = chat;
    return status;
}

void ls_chat_close(ls_chat *chat) {
    ls_jinja_free(chat->jinja);
    ls_jinja_free(chat->with_tools);
    free(chat->system);
    free(chat->name);
    for (size_t i = 0; i < LS_CHAT_TOKENS; i++) free(chat->token[i]);
    *chat = (ls_chat){0};
}
