/*
 * Sums whose bits do not depend on the order of their terms, because nothing is rounded before the end: a number is
 * added to words of 32 bits that cover all exponents of a double (a long accumulator: Kulisch, "Computer arithmetic and
 * validity", 2008, chapter 8). A word is a double that holds an integer, so words of several ranks can be added like
 * any other numbers.
 */
#include "kernel/ref/ref_impl.h"

#include <string.h>

enum {
    WORD_BITS = 32,
    LEAST_EXPONENT = -1074, /* of the least double; the exponent of bit 0 of word 0 */
    MANTISSA_BITS = 53,
    REST = LS_EXACT_WORDS - 1, /* not a word: the sum of terms that are not finite */
    TOP = REST - 1,            /* the only word that may be negative after a carry */
    UNCARRIED = 1 << 20        /* this many terms may be added before a word could be rounded */
};

static const double base = 4294967296.0;

/* Brings each word except the top one into the range 0 .. base - 1. */
static void carry(double *word) {
    for (int k = 0; k < TOP; k++) {
        const double above = floor(word[k] / base);
        word[k] -= above * base;
        word[k + 1] += above;
    }
}

static void add_term(double *word, double x) {
    if (!isfinite(x)) {
        word[REST] += x;
        return;
    }
    int exponent;
    const double fraction = frexp(fabs(x), &exponent);
    int64_t mantissa = (int64_t)ldexp(fraction, MANTISSA_BITS);
    int bit = exponent - MANTISSA_BITS - LEAST_EXPONENT;
    if (bit < 0) mantissa >>= -bit; /* the bits shifted out are zeros */
    bit = (int)ls_max(bit, 0);
    unsigned __int128 digits = (unsigned __int128)mantissa << bit % WORD_BITS;
    for (double *at = word + bit / WORD_BITS; digits != 0; digits >>= WORD_BITS)
        *at++ += (x < 0 ? -1.0 : 1.0) * (double)(uint32_t)digits;
}

/* The sum of squares of a unit, in an order that does not depend on the elements around the unit. */
static double squares_of(const real *x, int64_t n) {
    enum { LANES = 4 };
    double sum[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) sum[lane] += (double)x[i + lane] * (double)x[i + lane];
    }
    for (; i < n; i++) sum[i % LANES] += (double)x[i] * (double)x[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static ls_status prepare_sum(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_EXACT_SUM, LS_REAL, call);
}

static void run_sum(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const bool squares = ((const ls_exact_params *)call->params)->squares;
    const int64_t n = ls_view_elements(&call->in[0]), unit = squares ? LS_FLAT_UNIT : 1;
    const real *x = call->in[0].data;
    double *word = call->out[0].data;
    for (int64_t i = 0, terms = 1; i < n; i += unit, terms++) {
        add_term(word, squares ? squares_of(x + i, ls_min(unit, n - i)) : (double)x[i]);
        if (terms % UNCARRIED == 0) carry(word);
    }
    carry(word);
}

static ls_status prepare_value(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_EXACT_VALUE, LS_REAL, call);
}

/* Adds the largest words first, which makes the rounding error smallest. */
static double value_of(const double *words) {
    double word[LS_EXACT_WORDS], value = 0;
    memcpy(word, words, sizeof word);
    carry(word);
    const double sign = word[TOP] < 0 ? -1 : 1;
    for (int k = 0; k <= TOP; k++) word[k] *= sign;
    carry(word);
    for (int k = TOP; k >= 0; k--) value += ldexp(word[k], k * WORD_BITS + LEAST_EXPONENT);
    return sign * value + word[REST];
}

static void run_value(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    double *y = call->out[0].data;
    for (int64_t i = 0; i < call->in[0].size[0]; i++)
        y[i] = value_of((const double *)call->in[0].data + i * LS_EXACT_WORDS);
}

const ls_kernel REF(exact_sum) = {.id = LS_KERNEL_EXACT_SUM, .dtype = LS_REAL, .prepare = prepare_sum, .run = run_sum};
const ls_kernel REF(exact_value) = {
    .id = LS_KERNEL_EXACT_VALUE, .dtype = LS_REAL, .prepare = prepare_value, .run = run_value};
