/* reduce_max, y[o,i] = the largest x[o,r,i], and its gradient. NaN is larger than numbers. */
#include <math.h>

#include "kernel/cpu/cpu_impl.h"

V_INLINE float number_at(const ls_view *x, int64_t i) {
    return x->dtype == LS_F32 ? ((const float *)x->data)[i] : element_to_f32(((const element *)x->data)[i]);
}

V_INLINE bool is_larger(float x, float than) { return x > than || (isnan(x) && !isnan(than)); }
V_INLINE bool is_equal(float x, float y) { return x == y || (isnan(x) && isnan(y)); }

/* Where element r = 0 of the i-th maximum lies in x. */
V_INLINE int64_t start_of(const ls_kernel_call *call, int64_t i) {
    const int64_t R = call->in[0].size[1], I = call->in[0].size[2];
    return i / I * R * I + i % I;
}

/* The first of the largest elements from `at` on. */
V_INLINE int64_t find_largest(const ls_view *x, int64_t at, float *most) {
    const int64_t R = x->size[1], I = x->size[2];
    int64_t best = 0;
    *most = number_at(x, at);
    for (int64_t r = 1; r < R; r++) {
        const float value = number_at(x, at + r * I);
        if (!is_larger(value, *most)) continue;
        *most = value;
        best = r;
    }
    return best;
}

static void max_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    for (int64_t i = first; i < last; i++)
        (void)find_largest(&call->in[0], start_of(call, i), (float *)call->out[0].data + i);
}

static void store(const ls_view *y, int64_t i, float value) {
    if (y->dtype == LS_F32)
        ((float *)y->data)[i] = value;
    else
        ((element *)y->data)[i] = element_from_f32(value);
}

static void grad_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const bool shared = ((const ls_reduce_max_params *)call->params)->shared;
    const ls_view *x = &call->in[0];
    const int64_t R = x->size[1], I = x->size[2];
    for (int64_t i = first; i < last; i++) {
        const int64_t at = start_of(call, i);
        float most, own = ((const float *)call->in[1].data)[i];
        const int64_t best = find_largest(x, at, &most);
        if (shared) {
            int64_t equal = 0;
            for (int64_t r = 0; r < R; r++) equal += is_equal(number_at(x, at + r * I), most);
            own /= (float)equal;
        }
        for (int64_t r = 0; r < R; r++)
            store(&call->out[0], at + r * I, (shared ? is_equal(number_at(x, at + r * I), most) : r == best) ? own : 0);
    }
}

static ls_status max_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_REDUCE_MAX, call, state);
}

static ls_status grad_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_REDUCE_MAX_GRAD, call, state);
}

static void max_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), call->in[0].size[1], max_part);
}

static void grad_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->in[1]), call->in[0].size[1], grad_part);
}

const ls_kernel LS_CPU_NAME(reduce_max) = {
    .id = LS_KERNEL_REDUCE_MAX, LS_CPU_VARIANT, .prepare = max_prepare, .run = max_run};
const ls_kernel LS_CPU_NAME(reduce_max_grad) = {
    .id = LS_KERNEL_REDUCE_MAX_GRAD, LS_CPU_VARIANT, .prepare = grad_prepare, .run = grad_run};
