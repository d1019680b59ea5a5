/*
 * The host's access to the memory of programs: slices; the tables of positions, mask spans and the update; global
 * arrays and a rank's parts of them.
 */
#include "run/executor_impl.h"

#include <string.h>

/* --- slices ------------------------------------------------------------------------------------------------------- */

static const ls_device_arena *arena_of(const ls_executor *ex, const ls_operand *o) {
    LS_ASSERT(ls_peer_is_self(o->peer));
    return ex->arena[ex->image->buffers[o->buffer].space];
}

ls_status ls_executor_read(const ls_executor *ex, const ls_operand *from, void *out) {
    const ls_range range = ls_operand_range(ex->image, from, ls_executor_rank(ex));
    return ls_device_read(ex->device, arena_of(ex, from), &range, out);
}

void *ls_executor_host_address(const ls_executor *ex, const ls_operand *o) {
    if (!ls_device_traits_of(ex->device)->host_addresses) return NULL;
    return arena_of(ex, o)->base + ls_operand_range(ex->image, o, ls_executor_rank(ex)).offset;
}

static ls_status write_operand(const ls_executor *ex, const ls_operand *to, const void *from) {
    const ls_range range = ls_operand_range(ex->image, to, ls_executor_rank(ex));
    return ls_device_write(ex->device, arena_of(ex, to), &range, from);
}

ls_status ls_executor_write(ls_executor *ex, const ls_operand *to, const void *from) {
    return write_operand(ex, to, from);
}

ls_status ls_executor_clear(ls_executor *ex, const ls_operand *operand) {
    const ls_range range = ls_operand_range(ex->image, operand, ls_executor_rank(ex));
    return ls_device_clear(ex->device, arena_of(ex, operand), &range);
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

/* The number of spans of one sequence. */
static int64_t spans_of(const ls_mask_binding *binding) {
    return binding->query_count * binding->spans.view.size[2] / 2;
}

/* Whether the binding has a table of its own; masks for keys of earlier slices use the table of their own slice. */
static bool has_own_spans(const ls_mask_binding *binding) { return binding->keys == binding->slice; }

/*
 * Writes the rows of sequence b in a table of spans. The mask may show fewer tokens than the mask that the program was
 * compiled for.
 */
static ls_status write_spans(ls_executor *ex, const ls_mask_binding *binding, int64_t b, const ls_mask *mask) {
    LS_ASSERT(ls_mask_width(mask) == binding->spans.view.size[2] / 2);
    const int64_t S = ex->image->layout.S;
    ls_mask_table(mask, ls_image_tokens(ex->image), ex->positions + binding->slice * S + binding->query_start,
                  binding->query_count, ex->spans);
    const ls_operand rows = ls_operand_slice(binding->spans, 0, b, 1);
    return ls_executor_write(ex, &rows, ex->spans);
}

/* For each unit of the flat space: the group of the parameter, if this rank updates some of it in the unit; else -1. */
static void fill_groups(const ls_executor *ex, const ls_binding *binding, int32_t *group) {
    const ls_image *image = ex->image;
    for (int64_t u = 0; u < ls_view_elements(&binding->operand.view); u++) group[u] = -1;
    for (int f = 0; f < image->n_flats; f++) {
        ls_flat_runs r = ls_flat_runs_of(image, binding, &image->flats[f], ls_executor_rank(ex), 0);
        while (ls_flat_next(&r)) {
            const int64_t last = r.run.part.at + r.run.part.count - 1;
            for (int64_t u = r.run.part.at / LS_FLAT_UNIT; u <= last / LS_FLAT_UNIT; u++)
                group[u] = image->flats[f].group;
        }
    }
}

/* The groups of the update and their settings. */
static ls_status write_update(ls_executor *ex) {
    const ls_image *image = ex->image;
    const ls_binding *groups = ls_image_find(image, LS_BIND_GROUPS);
    if (groups == NULL) return ls_ok(); /* nothing is updated */
    ls_arena *scratch = ls_arena_create();
    int32_t *group = LS_NEW_ARRAY(scratch, int32_t, ls_view_elements(&groups->operand.view));
    fill_groups(ex, groups, group);
    const ls_status status = ls_executor_write(ex, &groups->operand, group);
    ls_arena_destroy(scratch);
    LS_TRY(status);
    return ls_executor_write(ex, &ls_image_find(image, LS_BIND_SETTINGS)->operand, image->settings);
}

static ls_status write_rows(ls_executor *ex) {
    const ls_image *image = ex->image;
    for (int i = 0; i < image->n_rows; i++) {
        const ls_rows_binding *of = &image->rows[i];
        const int parts = ls_mesh_size(&image->mesh, of->axes),
                  own = ls_mesh_index(&image->mesh, of->axes, ls_executor_rank(ex));
        for (int k = 0; k < (of->all ? parts : 1); k++) {
            const int part = of->all ? k : own;
            int64_t follow;
            const int32_t rows[] = {(int32_t)ls_units_place(&of->units, parts, part, 0, &follow),
                                    (int32_t)ls_units_count(&of->units, parts, part)};
            const ls_operand to = of->all ? ls_operand_slice(of->rows, 0, k, 1) : of->rows;
            LS_TRY(ls_executor_write(ex, &to, rows));
        }
    }
    return ls_ok();
}

ls_status ls_executor_fill_tables(ls_executor *ex) {
    const ls_image *image = ex->image;
    ex->documents = LS_NEW_ARRAY(ex->memory, bool, image->n_masks + 1);
    LS_TRY(write_update(ex));
    LS_TRY(write_rows(ex));
    const int me = ls_mesh_sequence_index(&image->mesh, ls_executor_rank(ex));
    ex->own_positions = LS_NEW_ARRAY(ex->memory, int32_t, ls_layout_count(&image->layout, me));
    ls_layout_positions(&image->layout, me, ex->own_positions);
    if (image->positions.buffer < 0) return ls_ok();
    const int64_t S = image->layout.S;
    ex->positions = LS_NEW_ARRAY(ex->memory, int32_t, ls_image_tokens(image));
    for (int p = 0; p < image->layout.P; p++)
        ls_layout_positions(&image->layout, p, ex->positions + ls_layout_start(&image->layout, p));
    for (int64_t i = S; i < ls_image_tokens(image); i++) ex->positions[i] = (int32_t)(ex->positions[i - S] + S);
    LS_TRY(ls_executor_write(ex, &image->positions, ex->positions));
    int64_t most = 0;
    for (int m = 0; m < image->n_masks; m++) most = ls_max(most, spans_of(&image->masks[m]));
    ex->spans = LS_NEW_ARRAY(ex->memory, ls_span, most);
    for (int m = 0; m < image->n_masks; m++)
        for (int64_t b = 0; has_own_spans(&image->masks[m]) && b < image->masks[m].spans.view.size[0]; b++)
            LS_TRY(write_spans(ex, &image->masks[m], b, &image->masks[m].mask));
    return ls_ok();
}

ls_status ls_executor_set_documents(ls_executor *ex, int micro, const int32_t *ends, const int *n_ends, int64_t room) {
    const ls_image *image = ex->image;
    if (ends != NULL && image->tells_masks)
        return ls_error(LS_INVALID, "documents change the masks of a program that was compiled for sequences without "
                                    "documents");
    for (int m = 0; m < image->n_masks; m++) {
        const ls_mask_binding *binding = &image->masks[m];
        const int64_t B = binding->spans.view.size[0];
        if (binding->micro != micro || !has_own_spans(binding) || (ends == NULL && !ex->documents[m])) continue;
        if (ends != NULL && binding->mask.n == LS_MASK_TERMS)
            return ls_error(LS_UNSUPPORTED, "a mask of %d terms cannot be met with documents, at most %d can",
                            binding->mask.n, LS_MASK_TERMS - 1);
        ex->documents[m] = ends != NULL;
        for (int64_t b = 0; b < B; b++) {
            ls_mask mask = binding->mask;
            if (ends != NULL)
                mask.term[mask.n++] =
                    (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends + b * room, .n_ends = n_ends[b]};
            LS_TRY(write_spans(ex, binding, b, &mask));
        }
    }
    return ls_ok();
}

/* --- global arrays ------------------------------------------------------------------------------------------------ */

/* The global index of each local index of a dimension. */
typedef struct index_map {
    int64_t n;
    int64_t global_stride; /* elements */
    int64_t first;         /* global index of local index 0; with a map, added to the map's indices */
    const int32_t *map;    /* NULL: the global indices are consecutive */
} index_map;

typedef struct transfer {
    int ndim;
    index_map dim[LS_MAX_DIMS];
    size_t element;
    bool to_local;
} transfer;

/* strides: of the global array; NULL: it is dense. */
static void make_transfer(const ls_executor *ex, const ls_binding *binding, const int64_t *strides, bool to_local,
                          transfer *t) {
    const ls_image *image = ex->image;
    *t = (transfer){
        .ndim = binding->shape.ndim, .element = ls_dtype_bytes(binding->operand.view.dtype), .to_local = to_local};
    int64_t stride = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        index_map *m = &t->dim[i];
        m->n = binding->operand.view.size[i];
        m->global_stride = strides != NULL ? strides[i] : stride;
        stride *= binding->shape.dim[i].size;
        if (binding->shape.dim[i].factor == LS_FACTOR_SEQUENCE) m->first = binding->slice * image->layout.S;
        if (!binding->cut[i]) continue;
        if (binding->shape.dim[i].factor == LS_FACTOR_BATCH) {
            m->first = m->n * ls_mesh_index(&image->mesh, binding->cut[i], ls_executor_rank(ex));
        } else {
            m->map = ex->own_positions;
        }
    }
}

static void copy(const transfer *t, char *local, char *global, size_t bytes) {
    if (t->to_local)
        memcpy(local, global, bytes);
    else
        memcpy(global, local, bytes);
}

static int64_t place_of(const index_map *m, int64_t i) {
    return ((m->map != NULL ? m->map[i] : i) + m->first) * m->global_stride;
}

/* Copies the last two dimensions, `dim` and the next one: each row is one copy. */
static size_t move_rows(const transfer *t, int dim, char *local, char *global) {
    const index_map *m = &t->dim[dim], *inside = &t->dim[dim + 1];
    const size_t bytes = t->element * (size_t)inside->n;
    for (int64_t i = 0; i < m->n; i++)
        copy(t, local + (size_t)i * bytes, global + (place_of(m, i) + inside->first) * (int64_t)t->element, bytes);
    return bytes * (size_t)m->n;
}

/*
 * Copies dimension `dim` and those inside it; an uncut innermost dimension is one copy. Returns the number of local
 * bytes.
 */
static size_t move(const transfer *t, int dim, char *local, char *global) {
    if (dim + 2 == t->ndim && dim + 2 <= LS_MAX_DIMS && t->dim[dim + 1].map == NULL)
        return move_rows(t, dim, local, global);
    if (dim >= t->ndim || dim >= LS_MAX_DIMS) {
        copy(t, local, global, t->element);
        return t->element;
    }
    const index_map *m = &t->dim[dim];
    if (dim + 1 == t->ndim && m->map == NULL) {
        const size_t bytes = t->element * (size_t)m->n;
        copy(t, local, global + (size_t)m->first * t->element, bytes);
        return bytes;
    }
    size_t done = 0;
    for (int64_t i = 0; i < m->n; i++)
        done += move(t, dim + 1, local + done, global + place_of(m, i) * (int64_t)t->element);
    return done;
}

/* Copies `count` indices of dimension `dim`, and what is inside them, through the stage, which has room for them. */
static ls_status move_run(const ls_executor *ex, const transfer *t, const ls_operand *part, int dim, int64_t start,
                          int64_t count, char *global) {
    transfer run = *t;
    index_map *m = &run.dim[dim];
    m->n = count;
    if (m->map != NULL)
        m->map += start;
    else
        m->first += start;
    const ls_operand slice = ls_operand_slice(*part, dim, start, count);
    if (!t->to_local) LS_TRY(ls_executor_read(ex, &slice, ex->stage));
    (void)move(&run, dim, ex->stage, global);
    return t->to_local ? write_operand(ex, &slice, ex->stage) : ls_ok();
}

/* Like move, for a part of the bound tensor in the device's memory. */
static ls_status move_part(const ls_executor *ex, const transfer *t, const ls_operand *part, int dim, char *global) {
    LS_ASSERT(dim < t->ndim && dim < LS_MAX_DIMS && t->dim[dim].n > 0);
    const index_map *m = &t->dim[dim];
    const int64_t inside = (int64_t)ls_operand_bytes(part) / m->n; /* bytes of one index */
    if (inside > LS_STAGE_BYTES) {
        for (int64_t i = 0; i < m->n; i++) {
            const ls_operand slice = ls_operand_slice(*part, dim, i, 1);
            LS_TRY(move_part(ex, t, &slice, dim + 1, global + place_of(m, i) * (int64_t)t->element));
        }
        return ls_ok();
    }
    const int64_t most = LS_STAGE_BYTES / inside;
    for (int64_t i = 0; i < m->n; i += most) LS_TRY(move_run(ex, t, part, dim, i, ls_min(most, m->n - i), global));
    return ls_ok();
}

/* Copies this rank's part of a tensor of the flat space from or to whole parameters. */
static ls_status transfer_flat(const ls_executor *ex, const ls_binding *binding, char *global, bool to_local) {
    const ls_image *image = ex->image;
    const size_t element = ls_dtype_bytes(binding->operand.view.dtype);
    for (int f = 0; f < image->n_flats; f++) {
        ls_flat_runs r = ls_flat_runs_of(image, binding, &image->flats[f], ls_executor_rank(ex), 0);
        while (ls_flat_next(&r)) {
            const ls_operand own = ls_operand_slice(binding->operand, 0, r.run.part.at, r.run.part.count);
            char *there = global + (size_t)ls_flat_on_host(&image->flats[f], r.run.whole) * element;
            LS_TRY(to_local ? write_operand(ex, &own, there) : ls_executor_read(ex, &own, there));
        }
    }
    return ls_ok();
}

static ls_status transfer_all(const ls_executor *ex, const ls_binding *binding, char *global, const int64_t *strides,
                              bool to_local) {
    transfer t;
    LS_ASSERT(!binding->flat || strides == NULL);
    if (binding->flat) return transfer_flat(ex, binding, global, to_local);
    make_transfer(ex, binding, strides, to_local, &t);
    if (ls_operand_is_empty(&binding->operand)) return ls_ok();
    void *own = ls_executor_host_address(ex, &binding->operand);
    if (own != NULL && ls_view_is_dense(&binding->operand.view)) {
        (void)move(&t, 0, own, global);
        return ls_ok();
    }
    if (t.ndim > 0) return move_part(ex, &t, &binding->operand, 0, global);
    return to_local ? write_operand(ex, &binding->operand, global) : ls_executor_read(ex, &binding->operand, global);
}

ls_status ls_executor_scatter(ls_executor *ex, const ls_binding *binding, const void *global) {
    return transfer_all(ex, binding, (char *)(uintptr_t)global, NULL, true);
}

ls_status ls_executor_gather(const ls_executor *ex, const ls_binding *binding, void *global) {
    return transfer_all(ex, binding, global, NULL, false);
}

ls_status ls_executor_scatter_strided(ls_executor *ex, const ls_binding *binding, const void *global,
                                      const int64_t *strides) {
    return transfer_all(ex, binding, (char *)(uintptr_t)global, strides, true);
}

ls_status ls_executor_gather_strided(const ls_executor *ex, const ls_binding *binding, void *global,
                                     const int64_t *strides) {
    return transfer_all(ex, binding, global, strides, false);
}
