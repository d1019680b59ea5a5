/* checkpoint: what the files of export share. */
#ifndef LS_CHECKPOINT_EXPORT_IMPL_H
#define LS_CHECKPOINT_EXPORT_IMPL_H

#include "checkpoint/checkpoint_impl.h"

typedef struct ls_exported_model ls_exported_model; /* what an export knows of the file that a model is written in */

/* The state of one export. */
typedef struct ls_exporting {
    const ls_export_options *options;
    char *final;   /* the output folder, without symbolic links and slashes at its end */
    char *partial; /* the temporary folder that files are written to */
    ls_arena *arena;
    ls_checkpoint_record record;
    const ls_exported_model *model;
    char *config;           /* text of the model's file */
    ls_weight_copy *copies; /* [n_copies] other names that parameters have */
    int n_copies;
    ls_export_result result;
} ls_exporting;

/*
 * Writes the tensors in result.dtype, and the index if there are several files. Sets all of result but dtype and
 * carried.
 */
LS_MUST_USE ls_status ls_export_weights(ls_exporting *e);

#endif
