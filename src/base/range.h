/*
 * A strided set of bytes: pieces of equal length at equal distances, in up to three dimensions, innermost first:
 *     offset + i0*stride[0] + i1*stride[1] + i2*stride[2] + [0, length)   for 0 <= ij < count[j].
 * An unused dimension has count 1. The pieces must be disjoint.
 */
#ifndef LS_BASE_RANGE_H
#define LS_BASE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_RANGE_DIMS 3

typedef struct ls_range {
    size_t offset; /* bytes from the start of an area of memory that the context names */
    size_t length; /* bytes */
    int64_t count[LS_RANGE_DIMS];
    int64_t stride[LS_RANGE_DIMS]; /* bytes */
} ls_range;

/* A contiguous range. */
static inline ls_range ls_range_flat(size_t offset, size_t length) {
    return (ls_range){offset, length, {1, 1, 1}, {0, 0, 0}};
}

/* Whether the range is a single piece, as most are. */
static inline bool ls_range_is_flat(const ls_range *range) {
    return range->count[0] == 1 && range->count[1] == 1 && range->count[2] == 1;
}

/* The first bytes of a contiguous range. */
static inline ls_range ls_range_first(const ls_range *flat, size_t bytes) { return ls_range_flat(flat->offset, bytes); }

/* The number of bytes in the range. */
size_t ls_range_bytes(const ls_range *range);

/*
 * One past the last byte. The verifier calls ls_range_end and ls_range_overlap millions of times, mostly for single
 * pieces, so the answer for single pieces is inline.
 */
size_t ls_range_end_of_pieces(const ls_range *range);
static inline size_t ls_range_end(const ls_range *range) {
    return ls_range_is_flat(range) ? range->offset + range->length : ls_range_end_of_pieces(range);
}

/*
 * For a range that another process sent, in which any numbers may stand: whether all its pieces lie within an area of
 * `bytes` bytes, and are no more than `bytes` bytes together. Only then may the range be passed to other functions.
 */
bool ls_range_lies_within(const ls_range *range, size_t bytes);

/* Whether the bytes [offset, offset + length) lie within one piece of the range. */
bool ls_range_has_piece(const ls_range *range, size_t offset, size_t length);

/* Whether two ranges of the same area share a byte. Exact. */
bool ls_range_pieces_overlap(const ls_range *a, const ls_range *b);
static inline bool ls_range_overlap(const ls_range *a, const ls_range *b) {
    if (!ls_range_is_flat(a) || !ls_range_is_flat(b)) return ls_range_pieces_overlap(a, b);
    return a->offset < b->offset + b->length && b->offset < a->offset + a->length && a->length > 0 && b->length > 0;
}

/*
 * Copies the bytes of range `from` of source to range `to` of target, in the order of the dimensions. Both must have
 * the same number of bytes, but may have different pieces. They must not overlap.
 */
void ls_range_copy(void *target, const ls_range *to, const void *source, const ls_range *from);

#endif
