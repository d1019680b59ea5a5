/* noise: uniform noise added to the elements of each token. */
#include "kernel/cpu/cpu_impl.h"

#define NOISE_FUNCTION static inline
#include "kernel/noise.h"

static void noise_rows(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const float amplitude = (float)((const ls_noise_params *)call->params)->amplitude;
    const int64_t E = last_size(&call->in[0]);
    for (int64_t i = first; i < last; i++) {
        const element *x = (const element *)call->in[0].data + i * E;
        const int32_t key = ((const int32_t *)call->in[1].data)[i];
        element *y = (element *)call->out[0].data + i * E;
        for (int64_t e = 0; e < E; e += V_LANES) {
            v_f32 noise = {0};
            for (int l = 0; l < V_LANES && key != 0; l++) noise[l] = noise_of((uint32_t)key, (uint32_t)(e + l));
            v_store(y + e, v_load(x + e, E - e) + amplitude * noise, E - e);
        }
    }
}

static void noise_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[0]), last_size(&call->in[0]), noise_rows);
}

static ls_status prepare_noise(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_NOISE, call, state);
}

const ls_kernel LS_CPU_NAME(noise) = {
    .id = LS_KERNEL_NOISE, LS_CPU_VARIANT, .prepare = prepare_noise, .run = noise_run};
