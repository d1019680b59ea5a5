/* Tiles of bf16 in shared memory, from which tensor cores get their operands. */
#ifndef LS_KERNEL_CUDA_TILES_H
#define LS_KERNEL_CUDA_TILES_H

#include "kernel/cuda/cuda_impl.h"

static __device__ __forceinline__ unsigned pack(float x, float y) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    unsigned bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

/* Whether elements of a head are contiguous, and every row begins at a multiple of 16 bytes. */
static inline bool fits_tiles(const ls_view *v) {
    return v->stride[3] == 1 && v->size[3] <= 256 && v->size[3] % 8 == 0 && v->stride[0] % 8 == 0 &&
           v->stride[1] % 8 == 0 && v->stride[2] % 8 == 0;
}

/*
 * Loops over all sums x[n][i] of a thread, n < N and i < 4. Every loop over them must be unrolled and every index must
 * be known to the compiler; otherwise the sums would be in memory instead of registers.
 */
#define EACH_SUM(N, n, i) _Pragma("unroll") for (int n = 0; n < (N); n++) _Pragma("unroll") for (int i = 0; i < 4; i++)

/* A tile has rows of D elements, padded by 16 bytes, so that the 8 rows of a matrix are in different banks. */
template <int D> struct tile {
    static constexpr int PITCH = D + 8;
    static constexpr int bytes(int rows) { return rows * PITCH * (int)sizeof(bf16); }
};

/*
 * Begins to copy rows first .. first + ROWS - 1 of the n rows of d elements; rows and elements that do not exist become
 * 0. Rows begin at multiples of 16 bytes, and d is a multiple of 8.
 */
template <int D, int ROWS>
static __device__ __forceinline__ void load_tile(bf16 *to, const bf16 *from, int64_t stride, int64_t first, int64_t n,
                                                 int d) {
    constexpr int CHUNKS = D / 8; /* chunks of 16 bytes in a row */
    for (int c = threadIdx.x; c < ROWS * CHUNKS; c += CUDA_THREADS) {
        const int row = c / CHUNKS, e = c % CHUNKS * 8;
        const bool is = first + row < n && e < d;
        ls_copy_16(to + row * tile<D>::PITCH + e, is ? from + (first + row) * stride + e : from, is);
    }
}

/*
 * The address that a lane passes to load the four matrices of [16,16] elements from `row` and `column` on. by_rows:
 * rows 0 to 7 and then 8 to 15 of columns 0 to 7, and then of columns 8 to 15; else columns 0 to 7 and then 8 to 15 of
 * rows 0 to 7, and then of rows 8 to 15.
 */
template <int D>
static __device__ __forceinline__ const bf16 *matrix_row(const bf16 *t, int row, int column, bool by_rows) {
    const int lane = threadIdx.x % 32, within = lane % 8, first = lane / 8 % 2 * 8, second = lane / 16 * 8;
    return t + (row + within + (by_rows ? first : second)) * tile<D>::PITCH + column + (by_rows ? second : first);
}

#endif
