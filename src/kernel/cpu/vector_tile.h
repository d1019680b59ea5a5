/*
 * The tile of sums that every product in vectors is made of. 6 x 4 sums, 4 vectors of B and a broadcast fill 32 registers (AVX-512, NEON); 6 x 2 the 16 of
 * the others.
 */
#ifndef LS_KERNEL_CPU_VECTOR_TILE_H
#define LS_KERNEL_CPU_VECTOR_TILE_H

#include "kernel/cpu/simd.h"

#define VECTOR_ROWS 6
#define VECTOR_COLUMNS (V_REGISTERS == 32 ? 4 : 2)

/* Of floats, or (LS_ATTENTION_PAIRS) of pairs of bf16, which are added to the sum both. */
V_INLINE v_f32 v_multiply_add(v_f32 a, v_f32 b, v_f32 sum) {
#if LS_ATTENTION_PAIRS
    return (v_f32)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    return a * b + sum;
#endif
}

/*
 * sum[i][j] = sum over k below depth of a[i * a_row + k * a_step] * b[k][j], b dense, `vectors` wide, which is a constant wherever this is inlined. `next`, or
 * NULL: VECTOR_ROWS * depth units that will be a; they are brought near.
 */
V_INLINE void vector_sums(v_f32 sum[VECTOR_ROWS][VECTOR_COLUMNS], int vectors, int64_t depth, const float *a,
                          int64_t a_row, int64_t a_step, const float *b, const float *next) {
#pragma GCC unroll 8
    for (int i = 0; i < VECTOR_ROWS; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) sum[i][j] = v_set(0.0f);
    }
    for (int64_t k = 0; k < depth; k++, a += a_step, b += vectors * V_LANES) {
        v_f32 column[VECTOR_COLUMNS];
        if (next) __builtin_prefetch(next + k * VECTOR_ROWS);
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) column[j] = v_load_f32(b + j * V_LANES, V_LANES);
#pragma GCC unroll 8
        for (int i = 0; i < VECTOR_ROWS; i++) {
            const v_f32 row = v_set(a[i * a_row]);
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++) sum[i][j] = v_multiply_add(row, column[j], sum[i][j]);
        }
    }
}

#endif
