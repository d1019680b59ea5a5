/*
 * Token shards: files of token ids to map into memory.
 *
 *   header     ls_shard_header, 128 bytes, little-endian as every number here
 *   tokens     ids of all documents, one after the other, each with what was put around it; 1, 2 or 4 bytes each by the size of the
 *              vocabulary; zeros up to a multiple of 8 bytes
 *   ends       u64 for each document: one past its last token; ascending
 *   counts     u64 for each id of the vocabulary: how often it occurs
 *   learnt     with LS_SHARD_LEARNT alone: a bit for each token, the lowest of a u64 first: whether it is to be learnt as a label
 *
 * The checksum is over all behind the header: the XXH64 of the XXH64s of its blocks of LS_SHARD_BLOCK bytes, the last one shorter,
 * so that it is made while the file is written and checked by several threads.
 */
#ifndef LS_DATA_SHARD_H
#define LS_DATA_SHARD_H

#include "base/base.h"
#include "format/format.h"

#define LS_SHARD_MAGIC "LSTOKEN1"
#define LS_SHARD_SUFFIX ".tokens"
#define LS_SHARD_BLOCK ((size_t)1 << 20)
#define LS_SHARD_NO_END UINT64_MAX
enum { LS_SHARD_LEARNT = 1 };

typedef struct ls_shard_header {
    char magic[8];
    uint32_t width; /* bytes of a token */
    uint32_t flags;
    uint64_t tokenizer; /* its fingerprint */
    uint64_t vocabulary;
    uint64_t end_of_document; /* LS_SHARD_NO_END: documents end with their last token */
    uint64_t tokens, documents;
    uint64_t longest; /* tokens of the longest document */
    uint64_t checksum;
    uint64_t unused[6];
    uint64_t header_checksum; /* XXH64 of the 120 bytes before it */
} ls_shard_header;

/* --- reading ---------------------------------------------------------------------------------------------------------------- */

typedef struct ls_shard {
    char *path;
    ls_file_map map;
    const ls_shard_header *header;
    const void *tokens;
    const uint64_t *ends, *counts;
    const uint64_t *learnt; /* NULL: every token is */
} ls_shard;

/*
 * Maps a shard and checks all but the tokens: LS_INVALID names the file, the field, its value and what was expected. What is held in
 * memory is what is read. Ids are checked by those who read them, or all at once by ls_shard_verify.
 */
LS_MUST_USE ls_status ls_shard_open(const char *path, ls_shard *out);
void ls_shard_close(ls_shard *shard); /* a zeroed one is allowed */
/* The checksum alone, at the speed of memory or of the disk. pool may be NULL. */
LS_MUST_USE ls_status ls_shard_check(const ls_shard *shard, ls_pool *pool);
/* Checksum, ids, counts. pool may be NULL. */
LS_MUST_USE ls_status ls_shard_verify(const ls_shard *shard, ls_pool *pool);

/* --- writing ---------------------------------------------------------------------------------------------------------------- */

typedef struct ls_shard_kind {
    uint64_t tokenizer;
    int32_t vocabulary, end_of_document; /* end -1: none */
    bool learnt;                         /* with a bit for each token */
} ls_shard_kind;

typedef struct ls_shard_writer ls_shard_writer;

/* Begins path.part; what an earlier process left there goes. */
LS_MUST_USE ls_status ls_shard_create(const char *path, const ls_shard_kind *kind, ls_shard_writer **out);
/* Tokens of the document under way. learnt: a byte for each, NULL: all are. Ids must lie in the vocabulary. */
LS_MUST_USE ls_status ls_shard_append(ls_shard_writer *writer, const int32_t *ids, const uint8_t *learnt,
                                      int64_t n);
/* Its end: the token for it if there is one, to be learnt or not, and its place in the index. */
LS_MUST_USE ls_status ls_shard_end_document(ls_shard_writer *writer, bool learnt);
const ls_shard_header *ls_shard_so_far(const ls_shard_writer *writer);
/* Writes the rest, makes it durable and gives the file its name; the writer is gone whatever the status. */
LS_MUST_USE ls_status ls_shard_finish(ls_shard_writer *writer, ls_shard_header *out);
/* Removes what was written; NULL is allowed. */
void ls_shard_abandon(ls_shard_writer *writer);

int ls_token_width(int64_t vocabulary); /* 1, 2 or 4 bytes */
/* Tokens first .. first + n - 1 of an array of that width. */
void ls_tokens_widen(const void *tokens, int width, int64_t first, int64_t n, int32_t *out);

#endif
