/* checkpoint: shared by the files of export. */
#ifndef LS_CHECKPOINT_EXPORT_IMPL_H
#define LS_CHECKPOINT_EXPORT_IMPL_H

#include "adapter/adapter.h"
#include "checkpoint/checkpoint_impl.h"

/* What an export knows about the file in which a model is written. */
typedef struct ls_exported_model {
    int file;                 /* index among the files of the checkpoint */
    int names;                /* which names of types it uses */
    const char *type_keys[2]; /* members with the type; the first takes precedence, and is added if the file has none */
    bool also;                /* its parameters may have several names, in the member "also" */
    bool alone;               /* no other files accompany it */
    const char *prefix;       /* prefix of the names of tensors; NULL: none */
    const char *weights;      /* the name of the file of tensors, if there is only one */
} ls_exported_model;

/* The state of one export. */
typedef struct ls_exporting {
    const ls_export_options *options;
    char *final;   /* the output folder, without symbolic links, and without slashes at its end */
    char *partial; /* the temporary folder into which files are written */
    ls_arena *arena;
    ls_checkpoint_record record;
    const ls_exported_model *model;
    char *config;           /* text of the model's file */
    ls_weight_copy *copies; /* [n_copies]: other names of parameters */
    int n_copies;
    /* If adapters are merged: the source of all parameters. context NULL: nothing is merged */
    ls_weight_source merged;
    ls_image image; /* only its flats are set */
    ls_export_result result;
} ls_exporting;

/*
 * Opens the weights of options->model with its adapter merged into them (export_merged.c): those of the checkpoint or,
 * if there is no checkpoint, of the adapter's own folder.
 */
LS_MUST_USE ls_status ls_export_open_merged(ls_exporting *e);

/*
 * Writes the tensors in result.dtype, and the index if there are several files. Sets all members of result but dtype
 * and carried.
 */
LS_MUST_USE ls_status ls_export_weights(ls_exporting *e);

#endif
