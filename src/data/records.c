/* What a record of JSON is: kinds of records, one row each. */
#include "data/chat.h"
#include "data/encode.h"

#include <stdlib.h>
#include <string.h>

static ls_status mark(ls_learnt_tokens *out, size_t start, size_t end, bool learnt) {
    if (out->tokens.count > out->learnt_capacity) {
        uint8_t *grown = realloc(out->learnt, out->tokens.capacity);
        if (grown == NULL)
            return ls_error(LS_NO_MEMORY, "no memory to mark %zu tokens", out->tokens.capacity);
        out->learnt = grown;
        out->learnt_capacity = out->tokens.capacity;
    }
    if (end > start) memset(out->learnt + start, learnt, end - start);
    return ls_ok();
}

ls_status ls_learnt_append(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                           const ls_plain_text *plain, bool learnt, ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    LS_TRY(ls_tokenizer_encode_plain(tokenizer, text, bytes, plain, &out->tokens));
    return mark(out, start, out->tokens.count, learnt);
}

ls_status ls_learnt_append_id(int32_t id, bool learnt, ls_learnt_tokens *out) {
    ls_token_list *list = &out->tokens;
    if (list->count == list->capacity) {
        const size_t wanted = 2 * list->capacity + 64;
        int32_t *grown = realloc(list->id, wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu tokens", wanted);
        list->id = grown;
        list->capacity = wanted;
    }
    list->id[list->count++] = id;
    return mark(out, list->count - 1, list->count, learnt);
}

/* An end of document that the text has itself is not put twice. */
static void drop_end(const ls_tokenizer *tokenizer, size_t start, ls_learnt_tokens *out) {
    const size_t n = out->tokens.count;
    if (n == start || out->tokens.id[n - 1] != ls_tokenizer_end_of_document(tokenizer)) return;
    out->end_learnt = out->learnt[n - 1];
    out->tokens.count--;
}

/* What to do about an object without the field. */
static const char *hint_for(ls_json_value object) {
    if (ls_json_has(object, "messages")) return "a text; --records messages reads conversations";
    if (ls_json_has(object, "completion"))
        return "a text; --records completion reads prompts and completions";
    return "a text; --field says where it is, and --format text takes a file as it is";
}

/* "meta.text" is a field of that name, or "text" of the object "meta". */
static ls_status find_text(ls_json_value object, const char *field, ls_json_value *out) {
    char name[200];
    for (const char *dot; !ls_json_has(object, field) && (dot = strchr(field, '.')) != NULL;
         field = dot + 1) {
        if ((size_t)(dot - field) >= sizeof name) break;
        memcpy(name, field, (size_t)(dot - field));
        name[dot - field] = 0;
        LS_TRY(ls_json_object(object, name, &object));
    }
    LS_TRY(ls_json_as_object(object));
    *out = ls_json_field(object, field);
    return ls_json_has(object, field) ? ls_ok() : ls_json_error(*out, "%s", hint_for(object));
}

static ls_status encode_text(const ls_encode_options *o, ls_json_value value, ls_learnt_tokens *out) {
    const char *text;
    size_t bytes;
    if (!ls_json_is_text(value)) LS_TRY(find_text(value, o->field, &value));
    LS_TRY(ls_json_as_bytes(value, &text, &bytes));
    return ls_learnt_append(o->tokenizer, text, bytes, NULL, true, out);
}

static ls_status append_field(ls_json_value object, const char *field, bool learnt, ls_marked_text *marked) {
    const char *text;
    size_t bytes;
    LS_TRY(ls_json_as_bytes(ls_json_field(object, field), &text, &bytes));
    return ls_marked_append(marked, text, bytes, learnt);
}

static ls_status encode_completion(const ls_encode_options *o, ls_json_value object, ls_learnt_tokens *out) {
    ls_marked_text marked = {0};
    LS_TRY(ls_json_as_object(object));
    ls_status status = append_field(object, "prompt", false, &marked);
    if (status.code == LS_OK) status = append_field(object, "completion", true, &marked);
    if (status.code == LS_OK) status = ls_marked_encode(o->tokenizer, &marked, NULL, out);
    ls_marked_free(&marked);
    return status;
}

/* What the template begins with, where something else was asked for. */
static void drop_begin(const ls_chat *chat, size_t start, ls_learnt_tokens *out) {
    static const char *const names[] = {"<|begin_of_text|>", "<bos>", "<s>"};
    ls_token_list *list = &out->tokens;
    const ls_token_frame frame = ls_tokenizer_frame(chat->tokenizer);
    if (!chat->drops_begin || list->count == start) return;
    bool begins = frame.n_before > 0 && frame.before[0] == list->id[start];
    begins |= chat->token[0] != NULL && ls_tokenizer_find(chat->tokenizer, chat->token[0]) == list->id[start];
    for (size_t i = 0; i < LS_COUNT(names); i++)
        begins |= ls_tokenizer_find(chat->tokenizer, names[i]) == list->id[start];
    if (!begins) return;
    list->count--;
    memmove(list->id + start, list->id + start + 1, (list->count - start) * sizeof *list->id);
    memmove(out->learnt + start, out->learnt + start + 1, list->count - start);
}

static ls_status encode_messages(const ls_encode_options *o, ls_json_value object, ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    ls_marked_text marked = {0};
    const ls_plain_text plain = {0};
    ls_status status = ls_chat_render(o->chat, object, &marked);
    if (status.code == LS_OK) status = ls_marked_encode(o->tokenizer, &marked, &plain, out);
    ls_marked_free(&marked);
    out->end_learnt = false;
    if (status.code != LS_OK) return status;
    drop_begin(o->chat, start, out);
    drop_end(o->tokenizer, start, out);
    return status;
}

static const ls_record_kind kinds[] = {
    {"text", false, false, encode_text},
    {"completion", true, false, encode_completion},
    {"messages", true, true, encode_messages},
};

ls_status ls_record_kind_find(const char *name, const ls_record_kind **out) {
    char known[200] = "";
    for (size_t i = 0, used = 0; i < LS_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *out = &kinds[i];
            return ls_ok();
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", kinds[i].name);
    }
    return ls_error(LS_USAGE, "--records is '%s'; known are %s", name, known);
}
