/*
 * Something counted over the documents of a corpus in their order, and found again by its number. There is a mark every so many
 * documents instead of an entry for each, so that it takes an eighth of a byte a document.
 */
#ifndef LS_DATA_TALLY_H
#define LS_DATA_TALLY_H

#include "data/corpus.h"

/* How many there are in a document of so many tokens, cut for sequences of S. */
typedef int64_t (*ls_tally_count)(int64_t length, int64_t S);

typedef struct ls_tally {
    ls_tally_count count;
    int64_t S, total;
    int64_t *marks; /* how many stand before document 0, 64, 128, ... */
    int64_t n;
} ls_tally;

LS_MUST_USE ls_status ls_tally_make(const ls_corpus *corpus, ls_tally_count count, int64_t S, ls_tally *out);
void ls_tally_free(ls_tally *tally); /* a zeroed one is allowed */

/* The document that holds number `at`, 0 <= at < total; *before: how many stand before it. */
ls_document ls_tally_find(const ls_tally *tally, const ls_corpus *corpus, int64_t at, int64_t *before);

#endif
