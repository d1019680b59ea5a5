/*
 * Where merges cannot go across. A token across two characters was made by a merge of a token that ends with the
 * left one and a token that begins with the right one; so where no merge of the file is such, what is on either
 * side is merged as if it were alone.
 */
#include "text/bpe.h"
#include "text/characters.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

static size_t place_of(const uint64_t *joint, size_t mask, uint64_t pair) {
    size_t at = ls_pair_hash(pair) & mask;
    while (joint[at] != LS_NO_PAIR && joint[at] != pair) at = (at + 1) & mask;
    return at;
}

static bool grow(ls_bpe *bpe) {
    const size_t slots = bpe->joint ? 2 * (bpe->joint_mask + 1) : 1024;
    uint64_t *grown = malloc(slots * sizeof *grown);
    if (!grown) return false;
    memset(grown, 0xff, slots * sizeof *grown);
    for (size_t i = 0; bpe->joint && i <= bpe->joint_mask; i++)
        if (bpe->joint[i] != LS_NO_PAIR) grown[place_of(grown, slots - 1, bpe->joint[i])] = bpe->joint[i];
    free(bpe->joint);
    bpe->joint = grown;
    bpe->joint_mask = slots - 1;
    return true;
}

bool ls_bpe_add_joint(ls_bpe *bpe, const char *left, size_t left_bytes, const char *right,
                      size_t right_bytes) {
    uint32_t before, after;
    if (ls_utf8_last(left, left_bytes, &before) == 0 || ls_utf8_decode(right, right_bytes, &after) == 0)
        return true; /* an empty token is no neighbour of characters */
    if (2 * (bpe->joints + 1) > bpe->joint_mask && !grow(bpe)) return false;
    const uint64_t pair = (uint64_t)before << 32 | after;
    uint64_t *slot = &bpe->joint[place_of(bpe->joint, bpe->joint_mask, pair)];
    bpe->joints += *slot == LS_NO_PAIR;
    *slot = pair;
    return true;
}

/* A character without a token may be made of others, or wait for its neighbours. */
static bool has_token(const ls_bpe *bpe, uint32_t code) {
    char text[4];
    if (code < 0x10000) return bpe->character[code] >= 0;
    return ls_bpe_find(bpe, text, (size_t)ls_utf8_encode(code, text)) >= 0;
}

bool ls_bpe_may_cut(const ls_bpe *bpe, uint32_t left, uint32_t right) {
    if (bpe->bytes || bpe->ignore_merges || !has_token(bpe, left) || !has_token(bpe, right)) return false;
    const uint64_t pair = (uint64_t)left << 32 | right;
    return !bpe->joint || bpe->joint[place_of(bpe->joint, bpe->joint_mask, pair)] == LS_NO_PAIR;
}
