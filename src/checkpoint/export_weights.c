/*
 * Exports tensors: streams them from the mapped file of a checkpoint into one or several safetensors files, and
 * converts their type.
 */
#include "checkpoint/export_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 1 << 20,      /* number of elements that are converted and written at once */
    SYNC_BYTES = 64 << 20 /* a file is synced after this many bytes, so that memory holds few unwritten pages */
};

/*
 * A tensor of the export: either one of the checkpoint's file, under its own name or another name that it has; or, if
 * adapters are merged, a parameter.
 */
typedef struct exported {
    const char *name;
    const ls_st_tensor *t;
    struct source *from; /* file of t; NULL if flat is set */
    const ls_flat *flat; /* parameter; t then only has its shape */
    bool again;          /* this is another name of a tensor that the list already has */
} exported;

/* A file of the checkpoint from which tensors are read. */
typedef struct source {
    int number; /* index among the checkpoint's files */
    char *path;
    ls_st_file *file; /* NULL: not open */
    ls_file_map map;  /* the same file, for the hashes */
    int64_t data;     /* bytes before its first tensor */
    int checked;      /* number of pieces compared with their hashes so far */
} source;

/* One output file: exported tensors first .. first + n - 1. */
typedef struct shard {
    int64_t first, n;
    char name[64];
} shard;

typedef struct stream {
    ls_exporting *e;
    source model, last; /* last: the optimiser's file, if the last weights are exported */
    exported *list;     /* [n] */
    int64_t n;
    shard *shards;
    int n_shards;
    void *converted; /* [CHUNK]: elements of the output type */
    /* [2 * CHUNK] for a parameter: its numbers as they are read, then the same as f32 */
    double *numbers;
    /* sums of squares over the elements of merged matrices, and the number of elements */
    double change, rounding, merged;
    int64_t unsynced, done;
    ls_progress progress;
    double last_shown;
} stream;

/* ---- which tensors, under which names ---- */

/* The weights that the user had, in the folder that files are copied from. */
typedef struct users_files {
    ls_st_file **file;
    size_t n;
} users_files;

static void close_users(users_files *users) {
    for (size_t i = 0; i < users->n; i++) ls_st_close(users->file[i]);
    free(users->file);
}

static ls_status open_users(const char *folder, users_files *out) {
    static const char end[] = ".safetensors";
    ls_file_names names;
    LS_TRY(ls_file_list(folder, &names));
    out->file = calloc(names.count + 1, sizeof(ls_st_file *));
    ls_status status = out->file != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for the files of %s", folder);
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++) {
        LS_PATH path = NULL;
        const size_t length = strlen(names.name[i]);
        if (length < sizeof end || strcmp(names.name[i] + length - (sizeof end - 1), end) != 0) continue;
        status = ls_path_join(folder, names.name[i], &path);
        if (status.code == LS_OK) status = ls_st_open(path, &out->file[out->n]);
        out->n += status.code == LS_OK;
    }
    ls_file_names_free(&names);
    return status;
}

/* Whether the user's files have a tensor of this name; true if there are no such files. */
static bool users_have(const users_files *users, const char *name) {
    for (size_t i = 0; i < users->n; i++)
        if (ls_st_find(users->file[i], name) != NULL) return true;
    return users->n == 0;
}

/* Adds a tensor to the list, under all of its names. */
static void list_tensor(stream *s, const users_files *users, const char *name, exported x) {
    const ls_exporting *e = s->e;
    const char *prefix = e->model->prefix != NULL ? e->model->prefix : "";
    x.name = ls_arena_printf(e->arena, "%s%s", prefix, name);
    s->list[s->n++] = x;
    x.again = true;
    for (int c = 0; c < e->n_copies; c++) {
        x.name = e->copies[c].copy;
        if (strcmp(e->copies[c].original, name) == 0 && users_have(users, x.name)) s->list[s->n++] = x;
    }
}

/* A tensor of the model's file or, if the last weights are exported and it is trained, its last weights. */
static exported taken(stream *s, const ls_st_tensor *t) {
    const char *name = ls_arena_printf(s->e->arena, LS_AVERAGE_SAVED " %s", t->name);
    const ls_st_tensor *last = s->last.file != NULL ? ls_st_find(s->last.file, name) : NULL;
    return last != NULL ? (exported){.t = last, .from = &s->last} : (exported){.t = t, .from = &s->model};
}

/* The shape of a parameter, as a tensor without data. */
static const ls_st_tensor *shape_of(const stream *s, const ls_flat *flat) {
    ls_st_tensor *t = LS_NEW(s->e->arena, ls_st_tensor);
    *t = (ls_st_tensor){.name = flat->name, .ndim = flat->shape.ndim, .count = ls_shape_elements(&flat->shape)};
    for (int d = 0; d < flat->shape.ndim; d++) t->shape[d] = flat->shape.dim[d].size;
    return t;
}

static void list_tensors(stream *s, const users_files *users) {
    const ls_exporting *e = s->e;
    const ls_st_file *model = s->model.file;
    const int64_t n = model != NULL ? ls_st_count(model) : e->image.n_flats;
    s->list = LS_NEW_ARRAY(e->arena, exported, n + e->n_copies + 1);
    for (int64_t i = 0; i < n && model != NULL; i++)
        list_tensor(s, users, ls_st_at(model, i)->name, taken(s, ls_st_at(model, i)));
    for (int i = 0; i < e->image.n_flats && model == NULL; i++) {
        const ls_flat *flat = &e->image.flats[i];
        if (!flat->added) list_tensor(s, users, flat->name, (exported){.t = shape_of(s, flat), .flat = flat});
    }
}

static ls_status find_tensors(stream *s) {
    const char *folder = s->e->options->carry;
    users_files users = {.n = 0};
    ls_status status = ls_ok();
    if (s->e->n_copies > 0 && folder != NULL && folder[0] != 0) status = open_users(folder, &users);
    if (status.code == LS_OK) list_tensors(s, &users);
    close_users(&users);
    return status;
}

/* ---- which tensor goes to which file ---- */

static int64_t bytes_of(const stream *s, int64_t i) {
    return s->list[i].t->count * (int64_t)ls_st_dtype_bytes(s->e->result.dtype);
}

/* Distributes the tensors over files, in order, as many into each file as fit. */
static void cut_shards(stream *s) {
    const int64_t n = s->n, given = s->e->options->shard_bytes;
    const int64_t most = s->e->model->weights != NULL ? INT64_MAX : given > 0 ? given : LS_EXPORT_SHARD_BYTES;
    int64_t used = 0;
    s->shards = LS_NEW_ARRAY(s->e->arena, shard, n + 1);
    for (int64_t i = 0; i < n; i++) {
        const int64_t bytes = bytes_of(s, i);
        if (s->n_shards == 0 || used + bytes > most) {
            s->shards[s->n_shards++].first = i;
            used = 0;
        }
        s->shards[s->n_shards - 1].n++;
        used += bytes;
        s->e->result.bytes += bytes;
        s->e->result.parameters += s->list[i].again ? 0 : s->list[i].t->count;
    }
    s->e->result.tensors = n;
    s->e->result.files = s->n_shards;
    for (int i = 0; i < s->n_shards; i++) {
        char *name = s->shards[i].name;
        if (s->n_shards == 1)
            snprintf(name, sizeof s->shards[i].name, "%s",
                     s->e->model->weights != NULL ? s->e->model->weights : "model.safetensors");
        else
            snprintf(name, sizeof s->shards[i].name, "model-%05d-of-%05d.safetensors", i + 1, s->n_shards);
    }
}

static ls_status write_index(const stream *s) {
    LS_PATH path = NULL;
    if (s->n_shards == 1) return ls_ok();
    LS_TRY(ls_path_join(s->e->partial, "model.safetensors.index.json", &path));
    ls_json_writer *w = ls_json_begin(2);
    ls_json_open_object(w, "metadata");
    ls_json_put_int(w, "total_parameters", s->e->result.parameters);
    ls_json_put_int(w, "total_size", s->e->result.bytes);
    ls_json_close(w);
    ls_json_open_object(w, "weight_map");
    for (int k = 0; k < s->n_shards; k++)
        for (int64_t i = s->shards[k].first; i < s->shards[k].first + s->shards[k].n; i++)
            ls_json_put_text(w, s->list[i].name, s->shards[k].name);
    ls_json_close(w);
    return ls_json_end_file(w, path);
}

/* ---- one tensor ---- */

/* Checks the hashes of all pieces that begin before byte `end` of the file and have not been checked yet. */
static ls_status check_up_to(const stream *s, source *from, int64_t end) {
    const ls_recorded_file *file = &s->e->record.file[from->number];
    for (; from->checked < file->n_pieces && file->pieces[from->checked].start < end; from->checked++) {
        const ls_named_piece *piece = &file->pieces[from->checked];
        LS_TRY(ls_piece_check(from->path, &from->map, piece));
        ls_file_forget(from->map.data + piece->start, (size_t)piece->bytes);
    }
    return ls_ok();
}

/* LS_INVALID if a finite number became infinite in F16. */
static ls_status check_range(const ls_st_tensor *t, int64_t first, const uint16_t *written, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double x;
        if ((written[i] & 0x7fffu) != 0x7c00u) continue;
        LS_TRY(ls_st_convert(t, first + i, 1, LS_F64, &x));
        if (isfinite(x))
            return ls_error(LS_INVALID, "tensor '%s' holds %g, but F16 ends at 65504; expected --dtype bf16 or f32",
                            t->name, x);
    }
    return ls_ok();
}

static void show_progress(stream *s) {
    const double now = ls_seconds(), between = s->progress.terminal ? 0.1 : 2.0;
    if (now - s->last_shown < between) return;
    s->last_shown = now;
    ls_progress_show(&s->progress, s->done >> 20, "MiB");
}

static ls_status write_chunk(stream *s, ls_st_writer *writer, int64_t number, const exported *x, int64_t first,
                             int64_t n) {
    const ls_st_dtype to = s->e->result.dtype;
    const ls_st_tensor *t = x->t;
    const int64_t size = (int64_t)ls_st_dtype_bytes(to), from = (int64_t)ls_st_dtype_bytes(t->dtype);
    const char *bytes = (const char *)t->data + first * from;
    const char *path = x->from->path;
    LS_TRY(
        check_up_to(s, x->from, x->from->data + (bytes - (const char *)ls_st_at(x->from->file, 0)->data) + n * from));
    if (to != t->dtype) {
        LS_TRY(ls_error_in(ls_st_convert_to(t, first, n, to, s->converted), "%s", path));
        if (to == LS_ST_F16) LS_TRY(ls_error_in(check_range(t, first, s->converted, n), "%s", path));
        bytes = s->converted;
    }
    LS_TRY(ls_st_write(writer, number, first * size, bytes, n * size));
    ls_st_forget(t, first, n);
    s->unsynced += n * size;
    s->done += n * size;
    show_progress(s);
    return ls_ok();
}

/* ---- a parameter with its adapter ---- */

/* Adds up the adapter's changes to n numbers of the matrix, and the rounding of these numbers. */
static ls_status add_squares(stream *s, const float *sum, const void *written, int64_t n) {
    const ls_st_tensor rounded = {.name = "", .dtype = s->e->result.dtype, .count = n, .data = written};
    double *back = s->numbers;
    LS_ASSERT(back != NULL);
    LS_TRY(ls_st_convert(&rounded, 0, n, LS_F64, back));
    for (int64_t i = 0; i < n; i++) s->rounding += (back[i] - (double)sum[i]) * (back[i] - (double)sum[i]);
    s->merged += (double)n;
    return ls_ok();
}

static ls_status write_merged(stream *s, ls_st_writer *writer, int64_t number, const exported *x, int64_t first,
                              int64_t n) {
    const ls_exporting *e = s->e;
    const int64_t size = (int64_t)ls_st_dtype_bytes(e->result.dtype);
    float *sum = (float *)(s->numbers + CHUNK);
    double change = 0;
    LS_TRY(e->merged.read(e->merged.context, x->flat, first, n, s->numbers));
    ls_weights_narrow(s->numbers, n, LS_F32, sum);
    const bool merges = ls_adapter_merged_change(&e->merged, x->flat, &change);
    const ls_st_tensor part = {.name = x->name, .dtype = LS_ST_F32, .count = n, .data = sum};
    const void *bytes = sum;
    if (e->result.dtype != LS_ST_F32) {
        LS_TRY(ls_st_convert_to(&part, 0, n, e->result.dtype, s->converted));
        if (e->result.dtype == LS_ST_F16) LS_TRY(check_range(&part, 0, s->converted, n));
        bytes = s->converted;
    }
    LS_TRY(ls_st_write(writer, number, first * size, bytes, n * size));
    if (merges) LS_TRY(add_squares(s, sum, bytes, n));
    s->change += change;
    s->unsynced += n * size;
    s->done += n * size;
    show_progress(s);
    return ls_ok();
}

/* ---- one file ---- */

static ls_status fill_shard(stream *s, const shard *k, const char *path, ls_st_writer *writer) {
    for (int64_t i = 0; i < k->n; i++) {
        const exported *x = &s->list[k->first + i];
        for (int64_t first = 0; first < x->t->count; first += CHUNK) {
            const int64_t n = ls_min(CHUNK, x->t->count - first);
            LS_TRY(x->flat != NULL ? write_merged(s, writer, i, x, first, n) : write_chunk(s, writer, i, x, first, n));
            if (s->unsynced < SYNC_BYTES) continue;
            LS_TRY(ls_file_sync(path));
            s->unsynced = 0;
        }
    }
    return ls_ok();
}

static ls_status write_shard(stream *s, const shard *k) {
    const ls_st_pair metadata = {"format", "pt"};
    ls_st_entry *entries = LS_NEW_ARRAY(s->e->arena, ls_st_entry, k->n);
    LS_PATH path = NULL;
    for (int64_t i = 0; i < k->n; i++) {
        const ls_st_tensor *t = s->list[k->first + i].t;
        entries[i] = (ls_st_entry){.name = s->list[k->first + i].name, .dtype = s->e->result.dtype, .ndim = t->ndim};
        memcpy(entries[i].shape, t->shape, sizeof entries[i].shape);
    }
    ls_st_plan *plan = NULL;
    ls_st_writer *writer = NULL;
    LS_TRY(ls_path_join(s->e->partial, k->name, &path));
    LS_TRY(ls_st_plan_create(entries, k->n, &metadata, 1, &plan));
    ls_status status = ls_st_create(path, plan, &writer);
    if (status.code == LS_OK) {
        status = fill_shard(s, k, path, writer);
        if (status.code == LS_OK)
            status = ls_st_finish(writer);
        else
            ls_st_abandon(writer);
    }
    ls_st_plan_destroy(plan);
    return status;
}

/* ---- all files ---- */

static ls_status open_source(const stream *s, int number, source *out) {
    const ls_recorded_file *file = &s->e->record.file[number];
    out->number = number;
    LS_TRY(ls_path_join(s->e->options->checkpoint, ls_checkpoint_file_name(number), &out->path));
    LS_TRY(ls_file_map_open(out->path, &out->map));
    LS_TRY(ls_piece_check_length(out->path, &out->map, file));
    LS_TRY(check_up_to(s, out, 1)); /* the header */
    LS_TRY(ls_st_open(out->path, &out->file));
    if (ls_st_count(out->file) == 0) return ls_error(LS_INVALID, "%s holds no tensor", out->path);
    out->data = (int64_t)out->map.bytes;
    for (int64_t i = 0; i < ls_st_count(out->file); i++) out->data -= (int64_t)ls_st_at(out->file, i)->bytes;
    return ls_ok();
}

static void close_source(source *from) {
    free(from->path);
    ls_st_close(from->file);
    ls_file_map_close(&from->map);
}

static ls_status write_all(stream *s) {
    const bool merges = s->e->merged.context != NULL;
    if (!merges) LS_TRY(open_source(s, LS_CHECKPOINT_MODEL, &s->model));
    if (s->e->options->last) LS_TRY(open_source(s, LS_CHECKPOINT_OPTIMIZER, &s->last));
    LS_TRY(find_tensors(s));
    cut_shards(s);
    LS_TRY(ls_file_need_space(s->e->partial, s->e->result.bytes));
    s->converted = malloc((size_t)CHUNK * ls_st_dtype_bytes(s->e->result.dtype));
    s->numbers = merges ? malloc(sizeof *s->numbers * 2 * CHUNK) : NULL;
    if (s->converted == NULL || (merges && s->numbers == NULL))
        return ls_error(LS_NO_MEMORY, "no memory to export to %s", s->e->final);
    s->progress = ls_progress_start("exporting", s->e->result.bytes >> 20);
    s->last_shown = ls_seconds();
    ls_status status = ls_ok();
    for (int k = 0; k < s->n_shards && status.code == LS_OK; k++) status = write_shard(s, &s->shards[k]);
    ls_progress_end(&s->progress);
    LS_TRY(status);
    if (!merges) LS_TRY(check_up_to(s, &s->model, INT64_MAX));
    if (s->merged > 0) {
        s->e->result.change = sqrt(s->change / s->merged);
        s->e->result.rounding = sqrt(s->rounding / s->merged);
    }
    return write_index(s);
}

ls_status ls_export_weights(ls_exporting *e) {
    stream s = {.e = e};
    const ls_status status = write_all(&s);
    free(s.converted);
    free(s.numbers);
    close_source(&s.model);
    close_source(&s.last);
    return status;
}
