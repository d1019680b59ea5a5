#include "base/base.h"

#include <string.h>

/* The bytes of a range in the same order, with as few dimensions as possible; length 0 when it is empty. */
typedef struct pieces {
    int64_t offset, length;
    int dims; /* dimensions in use, each with count > 1 */
    int64_t count[LS_RANGE_DIMS], stride[LS_RANGE_DIMS];
} pieces;

static pieces simplify(const ls_range *range) {
    pieces p = {.offset = (int64_t)range->offset, .length = (int64_t)range->length};
    if (ls_range_bytes(range) == 0) p.length = 0;
    for (int d = 0; d < LS_RANGE_DIMS && p.length > 0; d++) {
        const int64_t count = range->count[d], stride = range->stride[d];
        if (count == 1) continue;
        if (p.dims == 0 && stride == p.length) { /* the pieces touch: one longer piece */
            p.length *= count;
        } else if (p.dims > 0 && stride == p.stride[p.dims - 1] * p.count[p.dims - 1]) { /* one longer row of pieces */
            p.count[p.dims - 1] *= count;
        } else {
            p.count[p.dims] = count;
            p.stride[p.dims++] = stride;
        }
    }
    return p;
}

size_t ls_range_bytes(const ls_range *range) {
    if (ls_range_is_flat(range)) return range->length;
    size_t bytes = range->length;
    for (int d = 0; d < LS_RANGE_DIMS; d++) bytes *= range->count[d] > 0 ? (size_t)range->count[d] : 0;
    return bytes;
}

size_t ls_range_end_of_pieces(const ls_range *range) {
    if (ls_range_bytes(range) == 0) return range->offset;
    int64_t end = (int64_t)(range->offset + range->length);
    for (int d = 0; d < LS_RANGE_DIMS; d++) end += ls_max(0, range->stride[d] * (range->count[d] - 1));
    return (size_t)end;
}

bool ls_range_lies_within(const ls_range *range, size_t bytes) {
    if (bytes > INT64_MAX || range->offset > bytes || range->length > bytes - range->offset) return false;
    int64_t first = (int64_t)range->offset, end = (int64_t)(range->offset + range->length);
    size_t all = range->length;
    bool empty = all == 0, whole = true;
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        int64_t span;
        if (range->count[d] < 0) return false;
        empty |= range->count[d] == 0;
        whole &= !__builtin_mul_overflow(all, (size_t)range->count[d], &all) &&
                 !__builtin_mul_overflow(range->stride[d], range->count[d] - 1, &span) &&
                 !__builtin_add_overflow(span < 0 ? first : end, span, span < 0 ? &first : &end);
    }
    return empty || (whole && first >= 0 && end <= (int64_t)bytes && all <= bytes);
}

/* A position in the bytes of a range. It advances piece by piece, in the innermost dimension first. */
typedef struct piece_cursor {
    const pieces *range;
    int64_t index[LS_RANGE_DIMS];
    int64_t start; /* of the current piece */
    int64_t done;  /* bytes of the current piece before the position */
} piece_cursor;

static void cursor_advance(piece_cursor *cursor, int64_t bytes) {
    const pieces *range = cursor->range;
    cursor->done += bytes;
    if (cursor->done < range->length) return;
    cursor->done = 0;
    for (int d = 0; d < range->dims; d++) {
        cursor->start += range->stride[d];
        if (++cursor->index[d] < range->count[d]) return;
        cursor->start -= range->stride[d] * range->count[d];
        cursor->index[d] = 0;
    }
}

static piece_cursor cursor_at_start(const pieces *range) {
    return (piece_cursor){.range = range, .start = range->offset};
}

static int64_t bytes_left_in_piece(const piece_cursor *cursor) { return cursor->range->length - cursor->done; }

void ls_range_copy(void *target, const ls_range *to, const void *source, const ls_range *from) {
    const size_t bytes = ls_range_bytes(to);
    LS_ASSERT(bytes == ls_range_bytes(from));
    const pieces to_pieces = simplify(to), from_pieces = simplify(from);
    piece_cursor out = cursor_at_start(&to_pieces), in = cursor_at_start(&from_pieces);
    for (int64_t left = (int64_t)bytes; left > 0;) {
        const int64_t n = ls_min(bytes_left_in_piece(&out), bytes_left_in_piece(&in));
        memcpy((char *)target + out.start + out.done, (const char *)source + in.start + in.done, (size_t)n);
        cursor_advance(&out, n);
        cursor_advance(&in, n);
        left -= n;
    }
}

/* ---- overlap ---- */

/*
 * The start of a piece of b minus the start of a piece of a is
 *     base + sum of (step_k * x_k),  0 <= x_k <= most_k
 * with one term for each dimension of either range. (The terms of a are counted from their ends, which makes their
 * steps positive.) The ranges share a byte exactly when this sum can fall into an interval [low, high]. Terms with
 * equal steps are joined, and the terms are sorted by step. For the first k of them
 *     reach[k]  is the largest sum: sums lie in [0, reach[k]];
 *     gap[k]    is at least the distance between neighbouring sums: an interval of that width inside [0, reach[k]]
 *               contains a sum.
 * These two decide nearly every case. Otherwise two terms are decided by Euclid's algorithm, and more terms by trying
 * each value of the last.
 */
enum { MAX_TERMS = 2 * LS_RANGE_DIMS };

typedef struct sum_terms {
    int n;
    int64_t step[MAX_TERMS], most[MAX_TERMS];
    int64_t reach[MAX_TERMS + 1], gap[MAX_TERMS + 1];
} sum_terms;

static void add_term(sum_terms *terms, int64_t step, int64_t most) {
    if (step == 0) return;
    int i = 0;
    while (i < terms->n && terms->step[i] < step) i++;
    if (i < terms->n && terms->step[i] == step) {
        terms->most[i] += most;
        return;
    }
    for (int j = terms->n++; j > i; j--) {
        terms->step[j] = terms->step[j - 1];
        terms->most[j] = terms->most[j - 1];
    }
    terms->step[i] = step;
    terms->most[i] = most;
}

static void measure_terms(sum_terms *terms) {
    terms->reach[0] = 0;
    terms->gap[0] = 1;
    for (int k = 0; k < terms->n; k++) {
        terms->reach[k + 1] = terms->reach[k] + terms->step[k] * terms->most[k];
        terms->gap[k + 1] = ls_max(terms->gap[k], terms->step[k] - terms->reach[k]);
    }
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }     /* b > 0 */
static int64_t floor_mod(int64_t a, int64_t b) { return a - b * floor_div(a, b); } /* in [0, b) */
static int64_t ceil_div_signed(int64_t a, int64_t b) { return -floor_div(-a, b); } /* b > 0 */

/* The least x >= 0 with low <= (a*x mod m) <= high, or -1. 0 <= low <= high < m, 0 <= a < m. */
static int64_t first_in_residues(int64_t a, int64_t m, int64_t low, int64_t high) {
    if (low == 0) return 0;
    if (a == 0) return -1;
    const int64_t x = ls_ceil_div(low, a);
    if (a * x <= high) return x;
    /* No multiple of a is in [low, high]: find how often a*x passes m first, which is the same problem modulo a. */
    const int64_t rounds = first_in_residues(m % a, a, floor_mod(-high, a), floor_mod(-low, a));
    if (rounds < 0) return -1;
    return (int64_t)(((__int128)m * rounds + low + a - 1) / a);
}

/* Whether step[0]*x + step[1]*y can fall into [low, high]. */
static bool two_terms_reach(const sum_terms *terms, int64_t low, int64_t high) {
    const int64_t small = terms->step[0], large = terms->step[1], width = high - low + 1;
    /* The values of y for which x can stay within its limits. */
    const int64_t first = ls_max(0, ceil_div_signed(low - terms->reach[1], large));
    const int64_t last = ls_min(terms->most[1], floor_div(high, large));
    if (first > last) return false;
    if (width >= small) return true;
    /* A sum hits the interval when (high - large*y) mod small < width. */
    const int64_t target = floor_mod(high - large * first, small);
    if (target < width) return true;
    const int64_t y = first_in_residues(large % small, small, target - width + 1, target);
    return y >= 0 && y <= last - first;
}

/* Whether the sum of the first k terms can fall into [low, high]. */
static bool terms_reach(const sum_terms *terms, int k, int64_t low, int64_t high) {
    if (high < 0 || low > terms->reach[k]) return false;
    if (low <= 0 || high >= terms->reach[k] || high - low + 1 >= terms->gap[k]) return true;
    if (k == 2) return two_terms_reach(terms, low, high);
    if (k == 1) return floor_div(high, terms->step[0]) * terms->step[0] >= low;
    const int64_t step = terms->step[k - 1];
    const int64_t first = ls_max(0, ceil_div_signed(low - terms->reach[k - 1], step));
    const int64_t last = ls_min(terms->most[k - 1], floor_div(high, step));
    for (int64_t x = first; x <= last; x++)
        if (terms_reach(terms, k - 1, low - step * x, high - step * x)) return true;
    return false;
}

/* The same bytes with every stride >= 0. */
static pieces ascending(const ls_range *range) {
    pieces p = simplify(range);
    for (int d = 0; d < p.dims; d++) {
        if (p.stride[d] >= 0) continue;
        p.offset += p.stride[d] * (p.count[d] - 1);
        p.stride[d] = -p.stride[d];
    }
    return p;
}

/* Whether both ranges have at most one dimension, with the same stride > 0, which is stored. */
static bool have_one_stride(const ls_range *a, const ls_range *b, int64_t *stride) {
    if (a->count[1] != 1 || a->count[2] != 1 || b->count[1] != 1 || b->count[2] != 1) return false;
    *stride = a->count[0] > 1 ? a->stride[0] : b->stride[0];
    return *stride > 0 && a->length > 0 && b->length > 0 && a->count[0] > 0 &&
           (b->count[0] == 1 || (b->count[0] > 1 && b->stride[0] == *stride));
}

/* Overlap of such ranges: the sum has one term. */
static bool one_stride_overlap(const ls_range *a, const ls_range *b, int64_t stride) {
    const int64_t base = (int64_t)b->offset - (int64_t)a->offset;
    const int64_t first = ceil_div_signed(1 - (int64_t)b->length - base, stride);
    const int64_t last = floor_div((int64_t)a->length - 1 - base, stride);
    return ls_max(first, 1 - a->count[0]) <= ls_min(last, b->count[0] - 1);
}

bool ls_range_pieces_overlap(const ls_range *range_a, const ls_range *range_b) {
    int64_t stride;
    if (have_one_stride(range_a, range_b, &stride)) /* the common case: heads of the same tensor */
        return one_stride_overlap(range_a, range_b, stride);
    const pieces a = ascending(range_a), b = ascending(range_b);
    if (a.length == 0 || b.length == 0) return false;
    sum_terms terms = {.n = 0};
    int64_t base = b.offset - a.offset;
    for (int d = 0; d < b.dims; d++) add_term(&terms, b.stride[d], b.count[d] - 1);
    for (int d = 0; d < a.dims; d++) {
        add_term(&terms, a.stride[d], a.count[d] - 1);
        base -= a.stride[d] * (a.count[d] - 1);
    }
    measure_terms(&terms);
    /* Two pieces share a byte when b starts less than b.length bytes before a, or less than a.length bytes after it. */
    return terms_reach(&terms, terms.n, -b.length + 1 - base, a.length - 1 - base);
}

/* ---- parts ---- */

bool ls_range_has_piece(const ls_range *range, size_t offset, size_t length) {
    const int64_t *count = range->count, *stride = range->stride;
    for (int64_t k = 0; k < count[2]; k++) {
        for (int64_t j = 0; j < count[1]; j++) {
            const int64_t before = (int64_t)(offset - range->offset) - k * stride[2] - j * stride[1];
            const int64_t way = count[0] == 1 ? 0 : stride[0], far = way < 0 ? -way : way;
            const int64_t steps = far > 0 ? floor_div(before, far) : 0, i = way < 0 ? -steps : steps;
            const int64_t in_piece = before - i * way;
            if (i >= 0 && i < count[0] && in_piece >= 0 && in_piece <= (int64_t)range->length &&
                length <= range->length - (size_t)in_piece)
                return true;
        }
    }
    return false;
}
