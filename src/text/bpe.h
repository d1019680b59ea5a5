/*
 * text: byte pair encoding. A word starts as characters (bytes, in a byte-level vocabulary); then, as long as
 * there is one, the pair of neighbours that is first in the file's list of merges becomes one token, the
 * leftmost first.
 */
#ifndef LS_TEXT_BPE_H
#define LS_TEXT_BPE_H

#include "text/vocabulary.h"

typedef struct ls_merge {
    uint64_t pair; /* left id << 32 | right id; LS_NO_PAIR: a free slot */
    uint32_t rank;
    int32_t id;
} ls_merge;

#define LS_NO_PAIR UINT64_MAX
#define LS_META_SPACE "\xe2\x96\x81" /* U+2581, a space in vocabularies of the SentencePiece kind */

typedef struct ls_bpe {
    ls_vocabulary vocabulary; /* the tokens as the file writes them, added ones too */
    ls_vocabulary words;      /* with ignore_merges and bytes: the tokens as bytes */
    ls_merge *merge;          /* by hash of the pair */
    size_t mask;
    int32_t *character; /* by code below 0x10000: the token of this character alone, or -1; NULL with bytes */
    int32_t
        byte_id[256]; /* the byte's own token ("<0x0A>", or its letter in a byte-level vocabulary), or -1 */
    int32_t unknown;  /* -1: characters without a token are left out */
    int32_t model_tokens; /* those of the model, without the added ones */
    uint64_t *
        joint; /* the characters that merges join, as left code << 32 | right code, by hash; NULL with bytes */
    size_t joint_mask, joints;
    bool bytes, fuse_unknown, byte_fallback, ignore_merges;
    bool cut_at_spaces; /* nothing is merged across the beginning of a run of LS_META_SPACE */
} ls_bpe;

/* The model's token of these bytes; -1: none, or an added one. */
int32_t ls_bpe_find(const ls_bpe *bpe, const char *text, size_t bytes);

/*
 * Reads "model" into *out, which is zeroed; on error too it is for ls_bpe_free. `bytes`: the pre-tokenizers end
 * in ByteLevel. added: room for so many added tokens.
 */
LS_MUST_USE ls_status ls_bpe_read(ls_json_value model, bool bytes, size_t added, ls_bpe *out);
void ls_bpe_free(ls_bpe *bpe);

static inline size_t ls_pair_hash(uint64_t pair) {
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    return (size_t)(hash ^ hash >> 32);
}

/* The merge of two neighbours; NULL when there is none. */
static inline const ls_merge *ls_bpe_merge(const ls_bpe *bpe, int32_t left, int32_t right) {
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t at = ls_pair_hash(pair);; at++) {
        const ls_merge *merge = &bpe->merge[at & bpe->mask];
        if (merge->pair == pair) return merge;
        if (merge->pair == LS_NO_PAIR) return NULL;
    }
}

/* Whether no token has both of these characters side by side, so that no merge goes across (bpe_joint.c). */
bool ls_bpe_may_cut(const ls_bpe *bpe, uint32_t left, uint32_t right);
/* Notes that a merge joins two texts that are tokens. False: no memory. */
LS_MUST_USE bool ls_bpe_add_joint(ls_bpe *bpe, const char *left, size_t left_bytes, const char *right,
                                  size_t right_bytes);

/* One thread's memory for merging; starts zeroed. */
typedef struct ls_bpe_scratch {
    ls_token_list symbols;
    uint32_t *rank, *previous, *next; /* by symbol */
    uint64_t *heap;
    size_t capacity, heap_count, heap_capacity;
} ls_bpe_scratch;

void ls_bpe_scratch_free(ls_bpe_scratch *scratch);
/* Merges scratch->symbols until nothing can be merged (bpe_merge.c). False: no memory. */
LS_MUST_USE bool ls_bpe_merge_all(const ls_bpe *bpe, ls_bpe_scratch *scratch);

/* Words that were seen, with their ids. Bounded: when it is full it starts anew. */
typedef struct ls_word_cache ls_word_cache;
LS_MUST_USE ls_word_cache *ls_word_cache_create(void); /* NULL: no memory */
void ls_word_cache_destroy(ls_word_cache *cache);

/* Appends the ids of a word, as the pre-tokenizers made it (bpe_word.c). */
LS_MUST_USE bool ls_bpe_encode(const ls_bpe *bpe, ls_bpe_scratch *scratch, ls_word_cache *cache,
                               const char *word, size_t bytes, ls_token_list *out);

#endif
