/* take_along, its gradient, and topk. Rows are independent. */
#include <math.h>

#include "kernel/cpu/cpu_impl.h"

V_INLINE float number_at(const ls_view *x, int64_t i) {
    return x->dtype == LS_F32 ? ((const float *)x->data)[i] : element_to_f32(((const element *)x->data)[i]);
}

V_INLINE void store(const ls_view *y, int64_t i, float value) {
    if (y->dtype == LS_F32)
        ((float *)y->data)[i] = value;
    else
        ((element *)y->data)[i] = element_from_f32(value);
}

static void take_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t K = last_size(&call->in[0]), J = last_size(&call->in[1]);
    const int32_t *ids = call->in[1].data;
    for (int64_t e = first * J; e < last * J; e++)
        store(&call->out[0], e, ids[e] >= 0 && ids[e] < K ? number_at(&call->in[0], e / J * K + ids[e]) : NAN);
}

static void grad_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t K = last_size(&call->out[0]), J = last_size(&call->in[0]);
    const int32_t *ids = call->in[0].data;
    float *dx = call->out[0].data;
    for (int64_t e = first * J; e < last * J; e++)
        if (ids[e] >= 0 && ids[e] < K) dx[e / J * K + ids[e]] += number_at(&call->in[1], e);
}

/* Whether value a at index i comes before value b at index k. */
V_INLINE bool comes_first(float a, int64_t i, float b, int64_t k) {
    if (isnan(a) || isnan(b)) return isnan(a) && (!isnan(b) || i < k);
    return a > b || (a == b && i < k);
}

/* The best elements so far are kept in order; an element is inserted if it comes before the last of them. */
static void topk_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *x = &call->in[0], *values = &call->out[0];
    const int64_t K = last_size(x), J = last_size(values);
    for (int64_t i = first; i < last; i++) {
        int32_t *ids = (int32_t *)call->out[1].data + i * J;
        for (int64_t k = 0; k < K; k++) {
            const float value = number_at(x, i * K + k);
            int64_t at = ls_min(k, J);
            if (at == J && !comes_first(value, k, number_at(values, i * J + J - 1), ids[J - 1])) continue;
            for (at = ls_min(at, J - 1);
                 at > 0 && comes_first(value, k, number_at(values, i * J + at - 1), ids[at - 1]); at--) {
                store(values, i * J + at, number_at(values, i * J + at - 1));
                ids[at] = ids[at - 1];
            }
            store(values, i * J + at, value);
            ids[at] = (int32_t)k;
        }
    }
}

static ls_status take_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_TAKE_ALONG, call, state);
}

static ls_status grad_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_TAKE_ALONG_GRAD, call, state);
}

static ls_status topk_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_TOPK, call, state);
}

static void take_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[1]), last_size(&call->in[1]), take_part);
}

static void grad_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[0]), last_size(&call->in[0]), grad_part);
}

static void topk_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[0]), last_size(&call->in[0]), topk_part);
}

const ls_kernel LS_CPU_NAME(take_along) = {
    .id = LS_KERNEL_TAKE_ALONG, LS_CPU_VARIANT, .prepare = take_prepare, .run = take_run};
const ls_kernel LS_CPU_NAME(take_along_grad) = {
    .id = LS_KERNEL_TAKE_ALONG_GRAD, LS_CPU_VARIANT, .prepare = grad_prepare, .run = grad_run};
const ls_kernel LS_CPU_NAME(topk) = {.id = LS_KERNEL_TOPK, LS_CPU_VARIANT, .prepare = topk_prepare, .run = topk_run};
