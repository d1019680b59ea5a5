/*
 * ref, for itself. Every file here is compiled twice, with LS_REAL_IS_F64 0 and 1: `real` is what arrays
 * hold. Whatever adds up many terms does so in double and is rounded once.
 */
#ifndef LS_KERNEL_REF_IMPL_H
#define LS_KERNEL_REF_IMPL_H

#include <math.h>
#include <stdint.h>

#include "kernel/kernel_impl.h"

/* REF(matmul) is the symbol ls_ref_f64_matmul in the f64 variant. */
#if LS_REAL_IS_F64
typedef double real;
#define LS_REAL LS_F64
#define REF(name) ls_ref_f64_##name
#else
typedef float real;
#define LS_REAL LS_F32
#define REF(name) ls_ref_f32_##name
#endif

extern const ls_kernel REF(embedding), REF(embedding_grad), REF(matmul), REF(column_sum), REF(rmsnorm),
    REF(rmsnorm_grad), REF(layernorm), REF(layernorm_grad), REF(activation), REF(activation_grad), REF(conv),
    REF(conv_dw), REF(rope_table), REF(rotate), REF(swiglu), REF(swiglu_grad), REF(add), REF(mul), REF(scale),
    REF(scale_by), REF(cast), REF(cross_entropy), REF(cross_entropy_grad), REF(sum), REF(broadcast),
    REF(attention), REF(attention_merge), REF(attention_delta), REF(attention_grad), REF(attention_sink),
    REF(attention_sink_grad), REF(cache_write), REF(accumulate), REF(copy), REF(fill), REF(sum_squares),
    REF(step_control), REF(adamw);
#if !LS_REAL_IS_F64
extern const ls_kernel REF(copy_bf16), REF(copy_i32), REF(fill_bf16), REF(fill_i32), REF(cast_bf16),
    REF(sum_bf16), REF(broadcast_bf16), REF(rope_table_bf16), REF(step_control_bf16), REF(cache_write_bf16);
#endif

/* Calls body(context, first, last) for parts of [0, n), on the threads of the pool; what body does with an
 * index must not depend on the others, so that the cut changes no bit. */
typedef void (*ref_body)(const void *context, int64_t first, int64_t last);
void REF(split)(ls_pool *pool, int64_t n, ref_body body, const void *context);

/* The size of the last dimension, and the number of rows before it, of a dense view. */
static inline int64_t ref_columns(const ls_view *view) {
    return view->ndim > 0 ? view->size[view->ndim - 1] : 1;
}
static inline int64_t ref_rows(const ls_view *view) {
    int64_t rows = 1;
    for (int d = 0; d + 1 < view->ndim; d++) rows *= view->size[d];
    return rows;
}

#endif
