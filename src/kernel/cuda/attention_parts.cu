/* Takes a result of attention, or merges it with the one that is there: a warp for each query of a head. */
#include "kernel/cuda/attention_problem.h"

#include <math.h>

extern "C" {
#include "kernel/cuda/attention_parts.h"
}

struct parts {
    heads<const bf16> part;
    heads<const float> part_lse;
    heads<float> o, lse;
    int64_t queries, rows; /* rows: of all heads and batches */
    int H, D;
    bool merges;
};

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
