/* Which chat template: a form by its name, that of a tokenizer's folder, a file. And the tokens that templates know by name. */
#include "base/base.h"
#include "data/chat.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "chat_template.jinja"
#define MORE_FOLDER "additional_chat_templates"
#define CONFIG_NAME "tokenizer_config.json"

const char *const ls_chat_token_names[LS_CHAT_TOKENS] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                         "pad_token", "cls_token", "mask_token"};

static void list_forms(char *out, size_t room) {
    const char *name;
    out[0] = 0;
    for (size_t i = 0, used = 0; ls_chat_form(i, &name) != NULL && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i > 0 ? ", " : "", name);
}

/* --- texts of templates ----------------------------------------------------------------------------------------------------- */

/* file: what errors call it. */
static ls_status take(const char *file, const char *text, size_t bytes, ls_chat *chat, ls_jinja **out) {
    const uint64_t both[] = {chat->hash, ls_hash_bytes(text, bytes)};
    LS_TRY(ls_jinja_read(file, text, bytes, out));
    chat->hash = ls_hash_bytes(both, sizeof both);
    return chat->jinja == *out ? ls_path_print(&chat->name, "%s", file) : ls_ok();
}

static ls_status take_file(const char *path, ls_chat *chat) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    const ls_status status = take(path, text, bytes, chat, &chat->jinja);
    free(text);
    return status;
}

/* --- of a tokenizer_config.json --------------------------------------------------------------------------------------------- */

/* The template of several that has this name; NULL: none. */
static ls_status named(ls_json_value templates, const char *name, const char **out) {
    *out = NULL;
    for (size_t i = 0; i < ls_json_count(templates) && *out == NULL; i++) {
        const ls_json_value row = ls_json_item(templates, i);
        const char *its_name;
        LS_TRY(ls_json_as_object(row));
        LS_TRY(ls_json_text(row, "name", &its_name));
        if (strcmp(name, its_name) == 0) LS_TRY(ls_json_text(row, "template", out));
    }
    return ls_ok();
}

static ls_status take_text(const char *file, const char *text, ls_chat *chat, ls_jinja **out) {
    return text != NULL ? take(file, text, strlen(text), chat, out) : ls_ok();
}

/* name NULL: the template by itself, or the default one of several, with that for tools. Without such a name chat->jinja stays NULL. */
static ls_status take_config(const char *path, ls_json_value config, const char *name, ls_chat *chat) {
    const ls_json_value field = ls_json_field(config, "chat_template");
    const char *text = NULL, *tools = NULL;
    LS_PATH file = NULL;
    if (!ls_json_is_array(field)) {
        if (name != NULL) return ls_ok();
        LS_TRY(ls_json_text(config, "chat_template", &text));
        LS_TRY(ls_path_print(&file, "%s chat_template", path));
        return take_text(file, text, chat, &chat->jinja);
    }
    LS_TRY(named(field, name != NULL ? name : "default", &text));
    if (name == NULL) LS_TRY(named(field, "tool_use", &tools));
    if (text == NULL && name == NULL) return ls_json_error(field, "a template named \"default\" among them");
    LS_TRY(ls_path_print(&file, "%s chat_template %.30s", path, name != NULL ? name : "default"));
    LS_TRY(take_text(file, text, chat, &chat->jinja));
    LS_TRY(ls_path_print(&file, "%s chat_template tool_use", path));
    return take_text(file, tools, chat, &chat->with_tools);
}

static ls_status from_config(const char *folder, const char *name, ls_chat *chat) {
    LS_PATH path = NULL;
    ls_json *document = NULL;
    LS_TRY(ls_path_join(folder, CONFIG_NAME, &path));
    if (name != NULL && !ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
    ls_status status = ls_json_as_object(ls_json_root(document));
    if (status.code == LS_OK) status = take_config(path, ls_json_root(document), name, chat);
    ls_json_free(document);
    return status;
}

/* --- of a folder ------------------------------------------------------------------------------------------------------------ */

static ls_status from_folder(const char *folder, ls_chat *chat) {
    LS_PATH path = NULL;
    LS_TRY(ls_path_join(folder, FILE_NAME, &path));
    return ls_file_exists(path) ? take_file(path, chat) : from_config(folder, NULL, chat);
}

/* Among the folder's further templates; without such a name chat->jinja stays NULL. */
static ls_status from_folder_by_name(const char *folder, const char *name, ls_chat *chat) {
    LS_PATH inside = NULL;
    LS_PATH path = NULL;
    if (strchr(name, '/') != NULL || strlen(name) > 100) return ls_ok();
    LS_TRY(ls_path_print(&inside, MORE_FOLDER "/%s.jinja", name));
    LS_TRY(ls_path_join(folder, inside, &path));
    return ls_file_exists(path) ? take_file(path, chat) : from_config(folder, name, chat);
}

static ls_status find(const ls_chat_options *o, ls_chat *chat) {
    char forms[120];
    const char *text, *name;
    list_forms(forms, sizeof forms);
    if (o->name == NULL || strcmp(o->name, "auto") == 0) {
        if (o->folder != NULL) return from_folder(o->folder, chat);
        return ls_error(LS_USAGE,
                        "--template is missing; expected one of %s, a file, or a --tokenizer that has one",
                        forms);
    }
    if (o->folder != NULL) LS_TRY(from_folder_by_name(o->folder, o->name, chat));
    for (size_t i = 0; chat->jinja == NULL && (text = ls_chat_form(i, &name)) != NULL; i++)
        if (strcmp(o->name, name) == 0) LS_TRY(take(name, text, strlen(text), chat, &chat->jinja));
    if (chat->jinja == NULL && ls_file_exists(o->name)) LS_TRY(take_file(o->name, chat));
    return chat->jinja != NULL
               ? ls_ok()
               : ls_error(LS_USAGE, "--template is '%s'; known are auto, %s%s and files", o->name, forms,
                          o->folder != NULL ? ", those of the tokenizer's folder" : "");
}

/* --- tokens ----------------------------------------------------------------------------------------------------------------- */

/* "bos_token": a text, or an object whose "content" it is. Those that are known already stay. */
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
        const uint64_t both[] = {
            chat->hash, chat->token[i] != NULL ? ls_hash_bytes(chat->token[i], strlen(chat->token[i])) : i};
        chat->hash = ls_hash_bytes(both, sizeof both);
        if (chat->token[i] == NULL && ls_jinja_names(chat->jinja, ls_chat_token_names[i]))
            ls_log(
                "%s reads %s, which the tokenizer's files do not name: it is undefined, as in transformers",
                chat->name, ls_chat_token_names[i]);
    }
    return ls_ok();
}

/* --- the day ---------------------------------------------------------------------------------------------------------------- */

static ls_status find_day(const char *today, ls_chat *chat) {
    int year, month, day, end = 0;
    const time_t now = time(NULL);
    if (today == NULL) {
        localtime_r(&now, &chat->today);
    } else {
        if (sscanf(today, "%4d-%2d-%2d%n", &year, &month, &day, &end) != 3 || today[end] != 0 || month < 1 ||
            month > 12 || day < 1 || day > 31 || year < 1900)
            return ls_error(LS_USAGE, "--today is '%s', expected a day such as 2025-07-09", today);
        chat->today = (struct tm){
            .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = 12, .tm_isdst = -1};
        mktime(&chat->today); /* the day of the week */
    }
    if (!ls_jinja_names(chat->jinja, "strftime_now")) return ls_ok();
    char text[40];
    strftime(text, sizeof text, "%Y-%m-%d", &chat->today);
    ls_log("%s writes the day: %s (--today says another)", chat->name, text);
    const uint64_t both[] = {chat->hash, ls_hash_bytes(text, strlen(text))};
    chat->hash = ls_hash_bytes(both, sizeof both);
    return ls_ok();
}

/* --- the system ------------------------------------------------------------------------------------------------------------- */

/* A conversation with this system must be one that the template renders. */
static ls_status set_system(const char *system, ls_chat *chat) {
    static const char probe[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, "
                                "{\"role\": \"assistant\", \"content\": \"y\"}]}";
    ls_json *document = NULL;
    ls_marked_text text = {0};
    if (system == NULL) return ls_ok();
    chat->system = strdup(system);
    if (chat->system == NULL) return ls_error(LS_NO_MEMORY, "no memory for what the system says");
    LS_TRY(ls_json_parse("a conversation", probe, sizeof probe - 1, &document));
    const ls_status status = ls_chat_render(chat, ls_json_root(document), &text);
    ls_marked_free(&text);
    ls_json_free(document);
    if (status.code == LS_OK) return status;
    return ls_error(LS_USAGE, "--system is given, but template %s does not take it: %s", chat->name,
                    status.text);
}

/* --- the whole -------------------------------------------------------------------------------------------------------------- */

static ls_status open(const ls_chat_options *o, ls_chat *chat) {
    LS_TRY(find(o, chat));
    LS_TRY(find_tokens(o, chat));
    LS_TRY(find_day(o->today, chat));
    LS_TRY(set_system(o->system, chat));
    ls_log("conversations by template %s%s%.80s%s", chat->name,
           chat->system != NULL ? ", without a system: " : "", chat->system != NULL ? chat->system : "",
           ls_jinja_generates(chat->jinja)
               ? ""
               : "; it has no generation blocks: learnt is what it writes for an answer");
    return ls_ok();
}

ls_status ls_chat_open(const ls_tokenizer *tokenizer, const ls_chat_options *options, ls_chat *out) {
    ls_chat chat = {.tokenizer = tokenizer};
    const ls_status status = open(options, &chat);
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
