/*
 * Checkpoints of training: what is in one, whether it is whole, and the folder that other programs load.
 */
#ifndef LONGSPAN_CHECKPOINT_H
#define LONGSPAN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/linkage.h"
#include "longspan/status.h"

LS_PUBLIC_BEGIN

/* Prints step, model, spread, files and tensors. path: a checkpoint, or the --out of a training run (its newest). */
LS_MUST_USE ls_status ls_checkpoint_print(const char *path, bool json, FILE *out);

/* Checks every byte against its hash and prints the verdict on each file. LS_INVALID, after printing, when one is bad. */
LS_MUST_USE ls_status ls_checkpoint_print_verdict(const char *path, bool json, FILE *out);

/* Fields are the flags of `longspan checkpoint export`; zero and NULL mean the default that the command's help shows. */
typedef struct ls_export_job {
    const char *checkpoint; /* or the --out of a training run */
    const char *out;        /* a new folder, or one that was exported */
    const char *
        model; /* where the tokenizer comes from: a folder, or a file in it; NULL: as the run's run.json says */
    const char *dtype;   /* "f32", "f16", "bf16"; NULL: as config.json says, else f32 */
    int64_t shard_bytes; /* of tensors in one file; 0: 5 GB */
} ls_export_job;

/* Writes the folder and prints what was written. */
LS_MUST_USE ls_status ls_run_export(const ls_export_job *job, bool json, FILE *out);

LS_PUBLIC_END

#endif
