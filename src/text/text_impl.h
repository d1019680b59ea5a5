/* What a kind of tokenizer implements, the tokenizer itself, and growing buffers. */
#ifndef LS_TEXT_IMPL_H
#define LS_TEXT_IMPL_H

#include "format/format.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

/* A kind of tokenizer: one row in a file tokenizer_*.c. Its functions get only ids within the vocabulary. */
typedef struct ls_tokenizer_kind {
    const char *name;
    /* Fills *tokenizer except kind, encoders and file. document: a tokenizer.json; NULL for a kind that needs none. */
    ls_status (*open)(const char *folder, const ls_json *document, ls_tokenizer *tokenizer);
    void (*close)(void *state);
    /* Allocates the memory with which one thread encodes */
    ls_status (*encoder)(const void *state, void **scratch);
    void (*encoder_close)(void *scratch);
    /* rest: the text follows a cut. plain NULL: special tokens are found in the text. */
    ls_status (*encode)(const void *state, void *scratch, const char *text, size_t bytes, bool rest,
                        const ls_plain_text *plain, ls_token_list *out);
    /* As ls_tokenizer_cut; NULL for a kind with a safe size, ls_tokenizer_piece. */
    bool (*cut)(const void *state, const char *text, size_t bytes, size_t wanted, size_t *out);
    ls_status (*decode)(const void *state, const int32_t *ids, size_t n, ls_text *out);
    int32_t (*find)(const void *state, const char *token);
    bool (*is_special)(const void *state, int32_t id);
    /* As ls_tokenizer_next_special; NULL for a kind whose special tokens do not occur in text. */
    bool (*next_special)(const void *state, const char *text, size_t bytes, size_t from, size_t done,
                         ls_special_place *out);
} ls_tokenizer_kind;

/* Encoders that no thread is using. Changes although the tokenizer is const, under its own lock. */
typedef struct ls_encoder_pool ls_encoder_pool;

struct ls_tokenizer {
    const ls_tokenizer_kind *kind;
    void *state; /* the kind's own */
    ls_encoder_pool *encoders;
    char *file; /* the path that was read; NULL for "bytes" */
    int32_t vocabulary, end_of_document;
    size_t piece;
    uint64_t fingerprint;
    ls_token_frame frame;
};

extern const ls_tokenizer_kind ls_tokenizer_bytes; /* tokenizer_bytes.c */
extern const ls_tokenizer_kind ls_tokenizer_bpe;   /* tokenizer_bpe.c */

/* ---- growing buffers (buffers.c) ---- */

/*
 * Makes room for `more` items of `size` bytes after the first `count`. False: no memory, and the buffer is unchanged.
 */
LS_MUST_USE bool ls_reserve(void **items, size_t count, size_t *capacity, size_t more, size_t size);
LS_MUST_USE bool ls_token_list_reserve(ls_token_list *list, size_t more);
LS_MUST_USE bool ls_text_reserve(ls_text *text, size_t more);
LS_MUST_USE bool ls_text_append(ls_text *text, const char *bytes, size_t n);
/*
 * The first occurrence of `part`, n >= 1 bytes, in a text, or NULL: memmem, except for short parts. The thread
 * sanitizer checks all bytes that memmem may read, so that finding all occurrences in a text would take quadratic time
 * under it.
 */
const char *ls_text_find(const char *text, size_t bytes, const char *part, size_t n);
ls_status ls_no_memory(size_t bytes); /* "no memory to tokenize a text of N bytes" */

/* Overwrites *out with the text, where U+FFFD replaces wrong bytes as in Python (utf8.c). */
LS_MUST_USE bool ls_utf8_repair(const char *text, size_t bytes, ls_text *out);
size_t ls_utf8_valid_run(const char *text, size_t bytes); /* as ls_utf8_valid_prefix, faster for ASCII */

/* Converts vocab.json, merges.txt and the files beside them into a tokenizer.json (vocabulary_files.c). */
LS_MUST_USE ls_status ls_vocabulary_files_read(const char *folder, ls_json **out);

#endif
