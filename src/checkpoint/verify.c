/* Whether the bytes of a checkpoint are those that were written. */
#include "checkpoint/checkpoint_impl.h"
#include "checkpoint/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

ls_status ls_piece_check_length(const char *path, const ls_file_map *map, const ls_recorded_file *file) {
    if ((int64_t)map->bytes == file->bytes) return ls_ok();
    return ls_error(LS_INVALID, "%s is %zu bytes long, expected %lld: it is cut or was changed", path,
                    map->bytes, (long long)file->bytes);
}

ls_status ls_piece_check(const char *path, const ls_file_map *map, const ls_named_piece *piece) {
    const uint64_t hash = ls_hash_bytes(map->data + piece->start, (size_t)piece->bytes);
    if (hash == piece->hash) return ls_ok();
    return ls_error(LS_INVALID,
                    "%s: corrupted in bytes %lld to %lld (%s): their hash is %016" PRIx64
                    ", expected %016" PRIx64,
                    path, (long long)piece->start, (long long)(piece->start + piece->bytes - 1), piece->name,
                    hash, piece->hash);
}

/* ---- all files ---- */

static void describe(const ls_checkpoint_record *record, ls_checkpoint_info *out) {
    out->state = record->state;
    snprintf(out->type, sizeof out->type, "%s", record->type);
    out->file[out->n_files++] = (ls_checkpoint_file){.name = ls_record_name(), .pieces = 1};
    for (int f = 0; f < LS_CHECKPOINT_FILES; f++) {
        const ls_recorded_file *file = &record->file[f];
        if (file->bytes > 0)
            out->file[out->n_files++] = (ls_checkpoint_file){
                .name = ls_checkpoint_file_name(f), .bytes = file->bytes, .pieces = file->n_pieces};
    }
}

static ls_status size_of_record(const char *path, int64_t *bytes) {
    LS_PATH name = NULL;
    ls_file_map map;
    LS_TRY(ls_path_join(path, ls_record_name(), &name));
    LS_TRY(ls_file_map_open(name, &map));
    *bytes = (int64_t)map.bytes;
    ls_file_map_close(&map);
    return ls_ok();
}

static ls_status read_record(const char *path, ls_arena *arena, ls_checkpoint_record *record,
                             ls_checkpoint_info *out) {
    ls_checkpoint_info info = {.n_files = 0};
    LS_TRY(ls_record_read(path, arena, record));
    describe(record, &info);
    LS_TRY(size_of_record(path, &info.file[0].bytes));
    *out = info;
    return ls_ok();
}

ls_status ls_checkpoint_describe(const char *path, ls_checkpoint_info *out) {
    ls_arena *arena = ls_arena_create();
    ls_checkpoint_record record;
    const ls_status status = read_record(path, arena, &record, out);
    ls_arena_destroy(arena);
    return status;
}

typedef struct verification {
    const char *path;
    ls_progress progress;
    int64_t done;
    double told;
} verification;

static void tell(verification *v, int64_t bytes) {
    const double now = ls_seconds();
    v->done += bytes;
    if (now - v->told < (v->progress.terminal ? 0.1 : 2.0)) return;
    v->told = now;
    ls_progress_show(&v->progress, v->done >> 20, "MiB");
}

static void note(ls_checkpoint_file *out, ls_status status) {
    if (status.code == LS_OK) return;
    if (out->bad++ == 0) out->status = status;
}

static void verify_file(verification *v, const ls_recorded_file *file, ls_checkpoint_file *out) {
    LS_PATH path = NULL;
    ls_file_map map = {0};
    out->status = ls_ok();
    ls_status status = ls_path_join(v->path, out->name, &path);
    if (status.code == LS_OK) status = ls_file_map_open(path, &map);
    if (status.code == LS_OK) status = ls_piece_check_length(path, &map, file);
    note(out, status);
    for (int i = 0; i < file->n_pieces && status.code == LS_OK; i++) {
        const ls_named_piece *piece = &file->pieces[i];
        note(out, ls_piece_check(path, &map, piece));
        ls_file_forget(map.data + piece->start, (size_t)piece->bytes);
        tell(v, piece->bytes);
    }
    ls_file_map_close(&map);
}

static void verify_files(const char *path, const ls_checkpoint_record *record, ls_checkpoint_info *info) {
    int64_t total = 0;
    for (int f = 0; f < LS_CHECKPOINT_FILES; f++) total += record->file[f].bytes;
    verification v = {
        .path = path, .progress = ls_progress_start("verifying", total >> 20), .told = ls_seconds()};
    for (int f = 0, i = 1; f < LS_CHECKPOINT_FILES; f++)
        if (record->file[f].bytes > 0) verify_file(&v, &record->file[f], &info->file[i++]);
    ls_progress_end(&v.progress);
}

ls_status ls_checkpoint_verify(const char *path, ls_checkpoint_info *out) {
    ls_arena *arena = ls_arena_create();
    ls_checkpoint_record record;
    ls_checkpoint_info info = {.n_files = 1, .file = {{.name = ls_record_name(), .pieces = 1}}};
    const ls_status status = read_record(path, arena, &record, &info);
    if (status.code == LS_OK)
        verify_files(path, &record, &info);
    else
        note(&info.file[0], status);
    ls_arena_destroy(arena);
    if (status.code == LS_NO_MEMORY) return status;
    *out = info;
    return ls_ok();
}
