/* 2^x as attention needs it: x is at most about 0, so one bound is enough. */
#ifndef LS_KERNEL_CPU_ATTENTION_EXP_H
#define LS_KERNEL_CPU_ATTENTION_EXP_H

#include "kernel/cpu/simd.h"

#if defined __x86_64__
#include <immintrin.h>
#endif

/*
 * 2^x for x below 127, to 1.5 ulp above -126; exactly 0 from -127 down (-inf included), exactly 1 at 0, NaN, whatever its bits,
 * gives NaN. x = n + f with |f| <= 1/2; the polynomial interpolates (2^f - 1)/f at Chebyshev's points (error
 * 9e-9). It is multiplied by 2^n, which n + 127 as an exponent is: at -127 that is 0.
 */
V_INLINE v_f32 v_exp2(v_f32 x) {
    const float magic =
        12583039.0f; /* 1.5 * 2^23 + 127: what is added to it is rounded to an integer in its low bits */
    x = v_max(v_set(-127.0f), x);
    const v_f32 shifted = x + magic;
    const v_f32 f = x - (shifted - magic);
    v_f32 p = f * 0.00015453163f + 0.00133908633f;
    p = p * f + 0.00961808301f;
    p = p * f + 0.05550356954f;
    p = p * f + 0.24022650718f;
    p = p * f + 0.69314718246f;
    p = p * f + 1.0f;
    return p * (v_f32)((v_u32)shifted << 23);
}

#if defined __AVX512F__
/*
 * 2^x for what is rounded to bf16 (to 2^-9) next: to 9e-5 of itself above -126, exactly 1 at 0, +0 for -inf, NaN for NaN.
 * x = n + f with 0 <= f < 1; a cubic through 1 at 0, the smallest relative error elsewhere. 6 instructions instead of v_exp2's 12.
 */
V_INLINE v_f32 v_exp2_coarse(v_f32 x) {
    const v_f32 f =
        (v_f32)_mm512_reduce_ps((__m512)x, 9); /* x - floor(x), exact; scalef takes the floor itself */
    v_f32 p = f * 0.07706988445f + 0.22764189805f;
    p = p * f + 0.69511753554f;
    p = p * f + 1.0f;
    return (v_f32)_mm512_scalef_ps((__m512)p, (__m512)x);
}
#endif

/* Largest and sum of the lanes: halves are swapped and combined, so every lane ends with the result. */
static const int32_t lane_swaps[4][16] = {
    {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14},
    {2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13},
    {4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11},
    {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7},
};

#define LANE_LEVELS (V_LANES == 16 ? 4 : V_LANES == 8 ? 3 : 2)

/* Lanes that are 2^level apart change places. */
V_INLINE v_f32 v_swap(v_f32 v, int level) {
    v_i32 from;
    memcpy(&from, lane_swaps[level], sizeof from);
    return v_pick(v, v, from);
}

V_INLINE float v_largest_lane(v_f32 v) {
#pragma GCC unroll 4
    for (int level = 0; level < LANE_LEVELS; level++) v = v_max(v_swap(v, level), v);
    return v[0];
}

V_INLINE float v_sum_lanes(v_f32 v) {
#pragma GCC unroll 4
    for (int level = 0; level < LANE_LEVELS; level++) v += v_swap(v, level);
    return v[0];
}

#endif
