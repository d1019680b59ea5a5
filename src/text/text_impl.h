/* text: what a kind of tokenizer is, and growing buffers. */
#ifndef LS_TEXT_IMPL_H
#define LS_TEXT_IMPL_H

#include "format/format.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

/* A kind of tokenizer; each has a file, kind_*.c. Its functions may count on ids within the vocabulary. */
typedef struct ls_tokenizer_kind {
    const char *name;
    /* Fills *tokenizer but for kind and file; document is a tokenizer.json, NULL for the kind that needs none. */
    ls_status (*open)(const char *directory, const ls_json *document, ls_tokenizer *tokenizer);
    void (*close)(void *state);
    ls_status (*encoder)(const void *state, void **scratch); /* what one thread needs to encode */
    void (*encoder_close)(void *scratch);
    /* rest: the text is what is behind a cut. plain NULL: special tokens are looked for. */
    ls_status (*encode)(const void *state, void *scratch, const char *text, size_t bytes, bool rest,
                        const ls_plain_text *plain, ls_token_list *out);
    /* ls_tokenizer_cut; NULL where ls_tokenizer_piece says it. */
    bool (*cut)(const void *state, const char *text, size_t bytes, size_t wanted, size_t *out);
    ls_status (*decode)(const void *state, const int32_t *ids, size_t n, ls_text *out);
    int32_t (*find)(const void *state, const char *token);
    bool (*is_special)(const void *state, int32_t id);
    /* ls_tokenizer_next_special; NULL: there are none that a text could hold. */
    bool (*next_special)(const void *state, const char *text, size_t bytes, size_t from, size_t done,
                         ls_special_place *out);
} ls_tokenizer_kind;

/* Threads' memory that no thread is using; changes behind a tokenizer that is const. */
typedef struct ls_idle ls_idle;

struct ls_tokenizer {
    const ls_tokenizer_kind *kind;
    void *state; /* the kind's own */
    ls_idle *idle;
    char *file; /* where it was read; NULL: nowhere */
    int32_t vocabulary, end_of_document;
    size_t piece;
    uint64_t fingerprint;
    ls_token_frame frame;
};

extern const ls_tokenizer_kind ls_tokenizer_bytes; /* kind_bytes.c */
extern const ls_tokenizer_kind ls_tokenizer_bpe;   /* kind_bpe.c */

/* Room for `more` after what a buffer holds (buffer.c). False when there is no memory: it is as it was. */
LS_MUST_USE bool ls_reserve(void **items, size_t count, size_t *capacity, size_t more, size_t size);
LS_MUST_USE bool ls_token_list_reserve(ls_token_list *list, size_t more);
LS_MUST_USE bool ls_text_reserve(ls_text *text, size_t more);
LS_MUST_USE bool ls_text_append(ls_text *text, const char *bytes, size_t n);
/*
 * Where `part`, of n >= 1 bytes, is first in a text; NULL: nowhere. memmem, but for parts that are short: thread
 * sanitizers look at all that memmem may read, which makes going through a text by it quadratic under them.
 */
const char *ls_text_find(const char *text, size_t bytes, const char *part, size_t n);
ls_status ls_no_memory(size_t bytes); /* "no memory for N bytes of text" */

/* A copy with the wrong bytes replaced by U+FFFD, as Python does; *out is overwritten (repair.c). */
LS_MUST_USE bool ls_utf8_repair(const char *text, size_t bytes, ls_text *out);
size_t ls_utf8_valid_run(const char *text, size_t bytes); /* ls_utf8_valid_prefix, fast over ASCII */

/* vocab.json, merges.txt and what is beside them, as a tokenizer.json (vocabulary_files.c). */
LS_MUST_USE ls_status ls_vocabulary_files_read(const char *directory, ls_json **out);

/* The end of document of a folder with a tokenizer.json (end_of_document.c); *out -1: it says of no token that it is one. */
LS_MUST_USE ls_status ls_end_of_document(const char *directory, const ls_tokenizer *tokenizer, int32_t *out);

#endif
