#include "job/stream.h"
#include "base/base.h"

#include <stdlib.h>

static void emit(ls_generated_text *s) {
    char piece[64];
    for (size_t at = 0, part; at < s->text.count; at += part) {
        const char *bytes = s->text.byte + at;
        part = ls_utf8_valid_prefix(bytes, (size_t)ls_min((int64_t)(s->text.count - at), 16));
        if (part == 0) part = 1; /* a wrong byte: printed as U+FFFD */
        s->out(s->context, piece, ls_utf8_printable(bytes, part, piece, sizeof piece));
    }
    s->text.count = 0;
}

ls_status ls_generated_begin(ls_generated_text *s, const int32_t *ids, size_t n) {
    LS_TRY(ls_token_stream_create(s->tokenizer, &s->tokens));
    for (size_t i = 0; i < n; i++) LS_TRY(ls_token_stream_push(s->tokens, ids[i], &s->text));
    s->text.count = 0;
    return ls_ok();
}

ls_status ls_generated_put(ls_generated_text *s, int32_t id) {
    if (ls_tokenizer_is_special(s->tokenizer, id)) return ls_ok();
    LS_TRY(ls_token_stream_push(s->tokens, id, &s->text));
    emit(s);
    return ls_ok();
}

ls_status ls_generated_end(ls_generated_text *s) {
    LS_TRY(ls_token_stream_finish(s->tokens, &s->text));
    emit(s);
    return ls_ok();
}

void ls_generated_free(ls_generated_text *s) {
    ls_token_stream_destroy(s->tokens);
    free(s->text.byte);
}
