/* Shards as they are read. Nothing that a file says is believed before it was compared with the file's size. */
#include "data/shard.h"

#include <stdlib.h>
#include <string.h>

/* Numbers beyond these are refused before anything is multiplied. */
#define MOST_TOKENS ((uint64_t)1 << 44)
#define MOST_VOCABULARY ((uint64_t)1 << 31)

void ls_tokens_widen(const void *tokens, int width, int64_t first, int64_t n, int32_t *out) {
    if (width == 1) {
        const uint8_t *from = (const uint8_t *)tokens + first;
        for (int64_t i = 0; i < n; i++) out[i] = from[i];
    } else if (width == 2) {
        const uint16_t *from = (const uint16_t *)tokens + first;
        for (int64_t i = 0; i < n; i++) out[i] = from[i];
    } else {
        const int32_t *from = (const int32_t *)tokens + first;
        for (int64_t i = 0; i < n; i++) out[i] = from[i];
    }
}

static ls_status wrong(const ls_shard *s, const char *field, uint64_t value, const char *expected) {
    return ls_error(LS_INVALID, "%s: %s is %llu, expected %s", s->path, field, (unsigned long long)value,
                    expected);
}

static ls_status check_header(const ls_shard *s) {
    const ls_shard_header *h = s->header;
    if (s->map.bytes < sizeof *h)
        return ls_error(LS_INVALID, "%s: %zu bytes, expected a token shard of at least %zu", s->path,
                        s->map.bytes, sizeof *h);
    if (memcmp(h->magic, LS_SHARD_MAGIC, sizeof h->magic) != 0)
        return ls_error(LS_INVALID,
                        "%s: begins with other bytes than \"" LS_SHARD_MAGIC "\", expected a token shard",
                        s->path);
    if (h->header_checksum != ls_hash_bytes(h, offsetof(ls_shard_header, header_checksum)))
        return ls_error(LS_INVALID, "%s: the checksum of the header is wrong; the file was damaged", s->path);
    if (h->vocabulary < 1 || h->vocabulary > MOST_VOCABULARY)
        return wrong(s, "vocabulary", h->vocabulary, "1 to 2^31");
    if (h->width != (uint32_t)ls_token_width((int64_t)h->vocabulary))
        return wrong(s, "width", h->width, "what the vocabulary needs: 1, 2 or 4");
    if (h->flags & ~(uint32_t)LS_SHARD_LEARNT) return wrong(s, "flags", h->flags, "0 or 1");
    if (h->end_of_document >= h->vocabulary && h->end_of_document != LS_SHARD_NO_END)
        return wrong(s, "end_of_document", h->end_of_document, "an id of the vocabulary, or 2^64 - 1");
    if (h->tokens > MOST_TOKENS) return wrong(s, "tokens", h->tokens, "at most 2^44");
    if (h->documents > h->tokens) return wrong(s, "documents", h->documents, "no more than tokens");
    return ls_ok();
}

/* Where the parts lie; the file must be as long as they are. */
static ls_status find_parts(ls_shard *s) {
    const ls_shard_header *h = s->header;
    const size_t tokens = ls_round_up(h->tokens * h->width, 8);
    const size_t ends = h->documents * sizeof *s->ends, counts = h->vocabulary * sizeof *s->counts;
    const size_t learnt = h->flags & LS_SHARD_LEARNT ? (h->tokens + 63) / 64 * sizeof *s->learnt : 0;
    const size_t expected = sizeof *h + tokens + ends + counts + learnt;
    if (s->map.bytes != expected)
        return ls_error(LS_INVALID, "%s: %zu bytes, expected %zu for %llu tokens in %llu documents", s->path,
                        s->map.bytes, expected, (unsigned long long)h->tokens,
                        (unsigned long long)h->documents);
    const uint8_t *at = s->map.data + sizeof *h;
    s->tokens = at;
    s->ends = (const uint64_t *)(const void *)(at + tokens);
    s->counts = (const uint64_t *)(const void *)(at + tokens + ends);
    s->learnt = learnt > 0 ? (const uint64_t *)(const void *)(at + tokens + ends + counts) : NULL;
    return ls_ok();
}

static ls_status check_index(const ls_shard *s) {
    const ls_shard_header *h = s->header;
    uint64_t start = 0, longest = 0, counted = 0;
    for (uint64_t d = 0; d < h->documents; d++) {
        if (s->ends[d] <= start || s->ends[d] > h->tokens)
            return ls_error(LS_INVALID, "%s: document %llu ends at token %llu, expected %llu to %llu",
                            s->path, (unsigned long long)d, (unsigned long long)s->ends[d],
                            (unsigned long long)start + 1, (unsigned long long)h->tokens);
        longest = (uint64_t)ls_max((int64_t)longest, (int64_t)(s->ends[d] - start));
        start = s->ends[d];
    }
    if (start != h->tokens) return wrong(s, "tokens", h->tokens, "the end of the last document");
    if (longest != h->longest) return wrong(s, "longest", h->longest, "the longest document's tokens");
    for (uint64_t i = 0; i < h->vocabulary; i++) {
        if (s->counts[i] > h->tokens - counted)
            return ls_error(LS_INVALID, "%s: the counts of ids exceed %llu tokens at id %llu", s->path,
                            (unsigned long long)h->tokens, (unsigned long long)i);
        counted += s->counts[i];
    }
    return counted == h->tokens ? ls_ok() : wrong(s, "tokens", h->tokens, "the sum of the counts of ids");
}

ls_status ls_shard_open(const char *path, ls_shard *out) {
    ls_shard s = {.path = strdup(path)};
    if (s.path == NULL) return ls_error(LS_NO_MEMORY, "no memory for a file name");
    ls_status status = ls_file_map_open(path, &s.map);
    s.header = (const ls_shard_header *)(const void *)s.map.data;
    if (status.code == LS_OK) status = check_header(&s);
    if (status.code == LS_OK) status = find_parts(&s);
    if (status.code == LS_OK) status = check_index(&s);
    if (status.code == LS_OK)
        *out = s;
    else
        ls_shard_close(&s);
    return status;
}

void ls_shard_close(ls_shard *s) {
    ls_file_map_close(&s->map);
    free(s->path);
    *s = (ls_shard){0};
}

/* --- all of it -------------------------------------------------------------------------------------------------------------- */

typedef struct verifying {
    const ls_shard *shard;
    uint64_t *hashes;  /* by block */
    int64_t *wrong;    /* by block: a token that is no id, or -1 */
    uint64_t **counts; /* by thread */
} verifying;

static size_t body_bytes(const ls_shard *s) { return s->map.bytes - sizeof *s->header; }

static int block_count(const ls_shard *s) {
    return (int)ls_ceil_div((int64_t)body_bytes(s), (int64_t)LS_SHARD_BLOCK);
}

static size_t block_bytes(const ls_shard *s, int i) {
    const size_t at = (size_t)i * LS_SHARD_BLOCK;
    return (size_t)ls_min((int64_t)LS_SHARD_BLOCK, (int64_t)(body_bytes(s) - at));
}

static void hash_block(void *context, int i, int thread) {
    (void)thread;
    const verifying *v = context;
    const uint8_t *block = v->shard->map.data + sizeof *v->shard->header + (size_t)i * LS_SHARD_BLOCK;
    const size_t bytes = block_bytes(v->shard, i);
    ls_file_populate(block, bytes);
    v->hashes[i] = ls_hash_bytes(block, bytes);
    ls_file_forget(block, bytes);
}

static void verify_block(void *context, int i, int thread) {
    const verifying *v = context;
    const ls_shard_header *h = v->shard->header;
    const size_t at = (size_t)i * LS_SHARD_BLOCK, bytes = block_bytes(v->shard, i);
    v->hashes[i] = ls_hash_bytes(v->shard->map.data + sizeof *h + at, bytes);
    v->wrong[i] = -1;
    const int64_t first = (int64_t)(at / h->width);
    const int64_t end = ls_min((int64_t)h->tokens, first + (int64_t)(bytes / h->width));
    int32_t ids[4096];
    for (int64_t t = first, n; t < end; t += n) {
        n = ls_min(end - t, (int64_t)LS_COUNT(ids));
        ls_tokens_widen(v->shard->tokens, (int)h->width, t, n, ids);
        for (int64_t k = 0; k < n; k++) {
            if (ids[k] >= 0 && (uint64_t)ids[k] < h->vocabulary)
                v->counts[thread][ids[k]]++;
            else if (v->wrong[i] < 0)
                v->wrong[i] = t + k;
        }
    }
}

static ls_status judge_checksum(const verifying *v, int blocks) {
    const ls_shard *s = v->shard;
    const uint64_t found = ls_hash_bytes(v->hashes, (size_t)blocks * sizeof *v->hashes);
    if (found == s->header->checksum) return ls_ok();
    return ls_error(LS_INVALID, "%s: checksum is %016llx, expected %016llx; the file was damaged", s->path,
                    (unsigned long long)found, (unsigned long long)s->header->checksum);
}

static ls_status judge(const verifying *v, int blocks, int threads) {
    const ls_shard *s = v->shard;
    LS_TRY(judge_checksum(v, blocks));
    for (int i = 0; i < blocks; i++) {
        int32_t id = 0;
        if (v->wrong[i] < 0) continue;
        ls_tokens_widen(s->tokens, (int)s->header->width, v->wrong[i], 1, &id);
        return ls_error(LS_INVALID, "%s: token %lld is %lld, expected an id below %llu", s->path,
                        (long long)v->wrong[i], (long long)id, (unsigned long long)s->header->vocabulary);
    }
    for (uint64_t id = 0; id < s->header->vocabulary; id++) {
        uint64_t counted = 0;
        for (int t = 0; t < threads; t++) counted += v->counts[t][id];
        if (counted != s->counts[id])
            return ls_error(LS_INVALID, "%s: id %llu occurs %llu times, expected %llu", s->path,
                            (unsigned long long)id, (unsigned long long)counted,
                            (unsigned long long)s->counts[id]);
    }
    return ls_ok();
}

static ls_status no_memory(const ls_shard *shard) {
    return ls_error(LS_NO_MEMORY, "no memory to verify %s", shard->path);
}

ls_status ls_shard_check(const ls_shard *shard, ls_pool *pool) {
    const int blocks = block_count(shard);
    const verifying v = {.shard = shard, .hashes = calloc((size_t)blocks + 1, sizeof *v.hashes)};
    if (v.hashes == NULL) return no_memory(shard);
    ls_pool_run(pool, blocks, hash_block, (void *)(uintptr_t)&v);
    const ls_status status = judge_checksum(&v, blocks);
    free(v.hashes);
    return status;
}

ls_status ls_shard_verify(const ls_shard *shard, ls_pool *pool) {
    const int threads = ls_pool_threads(pool);
    const int blocks = block_count(shard);
    verifying v = {.shard = shard,
                   .hashes = calloc((size_t)blocks + 1, sizeof *v.hashes),
                   .wrong = calloc((size_t)blocks + 1, sizeof *v.wrong),
                   .counts = calloc((size_t)threads, sizeof *v.counts)};
    ls_status status;
    bool room = v.hashes != NULL && v.wrong != NULL && v.counts != NULL;
    for (int t = 0; room && t < threads; t++)
        room = (v.counts[t] = calloc(shard->header->vocabulary, sizeof **v.counts)) != NULL;
    if (room) {
        ls_pool_run(pool, blocks, verify_block, &v);
        status = judge(&v, blocks, threads);
    } else {
        status = no_memory(shard);
    }
    for (int t = 0; v.counts != NULL && t < threads; t++) free(v.counts[t]);
    free(v.counts);
    free(v.hashes);
    free(v.wrong);
    return status;
}
