/* Squares of vectors transposed in registers. */
#ifndef LS_KERNEL_CPU_TRANSPOSE_H
#define LS_KERNEL_CPU_TRANSPOSE_H

#include "kernel/cpu/simd.h"

#if V_LANES == 16
#define TRANSPOSE_LOW \
    (v_i32) { 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23 }
#elif V_LANES == 8
#define TRANSPOSE_LOW \
    (v_i32) { 0, 8, 1, 9, 2, 10, 3, 11 }
#else
#define TRANSPOSE_LOW \
    (v_i32) { 0, 4, 1, 5 }
#endif

/* Transposes V_LANES x V_LANES units: log2(V_LANES) rounds of a perfect shuffle. */
V_INLINE void transpose_square(v_f32 m[V_LANES]) {
    const v_i32 low = TRANSPOSE_LOW, high = low + V_LANES / 2;
    for (int round = 1; round < V_LANES; round *= 2) {
        v_f32 next[V_LANES];
#pragma GCC unroll 16
        for (int i = 0; i < V_LANES / 2; i++) {
            next[2 * i] = v_pick(m[i], m[i + V_LANES / 2], low);
            next[2 * i + 1] = v_pick(m[i], m[i + V_LANES / 2], high);
        }
#pragma GCC unroll 16
        for (int i = 0; i < V_LANES; i++) m[i] = next[i];
    }
}

#endif
