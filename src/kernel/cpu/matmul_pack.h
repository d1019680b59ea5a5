/*
 * Copies operands of a matrix product into the order of AMX tiles (16 rows of 64 bytes). A panel is 32 lines (rows of
 * A, or columns of B) by the depth K: a pair of tiles for each 32 of K.
 *   A: row m of a tile holds 32 elements along K of line m.
 *   B: row j of a tile holds, for each of 16 lines, the two elements k = 2j and 2j + 1.
 * Either operand may be contiguous along its lines or along K, so there are four packers. Each copies a block of 32
 * lines by 32 of K.
 */
#ifndef LS_KERNEL_CPU_MATMUL_PACK_H
#define LS_KERNEL_CPU_MATMUL_PACK_H

#include "kernel/cpu/cpu_impl.h"

enum { PACK_LINES = 32, PACK_DEPTH = 32, PACK_BLOCK = PACK_LINES * PACK_DEPTH, PACK_TILE = PACK_BLOCK / 2 };

/* A packer. It reads 32 rows of 32 elements; rows are `stride` elements apart. */
typedef void pack_block(ls_bf16 *to, const ls_bf16 *from, int64_t stride);

/* The 16 bytes at from, from + step, from + 2 step and from + 3 step, loaded with masks, which needs no shuffle. */
V_INLINE __m512i pack_load(const ls_bf16 *from, int64_t step) {
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)from));
    v = _mm512_mask_broadcast_i32x4(v, 0x00f0, _mm_loadu_si128((const void *)(from + step)));
    v = _mm512_mask_broadcast_i32x4(v, 0x0f00, _mm_loadu_si128((const void *)(from + 2 * step)));
    return _mm512_mask_broadcast_i32x4(v, 0xf000, _mm_loadu_si128((const void *)(from + 3 * step)));
}

/* A, contiguous along K: rows are copied unchanged. */
static void pack_a_rows(ls_bf16 *to, const ls_bf16 *from, int64_t stride) {
    for (int m = 0; m < PACK_LINES; m++)
        _mm512_storeu_si512(to + m * PACK_DEPTH, _mm512_loadu_si512(from + m * stride));
}

/* A, contiguous along M: transposes 8 by 8 elements in each of the four 128-bit lanes. */
static void pack_a_columns(ls_bf16 *to, const ls_bf16 *from, int64_t stride) {
    for (int m = 0; m < PACK_LINES; m += 8) {
        __m512i a[8], b[8];
        for (int r = 0; r < 8; r++) a[r] = pack_load(from + r * stride + m, 8 * stride);
        for (int r = 0; r < 8; r += 2) {
            b[r] = _mm512_unpacklo_epi16(a[r], a[r + 1]);
            b[r + 1] = _mm512_unpackhi_epi16(a[r], a[r + 1]);
        }
        for (int r = 0; r < 8; r += 4) {
            for (int i = 0; i < 2; i++) {
                a[r + 2 * i] = _mm512_unpacklo_epi32(b[r + i], b[r + i + 2]);
                a[r + 2 * i + 1] = _mm512_unpackhi_epi32(b[r + i], b[r + i + 2]);
            }
        }
        for (int r = 0; r < 4; r++) {
            b[2 * r] = _mm512_unpacklo_epi64(a[r], a[r + 4]);
            b[2 * r + 1] = _mm512_unpackhi_epi64(a[r], a[r + 4]);
        }
        for (int r = 0; r < 8; r++) _mm512_storeu_si512(to + (m + r) * PACK_DEPTH, b[r]);
    }
}

/* B, contiguous along K: transposes 4 by 4 pairs in each of the four 128-bit lanes. */
static void pack_b_columns(ls_bf16 *to, const ls_bf16 *from, int64_t stride) {
    for (int tile = 0; tile < 2; tile++) {
        for (int k = 0; k < PACK_DEPTH; k += 8) {
            __m512i a[4], b[4];
            for (int r = 0; r < 4; r++) a[r] = pack_load(from + (16 * tile + r) * stride + k, 4 * stride);
            for (int r = 0; r < 4; r += 2) {
                b[r] = _mm512_unpacklo_epi32(a[r], a[r + 1]);
                b[r + 1] = _mm512_unpackhi_epi32(a[r], a[r + 1]);
            }
            ls_bf16 *out = to + tile * PACK_TILE + k / 2 * PACK_DEPTH;
            for (int r = 0; r < 2; r++) {
                _mm512_storeu_si512(out + 2 * r * PACK_DEPTH, _mm512_unpacklo_epi64(b[r], b[r + 2]));
                _mm512_storeu_si512(out + (2 * r + 1) * PACK_DEPTH, _mm512_unpackhi_epi64(b[r], b[r + 2]));
            }
        }
    }
}

/* B, contiguous along N: interleaves two rows. */
static void pack_b_rows(ls_bf16 *to, const ls_bf16 *from, int64_t stride) {
    static const uint16_t order[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i first = _mm512_loadu_si512(order), second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    for (int k = 0; k < PACK_DEPTH; k += 2, to += PACK_DEPTH) {
        const __m512i a = _mm512_loadu_si512(from + k * stride);
        const __m512i b = _mm512_loadu_si512(from + (k + 1) * stride);
        _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, first, b));
        _mm512_storeu_si512(to + PACK_TILE, _mm512_permutex2var_epi16(a, second, b));
    }
}

/* How an operand lies in memory, and its packer. */
typedef struct pack_operand {
    pack_block *block;
    int64_t line_step, depth_step; /* elements; one of them is 1 */
    bool by_lines;                 /* a row that the packer reads is a line; otherwise it is the lines of one k */
    int cost;                      /* approximate cycles to load and copy 1,024 elements */
} pack_operand;

V_INLINE pack_operand pack_operand_a(int64_t row, int64_t column) {
    return column == 1 ? (pack_operand){pack_a_rows, row, column, true, 80}
                       : (pack_operand){pack_a_columns, row, column, false, 230};
}

V_INLINE pack_operand pack_operand_b(int64_t row, int64_t column) {
    return row == 1 ? (pack_operand){pack_b_columns, column, row, true, 190}
                    : (pack_operand){pack_b_rows, column, row, false, 150};
}

/* A block that is not complete: the rest is 0. */
static void pack_ragged(ls_bf16 *to, const ls_bf16 *from, const pack_operand *o, int64_t lines, int64_t depth) {
    ls_bf16 whole[PACK_BLOCK] = {0};
    const int64_t rows = o->by_lines ? lines : depth, columns = o->by_lines ? depth : lines;
    const int64_t stride = o->by_lines ? o->line_step : o->depth_step;
    for (int64_t r = 0; r < rows; r++)
        memcpy(whole + r * PACK_DEPTH, from + r * stride, sizeof *whole * (size_t)columns);
    o->block(to, whole, PACK_DEPTH);
}

/*
 * Copies `lines` by `depth` into panels; the last panel may have fewer lines, and depth is padded with zeros to whole
 * tiles. If rows in memory are not lines, a whole row, across all panels, is read before the next, so that memory is
 * read in order.
 */
V_INLINE void pack_panels(ls_bf16 *to, const ls_bf16 *from, const pack_operand *o, int64_t lines, int64_t depth) {
    const int64_t padded = (int64_t)ls_round_up((size_t)depth, PACK_DEPTH);
    const int64_t most = o->by_lines ? PACK_LINES : lines;
    for (int64_t first = 0; first < lines; first += most) {
        for (int64_t k = 0; k < depth; k += PACK_DEPTH) {
            for (int64_t l = first; l < ls_min(lines, first + most); l += PACK_LINES) {
                const ls_bf16 *at = from + l * o->line_step + k * o->depth_step;
                ls_bf16 *block = to + l * padded + k * PACK_LINES;
                if (lines - l >= PACK_LINES && depth - k >= PACK_DEPTH)
                    o->block(block, at, o->by_lines ? o->line_step : o->depth_step);
                else
                    pack_ragged(block, at, o, ls_min(lines - l, PACK_LINES), ls_min(depth - k, PACK_DEPTH));
            }
        }
    }
}

#endif
