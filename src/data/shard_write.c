/* Shards as they are written: through one block of memory, hashed as it leaves. */
#include "data/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ls_shard_writer {
    char *path;
    char *part;
    int file;
    ls_shard_header header;
    uint8_t *block; /* [LS_SHARD_BLOCK] */
    size_t filled;
    uint64_t *hashes; /* of the blocks that left */
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

/* Room for one more entry behind n; entries are 8 bytes, new ones zero. */
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

static ls_status put(ls_shard_writer *w, const void *data, size_t bytes) {
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

/* --- documents -------------------------------------------------------------------------------------------------------------- */

int ls_token_width(int64_t vocabulary) { return vocabulary <= 1 << 8 ? 1 : vocabulary <= 1 << 16 ? 2 : 4; }

static ls_status begin(ls_shard_writer *w) {
    w->file = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->file < 0) return write_error(w);
    w->block = malloc(LS_SHARD_BLOCK);
    w->counts = calloc(w->header.vocabulary, sizeof *w->counts);
    if (w->block == NULL || w->counts == NULL) return ls_error(LS_NO_MEMORY, "no memory to write a shard");
    return write_all(w, &w->header, sizeof w->header); /* again when all is known */
}

ls_status ls_shard_create(const char *path, const ls_shard_kind *kind, ls_shard_writer **out) {
    LS_ASSERT(kind->vocabulary > 0);
    ls_shard_writer *w = calloc(1, sizeof *w);
    if (w == NULL) return ls_error(LS_NO_MEMORY, "no memory to write a shard");
    w->file = -1;
    w->header = (ls_shard_header){
        .width = (uint32_t)ls_token_width(kind->vocabulary),
        .flags = kind->learnt ? LS_SHARD_LEARNT : 0,
        .tokenizer = kind->tokenizer,
        .vocabulary = (uint64_t)kind->vocabulary,
        .end_of_document = kind->end_of_document < 0 ? LS_SHARD_NO_END : (uint64_t)kind->end_of_document};
    memcpy(w->header.magic, LS_SHARD_MAGIC, sizeof w->header.magic);
    ls_status status = ls_path_print(&w->path, "%s", path);
    if (status.code == LS_OK) status = ls_path_print(&w->part, "%s.part", path);
    if (status.code == LS_OK) status = begin(w);
    if (status.code == LS_OK)
        *out = w;
    else
        ls_shard_abandon(w);
    return status;
}

/* Few ids at a time, in the file's width. */
static ls_status put_ids(ls_shard_writer *w, const int32_t *ids, int64_t n) {
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
        LS_TRY(put(w, from, (size_t)some * w->header.width));
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
    LS_TRY(put_ids(w, ids, n));
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

/* --- the end ---------------------------------------------------------------------------------------------------------------- */

static ls_status write_rest(ls_shard_writer *w) {
    static const uint8_t zeros[8];
    ls_shard_header *h = &w->header;
    const uint64_t last = h->documents > 0 ? w->ends[h->documents - 1] : 0;
    LS_ASSERT(last == h->tokens);
    LS_TRY(put(w, zeros, (8 - h->tokens * h->width % 8) % 8));
    LS_TRY(put(w, w->ends, h->documents * sizeof *w->ends));
    LS_TRY(put(w, w->counts, h->vocabulary * sizeof *w->counts));
    if (h->flags & LS_SHARD_LEARNT) LS_TRY(put(w, w->learnt, (h->tokens + 63) / 64 * sizeof *w->learnt));
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
