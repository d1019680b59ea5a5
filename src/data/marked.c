#include "data/marked.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static ls_status no_memory(size_t bytes) {
    return ls_error(LS_NO_MEMORY, "no memory for a record of %zu bytes", bytes);
}

static ls_status mark(ls_marked_text *m, size_t start, size_t end) {
    if (m->n_learnt > 0 && m->learnt[m->n_learnt - 1].end == start) {
        m->learnt[m->n_learnt - 1].end = end;
        return ls_ok();
    }
    if (m->n_learnt == m->learnt_capacity) {
        const size_t wanted = 2 * m->learnt_capacity + 16;
        struct ls_marked_stretch *grown = realloc(m->learnt, wanted * sizeof *grown);
        if (grown == NULL) return no_memory(wanted * sizeof *grown);
        m->learnt = grown;
        m->learnt_capacity = wanted;
    }
    m->learnt[m->n_learnt++] = (struct ls_marked_stretch){start, end};
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
    return learnt ? mark(m, m->bytes - bytes, m->bytes) : ls_ok();
}

ls_status ls_marked_append_token(ls_marked_text *m, const char *text, size_t bytes, bool learnt, int32_t id) {
    if (m->n_marks == m->mark_capacity) {
        const size_t wanted = 2 * m->mark_capacity + 16;
        struct ls_mark *grown = realloc(m->marks, wanted * sizeof *grown);
        if (grown == NULL) return no_memory(wanted * sizeof *grown);
        m->marks = grown;
        m->mark_capacity = wanted;
    }
    m->marks[m->n_marks++] = (struct ls_mark){m->bytes, m->bytes + bytes, id};
    return ls_marked_append(m, text, bytes, learnt);
}

void ls_marked_free(ls_marked_text *m) {
    free(m->text);
    free(m->learnt);
    free(m->marks);
    *m = (ls_marked_text){0};
}

/* --- as tokens -------------------------------------------------------------------------------------------------------------- */

typedef struct encoding {
    const ls_tokenizer *tokenizer;
    const ls_marked_text *marked;
    ls_plain_text plain;
    bool plainly; /* by `plain` */
    size_t next;  /* of the learnt stretches, the first that ends behind what was encoded */
    size_t again; /* bytes that may yet be encoded to find places */
    ls_token_list room;
    ls_learnt_tokens *out;
} encoding;

/* How many of the n tokens of text[from, ...) are those of its bytes before `to`; `over`: with one that reaches over the place. */
static ls_status tokens_before(encoding *e, size_t from, size_t to, bool over, const int32_t *ids, size_t n,
                               size_t *out) {
    size_t same = 0;
    if (to - from > e->again)
        return ls_error(LS_INVALID,
                        "%zu bytes hold too many turns that no special token of the tokenizer parts",
                        e->marked->bytes);
    e->again -= to - from;
    e->room.count = 0;
    LS_TRY(ls_tokenizer_encode_plain(e->tokenizer, e->marked->text + from, to - from,
                                     e->plainly ? &e->plain : NULL, &e->room));
    while (same < n && same < e->room.count && e->room.id[same] == ids[same]) same++;
    *out = same + (over && same < n && same < e->room.count);
    return ls_ok();
}

/* The stretch [from, to) between two marks, or one that is spelled out. */
static ls_status encode_stretch(encoding *e, size_t from, size_t to) {
    const ls_marked_text *m = e->marked;
    const size_t start = e->out->tokens.count;
    e->plain.inside = from > 0;
    LS_TRY(ls_learnt_append(e->tokenizer, m->text + from, to - from, e->plainly ? &e->plain : NULL, false,
                            e->out));
    const size_t n = e->out->tokens.count - start;
    for (; e->next < m->n_learnt && m->learnt[e->next].start < to; e->next++) {
        const struct ls_marked_stretch learnt = m->learnt[e->next];
        const int32_t *ids = e->out->tokens.id + start;
        size_t first = 0, end = n;
        if (learnt.start > from) LS_TRY(tokens_before(e, from, learnt.start, false, ids, n, &first));
        if (learnt.end < to) LS_TRY(tokens_before(e, from, learnt.end, true, ids, n, &end));
        if (end > first) memset(e->out->learnt + start + first, true, end - first);
        if (learnt.end > to) break; /* it goes on behind the mark */
    }
    return ls_ok();
}

static ls_status encode_mark(encoding *e, const struct ls_mark *mark) {
    const ls_marked_text *m = e->marked;
    if (mark->id < 0) return encode_stretch(e, mark->start, mark->end);
    while (e->next < m->n_learnt && m->learnt[e->next].end <= mark->start) e->next++;
    const bool learnt = e->next < m->n_learnt && m->learnt[e->next].start <= mark->start;
    return ls_learnt_append_id(mark->id, learnt, e->out);
}

static ls_status encode_all(encoding *e) {
    size_t done = 0;
    for (size_t i = 0; i < e->marked->n_marks; i++) {
        const struct ls_mark *mark = &e->marked->marks[i];
        if (mark->start > done) LS_TRY(encode_stretch(e, done, mark->start));
        LS_TRY(encode_mark(e, mark));
        done = mark->end;
    }
    return done < e->marked->bytes ? encode_stretch(e, done, e->marked->bytes) : ls_ok();
}

ls_status ls_marked_encode(const ls_tokenizer *tokenizer, const ls_marked_text *m, const ls_plain_text *plain,
                           ls_learnt_tokens *out) {
    encoding e = {.tokenizer = tokenizer,
                  .marked = m,
                  .plain = plain != NULL ? *plain : (ls_plain_text){0},
                  .plainly = plain != NULL,
                  .again = 64 * m->bytes + ((size_t)64 << 20),
                  .out = out};
    const ls_status status = encode_all(&e);
    free(e.room.id);
    return status;
}
