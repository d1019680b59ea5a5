/*
 * erf and tanh of a vector. tests/kernel/test_kernel_cpu_exp.c measures them: both within 8 units in the last place.
 */
#ifndef LS_KERNEL_CPU_VERF_H
#define LS_KERNEL_CPU_VERF_H

#include "kernel/cpu/vexp.h"

/* The rational approximation x·P(x²)/Q(x²) on [-4, 4] that Eigen and XLA use; beyond, erf is 1 in f32. */
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

/* Near zero the series to x^11; elsewhere 1 - 2/(1 + exp(2x)), which loses digits only near zero. */
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

#endif
