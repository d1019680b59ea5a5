/* SGD with momentum, as in PyTorch: weight decay is added to the gradient. */
#include "kernel/cpu/update.h"

static void sgd_run(const update_run *run) {
    const ls_kernel_call *call = run->call;
    const ls_sgd_params *params = call->params;
    const float scale = run->scale, lr = run->lr, decay = run->decay, momentum = (float)params->momentum;
    /* The step is a times the gradient and b times the momentum. */
    const float a = params->nesterov ? 1 : 0, b = params->nesterov ? momentum : 1;
    const float *gradient = call->in[0].data;
    float *master = call->out[0].data, *m = call->out[1].data;
    element *param = call->out[2].data;
    for (int64_t i = run->start; i < run->end; i += V_LANES) {
        __builtin_prefetch(gradient + i + AHEAD);
        __builtin_prefetch(m + i + AHEAD);
        __builtin_prefetch(master + i + AHEAD);
        const v_f32 old = v_load_f32(master + i, V_LANES);
        const v_f32 g = v_load_f32(gradient + i, V_LANES) * scale + decay * old;
        const v_f32 mi = v_load_f32(m + i, V_LANES) * momentum + g;
        const v_f32 next = old - lr * (a * g + b * mi);
        v_store_f32(m + i, mi, V_LANES);
        v_store_f32(master + i, next, V_LANES);
        store_param(param + i, next, run->streamed);
    }
}

UPDATE_KERNEL(SGD, sgd);
