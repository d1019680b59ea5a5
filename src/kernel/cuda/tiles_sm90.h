/*
 * Tiles of bf16 in shared memory, from which warp-group products get their operands (ptx_sm90.h). A tile of ROWS rows
 * of D elements is stored as panels, one after the other, of 64 elements of each row. The place of a piece of 16 bytes
 * within the panel's row of 128 bytes depends on the row (swizzle), so that accesses to a row or to a column have no
 * bank conflicts. A tile begins at a multiple of 1,024 bytes.
 */
#ifndef LS_KERNEL_CUDA_TILES_SM90_H
#define LS_KERNEL_CUDA_TILES_SM90_H

#include "kernel/cuda/cuda_impl.h"
#include "kernel/cuda/ptx_sm90.h"

enum { PANEL = 64, PIECE = 8, ROW_BYTES = 128, PATTERN_BYTES = 8 * ROW_BYTES };

/* The index in the tile of a piece of 8 elements of a row, from `element`, a multiple of 8, on. */
template <int ROWS> static __device__ __forceinline__ int place_in_tile(int row, int element) {
    const int piece = element % PANEL / PIECE;
    return element / PANEL * ROWS * PANEL + row * PANEL + (piece ^ row % 8) * PIECE;
}

/*
 * Begins to copy rows first .. first + ROWS - 1 of the n rows of d elements, by all threads of the block; rows and
 * elements that do not exist become 0. Rows begin at multiples of 16 bytes, and d is a multiple of 8.
 */
template <int D, int ROWS>
static __device__ __forceinline__ void load_panels(bf16 *to, const bf16 *from, int64_t stride, int64_t first, int64_t n,
                                                   int d) {
    constexpr int PIECES = D / PIECE, AT_ONCE = CUDA_THREADS / PIECES; /* rows */
    static_assert(D % PANEL == 0 && ROWS % AT_ONCE == 0 && AT_ONCE % 8 == 0);
    const int element = (int)threadIdx.x % PIECES * PIECE, row = (int)threadIdx.x / PIECES;
    const int rows = n - first < ROWS ? (int)(n - first) : ROWS, there = element < d ? rows - row : 0;
    const bf16 *source = from + (first + row) * stride + element;
    bf16 *place = to + place_in_tile<ROWS>(row, element);
#pragma unroll
    for (int r = 0; r < ROWS; r += AT_ONCE, source += AT_ONCE * stride)
        ls_copy_16(place + r * PANEL, source, r < there);
}

/*
 * Parts of a tile as operands of products. summed_elements: 16 elements of each row, from `element` on; they are summed
 * over, and the tile's rows, from `row`, a multiple of 8, on, are rows of a or columns of b. summed_rows: 16 rows,
 * which are summed over; the elements, from `element`, a multiple of 64, on, are D columns of b or 64 rows of a.
 */
template <int ROWS> static __device__ __forceinline__ uint64_t summed_elements(const bf16 *t, int row, int element) {
    return ls_descriptor(t + element / PANEL * ROWS * PANEL + row * PANEL + element % PANEL, 16, PATTERN_BYTES);
}
template <int ROWS> static __device__ __forceinline__ uint64_t summed_rows(const bf16 *t, int row, int element) {
    return ls_descriptor(t + element / PANEL * ROWS * PANEL + row * PANEL, ROWS * ROW_BYTES, PATTERN_BYTES);
}
/*
 * further: the operand that begins `bytes` later in the same tile. element_bytes: the distance of an element from the
 * first element of its row.
 */
static __device__ __forceinline__ uint64_t further(uint64_t operand, int bytes) {
    return operand + (unsigned)bytes / 16;
}
template <int ROWS> static __device__ __forceinline__ constexpr int element_bytes(int element) {
    return (element / PANEL * ROWS * PANEL + element % PANEL) * (int)sizeof(bf16);
}

#endif
