/* Decodes a block of numbers with a scale (kernel/blocks.h) to elements, in vectors, with the same bits as there. */
#ifndef LS_KERNEL_CPU_BLOCKS_DECODE_H
#define LS_KERNEL_CPU_BLOCKS_DECODE_H

#include <math.h>

#include "kernel/blocks.h"
#include "kernel/cpu/cpu_impl.h"

typedef uint8_t v_u8 __attribute__((vector_size(V_LANES)));

V_INLINE v_f32 scale_at(const unsigned char *at) {
    float scale;
    memcpy(&scale, at, sizeof scale);
    return v_set(scale);
}

/* V_LANES codes as numbers of 32 bits. */
V_INLINE v_i32 codes_at(const unsigned char *at) {
    v_u8 codes;
    memcpy(&codes, at, sizeof codes);
    return __builtin_convertvector(codes, v_i32);
}

/* The entries of a table of 16. */
V_INLINE v_f32 look_up(const float table[16], v_i32 code) {
#if V_LANES == 16
    const v_f32 all = v_load_f32(table, V_LANES);
    return v_pick(all, all, code);
#elif V_LANES == 8
    return v_pick(v_load_f32(table, V_LANES), v_load_f32(table + V_LANES, V_LANES), code);
#else
    v_f32 out;
    for (int i = 0; i < V_LANES; i++) out[i] = table[code[i]];
    return out;
#endif
}

/* 32 bytes (nf4) or 16 bytes (mxfp4) of two codes each; `high`: the upper half of a byte is its first code. */
V_INLINE void decode_nibbles(const unsigned char *bytes, int n, bool high, const float table[16], v_f32 scale,
                             element *out) {
    unsigned char codes[LS_BLOCK_MOST_VALUES];
    for (int i = 0; i < n; i++) {
        codes[2 * i] = high ? bytes[i] >> 4 : bytes[i] & 15;
        codes[2 * i + 1] = high ? bytes[i] & 15 : bytes[i] >> 4;
    }
    for (int i = 0; i < 2 * n; i += V_LANES) v_store(out + i, look_up(table, codes_at(codes + i)) * scale, V_LANES);
}

static void decode_nf4(const unsigned char *block, element *out) {
    decode_nibbles(block, 32, true, ls_nf4_values, scale_at(block + 32), out);
}

static void decode_mxfp4(const unsigned char *block, element *out) {
    const float scale = block[16] == 255 ? NAN : ldexpf(1, block[16] - 127);
    decode_nibbles(block, 16, false, ls_e2m1_values, v_set(scale), out);
}

static void decode_int8(const unsigned char *block, element *out) {
    const v_f32 scale = scale_at(block + 64), part = v_set(1 / 127.0f);
    for (int i = 0; i < 64; i += V_LANES) {
        const v_i32 code = codes_at(block + i) << 24 >> 24;
        v_store(out + i, __builtin_convertvector(code, v_f32) * scale * part, V_LANES);
    }
}

/* As number_of_e4m3 in kernel/blocks.c. */
static void decode_fp8(const unsigned char *block, element *out) {
    const v_f32 scale = scale_at(block + 64);
    for (int i = 0; i < 64; i += V_LANES) {
        const v_i32 code = codes_at(block + i), size = code & 0x7f;
        const v_f32 number = (v_f32)(size << 20) * v_set(0x1p120f);
        const v_f32 some = v_select(size == 0x7f, v_set(NAN), number);
        v_store(out + i, (v_f32)((v_i32)some | (code & 0x80) << 24) * scale, V_LANES);
    }
}

typedef void (*block_decoder)(const unsigned char *block, element *out);
static const block_decoder block_decoders[LS_DTYPES] = {
    [LS_NF4] = decode_nf4, [LS_INT8] = decode_int8, [LS_FP8] = decode_fp8, [LS_MXFP4] = decode_mxfp4};

#endif
