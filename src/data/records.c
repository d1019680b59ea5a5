/* What a line of JSONL is: kinds of records, one row each. */
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

ls_status ls_learnt_append(const ls_tokenizer *tokenizer, const char *text, size_t bytes, bool learnt,
                           ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    LS_TRY(ls_tokenizer_encode(tokenizer, text, bytes, &out->tokens));
    return mark(out, start, out->tokens.count, learnt);
}

/* How many of the whole's n tokens are those of its first bytes: a token that reaches over the place is not. */
static ls_status tokens_before(const ls_tokenizer *tokenizer, const ls_marked_text *m, size_t bytes,
                               const int32_t *whole, size_t n, ls_token_list *room, size_t *out) {
    room->count = 0;
    LS_TRY(ls_tokenizer_encode(tokenizer, m->text, bytes, room));
    size_t same = 0;
    while (same < n && same < room->count && room->id[same] == whole[same]) same++;
    *out = same;
    return ls_ok();
}

/* The whole text's tokens; those of its learnt stretches are found by encoding what stands before their ends. */
static ls_status append_marked(const ls_tokenizer *tokenizer, const ls_marked_text *m,
                               ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    LS_TRY(ls_learnt_append(tokenizer, m->text, m->bytes, false, out));
    const size_t n = out->tokens.count - start;
    ls_token_list room = {0};
    ls_status status = ls_ok();
    for (size_t i = 0; i < m->n_learnt && status.code == LS_OK; i++) {
        size_t from = 0, to = n;
        const int32_t *whole = out->tokens.id + start;
        status = tokens_before(tokenizer, m, m->learnt[i].start, whole, n, &room, &from);
        if (status.code == LS_OK && m->learnt[i].end < m->bytes)
            status = tokens_before(tokenizer, m, m->learnt[i].end, whole, n, &room, &to);
        if (status.code == LS_OK)
            status = mark(out, start + from, start + ls_max((int64_t)from, (int64_t)to), true);
    }
    free(room.id);
    return status;
}

/* An end of document that the text has itself is not put twice. */
static void drop_end(const ls_tokenizer *tokenizer, size_t start, ls_learnt_tokens *out) {
    const size_t n = out->tokens.count;
    if (n == start || out->tokens.id[n - 1] != ls_tokenizer_end_of_document(tokenizer)) return;
    out->end_learnt = out->learnt[n - 1];
    out->tokens.count--;
}

static ls_status encode_text(const ls_encode_options *o, ls_json_value object, ls_learnt_tokens *out) {
    const char *text;
    LS_TRY(ls_json_text(object, o->field, &text));
    return ls_learnt_append(o->tokenizer, text, strlen(text), true, out);
}

static ls_status encode_completion(const ls_encode_options *o, ls_json_value object, ls_learnt_tokens *out) {
    const char *prompt, *completion;
    ls_marked_text marked = {0};
    LS_TRY(ls_json_text(object, "prompt", &prompt));
    LS_TRY(ls_json_text(object, "completion", &completion));
    ls_status status = ls_marked_append(&marked, prompt, strlen(prompt), false);
    if (status.code == LS_OK) status = ls_marked_append(&marked, completion, strlen(completion), true);
    if (status.code == LS_OK) status = append_marked(o->tokenizer, &marked, out);
    ls_marked_free(&marked);
    return status;
}

static ls_status encode_messages(const ls_encode_options *o, ls_json_value object, ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    ls_json_value messages;
    ls_marked_text marked = {0};
    LS_TRY(ls_json_array(object, "messages", &messages));
    ls_status status = ls_chat_render(o->chat, messages, &marked);
    if (status.code == LS_OK) status = append_marked(o->tokenizer, &marked, out);
    ls_marked_free(&marked);
    out->end_learnt = false;
    if (status.code == LS_OK) drop_end(o->tokenizer, start, out);
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
