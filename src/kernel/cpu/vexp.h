/*
 * exp of a vector, for softmax, SiLU and cross-entropy. At most 2 ulp from -87 to 88.37; below -87 it is 0 (the true
 * value is under 1.7e-38), above 88.37 infinity; NaN gives NaN, exp(0) is 1 exactly. tests/kernel/test_kernel_cpu_exp.c measures it.
 */
#ifndef LS_KERNEL_CPU_VEXP_H
#define LS_KERNEL_CPU_VEXP_H

#include <math.h>

#include "kernel/cpu/simd.h"

/* From -87 to 88.37, which nobody checks: a third of the work of v_exp is its ends. NaN gives NaN. */
V_INLINE v_f32 v_exp_within(v_f32 x) {
    /* Adding 1.5*2^23 rounds to an integer n that then stands in the low bits. x = n*ln 2 + r, |r| <= ln 2 / 2. */
    const float magic = 12582912.0f;
    const v_f32 shifted = x * 1.44269504088896341f + magic;
    const v_f32 n = shifted - magic;
    /* ln 2 in two parts, the first short enough for n times it to be exact. */
    const v_f32 r = x - n * 0.693359375f + n * 2.12194440e-4f;
    /* The polynomial of Cephes' expf (S. Moshier). */
    v_f32 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
#if defined __AVX512F__
    return (v_f32)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return p * (v_f32)(((v_u32)shifted + 127u) << 23);
#endif
}

V_INLINE v_f32 v_exp(v_f32 x) {
    const v_f32 y = v_select(x < -87.0f, v_set(0.0f), v_exp_within(x));
    return v_select(x > 88.37f, v_set(INFINITY), y);
}

/*
 * 1/(1 + exp(-x)); what lies beyond -87 and 87 is taken for these (1.6e-38 and 1). A division takes as long as the exponential on
 * vectors of 16; there an estimate to 14 bits and a Newton step take its place. At most 3 ulp (tests/kernel/test_kernel_cpu.c).
 */
V_INLINE v_f32 v_sigmoid(v_f32 x) {
    const v_f32 low = v_max(v_set(-87.0f), x);
    const v_f32 d = 1.0f + v_exp_within(v_max(v_set(-87.0f), -low));
#if defined __AVX512F__
    const v_f32 r = (v_f32)_mm512_rcp14_ps((__m512)d);
    return r + r * (1.0f - d * r);
#else
    return 1.0f / d;
#endif
}

#endif
