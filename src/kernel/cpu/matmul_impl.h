/* What the kernels of matmul share, and the functions of the one by oneDNN, the same for each isa (the library picks its own) and element type. */
#ifndef LS_KERNEL_CPU_MATMUL_IMPL_H
#define LS_KERNEL_CPU_MATMUL_IMPL_H

#include "kernel/kernel.h"

/* C[M,N] (+)= A[M,K]·B[K,N] (+ bias[N]); strides in elements, one of each pair is 1. */
typedef struct ls_cpu_product {
    int64_t M, N, K;
    int64_t a_row, a_column, b_row, b_column, c_row;
    ls_dtype in, out; /* of A, B and bias; of C */
    bool bias, accumulate;
} ls_cpu_product;

/* As the views and parameters of a call give it. */
ls_cpu_product ls_cpu_product_of(const ls_kernel_call *call);

/* What each of so many parts takes of a size, in whole units; the last may have less. */
static inline int64_t ls_cpu_even_step(int64_t size, int64_t parts, int64_t unit) {
    return (int64_t)ls_round_up((size_t)ls_ceil_div(size, parts), (size_t)unit);
}

size_t ls_cpu_matmul_workspace(const ls_kernel_call *call);
LS_MUST_USE ls_status ls_cpu_matmul_prepare(ls_dtype dtype, const ls_kernel_call *call, void **state);
void ls_cpu_matmul_release(void *state);
void ls_cpu_matmul_run(const ls_kernel_call *call, void *state, ls_pool *pool);

#endif
