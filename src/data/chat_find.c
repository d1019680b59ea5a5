/* Which chat template: by its name, or by what the template of a tokenizer's folder holds. */
#include "base/base.h"
#include "data/chat.h"

#include <stdlib.h>
#include <string.h>

static void list_names(char *out, size_t room) {
    const ls_chat_template *t;
    out[0] = 0;
    for (size_t i = 0, used = 0; (t = ls_chat_template_at(i)) != NULL; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i > 0 ? ", " : "", t->name);
}

/* --- of a folder ------------------------------------------------------------------------------------------------------------ */

static bool holds_marks(const ls_chat_template *t, const char *jinja) {
    for (size_t i = 0; i < LS_COUNT(t->marks) && t->marks[i] != NULL; i++)
        if (strstr(jinja, t->marks[i]) == NULL) return false;
    return true;
}

/* '<|im_start|>system\nYou are ...<|im_end|>' as a literal: what stands where a conversation has no system. */
static ls_status find_system(const char *jinja, ls_chat *chat) {
    static const char before[] = "<|im_start|>system", after[] = "<|im_end|>";
    for (const char *at = jinja; (at = strstr(at, before)) != NULL;) {
        at += strlen(before);
        if (*at == '\n')
            at++;
        else if (strncmp(at, "\\n", 2) == 0)
            at += 2;
        else
            continue;
        const size_t length = strcspn(at, "'\"\\{");
        const char *end = strstr(at, after);
        if (end == NULL || end == at || (size_t)(end - at) > length) continue;
        chat->system = strndup(at, (size_t)(end - at));
        return chat->system != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for a chat template");
    }
    return ls_ok();
}

static ls_status recognise(const char *file, const char *jinja, ls_chat *chat) {
    char names[120];
    const ls_chat_template *t = NULL;
    LS_ASSERT(jinja != NULL);
    for (size_t i = 0; (t = ls_chat_template_at(i)) != NULL && !holds_marks(t, jinja);) i++;
    list_names(names, sizeof names);
    if (t == NULL)
        return ls_error(LS_UNSUPPORTED,
                        "%s: the chat template is of none of the known kinds (%s); name one with --template",
                        file, names);
    chat->form = t;
    chat->begin_of_folder = t->bare && strstr(jinja, "bos_token") != NULL;
    if (strstr(jinja, "<think>") != NULL)
        ls_log("%s: what its template does about <think> is not done", file);
    return find_system(jinja, chat);
}

/* The text of tokenizer_config.json's chat_template: by itself, or the one named "default" of several. */
static ls_status template_of(ls_json_value config, const char **out) {
    const ls_json_value field = ls_json_field(config, "chat_template");
    if (!ls_json_is_array(field)) return ls_json_text(config, "chat_template", out);
    for (size_t i = 0; i < ls_json_count(field); i++) {
        const ls_json_value row = ls_json_item(field, i);
        const char *name;
        LS_TRY(ls_json_as_object(row));
        LS_TRY(ls_json_text(row, "name", &name));
        if (strcmp(name, "default") == 0) return ls_json_text(row, "template", out);
    }
    return ls_json_error(field, "a template named \"default\" among them");
}

static ls_status recognise_folder(const char *folder, ls_chat *chat) {
    char path[LS_FILE_PATH];
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_join(folder, "chat_template.jinja", path, sizeof path));
    if (ls_file_exists(path)) {
        LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
        const ls_status status = recognise(path, text, chat);
        free(text);
        return status;
    }
    ls_json *document = NULL;
    const char *jinja = NULL;
    LS_TRY(ls_file_join(folder, "tokenizer_config.json", path, sizeof path));
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
    ls_status status = template_of(ls_json_root(document), &jinja);
    if (status.code == LS_OK) status = recognise(path, jinja, chat);
    ls_json_free(document);
    return status;
}

/* --- the whole -------------------------------------------------------------------------------------------------------------- */

static ls_status find(const char *name, const char *folder, ls_chat *chat) {
    char names[120];
    const ls_chat_template *t;
    list_names(names, sizeof names);
    if (name == NULL || strcmp(name, "auto") == 0) {
        if (folder != NULL) return recognise_folder(folder, chat);
        return ls_error(LS_USAGE, "--template is missing; expected one of %s, or a --tokenizer that has one",
                        names);
    }
    for (size_t i = 0; (t = ls_chat_template_at(i)) != NULL; i++) {
        if (strcmp(name, t->name) != 0) continue;
        chat->form = t;
        return ls_ok();
    }
    return ls_error(LS_USAGE, "--template is '%s'; known are auto, %s", name, names);
}

static ls_status set_system(const char *system, ls_chat *chat) {
    if (system == NULL && chat->system == NULL) system = chat->form->system;
    if (system == NULL) return ls_ok();
    free(chat->system);
    chat->system = NULL;
    if (system[0] == 0 && chat->form->system == NULL) return ls_ok();
    if (chat->form->turn[LS_CHAT_SYSTEM].before == NULL)
        return ls_error(LS_USAGE, "--system is given, but template %s has no such role", chat->form->name);
    chat->system = strdup(system);
    return chat->system != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for what the system says");
}

static void find_tokens(const ls_tokenizer *tokenizer, ls_chat *chat) {
    const ls_chat_template *form = chat->form;
    chat->parts = ls_tokenizer_piece(tokenizer) < SIZE_MAX;
    for (size_t i = 0; i < LS_COUNT(chat->ids); i++) {
        const bool word = i >= LS_COUNT(form->tokens);
        const char *token = word ? form->words[i - LS_COUNT(form->tokens)] : form->tokens[i];
        chat->ids[i] = token != NULL ? ls_tokenizer_find(tokenizer, token) : -1;
        if (token != NULL && chat->ids[i] < 0 && !word)
            ls_log("template %s: %s is no token of the tokenizer, it is spelled out", form->name, token);
    }
}

ls_status ls_chat_open(const ls_tokenizer *tokenizer, const char *name, const char *folder,
                       const char *system, ls_chat *out) {
    ls_chat chat = {.begins = true};
    ls_status status = find(name, folder, &chat);
    if (status.code == LS_OK) status = set_system(system, &chat);
    if (status.code != LS_OK) {
        ls_chat_close(&chat);
        return status;
    }
    find_tokens(tokenizer, &chat);
    ls_log("conversations by template %s%s%.80s", chat.form->name,
           chat.system != NULL && chat.system[0] != 0 ? ", without a system: " : "",
           chat.system != NULL ? chat.system : "");
    *out = chat;
    return status;
}

void ls_chat_close(ls_chat *chat) {
    free(chat->system);
    *chat = (ls_chat){0};
}
