/* softmax of rows, y = exp(x - largest) / sum, and its gradient, dx = y (dy - sum of y dy). */
#include <math.h>

#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"

/* Elements from e on of the row that begins at element `at`; lanes behind its end are `rest`. */
V_INLINE v_f32 row_at(const ls_view *x, int64_t at, int64_t e, int64_t K, float rest) {
    const v_f32 v = v_load_either(x->data, x->dtype == LS_F32, at + e, K - e);
    if (K - e >= V_LANES) return v;
    v_f32 padded = v;
    for (int l = 0; l < V_LANES; l++)
        if (e + l >= K) padded[l] = rest;
    return padded;
}

V_INLINE void store_row(const ls_view *y, int64_t at, int64_t e, int64_t K, v_f32 v) {
    if (y->dtype == LS_F32)
        v_store_f32((float *)y->data + at + e, v, K - e);
    else
        v_store((element *)y->data + at + e, v, K - e);
}

static void softmax_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *x = &call->in[0], *y = &call->out[0];
    const int64_t K = last_size(x);
    for (int64_t i = first; i < last; i++) {
        v_f32 most = v_set(-INFINITY), sum = {0};
        for (int64_t e = 0; e < K; e += V_LANES) {
            const v_f32 v = row_at(x, i * K, e, K, -INFINITY);
            /* A NaN becomes the largest. NOLINTNEXTLINE(misc-redundant-expression): NaN differs from itself */
            most = v_select((v_i32)(v > most) | (v_i32)(v != v), v, most);
        }
        float largest = most[0];
        for (int l = 1; l < V_LANES; l++) largest = most[l] > largest || isnan(most[l]) ? most[l] : largest;
        for (int64_t e = 0; e < K; e += V_LANES) sum += v_exp(row_at(x, i * K, e, K, -INFINITY) - largest);
        const float scale = 1.0f / v_sum(sum);
        for (int64_t e = 0; e < K; e += V_LANES)
            store_row(y, i * K, e, K, v_exp(row_at(x, i * K, e, K, -INFINITY) - largest) * scale);
    }
}

static void grad_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *y = &call->in[0], *dy = &call->in[1];
    const int64_t K = last_size(y);
    for (int64_t i = first; i < last; i++) {
        v_f32 sums = {0};
        for (int64_t e = 0; e < K; e += V_LANES) sums += row_at(y, i * K, e, K, 0) * row_at(dy, i * K, e, K, 0);
        const float sum = v_sum(sums);
        for (int64_t e = 0; e < K; e += V_LANES)
            store_row(&call->out[0], i * K, e, K, row_at(y, i * K, e, K, 0) * (row_at(dy, i * K, e, K, 0) - sum));
    }
}

static ls_status softmax_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SOFTMAX, call, state);
}

static ls_status grad_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SOFTMAX_GRAD, call, state);
}

static void softmax_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[0]), last_size(&call->in[0]), softmax_part);
}

static void grad_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[0]), last_size(&call->in[0]), grad_part);
}

const ls_kernel LS_CPU_NAME(softmax) = {
    .id = LS_KERNEL_SOFTMAX, LS_CPU_VARIANT, .prepare = softmax_prepare, .run = softmax_run};
const ls_kernel LS_CPU_NAME(softmax_grad) = {
    .id = LS_KERNEL_SOFTMAX_GRAD, LS_CPU_VARIANT, .prepare = grad_prepare, .run = grad_run};
