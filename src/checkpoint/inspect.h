/*
 * inspect: what a checkpoint is, and whether its bytes are those that were written. Without ranks.
 */
#ifndef LS_CHECKPOINT_INSPECT_H
#define LS_CHECKPOINT_INSPECT_H

#include "checkpoint/checkpoint.h"

#define LS_CHECKPOINT_MOST_FILES 4

/* One file of a checkpoint, as its record says, and what was found. */
typedef struct ls_checkpoint_file {
    const char *name; /* a literal */
    int64_t bytes, pieces;
    int64_t bad;      /* pieces that are not as recorded */
    ls_status status; /* of the first of them, or why the file cannot be read */
} ls_checkpoint_file;

typedef struct ls_checkpoint_info {
    ls_train_state state;
    char type[8]; /* of masters and moments: "F32", "F64" */
    int n_files;
    ls_checkpoint_file file[LS_CHECKPOINT_MOST_FILES]; /* state.json first */
} ls_checkpoint_info;

/* What the record says; nothing else is read. */
LS_MUST_USE ls_status ls_checkpoint_describe(const char *path, ls_checkpoint_info *out);

/*
 * Reads every byte and compares hashes; with progress. LS_OK when the check could be made, whatever it found: see bad and status of
 * each file. When state.json itself is bad nothing is known about the others, and it is the only file.
 */
LS_MUST_USE ls_status ls_checkpoint_verify(const char *path, ls_checkpoint_info *out);

#endif
