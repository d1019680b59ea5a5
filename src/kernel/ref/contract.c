/* contract: y[m,n,i,j] = the sum over k and l of a[m,n,i,k,l] b[m,n,k,l,j], in double. */
#include "kernel/ref/ref_impl.h"

static ls_status prepare_contract(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CONTRACT, LS_REAL, call);
}

static void products(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    const bool adds = ((const ls_contract_params *)call->params)->accumulate;
    for (int64_t e = first; e < last; e++) {
        const int64_t j = e % y->size[3], i = e / y->size[3] % y->size[2];
        const int64_t n = e / y->size[3] / y->size[2] % y->size[1], m = e / y->size[3] / y->size[2] / y->size[1];
        const real *row = (const real *)a->data + m * a->stride[0] + n * a->stride[1] + i * a->stride[2];
        const real *column = (const real *)b->data + m * b->stride[0] + n * b->stride[1] + j * b->stride[4];
        real *to = (real *)y->data + m * y->stride[0] + n * y->stride[1] + i * y->stride[2] + j * y->stride[3];
        double sum = adds ? (double)*to : 0;
        for (int64_t k = 0; k < a->size[3]; k++)
            for (int64_t l = 0; l < a->size[4]; l++)
                sum += (double)row[k * a->stride[3] + l * a->stride[4]] *
                       (double)column[k * b->stride[2] + l * b->stride[3]];
        *to = (real)sum;
    }
}

static void run_contract(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->out[0]), products, call);
}

const ls_kernel REF(contract) = {
    .id = LS_KERNEL_CONTRACT, .dtype = LS_REAL, .prepare = prepare_contract, .run = run_contract};
