/*
 * Packing: which tokens each sequence of S holds, for each number of the sequence. A packer is one file and one row of packers (pack.c).
 */
#ifndef LS_DATA_PACK_H
#define LS_DATA_PACK_H

#include "data/corpus.h"

/* A stretch of one document. */
typedef struct ls_passage {
    int64_t start, length; /* tokens of the corpus */
} ls_passage;

typedef struct ls_packed {
    int64_t sequences; /* per epoch */
    int64_t whole;     /* of them, those that lie inside one document */
    int64_t padding;   /* places of all sequences that hold no document */
    void *state;       /* the packer's own */
} ls_packed;

typedef struct ls_packer {
    const char *name, *summary;
    /*
     * false: the passages of a sequence are S + 1 tokens, of which the last is a label alone; documents see each other.
     * true: each passage is so many inputs, whose labels are the tokens behind them; no passage sees another, each begins at position
     * 0, and there may be fewer than S inputs.
     */
    bool apart;
    LS_MUST_USE ls_status (*create)(const ls_corpus *corpus, int64_t S, ls_packed *out);
    /* The passages of sequence i in their order, into out[S + 1]; returns how many. */
    int64_t (*passages)(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i,
                        ls_passage *out);
    void (*destroy)(void *state);
} ls_packer;

extern const ls_packer ls_packer_join, ls_packer_best, ls_packer_stream;
/* NULL: join. LS_USAGE for another name, listing those there are. */
LS_MUST_USE ls_status ls_packer_find(const char *name, const ls_packer **out);

#endif
