/* Marked texts: collects their parts, and encodes them as tokens, some of which are learnt. */
#include "base/base.h"
#include "data/chat_impl.h"

#include <stdlib.h>
#include <string.h>

static ls_status no_memory(size_t bytes) {
    return ls_error(LS_NO_MEMORY, "no memory for a record of %zu bytes", bytes);
}

/* Marks bytes [start, end) as learnt. */
static ls_status add_learnt(ls_marked_text *m, size_t start, size_t end) {
    if (m->n_learnt > 0 && m->learnt[m->n_learnt - 1].end == start) {
        m->learnt[m->n_learnt - 1].end = end;
        return ls_ok();
    }
    if (m->n_learnt == m->learnt_capacity) {
        const size_t wanted = 2 * m->learnt_capacity + 16;
        struct ls_learnt_bytes *grown = realloc(m->learnt, wanted * sizeof *grown);
        if (grown == NULL) return no_memory(wanted * sizeof *grown);
        m->learnt = grown;
        m->learnt_capacity = wanted;
    }
    m->learnt[m->n_learnt++] = (struct ls_learnt_bytes){start, end};
    return ls_ok();
}

ls_status ls_marked_append(ls_marked_text *m, const char *text, size_t bytes, bool learnt) {
    if (bytes == 0) return ls_ok();
    if (m->bytes + bytes > m->capacity) {
        const size_t wanted = 2 * (m->bytes + bytes);
        char *grown = realloc(m->text, wanted);
        if (grown == NULL) return no_memory(wanted);
        m->text = grown;
        m->capacity = wanted;
    }
    memcpy(m->text + m->bytes, text, bytes);
    m->bytes += bytes;
    return learnt ? add_learnt(m, m->bytes - bytes, m->bytes) : ls_ok();
}

ls_status ls_marked_append_token(ls_marked_text *m, const char *text, size_t bytes, bool learnt, int32_t id) {
    if (m->n_tokens == m->token_capacity) {
        const size_t wanted = 2 * m->token_capacity + 16;
        struct ls_marked_token *grown = realloc(m->token, wanted * sizeof *grown);
        if (grown == NULL) return no_memory(wanted * sizeof *grown);
        m->token = grown;
        m->token_capacity = wanted;
    }
    m->token[m->n_tokens++] = (struct ls_marked_token){m->bytes, m->bytes + bytes, id};
    return ls_marked_append(m, text, bytes, learnt);
}

void ls_marked_free(ls_marked_text *m) {
    free(m->text);
    free(m->learnt);
    free(m->token);
    *m = (ls_marked_text){0};
}

/* ---- encoding ---- */

typedef struct encoding {
    const ls_tokenizer *tokenizer;
    const ls_marked_text *marked;
    ls_plain_text plain;
    bool has_plain;       /* false: special tokens are recognised in the text */
    size_t next;          /* the first learnt range that ends after the bytes that have been encoded */
    size_t budget;        /* bytes that may still be encoded a second time to find which tokens are learnt */
    ls_token_list prefix; /* scratch */
    ls_learnt_tokens *out;
} encoding;

/*
 * *out: how many of the n tokens `ids` of the text that begins at `from` cover its bytes before `to`. A token that
 * covers bytes on both sides of `to` counts if `across`. To find this, encodes text[from, to) alone and compares.
 */
static ls_status tokens_before(encoding *e, size_t from, size_t to, bool across, const int32_t *ids, size_t n,
                               size_t *out) {
    size_t same = 0;
    if (to - from > e->budget)
        return ls_error(LS_INVALID, "%zu bytes hold too many turns that no special token of the tokenizer separates",
                        e->marked->bytes);
    e->budget -= to - from;
    e->prefix.count = 0;
    LS_TRY(ls_tokenizer_encode_plain(e->tokenizer, e->marked->text + from, to - from, e->has_plain ? &e->plain : NULL,
                                     &e->prefix));
    while (same < n && same < e->prefix.count && e->prefix.id[same] == ids[same]) same++;
    *out = same + (across && same < n && same < e->prefix.count);
    return ls_ok();
}

/* Encodes bytes [from, to), which hold no special token, and marks which of their tokens are learnt. */
static ls_status encode_bytes(encoding *e, size_t from, size_t to) {
    const ls_marked_text *m = e->marked;
    const size_t start = e->out->tokens.count;
    e->plain.inside = from > 0;
    LS_TRY(ls_learnt_append(e->tokenizer, m->text + from, to - from, e->has_plain ? &e->plain : NULL, false, e->out));
    const size_t n = e->out->tokens.count - start;
    for (; e->next < m->n_learnt && m->learnt[e->next].start < to; e->next++) {
        const struct ls_learnt_bytes learnt = m->learnt[e->next];
        const int32_t *ids = e->out->tokens.id + start;
        size_t first = 0, end = n;
        if (learnt.start > from) LS_TRY(tokens_before(e, from, learnt.start, false, ids, n, &first));
        if (learnt.end < to) LS_TRY(tokens_before(e, from, learnt.end, true, ids, n, &end));
        if (end > first) memset(e->out->learnt + start + first, true, end - first);
        if (learnt.end > to) break; /* it continues after the special token */
    }
    return ls_ok();
}

static ls_status encode_token(encoding *e, const struct ls_marked_token *token) {
    const ls_marked_text *m = e->marked;
    if (token->id < 0) return encode_bytes(e, token->start, token->end);
    while (e->next < m->n_learnt && m->learnt[e->next].end <= token->start) e->next++;
    const bool learnt = e->next < m->n_learnt && m->learnt[e->next].start <= token->start;
    return ls_learnt_append_id(token->id, learnt, e->out);
}

static ls_status encode_all(encoding *e) {
    size_t done = 0;
    for (size_t i = 0; i < e->marked->n_tokens; i++) {
        const struct ls_marked_token *token = &e->marked->token[i];
        if (token->start > done) LS_TRY(encode_bytes(e, done, token->start));
        LS_TRY(encode_token(e, token));
        done = token->end;
    }
    return done < e->marked->bytes ? encode_bytes(e, done, e->marked->bytes) : ls_ok();
}

ls_status ls_marked_encode(const ls_tokenizer *tokenizer, const ls_marked_text *m, const ls_plain_text *plain,
                           ls_learnt_tokens *out) {
    encoding e = {.tokenizer = tokenizer,
                  .marked = m,
                  .plain = plain != NULL ? *plain : (ls_plain_text){0},
                  .has_plain = plain != NULL,
                  .budget = 64 * m->bytes + ((size_t)64 << 20),
                  .out = out};
    const ls_status status = encode_all(&e);
    free(e.prefix.id);
    return status;
}
