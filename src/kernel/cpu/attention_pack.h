/*
 * Copies of q, k, v and do in the order in which the products of attention_gemm.h read them, in units (one float, or a
 * pair of bf16 along the axis that is summed over). Missing rows and columns become 0.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_PACK_H
#define LS_KERNEL_CPU_ATTENTION_PACK_H

#include "kernel/cpu/attention_gemm.h"
#include "kernel/cpu/vmath.h"

/* Units of a row of D elements, rounded up to a multiple of DEPTH. */
V_INLINE int64_t row_units(int64_t D) { return (int64_t)ls_round_up((size_t)ls_ceil_div(D, UNIT_ELEMENTS), DEPTH); }

/* V_LANES units of a row of D elements, from its unit `from` on. */
V_INLINE v_f32 load_row_units(const element *row, int64_t from, int64_t D) {
#if LS_ATTENTION_PAIRS
    const int64_t left = D - 2 * from;
    if (left >= 2 * V_LANES) return unit_load((const float *)(const void *)(row + 2 * from));
    v_f32 v = {0};
    if (left > 0) memcpy(&v, row + 2 * from, sizeof(element) * (size_t)left);
    return v;
#else
    /* A case of its own, because it does not go through memory lane by lane. */
    if (D - from >= V_LANES) return v_load(row + from, V_LANES);
    return v_load(row + from, D - from);
#endif
}

#if LS_ATTENTION_PAIRS
/* V_LANES elements, zero-extended to 32 bits; 0 for row NULL and elements past D. */
V_INLINE v_u32 load_bits(const element *row, int64_t from, int64_t D) {
    v_u16 v = {0};
    if (row && D - from >= V_LANES) {
        v_u16 whole;
        memcpy(&whole, row + from, sizeof whole);
        return __builtin_convertvector(whole, v_u32);
    }
    if (row && D > from) memcpy(&v, row + from, sizeof(element) * (size_t)(D - from));
    return __builtin_convertvector(v, v_u32);
}
#endif

/*
 * V_LANES units from element `from` on: pairs of the elements of two rows, or one row as floats. NULL is a row of
 * zeros.
 */
V_INLINE v_f32 load_paired_rows(const element *row, const element *next, int64_t from, int64_t D) {
#if LS_ATTENTION_PAIRS
    return (v_f32)(load_bits(row, from, D) | load_bits(next, from, D) << 16);
#else
    (void)next;
    return row ? load_row_units(row, from, D) : v_set(0.0f);
#endif
}

/* Each element of a unit times factor; for a pair of bf16, times the sign of factor. */
V_INLINE v_f32 unit_times(v_f32 unit, float factor) {
#if LS_ATTENTION_PAIRS
    return factor < 0 ? (v_f32)((v_u32)unit ^ 0x80008000u) : unit;
#else
    return unit * factor;
#endif
}

/* Rows as operand A, times factor: out[rows_out][units], units >= row_units(D) and a multiple of V_LANES. */
static void pack_rows(float *out, const element *in, int64_t stride, int64_t rows, int64_t rows_out, int64_t D,
                      int64_t units, float factor) {
    for (int64_t i = 0; i < rows_out; i++) {
        for (int64_t d = 0; d < units; d += V_LANES) {
            const v_f32 v = i < rows ? load_row_units(in + i * stride, d, D) : v_set(0.0f);
            unit_store(out + i * units + d, unit_times(v, factor));
        }
    }
}

/* in[rows][D] transposed as operand B: panels of PANEL rows of `in`, each [row_units(D)][PANEL], for rows_out rows. */
static void pack_transposed(float *out, const element *in, int64_t stride, int64_t rows, int64_t rows_out, int64_t D) {
    const int64_t units = row_units(D);
    for (int64_t r = 0; r < rows_out; r += V_LANES) {
        float *panel = out + r / PANEL * PANEL * units + r % PANEL;
        for (int64_t d = 0; d < units; d += V_LANES) {
            v_f32 m[V_LANES];
            for (int i = 0; i < V_LANES; i++) {
                m[i] = r + i < rows ? load_row_units(in + (r + i) * stride, d, D) : v_set(0.0f);
            }
            transpose_square(m);
            const int64_t lines = ls_min(V_LANES, units - d);
            for (int i = 0; i < lines; i++) unit_store(panel + (d + i) * PANEL, m[i]);
        }
    }
}

#if LS_ATTENTION_TILES
/*
 * Half 0 or 1 of two rows of 2*V_LANES elements, paired element by element. The instruction pairs within 128-bit lanes,
 * so unit j of a half has element paired_column(half, j) of both rows.
 */
V_INLINE v_f32 pair_rows(int half, v_f32 even, v_f32 odd) {
    return (v_f32)(half ? _mm512_unpackhi_epi16((__m512i)even, (__m512i)odd)
                        : _mm512_unpacklo_epi16((__m512i)even, (__m512i)odd));
}

V_INLINE int64_t paired_column(int half, int j) { return j / 4 * 8 + half * 4 + j % 4; }

/*
 * in[rows][D] transposed as operand A of sums over rows: out[width][rows_out / UNIT_ELEMENTS], rows of `out` out_row
 * units apart, width a multiple of PANEL.
 */
V_INLINE void pack_transposed_rows(float *out, int64_t out_row, const element *in, int64_t stride, int64_t rows,
                                   int64_t rows_out, int64_t D, int64_t width) {
    for (int64_t u = 0; u < rows_out / UNIT_ELEMENTS; u += V_LANES) {
        for (int64_t d = 0; d < width; d += PANEL) {
            v_f32 m[2][V_LANES];
#pragma GCC unroll 16
            for (int i = 0; i < V_LANES; i++) {
                const int64_t r = (u + i) * UNIT_ELEMENTS;
                const v_f32 even = r < rows ? load_row_units(in + r * stride, d / 2, D) : v_set(0.0f);
                const v_f32 odd = r + 1 < rows ? load_row_units(in + (r + 1) * stride, d / 2, D) : v_set(0.0f);
                for (int h = 0; h < 2; h++) m[h][i] = pair_rows(h, even, odd);
            }
            for (int h = 0; h < 2; h++) {
                transpose_square(m[h]);
                for (int j = 0; j < V_LANES; j++) unit_store(out + (d + paired_column(h, j)) * out_row + u, m[h][j]);
            }
        }
    }
}
#endif

/* One unit of rows for a panel of columns, from element d on. */
V_INLINE void pack_unit(float *out, const element *row, const element *next, int64_t d, int64_t D, int vectors) {
#if LS_ATTENTION_TILES
    (void)vectors; /* always a PANEL */
    const v_f32 even = row ? load_row_units(row, d / 2, D) : v_set(0.0f);
    const v_f32 odd = next ? load_row_units(next, d / 2, D) : v_set(0.0f);
    const __m512i low = (__m512i)pair_rows(0, even, odd), high = (__m512i)pair_rows(1, even, odd);
    unit_store(out, (v_f32)_mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high));
    unit_store(out + V_LANES,
               (v_f32)_mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high));
#else
    for (int j = 0; j < vectors; j++) unit_store(out + j * V_LANES, load_paired_rows(row, next, d + j * V_LANES, D));
#endif
}

/*
 * in[rows][D] as operand B of sums over rows: panels of columns, each [rows_out / UNIT_ELEMENTS][columns_in * V_LANES].
 * Only rows from..to-1, whole units, are written.
 */
static void pack_columns(float *out, const element *in, int64_t stride, int64_t rows, int64_t rows_out, int64_t from,
                         int64_t to, int64_t D, const columns *c) {
    for (int p = 0; p < c->panels; p++) {
        const int vectors = columns_in(c, p);
        for (int64_t r = from; r < to; r += UNIT_ELEMENTS) {
            const element *row = r < rows ? in + r * stride : NULL;
            const element *next = r + 1 < rows ? in + (r + 1) * stride : NULL;
            pack_unit(out + r / UNIT_ELEMENTS * vectors * V_LANES, row, next, (int64_t)p * c->each * V_LANES, D,
                      vectors);
        }
        out += rows_out / UNIT_ELEMENTS * vectors * V_LANES;
    }
}

#if LS_ATTENTION_PAIRS
/* Two vectors rounded to bf16: the low half of each unit from `low`, the high half from `high`. */
V_INLINE v_f32 round_to_pairs(v_f32 low, v_f32 high) {
    const __m512i alternating =
        (__m512i)(v_u32){0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007,
                         0x180008, 0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f};
    return (v_f32)_mm512_permutexvar_epi16(alternating, (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
}

/* 2^x, accurate enough for a result that is rounded to `element`. */
V_INLINE v_f32 unit_exp2(v_f32 x) { return v_exp2_coarse(x); }

/* 2*V_LANES consecutive numbers rounded to bf16, in order. */
V_INLINE v_f32 round_in_order(v_f32 first, v_f32 second) {
    return (v_f32)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
}
#else
V_INLINE v_f32 unit_exp2(v_f32 x) { return v_exp2(x); }
#endif

#endif
