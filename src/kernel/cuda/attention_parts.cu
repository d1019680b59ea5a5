/* Converts between cuDNN's operands and results of attention and those of the contracts (attention_parts.h). */
#include "kernel/cuda/attention_problem.h"

#include <math.h>

extern "C" {
#include "kernel/cuda/attention_parts.h"
}

struct parts {
    heads<const bf16> part;
    heads<const float> part_lse;
    heads<float> o, lse;
    int64_t queries, rows; /* rows: a query of a head, over all sequences */
    int H, D;
    bool merges;
};

/* A warp for each query of a head. */
static __global__ void __launch_bounds__(CUDA_THREADS) take_rows(parts p) {
    const int64_t row = (int64_t)blockIdx.x * CUDA_WARPS + threadIdx.x / 32;
    if (row >= p.rows) return;
    const int64_t i = row % p.queries, h = row / p.queries % p.H, b = row / p.queries / p.H;
    const float own = *p.part_lse.at(b, i, h);
    const merged m = p.merges ? merge(own, *p.lse.at(b, i, h)) : merged{own, 1, 0};
    const bf16 *part = p.part.at(b, i, h);
    float *o = p.o.at(b, i, h);
    for (int d = threadIdx.x % 32; d < p.D; d += 32)
        o[d] = (m.before == 0 ? 0 : o[d] * m.before) + (m.own == 0 ? 0 : to_float(part[d]) * m.own);
    __syncwarp(); /* all have read the lse before */
    if (threadIdx.x % 32 == 0) *p.lse.at(b, i, h) = m.lse;
}

extern "C" ls_status ls_cuda_take_part(const ls_kernel_call *call, const ls_view *part, const ls_view *part_lse,
                                       void *stream) {
    const ls_view *o = &call->out[0];
    const parts p = {.part = heads_of<const bf16>(part),
                     .part_lse = rows_of_heads<const float>(part_lse),
                     .o = heads_of<float>(o),
                     .lse = rows_of_heads<float>(&call->out[1]),
                     .queries = o->size[1],
                     .rows = o->size[0] * o->size[1] * o->size[2],
                     .H = (int)o->size[2],
                     .D = (int)o->size[3],
                     .merges = ((const ls_attention_params *)call->params)->merge};
    return launch("attention", stream, ls_ceil_div(p.rows, (int64_t)CUDA_WARPS), 0, take_rows, p);
}

/* --- the gradient ------------------------------------------------------------------------------------------------- */

struct results {
    heads<const bf16> dout;
    heads<const float> lse, delta;
    heads<bf16> o;
    heads<float> own_lse;
    int64_t queries, rows;
    int H, D;
};

/*
 * o = delta do / |do|^2. do is divided by its largest element first, so that no square is too small for f32. |o| is at
 * most the |o| of the attention result from which delta was computed. A warp for each query of a head.
 */
static __global__ void __launch_bounds__(CUDA_THREADS) make_rows(results p) {
    const int64_t row = (int64_t)blockIdx.x * CUDA_WARPS + threadIdx.x / 32;
    if (row >= p.rows) return;
    const int64_t i = row % p.queries, h = row / p.queries % p.H, b = row / p.queries / p.H;
    const bf16 *dout = p.dout.at(b, i, h);
    bf16 *o = p.o.at(b, i, h);
    float most = 0, squares = 0;
    for (int d = threadIdx.x % 32; d < p.D; d += 32) most = fmaxf(most, fabsf(to_float(dout[d])));
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0U, most, step));
    const float unit = most > 0 ? most : 1;
    for (int d = threadIdx.x % 32; d < p.D; d += 32) {
        const float x = to_float(dout[d]) / unit;
        squares += x * x;
    }
    squares = warp_sum(squares);
    const float factor = squares == 0 ? 0 : *p.delta.at(b, i, h) / unit / squares;
    for (int d = threadIdx.x % 32; d < p.D; d += 32) o[d] = from_float<bf16>(factor * (to_float(dout[d]) / unit));
    const float lse = *p.lse.at(b, i, h);
    if (threadIdx.x % 32 == 0) *p.own_lse.at(b, i, h) = lse == -INFINITY ? INFINITY : lse;
}

extern "C" ls_status ls_cuda_make_result(const ls_kernel_call *call, const ls_view *o, const ls_view *lse,
                                         void *stream) {
    const results p = {.dout = heads_of<const bf16>(&call->in[5]),
                       .lse = rows_of_heads<const float>(&call->in[6]),
                       .delta = rows_of_heads<const float>(&call->in[7]),
                       .o = heads_of<bf16>(o),
                       .own_lse = rows_of_heads<float>(lse),
                       .queries = o->size[1],
                       .rows = o->size[0] * o->size[1] * o->size[2],
                       .H = (int)o->size[2],
                       .D = (int)o->size[3]};
    return launch("attention_grad", stream, ls_ceil_div(p.rows, (int64_t)CUDA_WARPS), 0, make_rows, p);
}

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    take_elements(const T *part, heads<float> to, int64_t N, int64_t H, int64_t D, int64_t count, bool adds) {
    for (EACH(x, count)) {
        float *at = to.at(x / (N * H * D), x / (H * D) % N, x / D % H) + x % D;
        *at = (adds ? *at : 0) + to_float(part[x]);
    }
}

template <typename T> static ls_status take_all(const ls_view *part, const ls_view *to, bool adds, void *stream) {
    const int64_t n = ls_view_elements(part), *size = part->size;
    return launch("attention_grad", stream, blocks_for(n), 0, take_elements<T>, (const T *)part->data,
                  heads_of<float>(to), size[1], size[2], size[3], n, adds);
}

extern "C" ls_status ls_cuda_take_gradient(const ls_view *part, const ls_view *to, bool adds, void *stream) {
    return part->dtype == LS_BF16 ? take_all<bf16>(part, to, adds, stream) : take_all<float>(part, to, adds, stream);
}

extern "C" ls_status ls_cuda_capability(const char *kernel, int *major) {
    return device_number(kernel, "compute capability", cudaDevAttrComputeCapabilityMajor, major);
}
