/* Kernels that move data: copy, accumulate and cast of strided views, element by element; fill, offload, fetch;
 * cache_write. */
#include <string.h>

#include "kernel/ref/ref_impl.h"

/* Walks the elements of a view in order: `at` is the offset of the current one. */
typedef struct walk {
    const ls_view *view;
    int64_t index[LS_MAX_DIMS], at;
} walk;

static void step(walk *w) {
    for (int d = w->view->ndim - 1; d >= 0; d--) {
        w->at += w->view->stride[d];
        if (++w->index[d] < w->view->size[d]) return;
        w->at -= w->index[d] * w->view->stride[d];
        w->index[d] = 0;
    }
}

static ls_status prepare_copy(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_COPY, call->n_in > 0 ? call->in[0].dtype : LS_REAL, call);
}

static void run_copy(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const size_t bytes = ls_dtype_bytes(call->in[0].dtype);
    walk from = {.view = &call->in[0]}, to = {.view = &call->out[0]};
    for (int64_t i = 0, n = ls_view_elements(from.view); i < n; i++, step(&from), step(&to))
        memcpy((char *)to.view->data + to.at * (int64_t)bytes, (const char *)from.view->data + from.at * (int64_t)bytes,
               bytes);
}

static ls_status prepare_accumulate(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ACCUMULATE, LS_REAL, call);
}

static void run_accumulate(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    walk from = {.view = &call->in[0]}, to = {.view = &call->out[0]};
    for (int64_t i = 0, n = ls_view_elements(from.view); i < n; i++, step(&from), step(&to)) y[to.at] += x[from.at];
}

static ls_status prepare_fill(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_FILL, call->n_out > 0 ? call->out[0].dtype : LS_REAL, call);
}

static void run_fill(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const ls_view *y = &call->out[0];
    memset(y->data, 0, ls_view_bytes(y));
}

static ls_status prepare_cast(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CAST, call->n_in > 0 ? call->in[0].dtype : LS_REAL, call);
}

static double load(const ls_view *view, int64_t i) {
    if (view->dtype == LS_F64) return ((const double *)view->data)[i];
    if (view->dtype == LS_F32) return (double)((const float *)view->data)[i];
    return (double)ls_bf16_to_f32(((const ls_bf16 *)view->data)[i]);
}

/*
 * An f32 such that rounding it to bf16 gives the same result as rounding `value` directly: f64 is rounded to bf16 by
 * way of f32.
 */
static float round_to_odd(double value) {
    float nearest = (float)value;
    if ((double)nearest == value || isnan(value) || isinf(nearest)) return nearest;
    uint32_t bits;
    if (fabs((double)nearest) > fabs(value)) nearest = nextafterf(nearest, 0.0f);
    memcpy(&bits, &nearest, sizeof bits);
    bits |= 1u;
    memcpy(&nearest, &bits, sizeof bits);
    return nearest;
}

static void save(const ls_view *view, int64_t i, double value) {
    if (view->dtype == LS_F64)
        ((double *)view->data)[i] = value;
    else if (view->dtype == LS_F32)
        ((float *)view->data)[i] = (float)value;
    else
        ((ls_bf16 *)view->data)[i] = ls_bf16_from_f32(round_to_odd(value));
}

static void run_cast(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    walk from = {.view = &call->in[0]}, to = {.view = &call->out[0]};
    for (int64_t i = 0, n = ls_view_elements(from.view); i < n; i++, step(&from), step(&to))
        save(to.view, to.at, load(from.view, from.at));
}

/* --- offload and fetch: a host has one memory, so both are copies ------------------------------------------------- */

static ls_dtype type_of(const ls_kernel_call *call) { return call->n_in > 0 ? call->in[0].dtype : LS_REAL; }

static ls_status prepare_offload(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_OFFLOAD, type_of(call), call);
}

static ls_status prepare_fetch(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_FETCH, type_of(call), call);
}

static void run_dense_copy(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const size_t bytes = ls_view_bytes(&call->in[0]);
    if (bytes > 0) memcpy(call->out[0].data, call->in[0].data, bytes);
}

/* --- cache_write -------------------------------------------------------------------------------------------------- */

static ls_status prepare_write(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CACHE_WRITE, call->n_in > 0 ? call->in[0].dtype : LS_REAL, call);
}

/* Index of a position among n ascending ones, or -1. */
static int64_t find_position(const int32_t *positions, int64_t n, int32_t wanted) {
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (positions[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && positions[low] == wanted ? low : -1;
}

static void run_write(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const ls_view *x = &call->in[0], *cache = &call->out[0];
    const int32_t *positions = call->in[1].data, *kpos = call->in[2].data;
    const int64_t m = x->size[1], t = cache->size[1];
    const size_t row = (size_t)(x->size[2] * x->size[3]) * ls_dtype_bytes(x->dtype);
    for (int64_t i = 0; i < x->size[0] * m; i++) {
        const int64_t at = find_position(kpos, t, positions[i]);
        if (at >= 0)
            memcpy((char *)cache->data + (size_t)(i / m * t + at) * row, (const char *)x->data + (size_t)i * row, row);
    }
}

const ls_kernel REF(copy) = {.id = LS_KERNEL_COPY, .dtype = LS_REAL, .prepare = prepare_copy, .run = run_copy};
const ls_kernel REF(accumulate) = {
    .id = LS_KERNEL_ACCUMULATE, .dtype = LS_REAL, .prepare = prepare_accumulate, .run = run_accumulate};
const ls_kernel REF(fill) = {.id = LS_KERNEL_FILL, .dtype = LS_REAL, .prepare = prepare_fill, .run = run_fill};
const ls_kernel REF(cast) = {.id = LS_KERNEL_CAST, .dtype = LS_REAL, .prepare = prepare_cast, .run = run_cast};
const ls_kernel REF(offload) = {
    .id = LS_KERNEL_OFFLOAD, .dtype = LS_REAL, .prepare = prepare_offload, .run = run_dense_copy};
const ls_kernel REF(fetch) = {.id = LS_KERNEL_FETCH, .dtype = LS_REAL, .prepare = prepare_fetch, .run = run_dense_copy};
const ls_kernel REF(cache_write) = {
    .id = LS_KERNEL_CACHE_WRITE, .dtype = LS_REAL, .prepare = prepare_write, .run = run_write};
#if !LS_REAL_IS_F64
const ls_kernel REF(copy_bf16) = {.id = LS_KERNEL_COPY, .dtype = LS_BF16, .prepare = prepare_copy, .run = run_copy};
const ls_kernel REF(copy_i32) = {.id = LS_KERNEL_COPY, .dtype = LS_I32, .prepare = prepare_copy, .run = run_copy};
const ls_kernel REF(fill_bf16) = {.id = LS_KERNEL_FILL, .dtype = LS_BF16, .prepare = prepare_fill, .run = run_fill};
const ls_kernel REF(fill_i32) = {.id = LS_KERNEL_FILL, .dtype = LS_I32, .prepare = prepare_fill, .run = run_fill};
const ls_kernel REF(cast_bf16) = {.id = LS_KERNEL_CAST, .dtype = LS_BF16, .prepare = prepare_cast, .run = run_cast};
const ls_kernel REF(offload_bf16) = {
    .id = LS_KERNEL_OFFLOAD, .dtype = LS_BF16, .prepare = prepare_offload, .run = run_dense_copy};
const ls_kernel REF(offload_i32) = {
    .id = LS_KERNEL_OFFLOAD, .dtype = LS_I32, .prepare = prepare_offload, .run = run_dense_copy};
const ls_kernel REF(fetch_i32) = {
    .id = LS_KERNEL_FETCH, .dtype = LS_I32, .prepare = prepare_fetch, .run = run_dense_copy};
const ls_kernel REF(fetch_bf16) = {
    .id = LS_KERNEL_FETCH, .dtype = LS_BF16, .prepare = prepare_fetch, .run = run_dense_copy};
const ls_kernel REF(cache_write_bf16) = {
    .id = LS_KERNEL_CACHE_WRITE, .dtype = LS_BF16, .prepare = prepare_write, .run = run_write};
#define COPIES_OF(name, type)                                                                         \
    const ls_kernel REF(copy_##name) = {                                                              \
        .id = LS_KERNEL_COPY, .dtype = (type), .prepare = prepare_copy, .run = run_copy};             \
    const ls_kernel REF(offload_##name) = {                                                           \
        .id = LS_KERNEL_OFFLOAD, .dtype = (type), .prepare = prepare_offload, .run = run_dense_copy}; \
    const ls_kernel REF(fetch_##name) = {                                                             \
        .id = LS_KERNEL_FETCH, .dtype = (type), .prepare = prepare_fetch, .run = run_dense_copy};
REF_BLOCK_TYPES(COPIES_OF)
#endif
