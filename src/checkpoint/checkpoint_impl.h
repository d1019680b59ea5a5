/* checkpoint: what the files of this folder share. */
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
/* Name of a state of a parameter in the optimiser's file: "m layers.0.wq.weight". */
const char *ls_checkpoint_state_name(ls_arena *arena, const ls_optimizer_state *state, const char *parameter);

/* ---- the record: state.json (record.c) ---- */

/* Bytes [start, start + bytes) of a file and their hash. Ranks send it to each other as plain bytes. */
typedef struct ls_tensor_piece {
    int32_t file;
    int32_t tensor; /* number in the file; -1: the header of the file, or a file without tensors */
    int64_t start, bytes;
    uint64_t hash;
} ls_tensor_piece;

/* A piece as state.json records it. */
typedef struct ls_named_piece {
    const char *name; /* of the tensor, or "header" */
    int64_t start, bytes;
    uint64_t hash;
} ls_named_piece;

typedef struct ls_recorded_file {
    int64_t bytes; /* 0: the checkpoint has no such file */
    int n_pieces;  /* in order; together they cover the file without holes */
    ls_named_piece *pieces;
} ls_recorded_file;

typedef struct ls_checkpoint_record {
    ls_train_state state;
    const char *type; /* of masters and states: "F32", "F64" */
    ls_recorded_file file[LS_CHECKPOINT_FILES];
} ls_checkpoint_record;

const char *ls_record_name(void); /* "state.json" */
/* The text holds a hash of itself, so that a change of any of its bytes is detected on reading. */
LS_MUST_USE ls_status ls_record_write(const ls_checkpoint_record *record, const char *folder);
/* Texts and pieces live in the arena. */
LS_MUST_USE ls_status ls_record_read(const char *folder, ls_arena *arena, ls_checkpoint_record *out);

/* origin.c: a field of the record; one that does not say it leaves out->optimizer NULL. */
void ls_origin_write(ls_json_writer *writer, const ls_train_origin *origin);
LS_MUST_USE ls_status ls_origin_read(ls_json_value root, ls_train_origin *out);
/* LS_USAGE: `is` cannot go on from `was`, by its optimiser. Logs each other difference, if it tells. */
LS_MUST_USE ls_status ls_origin_compare(const char *file, const ls_train_origin *was, const ls_train_origin *is,
                                        bool tells);

/* Whether its weights are an average, with which the last weights have changed places (ls_job.average). */
bool ls_record_averages(const ls_checkpoint_record *record);

/* Check a mapped file against its record: its length, and the hash of one piece. path: for errors. */
LS_MUST_USE ls_status ls_piece_check_length(const char *path, const ls_file_map *map, const ls_recorded_file *file);
LS_MUST_USE ls_status ls_piece_check(const char *path, const ls_file_map *map, const ls_named_piece *piece);

/* As ls_checkpoint_verify, of pieces first, first + every, ... alone; the files' pieces are counted on. */
LS_MUST_USE ls_status ls_checkpoint_verify_some(const char *path, int first, int every, ls_checkpoint_info *out);

/* ---- folders (folders.c) ---- */

/* The path of a step's checkpoint with ".partial" appended, which it has while it is written or removed. */
LS_MUST_USE ls_status ls_checkpoint_partial_path(const char *folder, int64_t step, char **out);
/* Renames the finished folder `partial` to `final`, durably, and removes an older folder of that name. */
LS_MUST_USE ls_status ls_checkpoint_publish(const char *partial, const char *final);

#endif
