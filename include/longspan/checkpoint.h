/*
 * Checkpoints of training: what is in a checkpoint, whether it is intact, and exporting it as a folder that other programs load.
 */
#ifndef LONGSPAN_CHECKPOINT_H
#define LONGSPAN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/linkage.h"
#include "longspan/status.h"

LS_PUBLIC_BEGIN

/*
 * Prints the step, the model, how the run was spread over ranks, the files and the tensors. path: a checkpoint, or the --out of a
 * training run, which means its newest checkpoint.
 */
LS_MUST_USE ls_status ls_checkpoint_print(const char *path, bool json, FILE *out);

/* Compares every byte with its hash and prints the result for each file. If a file is damaged, prints that and returns LS_INVALID. */
LS_MUST_USE ls_status ls_checkpoint_print_verdict(const char *path, bool json, FILE *out);

/* Fields are the flags of `longspan checkpoint export`; zero and NULL mean the default that the command's help shows. */
typedef struct ls_export_job {
    const char *checkpoint; /* a checkpoint, or the --out of a training run */
    const char *out;        /* a new folder, or an exported one, which is replaced */
    const char *model;   /* a model folder, or a file in it, whose tokenizer is used; NULL: the run's own */
    const char *dtype;   /* "f32", "f16", "bf16"; NULL: the type that config.json says, else f32 */
    int64_t shard_bytes; /* most bytes of tensors in one file; 0: 5 GB */
} ls_export_job;

/* Writes the folder and prints a summary. */
LS_MUST_USE ls_status ls_run_export(const ls_export_job *job, bool json, FILE *out);

LS_PUBLIC_END

#endif
