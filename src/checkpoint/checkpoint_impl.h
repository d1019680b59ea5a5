/* checkpoint: what its own files share. */
#ifndef LS_CHECKPOINT_IMPL_H
#define LS_CHECKPOINT_IMPL_H

#include "base/hash.h"
#include "checkpoint/checkpoint.h"
#include "format/format.h"

/* The files of a checkpoint beside state.json. */
enum { LS_CHECKPOINT_MODEL, LS_CHECKPOINT_OPTIMIZER, LS_CHECKPOINT_CONFIG, LS_CHECKPOINT_FILES };
const char *ls_checkpoint_file_name(int file);

/* Bytes [start, start + bytes) of a file and their hash. Plain bytes: ranks send them to each other. */
typedef struct ls_tensor_piece {
    int32_t file;
    int32_t tensor; /* in the order of the file; -1: its header, or a file without tensors */
    int64_t start, bytes;
    uint64_t hash;
} ls_tensor_piece;

/* A piece as state.json has it. */
typedef struct ls_named_piece {
    const char *name; /* of the tensor; "header" */
    int64_t start, bytes;
    uint64_t hash;
} ls_named_piece;

typedef struct ls_recorded_file {
    int64_t bytes; /* 0: the checkpoint has no such file */
    int n_pieces;  /* they cover the file without holes, in order */
    ls_named_piece *pieces;
} ls_recorded_file;

/* What state.json says. */
typedef struct ls_checkpoint_record {
    ls_train_state state;
    const char *type; /* of masters and moments: "F32", "F64" */
    ls_recorded_file file[LS_CHECKPOINT_FILES];
} ls_checkpoint_record;

/* Both carry a hash of the whole text, so that a change of any byte of state.json is seen. */
LS_MUST_USE ls_status ls_record_write(const ls_checkpoint_record *record, const char *directory);
const char *ls_record_name(void); /* "state.json" */
/* Texts and pieces live in the arena. */
LS_MUST_USE ls_status ls_record_read(const char *directory, ls_arena *arena, ls_checkpoint_record *out);

/* ---- checking (verify.c) ---- */

/* The mapped file, which errors call `path`: that it is as long as recorded, and that a piece has its hash. */
LS_MUST_USE ls_status ls_piece_check_length(const char *path, const ls_file_map *map,
                                            const ls_recorded_file *file);
LS_MUST_USE ls_status ls_piece_check(const char *path, const ls_file_map *map, const ls_named_piece *piece);

/* The two safetensors files for the parameters of an image; entries live in the arena. */
typedef struct ls_checkpoint_layout {
    ls_st_entry *entries[2];
    int n[2];
    ls_st_plan *plan[2];
} ls_checkpoint_layout;
LS_MUST_USE ls_status ls_checkpoint_plan(const ls_image *image, ls_arena *arena, ls_checkpoint_layout *out);
void ls_checkpoint_plan_free(ls_checkpoint_layout *layout);
/* Name under which the optimiser's file holds a moment ('m' or 'v') of a parameter. */
const char *ls_checkpoint_moment(ls_arena *arena, char moment, const char *parameter);

/* ---- folders ---- */

/* The same path with ".partial" behind it: a checkpoint that is not whole yet, or no longer. */
LS_MUST_USE ls_status ls_checkpoint_partial_path(const char *directory, int64_t step, char **out);
/* Makes the finished folder `partial` the checkpoint `final`, durably, in place of an older one of the same name. */
LS_MUST_USE ls_status ls_checkpoint_publish(const char *partial, const char *final);

#endif
