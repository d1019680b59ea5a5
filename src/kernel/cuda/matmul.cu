/*
 * Products of bf16 on tensor cores: a block computes 128 x 128 elements of C, a warp 64 x 32 of these, with sums in f32
 * over k in ascending order. While a step of 32 elements of the lines is computed, the next steps are copied to shared
 * memory.
 */
#include "kernel/cuda/matmul_problem.h"
#include "kernel/cuda/tiles.h"

static constexpr int STEP = 32, STAGES = 3;             /* steps in shared memory */
static constexpr int WARP_ROWS = 64, WARP_COLUMNS = 32; /* of C */
static constexpr int A_FRAGMENTS = WARP_ROWS / 16, B_FRAGMENTS = WARP_COLUMNS / 8;

/*
 * TILE lines of A or B in a step, in the operand's layout: lines of STEP elements, or STEP rows with an element of each
 * line.
 */
static constexpr int STEP_BYTES = tile<STEP>::bytes(TILE);
static_assert(tile<TILE>::bytes(STEP) <= STEP_BYTES, "either form");

/* Like load_tile, for rows of any alignment. */
template <int D, int ROWS>
static __device__ __forceinline__ void load_elements(bf16 *to, const bf16 *from, int64_t stride, int64_t first,
                                                     int64_t n, int d) {
    for (int c = threadIdx.x; c < ROWS * D; c += CUDA_THREADS) {
        const int row = c / D, e = c % D;
        const bool is = first + row < n && e < d;
        to[row * tile<D>::PITCH + e] = is ? from[(first + row) * stride + e] : from_float<bf16>(0);
    }
}

template <bool IN_VECTORS, int D, int ROWS>
static __device__ __forceinline__ void load_rows(bf16 *to, const bf16 *from, int64_t rows, int64_t columns, int64_t row,
                                                 int64_t column) {
    const int d = columns - column < D ? (int)(columns - column) : D;
    if (IN_VECTORS)
        load_tile<D, ROWS>(to, from + column, columns, row, rows, d);
    else
        load_elements<D, ROWS>(to, from + column, columns, row, rows, d);
}

/* Loads elements k .. k + STEP - 1 of TILE lines from `line` on; 0 beyond the operand. */
template <bool IN_VECTORS, bool BY_LINES>
static __device__ __forceinline__ void load_step(unsigned char *to, const bf16 *from, int64_t lines, int64_t K,
                                                 int64_t line, int64_t k) {
    if (BY_LINES)
        load_rows<IN_VECTORS, STEP, TILE>((bf16 *)to, from, lines, K, line, k);
    else
        load_rows<IN_VECTORS, TILE, STEP>((bf16 *)to, from, K, lines, k, line);
}

/* Operands of ls_mma, 16 elements of each line: load_a for 16 lines of A, load_b for twice 8 lines of B. */
template <bool BY_LINES>
static __device__ __forceinline__ void load_a(unsigned a[4], const unsigned char *t, int line, int k) {
    if (BY_LINES)
        ls_load_matrices(a, matrix_row<STEP>((const bf16 *)t, line, k, true));
    else
        ls_load_transposed(a, matrix_row<TILE>((const bf16 *)t, k, line, false));
}
template <bool BY_LINES>
static __device__ __forceinline__ void load_b(unsigned b[4], const unsigned char *t, int line, int k) {
    if (BY_LINES)
        ls_load_matrices(b, matrix_row<STEP>((const bf16 *)t, line, k, false));
    else
        ls_load_transposed(b, matrix_row<TILE>((const bf16 *)t, k, line, true));
}

/* sum += the products of a step, for the warp's lines from `row` and `column` on. */
template <bool A_BY_LINES, bool B_BY_LINES>
static __device__ __forceinline__ void multiply_step(const unsigned char *a_tile, const unsigned char *b_tile, int row,
                                                     int column, float sum[A_FRAGMENTS][B_FRAGMENTS][4]) {
#pragma unroll
    for (int k = 0; k < STEP; k += 16) {
        unsigned b[B_FRAGMENTS / 2][4];
#pragma unroll
        for (int j = 0; j < B_FRAGMENTS / 2; j++) load_b<B_BY_LINES>(b[j], b_tile, column + 16 * j, k);
#pragma unroll
        for (int i = 0; i < A_FRAGMENTS; i++) {
            unsigned a[4];
            load_a<A_BY_LINES>(a, a_tile, row + 16 * i, k);
#pragma unroll
            for (int j = 0; j < B_FRAGMENTS; j++) ls_mma(sum[i][j], a, b[j / 2] + j % 2 * 2);
        }
    }
}

/* Stores a warp's part of the tile of C, from row m and column n on. */
template <typename C>
static __device__ __forceinline__ void store_sums(const product<bf16> &p, int part, int64_t m, int64_t n,
                                                  const float sum[A_FRAGMENTS][B_FRAGMENTS][4]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < A_FRAGMENTS; i++)
#pragma unroll
        for (int j = 0; j < B_FRAGMENTS; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                store_sum<bf16, C>(p, part, m + 16 * i + g + e / 2 * 8, n + 8 * j + 2 * t + e % 2, sum[i][j][e]);
}

/* IN_VECTORS: rows of A and B begin at multiples of 16 bytes. */
template <bool IN_VECTORS, bool A_BY_LINES, bool B_BY_LINES>
static __global__ void __launch_bounds__(CUDA_THREADS, 2) multiply(product<bf16> p) {
    LS_DYNAMIC_SHARED(memory);
    const block_work at = work_of_block<STEP>(p);
    const auto load = [&](int step) {
        unsigned char *to = memory + step % STAGES * 2 * STEP_BYTES;
        if (step < at.end) {
            load_step<IN_VECTORS, A_BY_LINES>(to, p.A, p.M, p.K, at.m, (int64_t)step * STEP);
            load_step<IN_VECTORS, B_BY_LINES>(to + STEP_BYTES, p.B, p.N, p.K, at.n, (int64_t)step * STEP);
        }
        ls_copy_commit();
    };
    const int warp = threadIdx.x / 32;
    const int row = warp % (TILE / WARP_ROWS) * WARP_ROWS, column = warp / (TILE / WARP_ROWS) * WARP_COLUMNS;
    float sum[A_FRAGMENTS][B_FRAGMENTS][4] = {};
    for (int ahead = 0; ahead + 1 < STAGES; ahead++) load(at.first + ahead);
    for (int step = at.first; step < at.end; step++) {
        ls_copy_wait<STAGES - 2>();
        __syncthreads(); /* all threads see this step, and have finished the previous one */
        load(step + STAGES - 1);
        __syncwarp(); /* lanes that may have loaded in different branches multiply together */
        const unsigned char *from = memory + step % STAGES * 2 * STEP_BYTES;
        multiply_step<A_BY_LINES, B_BY_LINES>(from, from + STEP_BYTES, row, column, sum);
    }
    ls_copy_wait<0>();
    if (p.to_f32)
        store_sums<float>(p, at.part, at.m + row, at.n + column, sum);
    else
        store_sums<bf16>(p, at.part, at.m + row, at.n + column, sum);
}

/* --- the launch --------------------------------------------------------------------------------------------------- */

template <bool IN_VECTORS, bool A_BY_LINES, bool B_BY_LINES>
static ls_status launch_for(const product<bf16> &p, void *workspace, void *stream) {
    constexpr size_t shared = (size_t)STAGES * 2 * STEP_BYTES;
    const auto kernel = multiply<IN_VECTORS, A_BY_LINES, B_BY_LINES>;
    LS_TRY(allow_shared("matmul", kernel));
    return launch_product(p, workspace, stream, shared, kernel);
}

template <bool IN_VECTORS> static ls_status launch_lines(const product<bf16> &p, void *workspace, void *stream) {
    const auto launch_it = p.a_by_lines
                               ? p.b_by_lines ? launch_for<IN_VECTORS, true, true> : launch_for<IN_VECTORS, true, false>
                           : p.b_by_lines ? launch_for<IN_VECTORS, false, true>
                                          : launch_for<IN_VECTORS, false, false>;
    return launch_it(p, workspace, stream);
}

static bool lies_in_vectors(const ls_view *v) { return (uintptr_t)v->data % 16 == 0 && columns_of(v) % 8 == 0; }

static ls_status launch_matmul(const ls_kernel_call *call, void *, void *stream) {
    const product<bf16> p = product_of<bf16>(call);
    return lies_in_vectors(&call->in[0]) && lies_in_vectors(&call->in[1])
               ? launch_lines<true>(p, call->workspace, stream)
               : launch_lines<false>(p, call->workspace, stream);
}

CUDA_ROW(ls_cuda_bf16_matmul, MATMUL, LS_BF16, launch_matmul, product_workspace<bf16>)
