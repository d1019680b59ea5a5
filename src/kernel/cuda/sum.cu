/*
 * Sums over all elements of an operand, in f64: each block adds up a part, then one block adds up the parts. normalize
 * divides by the square root of such a sum.
 */
#include "kernel/cuda/cuda_impl.h"

#include <math.h>

/* TERMS: terms of a thread; more if there would be more than MOST_SUMS parts. */
enum { TERMS = 16, MOST_SUMS = 1024 };

static int64_t count_sums(int64_t n) { return ls_min(MOST_SUMS, ls_ceil_div(n, (int64_t)TERMS * CUDA_THREADS)); }

/* Room for the parts, and for one more number: the factor of normalize. */
static size_t sum_workspace(const ls_kernel_call *call) {
    return sizeof(double) * (size_t)(count_sums(ls_view_elements(&call->in[0])) + 1);
}

template <typename Term>
static __global__ void __launch_bounds__(CUDA_THREADS) sum_parts(Term term, int64_t n, double *parts) {
    double sum = 0;
#pragma unroll 4
    for (EACH(i, n)) sum += term(i);
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

/* Calls use(the sum of the parts); launched as one block. */
template <typename Use>
static __global__ void __launch_bounds__(CUDA_THREADS) add_parts(const double *parts, int64_t n_parts, Use use) {
    double sum = 0;
    for (int64_t p = threadIdx.x; p < n_parts; p += CUDA_THREADS) sum += parts[p];
    sum = block_sum(sum);
    if (threadIdx.x == 0) use(sum);
}

/* Calls use(the sum of term(i) over all elements i of input 0) on the device. */
template <typename Term, typename Use>
static ls_status launch_sum_of(const char *name, const ls_kernel_call *call, void *stream, Term term, Use use) {
    const int64_t n = ls_view_elements(&call->in[0]), parts = count_sums(n);
    LS_TRY(launch(name, stream, parts, 0, sum_parts<Term>, term, n, (double *)call->workspace));
    return launch(name, stream, 1, 0, add_parts<Use>, (const double *)call->workspace, parts, use);
}

struct number {
    const float *x;
    __device__ double operator()(int64_t i) const { return (double)x[i]; }
};
template <typename T> struct square {
    const T *x;
    __device__ double operator()(int64_t i) const {
        const double number = (double)to_float(x[i]);
        return number * number;
    }
};

template <typename Y> struct add_to {
    Y *y;
    __device__ void operator()(double sum) const { *y = (Y)((double)*y + sum); }
};

static ls_status launch_sum(const ls_kernel_call *call, void *, void *stream) {
    return launch_sum_of("sum", call, stream, number{input<float>(call, 0)}, add_to<float>{output<float>(call, 0)});
}

static ls_status launch_sum_squares(const ls_kernel_call *call, void *, void *stream) {
    return launch_sum_of("sum_squares", call, stream, square<float>{input<float>(call, 0)},
                         add_to<double>{output<double>(call, 0)});
}

/* --- normalize ---------------------------------------------------------------------------------------------------- */

struct set_inverse_root {
    double *factor;
    __device__ void operator()(double squares) const {
        const double norm = sqrt(squares);
        *factor = norm < 1e-30 ? 0 : 1 / norm;
    }
};

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS) multiply(const T *x, const double *factor, T *y, int64_t n) {
    const float by = (float)*factor;
    for (EACH(i, n)) y[i] = from_float<T>(by * to_float(x[i]));
}

template <typename T> static ls_status launch_normalize(const ls_kernel_call *call, void *, void *stream) {
    const int64_t n = ls_view_elements(&call->in[0]);
    double *factor = (double *)call->workspace + count_sums(n);
    LS_TRY(launch_sum_of("normalize", call, stream, square<T>{input<T>(call, 0)}, set_inverse_root{factor}));
    return launch("normalize", stream, blocks_for(n), 0, multiply<T>, input<T>(call, 0), (const double *)factor,
                  output<T>(call, 0), n);
}

/* Sums are of f32, whatever the kernel's type is. */
CUDA_ROW(ls_cuda_f32_sum, SUM, LS_F32, launch_sum, sum_workspace)
CUDA_ROW(ls_cuda_bf16_sum, SUM, LS_BF16, launch_sum, sum_workspace)
CUDA_ROW(ls_cuda_f32_sum_squares, SUM_SQUARES, LS_F32, launch_sum_squares, sum_workspace)
CUDA_ROW(ls_cuda_bf16_sum_squares, SUM_SQUARES, LS_BF16, launch_sum_squares, sum_workspace)
CUDA_ROWS(NORMALIZE, normalize, launch_normalize, sum_workspace)
