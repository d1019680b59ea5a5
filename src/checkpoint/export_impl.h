/* checkpoint: what the files of export share. */
#ifndef LS_CHECKPOINT_EXPORT_IMPL_H
#define LS_CHECKPOINT_EXPORT_IMPL_H

#include "adapter/adapter.h"
#include "checkpoint/checkpoint_impl.h"

/* What an export knows of the file that a model is written in. */
typedef struct ls_exported_model {
    int file;                 /* of the checkpoint */
    int names;                /* by which it calls types */
    const char *type_keys[2]; /* fields of the type; the first has precedence, and is added where there is none */
    bool also;                /* its parameters may have several names, in the field "also" */
    bool alone;               /* no other files are beside it */
    const char *prefix;       /* of the names of tensors; NULL: none */
    const char *weights;      /* the name of their file, where there is one alone */
} ls_exported_model;

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
    /* Where matrices are merged with their adapters: all parameters, and where they come from. context NULL: nowhere */
    ls_weight_source merged;
    ls_image image; /* its flats alone are set */
    ls_export_result result;
} ls_exporting;

/*
 * Opens the weights of options->model with its adapter merged into them (export_merged.c): of the checkpoint, or, where
 * it is NULL, of the adapter's own folder.
 */
LS_MUST_USE ls_status ls_export_open_merged(ls_exporting *e);

/*
 * Writes the tensors in result.dtype, and the index if there are several files. Sets all of result but dtype and
 * carried.
 */
LS_MUST_USE ls_status ls_export_weights(ls_exporting *e);

#endif
