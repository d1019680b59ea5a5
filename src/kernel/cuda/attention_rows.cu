/*
 * Kernels that work on results of attention row by row, a warp for each head of a query: attention_merge merges the
 * results with those of other keys, attention_sink with a key whose value is 0; attention_delta is the product of a
 * result and its gradient. attention_sink_grad, a block for each head, adds up -exp(sink - lse) delta over the queries.
 */
#include "kernel/cuda/attention_problem.h"

#include <math.h>

/* Rows [B,H,N]: how many there are, and the row of this warp. */
struct row_sizes {
    int64_t B, H, N;
    __host__ __device__ int64_t rows() const { return B * H * N; }
};
struct row {
    int64_t b, h, i;
};
static __device__ __forceinline__ row row_at(const row_sizes &n, int64_t at) {
    return {at / n.N / n.H, at / n.N % n.H, at % n.N};
}

static row_sizes sizes_of(const ls_view *lse) { return {lse->size[0], lse->size[1], lse->size[2]}; }
static int64_t blocks_for_rows(const row_sizes &n) { return ls_ceil_div(n.rows(), (int64_t)CUDA_WARPS); }

/* --- merges ------------------------------------------------------------------------------------------------------- */

/* The results of other keys: the lse, and element d of a row. */
struct other_keys {
    heads<const float> part;
    const float *part_lse; /* [B,H,N] */
    __device__ float lse(const row &, int64_t at) const { return part_lse[at]; }
    __device__ float element(const row &r, int64_t d) const { return part.at(r.b, r.i, r.h)[d]; }
};
template <typename T> struct sink_key {
    const T *sink;
    __device__ float lse(const row &r, int64_t) const { return to_float(sink[r.h]); }
    __device__ float element(const row &, int64_t) const { return 0; }
};

template <typename Other>
static __global__ void __launch_bounds__(CUDA_THREADS)
    merge_rows(Other other, heads<float> o, float *lse, row_sizes n, int64_t D) {
    const int64_t at = warp_number();
    if (at >= n.rows()) return;
    const row r = row_at(n, at);
    const float more = other.lse(r, at);
    if (more == -INFINITY) return; /* nothing is added */
    const merged m = merge(more, lse[at]);
    float *to = o.at(r.b, r.i, r.h);
    for (int64_t d = threadIdx.x % 32; d < D; d += 32) to[d] = to[d] * m.before + other.element(r, d) * m.own;
    __syncwarp(); /* all have read the lse before */
    if (threadIdx.x % 32 == 0) lse[at] = m.lse;
}

template <typename Other>
static ls_status launch_merges(const char *name, const ls_kernel_call *call, void *stream, Other other) {
    const row_sizes n = sizes_of(&call->out[1]);
    return launch(name, stream, blocks_for_rows(n), 0, merge_rows<Other>, other, heads_of<float>(&call->out[0]),
                  output<float>(call, 1), n, call->out[0].size[3]);
}

static ls_status launch_merge(const ls_kernel_call *call, void *, void *stream) {
    return launch_merges("attention_merge", call, stream,
                         other_keys{heads_of<const float>(&call->in[0]), input<float>(call, 1)});
}
template <typename T> static ls_status launch_sink(const ls_kernel_call *call, void *, void *stream) {
    return launch_merges("attention_sink", call, stream, sink_key<T>{input<T>(call, 0)});
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    deltas(heads<const T> o, heads<const T> dout, float *delta, row_sizes n, int64_t D) {
    const int64_t at = warp_number();
    if (at >= n.rows()) return;
    const row r = row_at(n, at);
    const T *x = o.at(r.b, r.i, r.h), *dx = dout.at(r.b, r.i, r.h);
    float sum = 0;
    for (int64_t d = threadIdx.x % 32; d < D; d += 32) sum += to_float(x[d]) * to_float(dx[d]);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) delta[at] = sum;
}

template <typename T> static ls_status launch_delta(const ls_kernel_call *call, void *, void *stream) {
    const row_sizes n = sizes_of(&call->out[0]);
    return launch("attention_delta", stream, blocks_for_rows(n), 0, deltas<T>, heads_of<const T>(&call->in[0]),
                  heads_of<const T>(&call->in[1]), output<float>(call, 0), n, call->in[0].size[3]);
}

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    sink_gradients(const T *sink, const float *lse, const float *delta, float *dsink, row_sizes n) {
    const int64_t h = blockIdx.x;
    const float own = to_float(sink[h]);
    float sum = 0;
    for (int64_t k = threadIdx.x; k < n.B * n.N; k += CUDA_THREADS) {
        const int64_t at = (k / n.N * n.H + h) * n.N + k % n.N;
        if (lse[at] != -INFINITY) sum += expf(own - lse[at]) * delta[at];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) dsink[h] -= sum;
}

template <typename T> static ls_status launch_sink_grad(const ls_kernel_call *call, void *, void *stream) {
    const row_sizes n = sizes_of(&call->in[1]);
    return launch("attention_sink_grad", stream, n.H, 0, sink_gradients<T>, input<T>(call, 0), input<float>(call, 1),
                  input<float>(call, 2), output<float>(call, 0), n);
}

/* Results are f32, whatever the kernel's type is. */
CUDA_ROW(ls_cuda_f32_attention_merge, ATTENTION_MERGE, LS_F32, launch_merge, nullptr)
CUDA_ROW(ls_cuda_bf16_attention_merge, ATTENTION_MERGE, LS_BF16, launch_merge, nullptr)
CUDA_ROWS(ATTENTION_SINK, attention_sink, launch_sink, nullptr)
CUDA_ROWS(ATTENTION_SINK_GRAD, attention_sink_grad, launch_sink_grad, nullptr)
CUDA_ROWS(ATTENTION_DELTA, attention_delta, launch_delta, nullptr)
