/*
 * contract: y[m,n,i,j] = the sum over k and l of a[m,n,i,k,l] b[m,n,k,l,j], a thread for each result. Sums over FLUSH
 * terms are added in f64, because long sums are over tokens.
 */
#include "kernel/cuda/cuda_impl.h"

/* Sizes of y, strides of each operand. */
struct products {
    int64_t size[4], K, L, a[5], b[5], y[4];
};

enum { FLUSH = 64 };

template <typename T, typename Y>
static __global__ void __launch_bounds__(CUDA_THREADS)
    multiply(const T *a, const T *b, Y *y, products p, int64_t n, bool adds) {
    for (EACH(e, n)) {
        const int64_t j = e % p.size[3], i = e / p.size[3] % p.size[2];
        const int64_t batch = e / p.size[3] / p.size[2] % p.size[1], m = e / p.size[3] / p.size[2] / p.size[1];
        const T *row = a + m * p.a[0] + batch * p.a[1] + i * p.a[2];
        const T *column = b + m * p.b[0] + batch * p.b[1] + j * p.b[4];
        double total = 0;
        float sum = 0;
        int terms = 0;
        for (int64_t k = 0; k < p.K; k++) {
            for (int64_t l = 0; l < p.L; l++) {
                sum += to_float(row[k * p.a[3] + l * p.a[4]]) * to_float(column[k * p.b[2] + l * p.b[3]]);
                if (++terms < FLUSH) continue;
                total += sum;
                sum = 0;
                terms = 0;
            }
        }
        Y *to = y + m * p.y[0] + batch * p.y[1] + i * p.y[2] + j * p.y[3];
        const float result = (float)(total + sum);
        *to = from_float<Y>(adds ? to_float(*to) + result : result);
    }
}

template <typename T, typename Y> static ls_status launch_of(const ls_kernel_call *call, void *stream) {
    const ls_view *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    products p = {};
    p.K = a->size[3];
    p.L = a->size[4];
    for (int d = 0; d < 5; d++) {
        p.a[d] = a->stride[d];
        p.b[d] = b->stride[d];
    }
    for (int d = 0; d < 4; d++) {
        p.size[d] = y->size[d];
        p.y[d] = y->stride[d];
    }
    const int64_t n = ls_view_elements(y);
    return launch("contract", stream, blocks_for(n), 0, multiply<T, Y>, input<T>(call, 0), input<T>(call, 1),
                  output<Y>(call, 0), p, n, ((const ls_contract_params *)call->params)->accumulate);
}
template <typename T> static ls_status launch_contract(const ls_kernel_call *call, void *, void *stream) {
    return call->out[0].dtype == LS_F32 ? launch_of<T, float>(call, stream) : launch_of<T, T>(call, stream);
}

CUDA_ROWS(CONTRACT, contract, launch_contract, nullptr)
