/* What a worker reads: parameters from its own memory; gradients and tensors put together from all ranks' parts. */
#include "session/session_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* n elements from element `first` on, as f64. */
static void widen(ls_dtype dtype, const void *from, int64_t first, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = first + i;
        if (dtype == LS_F64)
            out[i] = ((const double *)from)[at];
        else if (dtype == LS_F32)
            out[i] = (double)((const float *)from)[at];
        else if (dtype == LS_BF16)
            out[i] = (double)ls_bf16_to_f32(((const ls_bf16 *)from)[at]);
        else
            out[i] = ((const int32_t *)from)[at];
    }
}

ls_status ls_worker_get_parameter(ls_worker *w, const char *name, double *out) {
    LS_TRY(ls_worker_check(w));
    LS_NEED(name, "name");
    const ls_rank *rank = w->state->rank;
    const ls_flat *flat = ls_worker_flat(w, name);
    if (flat == NULL) return ls_worker_unknown(w, "parameter", name, LS_ROLE_PARAMETER);
    if (out == NULL) return ls_ok();
    const void *all = ls_executor_tensor(rank->executor, LS_BIND_PARAMETERS);
    widen(rank->image->dtype, all, flat->start, flat->count, out);
    return ls_ok();
}

/* --- put together ---------------------------------------------------------------------------------------------------------------- */

/* After everyone has written: out from the exchange, which is zeros when all have returned. */
static ls_status take(ls_worker *w, ls_dtype dtype, int64_t n, double *out) {
    const ls_engine *e = w->state->engine;
    ls_comm *comm = w->state->rank->comm;
    LS_TRY(ls_comm_barrier(comm));
    if (out != NULL) widen(dtype, e->exchange, 0, n, out);
    LS_TRY(ls_comm_barrier(comm));
    if (w->rank == 0) {
        memset(e->exchange, 0, ls_dtype_bytes(dtype) * (size_t)n);
        /* a wish: some systems say yes and do nothing */
        (void)madvise(e->exchange, e->exchange_bytes, MADV_REMOVE);
    }
    return ls_comm_barrier(comm);
}

ls_status ls_worker_get_gradient(ls_worker *w, const char *name, double *out) {
    LS_TRY(ls_worker_check(w));
    LS_NEED(name, "name");
    const ls_rank *rank = w->state->rank;
    const ls_image *image = rank->image;
    const ls_flat *flat = ls_worker_flat(w, name);
    if (flat == NULL) return ls_worker_unknown(w, "parameter", name, LS_ROLE_PARAMETER);
    if (w->state->engine->options.purpose != LS_TO_DIFFERENTIATE)
        return ls_error(LS_USAGE, "gradient of \"%s\": only an engine opened to differentiate keeps it",
                        name);
    const size_t element = ls_dtype_bytes(image->accumulator);
    const char *shard = ls_executor_tensor(rank->executor, LS_BIND_SHARD);
    for (int p = 0; p < image->n_pieces; p++) {
        const ls_flat_piece part = ls_piece_within(&image->pieces[p], flat->start, flat->count);
        if (part.count > 0)
            memcpy((char *)w->state->engine->exchange + element * (size_t)(part.start - flat->start),
                   shard + element * (size_t)part.at, element * (size_t)part.count);
    }
    return take(w, image->accumulator, flat->count, out);
}

/* --- tensors ----------------------------------------------------------------------------------------------------------------------- */

static bool is_cut_along(const ls_binding *binding, ls_axis axis) {
    const ls_factor factor = axis == LS_AXIS_DP ? LS_FACTOR_BATCH : LS_FACTOR_SEQUENCE;
    for (int i = 0; i < binding->shape.ndim; i++) {
        if (binding->cut[i] && binding->shape.dim[i].factor == factor) return true;
    }
    return false;
}

/* Where ranks hold the same, the first of them speaks. */
static bool speaks(const ls_image *image, const ls_binding *binding) {
    for (int a = 0; a < LS_AXES; a++) {
        if (!binding->partial[a] && !is_cut_along(binding, (ls_axis)a) &&
            ls_mesh_coordinate(&image->mesh, image->rank, (ls_axis)a) != 0)
            return false;
    }
    return true;
}

/* Adds this rank's part to a sum of f64. */
static ls_status add_part(ls_worker *w, const ls_binding *binding, int64_t n) {
    const ls_dtype dtype = binding->operand.view.dtype;
    double *sum = w->state->engine->exchange;
    void *part = calloc((size_t)n, ls_dtype_bytes(dtype));
    double *wide = malloc(sizeof *wide * (size_t)n);
    ls_status status =
        ls_error(LS_NO_MEMORY, "no memory to read %lld elements of \"%s\"", (long long)n, binding->name);
    if (part != NULL && wide != NULL) {
        ls_executor_gather(w->state->rank->executor, binding, part);
        widen(dtype, part, 0, n, wide);
        for (int64_t i = 0; i < n; i++) sum[i] += wide[i];
        status = ls_ok();
    }
    free(part);
    free(wide);
    return status;
}

/* Rank after rank, so that the sum has one order. */
static ls_status sum_parts(ls_worker *w, const ls_binding *binding, int64_t n) {
    ls_comm *comm = w->state->rank->comm;
    for (int r = 0; r < w->ranks; r++) {
        const bool mine = r == w->rank && speaks(w->state->rank->image, binding);
        LS_TRY(ls_comm_agree(comm, mine ? add_part(w, binding, n) : ls_ok()));
    }
    return ls_ok();
}

static bool may_be_read(const ls_engine *e, const char *name) {
    for (int i = 0; i < e->options.n_read; i++) {
        if (strcmp(ls_graph_tensor(e->graph, e->options.read[i])->name, name) == 0) return true;
    }
    return false;
}

ls_status ls_worker_get_tensor(ls_worker *w, const char *name, double *out) {
    LS_TRY(ls_worker_check(w));
    LS_NEED(name, "name");
    const ls_engine *e = w->state->engine;
    const ls_rank *rank = w->state->rank;
    if (!may_be_read(e, name))
        return ls_error(LS_USAGE, "tensor \"%s\" was not among those to be read when the engine was opened",
                        name);
    const ls_binding *binding = ls_image_find(rank->image, name);
    const int64_t n = ls_shape_elements(&binding->shape);
    bool partial = false;
    for (int a = 0; a < LS_AXES; a++) partial |= binding->partial[a];
    if (partial) {
        LS_TRY(sum_parts(w, binding, n));
        return take(w, LS_F64, n, out);
    }
    if (speaks(rank->image, binding)) ls_executor_gather(rank->executor, binding, e->exchange);
    return take(w, binding->operand.view.dtype, n, out);
}
