/* A tally, for packers: sums over the documents before each document. */
#include "data/pack_impl.h"

#include <stdlib.h>

enum { DOCUMENTS_PER_MARK = 64 };

ls_status ls_tally_make(const ls_corpus *corpus, ls_tally_count count, int64_t S, ls_tally *out) {
    ls_tally made = {.count = count, .S = S, .n = ls_ceil_div(corpus->documents, DOCUMENTS_PER_MARK)};
    made.marks = malloc((size_t)made.n * sizeof *made.marks + 1);
    if (made.marks == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the places of %lld documents", (long long)corpus->documents);
    ls_document document = ls_corpus_nth(corpus, 0);
    for (int64_t d = 0; document.part != NULL; d++, ls_document_next(&document)) {
        if (d % DOCUMENTS_PER_MARK == 0) made.marks[d / DOCUMENTS_PER_MARK] = made.total;
        made.total += count(document.length, S);
    }
    *out = made;
    return ls_ok();
}

void ls_tally_free(ls_tally *tally) {
    free(tally->marks);
    *tally = (ls_tally){0};
}

ls_document ls_tally_find(const ls_tally *tally, const ls_corpus *corpus, int64_t at, int64_t *before) {
    int64_t low = 0, high = tally->n;
    LS_ASSERT(at >= 0 && at < tally->total);
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (tally->marks[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    ls_document document = ls_corpus_nth(corpus, low * DOCUMENTS_PER_MARK);
    *before = tally->marks[low];
    for (int64_t n; *before + (n = tally->count(document.length, tally->S)) <= at; *before += n)
        ls_document_next(&document);
    return document;
}
