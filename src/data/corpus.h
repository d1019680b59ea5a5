/*
 * A corpus: documents as one long row of tokens, wherever they lie. Its parts are shards in mapped files, or one store of texts that
 * were read into memory. A document lies in one part; tokens and documents are numbered over all of them.
 */
#ifndef LS_DATA_CORPUS_H
#define LS_DATA_CORPUS_H

#include "data/data_impl.h"
#include "data/shard_set.h"

typedef struct ls_corpus_part {
    const char *name; /* named by errors */
    const void *tokens;
    int width;
    int64_t vocabulary;   /* larger ids are an error of reading */
    int64_t first, count; /* tokens */
    int64_t first_document, documents;
    const uint64_t *ends;   /* of documents, in tokens of the part */
    const uint64_t *learnt; /* bits; NULL: all are */
} ls_corpus_part;

typedef struct ls_corpus {
    ls_corpus_part *parts;
    int64_t n_parts;
    int64_t tokens, documents, longest;
    ls_shard_set shards; /* what the parts lie in */
    ls_store store;
    uint64_t *ends;
    uint64_t *learnt; /* bits; NULL: all of the store's tokens are */
} ls_corpus;

/* After the shards, or the store and its ends with `documents`, are set. */
LS_MUST_USE ls_status ls_corpus_complete(ls_corpus *corpus, int32_t vocabulary);
void ls_corpus_free(ls_corpus *corpus); /* a zeroed one is allowed */

/* Tokens first .. first + n - 1 of one document, and, unless NULL, a byte for each: learnt. LS_INVALID names the shard and the token. */
LS_MUST_USE ls_status ls_corpus_read(const ls_corpus *corpus, int64_t first, int64_t n, int32_t *ids,
                                     uint8_t *learnt);
/* The document of a token, and where it begins. */
int64_t ls_corpus_document(const ls_corpus *corpus, int64_t token, int64_t *start);
/* The start of document d of a part (d may be their number: the end of the last). */
static inline int64_t ls_corpus_part_document(const ls_corpus_part *part, int64_t d) {
    return part->first + (d > 0 ? (int64_t)part->ends[d - 1] : 0);
}
/* Document d of a corpus, and on from there; behind the last one there is nothing, and its length is 0. */
typedef struct ls_document {
    int64_t start, length; /* tokens of the corpus */
    const ls_corpus_part *part;
    int64_t d;     /* of the part */
    int64_t parts; /* that follow */
} ls_document;
ls_document ls_corpus_nth(const ls_corpus *corpus, int64_t d);
void ls_document_next(ls_document *document);
/* Times that each of the vocabulary's ids occurs, added to counts. */
void ls_corpus_count(const ls_corpus *corpus, int64_t *counts);

#endif
