/* noise: uniform noise added to the elements of each token. */
#include "kernel/ref/ref_impl.h"

#define NOISE_FUNCTION static inline
#include "kernel/noise.h"

static ls_status prepare_noise(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_NOISE, LS_REAL, call);
}

static void noise_rows(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const double amplitude = ((const ls_noise_params *)call->params)->amplitude;
    const int64_t E = ref_columns(&call->in[0]);
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)call->in[0].data + i * E;
        const int32_t key = ((const int32_t *)call->in[1].data)[i];
        real *y = (real *)call->out[0].data + i * E;
        for (int64_t e = 0; e < E; e++)
            y[e] = key == 0 ? x[e] : (real)((double)x[e] + amplitude * (double)noise_of((uint32_t)key, (uint32_t)e));
    }
}

static void run_noise(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_rows(&call->in[0]), noise_rows, call);
}

const ls_kernel REF(noise) = {.id = LS_KERNEL_NOISE, .dtype = LS_REAL, .prepare = prepare_noise, .run = run_noise};
