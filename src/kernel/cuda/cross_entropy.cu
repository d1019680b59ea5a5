/*
 * Cross-entropy over the vocabulary, a block for each row of logits: loss = lse - logit[label], or the variant that
 * params describe, and its gradient. One pass over the row finds the largest logit and the sum of the exponentials
 * relative to it (Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867).
 */
#include "kernel/cuda/cuda_impl.h"

#include <math.h>

/* AT_ONCE: the logits that a thread reads before it uses the first, so that many reads are under way at once. */
enum { AT_ONCE = 8, STEP = AT_ONCE * CUDA_THREADS };

/* The number that exponentials are relative to: the largest logit, or 0 if all logits are -inf. */
static __device__ __forceinline__ float base_of(float most) { return most == -INFINITY ? 0 : most; }

/* log sum exp of a row, by all threads of the block. */
template <typename X> static __device__ float log_sum_exp(const X *logits, int64_t V) {
    float most = -INFINITY, sum = 0;
    for (int64_t first = threadIdx.x; first < V; first += STEP) {
        float x[AT_ONCE], above = most;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int64_t v = first + k * CUDA_THREADS;
            x[k] = v < V ? to_float(logits[v]) : -INFINITY;
            above = fmaxf(above, x[k]);
        }
        const float base = base_of(above);
        sum *= expf(most - base);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) sum += expf(x[k] - base);
        most = above;
    }
    const float base = base_of(block_max(most));
    return base + logf(block_sum(sum * expf(most - base)));
}

/* The factors of ls_cross_entropy_params. */
struct factors {
    float label, each, z;
};
static factors factors_of(const ls_kernel_call *call) {
    const ls_cross_entropy_params *p = ls_cross_entropy_params_of(call->params);
    return {(float)p->label, (float)p->each, (float)p->z};
}

/* The sum of a row, by all threads of the block. */
template <typename X> static __device__ float sum_of(const X *logits, int64_t V) {
    float sum = 0;
    for (int64_t v = threadIdx.x; v < V; v += CUDA_THREADS) sum += to_float(logits[v]);
    return block_sum(sum);
}

template <typename X>
static __global__ void __launch_bounds__(CUDA_THREADS)
    losses(const X *logits, const int32_t *labels, float *loss, float *lse, int64_t rows, int64_t V, factors by) {
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
        const X *row = logits + i * V;
        const float sum = log_sum_exp(row, V);
        const float of_each = by.each != 0 ? by.each * sum_of(row, V) : 0;
        if (threadIdx.x != 0) continue;
        lse[i] = sum;
        const float at_label = labels[i] >= 0 ? to_float(row[labels[i]]) : 0; /* LS_ID_ELSEWHERE: in another part */
        const float square = by.z != 0 ? by.z * sum * sum : 0;
        loss[i] = labels[i] == LS_LABEL_IGNORED ? 0 : sum - by.label * at_label - of_each + square;
    }
}

/*
 * Rows first .. end - 1. All threads read their logits of a step before any thread writes its results, because dlogits
 * may overwrite the logits and have smaller elements.
 */
template <typename X, typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    gradients(const X *logits, const int32_t *labels, const float *lse, const float *dloss, T *dlogits, int64_t first,
              int64_t end, int64_t V, factors by) {
    for (int64_t i = first + blockIdx.x; i < end; i += gridDim.x) {
        const int32_t label = labels[i];
        const float whole = lse[i], factor = dloss[i], slope = by.z != 0 ? 1 + 2 * by.z * whole : 1;
        for (int64_t step = 0; step < V; step += STEP) {
            float x[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int64_t v = step + k * CUDA_THREADS + threadIdx.x;
                x[k] = v < V ? to_float(logits[i * V + v]) : 0;
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int64_t v = step + k * CUDA_THREADS + threadIdx.x;
                const float at_label = v == label ? by.label : 0.0f;
                const float d = (slope * expf(x[k] - whole) - at_label - by.each) * factor;
                if (v < V) dlogits[i * V + v] = from_float<T>(label == LS_LABEL_IGNORED ? 0 : d);
            }
        }
    }
}

/* Merges the loss and the lse of each of P parts of the vocabulary into those of the whole vocabulary. */
static __global__ void __launch_bounds__(CUDA_THREADS)
    merge_parts(const float *parts, const int32_t *labels, float *loss, float *lse, int64_t P, int64_t N, float z) {
    for (EACH(i, N)) {
        float most = -INFINITY, sum = 0, at_label = 0;
        for (int64_t p = 0; p < P; p++) {
            const float part = parts[(2 * p + 1) * N + i];
            most = fmaxf(most, part);
            at_label += part == -INFINITY ? 0 : part - parts[2 * p * N + i];
        }
        const float base = base_of(most);
        for (int64_t p = 0; p < P; p++) sum += expf(parts[(2 * p + 1) * N + i] - base);
        const float total = base + logf(sum);
        loss[i] = labels[i] == LS_LABEL_IGNORED ? 0 : total - at_label + (z != 0 ? z * total * total : 0);
        lse[i] = total;
    }
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

template <typename X> static ls_status launch_losses(const ls_kernel_call *call, void *stream) {
    const int64_t rows = rows_of(&call->in[0]);
    return launch("cross_entropy", stream, ls_min(rows, MOST_BLOCKS), 0, losses<X>, input<X>(call, 0),
                  input<int32_t>(call, 1), output<float>(call, 0), output<float>(call, 1), rows,
                  columns_of(&call->in[0]), factors_of(call));
}
template <typename T> static ls_status launch_loss(const ls_kernel_call *call, void *, void *stream) {
    return call->in[0].dtype == LS_F32 ? launch_losses<float>(call, stream) : launch_losses<T>(call, stream);
}

/*
 * All rows at once, unless results with smaller elements overwrite the logits. Then row 0, row 1, rows 2 and 3, rows 4
 * to 7 and so on, one launch after the other: the results of rows a to 2a - 1 overwrite the logits of rows below a,
 * which are no longer needed.
 */
template <typename X, typename T> static ls_status launch_gradients(const ls_kernel_call *call, void *stream) {
    const int64_t rows = rows_of(&call->in[0]);
    const bool narrows = sizeof(T) < sizeof(X) && call->out[0].data == call->in[0].data;
    for (int64_t first = 0, end; first < rows; first = end) {
        end = narrows ? ls_min(rows, ls_max(1, 2 * first)) : rows;
        LS_TRY(launch("cross_entropy_grad", stream, ls_min(end - first, MOST_BLOCKS), 0, gradients<X, T>,
                      input<X>(call, 0), input<int32_t>(call, 1), input<float>(call, 2), input<float>(call, 3),
                      output<T>(call, 0), first, end, columns_of(&call->in[0]), factors_of(call)));
    }
    return ls_ok();
}
template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    return call->in[0].dtype == LS_F32 ? launch_gradients<float, T>(call, stream)
                                       : launch_gradients<T, T>(call, stream);
}

template <typename T> static ls_status launch_merge(const ls_kernel_call *call, void *, void *stream) {
    const int64_t P = call->in[0].size[0], N = call->in[0].size[2];
    return launch("cross_entropy_merge", stream, blocks_for(N), 0, merge_parts, input<float>(call, 0),
                  input<int32_t>(call, 1), output<float>(call, 0), output<float>(call, 1), P, N, factors_of(call).z);
}

CUDA_ROWS(CROSS_ENTROPY, cross_entropy, launch_loss, nullptr)
CUDA_ROWS(CROSS_ENTROPY_MERGE, cross_entropy_merge, launch_merge, nullptr)
CUDA_ROWS(CROSS_ENTROPY_GRAD, cross_entropy_grad, launch_grad, nullptr)
