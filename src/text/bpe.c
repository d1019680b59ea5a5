/*
 * Byte pair encoding of a word: cuts the word into characters and merges them. A cache holds the ids of earlier words.
 */
#include "base/base.h"
#include "text/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- the cache of words ---- */

enum {
    LONGEST_WORD = 64, /* bytes; longer words are not cached */
    SLOTS = 1 << 16,   /* at most 3/4 of them are used */
    ROOM = 2 << 20     /* bytes for words, and the same for ids */
};

typedef struct cached_word {
    uint64_t hash;       /* 0: a free slot */
    uint32_t word, id;   /* where the word and its ids begin */
    uint16_t bytes, ids; /* their lengths */
} cached_word;

struct ls_word_cache {
    cached_word slot[SLOTS];
    size_t count, bytes, ids;
    char byte[ROOM];
    int32_t id[ROOM / 4];
};

ls_word_cache *ls_word_cache_create(void) { return calloc(1, sizeof(ls_word_cache)); }
void ls_word_cache_destroy(ls_word_cache *cache) { free(cache); }

static cached_word *find_cached(ls_word_cache *cache, uint64_t hash, const char *word, size_t bytes) {
    for (size_t at = hash >> 16;; at++) {
        cached_word *slot = &cache->slot[at % SLOTS];
        if (slot->hash == 0) return slot;
        if (slot->hash == hash && slot->bytes == bytes && memcmp(cache->byte + slot->word, word, bytes) == 0)
            return slot;
    }
}

static void cache_word(ls_word_cache *cache, uint64_t hash, const char *word, size_t bytes, const int32_t *id,
                       size_t n) {
    if (cache->count >= SLOTS / 4 * 3 || cache->bytes + bytes > sizeof cache->byte ||
        cache->ids + n > LS_COUNT(cache->id)) {
        memset(cache->slot, 0, sizeof cache->slot);
        cache->count = cache->bytes = cache->ids = 0;
    }
    *find_cached(cache, hash, word, bytes) =
        (cached_word){hash, (uint32_t)cache->bytes, (uint32_t)cache->ids, (uint16_t)bytes, (uint16_t)n};
    memcpy(cache->byte + cache->bytes, word, bytes);
    memcpy(cache->id + cache->ids, id, n * sizeof *id);
    cache->bytes += bytes;
    cache->ids += n;
    cache->count++;
}

/* ---- a word's characters ---- */

static int32_t character_id(const ls_bpe *bpe, const char *text, int length, uint32_t code) {
    return code < 0x10000 ? bpe->character[code] : ls_bpe_find(bpe, text, (size_t)length);
}

static bool all_bytes_known(const ls_bpe *bpe, const char *text, int length) {
    for (int i = 0; i < length; i++)
        if (bpe->byte_id[(unsigned char)text[i]] < 0) return false;
    return true;
}

/*
 * Appends the ids of a word's characters; `out` has room for one id per byte. A character without a token becomes the
 * tokens of its bytes, if byte_fallback is set and all exist; else the unknown token, once for consecutive characters
 * when fuse_unknown is set. As in the reference library, the unknown token is written before the next character that
 * has a token, so byte tokens may come before it.
 */
static void cut_characters(const ls_bpe *bpe, const char *word, size_t bytes, ls_token_list *out) {
    bool waiting = false;
    int length;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        uint32_t code = 0;
        length = ls_utf8_decode(word + at, bytes - at, &code);
        LS_ASSERT(length > 0); /* the text is valid UTF-8 by now */
        const int32_t id = character_id(bpe, word + at, length, code);
        if (id >= 0) {
            if (waiting) out->id[out->count++] = bpe->unknown;
            waiting = false;
            out->id[out->count++] = id;
        } else if (bpe->byte_fallback && all_bytes_known(bpe, word + at, length)) {
            for (int i = 0; i < length; i++) out->id[out->count++] = bpe->byte_id[(unsigned char)word[at + (size_t)i]];
        } else if (bpe->unknown >= 0) {
            if (waiting && !bpe->fuse_unknown) out->id[out->count++] = bpe->unknown;
            waiting = true;
        }
    }
    if (waiting) out->id[out->count++] = bpe->unknown;
}

/* The same for a byte-level vocabulary. */
static void cut_bytes(const ls_bpe *bpe, const char *word, size_t bytes, ls_token_list *out) {
    bool waiting = false;
    for (size_t at = 0; at < bytes; at++) {
        const int32_t id = bpe->byte_id[(unsigned char)word[at]];
        if (id < 0 && bpe->unknown < 0) continue;
        if (waiting && (id >= 0 || !bpe->fuse_unknown)) out->id[out->count++] = bpe->unknown;
        waiting = id < 0;
        if (id >= 0) out->id[out->count++] = id;
    }
    if (waiting) out->id[out->count++] = bpe->unknown;
}

/* ---- merging: in a short word all pairs are searched for the best one, in a long word it is on a heap ---- */

#define NONE UINT32_MAX
enum { SHORT = 48 }; /* symbols up to which a search is faster than a heap */

void ls_bpe_scratch_free(ls_bpe_scratch *scratch) {
    free(scratch->symbols.id);
    free(scratch->rank);
    free(scratch->previous);
    free(scratch->next);
    free(scratch->heap);
    *scratch = (ls_bpe_scratch){0};
}

static uint32_t rank_of(const ls_bpe *bpe, int32_t left, int32_t right) {
    const ls_merge *merge = ls_bpe_merge(bpe, left, right);
    return merge ? merge->rank : NONE;
}

static size_t merge_short(const ls_bpe *bpe, int32_t *id, size_t n) {
    uint32_t rank[SHORT];
    for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(bpe, id[i], id[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == NONE) break;
        id[best] = ls_bpe_merge(bpe, id[best], id[best + 1])->id;
        memmove(id + best + 1, id + best + 2, (n - best - 2) * sizeof *id);
        memmove(rank + best, rank + best + 1, (n - best - 2) * sizeof *rank);
        n--;
        if (best > 0) rank[best - 1] = rank_of(bpe, id[best - 1], id[best]);
        if (best + 1 < n) rank[best] = rank_of(bpe, id[best], id[best + 1]);
    }
    return n;
}

/*
 * The heap holds rank << 32 | position, the least on top. Entries are not removed when a pair changes: they are skipped
 * on top.
 */
static bool push(ls_bpe_scratch *s, uint32_t rank, uint32_t position) {
    if (rank == NONE) return true;
    void *items = s->heap;
    bool room = ls_reserve(&items, s->heap_count, &s->heap_capacity, 1, sizeof *s->heap);
    s->heap = items;
    if (!room) return false;
    const uint64_t value = (uint64_t)rank << 32 | position;
    size_t at = s->heap_count++;
    for (size_t above; at > 0 && s->heap[above = (at - 1) / 2] > value; at = above) s->heap[at] = s->heap[above];
    s->heap[at] = value;
    return true;
}

static uint64_t pop(ls_bpe_scratch *s) {
    const uint64_t top = s->heap[0], value = s->heap[--s->heap_count];
    size_t at = 0;
    for (size_t below; (below = 2 * at + 1) < s->heap_count; at = below) {
        if (below + 1 < s->heap_count && s->heap[below + 1] < s->heap[below]) below++;
        if (s->heap[below] >= value) break;
        s->heap[at] = s->heap[below];
    }
    if (s->heap_count > 0) s->heap[at] = value;
    return top;
}

static bool grow_arrays(ls_bpe_scratch *s, size_t n) {
    if (n <= s->capacity) return true;
    uint32_t **arrays[] = {&s->rank, &s->previous, &s->next};
    for (size_t i = 0; i < LS_COUNT(arrays); i++) {
        uint32_t *grown = realloc(*arrays[i], n * sizeof *grown);
        if (!grown) return false;
        *arrays[i] = grown;
    }
    s->capacity = n;
    return true;
}

/* Sets the rank of the pair that begins at `at` and pushes the pair. */
static bool push_pair(const ls_bpe *bpe, ls_bpe_scratch *s, uint32_t at) {
    const int32_t *id = s->symbols.id;
    s->rank[at] = s->next[at] == NONE ? NONE : rank_of(bpe, id[at], id[s->next[at]]);
    return push(s, s->rank[at], at);
}

static bool merge_long(const ls_bpe *bpe, ls_bpe_scratch *s) {
    const uint32_t n = (uint32_t)s->symbols.count;
    int32_t *id = s->symbols.id;
    if (!grow_arrays(s, n)) return false;
    s->heap_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->previous[i] = i - 1; /* NONE for the first */
        s->next[i] = i + 1 < n ? i + 1 : NONE;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!push_pair(bpe, s, i)) return false;
    while (s->heap_count > 0) {
        const uint64_t top = pop(s);
        const uint32_t at = (uint32_t)top, right = s->next[at];
        if (s->rank[at] != top >> 32) continue; /* the pair has changed since it was pushed */
        id[at] = ls_bpe_merge(bpe, id[at], id[right])->id;
        s->rank[right] = NONE;
        s->next[at] = s->next[right];
        if (s->next[at] != NONE) s->previous[s->next[at]] = at;
        if (!push_pair(bpe, s, at)) return false;
        if (s->previous[at] != NONE && !push_pair(bpe, s, s->previous[at])) return false;
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != NONE; i = s->next[i]) id[kept++] = id[i];
    s->symbols.count = kept;
    return true;
}

bool ls_bpe_merge_all(const ls_bpe *bpe, ls_bpe_scratch *scratch) {
    if (scratch->symbols.count > SHORT) return merge_long(bpe, scratch);
    scratch->symbols.count = merge_short(bpe, scratch->symbols.id, scratch->symbols.count);
    return true;
}

/* ---- encoding ---- */

static bool encode_word(const ls_bpe *bpe, ls_bpe_scratch *scratch, ls_word_cache *cache, const char *word,
                        size_t bytes, ls_token_list *out) {
    const uint64_t hash = bytes <= LONGEST_WORD ? ls_text_hash(word, bytes) | 1 : 0;
    if (hash) {
        const cached_word *found = find_cached(cache, hash, word, bytes);
        if (found->hash) {
            if (!ls_token_list_reserve(out, found->ids)) return false;
            for (size_t i = 0; i < found->ids; i++) out->id[out->count++] = cache->id[found->id + i];
            return true;
        }
    }
    ls_token_list *symbols = &scratch->symbols;
    symbols->count = 0;
    if (!ls_token_list_reserve(symbols, bytes)) return false;
    const int32_t whole = !bpe->ignore_merges ? -1
                          : bpe->bytes        ? ls_vocabulary_find(&bpe->words, word, bytes)
                                              : ls_bpe_find(bpe, word, bytes);
    if (whole >= 0) {
        symbols->id[symbols->count++] = whole;
    } else {
        (bpe->bytes ? cut_bytes : cut_characters)(bpe, word, bytes, symbols);
        if (!ls_bpe_merge_all(bpe, scratch)) return false;
    }
    if (!ls_token_list_reserve(out, symbols->count)) return false;
    if (symbols->count > 0) memcpy(out->id + out->count, symbols->id, symbols->count * sizeof *symbols->id);
    out->count += symbols->count;
    if (hash) cache_word(cache, hash, word, bytes, symbols->id, symbols->count);
    return true;
}

/* Length of the first part of a word: up to the next LS_META_SPACE that follows another character. */
static size_t next_cut(const char *word, size_t bytes) {
    enum { LENGTH = sizeof LS_META_SPACE - 1 };
    size_t at = 0;
    while (bytes - at >= LENGTH && memcmp(word + at, LS_META_SPACE, LENGTH) == 0) at += LENGTH;
    const char *found = ls_text_find(word + at, bytes - at, LS_META_SPACE, LENGTH);
    return found && found != word ? (size_t)(found - word) : bytes;
}

bool ls_bpe_encode(const ls_bpe *bpe, ls_bpe_scratch *scratch, ls_word_cache *cache, const char *word, size_t bytes,
                   ls_token_list *out) {
    if (!bpe->cut_at_spaces) return encode_word(bpe, scratch, cache, word, bytes, out);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = next_cut(word + at, bytes - at);
        if (!encode_word(bpe, scratch, cache, word + at, n, out)) return false;
    }
    return true;
}

/* ---- where a text may be cut ---- */

/*
 * A token across two characters is made by a merge of a token that ends with the left one and a token that begins with
 * the right one. Where the file has no such merge, the texts on either side are merged as if each were alone.
 */
static size_t place_of(const uint64_t *adjacent, size_t mask, uint64_t pair) {
    size_t at = ls_pair_hash(pair) & mask;
    while (adjacent[at] != LS_NO_PAIR && adjacent[at] != pair) at = (at + 1) & mask;
    return at;
}

static bool grow_adjacent(ls_bpe *bpe) {
    const size_t slots = bpe->adjacent ? 2 * (bpe->adjacent_mask + 1) : 1024;
    uint64_t *grown = malloc(slots * sizeof *grown);
    if (!grown) return false;
    memset(grown, 0xff, slots * sizeof *grown);
    for (size_t i = 0; bpe->adjacent && i <= bpe->adjacent_mask; i++)
        if (bpe->adjacent[i] != LS_NO_PAIR) grown[place_of(grown, slots - 1, bpe->adjacent[i])] = bpe->adjacent[i];
    free(bpe->adjacent);
    bpe->adjacent = grown;
    bpe->adjacent_mask = slots - 1;
    return true;
}

bool ls_bpe_add_adjacent(ls_bpe *bpe, const char *left, size_t left_bytes, const char *right, size_t right_bytes) {
    uint32_t before, after;
    if (ls_utf8_last(left, left_bytes, &before) == 0 || ls_utf8_decode(right, right_bytes, &after) == 0)
        return true; /* an empty token has no characters */
    if (2 * (bpe->adjacent_count + 1) > bpe->adjacent_mask && !grow_adjacent(bpe)) return false;
    const uint64_t pair = (uint64_t)before << 32 | after;
    uint64_t *slot = &bpe->adjacent[place_of(bpe->adjacent, bpe->adjacent_mask, pair)];
    bpe->adjacent_count += *slot == LS_NO_PAIR;
    *slot = pair;
    return true;
}

/* A character without a token is encoded by other tokens, which may depend on its neighbours. */
static bool has_token(const ls_bpe *bpe, uint32_t code) {
    char text[4];
    if (code < 0x10000) return bpe->character[code] >= 0;
    return ls_bpe_find(bpe, text, (size_t)ls_utf8_encode(code, text)) >= 0;
}

bool ls_bpe_may_cut(const ls_bpe *bpe, uint32_t left, uint32_t right) {
    if (bpe->bytes || bpe->ignore_merges || !has_token(bpe, left) || !has_token(bpe, right)) return false;
    const uint64_t pair = (uint64_t)left << 32 | right;
    return !bpe->adjacent || bpe->adjacent[place_of(bpe->adjacent, bpe->adjacent_mask, pair)] == LS_NO_PAIR;
}
