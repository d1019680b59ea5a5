/*
 * Global arrays in memory of the device, and a rank's parts of them: a part is copied as boxes, and a box as rows that
 * are equally far apart in the array, and equally far apart in the arena.
 */
#include "run/executor_impl.h"

/* The largest distance of rows in a copy. */
#define MOST_PITCH INT32_MAX

/* `n` indices of a dimension, and the bytes from one to the next. */
typedef struct axis {
    int64_t n, own, theirs;
} axis;

typedef struct box {
    ls_executor *ex;
    const ls_device_arena *arena;
    size_t own; /* the offset of the box in the arena */
    char *theirs;
    int64_t width; /* bytes that are contiguous in both */
    int n_axes;
    axis axes[LS_MAX_DIMS];
    bool in;
} box;

/* --- a box -------------------------------------------------------------------------------------------------------- */

static axis take_axis(box *b, int i) {
    const axis taken = b->axes[i];
    b->axes[i] = b->axes[--b->n_axes];
    return taken;
}

/* Makes one row of what is contiguous in both. */
static void join_axes(box *b) {
    for (int i = 0; i < b->n_axes; i++) {
        if (b->axes[i].own != b->width || b->axes[i].theirs != b->width) continue;
        b->width *= take_axis(b, i).n;
        i = -1;
    }
}

static bool has_pitch(const box *b, const axis *a) {
    return a->own >= b->width && a->theirs >= b->width && a->own <= MOST_PITCH && a->theirs <= MOST_PITCH;
}

/* Takes the longest dimension whose indices can be the rows of one copy; if there is none, a single row. */
static axis take_rows(box *b) {
    int longest = -1;
    for (int i = 0; i < b->n_axes; i++)
        if (has_pitch(b, &b->axes[i]) && (longest < 0 || b->axes[i].n > b->axes[longest].n)) longest = i;
    return longest < 0 ? (axis){.n = 1} : take_axis(b, longest);
}

static ls_status copy_rows(const box *b, const axis *rows, size_t own, char *theirs, int n_axes) {
    if (n_axes == 0) {
        const ls_device_rows copy = {.at = own,
                                     .pitch = (size_t)rows->own,
                                     .theirs = theirs,
                                     .their_pitch = (size_t)rows->theirs,
                                     .width = (size_t)b->width,
                                     .rows = (size_t)rows->n,
                                     .in = b->in};
        return ls_device_copy(b->ex->device, b->arena, &copy);
    }
    const axis *a = &b->axes[n_axes - 1];
    for (int64_t i = 0; i < a->n; i++)
        LS_TRY(copy_rows(b, rows, own + (size_t)(i * a->own), theirs + i * a->theirs, n_axes - 1));
    return ls_ok();
}

static ls_status copy_box(box b) {
    for (int i = b.n_axes - 1; i >= 0; i--)
        if (b.axes[i].n == 1) (void)take_axis(&b, i);
    join_axes(&b);
    const axis rows = take_rows(&b);
    return copy_rows(&b, &rows, b.own, b.theirs, b.n_axes);
}

/* --- a rank's part as boxes --------------------------------------------------------------------------------------- */

/* How many positions from the first one on are equally far apart. */
static int64_t run_of(const int32_t *positions, int64_t n) {
    int64_t i = ls_min(n, 2);
    while (i < n && positions[i] - positions[i - 1] == positions[1] - positions[0]) i++;
    return i;
}

static ls_status copy_from(box b, const ls_binding *binding, const int64_t *strides, int dim);

/* Copies a dimension of which the rank has some positions: a box for each run of equally distant positions. */
static ls_status copy_runs(box b, const ls_binding *binding, const int64_t *strides, int dim, axis a) {
    const int32_t *positions = b.ex->own_positions;
    char *const array = b.theirs;
    for (int64_t i = 0, n; i < a.n; i += n) {
        n = run_of(positions + i, a.n - i);
        box run = b;
        run.own += (size_t)(i * a.own);
        run.theirs = array + positions[i] * a.theirs;
        run.axes[run.n_axes++] = (axis){n, a.own, n > 1 ? (positions[i + 1] - positions[i]) * a.theirs : 0};
        LS_TRY(copy_from(run, binding, strides, dim + 1));
    }
    return ls_ok();
}

/* Adds dimension `dim` and those after it. */
static ls_status copy_from(box b, const ls_binding *binding, const int64_t *strides, int dim) {
    const ls_view *view = &binding->operand.view;
    if (dim == view->ndim) return copy_box(b);
    const int64_t element = (int64_t)ls_dtype_bytes(view->dtype);
    const axis a = {view->size[dim], view->stride[dim] * element, strides[dim] * element};
    const bool batch = binding->shape.dim[dim].factor == LS_FACTOR_BATCH;
    if (binding->cut[dim] && !batch) return copy_runs(b, binding, strides, dim, a);
    if (binding->cut[dim])
        b.theirs += a.n * ls_mesh_index(&b.ex->image->mesh, binding->cut[dim], ls_executor_rank(b.ex)) * a.theirs;
    b.axes[b.n_axes++] = a;
    return copy_from(b, binding, strides, dim + 1);
}

static ls_status copy_part(ls_executor *ex, const ls_binding *binding, const void *array, const int64_t *strides,
                           bool in) {
    const ls_operand *own = &binding->operand;
    LS_ASSERT(!binding->flat && ls_peer_is_self(own->peer));
    if (ls_operand_is_empty(own)) return ls_ok();
    const box all = {.ex = ex,
                     .arena = ex->arena[ex->image->buffers[own->buffer].space],
                     .own = ls_operand_range(ex->image, own, ls_executor_rank(ex)).offset,
                     .theirs = (char *)(uintptr_t)array, /* written only if the rank gathers into it */
                     .width = (int64_t)ls_dtype_bytes(own->view.dtype),
                     .in = in};
    return copy_from(all, binding, strides, 0);
}

ls_status ls_executor_scatter_on_device(ls_executor *ex, const ls_binding *binding, const void *array,
                                        const int64_t *strides) {
    return copy_part(ex, binding, array, strides, true);
}

ls_status ls_executor_gather_on_device(ls_executor *ex, const ls_binding *binding, void *array,
                                       const int64_t *strides) {
    return copy_part(ex, binding, array, strides, false);
}

ls_status ls_executor_finish_on_device(ls_executor *ex) { return ls_device_finish(ex->device); }
ls_status ls_executor_follow(ls_executor *ex, void *stream) { return ls_device_follow(ex->device, stream); }
ls_status ls_executor_knows(ls_executor *ex, const void *address) { return ls_device_knows(ex->device, address); }
