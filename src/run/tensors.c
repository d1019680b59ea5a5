/* Copies between global arrays and a rank's local parts; fills the tables of positions, mask spans and the update. */
#include "run/executor_impl.h"

#include <string.h>

/*
 * Fills the rows of sequence b in a table of spans. The mask may show less than the mask that the program was compiled
 * for.
 */
static void fill_spans(const ls_executor *ex, const ls_mask_binding *binding, int64_t b, const ls_mask *mask) {
    const int64_t n = binding->query_count, width = binding->spans.view.size[2] / 2;
    const int32_t *positions = ls_executor_address(ex, &ex->image->positions);
    ls_span *spans = ls_executor_address(ex, &binding->spans);
    LS_ASSERT(ls_mask_width(mask) == width);
    ls_mask_table(mask, ex->image->layout.S, positions + binding->query_start, n, spans + b * n * width);
}

/*
 * The group of a parameter for every unit of this rank's shard that holds some of it, -1 for the others; and the
 * settings.
 */
static void fill_update(const ls_executor *ex) {
    const ls_image *image = ex->image;
    const ls_binding *groups = ls_image_find(image, LS_BIND_GROUPS);
    if (groups == NULL) return; /* nothing is updated */
    int32_t *group = ls_executor_address(ex, &groups->operand);
    for (int64_t u = 0; u < image->shard_count / LS_FLAT_UNIT; u++) group[u] = -1;
    for (int p = 0; p < image->n_pieces; p++) {
        const ls_flat_piece piece = ls_image_piece(image, p, ls_executor_rank(ex));
        for (int f = 0; f < image->n_flats; f++) {
            const ls_flat *flat = &image->flats[f];
            const ls_flat_piece part = ls_piece_within(&piece, flat->start, flat->count);
            for (int64_t i = part.at; i < part.at + part.count; i += LS_FLAT_UNIT)
                group[i / LS_FLAT_UNIT] = flat->group;
        }
    }
    memcpy(ls_executor_address(ex, &ls_image_find(image, LS_BIND_SETTINGS)->operand), image->settings,
           sizeof *image->settings * (size_t)image->n_settings);
}

void ls_executor_fill_tables(ls_executor *ex) {
    const ls_image *image = ex->image;
    fill_update(ex);
    const int me = ls_mesh_sequence_index(&image->mesh, ls_executor_rank(ex));
    ex->own_positions = LS_NEW_ARRAY(ex->arena, int32_t, ls_layout_count(&image->layout, me));
    ls_layout_positions(&image->layout, me, ex->own_positions);
    if (image->positions.buffer < 0) return;
    int32_t *positions = ls_executor_address(ex, &image->positions);
    for (int p = 0; p < image->layout.P; p++)
        ls_layout_positions(&image->layout, p, positions + ls_layout_start(&image->layout, p));
    for (int m = 0; m < image->n_masks; m++)
        for (int64_t b = 0; b < image->masks[m].spans.view.size[0]; b++)
            fill_spans(ex, &image->masks[m], b, &image->masks[m].mask);
}

ls_status ls_executor_set_documents(ls_executor *ex, const int32_t *ends, const int *n_ends, int64_t room) {
    const ls_image *image = ex->image;
    if (ends == NULL && !ex->documents) return ls_ok();
    ex->documents = ends != NULL;
    for (int m = 0; m < image->n_masks; m++) {
        const ls_mask_binding *binding = &image->masks[m];
        const int64_t B = binding->spans.view.size[0];
        const int64_t first = B * ls_mesh_coordinate(&image->mesh, ls_executor_rank(ex), LS_AXIS_DP);
        if (ends != NULL && binding->mask.n == LS_MASK_TERMS)
            return ls_error(LS_UNSUPPORTED, "a mask of %d terms cannot be met with documents, at most %d can",
                            binding->mask.n, LS_MASK_TERMS - 1);
        for (int64_t b = 0; b < B; b++) {
            ls_mask mask = binding->mask;
            if (ends != NULL)
                mask.term[mask.n++] = (ls_mask_term){
                    .kind = LS_MASK_DOCUMENTS, .ends = ends + (first + b) * room, .n_ends = n_ends[first + b]};
            fill_spans(ex, binding, b, &mask);
        }
    }
    return ls_ok();
}

/* The global index of each local index of a dimension. */
typedef struct index_map {
    int64_t n;
    int64_t global_stride; /* elements */
    int64_t first;         /* global index of local index 0; used when map is NULL */
    const int32_t *map;
} index_map;

typedef struct transfer {
    int ndim;
    index_map dim[LS_MAX_DIMS];
    size_t element;
    bool to_local;
} transfer;

static void make_transfer(const ls_executor *ex, const ls_binding *binding, bool to_local, transfer *t) {
    const ls_image *image = ex->image;
    *t = (transfer){
        .ndim = binding->shape.ndim, .element = ls_dtype_bytes(binding->operand.view.dtype), .to_local = to_local};
    int64_t stride = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        index_map *m = &t->dim[i];
        m->n = binding->operand.view.size[i];
        m->global_stride = stride;
        stride *= binding->shape.dim[i].size;
        if (!binding->cut[i]) continue;
        if (binding->shape.dim[i].factor == LS_FACTOR_BATCH) {
            m->first = m->n * ls_mesh_coordinate(&image->mesh, ls_executor_rank(ex), LS_AXIS_DP);
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

/*
 * Copies dimension `dim` and those inside it; an uncut innermost dimension is one copy. Returns the number of local
 * bytes.
 */
static size_t move(const transfer *t, int dim, char *local, char *global) {
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
    for (int64_t i = 0; i < m->n; i++) {
        const int64_t at = m->map != NULL ? m->map[i] : m->first + i;
        done += move(t, dim + 1, local + done, global + (size_t)(at * m->global_stride) * t->element);
    }
    return done;
}

static void transfer_all(const ls_executor *ex, const ls_binding *binding, char *global, bool to_local) {
    transfer t;
    make_transfer(ex, binding, to_local, &t);
    (void)move(&t, 0, ls_executor_address(ex, &binding->operand), global);
}

void ls_executor_scatter(ls_executor *ex, const ls_binding *binding, const void *global) {
    transfer_all(ex, binding, (char *)(uintptr_t)global, true);
}

void ls_executor_gather(const ls_executor *ex, const ls_binding *binding, void *global) {
    transfer_all(ex, binding, global, false);
}
