/*
 * IEEE binary16: 5 bits of exponent, 10 of fraction. Rounding is to nearest, ties to even; NaN stays NaN. Without branches, so that
 * loops become vector instructions.
 */
#ifndef LS_BASE_F16_H
#define LS_BASE_F16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t ls_f16;

/* Exact. A NaN keeps the bits of its fraction. */
static inline float ls_f16_to_f32(ls_f16 h) {
    const uint32_t size = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    const float small = (float)(int32_t)size * 0x1p-24f; /* what a size below 2^-14 is */
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
    /* Below 2^-14 a unit of the result is 2^-24: adding 1/2, whose unit that is too, rounds to it. */
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
