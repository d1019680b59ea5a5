/* Between the host's global arrays and a rank's local parts; and the tables that depend on the layout alone. */
#include "run/executor_impl.h"

#include <string.h>

void ls_executor_fill_tables(ls_executor *ex) {
    const ls_image *image = ex->image;
    const int me = ls_mesh_sequence_index(&image->mesh, image->rank);
    ex->own_positions = LS_NEW_ARRAY(ex->arena, int32_t, ls_layout_count(&image->layout, me));
    ls_layout_positions(&image->layout, me, ex->own_positions);
    if (image->n_masks == 0) return;
    int32_t *positions = ls_executor_address(ex, &image->positions);
    for (int p = 0; p < image->layout.P; p++)
        ls_layout_positions(&image->layout, p, positions + ls_layout_start(&image->layout, p));
    for (int m = 0; m < image->n_masks; m++) {
        const ls_mask_binding *mask = &image->masks[m];
        const int64_t n = mask->query_count, B = mask->spans.view.size[0];
        const int64_t width = mask->spans.view.size[2] / 2;
        ls_span *spans = ls_executor_address(ex, &mask->spans);
        for (int64_t b = 0; b < B; b++)
            ls_mask_table(&mask->mask, image->layout.S, positions + mask->query_start, n,
                          spans + b * n * width);
    }
}

/* Where each local index of a dimension lies globally. */
typedef struct index_map {
    int64_t n;
    int64_t global_stride; /* elements */
    int64_t first;         /* of a run; used when map is NULL */
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
    *t = (transfer){.ndim = binding->shape.ndim,
                    .element = ls_dtype_bytes(binding->operand.view.dtype),
                    .to_local = to_local};
    int64_t stride = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        index_map *m = &t->dim[i];
        m->n = binding->operand.view.size[i];
        m->global_stride = stride;
        stride *= binding->shape.dim[i].size;
        if (!binding->cut[i]) continue;
        if (binding->shape.dim[i].factor == LS_FACTOR_BATCH) {
            m->first = m->n * ls_mesh_coordinate(&image->mesh, image->rank, LS_AXIS_DP);
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

/* Walks the dimensions; the innermost is copied as a run where it is whole. Returns the local bytes done. */
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
