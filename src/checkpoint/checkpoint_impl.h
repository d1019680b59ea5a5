/* checkpoint: shared by the files of this folder. */
#ifndef LS_CHECKPOINT_IMPL_H
#define LS_CHECKPOINT_IMPL_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"
#include "format/format.h"

/* The files of a checkpoint besides state.json. */
enum {
    LS_CHECKPOINT_MODEL,
    LS_CHECKPOINT_OPTIMIZER,
    LS_CHECKPOINT_CONFIG,
    LS_CHECKPOINT_GRAPH,
    LS_CHECKPOINT_ADAPTER,
    LS_CHECKPOINT_FILES
};
const char *ls_checkpoint_file_name(int file);
/* Name of an optimiser state of a parameter in the optimiser's file: "m layers.0.wq.weight". */
const char *ls_checkpoint_state_name(ls_arena *arena, const ls_optimizer_state *state, const char *parameter);

/* ---- the record: state.json (record.c) ---- */

/* Bytes [start, start + bytes) of a file, and their hash. Ranks send such pieces to each other as plain bytes. */
typedef struct ls_tensor_piece {
    int32_t file;
    int32_t tensor; /* index of the tensor in the file; -1: the header of the file, or a file without tensors */
    int64_t start, bytes;
    uint64_t hash;
} ls_tensor_piece;

/* A piece as state.json records it. */
typedef struct ls_named_piece {
    const char *name; /* name of the tensor, or "header" */
    int64_t start, bytes;
    uint64_t hash;
} ls_named_piece;

typedef struct ls_recorded_file {
    int64_t bytes; /* 0: the checkpoint has no such file */
    int n_pieces;  /* in order; together they cover the file without gaps */
    ls_named_piece *pieces;
} ls_recorded_file;

typedef struct ls_checkpoint_record {
    ls_train_state state;
    const char *type; /* type of masters and states: "F32" or "F64" */
    ls_recorded_file file[LS_CHECKPOINT_FILES];
} ls_checkpoint_record;

const char *ls_record_name(void); /* "state.json" */
/* The text contains a hash of itself, so that a change of any of its bytes is detected on reading. */
LS_MUST_USE ls_status ls_record_write(const ls_checkpoint_record *record, const char *folder);
/* Texts and pieces lie in the arena. */
LS_MUST_USE ls_status ls_record_read(const char *folder, ls_arena *arena, ls_checkpoint_record *out);

/* origin.c: a member of the record. If a record lacks it, reading sets out->optimizer to NULL. */
void ls_origin_write(ls_json_writer *writer, const ls_train_origin *origin);
LS_MUST_USE ls_status ls_origin_read(ls_json_value root, ls_train_origin *out);
/*
 * LS_USAGE: `is` cannot continue from `was`, because the optimisers differ. Logs every other difference if `tell` is
 * set.
 */
LS_MUST_USE ls_status ls_origin_compare(const char *file, const ls_train_origin *was, const ls_train_origin *is,
                                        bool tells);

/* Whether its weights are an average, which was exchanged with the last weights (ls_job.average). */
bool ls_record_averages(const ls_checkpoint_record *record);

/* Compare a mapped file with its record: its length, and the hash of one piece. path: for errors. */
LS_MUST_USE ls_status ls_piece_check_length(const char *path, const ls_file_map *map, const ls_recorded_file *file);
LS_MUST_USE ls_status ls_piece_check(const char *path, const ls_file_map *map, const ls_named_piece *piece);

/* Like ls_checkpoint_verify, for pieces first, first + every, ... only, counted over all files. */
LS_MUST_USE ls_status ls_checkpoint_verify_some(const char *path, int first, int every, ls_checkpoint_info *out);

/* ---- folders (folders.c) ---- */

/* The path of a step's checkpoint with ".partial" appended; it has this name while it is written or removed. */
LS_MUST_USE ls_status ls_checkpoint_partial_path(const char *folder, int64_t step, char **out);
/* Renames the finished folder `partial` to `final`, durably, and removes an older folder of that name. */
LS_MUST_USE ls_status ls_checkpoint_publish(const char *partial, const char *final);

#endif
