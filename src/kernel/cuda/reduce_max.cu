/*
 * reduce_max, y[o,i] = the largest x[o,r,i] over r, and its gradient; a thread for each y[o,i]. NaN counts as larger
 * than any number.
 */
#include "kernel/cuda/cuda_impl.h"

static __device__ __forceinline__ bool is_larger(float x, float than) { return x > than || (x != x && than == than); }
static __device__ __forceinline__ bool is_equal(float x, float y) { return x == y || (x != x && y != y); }

/* The index of the first of R elements, I apart, that equals the largest; *most = the largest. */
template <typename X> static __device__ int64_t find_largest(const X *x, int64_t R, int64_t I, float *most) {
    int64_t best = 0;
    *most = to_float(x[0]);
    for (int64_t r = 1; r < R; r++) {
        const float value = to_float(x[r * I]);
        if (!is_larger(value, *most)) continue;
        *most = value;
        best = r;
    }
    return best;
}

template <typename X>
static __global__ void __launch_bounds__(CUDA_THREADS) largest(const X *x, float *y, int64_t n, int64_t R, int64_t I) {
    for (EACH(i, n)) (void)find_largest(x + i / I * R * I + i % I, R, I, y + i);
}

template <typename X>
static __global__ void __launch_bounds__(CUDA_THREADS)
    gradients(const X *x, const float *dy, X *dx, int64_t n, int64_t R, int64_t I, bool shared) {
    for (EACH(i, n)) {
        const int64_t at = i / I * R * I + i % I;
        float most, own = dy[i];
        const int64_t best = find_largest(x + at, R, I, &most);
        if (shared) {
            int64_t equal = 0;
            for (int64_t r = 0; r < R; r++) equal += is_equal(to_float(x[at + r * I]), most);
            own /= (float)equal;
        }
        for (int64_t r = 0; r < R; r++) {
            const bool has = shared ? is_equal(to_float(x[at + r * I]), most) : r == best;
            dx[at + r * I] = from_float<X>(has ? own : 0);
        }
    }
}

template <typename X> static ls_status max_of(const ls_kernel_call *call, void *stream) {
    const int64_t n = ls_view_elements(&call->out[0]);
    return launch("reduce_max", stream, blocks_for(n), 0, largest<X>, input<X>(call, 0), output<float>(call, 0), n,
                  call->in[0].size[1], call->in[0].size[2]);
}
template <typename T> static ls_status launch_max(const ls_kernel_call *call, void *, void *stream) {
    return call->in[0].dtype == LS_F32 ? max_of<float>(call, stream) : max_of<T>(call, stream);
}

template <typename X> static ls_status grad_of(const ls_kernel_call *call, void *stream) {
    const int64_t n = call->in[0].size[1] > 0 ? ls_view_elements(&call->in[1]) : 0;
    return launch("reduce_max_grad", stream, blocks_for(n), 0, gradients<X>, input<X>(call, 0), input<float>(call, 1),
                  output<X>(call, 0), n, call->in[0].size[1], call->in[0].size[2],
                  ((const ls_reduce_max_params *)call->params)->shared);
}
template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    return call->in[0].dtype == LS_F32 ? grad_of<float>(call, stream) : grad_of<T>(call, stream);
}

CUDA_ROWS(REDUCE_MAX, reduce_max, launch_max, nullptr)
CUDA_ROWS(REDUCE_MAX_GRAD, reduce_max_grad, launch_grad, nullptr)
