/*
 * Rows that move by their ids: deal_rows takes the rows of x that have an id, collect_rows puts rows back to the places
 * they were taken from, scale_rows multiplies each row by the table row that its id names. LS_ID_ELSEWHERE means no id.
 */
#include <string.h>

#include "kernel/ref/ref_impl.h"

/* --- no arithmetic in the element type ---------------------------------------------------------------------------- */

static size_t row_bytes(const ls_view *rows) { return (size_t)ref_columns(rows) * ls_dtype_bytes(rows->dtype); }

static void run_deal(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const int32_t *ids = call->in[0].data;
    const int64_t n = ls_view_elements(&call->in[0]), room = call->out[1].size[0];
    const size_t bytes = row_bytes(&call->in[1]);
    int32_t *numbers = call->out[0].data;
    int64_t rows = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0) continue;
        if (rows < room) {
            numbers[1 + rows] = ids[i];
            memcpy((char *)call->out[1].data + (size_t)rows * bytes, (const char *)call->in[1].data + (size_t)i * bytes,
                   bytes);
        }
        rows++;
    }
    numbers[0] = (int32_t)rows;
    for (int64_t r = rows; r < room; r++) numbers[1 + r] = LS_ID_ELSEWHERE;
}

static void run_collect(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const int32_t *ids = call->in[0].data;
    const int64_t n = ls_view_elements(&call->in[0]), room = call->in[1].size[0];
    const size_t bytes = row_bytes(&call->in[1]);
    const char *row = call->in[1].data, *end = row + (size_t)room * bytes;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0) continue;
        LS_ASSERT(row < end);
        memcpy((char *)call->out[0].data + (size_t)i * bytes, row, bytes);
        row += bytes;
    }
}

static ls_status prepare_deal(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_DEAL_ROWS, LS_REAL, call);
}

static ls_status prepare_collect(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_COLLECT_ROWS, LS_REAL, call);
}

const ls_kernel REF(deal_rows) = {
    .id = LS_KERNEL_DEAL_ROWS, .dtype = LS_REAL, .prepare = prepare_deal, .run = run_deal};
const ls_kernel REF(collect_rows) = {
    .id = LS_KERNEL_COLLECT_ROWS, .dtype = LS_REAL, .prepare = prepare_collect, .run = run_collect};
#if !LS_REAL_IS_F64
static ls_status prepare_deal_bf16(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_DEAL_ROWS, LS_BF16, call);
}

static ls_status prepare_collect_bf16(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_COLLECT_ROWS, LS_BF16, call);
}

const ls_kernel REF(deal_rows_bf16) = {
    .id = LS_KERNEL_DEAL_ROWS, .dtype = LS_BF16, .prepare = prepare_deal_bf16, .run = run_deal};
const ls_kernel REF(collect_rows_bf16) = {
    .id = LS_KERNEL_COLLECT_ROWS, .dtype = LS_BF16, .prepare = prepare_collect_bf16, .run = run_collect};
#endif

/* --- scale_rows --------------------------------------------------------------------------------------------------- */

static ls_status prepare_scale(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SCALE_ROWS, LS_REAL, call);
}

static void scale_range(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int32_t *ids = call->in[0].data;
    const int64_t V = call->in[2].size[0], E = call->in[2].size[1];
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)call->in[1].data + i * E;
        real *y = (real *)call->out[0].data + i * E;
        LS_ASSERT(ids[i] >= LS_ID_ELSEWHERE && ids[i] < V);
        const real *by = ids[i] < 0 ? NULL : (const real *)call->in[2].data + ids[i] * E;
        for (int64_t e = 0; e < E; e++) y[e] = by == NULL ? 0 : x[e] * by[e];
    }
}

static void run_scale(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->in[0]), scale_range, call);
}

const ls_kernel REF(scale_rows) = {
    .id = LS_KERNEL_SCALE_ROWS, .dtype = LS_REAL, .prepare = prepare_scale, .run = run_scale};
