#include "data/data_impl.h"

#include <stdlib.h>

static void add_document(ls_windows *w, int64_t start, int64_t length) {
    int64_t whole = (length - 1) / w->sequence;
    if (whole > 0) {
        w->documents[w->n_documents++] = (ls_stretch){start, length, w->whole};
        w->whole += whole;
    }
    /* The tail begins with the token that was the last window's last label and no input yet. */
    int64_t used = whole * w->sequence, left = length - used;
    if (left == 0 || (whole > 0 && left == 1)) return; /* nothing but that one token */
    w->rest[w->n_rest++] = (ls_stretch){start + used, left, w->rest_tokens};
    w->rest_tokens += left;
}

ls_status ls_windows_create(const int64_t *ends, int64_t n, int64_t sequence, ls_windows *out) {
    LS_ASSERT(sequence >= 1 && n >= 0);
    ls_windows w = {.sequence = sequence};
    w.documents = calloc((size_t)n + 1, sizeof *w.documents);
    w.rest = calloc((size_t)n + 1, sizeof *w.rest);
    if (!w.documents || !w.rest) {
        ls_windows_free(&w);
        return ls_error(LS_NO_MEMORY, "no memory for the places of %lld documents", (long long)n);
    }
    for (int64_t i = 0, start = 0; i < n; start = ends[i++]) add_document(&w, start, ends[i] - start);
    w.joined = w.rest_tokens > 0 ? (w.rest_tokens - 1) / sequence : 0;
    *out = w;
    return ls_ok();
}

/* The last stretch whose `at` is <= place. */
static int64_t find(const ls_stretch *stretches, int64_t n, int64_t place) {
    int64_t low = 0, high = n;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (stretches[middle].at <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void ls_windows_read(const ls_windows *w, const ls_store *store, int64_t i, int32_t *out) {
    LS_ASSERT(i >= 0 && i < w->whole + w->joined);
    int64_t tokens = w->sequence + 1;
    if (i < w->whole) {
        const ls_stretch *document = &w->documents[find(w->documents, w->n_documents, i)];
        ls_store_read(store, document->start + (i - document->at) * w->sequence, tokens, out);
        return;
    }
    int64_t place = (i - w->whole) * w->sequence;
    for (int64_t k = find(w->rest, w->n_rest, place); tokens > 0; k++) {
        const ls_stretch *stretch = &w->rest[k];
        int64_t skip = place - stretch->at, n = ls_min(tokens, stretch->length - skip);
        ls_store_read(store, stretch->start + skip, n, out);
        out += n;
        place += n;
        tokens -= n;
    }
}

void ls_windows_free(ls_windows *windows) {
    free(windows->documents);
    free(windows->rest);
    *windows = (ls_windows){0};
}
