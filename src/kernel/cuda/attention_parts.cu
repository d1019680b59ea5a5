/* The merge of two results of attention: a warp for each query of a head. */
#include "kernel/cuda/attention_problem.h"

#include <math.h>

extern "C" {
#include "kernel/cuda/attention_parts.h"
}

struct parts {
    heads<const float> part, part_lse;
    heads<float> o, lse;
    int64_t queries, rows; /* rows: of all heads and batches */
    int H, D;
};

static __global__ void __launch_bounds__(CUDA_THREADS) merge_rows(parts p) {
    const int64_t row = (int64_t)blockIdx.x * CUDA_WARPS + threadIdx.x / 32;
    if (row >= p.rows) return;
    const int64_t i = row % p.queries, h = row / p.queries % p.H, b = row / p.queries / p.H;
    const merged m = merge(*p.part_lse.at(b, i, h), *p.lse.at(b, i, h));
    const float *part = p.part.at(b, i, h);
    float *o = p.o.at(b, i, h);
    for (int d = threadIdx.x % 32; d < p.D; d += 32)
        o[d] = (m.before == 0 ? 0 : o[d] * m.before) + (m.own == 0 ? 0 : part[d] * m.own);
    __syncwarp(); /* all have read the lse before */
    if (threadIdx.x % 32 == 0) *p.lse.at(b, i, h) = m.lse;
}

extern "C" ls_status ls_cuda_merge_part(const ls_view *part, const ls_view *part_lse, const ls_view *o,
                                        const ls_view *lse, void *stream) {
    const int64_t *size = o->size;
    const parts p = {.part = heads_of<const float>(part),
                     .part_lse = rows_of_heads<const float>(part_lse),
                     .o = heads_of<float>(o),
                     .lse = rows_of_heads<float>(lse),
                     .queries = size[1],
                     .rows = size[0] * size[1] * size[2],
                     .H = (int)size[2],
                     .D = (int)size[3]};
    return launch("attention", stream, ls_ceil_div(p.rows, (int64_t)CUDA_WARPS), 0, merge_rows, p);
}
