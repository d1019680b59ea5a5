/*
 * Saves a checkpoint, in three stages. First, rank 0 creates a partial folder and its files, with all their bytes
 * reserved. Second, every rank writes its shard into them; if ranks along tp hold the same parameters, only the first
 * of them writes these. Third, rank 0 writes the record and renames the folder. After each stage all ranks learn
 * whether it succeeded on every rank.
 */
#include "checkpoint/checkpoint_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 8 << 20, /* bytes of one piece, which is hashed and written at once */
    SYNC_BYTES = 64 << 20, /* a file is synced after this many bytes, so that no single sync takes long */
    BATCH = 1024 / sizeof(ls_tensor_piece), /* pieces that a rank sends to rank 0 at once */
    MOST_PIECES = 1 << 24                   /* most pieces of a rank */
};

/* ---- the layout: where each tensor lies, which is the same for every mesh ---- */

/* The two safetensors files for the parameters of an image. */
typedef struct file_layout {
    ls_st_entry *entries[2]; /* live in an arena */
    int n[2];
    int *value; /* by parameter: its entry in the model's file, if checkpoints have the parameter */
    int *state; /* by state and parameter: the entry in the optimiser's file, if the parameter has the state */
    ls_st_plan *plan[2];
} file_layout;

const char *ls_checkpoint_state_name(ls_arena *arena, const ls_optimizer_state *state, const char *parameter) {
    return ls_arena_printf(arena, "%s %s", state->saved, parameter);
}

static void free_layout(file_layout *layout) {
    for (int f = 0; f < 2; f++) ls_st_plan_destroy(layout->plan[f]);
}

static ls_st_entry entry_of(const ls_image *image, const ls_flat *flat, const char *name) {
    ls_st_entry entry = {name, ls_st_dtype_of(image->accumulator), flat->shape.ndim, {0}};
    for (int d = 0; d < flat->shape.ndim; d++) entry.shape[d] = flat->shape.dim[d].size;
    return entry;
}

static ls_status plan_files(const ls_image *image, ls_arena *arena, file_layout *out) {
    const int states = image->n_states * image->n_flats;
    file_layout layout = {.value = LS_NEW_ARRAY(arena, int, image->n_flats + 1),
                          .state = LS_NEW_ARRAY(arena, int, states)};
    layout.entries[LS_CHECKPOINT_MODEL] = LS_NEW_ARRAY(arena, ls_st_entry, image->n_flats);
    layout.entries[LS_CHECKPOINT_OPTIMIZER] = LS_NEW_ARRAY(arena, ls_st_entry, states);
    const ls_flat **flats = LS_NEW_ARRAY(arena, const ls_flat *, image->n_flats + 1); /* by parameter number */
    for (int i = 0; i < image->n_flats; i++) flats[image->flats[i].number] = &image->flats[i];
    for (int i = 0; i < image->n_flats; i++) {
        if (flats[i]->borrowed) continue;
        layout.value[i] = layout.n[LS_CHECKPOINT_MODEL]++;
        layout.entries[LS_CHECKPOINT_MODEL][layout.value[i]] = entry_of(image, flats[i], flats[i]->name);
    }
    for (int s = 0; s < states; s++) {
        const ls_optimizer_state *state = &image->states[s / image->n_flats];
        const ls_flat *flat = flats[s % image->n_flats];
        if (!ls_flat_has(flat, state)) continue;
        layout.state[s] = layout.n[LS_CHECKPOINT_OPTIMIZER]++;
        layout.entries[LS_CHECKPOINT_OPTIMIZER][layout.state[s]] =
            entry_of(image, flat, ls_checkpoint_state_name(arena, state, flat->name));
    }
    const ls_st_pair metadata = {"format", "pt"}; /* other programs require it in a model's file */
    ls_status status = ls_ok();
    for (int f = 0; f < 2 && status.code == LS_OK; f++)
        status = ls_st_plan_create(layout.entries[f], layout.n[f], &metadata, 1, &layout.plan[f]);
    if (status.code == LS_OK)
        *out = layout;
    else
        free_layout(&layout);
    return status;
}

ls_status ls_checkpoint_bytes(const ls_image *image, const ls_model_text *model, int64_t *out) {
    ls_arena *arena = ls_arena_create();
    file_layout layout = {.n = {0}};
    const ls_status status = plan_files(image, arena, &layout);
    if (status.code == LS_OK) {
        *out = model != NULL ? (int64_t)strlen(model->text) : 0;
        if (model != NULL && model->adapter != NULL) *out += (int64_t)strlen(model->adapter);
        for (int f = 0; f < 2; f++) *out += ls_st_plan_file_bytes(layout.plan[f]);
    }
    free_layout(&layout);
    ls_arena_destroy(arena);
    return status;
}

/* ---- saving ---- */

typedef struct saving {
    const ls_executor *executor;
    const ls_image *image;
    ls_comm *comm;
    const char *folder;
    const ls_model_text *model; /* NULL: none */
    char *partial, *final, *path[2];
    ls_arena *arena;
    file_layout layout;
    ls_st_writer *writer[2]; /* NULL: not open */
    int64_t unsynced;
    char *stage;             /* [PIECE_BYTES]: data that was read from the device, to be hashed and written */
    ls_tensor_piece *pieces; /* pieces written by this rank; on rank 0, after gather_pieces, by all ranks */
    int n_pieces;
    size_t capacity;
} saving;

static bool is_rank_0(const saving *s) { return ls_comm_rank(s->comm) == 0; }

static void add_piece(saving *s, int file, int tensor, int64_t start, const void *data, int64_t bytes) {
    *LS_PUSH(s->arena, s->pieces, s->n_pieces, s->capacity) =
        (ls_tensor_piece){file, tensor, start, bytes, ls_hash_bytes(data, (size_t)bytes)};
    ls_comm_tick(s->comm);
}

/* ---- stage 1: the folder and its files ---- */

/* Writes a file that consists of one text; NULL or empty: no file. */
static ls_status write_text(saving *s, int file, const char *text) {
    LS_PATH path = NULL;
    if (text == NULL || text[0] == 0) return ls_ok();
    const size_t bytes = strlen(text);
    LS_TRY(ls_path_join(s->partial, ls_checkpoint_file_name(file), &path));
    LS_TRY(ls_file_write(path, text, bytes));
    add_piece(s, file, -1, 0, text, (int64_t)bytes);
    return ls_ok();
}

static ls_status write_model(saving *s) {
    if (s->model == NULL) return ls_ok();
    int file = LS_CHECKPOINT_CONFIG;
    while (file < LS_CHECKPOINT_FILES && strcmp(ls_checkpoint_file_name(file), s->model->file) != 0) file++;
    LS_ASSERT(file < LS_CHECKPOINT_FILES);
    LS_TRY(write_text(s, file, s->model->text));
    return write_text(s, LS_CHECKPOINT_ADAPTER, s->model->adapter);
}

static ls_status add_header(saving *s, int file) {
    const int64_t bytes = ls_st_plan_offset(s->layout.plan[file], 0);
    ls_file_map map;
    LS_TRY(ls_file_map_open(s->path[file], &map));
    add_piece(s, file, -1, 0, map.data, bytes);
    ls_file_map_close(&map);
    return ls_ok();
}

static ls_status create_files(saving *s) {
    int64_t bytes;
    LS_TRY(ls_file_make_folders(s->folder));
    LS_TRY(ls_checkpoint_remove_partial(s->folder));
    LS_TRY(ls_checkpoint_bytes(s->image, s->model, &bytes));
    LS_TRY(ls_file_need_space(s->folder, bytes));
    LS_TRY(ls_file_make_folders(s->partial));
    for (int f = 0; f < 2; f++) {
        LS_TRY(ls_st_create(s->path[f], s->layout.plan[f], &s->writer[f]));
        LS_TRY(add_header(s, f));
    }
    return write_model(s);
}

static ls_status prepare(saving *s, int64_t step) {
    if (s->image->n_states == 0)
        return ls_error(LS_INVALID, "a checkpoint of a job without an optimiser's state; expected one that trains");
    LS_TRY(ls_checkpoint_partial_path(s->folder, step, &s->partial));
    LS_TRY(ls_checkpoint_path(s->folder, step, &s->final));
    for (int f = 0; f < 2; f++) LS_TRY(ls_path_join(s->partial, ls_checkpoint_file_name(f), &s->path[f]));
    LS_TRY(plan_files(s->image, s->arena, &s->layout));
    return is_rank_0(s) ? create_files(s) : ls_ok();
}

/* ---- stage 2: every rank's shard ---- */

/* Converts n numbers from bf16 to f32, in place, for a parameter that is not trained and so has no master. */
static void widen_stage(char *stage, int64_t n) {
    for (int64_t i = n - 1; i >= 0; i--) {
        ls_bf16 narrow;
        memcpy(&narrow, stage + i * (int64_t)sizeof narrow, sizeof narrow);
        const float wide = ls_bf16_to_f32(narrow);
        memcpy(stage + i * (int64_t)sizeof wide, &wide, sizeof wide);
    }
}

/* Writes a run of elements to a tensor of a file, from byte `from` of the tensor on. */
static ls_status write_elements(saving *s, int file, int tensor, int64_t from, const ls_operand *elements) {
    const ls_dtype type = s->image->accumulator;
    const int64_t size = (int64_t)ls_dtype_bytes(type), count = elements->view.size[0];
    for (int64_t done = 0; done < count * size;) {
        const int64_t n = ls_min(PIECE_BYTES, count * size - done);
        const int64_t start = ls_st_plan_offset(s->layout.plan[file], tensor) + from + done;
        const ls_operand part = ls_operand_slice(*elements, 0, done / size, n / size);
        LS_TRY(ls_executor_read(s->executor, &part, s->stage));
        if (part.view.dtype != type) widen_stage(s->stage, n / size);
        add_piece(s, file, tensor, start, s->stage, n);
        LS_TRY(ls_st_write(s->writer[file], tensor, from + done, s->stage, n));
        done += n;
        s->unsynced += n;
        if (s->unsynced >= SYNC_BYTES) {
            LS_TRY(ls_file_sync(s->path[file]));
            s->unsynced = 0;
        }
    }
    return ls_ok();
}

/*
 * Writes a run of parameter i in this rank's shard: its master or, without a master, the parameter itself; and the
 * optimiser's states.
 */
static ls_status write_run(saving *s, int i, const ls_flat_run *run) {
    const ls_image *image = s->image;
    const int64_t from = run->whole * (int64_t)ls_dtype_bytes(image->accumulator);
    const ls_operand master = ls_image_master(image, &run->part);
    const int number = image->flats[i].number;
    LS_TRY(write_elements(s, LS_CHECKPOINT_MODEL, s->layout.value[number], from, &master));
    for (int k = 0; k < image->n_states; k++) {
        if (!ls_flat_has(&image->flats[i], &image->states[k])) continue;
        const ls_operand state = ls_image_part(image, image->states[k].binding, &run->part);
        LS_TRY(write_elements(s, LS_CHECKPOINT_OPTIMIZER, s->layout.state[k * image->n_flats + number], from, &state));
    }
    return ls_ok();
}

/* Writes this rank's shard of parameter i. */
static ls_status write_parameter_part(saving *s, int i) {
    const ls_flat *flat = &s->image->flats[i];
    const int rank = ls_executor_rank(s->executor);
    if (flat->borrowed || !ls_flat_is_saved(s->image, flat, rank)) return ls_ok();
    for (ls_flat_runs r = ls_flat_runs_of(s->image, NULL, flat, rank, 0); ls_flat_next(&r);)
        LS_TRY(write_run(s, i, &r.run));
    return ls_ok();
}

static ls_status write_shard(saving *s) {
    const ls_image *image = s->image;
    s->stage = malloc(PIECE_BYTES);
    if (s->stage == NULL) return ls_error(LS_NO_MEMORY, "no memory to write a checkpoint: %d bytes", PIECE_BYTES);
    for (int f = 0; f < 2; f++)
        if (s->writer[f] == NULL) LS_TRY(ls_st_join(s->path[f], s->layout.plan[f], &s->writer[f]));
    for (int i = 0; i < image->n_flats; i++) LS_TRY(write_parameter_part(s, i));
    return ls_ok();
}

/* Closes the files; syncs them if status is LS_OK. Returns the first error. */
static ls_status close_files(saving *s, ls_status status) {
    for (int f = 0; f < 2; f++) {
        ls_st_writer *writer = s->writer[f];
        s->writer[f] = NULL;
        if (writer == NULL) continue;
        if (status.code == LS_OK)
            status = ls_st_finish(writer);
        else
            ls_st_abandon(writer);
        ls_comm_tick(s->comm);
    }
    return status;
}

/* ---- stage 3: the record ---- */

/* Gathers all pieces on rank 0, in rounds of one batch per rank. */
static ls_status gather_pieces(saving *s) {
    const int ranks = ls_comm_size(s->comm), mine = s->n_pieces;
    int *counts = LS_NEW_ARRAY(s->arena, int, ranks);
    int most = 0;
    LS_TRY(ls_comm_exchange(s->comm, &mine, sizeof mine, counts));
    for (int r = 0; r < ranks; r++) {
        if (counts[r] < 0 || counts[r] > MOST_PIECES)
            return ls_error(LS_INVALID, "rank %d tells of %d pieces; expected 0 to %d", r, counts[r], MOST_PIECES);
        most = (int)ls_max(most, counts[r]);
    }
    const int room = (int)ls_min(most, BATCH);
    ls_tensor_piece *all = LS_NEW_ARRAY(s->arena, ls_tensor_piece, (size_t)ranks * (size_t)room);
    for (int first = 0; first < most; first += room) {
        ls_tensor_piece batch[BATCH] = {{0}};
        if (first < mine) memcpy(batch, s->pieces + first, sizeof *batch * (size_t)ls_min(room, mine - first));
        LS_TRY(ls_comm_exchange(s->comm, batch, sizeof *batch * (size_t)room, all));
        for (int r = 1; r < ranks && is_rank_0(s); r++) {
            const ls_tensor_piece *theirs = all + (size_t)r * (size_t)room;
            for (int i = 0; i < ls_min(room, counts[r] - first); i++)
                *LS_PUSH(s->arena, s->pieces, s->n_pieces, s->capacity) = theirs[i];
        }
    }
    return ls_ok();
}

static int by_place(const void *a, const void *b) {
    const ls_tensor_piece *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

/* Checks that a piece received from a rank belongs to this checkpoint, and is the next one of its file. */
static ls_status check_piece(const saving *s, const ls_checkpoint_record *record, const ls_tensor_piece *piece) {
    const bool has_tensors = piece->file == LS_CHECKPOINT_MODEL || piece->file == LS_CHECKPOINT_OPTIMIZER;
    if (piece->file < 0 || piece->file >= LS_CHECKPOINT_FILES || piece->tensor < -1 ||
        piece->tensor >= (has_tensors ? s->layout.n[piece->file] : 0))
        return ls_error(LS_INVALID, "a rank tells of a piece of tensor %d in file %d; there is none", piece->tensor,
                        piece->file);
    if (piece->start != record->file[piece->file].bytes || piece->bytes < 0)
        return ls_error(LS_INVALID, "the ranks' pieces of file %d have a gap or meet at byte %lld; expected byte %lld",
                        piece->file, (long long)piece->start, (long long)record->file[piece->file].bytes);
    return ls_ok();
}

static ls_status write_record(saving *s, const ls_train_state *state) {
    ls_checkpoint_record record = {.state = *state, .type = ls_st_dtype_name(ls_st_dtype_of(s->image->accumulator))};
    record.state.base = s->model != NULL ? s->model->base : 0;
    LS_ASSERT(s->pieces != NULL); /* rank 0 has added the headers */
    qsort(s->pieces, (size_t)s->n_pieces, sizeof *s->pieces, by_place);
    for (int f = 0; f < LS_CHECKPOINT_FILES; f++)
        record.file[f].pieces = LS_NEW_ARRAY(s->arena, ls_named_piece, s->n_pieces);
    for (int i = 0; i < s->n_pieces; i++) {
        const ls_tensor_piece *piece = &s->pieces[i];
        LS_TRY(check_piece(s, &record, piece));
        ls_recorded_file *file = &record.file[piece->file];
        const char *name = piece->tensor < 0 ? "header" : s->layout.entries[piece->file][piece->tensor].name;
        LS_ASSERT(file->pieces != NULL);
        file->pieces[file->n_pieces++] = (ls_named_piece){name, piece->start, piece->bytes, piece->hash};
        file->bytes += piece->bytes;
    }
    return ls_record_write(&record, s->partial);
}

static ls_status publish(saving *s, const ls_train_state *state) {
    if (!is_rank_0(s)) return ls_ok();
    LS_TRY(write_record(s, state));
    LS_TRY(ls_file_sync(s->partial));
    return ls_checkpoint_publish(s->partial, s->final);
}

static ls_status save(saving *s, const ls_train_state *state) {
    LS_TRY(ls_comm_agree(s->comm, prepare(s, state->step)));
    LS_TRY(ls_comm_agree(s->comm, close_files(s, write_shard(s))));
    LS_TRY(gather_pieces(s));
    return ls_comm_agree(s->comm, publish(s, state));
}

ls_status ls_checkpoint_save(ls_executor *executor, ls_comm *comm, const char *folder, const ls_train_state *state,
                             const ls_model_text *model, int keep) {
    saving s = {.executor = executor,
                .image = ls_executor_image(executor),
                .comm = comm,
                .folder = folder,
                .model = model,
                .arena = ls_arena_create()};
    ls_status status = save(&s, state);
    (void)close_files(&s, status);
    if (is_rank_0(&s) && status.code != LS_OK && s.partial != NULL && ls_file_exists(s.partial)) {
        const ls_status removed = ls_file_remove_tree(s.partial);
        if (removed.code != LS_OK) ls_log("warning: a partial checkpoint could not be removed: %s", removed.text);
    }
    if (is_rank_0(&s) && status.code == LS_OK) { /* the new checkpoint is safe, so a failure to prune is not an error */
        const ls_status pruned = ls_checkpoint_prune(folder, state->step, keep);
        if (pruned.code != LS_OK) ls_log("warning: an old checkpoint could not be removed: %s", pruned.text);
    }
    free_layout(&s.layout);
    for (int f = 0; f < 2; f++) free(s.path[f]);
    free(s.stage);
    free(s.final);
    free(s.partial);
    ls_arena_destroy(s.arena);
    return status;
}
