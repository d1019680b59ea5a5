/*
 * join: windows of S + 1 tokens. Neighbouring windows share one token, so that each token but the first is a label
 * exactly once. Whole windows lie inside a document. The tails of long documents, and the short documents, are joined
 * in order and cut in the same way.
 */
#include "data/pack_impl.h"

#include <stdlib.h>

typedef struct windows {
    ls_tally whole; /* windows */
    ls_tally rest;  /* tokens that are joined */
} windows;

static int64_t whole_windows(int64_t length, int64_t S) { return ls_max(length - 1, 0) / S; }

/*
 * The number of tokens in the tail, which begins with the last label of the last window: that token was not an input
 * there.
 */
static int64_t tokens_left(int64_t length, int64_t S) {
    const int64_t whole = whole_windows(length, S), left = length - whole * S;
    return whole > 0 && left == 1 ? 0 : left; /* the tail would be that label alone */
}

static void destroy(void *state) {
    windows *w = state;
    ls_tally_free(&w->whole);
    ls_tally_free(&w->rest);
    free(w);
}

static ls_status count(windows *w, const ls_corpus *corpus, int64_t S) {
    LS_TRY(ls_tally_make(corpus, whole_windows, S, &w->whole));
    return ls_tally_make(corpus, tokens_left, S, &w->rest);
}

static ls_status create(const ls_corpus *corpus, int64_t S, ls_packed *out) {
    windows *w = calloc(1, sizeof *w);
    if (w == NULL) return ls_error(LS_NO_MEMORY, "no memory for the windows of a text");
    const ls_status status = count(w, corpus, S);
    if (status.code != LS_OK) {
        destroy(w);
        return status;
    }
    const int64_t joined = w->rest.total > 0 ? (w->rest.total - 1) / S : 0;
    *out = (ls_packed){.sequences = w->whole.total + joined, .whole = w->whole.total, .state = w};
    return ls_ok();
}

static int64_t passages(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i, ls_passage *out) {
    const windows *w = packed->state;
    int64_t before, n = 0;
    if (i < w->whole.total) {
        const ls_document document = ls_tally_find(&w->whole, corpus, i, &before);
        out[0] = (ls_passage){document.start + (i - before) * S, S + 1};
        return 1;
    }
    int64_t place = (i - w->whole.total) * S, tokens = S + 1;
    ls_document document = ls_tally_find(&w->rest, corpus, place, &before);
    for (; tokens > 0; ls_document_next(&document)) {
        const int64_t left = tokens_left(document.length, S), some = ls_min(tokens, before + left - place);
        LS_ASSERT(document.part != NULL);
        if (some > 0) out[n++] = (ls_passage){document.start + document.length - left + place - before, some};
        before += left;
        place += some;
        tokens -= some;
    }
    return n;
}

const ls_packer ls_packer_join = {.name = "join",
                                  .summary = "windows; short documents and tails are joined and see each other",
                                  .create = create,
                                  .passages = passages,
                                  .destroy = destroy};
