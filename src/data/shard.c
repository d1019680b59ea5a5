/* Reading, verifying and writing one token shard. */
#include "data/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ls_token_width(int64_t vocabulary) { return vocabulary <= 1 << 8 ? 1 : vocabulary <= 1 << 16 ? 2 : 4; }

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

/* ---- reading: a file may be malicious, so every number is checked before it is used ---- */

/* Larger numbers are refused, so that products of them cannot overflow. */
#define MOST_TOKENS ((uint64_t)1 << 44)
#define MOST_VOCABULARY ((uint64_t)1 << 31)

static ls_status field_error(const ls_shard *s, const char *field, uint64_t value, const char *expected) {
    return ls_error(LS_INVALID, "%s: %s is %llu, expected %s", s->path, field, (unsigned long long)value, expected);
}

static ls_status check_header(const ls_shard *s) {
    const ls_shard_header *h = s->header;
    if (s->map.bytes < sizeof *h)
        return ls_error(LS_INVALID, "%s: %zu bytes, expected a token shard of at least %zu", s->path, s->map.bytes,
                        sizeof *h);
    if (memcmp(h->magic, LS_SHARD_MAGIC, sizeof h->magic) != 0)
        return ls_error(LS_INVALID, "%s: begins with other bytes than \"" LS_SHARD_MAGIC "\", expected a token shard",
                        s->path);
    if (h->header_checksum != ls_hash_bytes(h, offsetof(ls_shard_header, header_checksum)))
        return ls_error(LS_INVALID, "%s: the checksum of the header is wrong; the file was damaged", s->path);
    if (h->vocabulary < 1 || h->vocabulary > MOST_VOCABULARY)
        return field_error(s, "vocabulary", h->vocabulary, "1 to 2^31");
    if (h->width != (uint32_t)ls_token_width((int64_t)h->vocabulary))
        return field_error(s, "width", h->width, "what the vocabulary needs: 1, 2 or 4");
    if (h->flags & ~(uint32_t)LS_SHARD_LEARNT) return field_error(s, "flags", h->flags, "0 or 1");
    if (h->end_of_document >= h->vocabulary && h->end_of_document != LS_SHARD_NO_END)
        return field_error(s, "end_of_document", h->end_of_document, "an id of the vocabulary, or 2^64 - 1");
    if (h->tokens > MOST_TOKENS) return field_error(s, "tokens", h->tokens, "at most 2^44");
    if (h->documents > h->tokens) return field_error(s, "documents", h->documents, "no more than tokens");
    return ls_ok();
}

/* Finds where the parts lie, and checks the length of the file. */
static ls_status find_parts(ls_shard *s) {
    const ls_shard_header *h = s->header;
    const size_t tokens = ls_round_up(h->tokens * h->width, 8);
    const size_t ends = h->documents * sizeof *s->ends, counts = h->vocabulary * sizeof *s->counts;
    const size_t learnt = h->flags & LS_SHARD_LEARNT ? (h->tokens + 63) / 64 * sizeof *s->learnt : 0;
    const size_t expected = sizeof *h + tokens + ends + counts + learnt;
    if (s->map.bytes != expected)
        return ls_error(LS_INVALID, "%s: %zu bytes, expected %zu for %llu tokens in %llu documents", s->path,
                        s->map.bytes, expected, (unsigned long long)h->tokens, (unsigned long long)h->documents);
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
            return ls_error(LS_INVALID, "%s: document %llu ends at token %llu, expected %llu to %llu", s->path,
                            (unsigned long long)d, (unsigned long long)s->ends[d], (unsigned long long)start + 1,
                            (unsigned long long)h->tokens);
        longest = (uint64_t)ls_max((int64_t)longest, (int64_t)(s->ends[d] - start));
        start = s->ends[d];
    }
    if (start != h->tokens) return field_error(s, "tokens", h->tokens, "the end of the last document");
    if (longest != h->longest) return field_error(s, "longest", h->longest, "the longest document's tokens");
    for (uint64_t i = 0; i < h->vocabulary; i++) {
        if (s->counts[i] > h->tokens - counted)
            return ls_error(LS_INVALID, "%s: the counts of ids exceed %llu tokens at id %llu", s->path,
                            (unsigned long long)h->tokens, (unsigned long long)i);
        counted += s->counts[i];
    }
    return counted == h->tokens ? ls_ok() : field_error(s, "tokens", h->tokens, "the sum of the counts of ids");
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

/* ---- verifying ---- */

typedef struct verifying {
    const ls_shard *shard;
    uint64_t *hashes;  /* by block */
    int64_t *wrong;    /* by block: the first token that is not an id of the vocabulary, or -1 */
    uint64_t **counts; /* by thread */
} verifying;

static size_t body_bytes(const ls_shard *s) { return s->map.bytes - sizeof *s->header; }

static int block_count(const ls_shard *s) { return (int)ls_ceil_div((int64_t)body_bytes(s), (int64_t)LS_SHARD_BLOCK); }

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

static ls_status check_checksum(const verifying *v, int blocks) {
    const ls_shard *s = v->shard;
    const uint64_t found = ls_hash_bytes(v->hashes, (size_t)blocks * sizeof *v->hashes);
    if (found == s->header->checksum) return ls_ok();
    return ls_error(LS_INVALID, "%s: checksum is %016llx, expected %016llx; the file was damaged", s->path,
                    (unsigned long long)found, (unsigned long long)s->header->checksum);
}

static ls_status check_results(const verifying *v, int blocks, int threads) {
    const ls_shard *s = v->shard;
    LS_TRY(check_checksum(v, blocks));
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
            return ls_error(LS_INVALID, "%s: id %llu occurs %llu times, expected %llu", s->path, (unsigned long long)id,
                            (unsigned long long)counted, (unsigned long long)s->counts[id]);
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
    const ls_status status = check_checksum(&v, blocks);
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
        status = check_results(&v, blocks, threads);
    } else {
        status = no_memory(shard);
    }
    for (int t = 0; v.counts != NULL && t < threads; t++) free(v.counts[t]);
    free(v.counts);
    free(v.hashes);
    free(v.wrong);
    return status;
}

/* ---- writing: through one block of memory, which is hashed when it is full ---- */

struct ls_shard_writer {
    char *path;
    char *part;
    int file;
    ls_shard_header header;
    uint8_t *block; /* [LS_SHARD_BLOCK] */
    size_t filled;
    uint64_t *hashes; /* of the blocks written so far */
    size_t n_hashes, hash_capacity;
    uint64_t *ends, *counts, *learnt;
    size_t end_capacity, learnt_capacity; /* entries */
};

static ls_status write_error(const ls_shard_writer *w) {
    return ls_error(LS_IO, "cannot write %s: %s", w->part, strerror(errno));
}

static ls_status write_all(const ls_shard_writer *w, const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        const ssize_t n = write(w->file, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return write_error(w);
        at += n;
        bytes -= (size_t)n;
    }
    return ls_ok();
}

/* Makes room for entry n of a list; new entries are 0. */
static ls_status grow(uint64_t **list, size_t *capacity, size_t n) {
    if (n < *capacity) return ls_ok();
    const size_t wanted = ls_max(2 * (int64_t)*capacity, (int64_t)n + 1024);
    uint64_t *grown = realloc(*list, wanted * sizeof *grown);
    if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu entries of a shard's index", wanted);
    memset(grown + *capacity, 0, (wanted - *capacity) * sizeof *grown);
    *list = grown;
    *capacity = wanted;
    return ls_ok();
}

static ls_status flush(ls_shard_writer *w) {
    if (w->filled == 0) return ls_ok();
    LS_TRY(grow(&w->hashes, &w->hash_capacity, w->n_hashes));
    w->hashes[w->n_hashes++] = ls_hash_bytes(w->block, w->filled);
    LS_TRY(write_all(w, w->block, w->filled));
    w->filled = 0;
    return ls_ok();
}

static ls_status append_bytes(ls_shard_writer *w, const void *data, size_t bytes) {
    for (const uint8_t *at = data; bytes > 0;) {
        const size_t n = (size_t)ls_min((int64_t)(LS_SHARD_BLOCK - w->filled), (int64_t)bytes);
        memcpy(w->block + w->filled, at, n);
        w->filled += n;
        at += n;
        bytes -= n;
        if (w->filled == LS_SHARD_BLOCK) LS_TRY(flush(w));
    }
    return ls_ok();
}

static ls_status create_file(ls_shard_writer *w) {
    w->file = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->file < 0) return write_error(w);
    w->block = malloc(LS_SHARD_BLOCK);
    w->counts = calloc(w->header.vocabulary, sizeof *w->counts);
    if (w->block == NULL || w->counts == NULL) return ls_error(LS_NO_MEMORY, "no memory to write a shard");
    return write_all(w, &w->header, sizeof w->header); /* ls_shard_finish writes the final header */
}

ls_status ls_shard_create(const char *path, const ls_shard_kind *kind, ls_shard_writer **out) {
    LS_ASSERT(kind->vocabulary > 0);
    ls_shard_writer *w = calloc(1, sizeof *w);
    if (w == NULL) return ls_error(LS_NO_MEMORY, "no memory to write a shard");
    w->file = -1;
    w->header = (ls_shard_header){.width = (uint32_t)ls_token_width(kind->vocabulary),
                                  .flags = kind->learnt ? LS_SHARD_LEARNT : 0,
                                  .tokenizer = kind->tokenizer,
                                  .vocabulary = (uint64_t)kind->vocabulary,
                                  .end_of_document =
                                      kind->end_of_document < 0 ? LS_SHARD_NO_END : (uint64_t)kind->end_of_document};
    memcpy(w->header.magic, LS_SHARD_MAGIC, sizeof w->header.magic);
    ls_status status = ls_path_print(&w->path, "%s", path);
    if (status.code == LS_OK) status = ls_path_print(&w->part, "%s.part", path);
    if (status.code == LS_OK) status = create_file(w);
    if (status.code == LS_OK)
        *out = w;
    else
        ls_shard_abandon(w);
    return status;
}

/* Converts ids to the file's width, a few at a time, and counts them. */
static ls_status append_ids(ls_shard_writer *w, const int32_t *ids, int64_t n) {
    enum { MOST = 4096 };
    union {
        uint8_t one[MOST];
        uint16_t two[MOST];
    } narrow;
    for (int64_t done = 0, some; done < n; done += some, ids += some) {
        some = ls_min(MOST, n - done);
        for (int64_t i = 0; i < some; i++) {
            LS_ASSERT(ids[i] >= 0 && (uint64_t)ids[i] < w->header.vocabulary);
            w->counts[ids[i]]++;
        }
        if (w->header.width == 1)
            for (int64_t i = 0; i < some; i++) narrow.one[i] = (uint8_t)ids[i];
        if (w->header.width == 2)
            for (int64_t i = 0; i < some; i++) narrow.two[i] = (uint16_t)ids[i];
        const void *from = w->header.width == 4 ? (const void *)ids : (const void *)&narrow;
        LS_TRY(append_bytes(w, from, (size_t)some * w->header.width));
    }
    return ls_ok();
}

ls_status ls_shard_append(ls_shard_writer *w, const int32_t *ids, const uint8_t *learnt, int64_t n) {
    if (w->header.flags & LS_SHARD_LEARNT) {
        for (int64_t i = 0; i < n; i++) {
            const uint64_t at = w->header.tokens + (uint64_t)i;
            LS_TRY(grow(&w->learnt, &w->learnt_capacity, at / 64));
            if (learnt == NULL || learnt[i]) w->learnt[at / 64] |= (uint64_t)1 << at % 64;
        }
    }
    LS_TRY(append_ids(w, ids, n));
    w->header.tokens += (uint64_t)n;
    return ls_ok();
}

ls_status ls_shard_end_document(ls_shard_writer *w, bool learnt) {
    const int32_t end = (int32_t)w->header.end_of_document;
    const uint8_t bit = learnt;
    LS_TRY(ls_shard_append(w, &end, &bit, w->header.end_of_document != LS_SHARD_NO_END));
    LS_TRY(grow(&w->ends, &w->end_capacity, w->header.documents));
    const uint64_t start = w->header.documents > 0 ? w->ends[w->header.documents - 1] : 0;
    w->ends[w->header.documents++] = w->header.tokens;
    w->header.longest = (uint64_t)ls_max((int64_t)w->header.longest, (int64_t)(w->header.tokens - start));
    return ls_ok();
}

const ls_shard_header *ls_shard_so_far(const ls_shard_writer *w) { return &w->header; }

/* ---- finishing ---- */

static ls_status write_rest(ls_shard_writer *w) {
    static const uint8_t zeros[8];
    ls_shard_header *h = &w->header;
    const uint64_t last = h->documents > 0 ? w->ends[h->documents - 1] : 0;
    LS_ASSERT(last == h->tokens);
    LS_TRY(append_bytes(w, zeros, (8 - h->tokens * h->width % 8) % 8));
    LS_TRY(append_bytes(w, w->ends, h->documents * sizeof *w->ends));
    LS_TRY(append_bytes(w, w->counts, h->vocabulary * sizeof *w->counts));
    if (h->flags & LS_SHARD_LEARNT) LS_TRY(append_bytes(w, w->learnt, (h->tokens + 63) / 64 * sizeof *w->learnt));
    LS_TRY(flush(w));
    h->checksum = ls_hash_bytes(w->hashes, w->n_hashes * sizeof *w->hashes);
    h->header_checksum = ls_hash_bytes(h, offsetof(ls_shard_header, header_checksum));
    if (lseek(w->file, 0, SEEK_SET) != 0) return write_error(w);
    LS_TRY(write_all(w, h, sizeof *h));
    return fsync(w->file) == 0 ? ls_ok() : write_error(w);
}

static void release(ls_shard_writer *w) {
    if (w->file >= 0) (void)close(w->file);
    free(w->block);
    free(w->hashes);
    free(w->ends);
    free(w->counts);
    free(w->learnt);
    free(w->path);
    free(w->part);
    free(w);
}

void ls_shard_abandon(ls_shard_writer *w) {
    if (w == NULL) return;
    if (w->file >= 0) (void)unlink(w->part);
    release(w);
}

ls_status ls_shard_finish(ls_shard_writer *w, ls_shard_header *out) {
    ls_status status = write_rest(w);
    if (status.code == LS_OK && close(w->file) != 0) status = write_error(w);
    if (status.code == LS_OK) {
        w->file = -1;
        status = ls_file_rename(w->part, w->path);
    }
    if (status.code != LS_OK) {
        ls_shard_abandon(w);
        return status;
    }
    *out = w->header;
    release(w);
    return status;
}
