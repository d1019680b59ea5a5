/*
 * export: a checkpoint as a folder that other programs load as it is.
 *
 * OUT/
 *     model.safetensors          or model-00001-of-0000N.safetensors with model.safetensors.index.json
 *     config.json                the training's, every field kept, but for the type of the weights
 *     generation_config.json     carried over, or the ids of the config
 *     tokenizer.json, ...        carried over, byte for byte
 * Written into OUT.partial-PID, synced, then renamed: OUT is whole at every moment, the old one or the new one.
 */
#ifndef LS_CHECKPOINT_EXPORT_H
#define LS_CHECKPOINT_EXPORT_H

#include "checkpoint/checkpoint.h"
#include "format/safetensors.h"

#define LS_EXPORT_SHARD_BYTES INT64_C(5000000000)

typedef struct ls_export_options {
    const char *checkpoint; /* the folder of one */
    const char *out;        /* made, or replaced where it holds an exported model and nothing else */
    const char *carry;      /* a folder, for the tokenizer's files; NULL or "": none are carried over */
    ls_st_dtype dtype;      /* F32, F16 or BF16; LS_ST_DTYPES: what the config says, else F32 */
    int64_t shard_bytes;    /* of tensors in a file, at most, but for one that is larger by itself; 0: 5 GB */
} ls_export_options;

typedef struct ls_export_result {
    ls_st_dtype dtype;
    int64_t tensors, parameters, bytes; /* bytes: of the tensors */
    int files;                          /* of tensors */
    char carried[256];                  /* names, separated by ", "; empty: none */
} ls_export_result;

/*
 * Streams: holds a few MiB whatever the model's size. Every byte that is read is checked against its hash. A number that F16 cannot
 * hold is LS_INVALID with its tensor. On failure `out` is as it was.
 */
LS_MUST_USE ls_status ls_checkpoint_export(const ls_export_options *options, ls_export_result *result);

/*
 * What is wrong, before any work: LS_USAGE when `out` holds something else than an exported model, or is `carry`; LS_INVALID when a file
 * that would be carried over is a link out of `carry` (to the blobs of a hub's cache it may be).
 */
LS_MUST_USE ls_status ls_export_check(const char *out, const char *carry);

/* "f32", "f16", "bf16" or NULL (LS_ST_DTYPES). LS_USAGE for another. */
LS_MUST_USE ls_status ls_export_dtype(const char *name, ls_st_dtype *out);

/* Removes what exports to this folder left that were ended from outside; one that runs is left alone. */
LS_MUST_USE ls_status ls_export_remove_leftovers(const char *out);

#endif
