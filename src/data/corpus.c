#include "data/corpus.h"

#include <stdlib.h>

static void add_part(ls_corpus *c, ls_corpus_part part) {
    if (part.documents == 0) return;
    part.first = c->tokens;
    part.first_document = c->documents;
    c->tokens += part.count;
    c->documents += part.documents;
    c->parts[c->n_parts++] = part;
}

static ls_corpus_part part_of_shard(const ls_shard *s) {
    return (ls_corpus_part){.name = s->path,
                            .tokens = s->tokens,
                            .width = (int)s->header->width,
                            .vocabulary = (int64_t)s->header->vocabulary,
                            .count = (int64_t)s->header->tokens,
                            .documents = (int64_t)s->header->documents,
                            .ends = s->ends,
                            .learnt = s->learnt};
}

ls_status ls_corpus_complete(ls_corpus *c, int32_t vocabulary) {
    const int64_t documents = c->documents;
    c->parts = calloc((size_t)c->shards.n + 1, sizeof *c->parts);
    if (c->parts == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld shards", (long long)c->shards.n);
    c->documents = 0;
    for (int64_t i = 0; i < c->shards.n; i++) {
        add_part(c, part_of_shard(&c->shards.shard[i]));
        c->longest = ls_max(c->longest, (int64_t)c->shards.shard[i].header->longest);
    }
    for (int64_t d = 0; d < documents; d++)
        c->longest = ls_max(c->longest, (int64_t)(c->ends[d] - (d > 0 ? c->ends[d - 1] : 0)));
    if (documents > 0)
        add_part(c, (ls_corpus_part){.name = "text",
                                     .tokens = c->store.data,
                                     .width = c->store.width,
                                     .vocabulary = vocabulary,
                                     .count = c->store.count,
                                     .documents = documents,
                                     .ends = c->ends,
                                     .learnt = c->learnt});
    return ls_ok();
}

void ls_corpus_free(ls_corpus *c) {
    free(c->parts);
    free(c->ends);
    free(c->learnt);
    ls_store_free(&c->store);
    ls_shard_set_close(&c->shards);
    *c = (ls_corpus){0};
}

static const ls_corpus_part *part_of(const ls_corpus *c, int64_t token) {
    int64_t low = 0, high = c->n_parts;
    LS_ASSERT(token >= 0 && token < c->tokens);
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (c->parts[middle].first <= token)
            low = middle;
        else
            high = middle;
    }
    return &c->parts[low];
}

ls_status ls_corpus_read(const ls_corpus *c, int64_t first, int64_t n, int32_t *ids, uint8_t *learnt) {
    if (n == 0) return ls_ok();
    const ls_corpus_part *part = part_of(c, first);
    const int64_t at = first - part->first;
    LS_ASSERT(n > 0 && at + n <= part->count);
    ls_tokens_widen(part->tokens, part->width, at, n, ids);
    uint32_t largest = 0; /* a negative id is a large one */
    for (int64_t i = 0; i < n; i++) largest = (uint32_t)ids[i] > largest ? (uint32_t)ids[i] : largest;
    for (int64_t i = 0; i < n && largest >= part->vocabulary; i++)
        if ((uint32_t)ids[i] >= part->vocabulary)
            return ls_error(LS_INVALID, "%s: token %lld is %lld, expected an id below %lld", part->name,
                            (long long)at + i, (long long)ids[i], (long long)part->vocabulary);
    for (int64_t i = 0; learnt != NULL && i < n; i++)
        learnt[i] = part->learnt == NULL || (part->learnt[(at + i) / 64] >> (at + i) % 64 & 1);
    return ls_ok();
}

int64_t ls_corpus_document(const ls_corpus *c, int64_t token, int64_t *start) {
    const ls_corpus_part *part = part_of(c, token);
    const uint64_t at = (uint64_t)(token - part->first);
    int64_t low = 0, high = part->documents - 1; /* the first document that ends behind the token */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (part->ends[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    *start = ls_corpus_part_document(part, low);
    return part->first_document + low;
}

static void look_up(ls_document *document) {
    document->start = ls_corpus_part_document(document->part, document->d);
    document->length = ls_corpus_part_document(document->part, document->d + 1) - document->start;
}

ls_document ls_corpus_nth(const ls_corpus *c, int64_t d) {
    int64_t low = 0, high = c->n_parts;
    if (d >= c->documents) return (ls_document){.start = c->tokens};
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (c->parts[middle].first_document <= d)
            low = middle;
        else
            high = middle;
    }
    ls_document document = {
        .part = &c->parts[low], .d = d - c->parts[low].first_document, .parts = c->n_parts - low - 1};
    look_up(&document);
    return document;
}

void ls_document_next(ls_document *document) {
    if (++document->d >= document->part->documents) {
        if (document->parts == 0) {
            *document = (ls_document){
                .start = document->start + document->length, .part = document->part, .d = document->d};
            return;
        }
        document->part++;
        document->parts--;
        document->d = 0;
    }
    look_up(document);
}

/* A block at a time, so that any width is read the same way. */
static void count_store(const ls_store *store, int64_t *counts) {
    int32_t block[4096];
    for (int64_t at = 0, n; at < store->count; at += n) {
        n = ls_min(store->count - at, (int64_t)LS_COUNT(block));
        ls_store_read(store, at, n, block);
        for (int64_t i = 0; i < n; i++) counts[block[i]]++;
    }
}

void ls_corpus_count(const ls_corpus *c, int64_t *counts) {
    count_store(&c->store, counts);
    for (int64_t s = 0; s < c->shards.n; s++) {
        const ls_shard *shard = &c->shards.shard[s];
        for (uint64_t id = 0; id < shard->header->vocabulary; id++) counts[id] += (int64_t)shard->counts[id];
    }
}
