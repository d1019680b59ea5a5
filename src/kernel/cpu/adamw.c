/*
 * AdamW (Loshchilov, Hutter, arXiv 1711.05101) on f32 masters, which may be the parameters themselves; bf16 parameters
 * are rounded masters.
 */
#include "kernel/cpu/cpu_impl.h"

/*
 * AHEAD: prefetch distance in elements, because the processor's prefetcher stops at the end of a page. Calls with
 * parameters of at least STREAMED bytes write them past the caches, because they are not read before the next step.
 */
enum { AHEAD = 256, STREAMED = 1 << 20 };
_Static_assert(LS_FLAT_UNIT % V_LANES == 0, "a unit is whole vectors");

#if LS_CPU_ELEMENT_BF16 && defined __AVX512F__
V_INLINE void store_param(element *p, v_f32 v, bool streamed) {
    if (streamed)
        _mm256_stream_si256((__m256i *)(void *)p, (__m256i)v_round_bf16(v));
    else
        v_store(p, v, V_LANES);
}
V_INLINE void end_stores(void) { _mm_sfence(); }
#else
V_INLINE void store_param(element *p, v_f32 v, bool streamed) {
    (void)streamed;
    v_store(p, v, V_LANES);
}
V_INLINE void end_stores(void) {}
#endif

/* Elements start..end - 1, which have the same settings. */
static void update_run(const ls_kernel_call *call, const ls_update_settings *settings, int64_t start, int64_t end,
                       bool streamed) {
    const ls_adamw_params *params = call->params;
    const double *control = call->in[1].data;
    const float scale = (float)control[LS_CONTROL_SCALE];
    const float lr = (float)(control[LS_CONTROL_LR] * settings->rate);
    const float beta1 = (float)params->beta1, rest1 = (float)(1 - params->beta1);
    const float beta2 = (float)params->beta2, rest2 = (float)(1 - params->beta2);
    const float unbias1 = (float)(1 / control[LS_CONTROL_CORRECTION1]);
    const float unbias2 = (float)(1 / control[LS_CONTROL_CORRECTION2]);
    const float epsilon = (float)params->epsilon, decay = (float)settings->weight_decay;
    const float *gradient = call->in[0].data;
    float *master = call->out[0].data, *m = call->out[1].data, *v = call->out[2].data;
    element *param = call->out[3].data;
    for (int64_t i = start; i < end; i += V_LANES) {
        __builtin_prefetch(gradient + i + AHEAD);
        __builtin_prefetch(m + i + AHEAD);
        __builtin_prefetch(v + i + AHEAD);
        __builtin_prefetch(master + i + AHEAD);
        const v_f32 g = v_load_f32(gradient + i, V_LANES) * scale;
        const v_f32 mi = v_load_f32(m + i, V_LANES) * beta1 + g * rest1;
        const v_f32 vi = v_load_f32(v + i, V_LANES) * beta2 + g * g * rest2;
        const v_f32 old = v_load_f32(master + i, V_LANES);
        const v_f32 next = old - lr * (mi * unbias1 / (v_sqrt(vi * unbias2) + epsilon) + decay * old);
        v_store_f32(m + i, mi, V_LANES);
        v_store_f32(v + i, vi, V_LANES);
        v_store_f32(master + i, next, V_LANES);
        store_param(param + i, next, streamed);
    }
}

static void update_units(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const int32_t *group = call->in[2].data;
    const ls_update_settings *settings = call->in[3].data;
    const bool streamed =
        ls_view_bytes(&call->out[3]) >= STREAMED && (uintptr_t)call->out[3].data % (sizeof(element) * V_LANES) == 0;
    for (int64_t u = first, next; u < last; u = next) {
        for (next = u + 1; next < last && group[next] == group[u];) next++;
        if (group[u] >= 0) update_run(call, &settings[group[u]], u * LS_FLAT_UNIT, next * LS_FLAT_UNIT, streamed);
    }
    end_stores();
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const double *control = call->in[1].data;
    if (control[LS_CONTROL_APPLY] == 0) return;
    run_elements(call, pool, ls_view_elements(&call->in[2]), LS_FLAT_UNIT, update_units);
}

static ls_status prepare(const ls_kernel_call *call, void **state) { return check_only(LS_KERNEL_ADAMW, call, state); }

const ls_kernel LS_CPU_NAME(adamw) = {.id = LS_KERNEL_ADAMW, LS_CPU_VARIANT, .prepare = prepare, .run = run};
