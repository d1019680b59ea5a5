/*
 * matmul, for the files that implement it: the description of a product, matmul by oneDNN, and the interface to oneDNN.
 */
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

/* The product of a call of matmul. */
ls_cpu_product ls_cpu_product_of(const ls_kernel_call *call);

/* The size of each of `parts` equal parts of `size`, rounded up to whole units; the last part may be smaller. */
static inline int64_t ls_cpu_even_step(int64_t size, int64_t parts, int64_t unit) {
    return (int64_t)ls_round_up((size_t)ls_ceil_div(size, parts), (size_t)unit);
}

/* --- matmul by oneDNN, for any isa and element type (common_matmul.c) --------------------------------------------- */

size_t ls_cpu_matmul_workspace(const ls_kernel_call *call);
LS_MUST_USE ls_status ls_cpu_matmul_prepare(ls_dtype dtype, const ls_kernel_call *call, void **state);
void ls_cpu_matmul_release(void *state);
void ls_cpu_matmul_run(const ls_kernel_call *call, void *state, ls_pool *pool);

/* --- oneDNN (common_onednn.c): the only file that includes the library's header ----------------------------------- */

/*
 * One product, computed by the calling thread alone: oneDNN starts no threads. It chooses its own instruction set, up
 * to LONGSPAN_ISA.
 */
typedef struct ls_onednn ls_onednn;

/* Bytes of scratch memory that oneDNN needs for the product. LS_UNSUPPORTED: it cannot compute it on this machine. */
LS_MUST_USE ls_status ls_onednn_scratch(const ls_cpu_product *product, size_t *bytes);

/* Generates the code. Only one thread at a time may use an object; objects of equal products share their code. */
LS_MUST_USE ls_status ls_onednn_create(const ls_cpu_product *product, ls_onednn **out);
void ls_onednn_destroy(ls_onednn *product); /* NULL is allowed */

typedef struct ls_onednn_data {
    const void *a, *b, *bias;
    void *c, *scratch;
} ls_onednn_data;

/* Cannot fail: sizes were checked at creation. */
void ls_onednn_run(ls_onednn *product, const ls_onednn_data *data);

#endif
