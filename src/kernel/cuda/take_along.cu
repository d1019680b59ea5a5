/*
 * take_along, with a thread for each element; its gradient and topk, with a thread for each row, so that the gradient's
 * sums are in the order of the ids.
 */
#include "kernel/cuda/cuda_impl.h"

#include <math.h>

template <typename X>
static __global__ void __launch_bounds__(CUDA_THREADS)
    take(const X *x, const int32_t *ids, X *y, int64_t n, int64_t J, int64_t K) {
    for (EACH(e, n)) y[e] = ids[e] >= 0 && ids[e] < K ? x[e / J * K + ids[e]] : from_float<X>(NAN);
}

template <typename X>
static __global__ void __launch_bounds__(CUDA_THREADS)
    add_at(const int32_t *ids, const X *dy, float *dx, int64_t rows, int64_t J, int64_t K) {
    for (EACH(i, rows))
        for (int64_t e = i * J; e < (i + 1) * J; e++)
            if (ids[e] >= 0 && ids[e] < K) dx[i * K + ids[e]] += to_float(dy[e]);
}

/* Whether value a at index i comes before value b at index k. */
static __device__ __forceinline__ bool comes_first(float a, int64_t i, float b, int64_t k) {
    if (a != a || b != b) return a != a && (b == b || i < k);
    return a > b || (a == b && i < k);
}

/* The best elements so far are kept in order; an element is inserted if it comes before the last of them. */
template <typename X>
static __global__ void __launch_bounds__(CUDA_THREADS)
    sort_rows(const X *x, X *values, int32_t *ids, int64_t rows, int64_t J, int64_t K) {
    for (EACH(i, rows)) {
        X *best = values + i * J;
        int32_t *at_best = ids + i * J;
        for (int64_t k = 0; k < K; k++) {
            const float value = to_float(x[i * K + k]);
            int64_t at = k < J ? k : J;
            if (at == J && !comes_first(value, k, to_float(best[J - 1]), at_best[J - 1])) continue;
            if (at == J) at = J - 1;
            for (; at > 0 && comes_first(value, k, to_float(best[at - 1]), at_best[at - 1]); at--) {
                best[at] = best[at - 1];
                at_best[at] = at_best[at - 1];
            }
            best[at] = x[i * K + k];
            at_best[at] = (int32_t)k;
        }
    }
}

template <typename X> static ls_status take_of(const ls_kernel_call *call, void *stream) {
    const int64_t n = ls_view_elements(&call->out[0]);
    return launch("take_along", stream, blocks_for(n), 0, take<X>, input<X>(call, 0), input<int32_t>(call, 1),
                  output<X>(call, 0), n, columns_of(&call->in[1]), columns_of(&call->in[0]));
}
template <typename T> static ls_status launch_take(const ls_kernel_call *call, void *, void *stream) {
    return call->in[0].dtype == LS_F32 ? take_of<float>(call, stream) : take_of<T>(call, stream);
}

template <typename X> static ls_status grad_of(const ls_kernel_call *call, void *stream) {
    const int64_t rows = rows_of(&call->in[0]);
    return launch("take_along_grad", stream, blocks_for(rows), 0, add_at<X>, input<int32_t>(call, 0), input<X>(call, 1),
                  output<float>(call, 0), rows, columns_of(&call->in[0]), columns_of(&call->out[0]));
}
template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    return call->in[1].dtype == LS_F32 ? grad_of<float>(call, stream) : grad_of<T>(call, stream);
}

template <typename X> static ls_status topk_of(const ls_kernel_call *call, void *stream) {
    const int64_t rows = rows_of(&call->in[0]);
    return launch("topk", stream, blocks_for(rows), 0, sort_rows<X>, input<X>(call, 0), output<X>(call, 0),
                  output<int32_t>(call, 1), rows, columns_of(&call->out[0]), columns_of(&call->in[0]));
}
template <typename T> static ls_status launch_topk(const ls_kernel_call *call, void *, void *stream) {
    return call->in[0].dtype == LS_F32 ? topk_of<float>(call, stream) : topk_of<T>(call, stream);
}

CUDA_ROWS(TAKE_ALONG, take_along, launch_take, nullptr)
CUDA_ROWS(TAKE_ALONG_GRAD, take_along_grad, launch_grad, nullptr)
CUDA_ROWS(TOPK, topk, launch_topk, nullptr)
