/*
 * reduce_max, y[o,i] = the largest x[o,r,i] over r, and its gradient. NaN counts as larger than any number. Along rows
 * (I = 1) the lanes of a vector have elements of one row, otherwise elements of adjacent columns.
 */
#include <math.h>

#include "kernel/cpu/cpu_impl.h"

/* A row of a call, or some of its columns: element (r, c) is at index `at` + r * `step` + c. */
typedef struct lines {
    const ls_view *x;
    int64_t at, step;
    int64_t R, columns; /* at most V_LANES */
} lines;

/* Per lane. NOLINTNEXTLINE(misc-redundant-expression): NaN differs from itself */
V_INLINE v_i32 is_nan(v_f32 v) { return (v_i32)(v != v); }
V_INLINE v_i32 is_larger(v_f32 v, v_f32 than) { return (v_i32)(v > than) | (is_nan(v) & ~is_nan(than)); }
V_INLINE v_i32 is_equal(v_f32 v, v_f32 to) { return (v_i32)(v == to) | (is_nan(v) & is_nan(to)); }

V_INLINE v_f32 load(const ls_view *x, int64_t i, int64_t count) {
    return v_load_either(x->data, x->dtype == LS_F32, i, count);
}

V_INLINE void store(const ls_view *y, int64_t i, v_f32 v, int64_t count) {
    if (y->dtype == LS_F32)
        v_store_f32((float *)y->data + i, v, count);
    else
        v_store((element *)y->data + i, v, count);
}

/* --- along rows --------------------------------------------------------------------------------------------------- */

/* Elements from r on of the row that begins at `at`; lanes behind its end are `rest`. */
V_INLINE v_f32 row_at(const ls_view *x, int64_t at, int64_t r, float rest) {
    const int64_t left = x->size[1] - r;
    v_f32 v = load(x, at + r, left);
    for (int64_t l = left; l < V_LANES; l++) v[l] = rest;
    return v;
}

/* *first = the index of the first element that equals the largest. */
static float largest_of_row(const ls_view *x, int64_t at, int64_t *first) {
    v_f32 most = v_set(-INFINITY);
    v_i32 found = {0};
    for (int64_t r = 0; r < x->size[1]; r += V_LANES) {
        const v_f32 v = row_at(x, at, r, -INFINITY);
        const v_i32 larger = is_larger(v, most);
        most = v_select(larger, v, most);
        found = (larger & (int32_t)r) | (~larger & found);
    }
    float largest = most[0];
    *first = found[0];
    for (int l = 1; l < V_LANES; l++) {
        const bool larger = most[l] > largest || (isnan(most[l]) && !isnan(largest)),
                   equal = most[l] == largest || (isnan(most[l]) && isnan(largest));
        if (larger || (equal && found[l] + l < *first)) *first = found[l] + l;
        largest = larger ? most[l] : largest;
    }
    return largest;
}

/* Per lane of the row from r on: -1 if the element equals the largest, else 0. */
V_INLINE v_i32 equal_in_row(const ls_view *x, int64_t at, int64_t r, float largest) {
    v_i32 equal = is_equal(row_at(x, at, r, 0), v_set(largest));
    for (int64_t l = x->size[1] - r; l < V_LANES; l++) equal[l] = 0;
    return equal;
}

static int64_t count_in_row(const ls_view *x, int64_t at, float largest) {
    int64_t n = 0;
    v_i32 counts = {0};
    for (int64_t r = 0; r < x->size[1]; r += V_LANES) counts -= equal_in_row(x, at, r, largest);
    for (int l = 0; l < V_LANES; l++) n += counts[l];
    return n;
}

/*
 * The gradient of a row's maximum goes to all elements that equal the maximum (shared), or only to the first of them.
 */
static void spread_in_row(const ls_view *x, const ls_view *dx, int64_t at, float own, bool shared) {
    int64_t first;
    const float largest = largest_of_row(x, at, &first);
    const v_f32 each = v_set(shared ? own / (float)count_in_row(x, at, largest) : own), none = {0};
    for (int64_t r = 0; r < x->size[1]; r += V_LANES) {
        const v_i32 takes = shared ? equal_in_row(x, at, r, largest) : (v_i32){0};
        store(dx, at + r, v_select(takes, each, none), x->size[1] - r);
    }
    if (!shared) store(dx, at + first, each, 1);
}

/* --- along columns ------------------------------------------------------------------------------------------------ */

/* Per column; *first = the row of the first element that equals the largest. */
static v_f32 largest_of_columns(const lines *s, v_i32 *first) {
    v_f32 most = load(s->x, s->at, s->columns);
    *first = (v_i32){0};
    for (int64_t r = 1; r < s->R; r++) {
        const v_f32 v = load(s->x, s->at + r * s->step, s->columns);
        const v_i32 larger = is_larger(v, most);
        most = v_select(larger, v, most);
        *first = (larger & (int32_t)r) | (~larger & *first);
    }
    return most;
}

static void spread_in_columns(const lines *s, const ls_view *dx, v_f32 own, bool shared) {
    v_i32 first, counts = {0};
    const v_f32 largest = largest_of_columns(s, &first), none = {0};
    for (int64_t r = 0; r < s->R && shared; r++)
        counts -= is_equal(load(s->x, s->at + r * s->step, s->columns), largest);
    const v_f32 each = shared ? own / __builtin_convertvector(counts, v_f32) : own;
    for (int64_t r = 0; r < s->R; r++) {
        const v_i32 takes =
            shared ? is_equal(load(s->x, s->at + r * s->step, s->columns), largest) : (v_i32)(first == (int32_t)r);
        store(dx, s->at + r * s->step, v_select(takes, each, none), s->columns);
    }
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Block k of V_LANES columns; *y: its first maximum. */
V_INLINE lines block_of(const ls_view *x, int64_t k, int64_t *y) {
    const int64_t R = x->size[1], I = x->size[2], blocks = ls_ceil_div(I, V_LANES);
    const int64_t o = k / blocks, c = k % blocks * V_LANES;
    *y = o * I + c;
    return (lines){x, o * R * I + c, I, R, ls_min(V_LANES, I - c)};
}

static void max_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *x = &call->in[0];
    float *y = call->out[0].data;
    for (int64_t k = first; k < last; k++) {
        int64_t to;
        v_i32 rows;
        int64_t row;
        const lines s = block_of(x, k, &to);
        if (x->size[2] == 1)
            y[k] = largest_of_row(x, k * x->size[1], &row);
        else
            v_store_f32(y + to, largest_of_columns(&s, &rows), s.columns);
    }
}

static void grad_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const bool shared = ((const ls_reduce_max_params *)call->params)->shared;
    const ls_view *x = &call->in[0];
    const float *own = call->in[1].data;
    for (int64_t k = first; k < last; k++) {
        int64_t to;
        const lines s = block_of(x, k, &to);
        if (x->size[2] == 1)
            spread_in_row(x, &call->out[0], k * x->size[1], own[k], shared);
        else
            spread_in_columns(&s, &call->out[0], v_load_f32(own + to, s.columns), shared);
    }
}

static ls_status max_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_REDUCE_MAX, call, state);
}

static ls_status grad_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_REDUCE_MAX_GRAD, call, state);
}

static void run(const ls_kernel_call *call, ls_pool *pool, ls_cpu_body body) {
    const int64_t O = call->in[0].size[0], R = call->in[0].size[1], I = call->in[0].size[2];
    run_elements(call, pool, O * ls_ceil_div(I, V_LANES), R * ls_min(I, V_LANES), body);
}

static void max_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run(call, pool, max_part);
}

static void grad_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run(call, pool, grad_part);
}

const ls_kernel LS_CPU_NAME(reduce_max) = {
    .id = LS_KERNEL_REDUCE_MAX, LS_CPU_VARIANT, .prepare = max_prepare, .run = max_run};
const ls_kernel LS_CPU_NAME(reduce_max_grad) = {
    .id = LS_KERNEL_REDUCE_MAX_GRAD, LS_CPU_VARIANT, .prepare = grad_prepare, .run = grad_run};
