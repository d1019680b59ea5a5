/*
 * join: windows of S + 1 tokens. Neighbours share one token, so every token but the first of a stretch is a label exactly once.
 * Whole windows lie inside a document; the tails of long documents and the short ones are joined in their order and cut the same way.
 */
#include "data/pack.h"

#include <stdlib.h>

typedef struct windows {
    int64_t whole;
    ls_stretch *documents; /* that hold whole windows; at: of the first one */
    ls_stretch *rest;      /* what is joined; at: of its first token */
    int64_t n_documents, n_rest, document_capacity, rest_capacity;
    int64_t rest_tokens;
} windows;

static ls_status push(ls_stretch **list, int64_t *n, int64_t *capacity, ls_stretch stretch) {
    if (*n == *capacity) {
        const int64_t wanted = 2 * *capacity + 256;
        ls_stretch *grown = realloc(*list, (size_t)wanted * sizeof *grown);
        if (grown == NULL)
            return ls_error(LS_NO_MEMORY, "no memory for the places of %lld documents", (long long)wanted);
        *list = grown;
        *capacity = wanted;
    }
    (*list)[(*n)++] = stretch;
    return ls_ok();
}

static ls_status add_document(windows *w, int64_t S, int64_t start, int64_t length) {
    const int64_t whole = (length - 1) / S;
    if (whole > 0)
        LS_TRY(push(&w->documents, &w->n_documents, &w->document_capacity,
                    (ls_stretch){start, length, w->whole}));
    w->whole += whole;
    /* The tail begins with the token that was the last window's last label and no input yet. */
    const int64_t used = whole * S, left = length - used;
    if (left == 0 || (whole > 0 && left == 1)) return ls_ok(); /* nothing but that one token */
    LS_TRY(push(&w->rest, &w->n_rest, &w->rest_capacity, (ls_stretch){start + used, left, w->rest_tokens}));
    w->rest_tokens += left;
    return ls_ok();
}

static ls_status add_all(windows *w, const ls_corpus *corpus, int64_t S) {
    for (int64_t p = 0; p < corpus->n_parts; p++) {
        const ls_part *part = &corpus->parts[p];
        for (int64_t d = 0; d < part->documents; d++) {
            const int64_t start = ls_part_document(part, d);
            LS_TRY(add_document(w, S, start, ls_part_document(part, d + 1) - start));
        }
    }
    return ls_ok();
}

static void destroy(void *state) {
    windows *w = state;
    free(w->documents);
    free(w->rest);
    free(w);
}

static ls_status create(const ls_corpus *corpus, int64_t S, ls_packed *out) {
    windows *w = calloc(1, sizeof *w);
    if (w == NULL) return ls_error(LS_NO_MEMORY, "no memory for the windows of a text");
    const ls_status status = add_all(w, corpus, S);
    if (status.code != LS_OK) {
        destroy(w);
        return status;
    }
    const int64_t joined = w->rest_tokens > 0 ? (w->rest_tokens - 1) / S : 0;
    *out = (ls_packed){.sequences = w->whole + joined, .whole = w->whole, .state = w};
    return ls_ok();
}

static int64_t passages(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i,
                        ls_passage *out) {
    const windows *w = packed->state;
    (void)corpus;
    if (i < w->whole) {
        const ls_stretch *document = &w->documents[ls_stretch_find(w->documents, w->n_documents, i)];
        out[0] = (ls_passage){document->start + (i - document->at) * S, S + 1};
        return 1;
    }
    int64_t place = (i - w->whole) * S, tokens = S + 1, n = 0;
    for (int64_t k = ls_stretch_find(w->rest, w->n_rest, place); tokens > 0; k++) {
        const ls_stretch *stretch = &w->rest[k];
        const int64_t skip = place - stretch->at, some = ls_min(tokens, stretch->length - skip);
        out[n++] = (ls_passage){stretch->start + skip, some};
        place += some;
        tokens -= some;
    }
    return n;
}

const ls_packer ls_packer_join = {.name = "join",
                                  .summary =
                                      "windows; short documents and tails are joined and see each other",
                                  .create = create,
                                  .passages = passages,
                                  .destroy = destroy};
