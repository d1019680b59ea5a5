/* rmsnorm: y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + epsilon) of each row: a block for a row. */
#include "kernel/cuda/columns.h"

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    normalise(const T *x, const T *weight, T *y, float *rstd, int64_t rows, int64_t E, float epsilon, float offset) {
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
        const T *from = x + i * E;
        float squares = 0;
        for (int64_t e = threadIdx.x; e < E; e += CUDA_THREADS) squares += to_float(from[e]) * to_float(from[e]);
        const float r = 1 / sqrtf(block_sum(squares) / (float)E + epsilon);
        if (threadIdx.x == 0) rstd[i] = r;
        for (int64_t e = threadIdx.x; e < E; e += CUDA_THREADS)
            y[i * E + e] = from_float<T>(to_float(from[e]) * r * (offset + to_float(weight[e])));
    }
}

template <typename T> static ls_status launch_rmsnorm(const ls_kernel_call *call, void *state, void *stream) {
    (void)state;
    const ls_norm_params *p = (const ls_norm_params *)call->params;
    const int64_t rows = rows_of(&call->in[0]);
    return launch("rmsnorm", stream, ls_min(rows, MOST_BLOCKS), 0, normalise<T>, input<T>(call, 0), input<T>(call, 1),
                  output<T>(call, 0), output<float>(call, 1), rows, columns_of(&call->in[0]), (float)p->epsilon,
                  (float)p->offset);
}

/* With w = offset + weight: dx = rstd * (w dy) - x * rstd^3 * mean(w dy x). dx may lie where x or dy lies. */
template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    grad_of_x(const T *x, const T *weight, const float *rstd, const T *dy, T *dx, int64_t rows, int64_t E,
              float offset) {
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
        float product = 0;
        for (int64_t e = threadIdx.x; e < E; e += CUDA_THREADS)
            product += (offset + to_float(weight[e])) * to_float(dy[i * E + e]) * to_float(x[i * E + e]);
        const float r = rstd[i], factor = r * r * r * block_sum(product) / (float)E;
        for (int64_t e = threadIdx.x; e < E; e += CUDA_THREADS)
            dx[i * E + e] = from_float<T>(r * (offset + to_float(weight[e])) * to_float(dy[i * E + e]) -
                                          to_float(x[i * E + e]) * factor);
    }
}

template <typename T> struct weight_term {
    const T *x, *dy;
    const float *rstd;
    int64_t E;
    __device__ float operator()(int64_t i, int64_t e) const {
        return to_float(dy[i * E + e]) * to_float(x[i * E + e]) * rstd[i];
    }
};

/* dweight first: dx may overwrite dy. */
template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *state, void *stream) {
    (void)state;
    const ls_norm_params *p = (const ls_norm_params *)call->params;
    const int64_t rows = rows_of(&call->in[0]), E = columns_of(&call->in[0]);
    const weight_term<T> term = {input<T>(call, 0), input<T>(call, 3), input<float>(call, 2), E};
    LS_TRY(sum_columns("rmsnorm_grad", stream, term, rows, E, call->workspace));
    LS_TRY(add_columns("rmsnorm_grad", stream, rows, E, call->workspace, output<float>(call, 1)));
    return launch("rmsnorm_grad", stream, ls_min(rows, MOST_BLOCKS), 0, grad_of_x<T>, input<T>(call, 0),
                  input<T>(call, 1), input<float>(call, 2), input<T>(call, 3), output<T>(call, 0), rows, E,
                  (float)p->offset);
}

static size_t grad_workspace(const ls_kernel_call *call) {
    return column_workspace(rows_of(&call->in[0]), columns_of(&call->in[0]));
}

CUDA_ROWS(RMSNORM, rmsnorm, launch_rmsnorm, nullptr)
CUDA_ROWS(RMSNORM_GRAD, rmsnorm_grad, launch_grad, grad_workspace)
