/*
 * Vectors as wide as those of the isa for which the file is compiled, by the compiler's vector extensions: 16 floats
 * for AVX-512, 8 for AVX2, 4 elsewhere (SSE2; NEON, the base of aarch64). Loads and stores need no alignment. If
 * `count` is below V_LANES, they access only that many elements, and the other lanes load as zero. bf16 is handled as
 * its bits, in uint16_t. It is rounded to nearest even, and NaN stays NaN, as in base/float16.h; the instruction of
 * avx512bf16 also rounds numbers below 1.2e-38 to zero.
 */
#ifndef LS_KERNEL_CPU_SIMD_H
#define LS_KERNEL_CPU_SIMD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined __SSE2__
#include <immintrin.h>
#elif defined __ARM_NEON
#include <arm_neon.h>
#endif

#if defined __AVX512F__
#define V_LANES 16
#elif defined __AVX2__
#define V_LANES 8
#else
#define V_LANES 4
#endif
#if defined __AVX512F__ || defined __aarch64__
#define V_REGISTERS 32
#else
#define V_REGISTERS 16
#endif

#define V_INLINE static inline __attribute__((always_inline, unused))

typedef float v_f32 __attribute__((vector_size(4 * V_LANES)));
typedef int32_t v_i32 __attribute__((vector_size(4 * V_LANES)));
typedef uint32_t v_u32 __attribute__((vector_size(4 * V_LANES)));
typedef uint16_t v_u16 __attribute__((vector_size(2 * V_LANES)));

V_INLINE v_f32 v_set(float x) { return x - (v_f32){0}; }

/*
 * Lane i of the result is lane from[i] of a and b, whose lanes are numbered from 0 and from V_LANES on. clang, which
 * clang-tidy uses, does not have the builtin.
 */
V_INLINE v_f32 v_pick(v_f32 a, v_f32 b, v_i32 from) {
#ifdef __clang__
    v_f32 out = a;
    for (int i = 0; i < V_LANES; i++) out[i] = from[i] < V_LANES ? a[from[i]] : b[from[i] - V_LANES];
    return out;
#else
    return __builtin_shuffle(a, b, from);
#endif
}

/* Per lane: mask ? a : b, where mask is the result of a comparison. */
V_INLINE v_f32 v_select(v_i32 mask, v_f32 a, v_f32 b) { return (v_f32)(((v_i32)a & mask) | ((v_i32)b & ~mask)); }

/*
 * Per lane: the larger one, or b if one of them is NaN. The intrinsics are one instruction, which the compiler does not
 * generate itself.
 */
V_INLINE v_f32 v_max(v_f32 a, v_f32 b) {
#if defined __AVX512F__
    return (v_f32)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined __AVX2__
    return (v_f32)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE__
    return (v_f32)_mm_max_ps((__m128)a, (__m128)b);
#else
    return v_select(a > b, a, b);
#endif
}

/* Whether every lane is below the limit; false if a lane is NaN. */
V_INLINE bool v_all_below(v_f32 v, float limit) {
#if defined __AVX512F__
    return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(limit), _CMP_LT_OQ) == 0xffff;
#elif defined __AVX2__
    return _mm256_movemask_ps((__m256)(v < limit)) == 0xff;
#else
    bool below = true;
    for (int i = 0; i < V_LANES; i++) below &= v[i] < limit;
    return below;
#endif
}

#if defined __AVX512F__
/* Mask of the first `count` lanes, 0 to 16. A loop over lanes instead of masks would go through memory. */
V_INLINE __mmask16 v_first(int64_t count) { return (__mmask16)((1u << (count > 0 ? count : 0)) - 1u); }
#endif

V_INLINE v_f32 v_load_f32(const float *p, int64_t count) {
#if defined __AVX512F__
    return (v_f32)(count >= V_LANES ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(v_first(count), p));
#else
    v_f32 v = {0};
    if (count >= V_LANES) {
        memcpy(&v, p, sizeof v);
    } else {
        for (int64_t i = 0; i < count; i++) v[i] = p[i];
    }
    return v;
#endif
}

V_INLINE void v_store_f32(float *p, v_f32 v, int64_t count) {
    if (count >= V_LANES) {
        memcpy(p, &v, sizeof v);
    } else {
#if defined __AVX512F__
        _mm512_mask_storeu_ps(p, v_first(count), (__m512)v);
#else
        for (int64_t i = 0; i < count; i++) p[i] = v[i];
#endif
    }
}

V_INLINE v_u32 v_widen(v_u16 h) {
#if defined __AVX512F__
    return (v_u32)_mm512_cvtepu16_epi32((__m256i)h); /* the compiler would convert two halves */
#else
    return __builtin_convertvector(h, v_u32);
#endif
}

V_INLINE v_u16 v_narrow(v_u32 v) {
#if defined __AVX512F__
    return (v_u16)_mm512_cvtepi32_epi16((__m512i)v);
#else
    return __builtin_convertvector(v, v_u16);
#endif
}

V_INLINE v_f32 v_load_bf16(const uint16_t *p, int64_t count) {
#if defined __AVX512F__
    const v_u16 h = (v_u16)(count >= V_LANES ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                                             : _mm256_maskz_loadu_epi16(v_first(count), p));
#else
    v_u16 h = {0};
    if (count >= V_LANES) {
        memcpy(&h, p, sizeof h);
    } else {
        for (int64_t i = 0; i < count; i++) h[i] = p[i];
    }
#endif
    return (v_f32)(v_widen(h) << 16);
}

V_INLINE v_u16 v_round_bf16(v_f32 v) {
#if defined __AVX512BF16__
    return (v_u16)_mm512_cvtneps_pbh((__m512)v);
#else
    const v_u32 bits = (v_u32)v;
    const v_u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const v_u32 quiet = (bits >> 16) | 0x40u;
    const v_u32 is_nan = (v_u32)((v_i32)(bits & 0x7fffffffu) > 0x7f800000);
    return v_narrow((rounded & ~is_nan) | (quiet & is_nan));
#endif
}

V_INLINE void v_store_bf16(uint16_t *p, v_f32 v, int64_t count) {
    const v_u16 h = v_round_bf16(v);
    if (count >= V_LANES) {
        memcpy(p, &h, sizeof h);
    } else {
#if defined __AVX512F__
        _mm256_mask_storeu_epi16(p, v_first(count), (__m256i)h);
#else
        for (int64_t i = 0; i < count; i++) p[i] = h[i];
#endif
    }
}

V_INLINE v_f32 v_sqrt(v_f32 v) {
#if defined __AVX512F__
    return (v_f32)_mm512_sqrt_ps((__m512)v);
#elif defined __AVX2__
    return (v_f32)_mm256_sqrt_ps((__m256)v);
#elif defined __SSE2__
    return (v_f32)_mm_sqrt_ps((__m128)v);
#elif defined __ARM_NEON
    return (v_f32)vsqrtq_f32((float32x4_t)v);
#else
    for (int i = 0; i < V_LANES; i++) v[i] = __builtin_sqrtf(v[i]);
    return v;
#endif
}

/*
 * From here to v_flush_end, this thread treats numbers below 1.2e-38 (subnormals) as 0. Arithmetic with subnormals is a
 * hundred times slower on some processors, and a state that decays for long becomes subnormal. Returns the setting that
 * v_flush_end restores.
 */
V_INLINE uint32_t v_flush_begin(void) {
#if defined __SSE2__
    const uint32_t before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u);
    return before;
#elif defined __aarch64__
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | UINT64_C(1) << 24) : "memory");
    return (uint32_t)before;
#else
    return 0;
#endif
}

V_INLINE void v_flush_end(uint32_t before) {
#if defined __SSE2__
    _mm_setcsr(before);
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)before) : "memory");
#else
    (void)before;
#endif
}

/* Sum of the lanes, added as a tree. */
V_INLINE float v_sum(v_f32 v) {
    for (int half = V_LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) v[i] += v[i + half];
    }
    return v[0];
}

V_INLINE float v_largest(v_f32 v) {
    float most = v[0];
    for (int i = 1; i < V_LANES; i++) most = v[i] > most ? v[i] : most;
    return most;
}

/*
 * v_largest_lane and v_sum_lanes combine the vector with itself, lanes swapped, once per level, so that the vector
 * stays in a register.
 */
static const int32_t lane_swaps[4][16] = {
    {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14},
    {2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13},
    {4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11},
    {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7},
};

#define LANE_LEVELS (V_LANES == 16 ? 4 : V_LANES == 8 ? 3 : 2)

/* Swaps lanes that are 2^level apart. */
V_INLINE v_f32 v_swap(v_f32 v, int level) {
    v_i32 from;
    memcpy(&from, lane_swaps[level], sizeof from);
    return v_pick(v, v, from);
}

V_INLINE float v_largest_lane(v_f32 v) {
#pragma GCC unroll 4
    for (int level = 0; level < LANE_LEVELS; level++) v = v_max(v_swap(v, level), v);
    return v[0];
}

V_INLINE float v_sum_lanes(v_f32 v) {
#pragma GCC unroll 4
    for (int level = 0; level < LANE_LEVELS; level++) v += v_swap(v, level);
    return v[0];
}

/* --- transposing squares ------------------------------------------------------------------------------------------ */

#if V_LANES == 16
#define TRANSPOSE_LOW \
    (v_i32) { 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23 }
#elif V_LANES == 8
#define TRANSPOSE_LOW \
    (v_i32) { 0, 8, 1, 9, 2, 10, 3, 11 }
#else
#define TRANSPOSE_LOW \
    (v_i32) { 0, 4, 1, 5 }
#endif

/* Transposes V_LANES x V_LANES numbers of 32 bits, in log2(V_LANES) rounds of a perfect shuffle. */
V_INLINE void transpose_square(v_f32 m[V_LANES]) {
    const v_i32 low = TRANSPOSE_LOW, high = low + V_LANES / 2;
    for (int round = 1; round < V_LANES; round *= 2) {
        v_f32 next[V_LANES];
#pragma GCC unroll 16
        for (int i = 0; i < V_LANES / 2; i++) {
            next[2 * i] = v_pick(m[i], m[i + V_LANES / 2], low);
            next[2 * i + 1] = v_pick(m[i], m[i + V_LANES / 2], high);
        }
#pragma GCC unroll 16
        for (int i = 0; i < V_LANES; i++) m[i] = next[i];
    }
}

#endif
