/*
 * The reference kernels, for the files of this folder. Each file is compiled twice, with LS_REAL_IS_F64 0 and 1; `real`
 * is the type of the arrays' elements. Sums are computed in double and rounded once.
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

#define REF_ROW(id, name) REF(name)
extern const ls_kernel LS_KERNELS(REF_ROW);
#if !LS_REAL_IS_F64
extern const ls_kernel REF(copy_bf16), REF(copy_i32), REF(fill_bf16), REF(fill_i32), REF(cast_bf16), REF(sum_bf16),
    REF(rope_table_bf16), REF(step_control_bf16), REF(cache_write_bf16), REF(offload_bf16), REF(fetch_bf16),
    REF(offload_i32), REF(fetch_i32), REF(local_ids_bf16), REF(cross_entropy_merge_bf16), REF(deal_rows_bf16),
    REF(collect_rows_bf16);
#define REF_BLOCK_TYPES(X) X(nf4, LS_NF4) X(int8, LS_INT8) X(fp8, LS_FP8) X(mxfp4, LS_MXFP4)
#define REF_COPIES(name, dtype) extern const ls_kernel REF(copy_##name), REF(offload_##name), REF(fetch_##name);
REF_BLOCK_TYPES(REF_COPIES)
#endif

/* --- work on threads ---------------------------------------------------------------------------------------------- */

/*
 * Works on indices first .. last-1. The result of an index must not depend on the others, so that the division into
 * parts changes no bit.
 */
typedef void (*ref_body)(const void *context, int64_t first, int64_t last);

typedef struct ref_work {
    int64_t n, parts;
    ref_body body;
    const void *context;
} ref_work;

static inline void ref_run_part(void *context, int i, int thread) {
    (void)thread;
    const ref_work *w = context;
    w->body(w->context, ls_part_start(w->n, w->parts, i), ls_part_start(w->n, w->parts, i + 1));
}

/* Runs the body over [0, n), in parts on the threads of the pool. */
static inline void ref_split(ls_pool *pool, int64_t n, ref_body body, const void *context) {
    enum { PARTS_PER_THREAD = 4 };
    const int threads = ls_pool_threads(pool);
    ref_work w = {n, threads > 1 ? ls_min(n, (int64_t)threads * PARTS_PER_THREAD) : 1, body, context};
    if (n > 0) ls_pool_run(pool, (int)w.parts, ref_run_part, &w);
}

/* --- dense views as rows ------------------------------------------------------------------------------------------ */

/* The size of the last dimension; the product of the sizes of the others. */
static inline int64_t ref_columns(const ls_view *view) { return view->ndim > 0 ? view->size[view->ndim - 1] : 1; }
static inline int64_t ref_rows(const ls_view *view) {
    int64_t rows = 1;
    for (int d = 0; d + 1 < view->ndim; d++) rows *= view->size[d];
    return rows;
}

#endif
