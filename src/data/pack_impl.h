/*
 * data: packing, that is, which tokens each sequence of S holds. A packer is one file and one row of the table in
 * pack.c.
 */
#ifndef LS_DATA_PACK_IMPL_H
#define LS_DATA_PACK_IMPL_H

#include "data/corpus.h"

/* Consecutive tokens of one document. */
typedef struct ls_passage {
    int64_t start, length; /* tokens of the corpus */
} ls_passage;

typedef struct ls_packed {
    int64_t sequences; /* per epoch */
    int64_t whole;     /* number of sequences that lie inside one document */
    int64_t padding;   /* places of all sequences that hold no document */
    int64_t left_out;  /* documents that no sequence has room for */
    void *state;       /* the packer's own */
} ls_packed;

typedef struct ls_packer {
    const char *name, *summary;
    /*
     * false: the passages of a sequence are S + 1 tokens together, the last of which is only a label; documents see
     * each other. true: a passage is `length` inputs, whose labels are the tokens one position later. No passage sees
     * another, each begins at position 0, and together they may be fewer than S inputs.
     */
    bool apart;
    bool pairs; /* documents 2n and 2n + 1 are whole and in the same sequence */
    LS_MUST_USE ls_status (*create)(const ls_corpus *corpus, int64_t S, ls_packed *out);
    /* Writes the passages of sequence i in their order to out[S + 1]. Returns their number. */
    int64_t (*passages)(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i, ls_passage *out);
    void (*destroy)(void *state);
} ls_packer;

extern const ls_packer ls_packer_join, ls_packer_best, ls_packer_stream, ls_packer_pairs;
/*
 * NULL or "auto": the packer of pairs if documents are pairs of answers (compares); else best if some tokens are learnt
 * and others not (learnt), so that no part of a document is separated from its beginning; else join. LS_USAGE lists the
 * known names, or says that the documents are not pairs.
 */
LS_MUST_USE ls_status ls_packer_find(const char *name, bool learnt, bool compares, const ls_packer **out);

/* ---- tally: counts something over the documents of a corpus, and finds its n-th element ---- */

/* The number of elements in a document of this many tokens, cut for sequences of S. */
typedef int64_t (*ls_tally_count)(int64_t length, int64_t S);

typedef struct ls_tally {
    ls_tally_count count;
    int64_t S, total;
    int64_t *marks; /* elements before documents 0, 64, 128, ...; so memory is 1/8 byte per document */
    int64_t n;
} ls_tally;

LS_MUST_USE ls_status ls_tally_make(const ls_corpus *corpus, ls_tally_count count, int64_t S, ls_tally *out);
void ls_tally_free(ls_tally *tally); /* a zeroed one is allowed */

/* The document that holds element `at`, 0 <= at < total. *before: number of elements before the document. */
ls_document ls_tally_find(const ls_tally *tally, const ls_corpus *corpus, int64_t at, int64_t *before);

#endif
