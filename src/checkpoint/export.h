/*
 * export: a checkpoint as a folder that other programs load as it is.
 *
 * OUT/
 *     model.safetensors          or model-00001-of-0000N.safetensors with model.safetensors.index.json
 *     config.json, or graph.json of the training, unchanged but for the type of the weights
 *     generation_config.json     carried over, or made with the special ids of the config
 *     tokenizer.json, ...        carried over, byte for byte
 * The files are written into OUT.partial-PID and synced. Then that folder is renamed, or exchanged with an older OUT,
 * so that OUT is complete at every moment. A parameter of a graph.json with several names is written under all of them,
 * or, where the carried folder has weights, under those that these have.
 *
 * The checkpoint of a model with an adapter becomes the folder of that, as peft reads it:
 *
 * OUT/
 *     adapter_model.safetensors
 *     adapter_config.json
 *
 * or, merged, the folder of a whole model.
 */
#ifndef LS_CHECKPOINT_EXPORT_H
#define LS_CHECKPOINT_EXPORT_H

#include "format/format.h"
#include "model/model.h"

#define LS_EXPORT_SHARD_BYTES INT64_C(5000000000)

typedef struct ls_export_options {
    const char *checkpoint; /* its folder; NULL with a model that is merged: the adapter's own weights are taken */
    const ls_model *merge;  /* the model of the checkpoint, whose adapter is merged into its matrices; NULL: none is */
    const char *out;        /* created; replaced if it holds an exported model and nothing else */
    const char *carry;      /* the folder that the tokenizer's files are carried over from; NULL or "": none are */
    bool last;              /* of a checkpoint of an average: the weights of the last step in its place */
    ls_st_dtype dtype;      /* F32, F16 or BF16; LS_ST_DTYPES: the type that the model's file says, else F32 */
    int64_t shard_bytes;    /* most bytes of tensors in one file, unless a single tensor is larger; 0: 5 GB */
} ls_export_options;

typedef struct ls_export_result {
    ls_st_dtype dtype;
    int64_t tensors, parameters, bytes; /* bytes: of the tensors */
    int files;                          /* of tensors */
    bool averaged;                      /* they are an average of the weights */
    /* Of matrices that were merged: root mean squares of what adapters change, and of the rounding to dtype. */
    double change, rounding;
    char carried[256]; /* names of files, separated by ", "; empty: none */
} ls_export_result;

/*
 * Uses a few MiB of memory, whatever the size of the model. Compares every byte that it reads with its hash. A number
 * that F16 cannot hold is LS_INVALID and names the tensor. LS_USAGE: `last`, and the checkpoint has no average. On
 * failure `out` is unchanged.
 */
LS_MUST_USE ls_status ls_checkpoint_export(const ls_export_options *options, ls_export_result *result);

/*
 * Checks the arguments of an export before any work. LS_USAGE when `out` holds anything but an exported model, or is
 * the same folder as `carry`. LS_INVALID when a file that would be carried over is a link out of `carry` (links to the
 * blobs of a hub's cache are allowed).
 */
LS_MUST_USE ls_status ls_export_check(const char *out, const char *carry);

/* "f32", "f16", "bf16" or NULL (LS_ST_DTYPES). Any other name is LS_USAGE. */
LS_MUST_USE ls_status ls_export_dtype(const char *name, ls_st_dtype *out);

/* Removes the temporary folders of exports to this folder whose processes are gone. */
LS_MUST_USE ls_status ls_export_remove_leftovers(const char *out);

#endif
