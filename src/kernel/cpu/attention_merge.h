/* The merge of two partial results of one query, in the stable form. */
#ifndef LS_KERNEL_CPU_ATTENTION_MERGE_H
#define LS_KERNEL_CPU_ATTENTION_MERGE_H

#include <math.h>

#include "kernel/cpu/simd.h"

/* *lse becomes that of both. Returns the other's share of the whole. Both must be finite. */
V_INLINE float merge_lse(float *lse, float other) {
    const double gap = (double)*lse - other;
    const float share = (float)(1 / (1 + exp(gap)));
    *lse = (float)(gap > 0 ? *lse + log1p(exp(-gap)) : other + log1p(exp(gap)));
    return share;
}

#endif
