/*
 * Token shards: files of token ids to map into memory, and folders of them, which `longspan data build` makes.
 *
 *   DIR/shard-000000.tokens ...   documents in the order of the inputs; a shard ends with the document that fills it
 *   DIR/shards.json               written last: the tokenizer, the totals, the shards with their checksums
 *   DIR/build.jsonl               only while the folder is being built (journal.c)
 *
 * Format of a shard; all numbers are little-endian:
 *
 *   header     ls_shard_header, 128 bytes
 *   tokens     ids of all documents, one after the other, with the frame tokens around each; 1, 2 or 4 bytes each,
 *              depending on the size of the vocabulary; padded with zeros to a multiple of 8 bytes
 *   ends       u64 for each document: one past its last token; ascending
 *   counts     u64 for each id of the vocabulary: how often it occurs
 *   learnt     only with LS_SHARD_LEARNT: a bit for each token, from the lowest bit of a u64 up: whether the token
 *              counts as a label in the loss
 *
 * The checksum covers everything after the header: it is the XXH64 of the XXH64s of its blocks of LS_SHARD_BLOCK bytes,
 * the last one shorter. So it can be computed while the file is written, and checked by several threads.
 */
#ifndef LS_DATA_SHARD_H
#define LS_DATA_SHARD_H

#include "base/base.h"
#include "format/format.h"
#include "longspan/data.h"

#define LS_SHARDS_FILE "shards.json"
#define LS_SHARDS_JOURNAL "build.jsonl"
#define LS_SHARDS_FORMAT "longspan token shards 1"

#define LS_SHARD_MAGIC "LSTOKEN1"
#define LS_SHARD_SUFFIX ".tokens"
#define LS_SHARD_BLOCK ((size_t)1 << 20)
#define LS_SHARD_NO_END UINT64_MAX
enum { LS_SHARD_LEARNT = 1 }; /* flags */

typedef struct ls_shard_header {
    char magic[8];
    uint32_t width; /* bytes of a token */
    uint32_t flags;
    uint64_t tokenizer; /* fingerprint of the tokenizer */
    uint64_t vocabulary;
    uint64_t end_of_document; /* the id at the end of each document; LS_SHARD_NO_END: none */
    uint64_t tokens, documents;
    uint64_t longest; /* tokens of the longest document */
    uint64_t checksum;
    uint64_t unused[6];
    uint64_t header_checksum; /* XXH64 of the first 120 bytes of the header */
} ls_shard_header;

int ls_token_width(int64_t vocabulary); /* 1, 2 or 4 bytes */
/* Copies tokens first .. first + n - 1 of an array of this width. */
void ls_tokens_widen(const void *tokens, int width, int64_t first, int64_t n, int32_t *out);

/* ---- reading ---- */

typedef struct ls_shard {
    char *path;
    ls_file_map map;
    const ls_shard_header *header;
    const void *tokens;
    const uint64_t *ends, *counts;
    const uint64_t *learnt; /* NULL: all tokens are learnt */
} ls_shard;

/*
 * Maps a shard and checks everything but the tokens. LS_INVALID names the file, the field, its value and what was
 * expected. Tokens are read from disk when they are used; their ids are checked by ls_shard_verify or by the caller.
 */
LS_MUST_USE ls_status ls_shard_open(const char *path, ls_shard *out);
void ls_shard_close(ls_shard *shard); /* a zeroed one is allowed */
/* Checks the checksum only, which is as fast as memory or the disk. pool may be NULL. */
LS_MUST_USE ls_status ls_shard_check(const ls_shard *shard, ls_pool *pool);
/* Checks the checksum, all ids and the counts. pool may be NULL. */
LS_MUST_USE ls_status ls_shard_verify(const ls_shard *shard, ls_pool *pool);

/* ---- several shards ---- */

typedef struct ls_shard_set {
    ls_shard *shard;
    int64_t n, capacity;
    int64_t empty, bad; /* records that were left out when the folders were built */
    ls_left_out left_out;
} ls_shard_set;

/* Whether a path is a folder of shards, finished or not, or a file with the suffix of shards. */
bool ls_is_shards(const char *path);
/*
 * Adds the shards of a folder in the order of its shards.json, or a single file. LS_INVALID: the build is not finished,
 * a shard differs from shards.json, or ls_shard_open refuses it. After an error, the set keeps the shards that were
 * added before.
 */
LS_MUST_USE ls_status ls_shard_set_add(ls_shard_set *set, const char *path);
/* LS_INVALID names the first shard made by a tokenizer with another fingerprint or vocabulary. name: for errors. */
LS_MUST_USE ls_status ls_shard_set_check(const ls_shard_set *set, uint64_t tokenizer, const char *name,
                                         int64_t vocabulary);
/*
 * Compares the checksums of shards `first`, first + every, ... (ls_shard_check) on all cores, and logs the time.
 * LS_INVALID names the first damaged one.
 */
LS_MUST_USE ls_status ls_shard_set_verify(const ls_shard_set *set, int64_t first, int64_t every);
void ls_shard_set_close(ls_shard_set *set);

/* ---- writing ---- */

typedef struct ls_shard_kind {
    uint64_t tokenizer;
    int32_t vocabulary, end_of_document; /* end -1: none */
    bool learnt;                         /* the shard has a bit for each token */
} ls_shard_kind;

typedef struct ls_shard_writer ls_shard_writer;

/* Creates path.part, and replaces such a file of an earlier process. */
LS_MUST_USE ls_status ls_shard_create(const char *path, const ls_shard_kind *kind, ls_shard_writer **out);
/*
 * Appends tokens to the current document. learnt: a byte for each; NULL: all are learnt. Ids must lie in the
 * vocabulary.
 */
LS_MUST_USE ls_status ls_shard_append(ls_shard_writer *writer, const int32_t *ids, const uint8_t *learnt, int64_t n);
/*
 * Ends the current document: appends the end of document if the kind has one, learnt or not, and an entry to the index.
 */
LS_MUST_USE ls_status ls_shard_end_document(ls_shard_writer *writer, bool learnt);
const ls_shard_header *ls_shard_so_far(const ls_shard_writer *writer);
/* Writes the index, syncs the file and renames it. Frees the writer also on failure. */
LS_MUST_USE ls_status ls_shard_finish(ls_shard_writer *writer, ls_shard_header *out);
/* Removes what was written and frees the writer. NULL is allowed. */
void ls_shard_abandon(ls_shard_writer *writer);

#endif
