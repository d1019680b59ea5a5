/*
 * Mathematical functions of vectors (exp, 2^x, sigmoid, erf, tanh), and the merge of two log-sum-exps.
 * tests/kernel/test_kernel_cpu_exp.c measures the errors.
 */
#ifndef LS_KERNEL_CPU_VMATH_H
#define LS_KERNEL_CPU_VMATH_H

#include <math.h>

#include "kernel/cpu/simd.h"

/*
 * exp(x) for -87 <= x <= 88.37 only, because the checks of these limits are a third of the work of v_exp. NaN gives
 * NaN.
 */
V_INLINE v_f32 v_exp_within(v_f32 x) {
    /* Adding 1.5*2^23 rounds x/ln 2 to an integer n, found in the low bits. x = n*ln 2 + r, |r| <= ln 2 / 2. */
    const float magic = 12582912.0f;
    const v_f32 shifted = x * 1.44269504088896341f + magic;
    const v_f32 n = shifted - magic;
    /* ln 2 in two parts; the first has so few bits that its product with n is exact. */
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

/*
 * exp(x), with an error of at most 2 ulp from -87 to 88.37; 0 below -87 (the true value is under 1.7e-38), infinity
 * above 88.37, NaN for NaN, exactly 1 at 0.
 */
V_INLINE v_f32 v_exp(v_f32 x) {
    const v_f32 y = v_select(x < -87.0f, v_set(0.0f), v_exp_within(x));
    return v_select(x > 88.37f, v_set(INFINITY), y);
}

/*
 * 1/(1 + exp(-x)), with an error of at most 3 ulp (tests/kernel/test_kernel_cpu.c). x is clamped to [-87, 87]. With
 * AVX-512 a division takes as long as the exponential, so it is replaced by an estimate to 14 bits and a Newton step.
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

/*
 * erf(x), with an error of at most 8 ulp. On [-4, 4] the rational approximation x·P(x²)/Q(x²) of Eigen and XLA; outside
 * this range erf is 1 or -1 in f32.
 */
V_INLINE v_f32 v_erf(v_f32 x) {
    const v_f32 low = v_select(x < -4.0f, v_set(-4.0f), x);
    const v_f32 a = v_select(low > 4.0f, v_set(4.0f), low), s = a * a;
    v_f32 p = s * -2.72614225801306e-10f + 2.77068142495902e-08f;
    p = p * s - 2.10102402082508e-06f;
    p = p * s - 5.69250639462346e-05f;
    p = p * s - 7.34990630326855e-04f;
    p = p * s - 2.95459980854025e-03f;
    p = p * s - 1.60960333262415e-02f;
    v_f32 q = s * -1.45660718464996e-05f - 2.13374055278905e-04f;
    q = q * s - 1.68282697438203e-03f;
    q = q * s - 7.37332916720468e-03f;
    q = q * s - 1.42647390514189e-02f;
    return a * p / q;
}

/*
 * tanh(x), with an error of at most 8 ulp. Near zero the series to x^11; elsewhere 1 - 2/(1 + exp(2x)), which is
 * inaccurate only near zero.
 */
V_INLINE v_f32 v_tanh(v_f32 x) {
    const v_f32 s = x * x;
    v_f32 p = s * (-1382.0f / 155925.0f) + 62.0f / 2835.0f;
    p = p * s - 17.0f / 315.0f;
    p = p * s + 2.0f / 15.0f;
    p = p * s - 1.0f / 3.0f;
    const v_f32 near = x + x * s * p;
    const v_f32 far = 1.0f - 2.0f / (1.0f + v_exp(2.0f * x));
    return v_select(s < 0.12f, near, far);
}

/* --- for attention ------------------------------------------------------------------------------------------------ */

/*
 * 2^x for x below 127, with an error of at most 1.5 ulp above -126; exactly 0 for x <= -127 (also -inf), exactly 1 at
 * 0, NaN for any NaN. x = n + f with |f| <= 1/2; the polynomial interpolates (2^f - 1)/f at Chebyshev points (error
 * 9e-9). 2^f is multiplied by 2^n, whose exponent bits are n + 127, so that n = -127 gives 0.
 */
V_INLINE v_f32 v_exp2(v_f32 x) {
    const float magic = 12583039.0f; /* 1.5 * 2^23 + 127: adding x rounds it to an integer in the low bits */
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
 * 2^x for results that are then rounded to bf16 (relative error 2^-9): relative error 9e-5 above -126, exactly 1 at 0,
 * +0 for -inf, NaN for NaN. x = n + f with 0 <= f < 1; of the cubics that are 1 at f = 0, the one used has the smallest
 * relative error. It takes 6 instructions, v_exp2 12.
 */
V_INLINE v_f32 v_exp2_coarse(v_f32 x) {
    /* x - floor(x), exact; scalef computes the floor. */
    const v_f32 f = (v_f32)_mm512_reduce_ps((__m512)x, 9);
    v_f32 p = f * 0.07706988445f + 0.22764189805f;
    p = p * f + 0.69511753554f;
    p = p * f + 1.0f;
    return (v_f32)_mm512_scalef_ps((__m512)p, (__m512)x);
}
#endif

/*
 * Merges `other`, the log-sum-exp of a second part, into *lse, and returns the weight of the second part. Both
 * log-sum-exps must be finite.
 */
V_INLINE float merge_lse(float *lse, float other) {
    const double gap = (double)*lse - other;
    const float share = (float)(1 / (1 + exp(gap)));
    *lse = (float)(gap > 0 ? *lse + log1p(exp(-gap)) : other + log1p(exp(gap)));
    return share;
}

#endif
