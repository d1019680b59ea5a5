/* Conversion between blocks of numbers with a scale and f32: one row for each element type. */
#include "kernel/blocks.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

/* Quantiles of the normal distribution, scaled to [-1, 1], with a zero (QLoRA, arXiv 2305.14314, appendix E). */
const float ls_nf4_values[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

const float ls_e2m1_values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

enum { BLOCK = 64, HALF = BLOCK / 2, MX_BLOCK = 32 };
static const float fp8_largest = 448, int8_largest = 127;

static float scale_behind(const unsigned char *codes, int bytes) {
    float scale;
    memcpy(&scale, codes + bytes, sizeof scale);
    return scale;
}

/* The largest absolute value; NaN if any number is not finite. */
static float largest_of(const float *numbers) {
    float largest = 0;
    for (int i = 0; i < BLOCK; i++)
        largest = fabsf(numbers[i]) > largest || isnan(numbers[i]) ? fabsf(numbers[i]) : largest;
    return isinf(largest) ? NAN : largest;
}

/* 1/largest; 0 for a block of zeros, whose scaled numbers are then 0. */
static float inverse_of(float largest) { return largest > 0 ? 1 / fmaxf(largest, 1e-38f) : 0; }

/* --- nf4 ---------------------------------------------------------------------------------------------------------- */

static void decode_nf4(const unsigned char *block, float *numbers) {
    const float scale = scale_behind(block, HALF);
    for (int i = 0; i < HALF; i++) {
        numbers[2 * i] = ls_nf4_values[block[i] >> 4] * scale;
        numbers[2 * i + 1] = ls_nf4_values[block[i] & 15] * scale;
    }
}

/* x in [-1, 1] */
static int nearest_nf4(float x) {
    int code = 0;
    while (code < 15 && x > (ls_nf4_values[code] + ls_nf4_values[code + 1]) / 2) code++;
    return code;
}

static void encode_nf4(const float *numbers, unsigned char *block) {
    const float largest = largest_of(numbers), inverse = inverse_of(largest);
    for (int i = 0; i < HALF; i++)
        block[i] =
            (unsigned char)(nearest_nf4(numbers[2 * i] * inverse) << 4 | nearest_nf4(numbers[2 * i + 1] * inverse));
    memcpy(block + HALF, &largest, sizeof largest);
}

/* --- int8 --------------------------------------------------------------------------------------------------------- */

static void decode_int8(const unsigned char *block, float *numbers) {
    const float scale = scale_behind(block, BLOCK);
    for (int i = 0; i < BLOCK; i++) numbers[i] = (float)(int8_t)block[i] * scale * (1 / int8_largest);
}

static void encode_int8(const float *numbers, unsigned char *block) {
    const float largest = largest_of(numbers), inverse = inverse_of(largest);
    for (int i = 0; i < BLOCK; i++) {
        const float x = numbers[i] * inverse * int8_largest;
        block[i] = (unsigned char)(int8_t)(isnan(x) ? 0 : lrintf(x));
    }
    memcpy(block + BLOCK, &largest, sizeof largest);
}

/* --- fp8 ---------------------------------------------------------------------------------------------------------- */

/*
 * 4 bits of exponent, where 0 means subnormal, and 3 bits of fraction. Placed in an f32, the number is too small by
 * 2^120.
 */
static float number_of_e4m3(unsigned char code) {
    const uint32_t bits = (uint32_t)(code & 0x7f) << 20;
    float x;
    memcpy(&x, &bits, sizeof x);
    x = (code & 0x7f) == 0x7f ? NAN : x * 0x1p120f;
    return code & 0x80 ? -x : x;
}

/* |x| is at most 448. Above the subnormals, rounding a fraction to 3 bits is rounding the bits of an f32. */
static unsigned char nearest_e4m3(float x) {
    const float size = fabsf(x);
    uint32_t bits;
    if (isnan(x)) return 0x7f;
    if (size < 0x1p-6f) {
        bits = (uint32_t)lrintf(size * 0x1p9f);
    } else {
        memcpy(&bits, &size, sizeof bits);
        bits = (bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20;
        bits -= (127 - 7) << 3;
    }
    return (unsigned char)(bits | (signbit(x) ? 0x80u : 0));
}

static void decode_fp8(const unsigned char *block, float *numbers) {
    const float scale = scale_behind(block, BLOCK);
    for (int i = 0; i < BLOCK; i++) numbers[i] = number_of_e4m3(block[i]) * scale;
}

static void encode_fp8(const float *numbers, unsigned char *block) {
    const float largest = largest_of(numbers), scale = largest / fp8_largest, inverse = inverse_of(largest);
    for (int i = 0; i < BLOCK; i++) block[i] = nearest_e4m3(numbers[i] * inverse * fp8_largest);
    memcpy(block + BLOCK, &scale, sizeof scale);
}

/* --- mxfp4 -------------------------------------------------------------------------------------------------------- */

static void decode_mxfp4(const unsigned char *block, float *numbers) {
    const int exponent = block[MX_BLOCK / 2];
    const float scale = exponent == 255 ? NAN : ldexpf(1, exponent - 127);
    for (int i = 0; i < MX_BLOCK / 2; i++) {
        numbers[2 * i] = ls_e2m1_values[block[i] & 15] * scale;
        numbers[2 * i + 1] = ls_e2m1_values[block[i] >> 4] * scale;
    }
}

/* --- the types ---------------------------------------------------------------------------------------------------- */

typedef struct block_type {
    void (*decode)(const unsigned char *block, float *numbers);
    void (*encode)(const float *numbers, unsigned char *block); /* NULL: the type is only read */
} block_type;

static const block_type types[LS_DTYPES] = {
    [LS_NF4] = {decode_nf4, encode_nf4},
    [LS_INT8] = {decode_int8, encode_int8},
    [LS_FP8] = {decode_fp8, encode_fp8},
    [LS_MXFP4] = {decode_mxfp4, NULL},
};

void ls_blocks_decode(ls_dtype dtype, const void *blocks, int64_t n, float *numbers) {
    const unsigned char *block = blocks;
    const int64_t values = ls_dtype_values(dtype);
    LS_ASSERT(types[dtype].decode != NULL);
    for (int64_t i = 0; i < n; i++, block += ls_dtype_bytes(dtype), numbers += values)
        types[dtype].decode(block, numbers);
}

bool ls_blocks_can_encode(ls_dtype dtype) { return types[dtype].encode != NULL; }

void ls_blocks_encode(ls_dtype dtype, const float *numbers, int64_t n, void *blocks) {
    unsigned char *block = blocks;
    const int64_t values = ls_dtype_values(dtype);
    LS_ASSERT(types[dtype].encode != NULL);
    for (int64_t i = 0; i < n; i++, block += ls_dtype_bytes(dtype), numbers += values)
        types[dtype].encode(numbers, block);
}
