/* bf16 as the CUDA toolkit has it, for a host without a GPU (cuda_runtime.h). */
#ifndef LS_TESTS_CUDA_BF16_H
#define LS_TESTS_CUDA_BF16_H

#include "cuda_runtime.h"

struct __nv_bfloat16 {
    uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 a) {
    const uint32_t bits = (uint32_t)a.bits << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Rounds to the nearest, ties to even; NaN stays NaN. */
static inline __nv_bfloat16 __float2bfloat16_rn(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return {0x7fff};
    return {(uint16_t)((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

#endif
