/*
 * Tokenizers: text to ids and back.
 *
 *   "bytes"   An id is a byte's value; the vocabulary is 256. The end of document is id 0: text files contain no NUL
 *             byte.
 *   "bpe"     DIR/tokenizer.json with a model of type BPE, byte-level (GPT-2, Llama 3, Qwen) or with byte fallback
 *             (Llama 2, Mistral, Gemma); or DIR/vocab.json and DIR/merges.txt of a GPT2Tokenizer or Qwen2Tokenizer.
 *             Encoding and decoding give the same results as the Python package `tokenizers` (the reference library),
 *             except that encoding adds no tokens around a text (see ls_tokenizer_frame). "truncation" and "padding" of
 *             the file are not applied.
 *
 * Text is UTF-8: a bpe tokenizer refuses other bytes, and names the first of them.
 *
 * Any number of threads may use a tokenizer at once. The memory that a thread needs to encode (a cache of words, memory
 * for matching and merging: a few megabytes) stays in the tokenizer for later calls.
 */
#ifndef LS_TEXT_TOKENIZER_H
#define LS_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

typedef struct ls_tokenizer ls_tokenizer;
typedef struct ls_token_stream ls_token_stream;

/* Growing buffers. They begin zeroed; the user frees the pointer with free(). */
typedef struct ls_token_list {
    int32_t *id;
    size_t count, capacity;
} ls_token_list;

typedef struct ls_text {
    char *byte;
    size_t count, capacity;
} ls_text;

/* The vocabulary of "bytes". */
#define LS_BYTES_VOCABULARY 256

/*
 * Opens the tokenizer of a folder. It is "bytes" when folder is NULL, or when the folder has no tokenizer file and its
 * config.json is that of a model on bytes (vocab_size 256 to 512). Any other folder without a tokenizer file is
 * LS_INVALID. A setting in the files that is not supported is LS_UNSUPPORTED with its name; so is a folder that has
 * only a tokenizer.model or the like.
 *
 * The end of document of "bpe" is the first of: "eos_token" of tokenizer_config.json or special_tokens_map.json;
 * "eos_token_id" of config.json or generation_config.json (the first id of a list); the first of </s>, <|endoftext|>,
 * <|end_of_text|>, <eos> that is a token; else -1.
 */
LS_MUST_USE ls_status ls_tokenizer_open(const char *folder, ls_tokenizer **out);
/* The same for a model's folder: without a tokenizer file it is "bytes", whatever vocab_size is. */
LS_MUST_USE ls_status ls_tokenizer_open_model(const char *folder, ls_tokenizer **out);
void ls_tokenizer_close(ls_tokenizer *tokenizer); /* NULL is allowed */

const char *ls_tokenizer_name(const ls_tokenizer *tokenizer);   /* "bytes", "bpe" */
const char *ls_tokenizer_file(const ls_tokenizer *tokenizer);   /* the path that was read; NULL for "bytes" */
int32_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer); /* ids are 0 .. vocabulary - 1 */
/* The id after each document; -1 when there is none */
int32_t ls_tokenizer_end_of_document(const ls_tokenizer *tokenizer);
/* Equal for tokenizers that give equal ids */
uint64_t ls_tokenizer_fingerprint(const ls_tokenizer *tokenizer);
/* Logs the tokenizer's file and size. vocab_size: that of the model, or 0; a much larger one is mentioned. */
void ls_tokenizer_log(const ls_tokenizer *tokenizer, int64_t vocab_size);
/*
 * A size in bytes at which a document may be cut: encoding the pieces one by one gives the ids of the whole document.
 * SIZE_MAX when no size is safe; ls_tokenizer_cut finds safe places then.
 */
size_t ls_tokenizer_piece(const ls_tokenizer *tokenizer);

/*
 * Finds the first place at or after `wanted` where a text may be cut: ls_tokenizer_encode of the part before it,
 * followed by ls_tokenizer_encode_rest of the part after it, gives the ids of the whole, whatever the rest of the text
 * is. *out is 0 when text[0, bytes) has no such place. A place is safe when no added token and no merge has the two
 * characters around it side by side. False when the steps of the file make no place certain: a regular expression may
 * read ahead any distance.
 */
bool ls_tokenizer_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t wanted, size_t *out);

/* The id of a token by its text as the file writes it ("<|im_start|>"); -1 when there is none. */
int32_t ls_tokenizer_find(const ls_tokenizer *tokenizer, const char *token);
/* Whether the id is one of the file's special tokens, which are left out of text for people. */
bool ls_tokenizer_is_special(const ls_tokenizer *tokenizer, int32_t id);

/* A special token that a text contains. */
typedef struct ls_special_place {
    size_t from, to;   /* the token's own bytes, [from, to) */
    size_t start, end; /* the same with the white space around it that belongs to the token */
    int32_t id;
} ls_special_place;
/*
 * Finds the next special token of a text at or after byte `from`; the longest of several that begin there. Its white
 * space does not begin before byte `done`. False: there is none.
 */
bool ls_tokenizer_next_special(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t from, size_t done,
                               ls_special_place *out);

/*
 * The ids that the file's post-processor puts around a text, usually a begin-of-text token. Encoding never adds them:
 * for add_special_tokens=True the caller appends before, the text's ids, after. The arrays belong to the tokenizer.
 */
typedef struct ls_token_frame {
    const int32_t *before, *after;
    size_t n_before, n_after;
} ls_token_frame;

ls_token_frame ls_tokenizer_frame(const ls_tokenizer *tokenizer);

/*
 * Appends the ids of text[0, bytes), which may be any bytes for "bytes". On error `out` keeps its count: LS_NO_MEMORY,
 * or LS_INVALID where "bpe" finds bytes that are not UTF-8 (their place is in the message), or when matching a pattern
 * of the file exceeds its limits on this text.
 */
LS_MUST_USE ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                          ls_token_list *out);

/* The same for the text after a cut: without what the file's steps put before a text. */
LS_MUST_USE ls_status ls_tokenizer_encode_rest(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                               ls_token_list *out);

/*
 * How to encode a part of a longer text when the caller writes the special tokens itself. A special token inside the
 * part is encoded as plain text (as with `split_special_tokens` of the reference library), and so are the added tokens
 * in `marks`.
 */
typedef struct ls_plain_text {
    bool inside; /* the part does not begin the longer text */
    const int32_t *marks;
    size_t n_marks;
} ls_plain_text;

/* ls_tokenizer_encode of a part of a longer text. */
LS_MUST_USE ls_status ls_tokenizer_encode_plain(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                                const ls_plain_text *plain, ls_token_list *out);

/*
 * Appends the text of ids[0, n), including special tokens. "bytes" appends the bytes, which need not be UTF-8. "bpe"
 * appends UTF-8, with U+FFFD for bytes that are not UTF-8 and nothing for an id without a token. The text of several
 * ids may differ from the joined texts of the single ids: see ls_token_stream. An id outside the vocabulary is
 * LS_INVALID.
 */
LS_MUST_USE ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t n, ls_text *out);

/*
 * Decoding of ids one by one. ls_token_stream_push appends the text that is certain after this id: the bytes of an
 * incomplete character wait for the rest of it, for up to four ids. ls_token_stream_finish appends the bytes that still
 * wait. For valid text, the appended texts together are the text of all ids.
 */
LS_MUST_USE ls_status ls_token_stream_create(const ls_tokenizer *tokenizer, ls_token_stream **out);
void ls_token_stream_destroy(ls_token_stream *stream); /* NULL is allowed */
LS_MUST_USE ls_status ls_token_stream_push(ls_token_stream *stream, int32_t id, ls_text *out);
LS_MUST_USE ls_status ls_token_stream_finish(ls_token_stream *stream, ls_text *out);

#endif
