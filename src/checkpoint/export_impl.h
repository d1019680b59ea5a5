/* checkpoint: what the files of export share. */
#ifndef LS_CHECKPOINT_EXPORT_IMPL_H
#define LS_CHECKPOINT_EXPORT_IMPL_H

#include "checkpoint/checkpoint_impl.h"
#include "checkpoint/export.h"

/* An export under way. */
typedef struct ls_exporting {
    const ls_export_options *options;
    char *final;   /* without symbolic links and slashes at its end */
    char *partial; /* where files are written */
    ls_arena *arena;
    ls_checkpoint_record record;
    char *config; /* text of the checkpoint's config.json, checked */
    ls_export_result result;
} ls_exporting;

/* ---- the tensors (export_weights.c) ---- */

LS_MUST_USE ls_status ls_export_weights(ls_exporting *e);

/* ---- what lies beside them (export_files.c) ---- */

/* Reads the config and settles result.dtype. */
LS_MUST_USE ls_status ls_export_config_read(ls_exporting *e);
LS_MUST_USE ls_status ls_export_config_write(ls_exporting *e);
/* The tokenizer's files, and the generation config, which is made where there is none. */
LS_MUST_USE ls_status ls_export_carry(ls_exporting *e);
/* LS_INVALID where one of these files is a link out of the folder. NULL or "": there is no folder. */
LS_MUST_USE ls_status ls_export_check_carried(const char *folder);
/* Whether an exported model may hold a file of this name. */
bool ls_export_knows(const char *name);

#endif
