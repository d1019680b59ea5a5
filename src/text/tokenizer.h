/*
 * Tokenizers: text to ids and back.
 *
 *   "bytes"   id = byte value, vocabulary 256. Its end of document is id 0: text files contain no NUL, so that byte is
 *             free, and a model learns it like any other.
 *   "bpe"     DIR/tokenizer.json with a model of type BPE: byte-level (GPT-2, Llama 3, Qwen) or with bytes as
 *             a last resort (Llama 2, Mistral, Gemma); or DIR/vocab.json and DIR/merges.txt of a GPT2Tokenizer or
 *             Qwen2Tokenizer. The ids are those of the Python package `tokenizers`
 *             (without what it adds around a text; see ls_tokenizer_frame), and so is the text made of ids.
 *             "truncation" and "padding" of the file are not applied.
 *
 * Text is UTF-8. Where it is not, a bpe tokenizer reads it as Python's bytes.decode(errors="replace") does:
 * U+FFFD for each longest piece that could have begun a character, and for each byte that could not.
 *
 * A tokenizer may be used by any number of threads at once. What each needs to encode (the words that it has seen,
 * memory for matching and merging: a few megabytes) is kept in the tokenizer for the next call.
 */
#ifndef LS_TEXT_TOKENIZER_H
#define LS_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

typedef struct ls_tokenizer ls_tokenizer;
typedef struct ls_token_stream ls_token_stream;

/* Growing buffers; start zeroed, end with free() of the pointer. */
typedef struct ls_token_list {
    int32_t *id;
    size_t count, capacity;
} ls_token_list;

typedef struct ls_text {
    char *byte;
    size_t count, capacity;
} ls_text;

/* How many tokens "bytes" has. */
#define LS_BYTES_VOCABULARY 256

/*
 * The tokenizer of a folder; bytes when directory is NULL, and of a folder with no file of a tokenizer and the config.json of
 * a model on bytes (vocab_size 256 to 512). Another folder without one is LS_INVALID. What the files ask for and has no rule
 * here is LS_UNSUPPORTED by name; so is a folder that has a tokenizer.model (or the like) alone.
 *
 * End of document of a tokenizer.json: "eos_token" of tokenizer_config.json, or "eos_token_id" (the first, of
 * several) of config.json or generation_config.json; without any, the first of </s>, <|endoftext|>,
 * <|end_of_text|>, <eos> that is a token. It is LS_INVALID when there is none.
 */
LS_MUST_USE ls_status ls_tokenizer_open(const char *directory, ls_tokenizer **out);
/* The same of a model's folder, where no file of a tokenizer means bytes whatever vocab_size is. */
LS_MUST_USE ls_status ls_tokenizer_open_model(const char *directory, ls_tokenizer **out);
void ls_tokenizer_close(ls_tokenizer *tokenizer); /* NULL is allowed */

const char *ls_tokenizer_name(const ls_tokenizer *tokenizer);   /* "bytes", "bpe" */
const char *ls_tokenizer_file(const ls_tokenizer *tokenizer);   /* where it was read; NULL: "bytes" */
int32_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer); /* ids are 0 .. vocabulary - 1 */
int32_t ls_tokenizer_end_of_document(
    const ls_tokenizer *tokenizer); /* put after each document; -1: there is none */
uint64_t ls_tokenizer_fingerprint(const ls_tokenizer *tokenizer); /* equal for tokenizers that encode alike */
/* Logs which tokenizer this is; vocab_size: of the model that it serves, or 0. */
void ls_tokenizer_tell(const ls_tokenizer *tokenizer, int64_t vocab_size);
/*
 * Bytes that may be encoded by themselves: cutting a document into pieces of this size gives the ids of the
 * whole. SIZE_MAX when that is not so of any size: see ls_tokenizer_cut.
 */
size_t ls_tokenizer_piece(const ls_tokenizer *tokenizer);

/*
 * Where a text may be cut so that ls_tokenizer_encode of what is before and ls_tokenizer_encode_rest of what is
 * behind give the ids of the whole, whatever else is in it: *out is the first such place behind `wanted`, 0 when
 * text[0, bytes) has none. It is where no added token and no merge of the vocabulary has these two characters
 * side by side. False when the file's steps do not tell (a regular expression may look any distance).
 */
bool ls_tokenizer_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t wanted,
                      size_t *out);

/* The id of a token by its text as the file has it ("<|im_start|>"); -1 when there is none. */
int32_t ls_tokenizer_find(const ls_tokenizer *tokenizer, const char *token);
/* Whether the id is one of the file's special tokens: those left out of text that is for people. */
bool ls_tokenizer_is_special(const ls_tokenizer *tokenizer, int32_t id);

/*
 * The next special token in a text from `from` on, as its own text: [from, to), and with the white space that it takes in, not before `done`,
 * [start, end). Of several at one place the longest. False: there is none.
 */
typedef struct ls_special_place {
    size_t from, to, start, end;
    int32_t id;
} ls_special_place;
bool ls_tokenizer_next_special(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t from,
                               size_t done, ls_special_place *out);

/*
 * What the file's post-processor puts around a text (a begin of text, as a rule). Encoding never adds it:
 * whoever wants add_special_tokens=True appends before, text, after. Borrowed from the tokenizer.
 */
typedef struct ls_token_frame {
    const int32_t *before, *after;
    size_t n_before, n_after;
} ls_token_frame;

ls_token_frame ls_tokenizer_frame(const ls_tokenizer *tokenizer);

/*
 * Appends the ids of text[0, bytes). Any bytes are accepted. On error (LS_NO_MEMORY; LS_INVALID when a pattern
 * of the file gives up on this text) `out` has the count it had.
 */
LS_MUST_USE ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                          ls_token_list *out);

/* The same for what is behind a cut: nothing is put before it that the file's steps put before a text. */
LS_MUST_USE ls_status ls_tokenizer_encode_rest(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                               ls_token_list *out);

/*
 * A stretch of a longer text whose special tokens the caller has put there itself: what looks like one inside the
 * stretch is text (as under `split_special_tokens` of the reference library), and so are the added tokens `marks`.
 */
typedef struct ls_plain_text {
    bool inside; /* something stands before it: it does not begin a text */
    const int32_t *marks;
    size_t n_marks;
} ls_plain_text;

/* As ls_tokenizer_encode. */
LS_MUST_USE ls_status ls_tokenizer_encode_plain(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                                const ls_plain_text *plain, ls_token_list *out);

/*
 * Appends the text of ids[0, n), special tokens with it. Of "bytes", the bytes, not always valid UTF-8; of
 * "bpe", UTF-8 with U+FFFD where the tokens' bytes are none, and nothing for an id that no token has. The text
 * of many ids is not that of each alone: see ls_token_stream. An id outside the vocabulary is LS_INVALID.
 */
LS_MUST_USE ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                          ls_text *out);

/*
 * Text as ids come, one by one: push appends what can be said by now. Bytes that have begun a character wait
 * for the rest of it, four ids at most; finish appends what still waits. What was appended is, for valid text,
 * the text of all ids.
 */
LS_MUST_USE ls_status ls_token_stream_create(const ls_tokenizer *tokenizer, ls_token_stream **out);
void ls_token_stream_destroy(ls_token_stream *stream); /* NULL is allowed */
LS_MUST_USE ls_status ls_token_stream_push(ls_token_stream *stream, int32_t id, ls_text *out);
LS_MUST_USE ls_status ls_token_stream_finish(ls_token_stream *stream, ls_text *out);

#endif
