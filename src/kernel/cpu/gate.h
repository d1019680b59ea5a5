/*
 * sigmoid(x), the share of a gate that is open, as exact as the element type needs. silu(x) = x*s has the slope
 * s*(1 + x*(1 - s)), where s = sigmoid(x).
 */
#ifndef LS_KERNEL_CPU_GATE_H
#define LS_KERNEL_CPU_GATE_H

#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"

#if LS_CPU_ELEMENT_BF16 && defined __AVX512F__
/* Relative error 1e-4, a twentieth of the error of rounding to bf16. x is at least -87. */
V_INLINE v_f32 gate_share(v_f32 x) {
    const v_f32 d = 1.0f + v_exp2_coarse(v_max(v_set(-87.0f), x) * -1.44269504088896341f);
    const v_f32 r = (v_f32)_mm512_rcp14_ps((__m512)d);
    return r + r * (1.0f - d * r);
}
#else
V_INLINE v_f32 gate_share(v_f32 x) { return v_sigmoid(x); }
#endif

V_INLINE v_f32 silu_slope(v_f32 x, v_f32 share) { return share * (1.0f + x * (1.0f - share)); }

#endif
