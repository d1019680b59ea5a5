/* A table of tokens by id and by text. */
#include "base/base.h"
#include "text/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

uint64_t ls_text_hash(const char *text, size_t bytes) {
    uint64_t hash = bytes, word;
    for (; bytes >= 8; bytes -= 8, text += 8) {
        memcpy(&word, text, 8);
        hash = mix(hash, word);
    }
    word = 0;
    for (size_t i = 0; i < bytes; i++) word = word << 8 | (unsigned char)text[i];
    return mix(hash, word);
}

bool ls_vocabulary_create(ls_vocabulary *vocabulary, int32_t room, size_t tokens) {
    size_t slots = 16;
    while (slots < 2 * tokens) slots *= 2;
    *vocabulary = (ls_vocabulary){.room = room, .mask = slots - 1};
    vocabulary->token = calloc((size_t)room + 1, sizeof *vocabulary->token);
    vocabulary->slot = malloc(slots * sizeof *vocabulary->slot);
    if (!vocabulary->token || !vocabulary->slot) {
        ls_vocabulary_free(vocabulary);
        return false;
    }
    memset(vocabulary->slot, 0xff, slots * sizeof *vocabulary->slot);
    return true;
}

void ls_vocabulary_free(ls_vocabulary *vocabulary) {
    for (int32_t id = 0; vocabulary->token && id < vocabulary->size; id++) {
        free(vocabulary->token[id].byte);
        free(vocabulary->token[id].normal_text);
    }
    free(vocabulary->token);
    free(vocabulary->slot);
    *vocabulary = (ls_vocabulary){0};
}

/* The slot of these bytes, or the free one where they belong. */
static int32_t *slot_of(const ls_vocabulary *vocabulary, const char *text, size_t bytes) {
    for (size_t at = ls_text_hash(text, bytes);; at++) {
        int32_t *slot = &vocabulary->slot[at & vocabulary->mask];
        if (*slot < 0) return slot;
        const ls_token *token = &vocabulary->token[*slot];
        if (token->bytes == bytes && memcmp(token->byte, text, bytes) == 0) return slot;
    }
}

bool ls_vocabulary_add(ls_vocabulary *vocabulary, int32_t id, const char *text, size_t bytes) {
    int32_t *slot = slot_of(vocabulary, text, bytes);
    LS_ASSERT(*slot < 0 && id >= 0 && id < vocabulary->room && vocabulary->token[id].flags == 0);
    LS_ASSERT((size_t)vocabulary->count < vocabulary->mask);
    char *copy = malloc(bytes + 1);
    if (!copy) return false;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    vocabulary->token[id] = (ls_token){copy, (uint32_t)bytes, LS_TOKEN_KNOWN, NULL};
    vocabulary->count++;
    if (id >= vocabulary->size) vocabulary->size = id + 1;
    *slot = id;
    return true;
}

int32_t ls_vocabulary_find(const ls_vocabulary *vocabulary, const char *text, size_t bytes) {
    return vocabulary->mask ? *slot_of(vocabulary, text, bytes) : -1;
}

int32_t ls_bpe_find(const ls_bpe *bpe, const char *text, size_t bytes) {
    const int32_t id = ls_vocabulary_find(&bpe->vocabulary, text, bytes);
    return id >= 0 && bpe->vocabulary.token[id].flags & LS_TOKEN_ADDED ? -1 : id;
}
