/* AdamW (Loshchilov, Hutter, arXiv 1711.05101). */
#include "kernel/cpu/update.h"

static void adamw_run(const update_run *run) {
    const ls_kernel_call *call = run->call;
    const ls_adamw_params *params = call->params;
    const double *control = call->in[1].data;
    const float scale = run->scale, lr = run->lr, decay = run->decay;
    const float beta1 = (float)params->beta1, rest1 = (float)(1 - params->beta1);
    const float beta2 = (float)params->beta2, rest2 = (float)(1 - params->beta2);
    const float unbias1 = (float)(1 / control[LS_CONTROL_CORRECTION1]);
    const float unbias2 = (float)(1 / control[LS_CONTROL_CORRECTION2]);
    const float epsilon = (float)params->epsilon;
    const float *gradient = call->in[0].data;
    float *master = call->out[0].data, *m = call->out[1].data, *v = call->out[2].data;
    element *param = call->out[3].data;
    for (int64_t i = run->start; i < run->end; i += V_LANES) {
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
        store_param(param + i, next, run->streamed);
    }
}

UPDATE_KERNEL(ADAMW, adamw);
