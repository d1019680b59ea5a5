/* reduce: y[o,i] += the sum over r of x[o,r,i]. One thread computes each sum, so the threads change no bit. */
#include "kernel/cpu/cpu_impl.h"

static ls_status reduce_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_REDUCE, call, state);
}

/* The sum of n contiguous elements. Sums over 64 steps of four vectors are in f32; these are added in f64. */
static double sum_run(const void *x, bool wide, int64_t at, int64_t n) {
    enum { VECTORS = 4, STEP = VECTORS * V_LANES, FLUSH = 64 * STEP };
    double total = 0;
    for (int64_t start = 0; start < n; start += FLUSH) {
        v_f32 sum[VECTORS] = {{0}};
        const int64_t end = ls_min(n, start + FLUSH);
        for (int64_t i = start; i < end; i += STEP)
            for (int v = 0; v < VECTORS; v++)
                sum[v] += v_load_either(x, wide, at + i + v * V_LANES, end - i - v * V_LANES);
        for (int v = 0; v < VECTORS; v++) total += (double)v_sum(sum[v]);
    }
    return total;
}

static void rows_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t R = call->in[0].size[1];
    float *y = call->out[0].data;
    for (int64_t o = first; o < last; o++)
        y[o] += (float)sum_run(call->in[0].data, call->in[0].dtype == LS_F32, o * R, R);
}

/* Blocks of columns: block c of the columns of o. */
static void columns_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t R = call->in[0].size[1], I = call->in[0].size[2], blocks = ls_ceil_div(I, COLUMN_BLOCK);
    for (int64_t k = first; k < last; k++) {
        const int64_t o = k / blocks, c = k % blocks * COLUMN_BLOCK;
        sum_rows((float *)call->out[0].data + o * I + c, call->in[0].data, call->in[0].dtype == LS_F32, o * R * I + c,
                 I, NULL, R, ls_min(COLUMN_BLOCK, I - c));
    }
}

static void reduce_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const int64_t O = call->in[0].size[0], R = call->in[0].size[1], I = call->in[0].size[2];
    if (ls_view_elements(&call->in[0]) == 0) return;
    if (I == 1)
        run_elements(call, pool, O, R, rows_part);
    else
        run_elements(call, pool, O * ls_ceil_div(I, COLUMN_BLOCK), R * ls_min(I, COLUMN_BLOCK), columns_part);
}

const ls_kernel LS_CPU_NAME(reduce) = {
    .id = LS_KERNEL_REDUCE, LS_CPU_VARIANT, .prepare = reduce_prepare, .run = reduce_run};
