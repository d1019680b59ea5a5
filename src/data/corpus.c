/*
 * A corpus: the documents of mapped shards, or of texts that are read into a store in memory.
 */
#include "data/corpus.h"
#include "data/documents_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the store ---- */

ls_store ls_store_empty(int32_t vocabulary) { return (ls_store){.width = ls_token_width(vocabulary)}; }

static ls_status reserve(ls_store *store, int64_t n) {
    if (n <= store->capacity - store->count) return ls_ok();
    int64_t wanted = ls_max(ls_max(2 * store->capacity, store->count + n), 1 << 20);
    void *grown = realloc(store->data, (size_t)wanted * (size_t)store->width);
    if (!grown) return ls_error(LS_NO_MEMORY, "no memory for %lld tokens of %d bytes", (long long)wanted, store->width);
    store->data = grown;
    store->capacity = wanted;
    return ls_ok();
}

ls_status ls_store_append(ls_store *store, const int32_t *ids, int64_t n) {
    if (n == 0) return ls_ok(); /* an empty store has no data to point into */
    LS_TRY(reserve(store, n));
    if (store->width == 1) {
        uint8_t *to = (uint8_t *)store->data + store->count;
        for (int64_t i = 0; i < n; i++) to[i] = (uint8_t)ids[i];
    } else if (store->width == 2) {
        uint16_t *to = (uint16_t *)store->data + store->count;
        for (int64_t i = 0; i < n; i++) to[i] = (uint16_t)ids[i];
    } else {
        int32_t *to = (int32_t *)store->data + store->count;
        for (int64_t i = 0; i < n; i++) to[i] = ids[i];
    }
    store->count += n;
    return ls_ok();
}

void ls_store_read(const ls_store *store, int64_t first, int64_t n, int32_t *out) {
    LS_ASSERT(first >= 0 && n >= 0 && first <= store->count - n);
    ls_tokens_widen(store->data, store->width, first, n, out);
}

void ls_store_free(ls_store *store) {
    free(store->data);
    *store = (ls_store){0};
}

/* ---- reading texts into the store ---- */

typedef struct memory {
    const ls_document_form *form;
    ls_corpus *corpus;
    size_t ends_capacity;   /* in documents */
    size_t learnt_capacity; /* in words of 64 tokens */
    size_t margin_capacity; /* in pairs */
} memory;

/* Sets the bits of the last n tokens of the store: from `learnt` or, if that is NULL, all to `value`. */
static ls_status set_learnt(memory *m, const uint8_t *learnt, bool value, int64_t n) {
    ls_corpus *c = m->corpus;
    const size_t words = (size_t)(c->store.count + 63) / 64;
    if (!m->form->kind->learnt) return ls_ok();
    if (words > m->learnt_capacity) {
        const size_t wanted = 2 * words + 1024;
        uint64_t *grown = realloc(c->learnt, wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory to mark %lld tokens", (long long)c->store.count);
        memset(grown + m->learnt_capacity, 0, (wanted - m->learnt_capacity) * sizeof *grown);
        c->learnt = grown;
        m->learnt_capacity = wanted;
    }
    for (int64_t i = 0, at = c->store.count - n; i < n; i++, at++)
        if (learnt != NULL ? learnt[i] : value) c->learnt[at / 64] |= (uint64_t)1 << at % 64;
    return ls_ok();
}

static ls_status append_tokens(void *context, const int32_t *ids, const uint8_t *learnt, int64_t n) {
    memory *m = context;
    LS_TRY(ls_store_append(&m->corpus->store, ids, n));
    return set_learnt(m, learnt, true, n);
}

static ls_status begin_document(void *context, bool framed, bool learnt) {
    memory *m = context;
    const int n = framed ? m->form->frame.n_begin : 0;
    LS_TRY(ls_store_append(&m->corpus->store, m->form->frame.begin, n));
    return set_learnt(m, NULL, learnt, n);
}

static ls_status end_document(void *context, bool learnt, ls_place next) {
    memory *m = context;
    ls_corpus *c = m->corpus;
    const int n = m->form->frame.end >= 0;
    const size_t count = (size_t)c->documents;
    (void)next;
    if (count == m->ends_capacity) {
        size_t wanted = count ? 2 * count : 256;
        uint64_t *grown = realloc(c->ends, wanted * sizeof *grown);
        if (!grown) return ls_error(LS_NO_MEMORY, "no memory for the places of %zu documents", wanted);
        c->ends = grown;
        m->ends_capacity = wanted;
    }
    LS_TRY(ls_store_append(&c->store, &m->form->frame.end, n));
    c->ends[c->documents++] = (uint64_t)c->store.count;
    return set_learnt(m, NULL, learnt, n);
}

static ls_status put_margin(void *context, double margin) {
    memory *m = context;
    ls_corpus *c = m->corpus;
    const int64_t pair = c->documents / 2;
    if ((size_t)pair >= m->margin_capacity) {
        const size_t wanted = 2 * (size_t)pair + 256;
        float *grown = realloc(c->margins, wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for the margins of %zu pairs", wanted);
        c->margins = grown;
        m->margin_capacity = wanted;
    }
    while (c->n_margins < pair) c->margins[c->n_margins++] = NAN;
    c->margins[c->n_margins++] = (float)margin;
    return ls_ok();
}

static ls_status put_words(void *context, const ls_teacher_words *words) {
    const memory *m = context;
    m->corpus->teacher.k = words->k;
    m->corpus->teacher.temperature = words->temperature;
    return ls_teacher_words_append(&m->corpus->teacher, words->ids, words->logprobs, words->n);
}

static ls_status read_inputs(const ls_texts_options *o, const ls_document_form *form, ls_corpus *corpus,
                             ls_texts *out) {
    ls_machine machine;
    ls_input_list inputs = {0};
    ls_document_counts counts = {0};
    memory m = {.form = form, .corpus = corpus};
    const ls_document_sink sink = {.context = &m,
                                   .margin = put_margin,
                                   .teach = put_words,
                                   .begin = begin_document,
                                   .append = append_tokens,
                                   .end = end_document};
    LS_TRY(ls_inputs_find(o->paths, o->n_paths, form->options.format, &inputs));
    ls_machine_detect(&machine);
    const ls_document_reading reading = {.form = form,
                                         .tokenizer = o->tokenizer,
                                         .inputs = &inputs,
                                         .from = {0, 0, 1},
                                         .threads = machine.cores,
                                         .skip_binary = true};
    const ls_status status = ls_documents_read(&reading, &sink, &counts);
    *out = (ls_texts){.files = inputs.n,
                      .binary = counts.binary,
                      .empty = counts.empty,
                      .bad = counts.bad,
                      .left_out = counts.left_out};
    ls_inputs_free(&inputs);
    return status;
}

ls_status ls_texts_read(const ls_texts_options *o, ls_corpus *corpus, ls_texts *out) {
    ls_document_form form;
    LS_TRY(ls_document_form_find(o->form, o->tokenizer, o->folder, &form));
    const ls_status status = read_inputs(o, &form, corpus, out);
    ls_document_form_free(&form);
    return status;
}

/* ---- parts ---- */

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
    if (c->teacher.k > 0) LS_TRY(ls_teacher_count(c));
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
                                     .learnt = c->learnt,
                                     .teacher = c->teacher.k > 0 ? &c->teacher : NULL,
                                     .before = c->before});
    return ls_ok();
}

void ls_corpus_free(ls_corpus *c) {
    free(c->parts);
    free(c->ends);
    free(c->learnt);
    free(c->answers);
    free(c->margins);
    free(c->before);
    ls_teacher_words_free(&c->teacher);
    ls_store_free(&c->store);
    ls_shard_set_close(&c->shards);
    *c = (ls_corpus){0};
}

/* ---- reading tokens ---- */

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

/* Bytes of a shard's tokens at .. at + n - 1 and, if `marks`, of their marks. */
static int64_t shard_bytes(const ls_corpus_part *part, int64_t at, int64_t n, bool marks) {
    const int64_t words = marks && part->learnt != NULL ? (at + n - 1) / 64 - at / 64 + 1 : 0;
    return n * part->width + words * (int64_t)sizeof *part->learnt;
}

ls_status ls_corpus_read(const ls_corpus *c, int64_t first, int64_t n, int32_t *ids, uint8_t *learnt, int64_t *bytes) {
    if (n == 0) return ls_ok();
    const ls_corpus_part *part = part_of(c, first);
    const int64_t at = first - part->first;
    LS_ASSERT(n > 0 && at + n <= part->count);
    if (bytes != NULL && c->shards.n > 0) *bytes += shard_bytes(part, at, n, learnt != NULL);
    ls_tokens_widen(part->tokens, part->width, at, n, ids);
    uint32_t largest = 0; /* as unsigned numbers, negative ids are large */
    for (int64_t i = 0; i < n; i++) largest = (uint32_t)ids[i] > largest ? (uint32_t)ids[i] : largest;
    for (int64_t i = 0; i < n && largest >= part->vocabulary; i++)
        if ((uint32_t)ids[i] >= part->vocabulary)
            return ls_error(LS_INVALID, "%s: token %lld is %lld, expected an id below %lld", part->name,
                            (long long)at + i, (long long)ids[i], (long long)part->vocabulary);
    for (int64_t i = 0; learnt != NULL && i < n; i++)
        learnt[i] = part->learnt == NULL || ls_mark_at(part->learnt, at + i);
    return ls_ok();
}

void ls_corpus_words(const ls_corpus *c, int64_t first, int64_t n, int32_t *ids, float *logprobs) {
    const ls_corpus_part *part = part_of(c, ls_max(first, 0));
    LS_ASSERT(part->teacher != NULL && (first < 0 || first - part->first + n <= part->count));
    for (int64_t i = 0; i < n; i++)
        ls_teacher_words_of(part, first < 0 ? -1 : first - part->first + i, ids + i * part->teacher->k,
                            logprobs + i * part->teacher->k);
}

int64_t ls_corpus_document(const ls_corpus *c, int64_t token, int64_t *start) {
    const ls_corpus_part *part = part_of(c, token);
    const uint64_t at = (uint64_t)(token - part->first);
    int64_t low = 0, high = part->documents - 1; /* the first document that ends after the token */
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

/* ---- documents that are too long ---- */

static bool part_learns(const ls_corpus_part *part, int64_t first, int64_t n) {
    if (part->learnt == NULL) return n > 0;
    for (int64_t at = first - part->first, end = at + n, next; at < end; at = next) {
        next = ls_min((at / 64 + 1) * 64, end);
        const uint64_t low = ~(uint64_t)0 << at % 64, high = ~(uint64_t)0 >> (63 - (next - 1) % 64);
        if (part->learnt[at / 64] & low & high) return true;
    }
    return false;
}

bool ls_corpus_learns(const ls_corpus *c, int64_t first, int64_t n) {
    return n > 0 && part_learns(part_of(c, first), first, n);
}

/* How many of the `length` tokens of a document are kept. The first one is not a label. */
static int64_t kept_length(const ls_document *document, int64_t length) {
    const ls_corpus *c = document->corpus;
    if (c->most == 0 || length <= c->most || c->too_long == LS_TOO_LONG_SPLIT) return length;
    const bool keeps = c->too_long == LS_TOO_LONG_CUT && part_learns(document->part, document->start + 1, c->most - 1);
    return keeps ? c->most : 0;
}

void ls_corpus_limit(ls_corpus *c, int64_t most, ls_too_long too_long, ls_left_out *out) {
    c->most = most;
    c->too_long = too_long;
    for (ls_document document = ls_corpus_nth(c, 0); document.part != NULL; ls_document_next(&document)) {
        const int64_t length = ls_corpus_part_document(document.part, document.d + 1) - document.start;
        if (length <= most) continue;
        out->longer++;
        out->unlearnt += document.length == 0;
        out->tokens += length - document.length;
    }
}

/* ---- walking over documents ---- */

static void set_bounds(ls_document *document) {
    document->start = ls_corpus_part_document(document->part, document->d);
    document->length =
        kept_length(document, ls_corpus_part_document(document->part, document->d + 1) - document->start);
}

ls_document ls_corpus_nth(const ls_corpus *c, int64_t d) {
    int64_t low = 0, high = c->n_parts;
    if (d >= c->documents) return (ls_document){.corpus = c};
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (c->parts[middle].first_document <= d)
            low = middle;
        else
            high = middle;
    }
    ls_document document = {
        .corpus = c, .part = &c->parts[low], .d = d - c->parts[low].first_document, .parts = c->n_parts - low - 1};
    set_bounds(&document);
    return document;
}

void ls_document_next(ls_document *document) {
    if (++document->d >= document->part->documents) {
        if (document->parts == 0) {
            *document = (ls_document){.corpus = document->corpus};
            return;
        }
        document->part++;
        document->parts--;
        document->d = 0;
    }
    set_bounds(document);
}

/* Counts the learnt ones of tokens first .. first + n - 1, which lie in the part. */
static int64_t count_learnt(const ls_corpus_part *part, int64_t first, int64_t n) {
    if (part->learnt == NULL) return n;
    int64_t learnt = 0;
    for (int64_t at = first - part->first; at < first - part->first + n; at++) learnt += ls_mark_at(part->learnt, at);
    return learnt;
}

int64_t ls_corpus_learnt(const ls_corpus *c) {
    int64_t n = 0;
    for (ls_document document = ls_corpus_nth(c, 0); document.part != NULL; ls_document_next(&document))
        n += count_learnt(document.part, document.start, document.length);
    return n;
}

/* ---- counting ids ---- */

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
