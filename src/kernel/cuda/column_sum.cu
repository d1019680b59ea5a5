/* Sums over the rows of a matrix: column_sum, the gradient of a bias, and add_rows, the sum over ranks. */
#include "kernel/cuda/columns.h"
#include "kernel/cuda/pack.h"

template <typename T> struct element {
    const T *x;
    int64_t columns;
    __device__ float operator()(int64_t i, int64_t e) const { return to_float(x[i * columns + e]); }
};

template <typename T> static ls_status launch_column_sum(const ls_kernel_call *call, void *, void *stream) {
    const int64_t rows = rows_of(&call->in[0]), columns = columns_of(&call->in[0]);
    LS_TRY(sum_columns("column_sum", stream, element<T>{input<T>(call, 0), columns}, rows, columns, call->workspace));
    return add_columns("column_sum", stream, count_parts(rows), columns, call->workspace, output<float>(call, 0));
}

/* Adds row after row, from the first one on, as the contract says. */
template <int N, typename G>
static __global__ void __launch_bounds__(CUDA_THREADS) add_rows(const G *x, G *y, int64_t rows, int64_t columns) {
    for (EACH(i, columns / N)) {
        pack<G, N> sum = load_pack<N>(x + i * N);
        for (int64_t row = 1; row < rows; row++) {
            const pack<G, N> next = load_pack<N>(x + row * columns + i * N);
#pragma unroll
            for (int k = 0; k < N; k++) sum.at[k] += next.at[k];
        }
        store_pack<N>(y + i * N, sum);
    }
}

template <typename G> static ls_status launch_add_rows(const ls_kernel_call *call, void *, void *stream) {
    constexpr int N = pack_size<G>();
    const int64_t rows = rows_of(&call->in[0]), columns = columns_of(&call->in[0]);
    const G *x = input<G>(call, 0);
    G *y = output<G>(call, 0);
    if (columns % N == 0 && is_aligned(x) && is_aligned(y))
        return launch("add_rows", stream, blocks_for(columns / N), 0, add_rows<N, G>, x, y, rows, columns);
    return launch("add_rows", stream, blocks_for(columns), 0, add_rows<1, G>, x, y, rows, columns);
}

CUDA_ROWS(COLUMN_SUM, column_sum, launch_column_sum, rows_workspace)
/* The operands are f32 for bf16 too. */
CUDA_ROW(ls_cuda_f32_add_rows, ADD_ROWS, LS_F32, launch_add_rows<float>, nullptr)
CUDA_ROW(ls_cuda_bf16_add_rows, ADD_ROWS, LS_BF16, launch_add_rows<float>, nullptr)
CUDA_ROW(ls_cuda_f64_add_rows, ADD_ROWS, LS_F64, launch_add_rows<double>, nullptr)
