/* What a line of JSONL is: kinds of records, one row each. */
#include "data/encode.h"

#include <stdlib.h>
#include <string.h>

static ls_status mark(ls_learnt_tokens *out, size_t start, bool learnt) {
    if (out->tokens.count > out->learnt_capacity) {
        uint8_t *grown = realloc(out->learnt, out->tokens.capacity);
        if (grown == NULL)
            return ls_error(LS_NO_MEMORY, "no memory to mark %zu tokens", out->tokens.capacity);
        out->learnt = grown;
        out->learnt_capacity = out->tokens.capacity;
    }
    if (out->tokens.count > start) memset(out->learnt + start, learnt, out->tokens.count - start);
    return ls_ok();
}

ls_status ls_learnt_append(const ls_tokenizer *tokenizer, const char *text, size_t bytes, bool learnt,
                           ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    LS_TRY(ls_tokenizer_encode(tokenizer, text, bytes, &out->tokens));
    return mark(out, start, learnt);
}

static ls_status encode_text(const ls_encode_options *o, ls_json_value object, ls_learnt_tokens *out) {
    const char *text;
    LS_TRY(ls_json_text(object, o->field, &text));
    return ls_learnt_append(o->tokenizer, text, strlen(text), true, out);
}

static const ls_record_kind kinds[] = {
    {"text", false, encode_text},
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
    return ls_error(LS_USAGE, "unknown kind of records '%s'; known are %s", name, known);
}
