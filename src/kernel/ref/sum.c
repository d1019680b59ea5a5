/* sum, sum_squares, column_sum and reduce: the sum, in double and in the order of the elements, is added to the output.
 */
#include "kernel/ref/ref_impl.h"

/* Kahan's compensated sum, so that long sums in f64 are accurate however many ranks share them. */
typedef struct kahan_sum {
    double total, error;
} kahan_sum;

static void add_term(kahan_sum *sum, double term) {
    const double corrected = term - sum->error, total = sum->total + corrected;
    sum->error = isfinite(total) ? (total - sum->total) - corrected : 0;
    sum->total = total;
}

static ls_status prepare_sum(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SUM, LS_REAL, call);
}

static void run_sum(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    kahan_sum sum = {0, 0};
    for (int64_t i = 0, n = ls_view_elements(&call->in[0]); i < n; i++) add_term(&sum, (double)x[i]);
    *y = (real)((double)*y + sum.total);
}

static ls_status prepare_sum_squares(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SUM_SQUARES, LS_REAL, call);
}

static void run_sum_squares(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const real *x = call->in[0].data;
    kahan_sum sum = {0, 0};
    for (int64_t i = 0, n = ls_view_elements(&call->in[0]); i < n; i++) add_term(&sum, (double)x[i] * (double)x[i]);
    *(double *)call->out[0].data += sum.total;
}

static ls_status prepare_column_sum(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_COLUMN_SUM, LS_REAL, call);
}

static void sum_columns(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t rows = ref_rows(&call->in[0]), N = ref_columns(&call->in[0]);
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    for (int64_t column = first; column < last; column++) {
        double sum = 0;
        for (int64_t row = 0; row < rows; row++) sum += (double)x[row * N + column];
        y[column] = (real)((double)y[column] + sum);
    }
}

static void run_column_sum(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_columns(&call->in[0]), sum_columns, call);
}

static ls_status prepare_reduce(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_REDUCE, LS_REAL, call);
}

static void sum_elements(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t R = call->in[0].size[1], I = call->in[0].size[2];
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    for (int64_t i = first; i < last; i++) {
        const real *from = x + i / I * R * I + i % I;
        double sum = (double)y[i];
        for (int64_t r = 0; r < R; r++) sum += (double)from[r * I];
        y[i] = (real)sum;
    }
}

static void run_reduce(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->out[0]), sum_elements, call);
}

static ls_status prepare_add_rows(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ADD_ROWS, LS_REAL, call);
}

static void add_columns(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t rows = ref_rows(&call->in[0]), M = ref_columns(&call->in[0]);
    const real *x = call->in[0].data;
    for (int64_t column = first; column < last; column++) {
        real sum = x[column];
        for (int64_t row = 1; row < rows; row++) sum += x[row * M + column];
        ((real *)call->out[0].data)[column] = sum;
    }
}

static void run_add_rows(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_columns(&call->in[0]), add_columns, call);
}

const ls_kernel REF(sum) = {.id = LS_KERNEL_SUM, .dtype = LS_REAL, .prepare = prepare_sum, .run = run_sum};
const ls_kernel REF(sum_squares) = {
    .id = LS_KERNEL_SUM_SQUARES, .dtype = LS_REAL, .prepare = prepare_sum_squares, .run = run_sum_squares};
const ls_kernel REF(column_sum) = {
    .id = LS_KERNEL_COLUMN_SUM, .dtype = LS_REAL, .prepare = prepare_column_sum, .run = run_column_sum};
const ls_kernel REF(add_rows) = {
    .id = LS_KERNEL_ADD_ROWS, .dtype = LS_REAL, .prepare = prepare_add_rows, .run = run_add_rows};
#if !LS_REAL_IS_F64 /* all operands are of type G, which is f32 for bf16 too */
const ls_kernel REF(sum_bf16) = {.id = LS_KERNEL_SUM, .dtype = LS_BF16, .prepare = prepare_sum, .run = run_sum};
#endif
const ls_kernel REF(reduce) = {.id = LS_KERNEL_REDUCE, .dtype = LS_REAL, .prepare = prepare_reduce, .run = run_reduce};
