/*
 * The micro-kernel of attention_gemm.h for AMX (tiles.h): tiles of 16 rows of 64 bytes, multiplied by TDPBF16PS. A row
 * of A is contiguous; a row of B is V_LANES columns of one unit.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_TILES_H
#define LS_KERNEL_CPU_ATTENTION_TILES_H

#include "kernel/cpu/tiles.h"

/* The tiles: sums by row and column, two of A, two of B. Macros, because the intrinsics need literals. */
#define SUM_00 0
#define SUM_01 1
#define SUM_10 2
#define SUM_11 3
#define A_0 4
#define A_1 5
#define B_0 6
#define B_1 7

V_INLINE void products_begin(void) { tiles_begin(); }
V_INLINE void products_end(void) { tiles_end(); }

/* The compiler does not know that the intrinsics read and write memory; this keeps memory accesses in order. */
V_INLINE void products_fence(void) { __asm__ volatile("" ::: "memory"); }

/*
 * The steps of a product, for callers that put other work between them: clear the sums; add A B of one DEPTH for the
 * first V_LANES columns and then for the last; store the sums as 32 x 32 floats.
 */
V_INLINE void sums_clear(void) {
    _tile_zero(SUM_00);
    _tile_zero(SUM_10);
    _tile_zero(SUM_01);
    _tile_zero(SUM_11);
}

V_INLINE void sums_add_left(const float *a, int64_t a_row, const float *b, int64_t b_row) {
    const int64_t a_bytes = a_row * 4, b_bytes = b_row * 4;
    _tile_loadd(A_0, a, a_bytes);
    tiles_apart();
    _tile_loadd(B_0, b, b_bytes);
    tiles_apart();
    _tile_dpbf16ps(SUM_00, A_0, B_0);
    tiles_apart();
    _tile_loadd(A_1, a + TILE_ROWS * a_row, a_bytes);
    tiles_apart();
    _tile_dpbf16ps(SUM_10, A_1, B_0);
}

/* Must follow sums_add_left, whose tiles of A it uses. */
V_INLINE void sums_add_right(const float *b, int64_t b_row) {
    const int64_t b_bytes = b_row * 4;
    _tile_loadd(B_1, b + V_LANES, b_bytes);
    tiles_apart();
    _tile_dpbf16ps(SUM_01, A_0, B_1);
    tiles_apart();
    _tile_dpbf16ps(SUM_11, A_1, B_1);
}

V_INLINE void sums_store(float *c, int64_t c_row) {
    const int64_t c_bytes = c_row * 4;
    _tile_stored(SUM_00, c, c_bytes);
    _tile_stored(SUM_10, c + TILE_ROWS * c_row, c_bytes);
    _tile_stored(SUM_01, c + V_LANES, c_bytes);
    _tile_stored(SUM_11, c + TILE_ROWS * c_row + V_LANES, c_bytes);
}

/*
 * `vectors` must be a constant where this is inlined; depth is a multiple of DEPTH. add: C += A B, otherwise C = A B.
 */
V_INLINE void register_block(int vectors, int64_t depth, const float *a, int64_t a_row, const float *b, int64_t b_row,
                             float *c, int64_t c_row, bool add) {
    const int64_t a_bytes = a_row * 4, b_bytes = b_row * 4, c_bytes = c_row * 4;
    __asm__ volatile("" ::: "memory"); /* the compiler does not know that the intrinsics read memory */
    if (add) {
        _tile_loadd(SUM_00, c, c_bytes);
        _tile_loadd(SUM_10, c + TILE_ROWS * c_row, c_bytes);
        if (vectors > 1) {
            _tile_loadd(SUM_01, c + V_LANES, c_bytes);
            _tile_loadd(SUM_11, c + TILE_ROWS * c_row + V_LANES, c_bytes);
        }
    } else {
        _tile_zero(SUM_00);
        _tile_zero(SUM_10);
        _tile_zero(SUM_01);
        _tile_zero(SUM_11);
    }
    for (int64_t k = 0; k < depth; k += DEPTH, a += DEPTH, b += DEPTH * b_row) {
        _tile_loadd(A_0, a, a_bytes);
        tiles_apart();
        _tile_loadd(B_0, b, b_bytes);
        tiles_apart();
        _tile_dpbf16ps(SUM_00, A_0, B_0);
        tiles_apart();
        _tile_loadd(A_1, a + TILE_ROWS * a_row, a_bytes);
        tiles_apart();
        _tile_dpbf16ps(SUM_10, A_1, B_0);
        tiles_apart();
        if (vectors == 1) continue;
        _tile_loadd(B_1, b + V_LANES, b_bytes);
        tiles_apart();
        _tile_dpbf16ps(SUM_01, A_0, B_1);
        tiles_apart();
        _tile_dpbf16ps(SUM_11, A_1, B_1);
        tiles_apart();
    }
    _tile_stored(SUM_00, c, c_bytes);
    _tile_stored(SUM_10, c + TILE_ROWS * c_row, c_bytes);
    if (vectors > 1) {
        _tile_stored(SUM_01, c + V_LANES, c_bytes);
        _tile_stored(SUM_11, c + TILE_ROWS * c_row + V_LANES, c_bytes);
    }
}

V_INLINE void product_of(int vectors, int64_t depth, const float *a, int64_t a_row, const float *b, int64_t b_row,
                         float *c, int64_t c_row, bool add) {
    if (vectors == 1)
        register_block(1, depth, a, a_row, b, b_row, c, c_row, add);
    else
        register_block(2, depth, a, a_row, b, b_row, c, c_row, add);
}

#endif
