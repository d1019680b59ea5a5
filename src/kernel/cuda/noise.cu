/* noise: uniform noise added to the elements of each token. */
#include "kernel/cuda/cuda_impl.h"

#define NOISE_FUNCTION static __device__ __forceinline__
#include "kernel/noise.h"

/* y may overwrite x. */
template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    add_noise(const T *x, const int32_t *keys, T *y, int64_t n, int64_t E, float amplitude) {
    for (EACH(i, n)) {
        const int32_t key = keys[i / E];
        const float noise = key == 0 ? 0 : amplitude * noise_of((uint32_t)key, (uint32_t)(i % E));
        y[i] = from_float<T>(to_float(x[i]) + noise);
    }
}

template <typename T> static ls_status launch_noise(const ls_kernel_call *call, void *, void *stream) {
    const ls_noise_params *p = (const ls_noise_params *)call->params;
    const int64_t n = ls_view_elements(&call->in[0]);
    return launch("noise", stream, blocks_for(n), 0, add_noise<T>, input<T>(call, 0), input<int32_t>(call, 1),
                  output<T>(call, 0), n, columns_of(&call->in[0]), (float)p->amplitude);
}

CUDA_ROWS(NOISE, noise, launch_noise, nullptr)
