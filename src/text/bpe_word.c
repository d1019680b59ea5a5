/* A word: looked up among those seen before, or cut into characters and merged. */
#include "base/base.h"
#include "text/bpe.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_WORD = 64,
    SLOTS = 1 << 16,
    ROOM = 2 << 20
}; /* of the cache: bytes, words at most 3/4, bytes and ids */

typedef struct seen {
    uint64_t hash; /* 0: free */
    uint32_t word, id;
    uint16_t bytes, ids;
} seen;

struct ls_word_cache {
    seen slot[SLOTS];
    size_t count, bytes, ids;
    char byte[ROOM];
    int32_t id[ROOM / 4];
};

ls_word_cache *ls_word_cache_create(void) { return calloc(1, sizeof(ls_word_cache)); }
void ls_word_cache_destroy(ls_word_cache *cache) { free(cache); }

static seen *look_up(ls_word_cache *cache, uint64_t hash, const char *word, size_t bytes) {
    for (size_t at = hash >> 16;; at++) {
        seen *slot = &cache->slot[at % SLOTS];
        if (slot->hash == 0) return slot;
        if (slot->hash == hash && slot->bytes == bytes && memcmp(cache->byte + slot->word, word, bytes) == 0)
            return slot;
    }
}

static void keep(ls_word_cache *cache, uint64_t hash, const char *word, size_t bytes, const int32_t *id,
                 size_t n) {
    if (cache->count >= SLOTS / 4 * 3 || cache->bytes + bytes > sizeof cache->byte ||
        cache->ids + n > LS_COUNT(cache->id)) {
        memset(cache->slot, 0, sizeof cache->slot);
        cache->count = cache->bytes = cache->ids = 0;
    }
    *look_up(cache, hash, word, bytes) =
        (seen){hash, (uint32_t)cache->bytes, (uint32_t)cache->ids, (uint16_t)bytes, (uint16_t)n};
    memcpy(cache->byte + cache->bytes, word, bytes);
    memcpy(cache->id + cache->ids, id, n * sizeof *id);
    cache->bytes += bytes;
    cache->ids += n;
    cache->count++;
}

static int32_t character_id(const ls_bpe *bpe, const char *text, int length, uint32_t code) {
    return code < 0x10000 ? bpe->character[code] : ls_bpe_find(bpe, text, (size_t)length);
}

static bool all_bytes_known(const ls_bpe *bpe, const char *text, int length) {
    for (int i = 0; i < length; i++)
        if (bpe->byte_id[(unsigned char)text[i]] < 0) return false;
    return true;
}

/*
 * The characters' tokens. One without a token becomes its bytes' tokens, if all are there; or the unknown
 * token, one for a run of them when they are fused. As in the reference, an unknown one waits until the next
 * character that has a token of its own, so that bytes come before it. out has room for one id per byte.
 */
static void cut_characters(const ls_bpe *bpe, const char *word, size_t bytes, ls_token_list *out) {
    bool waiting = false;
    int length;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        uint32_t code = 0;
        length = ls_utf8_decode(word + at, bytes - at, &code);
        LS_ASSERT(length > 0); /* encode has repaired the text */
        const int32_t id = character_id(bpe, word + at, length, code);
        if (id >= 0) {
            if (waiting) out->id[out->count++] = bpe->unknown;
            waiting = false;
            out->id[out->count++] = id;
        } else if (bpe->byte_fallback && all_bytes_known(bpe, word + at, length)) {
            for (int i = 0; i < length; i++)
                out->id[out->count++] = bpe->byte_id[(unsigned char)word[at + (size_t)i]];
        } else if (bpe->unknown >= 0) {
            if (waiting && !bpe->fuse_unknown) out->id[out->count++] = bpe->unknown;
            waiting = true;
        }
    }
    if (waiting) out->id[out->count++] = bpe->unknown;
}

/* The same where a character is a byte. */
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

static bool encode_word(const ls_bpe *bpe, ls_bpe_scratch *scratch, ls_word_cache *cache, const char *word,
                        size_t bytes, ls_token_list *out) {
    const uint64_t hash = bytes <= LONGEST_WORD ? ls_text_hash(word, bytes) | 1 : 0;
    if (hash) {
        const seen *found = look_up(cache, hash, word, bytes);
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
    if (hash) keep(cache, hash, word, bytes, symbols->id, symbols->count);
    return true;
}

/* Bytes up to where the next word begins: before the first space of a run, but for the run at the start. */
static size_t next_cut(const char *word, size_t bytes) {
    enum { LETTER = sizeof LS_META_SPACE - 1 };
    size_t at = 0;
    while (bytes - at >= LETTER && memcmp(word + at, LS_META_SPACE, LETTER) == 0) at += LETTER;
    const char *found = ls_text_find(word + at, bytes - at, LS_META_SPACE, LETTER);
    return found && found != word ? (size_t)(found - word) : bytes;
}

bool ls_bpe_encode(const ls_bpe *bpe, ls_bpe_scratch *scratch, ls_word_cache *cache, const char *word,
                   size_t bytes, ls_token_list *out) {
    if (!bpe->cut_at_spaces) return encode_word(bpe, scratch, cache, word, bytes, out);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = next_cut(word + at, bytes - at);
        if (!encode_word(bpe, scratch, cache, word + at, n, out)) return false;
    }
    return true;
}
