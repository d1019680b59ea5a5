/*
 * A corpus: all documents as one row of tokens. Its parts are shards in mapped files, or one store of texts in memory.
 * A document lies in one part. Tokens and documents are numbered across all parts.
 */
#ifndef LS_DATA_CORPUS_H
#define LS_DATA_CORPUS_H

#include "data/shard.h"
#include "longspan/data.h"
#include "text/text.h"

/* Tokens in memory, in as few bytes as their vocabulary allows. */
typedef struct ls_store {
    int width; /* bytes of a token: 1, 2 or 4 */
    void *data;
    int64_t count, capacity; /* tokens */
} ls_store;

ls_store ls_store_empty(int32_t vocabulary);
LS_MUST_USE ls_status ls_store_append(ls_store *store, const int32_t *ids, int64_t n);
void ls_store_read(const ls_store *store, int64_t first, int64_t n, int32_t *out);
void ls_store_free(ls_store *store);

/* What becomes of a document that is longer than allowed. */
typedef enum ls_too_long {
    LS_TOO_LONG_SPLIT, /* it is kept, and packers cut it into pieces */
    LS_TOO_LONG_CUT,   /* its beginning is kept; nothing, where that has nothing to learn */
    LS_TOO_LONG_DROP
} ls_too_long;

/* name "auto" or NULL: cut where some tokens are learnt and others not, else split. LS_USAGE lists the known names. */
LS_MUST_USE ls_status ls_too_long_find(const char *name, bool learnt, ls_too_long *out);
const char *ls_too_long_name(ls_too_long too_long);

/*
 * A teacher's likeliest words in the place of each learnt token, k for each: ids, or LS_LABEL_IGNORED where the teacher
 * has fewer, and log-probabilities at a temperature. k 0: there are none.
 */
typedef struct ls_teacher_words {
    int k;
    double temperature;
    int64_t n, capacity; /* of both arrays: k times as many as learnt tokens */
    int32_t *ids;
    float *logprobs;
} ls_teacher_words;
LS_MUST_USE ls_status ls_teacher_words_append(ls_teacher_words *words, const int32_t *ids, const float *logprobs,
                                              int64_t n);
void ls_teacher_words_free(ls_teacher_words *words); /* a zeroed one is allowed */

typedef struct ls_corpus_part {
    const char *name; /* for errors */
    const void *tokens;
    int width;
    int64_t vocabulary;   /* reading a token with a larger id is an error */
    int64_t first, count; /* tokens */
    int64_t first_document, documents;
    const uint64_t *ends;            /* of documents, in tokens of the part */
    const uint64_t *learnt;          /* a bit for each token; NULL: all are learnt */
    const ls_teacher_words *teacher; /* of the learnt tokens, in their order; NULL: there is none */
    const int64_t *before;           /* with a teacher: learnt tokens before token 0, 64, 128, ... */
} ls_corpus_part;

typedef struct ls_corpus {
    ls_corpus_part *parts;
    int64_t n_parts;
    int64_t tokens, documents, longest; /* longest: tokens of the longest document */
    int64_t most;                       /* tokens that may be kept of a document; 0: all */
    ls_too_long too_long;
    ls_shard_set shards; /* parts are these shards, */
    ls_store store;      /* or this store with its ends and learnt */
    uint64_t *ends;
    uint64_t *learnt;
    uint64_t *answers; /* of the store: which of the learnt tokens are answers; NULL: all are (ls_corpus_imitate) */
    ls_teacher_words teacher; /* of the store, */
    int64_t *before;          /* and the count of its learnt tokens */
    float *margins; /* [n_margins] of pairs, documents 2n and 2n + 1; NaN, and those behind: their records have none */
    int64_t n_margins;
} ls_corpus;

typedef struct ls_texts_options {
    const char *const *paths;
    int n_paths;
    const ls_tokenizer *tokenizer;
    const char *folder;       /* of the tokenizer, for its chat template; NULL: it has none */
    const ls_text_form *form; /* how texts become documents */
} ls_texts_options;

typedef struct ls_texts {
    int64_t files;
    int64_t binary;     /* files that are no text and were skipped */
    int64_t empty, bad; /* records left out */
    ls_left_out left_out;
} ls_texts;

/* Whether token `at` is learnt, of the marks of a part or of a corpus. */
static inline bool ls_mark_at(const uint64_t *learnt, int64_t at) { return learnt[at / 64] >> at % 64 & 1; }

/* Reads texts into the store of the corpus; sets its ends, documents and learnt. */
LS_MUST_USE ls_status ls_texts_read(const ls_texts_options *options, ls_corpus *corpus, ls_texts *out);

/*
 * Of answers that are judged, whose documents are in the store before ls_corpus_complete: from now on document 2n is
 * record n, and 2n + 1 its prompt with the answer of record n - 1, of the first one that of the last (answers.c).
 * LS_INVALID: there are fewer than two.
 */
LS_MUST_USE ls_status ls_corpus_mismatch(ls_corpus *corpus);
/*
 * Of answers in the store, before ls_corpus_complete: from now on only the last token of each document that is not
 * `pad` (-1: the last one) has a label, the id `label`, which is put behind it.
 */
LS_MUST_USE ls_status ls_corpus_score(ls_corpus *corpus, int32_t pad, int32_t label);
/* Of pairs in the store, before ls_corpus_complete: from now on all tokens of documents 2n are learnt. */
LS_MUST_USE ls_status ls_corpus_imitate(ls_corpus *corpus);

/*
 * From now on documents of more than `most` tokens are cut to that, or dropped (ls_document.length); nothing changes
 * with LS_TOO_LONG_SPLIT. Counts them in *out.
 */
void ls_corpus_limit(ls_corpus *corpus, int64_t most, ls_too_long too_long, ls_left_out *out);
/* Whether any of tokens first .. first + n - 1, which lie in one part, is learnt. */
bool ls_corpus_learns(const ls_corpus *corpus, int64_t first, int64_t n);
/* How many of the tokens that are kept are learnt. */
int64_t ls_corpus_learnt(const ls_corpus *corpus);

/* Sets the parts and totals, once the shards are set, or the store with ends and documents. */
LS_MUST_USE ls_status ls_corpus_complete(ls_corpus *corpus, int32_t vocabulary);
void ls_corpus_free(ls_corpus *corpus); /* a zeroed one is allowed */

/*
 * Reads tokens first .. first + n - 1, which lie in one part. learnt (may be NULL): a byte for each. bytes (may be
 * NULL): those that were read from a file are added. LS_INVALID names the part and a token whose id is outside of the
 * vocabulary.
 */
LS_MUST_USE ls_status ls_corpus_read(const ls_corpus *corpus, int64_t first, int64_t n, int32_t *ids, uint8_t *learnt,
                                     int64_t *bytes);
/*
 * A teacher's words in the place of tokens first .. first + n - 1, which lie in one part: k for each, and -100 with 0
 * where a token is not learnt. first < 0: of n tokens that are not there.
 */
void ls_corpus_words(const ls_corpus *corpus, int64_t first, int64_t n, int32_t *ids, float *logprobs);
/* The number of the document that holds a token. *start: its first token. */
int64_t ls_corpus_document(const ls_corpus *corpus, int64_t token, int64_t *start);
/* The first token of document d of a part; d = documents gives the end of the last one. */
static inline int64_t ls_corpus_part_document(const ls_corpus_part *part, int64_t d) {
    return part->first + (d > 0 ? (int64_t)part->ends[d - 1] : 0);
}
/* A document of a corpus. ls_document_next moves to the next one; after the last document the part is NULL. */
typedef struct ls_document {
    int64_t start, length; /* tokens of the corpus that are kept: length 0 where it is dropped */
    const ls_corpus *corpus;
    const ls_corpus_part *part;
    int64_t d;     /* number within the part */
    int64_t parts; /* number of parts after this one */
} ls_document;
ls_document ls_corpus_nth(const ls_corpus *corpus, int64_t d);
void ls_document_next(ls_document *document);
/* Adds to counts, for each id of the vocabulary, how often it occurs. */
void ls_corpus_count(const ls_corpus *corpus, int64_t *counts);

#endif
