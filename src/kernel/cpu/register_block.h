/*
 * The inner loop of every matrix product that is computed in vectors: a register block of sums. 6 x 4 sums, 4 vectors
 * of B and one broadcast element of A fit in the 32 registers of AVX-512 and NEON; 6 x 2 sums, 2 vectors of B and one
 * broadcast element fit in the 16 registers of other isas.
 */
#ifndef LS_KERNEL_CPU_REGISTER_BLOCK_H
#define LS_KERNEL_CPU_REGISTER_BLOCK_H

#include "kernel/cpu/simd.h"

#define VECTOR_ROWS 6
#define VECTOR_COLUMNS (V_REGISTERS == 32 ? 4 : 2)

/* sum + a·b per lane; with LS_ATTENTION_PAIRS a lane of a and b holds two bf16, and both products are added. */
V_INLINE v_f32 v_multiply_add(v_f32 a, v_f32 b, v_f32 sum) {
#if LS_ATTENTION_PAIRS
    return (v_f32)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    return a * b + sum;
#endif
}

/*
 * sum[i][j] = sum over k < depth of a[i * a_row + k * a_step] * b[k][j], for j < vectors; rows of b are b_step elements
 * apart. `vectors` must be a constant where this is inlined. next: the VECTOR_ROWS * depth units that the next call
 * reads as a; they are prefetched. NULL: none.
 */
V_INLINE void vector_sums(v_f32 sum[VECTOR_ROWS][VECTOR_COLUMNS], int vectors, int64_t depth, const float *a,
                          int64_t a_row, int64_t a_step, const float *b, int64_t b_step, const float *next) {
#pragma GCC unroll 8
    for (int i = 0; i < VECTOR_ROWS; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) sum[i][j] = v_set(0.0f);
    }
    for (int64_t k = 0; k < depth; k++, a += a_step, b += b_step) {
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
