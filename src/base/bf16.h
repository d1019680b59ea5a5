/* bfloat16: the upper half of an IEEE binary32. Rounding is to nearest, ties to even; NaN stays NaN. */
#ifndef LS_BASE_BF16_H
#define LS_BASE_BF16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t ls_bf16;

static inline float ls_bf16_to_f32(ls_bf16 h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline ls_bf16 ls_bf16_from_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (ls_bf16)((bits >> 16) | 0x40u);
    return (ls_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
