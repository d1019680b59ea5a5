/* softmax of rows, y = exp(x - largest) / sum, and its gradient, dx = y (dy - sum of y dy); a block for each row. */
#include "kernel/cuda/cuda_impl.h"

#include <math.h>

/*
 * y may overwrite x: a thread writes an element after the block has read the row. If an element is NaN, all results of
 * the row are: the sum is NaN, whatever the largest element is.
 */
template <typename X, typename Y>
static __global__ void __launch_bounds__(CUDA_THREADS) weigh(const X *x, Y *y, int64_t rows, int64_t K) {
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
        float most = -INFINITY, sum = 0;
        for (int64_t k = threadIdx.x; k < K; k += CUDA_THREADS) most = fmaxf(most, to_float(x[i * K + k]));
        most = block_max(most);
        for (int64_t k = threadIdx.x; k < K; k += CUDA_THREADS) sum += expf(to_float(x[i * K + k]) - most);
        const float scale = 1 / block_sum(sum);
        for (int64_t k = threadIdx.x; k < K; k += CUDA_THREADS)
            y[i * K + k] = from_float<Y>(expf(to_float(x[i * K + k]) - most) * scale);
    }
}

template <typename T, typename X>
static __global__ void __launch_bounds__(CUDA_THREADS)
    gradients(const T *y, const T *dy, X *dx, int64_t rows, int64_t K) {
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
        float sum = 0;
        for (int64_t k = threadIdx.x; k < K; k += CUDA_THREADS) sum += to_float(y[i * K + k]) * to_float(dy[i * K + k]);
        sum = block_sum(sum);
        for (int64_t k = threadIdx.x; k < K; k += CUDA_THREADS)
            dx[i * K + k] = from_float<X>(to_float(y[i * K + k]) * (to_float(dy[i * K + k]) - sum));
    }
}

template <typename X, typename Y> static ls_status launch_of(const ls_kernel_call *call, void *stream) {
    const int64_t rows = rows_of(&call->in[0]);
    return launch("softmax", stream, ls_min(rows, MOST_BLOCKS), 0, weigh<X, Y>, input<X>(call, 0), output<Y>(call, 0),
                  rows, columns_of(&call->in[0]));
}
template <typename T> static ls_status launch_softmax(const ls_kernel_call *call, void *, void *stream) {
    return call->in[0].dtype == LS_F32 ? launch_of<float, T>(call, stream) : launch_of<T, T>(call, stream);
}

template <typename T, typename X> static ls_status launch_grad_of(const ls_kernel_call *call, void *stream) {
    const int64_t rows = rows_of(&call->in[0]);
    return launch("softmax_grad", stream, ls_min(rows, MOST_BLOCKS), 0, gradients<T, X>, input<T>(call, 0),
                  input<T>(call, 1), output<X>(call, 0), rows, columns_of(&call->in[0]));
}
template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    return call->out[0].dtype == LS_F32 ? launch_grad_of<T, float>(call, stream) : launch_grad_of<T, T>(call, stream);
}

CUDA_ROWS(SOFTMAX, softmax, launch_softmax, nullptr)
CUDA_ROWS(SOFTMAX_GRAD, softmax_grad, launch_grad, nullptr)
