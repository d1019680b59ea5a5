/*
 * A corpus: all documents as one sequence of tokens. Its parts are shards in mapped files, or one store of texts in
 * memory. A document lies in one part. Tokens and documents are numbered across all parts.
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

/* What happens to a document that is longer than allowed. */
typedef enum ls_too_long {
    LS_TOO_LONG_SPLIT, /* it is kept, and packers cut it into pieces */
    LS_TOO_LONG_CUT,   /* its beginning is kept; if that has nothing to learn, nothing is kept */
    LS_TOO_LONG_DROP
} ls_too_long;

/* name "auto" or NULL: cut if some tokens are learnt and others not, else split. LS_USAGE lists the known names. */
LS_MUST_USE ls_status ls_too_long_find(const char *name, bool learnt, ls_too_long *out);
const char *ls_too_long_name(ls_too_long too_long);

/*
 * A teacher's likeliest words for the place of each learnt token, k for each: ids, or LS_LABEL_IGNORED if the teacher
 * has fewer, and log-probabilities at a temperature. k 0: there are none.
 */
typedef struct ls_teacher_words {
    int k;
    double temperature;
    int64_t n, capacity; /* entries of both arrays: k times the number of learnt tokens */
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
    int64_t vocabulary;   /* reading a token with a larger or equal id is an error */
    int64_t first, count; /* tokens */
    int64_t first_document, documents;
    const uint64_t *ends;            /* ends of documents, in tokens of the part */
    const uint64_t *learnt;          /* one bit per token; NULL: all are learnt */
    const ls_teacher_words *teacher; /* words for the learnt tokens, in their order; NULL: none */
    const int64_t *before;           /* with a teacher: learnt tokens before token 0, 64, 128, ... */
} ls_corpus_part;

typedef struct ls_corpus {
    ls_corpus_part *parts;
    int64_t n_parts;
    int64_t tokens, documents, longest; /* longest: tokens of the longest document */
    int64_t most;                       /* most tokens that are kept of a document; 0: all */
    ls_too_long too_long;
    ls_shard_set shards; /* either the parts are these shards, */
    ls_store store;      /* or there is one part, this store, with its ends and learnt */
    uint64_t *ends;
    uint64_t *learnt;
    uint64_t *answers; /* for the store: which of the learnt tokens belong to answers; NULL: all (ls_corpus_imitate) */
    ls_teacher_words teacher; /* for the store, */
    int64_t *before;          /* with the number of learnt tokens before token 0, 64, 128, ... */
    /* [n_margins], by pair (documents 2n and 2n + 1). NaN, and pairs from n_margins on: the record gives none */
    float *margins;
    int64_t n_margins;
} ls_corpus;

typedef struct ls_texts_options {
    const char *const *paths;
    int n_paths;
    const ls_tokenizer *tokenizer;
    const char *folder;       /* folder of the tokenizer, for its chat template; NULL: none */
    const ls_text_form *form; /* how texts become documents */
} ls_texts_options;

typedef struct ls_texts {
    int64_t files;
    int64_t binary;     /* skipped files that are not text */
    int64_t empty, bad; /* records left out */
    ls_left_out left_out;
} ls_texts;

/* Whether token `at` is learnt, according to the marks of a part or of a corpus. */
static inline bool ls_mark_at(const uint64_t *learnt, int64_t at) { return learnt[at / 64] >> at % 64 & 1; }

/* Reads texts into the store of the corpus; sets its ends, documents and learnt. */
LS_MUST_USE ls_status ls_texts_read(const ls_texts_options *options, ls_corpus *corpus, ls_texts *out);

/*
 * For answers that are judged; their documents are in the store, and ls_corpus_complete has not been called. From now
 * on document 2n is record n, and document 2n + 1 is its prompt with the answer of record n - 1 (for the first record,
 * of the last one; answers.c). LS_INVALID: there are fewer than two.
 */
LS_MUST_USE ls_status ls_corpus_mismatch(ls_corpus *corpus);
/*
 * For answers in the store, before ls_corpus_complete. From now on only the last token of each document that is not
 * `pad` (-1: simply the last one) has a label: the id `label`, which is placed after it.
 */
LS_MUST_USE ls_status ls_corpus_score(ls_corpus *corpus, int32_t pad, int32_t label);
/* For pairs in the store, before ls_corpus_complete. From now on all tokens of documents 2n are learnt. */
LS_MUST_USE ls_status ls_corpus_imitate(ls_corpus *corpus);

/*
 * From now on documents of more than `most` tokens are cut to that number, or dropped (ls_document.length); with
 * LS_TOO_LONG_SPLIT nothing changes. Counts these documents in *out.
 */
void ls_corpus_limit(ls_corpus *corpus, int64_t most, ls_too_long too_long, ls_left_out *out);
/* Whether any of tokens first .. first + n - 1, which lie in one part, is learnt. */
bool ls_corpus_learns(const ls_corpus *corpus, int64_t first, int64_t n);
/* How many of the kept tokens are learnt. */
int64_t ls_corpus_learnt(const ls_corpus *corpus);

/* Sets the parts and totals. The shards, or the store with ends and documents, must be set. */
LS_MUST_USE ls_status ls_corpus_complete(ls_corpus *corpus, int32_t vocabulary);
void ls_corpus_free(ls_corpus *corpus); /* a zeroed one is allowed */

/*
 * Reads tokens first .. first + n - 1, which lie in one part. learnt (may be NULL): one byte per token. bytes (may be
 * NULL): the bytes that were read from a file are added. LS_INVALID names the part and a token whose id is outside the
 * vocabulary.
 */
LS_MUST_USE ls_status ls_corpus_read(const ls_corpus *corpus, int64_t first, int64_t n, int32_t *ids, uint8_t *learnt,
                                     int64_t *bytes);
/*
 * A teacher's words for the places of tokens first .. first + n - 1, which lie in one part: k for each, and -100 with 0
 * for a token that is not learnt. first < 0: for n tokens that do not exist.
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
    int64_t start, length; /* in tokens of the corpus that are kept; length 0: the document is dropped */
    const ls_corpus *corpus;
    const ls_corpus_part *part;
    int64_t d;     /* number within the part */
    int64_t parts; /* number of parts after this one */
} ls_document;
ls_document ls_corpus_nth(const ls_corpus *corpus, int64_t d);
void ls_document_next(ls_document *document);
/* For each id of the vocabulary, adds the number of its occurrences to counts. */
void ls_corpus_count(const ls_corpus *corpus, int64_t *counts);

#endif
