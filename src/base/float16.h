/*
 * The 16-bit floating-point types, converted to and from IEEE binary32. Rounding is to nearest, ties to even; a NaN
 * stays a NaN. bf16 is bfloat16, the upper half of a binary32; f16 is IEEE binary16, with 5 bits of exponent and 10 of
 * fraction.
 */
#ifndef LS_BASE_FLOAT16_H
#define LS_BASE_FLOAT16_H

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

/* The two conversions of f16 have no branches, so that the compiler can vectorise loops over them. */
typedef uint16_t ls_f16;

/* Exact. A NaN keeps the bits of its fraction. */
static inline float ls_f16_to_f32(ls_f16 h) {
    const uint32_t size = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    const float small = (float)(int32_t)size * 0x1p-24f; /* the value of a subnormal number, which is below 2^-14 */
    uint32_t bits;
    memcpy(&bits, &small, sizeof bits);
    bits = size < 0x400u ? bits : (size << 13) + ((127u - 15u) << 23);
    bits = size < 0x7c00u ? bits : 0x7f800000u | size << 13;
    bits |= sign;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline ls_f16 ls_f16_from_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    /*
     * Below 2^-14, the last bit of an f16 is worth 2^-24, as is the last bit of a float in [1/2, 1): adding 1/2 rounds
     * to a multiple of 2^-24.
     */
    float sum;
    memcpy(&sum, &size, sizeof sum);
    sum += 0.5f;
    uint32_t small;
    memcpy(&small, &sum, sizeof small);
    const uint32_t normal = (size - ((127u - 15u) << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
    uint32_t out = size < (127u - 14u) << 23 ? small - (126u << 23) : normal;
    out = size < (127u + 16u) << 23 ? out : 0x7c00u;
    out = size <= 0x7f800000u ? out : 0x7e00u | (size >> 13 & 0x3ffu);
    return (ls_f16)(out | sign);
}

#endif
