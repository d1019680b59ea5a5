/* Lion (Chen et al., "Symbolic discovery of optimization algorithms", arXiv 2302.06675). */
#include "kernel/cpu/update.h"

/* Per lane 1, 0 or -1: a comparison that holds is -1. */
V_INLINE v_f32 v_sign(v_f32 v) { return __builtin_convertvector((v < 0) - (v > 0), v_f32); }

static void lion_run(const update_run *run) {
    const ls_kernel_call *call = run->call;
    const ls_lion_params *params = call->params;
    const float scale = run->scale, lr = run->lr, decay = run->decay;
    const float beta1 = (float)params->beta1, rest1 = (float)(1 - params->beta1);
    const float beta2 = (float)params->beta2, rest2 = (float)(1 - params->beta2);
    const float *gradient = call->in[0].data;
    float *master = call->out[0].data, *m = call->out[1].data;
    element *param = call->out[2].data;
    for (int64_t i = run->start; i < run->end; i += V_LANES) {
        __builtin_prefetch(gradient + i + AHEAD);
        __builtin_prefetch(m + i + AHEAD);
        __builtin_prefetch(master + i + AHEAD);
        const v_f32 g = v_load_f32(gradient + i, V_LANES) * scale;
        const v_f32 mi = v_load_f32(m + i, V_LANES);
        const v_f32 old = v_load_f32(master + i, V_LANES);
        const v_f32 next = old - lr * (v_sign(mi * beta1 + g * rest1) + decay * old);
        v_store_f32(m + i, mi * beta2 + g * rest2, V_LANES);
        v_store_f32(master + i, next, V_LANES);
        store_param(param + i, next, run->streamed);
    }
}

UPDATE_KERNEL(LION, lion);
