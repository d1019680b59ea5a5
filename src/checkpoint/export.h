/*
 * export: a checkpoint as a folder that other programs can load directly.
 *
 * OUT/
 *     model.safetensors          or model-00001-of-0000N.safetensors with model.safetensors.index.json
 *     config.json, or graph.json of the training, unchanged except for the type of the weights
 *     generation_config.json     copied, or made with the special ids of the config
 *     tokenizer.json, ...        copied, byte for byte
 *
 * The files are written into OUT.partial-PID and synced. Then that folder is renamed, or exchanged with an older OUT,
 * so that OUT is complete at every moment. A parameter of a graph.json with several names is written under all of them
 * or, if the folder that files are copied from has weights, under the names that these have.
 *
 * The checkpoint of a model with an adapter becomes the folder of the adapter, in the form that peft reads:
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
    const char *checkpoint; /* its folder; NULL with a model that is merged: the adapter's own weights are used */
    /* the model of the checkpoint, whose adapter is merged into its matrices; NULL: nothing is merged */
    const ls_model *merge;
    const char *out;     /* output folder: created, or replaced if it contains an exported model and nothing else */
    const char *carry;   /* the folder from which the tokenizer's files are copied; NULL or "": none */
    bool last;           /* for a checkpoint of an average: exports the weights of the last step instead */
    ls_st_dtype dtype;   /* F32, F16 or BF16; LS_ST_DTYPES: the type that the model's file names, else F32 */
    int64_t shard_bytes; /* most bytes of tensors in one file, unless a single tensor is larger; 0: 5 GB */
} ls_export_options;

typedef struct ls_export_result {
    ls_st_dtype dtype;
    int64_t tensors, parameters, bytes; /* bytes: those of the tensors */
    int files;                          /* files with tensors */
    bool averaged;                      /* the weights are an average */
    /* For merged matrices: root mean squares of the changes by adapters, and of the rounding to dtype. */
    double change, rounding;
    char carried[256]; /* names of the copied files, separated by ", "; empty: none */
} ls_export_result;

/*
 * Uses a few MiB of memory, whatever the size of the model. Compares every byte that it reads with its hash. A number
 * that F16 cannot represent is LS_INVALID, which names the tensor. LS_USAGE: `last` is set, but the checkpoint has no
 * average. On failure `out` does not change.
 */
LS_MUST_USE ls_status ls_checkpoint_export(const ls_export_options *options, ls_export_result *result);

/*
 * Checks the arguments of an export before any work. LS_USAGE if `out` contains anything but an exported model, or is
 * the same folder as `carry`. LS_INVALID if a file that would be copied is a link to outside `carry` (links to the
 * blobs of a hub's cache are allowed).
 */
LS_MUST_USE ls_status ls_export_check(const char *out, const char *carry);

/* "f32", "f16", "bf16" or NULL (LS_ST_DTYPES). Any other name is LS_USAGE. */
LS_MUST_USE ls_status ls_export_dtype(const char *name, ls_st_dtype *out);

/* Removes the temporary folders of exports to this folder whose processes no longer run. */
LS_MUST_USE ls_status ls_export_remove_leftovers(const char *out);

#endif
