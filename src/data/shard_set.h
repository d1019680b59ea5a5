/* The shards of one folder or more, as `data build` made them. */
#ifndef LS_DATA_SHARD_SET_H
#define LS_DATA_SHARD_SET_H

#include "data/shard.h"

typedef struct ls_shard_set {
    ls_shard *shard;
    int64_t n, capacity;
} ls_shard_set;

/* A folder with shards.json (or one that is being built), or a file with the suffix of shards. */
bool ls_is_shards(const char *path);
/*
 * Adds the shards of a folder, in the order of its shards.json, or one file. LS_INVALID: a build that is not finished; a shard that is not what
 * shards.json says; what ls_shard_open refuses. The set grows; on error it is as far as it came.
 */
LS_MUST_USE ls_status ls_shard_set_add(ls_shard_set *set, const char *path);
/* LS_INVALID names the first shard that another tokenizer made. */
LS_MUST_USE ls_status ls_shard_set_check(const ls_shard_set *set, uint64_t tokenizer, const char *name,
                                         int64_t vocabulary);
/* That the bytes of all are those that were written, by all cores (ls_shard_check); tells what it cost. LS_INVALID names the first that is not. */
LS_MUST_USE ls_status ls_shard_set_verify(const ls_shard_set *set);
void ls_shard_set_close(ls_shard_set *set);

#endif
