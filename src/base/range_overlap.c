#include "base/range_impl.h"

/*
 * Overlap. The start of a piece of b minus the start of a piece of a is
 *     base + sum of (step_k * x_k),  0 <= x_k <= most_k
 * with one term for each strided pair of either range (the terms of a run backwards, which makes their steps
 * positive). They share a byte exactly when that sum can fall into an interval [low, high]. Equal steps are one term.
 * Terms are sorted by step, and for the first k of them
 *     reach[k]  is the largest sum, so sums lie in [0, reach[k]];
 *     gap[k]    bounds the distance between neighbouring sums: a window of that width inside cannot miss.
 * These two decide nearly everything; two terms are decided by Euclid's algorithm; more by trying the values of the
 * last.
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
    /* No multiple of a in [low, high]: find how many times m to go round, which is the same question modulo a. */
    const int64_t rounds = first_in_residues(m % a, a, floor_mod(-high, a), floor_mod(-low, a));
    if (rounds < 0) return -1;
    return (int64_t)(((__int128)m * rounds + low + a - 1) / a);
}

/* Whether step[0]*x + step[1]*y can fall into [low, high]. */
static bool two_terms_reach(const sum_terms *terms, int64_t low, int64_t high) {
    const int64_t small = terms->step[0], large = terms->step[1], width = high - low + 1;
    /* y for which x need not leave its limits: */
    const int64_t first = ls_max(0, ceil_div_signed(low - terms->reach[1], large));
    const int64_t last = ls_min(terms->most[1], floor_div(high, large));
    if (first > last) return false;
    if (width >= small) return true;
    /* high - large*y must leave a remainder below width when divided by small. */
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
static ls_pieces ascending(const ls_range *range) {
    ls_pieces p = ls_range_pieces(range);
    for (int d = 0; d < p.dims; d++) {
        if (p.stride[d] >= 0) continue;
        p.offset += p.stride[d] * (p.count[d] - 1);
        p.stride[d] = -p.stride[d];
    }
    return p;
}

/* Two of at most one pair: whether it is the same stride > 0 (stored), so that pieces lie a multiple of it apart. */
static bool are_combs(const ls_range *a, const ls_range *b, int64_t *stride) {
    if (a->count[1] != 1 || a->count[2] != 1 || b->count[1] != 1 || b->count[2] != 1) return false;
    *stride = a->count[0] > 1 ? a->stride[0] : b->stride[0];
    return *stride > 0 && a->length > 0 && b->length > 0 && a->count[0] > 0 &&
           (b->count[0] == 1 || (b->count[0] > 1 && b->stride[0] == *stride));
}

/* The same sum as below, with one term. */
static bool combs_overlap(const ls_range *a, const ls_range *b, int64_t stride) {
    const int64_t base = (int64_t)b->offset - (int64_t)a->offset;
    const int64_t first = ceil_div_signed(1 - (int64_t)b->length - base, stride);
    const int64_t last = floor_div((int64_t)a->length - 1 - base, stride);
    return ls_max(first, 1 - a->count[0]) <= ls_min(last, b->count[0] - 1);
}

bool ls_range_pieces_overlap(const ls_range *range_a, const ls_range *range_b) {
    int64_t stride;
    if (are_combs(range_a, range_b, &stride)) /* most others: heads of the same tensor */
        return combs_overlap(range_a, range_b, stride);
    const ls_pieces a = ascending(range_a), b = ascending(range_b);
    if (a.length == 0 || b.length == 0) return false;
    sum_terms terms = {.n = 0};
    int64_t base = b.offset - a.offset;
    for (int d = 0; d < b.dims; d++) add_term(&terms, b.stride[d], b.count[d] - 1);
    for (int d = 0; d < a.dims; d++) {
        add_term(&terms, a.stride[d], a.count[d] - 1);
        base -= a.stride[d] * (a.count[d] - 1);
    }
    measure_terms(&terms);
    /* A piece of b starts less than its length before a piece of a, or less than that one's length after. */
    return terms_reach(&terms, terms.n, -b.length + 1 - base, a.length - 1 - base);
}
