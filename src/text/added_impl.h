/*
 * Added tokens, which are found in text before the normalizers (with "normalized": after them) and become one id each.
 * If several begin at the same place, the longest counts.
 */
#ifndef LS_TEXT_ADDED_IMPL_H
#define LS_TEXT_ADDED_IMPL_H

#include "text/bpe_impl.h"
#include "text/steps_impl.h"

typedef struct ls_added_token {
    int32_t id;
    bool single_word; /* found only if no word character is next to it */
    bool left, right; /* the white space before it (after it) belongs to it */
    bool normalized;  /* searched after the normalizers */
} ls_added_token;

/* A set of tokens as a trie of their bytes. */
typedef struct ls_token_trie {
    struct ls_trie_edge *edge; /* by hash of (node, byte) */
    size_t mask, nodes;
    int32_t *found;   /* by node: index of the added token that ends there, or -1 */
    bool begins[256]; /* whether a token begins with this byte */
    bool holds[256];  /* whether a token contains this byte */
    bool widens;      /* whether white space belongs to some token */
} ls_token_trie;

typedef struct ls_added {
    ls_added_token *token;
    size_t count;
    ls_token_trie before, after; /* those searched before and after the normalizers */
    ls_token_trie special;       /* the special ones, by their own texts */
} ls_added;

/*
 * Reads "added_tokens" into *out, which is zeroed, and adds them to the vocabulary. Ids must agree with the vocabulary.
 * Free *out after an error too.
 */
LS_MUST_USE ls_status ls_added_read(ls_json_value document, const ls_steps *normalizers, ls_bpe *bpe, ls_added *out);
void ls_added_free(ls_added *added);

/* An added token in a text. */
typedef struct ls_added_match {
    size_t start, end; /* including the white space that belongs to the token */
    size_t next;       /* where the search for the next one begins */
    int32_t id;
} ls_added_match;

/* Whether the same tokens are certainly found when the text is cut at a boundary. */
bool ls_added_may_cut(const ls_token_trie *trie, ls_boundary boundary);

/*
 * Finds the next added token at or after byte `from`; its white space does not begin before byte `done`. *compared
 * grows by the number of bytes compared: up to LS_MOST_PATTERN for each byte of the text.
 */
bool ls_added_next(const ls_added *added, const ls_token_trie *trie, const char *text, size_t bytes, size_t from,
                   size_t done, size_t *compared, ls_added_match *out);

#endif
