/* Lists of tokens, each learnt or not. */
#include "data/records_impl.h"

#include <stdlib.h>
#include <string.h>

/* Sets the bytes of tokens start .. end - 1. */
static ls_status set_learnt(ls_learnt_tokens *out, size_t start, size_t end, bool learnt) {
    if (out->tokens.count > out->learnt_capacity) {
        uint8_t *grown = realloc(out->learnt, out->tokens.capacity);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory to mark %zu tokens", out->tokens.capacity);
        out->learnt = grown;
        out->learnt_capacity = out->tokens.capacity;
    }
    if (end > start) memset(out->learnt + start, learnt, end - start);
    return ls_ok();
}

ls_status ls_learnt_append(const ls_tokenizer *tokenizer, const char *text, size_t bytes, const ls_plain_text *plain,
                           bool learnt, ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    LS_TRY(ls_tokenizer_encode_plain(tokenizer, text, bytes, plain, &out->tokens));
    return set_learnt(out, start, out->tokens.count, learnt);
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
    return set_learnt(out, list->count - 1, list->count, learnt);
}

void ls_learnt_remove_end(const ls_tokenizer *tokenizer, size_t start, ls_learnt_tokens *out) {
    const size_t n = out->tokens.count;
    if (n == start || out->tokens.id[n - 1] != ls_tokenizer_end_of_document(tokenizer)) return;
    out->end_learnt = out->learnt[n - 1];
    out->tokens.count--;
}
