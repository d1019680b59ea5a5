/*
 * Products of f32, without tensor cores, because these would round the factors: a block computes 128 x 128 elements of
 * C, a thread 8 x 8 of these, with sums over k in ascending order, in steps of 16. While one block waits for its lines,
 * another block computes.
 */
#include "kernel/cuda/matmul_problem.h"

static constexpr int STEP = 16, LOADS = STEP * TILE / CUDA_THREADS;
static constexpr int PITCH = TILE + 4; /* of [STEP][TILE] in shared memory: consecutive k begin in different banks */
static constexpr int QUAD = 4, QUADS = TILE / QUAD / 2; /* adjacent lines of a thread, in each half of the tile */

/* Loads elements k .. k + STEP - 1 of TILE lines from `line` on into [STEP][PITCH]; 0 beyond the operand. */
template <bool BY_LINES>
static __device__ __forceinline__ void load_step(float *to, const float *from, int64_t lines, int64_t K, int64_t line,
                                                 int64_t k) {
    constexpr int WIDTH = BY_LINES ? STEP : TILE,
                  APART = CUDA_THREADS / WIDTH; /* a row of the operand; rows of a thread */
    const int within = threadIdx.x % WIDTH, row = threadIdx.x / WIDTH;
    const int64_t columns = BY_LINES ? K : lines, rows = BY_LINES ? lines : K;
    const int64_t first = (BY_LINES ? line : k) + row, column = (BY_LINES ? k : line) + within;
    const float *at = from + first * columns + column;
    float x[LOADS]; /* all are read before one is stored */
#pragma unroll
    for (int i = 0; i < LOADS; i++, at += APART * columns)
        x[i] = column < columns && first + i * APART < rows ? *at : 0;
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int l = BY_LINES ? row + i * APART : within, e = BY_LINES ? within : row + i * APART;
        to[e * PITCH + l] = x[i];
    }
}

/* Reads element k of the 8 lines with index `at` < 16: 4 lines in each half of the tile. */
static __device__ __forceinline__ void read_lines(const float *tile_of, int k, int at, float x[2 * QUAD]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float4 four = *(const float4 *)(tile_of + k * PITCH + half * TILE / 2 + at * QUAD);
        x[half * QUAD] = four.x;
        x[half * QUAD + 1] = four.y;
        x[half * QUAD + 2] = four.z;
        x[half * QUAD + 3] = four.w;
    }
}
static __device__ __forceinline__ int line_of(int at, int i) { return i / QUAD * (TILE / 2) + at * QUAD + i % QUAD; }

template <bool A_BY_LINES, bool B_BY_LINES>
static __global__ void __launch_bounds__(CUDA_THREADS, 2) multiply(product<float> p) {
    alignas(16) __shared__ float a_tile[STEP * PITCH];
    alignas(16) __shared__ float b_tile[STEP * PITCH];
    const block_work at = work_of_block<STEP>(p);
    const int row = threadIdx.x / QUADS, column = threadIdx.x % QUADS;
    float sum[2 * QUAD][2 * QUAD] = {};
    for (int step = at.first; step < at.end; step++) {
        __syncthreads(); /* all threads have finished the previous step */
        load_step<A_BY_LINES>(a_tile, p.A, p.M, p.K, at.m, (int64_t)step * STEP);
        load_step<B_BY_LINES>(b_tile, p.B, p.N, p.K, at.n, (int64_t)step * STEP);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < STEP; k++) {
            float a[2 * QUAD], b[2 * QUAD];
            read_lines(a_tile, k, row, a);
            read_lines(b_tile, k, column, b);
#pragma unroll
            for (int i = 0; i < 2 * QUAD; i++)
#pragma unroll
                for (int j = 0; j < 2 * QUAD; j++) sum[i][j] += a[i] * b[j];
        }
    }
#pragma unroll
    for (int i = 0; i < 2 * QUAD; i++)
#pragma unroll
        for (int j = 0; j < 2 * QUAD; j++)
            store_sum<float, float>(p, at.part, at.m + line_of(row, i), at.n + line_of(column, j), sum[i][j]);
}

static ls_status launch_matmul(const ls_kernel_call *call, void *, void *stream) {
    const product<float> p = product_of<float>(call);
    const auto kernel = p.a_by_lines   ? p.b_by_lines ? multiply<true, true> : multiply<true, false>
                          : p.b_by_lines ? multiply<false, true>
                                       : multiply<false, false>;
    return launch_product(p, call->workspace, stream, 0, kernel);
}

CUDA_ROW(ls_cuda_f32_matmul, MATMUL, LS_F32, launch_matmul, product_workspace<float>)
