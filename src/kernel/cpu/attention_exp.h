/* 2^x as attention needs it: x is at most about 0, so one bound is enough. */
#ifndef LS_KERNEL_CPU_ATTENTION_EXP_H
#define LS_KERNEL_CPU_ATTENTION_EXP_H

#include "kernel/cpu/simd.h"

#if defined __x86_64__
#include <immintrin.h>
#endif

/* The larger one; b where they do not compare. One instruction, which the compiler does not find by itself. */
V_INLINE v_f32 fast_max(v_f32 a, v_f32 b) {
#if defined __AVX512F__
    return (v_f32)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined __AVX2__
    return (v_f32)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE__
    return (v_f32)_mm_max_ps((__m128)a, (__m128)b);
#else
    return v_max(a, b);
#endif
}

/*
 * 2^x for x below 127, to 1.5 ulp above -126; exactly 0 from -127 down (-inf included), exactly 1 at 0, NaN gives NaN.
 * x = n + f with |f| <= 1/2; the polynomial interpolates (2^f - 1)/f at Chebyshev's points (error 9e-9), and n is
 * added to its exponent: at -127, where f is 0, that leaves no bit set.
 */
V_INLINE v_f32 v_exp2(v_f32 x) {
    const float magic =
        12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to an integer in its low bits */
    x = fast_max(v_set(-127.0f), x);
    const v_f32 shifted = x + magic;
    const v_f32 f = x - (shifted - magic);
    v_f32 p = f * 0.00015453163f + 0.00133908633f;
    p = p * f + 0.00961808301f;
    p = p * f + 0.05550356954f;
    p = p * f + 0.24022650718f;
    p = p * f + 0.69314718246f;
    p = p * f + 1.0f;
    return (v_f32)((v_u32)p + ((v_u32)shifted << 23));
}

/* Largest and sum of the lanes: halves are swapped and combined, so every lane ends with the result. */
V_INLINE v_f32 v_exchange(v_f32 v, int distance) {
    v_i32 from;
    for (int i = 0; i < V_LANES; i++) from[i] = i ^ distance;
    return __builtin_shuffle(v, from);
}

V_INLINE float v_largest_lane(v_f32 v) {
#pragma GCC unroll 4
    for (int d = V_LANES / 2; d > 0; d /= 2) v = fast_max(v_exchange(v, d), v);
    return v[0];
}

V_INLINE float v_sum_lanes(v_f32 v) {
#pragma GCC unroll 4
    for (int d = V_LANES / 2; d > 0; d /= 2) v += v_exchange(v, d);
    return v[0];
}

#endif
