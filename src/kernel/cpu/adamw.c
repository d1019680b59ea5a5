/* AdamW (Loshchilov, Hutter, arXiv 1711.05101) on f32 masters, which may be the parameters themselves; bf16 parameters are rounded masters. */
#include "kernel/cpu/cpu_impl.h"

/*
 * UNIT: parts of the work are multiples of it. AHEAD: prefetch distance in elements, because the processor's prefetcher stops at the end
 * of a page. Parameters of at least STREAMED bytes are written past the caches, because they are not read before the next step.
 */
enum { UNIT = 64, AHEAD = 256, STREAMED = 1 << 20 };

#if LS_CPU_ELEMENT_BF16 && defined __AVX512F__
V_INLINE void store_param(element *p, v_f32 v, int64_t n, bool streamed) {
    if (streamed && n >= V_LANES)
        _mm256_stream_si256((__m256i *)(void *)p, (__m256i)v_round_bf16(v));
    else
        v_store(p, v, n);
}
V_INLINE void end_stores(void) { _mm_sfence(); }
#else
V_INLINE void store_param(element *p, v_f32 v, int64_t n, bool streamed) {
    (void)streamed;
    v_store(p, v, n);
}
V_INLINE void end_stores(void) {}
#endif

static void update_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_adamw_params *params = call->params;
    const int64_t all = ls_view_elements(&call->in[0]), start = first * UNIT, end = ls_min(all, last * UNIT);
    const double *control = call->in[1].data;
    const float scale = (float)control[LS_CONTROL_SCALE], lr = (float)(control[LS_CONTROL_LR] * params->rate);
    const float beta1 = (float)params->beta1, rest1 = (float)(1 - params->beta1);
    const float beta2 = (float)params->beta2, rest2 = (float)(1 - params->beta2);
    const float unbias1 = (float)(1 / control[LS_CONTROL_CORRECTION1]);
    const float unbias2 = (float)(1 / control[LS_CONTROL_CORRECTION2]);
    const float epsilon = (float)params->epsilon, decay = (float)params->weight_decay;
    const float *gradient = call->in[0].data;
    float *master = call->out[0].data, *m = call->out[1].data, *v = call->out[2].data;
    element *param = call->out[3].data;
    const bool streamed =
        (size_t)all * sizeof *param >= STREAMED && (uintptr_t)param % (sizeof *param * V_LANES) == 0;
    for (int64_t i = start; i < end; i += V_LANES) {
        const int64_t n = end - i;
        __builtin_prefetch(gradient + i + AHEAD);
        __builtin_prefetch(m + i + AHEAD);
        __builtin_prefetch(v + i + AHEAD);
        __builtin_prefetch(master + i + AHEAD);
        const v_f32 g = v_load_f32(gradient + i, n) * scale;
        const v_f32 mi = v_load_f32(m + i, n) * beta1 + g * rest1;
        const v_f32 vi = v_load_f32(v + i, n) * beta2 + g * g * rest2;
        const v_f32 old = v_load_f32(master + i, n);
        const v_f32 next = old - lr * (mi * unbias1 / (v_sqrt(vi * unbias2) + epsilon) + decay * old);
        v_store_f32(m + i, mi, n);
        v_store_f32(v + i, vi, n);
        v_store_f32(master + i, next, n);
        store_param(param + i, next, n, streamed);
    }
    end_stores();
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const double *control = call->in[1].data;
    if (control[LS_CONTROL_APPLY] == 0) return;
    run_elements(call, pool, ls_ceil_div(ls_view_elements(&call->in[0]), UNIT), UNIT, update_part);
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ADAMW, call, state);
}

const ls_kernel LS_CPU_NAME(adamw) = {
    .id = LS_KERNEL_ADAMW, .dtype = LS_CPU_DTYPE, .isa = LS_CPU_LEVEL, .prepare = prepare, .run = run};
