/*
 * Byte pair encoding. A word begins as a list of characters (bytes, in a byte-level vocabulary). Then the adjacent pair
 * that comes first in the file's list of merges becomes one token, the leftmost of equal pairs first, until no pair is
 * in the list.
 */
#ifndef LS_TEXT_BPE_IMPL_H
#define LS_TEXT_BPE_IMPL_H

#include "text/text_impl.h"

/* ---- tokens by id and by their bytes (vocabulary.c) ---- */

typedef struct ls_token {
    char *byte; /* owned; a 0 follows */
    uint32_t bytes;
    uint32_t flags; /* LS_TOKEN_...; 0: no token has this id */
    /* Owned, a 0 follows: for a normalized added token, its text after the normalizers; else NULL */
    char *normal_text;
} ls_token;

enum {
    LS_TOKEN_KNOWN = 1,
    LS_TOKEN_SPECIAL = 2,
    LS_TOKEN_ADDED = 4, /* not in the model's vocabulary */
    LS_TOKEN_LISTED = 8 /* one of the added tokens */
};

typedef struct ls_vocabulary {
    ls_token *token; /* by id */
    int32_t size;    /* the largest id in use, plus 1 */
    int32_t room;    /* the limit of ids */
    int32_t count;   /* number of tokens */
    int32_t *slot;   /* by hash of the bytes: an id, or -1 */
    size_t mask;
} ls_vocabulary;

/* A hash of bytes that is the same in every run. */
uint64_t ls_text_hash(const char *text, size_t bytes);

/* Makes an empty vocabulary for `tokens` tokens with ids below `room`. */
LS_MUST_USE bool ls_vocabulary_create(ls_vocabulary *vocabulary, int32_t room, size_t tokens);
void ls_vocabulary_free(ls_vocabulary *vocabulary);
/* Adds a token, whose text and id must be new. The bytes are copied. */
LS_MUST_USE bool ls_vocabulary_add(ls_vocabulary *vocabulary, int32_t id, const char *text, size_t bytes);
int32_t ls_vocabulary_find(const ls_vocabulary *vocabulary, const char *text, size_t bytes); /* -1: none */

/* Byte-level vocabularies (GPT-2's) write a printable byte as itself, the others as U+0100 and following, in order. */

static inline int ls_byte_prints(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

/* Writes the UTF-8 of the character for a byte; returns its length, 1 or 2. */
static inline size_t ls_byte_to_character(int byte, char out[2]) {
    int code = byte;
    if (!ls_byte_prints(byte)) code = 0x100 + (byte <= ' ' ? byte : byte == 0xad ? 67 : byte - 0x7f + 33);
    if (code < 0x80) return out[0] = (char)code, 1;
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

/*
 * Writes the byte that the character at the start of a text stands for; returns the character's length; 0: it stands
 * for no byte.
 */
static inline int ls_character_to_byte(const char *text, size_t bytes, char *out) {
    uint32_t code;
    int length = ls_utf8_decode(text, bytes, &code);
    if (length == 0 || code > 0x143) return 0;
    if (code >= 0x100)
        code = code == 0x143 ? 0xad : code - 0x100 <= ' ' ? code - 0x100 : code - 0x100 - 33 + 0x7f;
    else if (!ls_byte_prints((int)code))
        return 0;
    *out = (char)(unsigned char)code;
    return length;
}

/* ---- the model ---- */

typedef struct ls_merge {
    uint64_t pair; /* left id << 32 | right id; LS_NO_PAIR: a free slot of the table */
    uint32_t rank;
    int32_t id;
} ls_merge;

#define LS_NO_PAIR UINT64_MAX
#define LS_META_SPACE "\xe2\x96\x81" /* U+2581, which stands for a space in SentencePiece vocabularies */

typedef struct ls_bpe {
    ls_vocabulary vocabulary; /* the tokens as the file writes them, with the added ones */
    ls_vocabulary words;      /* the tokens as bytes, with ignore_merges in a byte-level vocabulary */
    ls_merge *merge;          /* by hash of the pair */
    size_t mask;
    int32_t *character; /* by code below 0x10000: the token of this character alone, or -1; NULL with bytes */
    /* By byte: its token ("<0x0A>", or its character in a byte-level vocabulary), or -1 */
    int32_t byte_id[256];
    int32_t unknown;      /* the unknown token; -1: characters without a token are dropped */
    int32_t model_tokens; /* number of tokens in the model, without the added ones */
    /* A hash set of the characters at which merges join tokens: left code << 32 | right code; NULL with bytes */
    uint64_t *adjacent;
    size_t adjacent_mask, adjacent_count;
    bool bytes, fuse_unknown, byte_fallback, ignore_merges;
    bool cut_at_spaces; /* no merge joins an LS_META_SPACE to another character before it, and no character is dropped
                           there */
} ls_bpe;

/* The model's token with this text; -1: none, or only an added one. */
int32_t ls_bpe_find(const ls_bpe *bpe, const char *text, size_t bytes);

/*
 * Reads "model" into *out, which is zeroed; call ls_bpe_free after an error too. bytes: the vocabulary is byte-level.
 * added: the number of added tokens to make room for.
 */
LS_MUST_USE ls_status ls_bpe_read(ls_json_value model, bool bytes, size_t added, ls_bpe *out);
void ls_bpe_free(ls_bpe *bpe);

static inline size_t ls_pair_hash(uint64_t pair) {
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    return (size_t)(hash ^ hash >> 32);
}

/* The merge of two adjacent tokens, or NULL. */
static inline const ls_merge *ls_bpe_merge(const ls_bpe *bpe, int32_t left, int32_t right) {
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t at = ls_pair_hash(pair);; at++) {
        const ls_merge *merge = &bpe->merge[at & bpe->mask];
        if (merge->pair == pair) return merge;
        if (merge->pair == LS_NO_PAIR) return NULL;
    }
}

/* Whether no token has these two characters side by side, so that no merge joins them. */
bool ls_bpe_may_cut(const ls_bpe *bpe, uint32_t left, uint32_t right);
/* Records the characters at which a merge joins two tokens. False: no memory. */
LS_MUST_USE bool ls_bpe_add_adjacent(ls_bpe *bpe, const char *left, size_t left_bytes, const char *right,
                                     size_t right_bytes);

/* One thread's memory for merging; it begins zeroed. */
typedef struct ls_bpe_scratch {
    ls_token_list symbols;
    uint32_t *rank, *previous, *next; /* by symbol */
    uint64_t *heap;
    size_t capacity, heap_count, heap_capacity;
} ls_bpe_scratch;

void ls_bpe_scratch_free(ls_bpe_scratch *scratch);
/* Merges scratch->symbols until no pair has a merge. False: no memory. */
LS_MUST_USE bool ls_bpe_merge_all(const ls_bpe *bpe, ls_bpe_scratch *scratch);

/* A cache of words and their ids. Its size is fixed: it is emptied when it is full. */
typedef struct ls_word_cache ls_word_cache;
LS_MUST_USE ls_word_cache *ls_word_cache_create(void); /* NULL: no memory */
void ls_word_cache_destroy(ls_word_cache *cache);

/* Appends the ids of a word, one of the parts that the pre-tokenizers make. False: no memory. */
LS_MUST_USE bool ls_bpe_encode(const ls_bpe *bpe, ls_bpe_scratch *scratch, ls_word_cache *cache, const char *word,
                               size_t bytes, ls_token_list *out);

#endif
