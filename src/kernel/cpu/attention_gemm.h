/*
 * The matrix products inside attention. One micro-kernel computes them all, a register block of C at a time (MICRO_ROWS
 * rows by a panel of columns):
 *
 *     C[i][j] = sum over k of A[i][k] * B[k][j]      A is broadcast, B and C are vectors
 *
 * k counts units of 32 bits, and so do all buffers here. A unit is one float, or with LS_ATTENTION_PAIRS two bf16 that
 * are adjacent along k and are multiplied and added by one vdpbf16ps (v_multiply_add in register_block.h). A may have
 * any strides, so that products with a transposed A need no copy. B is in dense panels of whole vectors, one panel
 * after the other.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_GEMM_H
#define LS_KERNEL_CPU_ATTENTION_GEMM_H

#include <stddef.h>

#include "kernel/cpu/cpu_impl.h"

/* 0: bf16 is converted to f32 when it is packed. */
#ifndef LS_ATTENTION_PAIRS
#define LS_ATTENTION_PAIRS 0
#endif
/* In the amx variant pairs are multiplied by AMX, in tiles of 16 rows of 16 units. */
#if LS_ATTENTION_PAIRS && defined __AMX_BF16__
#define LS_ATTENTION_TILES 1
#else
#define LS_ATTENTION_TILES 0
#endif
#if LS_ATTENTION_PAIRS
#include <immintrin.h>
#endif

/*
 * vdpbf16ps has twice the rate of f32 FMA on AMD (Zen 4, Zen 5), but half of it on Intel (measured on a Granite Rapids:
 * 118 and 236 GFLOP/s per core). On Intel the variant with pairs therefore calls the variant that converts to f32.
 */
#if LS_ATTENTION_PAIRS && !LS_ATTENTION_TILES
static bool pairs_are_fast(void) { return !__builtin_cpu_is("intel"); }
#endif

#define UNIT_ELEMENTS (1 + LS_ATTENTION_PAIRS)

/* Of AMX's 8 tiles, 2 x 2 hold sums, 2 hold A and 2 hold B; a tile is DEPTH units deep. */
#if LS_ATTENTION_TILES
#define MICRO_ROWS 32
#define MICRO_VECTORS 2
#define DEPTH 16
#else
#define MICRO_ROWS VECTOR_ROWS
#define MICRO_VECTORS VECTOR_COLUMNS
#define DEPTH 1
#endif
#define PANEL (MICRO_VECTORS * V_LANES)

V_INLINE v_f32 unit_load(const float *p) { return v_load_f32(p, V_LANES); }
V_INLINE void unit_store(float *p, v_f32 v) { v_store_f32(p, v, V_LANES); }

#if LS_ATTENTION_TILES
#include "kernel/cpu/attention_tiles.h"
#else
#include "kernel/cpu/register_block.h"
V_INLINE void products_begin(void) {}
V_INLINE void products_end(void) {}

/* `vectors` must be a constant where this is inlined. decay NULL: C = A B, otherwise C = decay[row] * C + A B. */
V_INLINE void register_block(int vectors, int64_t depth, const float *a, int64_t a_row, int64_t a_step, const float *b,
                             float *c, int64_t c_row, const float *decay) {
    v_f32 sum[MICRO_ROWS][MICRO_VECTORS];
    vector_sums(sum, vectors, depth, a, a_row, a_step, b, vectors * V_LANES, NULL);
#pragma GCC unroll 8
    for (int i = 0; i < MICRO_ROWS; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            float *at = c + i * c_row + j * V_LANES;
            unit_store(at, decay ? unit_load(at) * decay[i] + sum[i][j] : sum[i][j]);
        }
    }
}

/* The same for any width from 1 to MICRO_VECTORS; B has panels of that width. */
static void micro_product(int vectors, int64_t depth, const float *a, int64_t a_row, int64_t a_step, const float *b,
                          float *c, int64_t c_row, const float *decay) {
    switch (vectors) {
    case 1:
        register_block(1, depth, a, a_row, a_step, b, c, c_row, decay);
        break;
    case 2:
        register_block(2, depth, a, a_row, a_step, b, c, c_row, decay);
        break;
#if MICRO_VECTORS > 2
    case 3:
        register_block(3, depth, a, a_row, a_step, b, c, c_row, decay);
        break;
    default:
        register_block(4, depth, a, a_row, a_step, b, c, c_row, decay);
        break;
#endif
    }
}
#endif

/*
 * How the D columns of an output are cut into panels, as evenly as whole vectors allow; the last panel may be narrower.
 */
typedef struct columns {
    int vectors; /* of all panels; the last vector is padded */
    int panels;
    int each;      /* vectors of a panel */
    int64_t width; /* floats of a row: vectors * V_LANES */
} columns;

static columns columns_of(int64_t D) {
    columns c;
    c.vectors = (int)ls_ceil_div(D, V_LANES);
    c.each = (int)ls_ceil_div(c.vectors, ls_ceil_div(c.vectors, MICRO_VECTORS));
    c.panels = (int)ls_ceil_div(c.vectors, c.each);
    c.width = (int64_t)c.vectors * V_LANES;
    return c;
}

V_INLINE int columns_in(const columns *c, int panel) {
    return (int)ls_min(c->each, c->vectors - (int64_t)panel * c->each);
}

#endif
