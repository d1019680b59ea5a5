/*
 * text: added tokens, found in text before (or, with "normalized", after) the normalizers and kept whole. At each
 * place the longest one counts.
 */
#ifndef LS_TEXT_ADDED_IMPL_H
#define LS_TEXT_ADDED_IMPL_H

#include "text/bpe_impl.h"
#include "text/steps_impl.h"

typedef struct ls_added_token {
    int32_t id;
    bool single_word, left, right; /* takes in the white space before it, after it */
    bool normalized;               /* searched for after the normalizers */
} ls_added_token;

/* Tokens to look for, by a tree of their bytes. */
typedef struct ls_token_trie {
    struct ls_trie_edge *edge; /* by hash of node and byte */
    size_t mask, nodes;
    int32_t *found;   /* by node: the added token that ends there, or -1 */
    bool begins[256]; /* some token begins with this byte */
    bool holds[256];  /* some token has this byte */
    bool widens;      /* some token takes in white space */
} ls_token_trie;

typedef struct ls_added {
    ls_added_token *token;
    size_t count;
    ls_token_trie before, after; /* the normalizers */
    ls_token_trie special;       /* the special ones by their own texts, whether normalized or not */
} ls_added;

/*
 * Reads "added_tokens" into *out, which is zeroed, and into the vocabulary, whose ids they must agree with; free it
 * on error too.
 */
LS_MUST_USE ls_status ls_added_read(ls_json_value document, const ls_steps *normalizers, ls_bpe *bpe,
                                    ls_added *out);
void ls_added_free(ls_added *added);

/* The next added token in a text from `from` on. `done`: up to here the text is dealt with. */
typedef struct ls_added_match {
    size_t start, end; /* with the white space that it takes in */
    size_t next;       /* where to look for the next */
    int32_t id;
} ls_added_match;

/* Whether what is found is the same when the text is cut between these characters; said of some places only. */
bool ls_added_may_cut(const ls_token_trie *trie, ls_boundary boundary);

/* *compared grows by the bytes that were compared with tokens: up to LS_MOST_PATTERN for each of the text. */
bool ls_added_next(const ls_added *added, const ls_token_trie *trie, const char *text, size_t bytes,
                   size_t from, size_t done, size_t *compared, ls_added_match *out);

#endif
