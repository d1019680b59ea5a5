/*
 * sum and sum_squares of f32: each part is summed in f64, and the parts are added in order.
 * column_sum, the gradient of a bias, and add_rows, the sum over ranks: each thread sums some columns over all rows, so
 * the terms of a column are always added in the same order.
 */
#include "kernel/cpu/cpu_impl.h"

enum { LEAST = 65536 };

static int parts_of(const ls_kernel_call *call) {
    return ls_cpu_parts(ls_view_elements(&call->in[0]), LEAST, call->threads);
}

static size_t workspace(const ls_kernel_call *call) { return sizeof(double) * (size_t)parts_of(call); }

/*
 * Reads the part as four streams: one stream is a third slower, because the prefetcher stops at the end of each page.
 */
V_INLINE double total(const float *x, int64_t n, bool squares) {
    enum { STREAMS = 4 };
    typedef double v_f64 __attribute__((vector_size(8 * V_LANES)));
    const int64_t each = n / (STREAMS * V_LANES) * V_LANES;
    v_f64 sums[STREAMS] = {{0}};
    for (int64_t i = 0; i < each; i += V_LANES) {
        for (int s = 0; s < STREAMS; s++) {
            const v_f64 value = __builtin_convertvector(v_load_f32(x + s * each + i, V_LANES), v_f64);
            sums[s] += squares ? value * value : value;
        }
    }
    double sum = 0;
    for (int64_t i = STREAMS * each; i < n; i++) sum += squares ? (double)x[i] * (double)x[i] : (double)x[i];
    const v_f64 lanes = sums[0] + sums[1] + (sums[2] + sums[3]);
    for (int l = 0; l < V_LANES; l++) sum += lanes[l];
    return sum;
}

static void sum_part(const void *context, int part, int64_t start, int64_t end) {
    const ls_kernel_call *call = context;
    ((double *)call->workspace)[part] = total((const float *)call->in[0].data + start, end - start, false);
}

static void squares_part(const void *context, int part, int64_t start, int64_t end) {
    const ls_kernel_call *call = context;
    ((double *)call->workspace)[part] = total((const float *)call->in[0].data + start, end - start, true);
}

static double sum_of_parts(const ls_kernel_call *call, ls_pool *pool, ls_cpu_body body) {
    const int parts = parts_of(call);
    ls_cpu_split(pool, ls_view_elements(&call->in[0]), parts, body, call);
    double sum = 0;
    for (int i = 0; i < parts; i++) sum += ((const double *)call->workspace)[i];
    return sum;
}

static void sum_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    float *out = call->out[0].data;
    *out = (float)((double)*out + sum_of_parts(call, pool, sum_part));
}

static void squares_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    *(double *)call->out[0].data += sum_of_parts(call, pool, squares_part);
}

static ls_status prepare_sum(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SUM, call, state);
}

static ls_status prepare_squares(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SUM_SQUARES, call, state);
}

const ls_kernel LS_CPU_NAME(sum) = {
    .id = LS_KERNEL_SUM, LS_CPU_VARIANT, .workspace = workspace, .prepare = prepare_sum, .run = sum_run};
const ls_kernel LS_CPU_NAME(sum_squares) = {.id = LS_KERNEL_SUM_SQUARES,
                                            LS_CPU_VARIANT,
                                            .workspace = workspace,
                                            .prepare = prepare_squares,
                                            .run = squares_run};

/* --- column_sum --------------------------------------------------------------------------------------------------- */

static void blocks_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t rows = row_count(&call->in[0]), N = last_size(&call->in[0]);
    for (int64_t block = start; block < end; block++) {
        const int64_t c = block * COLUMN_BLOCK;
        sum_rows((float *)call->out[0].data + c, call->in[0].data, false, c, N, NULL, rows,
                 ls_min(COLUMN_BLOCK, N - c));
    }
}

static void column_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const int64_t blocks = ls_ceil_div(last_size(&call->in[0]), COLUMN_BLOCK);
    ls_cpu_split(pool, blocks, ls_cpu_parts(blocks, 1, call->threads), blocks_part, call);
}

static ls_status prepare_column(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_COLUMN_SUM, call, state);
}

const ls_kernel LS_CPU_NAME(column_sum) = {
    .id = LS_KERNEL_COLUMN_SUM, LS_CPU_VARIANT, .prepare = prepare_column, .run = column_run};

/* --- add_rows ----------------------------------------------------------------------------------------------------- */

/*
 * Columns that are summed at a time: few enough for sums in registers, enough of each row for the prefetcher to follow.
 */
enum { ADDED_VECTORS = 8 };

V_INLINE void add_columns(float *out, const float *x, int64_t stride, int64_t rows, int64_t columns) {
    v_f32 sum[ADDED_VECTORS];
    for (int v = 0; v < ADDED_VECTORS; v++) sum[v] = v_load_f32(x + v * V_LANES, columns - v * V_LANES);
    for (int64_t i = 1; i < rows; i++) {
        for (int v = 0; v < ADDED_VECTORS; v++)
            sum[v] += v_load_f32(x + i * stride + v * V_LANES, columns - v * V_LANES);
    }
    for (int v = 0; v < ADDED_VECTORS; v++) v_store_f32(out + v * V_LANES, sum[v], columns - v * V_LANES);
}

static void add_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t rows = row_count(&call->in[0]), M = last_size(&call->in[0]);
    const int64_t block = ADDED_VECTORS * V_LANES;
    for (int64_t c = start; c < end; c += block)
        add_columns((float *)call->out[0].data + c, (const float *)call->in[0].data + c, M, rows,
                    ls_min(block, end - c));
}

static void add_rows_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, last_size(&call->in[0]), 1, add_part);
}

static ls_status prepare_add_rows(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ADD_ROWS, call, state);
}

const ls_kernel LS_CPU_NAME(add_rows) = {
    .id = LS_KERNEL_ADD_ROWS, LS_CPU_VARIANT, .prepare = prepare_add_rows, .run = add_rows_run};
