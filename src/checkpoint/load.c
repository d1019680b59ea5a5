/*
 * Loads a checkpoint, at any mesh. Every rank checks its share of the pieces of the weights, and the pieces of its
 * shard of the optimiser's state; together the ranks check all of them. After all checks have succeeded on every rank,
 * the ranks fill their buffers.
 */
#include "checkpoint/checkpoint_impl.h"

#include <pthread.h>
#include <string.h>

/* ---- checking ---- */

/* Bytes [from, to) of a file. */
typedef struct extent {
    int64_t from, to;
} extent;

static bool touches(const ls_named_piece *piece, const extent *extents, int n) {
    for (int i = 0; i < n; i++)
        if (piece->start < extents[i].to && extents[i].from < piece->start + piece->bytes) return true;
    return false;
}

/*
 * Checks pieces first, first + every, ... of the file, as far as they touch one of the extents. comm (may be NULL) is
 * ticked, so that peers know that this rank is alive. The bytes that are read are added to *bytes.
 */
static ls_status check_pieces(const char *path, const ls_recorded_file *file, const extent *extents, int n, int first,
                              int every, ls_comm *comm, int64_t *bytes) {
    ls_file_map map;
    LS_TRY(ls_file_map_open(path, &map));
    ls_status status = ls_piece_check_length(path, &map, file);
    for (int i = first; i < file->n_pieces && status.code == LS_OK; i += every) {
        const ls_named_piece *piece = &file->pieces[i];
        if (!touches(piece, extents, n)) continue;
        status = ls_piece_check(path, &map, piece);
        *bytes += piece->bytes;
        if (comm != NULL) ls_comm_tick(comm);
    }
    ls_file_map_close(&map);
    return status;
}

/* Checks this rank's share of a file or, without comm, all of it. The bytes that are read are added to *bytes. */
static ls_status check_file(const char *folder, const ls_checkpoint_record *record, int file, ls_comm *comm,
                            int64_t *bytes) {
    static const extent everything = {0, INT64_MAX};
    const int rank = comm != NULL ? ls_comm_rank(comm) : 0, ranks = comm != NULL ? ls_comm_size(comm) : 1;
    LS_PATH path = NULL;
    if (record->file[file].bytes == 0) return ls_ok();
    LS_TRY(ls_path_join(folder, ls_checkpoint_file_name(file), &path));
    return check_pieces(path, &record->file[file], &everything, 1, rank, ranks, comm, bytes);
}

/* Whether checkpoints have the parameter. */
static bool is_kept(const ls_flat *flat) { return !flat->borrowed; }

/* model NULL: the checkpoint has all parameters. */
static ls_status open_weights(const char *folder, const ls_checkpoint_record *record, const ls_model *model,
                              const ls_image *image, ls_weight_source *out) {
    static const ls_weight_rules rules = {.has = is_kept};
    LS_PATH path = NULL;
    ls_weight_source own;
    const uint64_t base = model != NULL ? ls_model_written(model).base : 0;
    if (record->state.base != base)
        return ls_error(LS_USAGE,
                        "%s: it was trained on a model whose files have hash %016llx, and those here have %016llx; "
                        "expected the same model below the adapter",
                        folder, (unsigned long long)record->state.base, (unsigned long long)base);
    LS_TRY(ls_path_join(folder, ls_checkpoint_file_name(LS_CHECKPOINT_MODEL), &path));
    LS_TRY(ls_weights_open_file(path, image, &rules, &own));
    if (model != NULL) return ls_model_weights_with(model, image, &own, out);
    *out = own;
    return ls_ok();
}

ls_status ls_checkpoint_weights(const char *path, const ls_model *model, const ls_image *image, ls_comm *comm,
                                ls_weight_source *out) {
    ls_arena *arena = ls_arena_create();
    ls_checkpoint_record record;
    int64_t bytes = 0;
    ls_status status = ls_record_read(path, arena, &record);
    if (status.code == LS_OK) status = check_file(path, &record, LS_CHECKPOINT_MODEL, comm, &bytes);
    if (status.code == LS_OK) status = open_weights(path, &record, model, image, out);
    if (status.code == LS_OK && ls_record_averages(&record) && (comm == NULL || ls_comm_rank(comm) == 0))
        ls_log("weights: the average that %s has (--ema), not those of its last step", path);
    ls_arena_destroy(arena);
    return status;
}

/* ---- the optimiser's state ---- */

typedef struct loading {
    ls_executor *executor;
    const ls_image *image;
    ls_comm *comm;
    const char *folder;
    const ls_model *model;     /* NULL: the checkpoint has all weights */
    const ls_train_origin *as; /* NULL: nothing is compared */
    ls_arena *arena;
    ls_checkpoint_record record;
    ls_weight_source weights; /* context NULL: not open */
    ls_st_file *optimizer;    /* NULL: not open; jobs that do not train never open it */
    int64_t bytes;            /* bytes that this rank has read from files, without those read by `weights` */
    pthread_t self;           /* the rank's own thread */
} loading;

static ls_status find_state(const loading *l, int state, const ls_flat *flat, const ls_st_tensor **out) {
    int64_t shape[LS_MAX_DIMS];
    const char *name = ls_checkpoint_state_name(l->arena, &l->image->states[state], flat->name);
    for (int d = 0; d < flat->shape.ndim; d++) shape[d] = flat->shape.dim[d].size;
    return ls_st_need(l->optimizer, name, flat->shape.ndim, shape, out);
}

/* The parts of a parameter's state of the optimiser that this rank holds. */
static ls_flat_runs runs_of(const loading *l, int state, const ls_flat *flat) {
    const ls_binding *binding = ls_image_find(l->image, l->image->states[state].binding);
    return ls_flat_runs_of(l->image, binding, flat, ls_executor_rank(l->executor), 0);
}

/*
 * LS_INVALID: a tensor of the file is a state that its trained parameter does not have in this job. Logs the number of
 * states of parameters that are not trained.
 */
static ls_status check_no_other_state(const loading *l, const char *path) {
    int left_out = 0;
    for (int t = 0; t < ls_st_count(l->optimizer); t++) {
        const char *name = ls_st_at(l->optimizer, t)->name, *parameter = strchr(name, ' ');
        const ls_flat *flat = NULL;
        bool known = false;
        for (int i = 0; parameter != NULL && i < l->image->n_flats; i++)
            if (strcmp(l->image->flats[i].name, parameter + 1) == 0) flat = &l->image->flats[i];
        if (flat == NULL || !flat->trained) {
            left_out++;
            continue;
        }
        for (int k = 0; k < l->image->n_states; k++)
            known |= ls_flat_has(flat, &l->image->states[k]) &&
                     strcmp(ls_checkpoint_state_name(l->arena, &l->image->states[k], flat->name), name) == 0;
        if (!known)
            return ls_error(LS_INVALID,
                            "%s: tensor \"%s\" is a state that the optimiser of this training does not have; expected "
                            "what the same optimiser has written",
                            path, name);
    }
    if (left_out > 0 && ls_comm_rank(l->comm) == 0)
        ls_log("%s: %d states are left out, of parameters that are frozen from here on", path, left_out);
    return ls_ok();
}

/* Opens the optimiser's file, and checks the bytes that this rank holds. */
static ls_status check_optimizer(loading *l) {
    const ls_recorded_file *file = &l->record.file[LS_CHECKPOINT_OPTIMIZER];
    const int64_t size = (int64_t)ls_dtype_bytes(l->image->accumulator);
    const extent header = {0, 1};
    LS_PATH path = NULL;
    int n = 0;
    LS_TRY(ls_path_join(l->folder, ls_checkpoint_file_name(LS_CHECKPOINT_OPTIMIZER), &path));
    LS_TRY(check_pieces(path, file, &header, 1, 0, 1, l->comm, &l->bytes));
    LS_TRY(ls_st_open(path, &l->optimizer));
    if (ls_st_count(l->optimizer) == 0)
        return ls_error(LS_INVALID, "%s: it has no tensor, expected the optimiser's state of each parameter", path);
    LS_TRY(check_no_other_state(l, path));
    const char *data = ls_st_at(l->optimizer, 0)->data; /* the first tensor begins where the header ends */
    extent *extents = NULL;
    size_t room = 0;
    for (int k = 0; k < l->image->n_states; k++) {
        for (int i = 0; i < l->image->n_flats; i++) {
            const ls_flat *flat = &l->image->flats[i];
            const ls_st_tensor *tensor = NULL;
            if (!ls_flat_has(flat, &l->image->states[k])) continue;
            LS_TRY(find_state(l, k, flat, &tensor));
            const int64_t begin = file->pieces[0].bytes + ((const char *)tensor->data - data);
            for (ls_flat_runs r = runs_of(l, k, flat); ls_flat_next(&r);) {
                const int64_t from = begin + r.run.whole * size;
                *LS_PUSH(l->arena, extents, n, room) = (extent){from, from + r.run.part.count * size};
            }
        }
    }
    return check_pieces(path, file, extents, n, 0, 1, l->comm, &l->bytes);
}

enum { CONVERT_COUNT = 1 << 14 }; /* elements that are converted at once, on the stack */

/* Converts elements [first, first + count) of a tensor of the file to elements of a state, from `at` on. */
static ls_status fill_part(loading *l, const ls_st_tensor *tensor, int64_t first, int64_t count, int state,
                           int64_t at) {
    double elements[CONVERT_COUNT];
    l->bytes += count * (int64_t)ls_st_dtype_bytes(tensor->dtype);
    for (int64_t done = 0; done < count; done += CONVERT_COUNT) {
        const int64_t n = ls_min(CONVERT_COUNT, count - done);
        const ls_operand to = ls_image_elements(l->image, l->image->states[state].binding, at + done, n);
        LS_TRY(ls_st_convert(tensor, first + done, n, l->image->accumulator, elements));
        LS_TRY(ls_executor_write(l->executor, &to, elements));
    }
    return ls_ok();
}

static ls_status fill_optimizer(loading *l) {
    for (int k = 0; k < l->image->n_states; k++) {
        for (int i = 0; i < l->image->n_flats; i++) {
            const ls_flat *flat = &l->image->flats[i];
            const ls_st_tensor *tensor = NULL;
            if (!ls_flat_has(flat, &l->image->states[k])) continue;
            LS_TRY(find_state(l, k, flat, &tensor));
            for (ls_flat_runs r = runs_of(l, k, flat); ls_flat_next(&r);)
                LS_TRY(fill_part(l, tensor, r.run.whole, r.run.part.count, k, r.run.part.at));
            ls_comm_tick(l->comm);
        }
    }
    return ls_ok();
}

/* ---- loading ---- */

/*
 * Any thread of the pool calls these two functions. On the rank's own thread they show peers that this rank is alive.
 */
static ls_status read_and_tick(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const loading *l = context;
    if (pthread_equal(pthread_self(), l->self)) ls_comm_tick(l->comm);
    return l->weights.read(l->weights.context, flat, start, count, out);
}

static ls_status convert_and_tick(void *context, const ls_flat *flat, int64_t start, int64_t count, ls_dtype to,
                                  void *out) {
    const loading *l = context;
    if (pthread_equal(pthread_self(), l->self)) ls_comm_tick(l->comm);
    return l->weights.convert(l->weights.context, flat, start, count, to, out);
}

static ls_status check_origin(const loading *l) {
    LS_PATH path = NULL;
    if (l->as == NULL) return ls_ok();
    LS_TRY(ls_path_join(l->folder, ls_record_name(), &path));
    return ls_origin_compare(path, &l->record.state.origin, l->as, ls_comm_rank(l->comm) == 0);
}

static ls_status check(loading *l) {
    const char *type = ls_st_dtype_name(ls_st_dtype_of(l->image->accumulator));
    LS_TRY(ls_record_read(l->folder, l->arena, &l->record));
    if (strcmp(l->record.type, type) != 0)
        return ls_error(LS_INVALID, "%s: it holds %s, but this job's type needs %s", l->folder, l->record.type, type);
    LS_TRY(check_origin(l));
    LS_TRY(check_file(l->folder, &l->record, LS_CHECKPOINT_CONFIG, l->comm, &l->bytes));
    LS_TRY(check_file(l->folder, &l->record, LS_CHECKPOINT_MODEL, l->comm, &l->bytes));
    LS_TRY(check_file(l->folder, &l->record, LS_CHECKPOINT_ADAPTER, l->comm, &l->bytes));
    LS_TRY(open_weights(l->folder, &l->record, l->model, l->image, &l->weights));
    return l->image->n_states > 0 ? check_optimizer(l) : ls_ok();
}

static int64_t bytes_of_weights(void *context) {
    const loading *l = context;
    return l->weights.bytes_read(l->weights.context);
}

static ls_status fill(loading *l, ls_weights_figures *figures) {
    const ls_weight_source source = {
        .read = read_and_tick, .context = l, .convert = convert_and_tick, .bytes_read = bytes_of_weights};
    LS_TRY(ls_weights_fill_shared(l->executor, l->comm, &source, figures));
    LS_TRY(ls_comm_agree(l->comm, fill_optimizer(l)));
    figures->bytes += l->bytes;
    return ls_ok();
}

ls_status ls_checkpoint_load(ls_executor *executor, ls_comm *comm, const char *path, const ls_model *model,
                             const ls_train_origin *as, ls_train_state *out, ls_weights_figures *figures) {
    ls_weights_figures done;
    loading l = {.executor = executor,
                 .image = ls_executor_image(executor),
                 .comm = comm,
                 .folder = path,
                 .model = model,
                 .as = as,
                 .arena = ls_arena_create(),
                 .self = pthread_self()};
    ls_status status = ls_comm_agree(comm, check(&l));
    if (status.code == LS_OK) status = fill(&l, &done);
    if (status.code == LS_OK) *out = l.record.state;
    if (status.code == LS_OK && figures != NULL) *figures = done;
    ls_weights_close(&l.weights);
    ls_st_close(l.optimizer);
    ls_arena_destroy(l.arena);
    return status;
}
