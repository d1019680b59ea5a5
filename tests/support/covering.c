#include "covering.h"

#include <stdlib.h>

#include "base/base.h"

/* Pairs that are not covered yet, by first axis, its value, second axis and its value. */
typedef struct search {
    const covering_axes *axes;
    int first[COVERING_AXES]; /* of an axis's values among all values */
    int values;
    bool *missing; /* [values][values], first axis before second */
    int left;
    uint64_t draws;
} search;

static bool allowed(const covering_axes *axes, int a, int i, int b, int j) {
    if (axes->allowed == NULL) return true;
    return a < b ? axes->allowed(axes->context, a, i, b, j) : axes->allowed(axes->context, b, j, a, i);
}

static bool *pair_of(const search *s, int a, int i, int b, int j) {
    const int x = s->first[a] + i, y = s->first[b] + j;
    return &s->missing[a < b ? x * s->values + y : y * s->values + x];
}

static void find_pairs(search *s) {
    const covering_axes *axes = s->axes;
    for (int a = 0; a < axes->n; a++) {
        s->first[a] = s->values;
        s->values += axes->size[a];
    }
    LS_ASSERT(s->values > 0);
    s->missing = calloc((size_t)s->values * (size_t)s->values, sizeof *s->missing);
    LS_ASSERT(s->missing != NULL);
    for (int a = 0; a < axes->n; a++) {
        for (int b = a + 1; b < axes->n; b++) {
            for (int ij = 0; ij < axes->size[a] * axes->size[b]; ij++) {
                const int i = ij / axes->size[b], j = ij % axes->size[b];
                if (!allowed(axes, a, i, b, j)) continue;
                *pair_of(s, a, i, b, j) = true;
                s->left++;
            }
        }
    }
}

/* How many missing pairs value i of axis a makes with the row so far; -1: it is not allowed there. */
static int gain(const search *s, const covering_row *row, int a, int i) {
    int sum = 0;
    for (int b = 0; b < s->axes->n; b++) {
        if (b == a || row->at[b] < 0) continue;
        if (!allowed(s->axes, a, i, b, row->at[b])) return -1;
        sum += *pair_of(s, a, i, b, row->at[b]);
    }
    return sum;
}

static int draw(search *s, int n) { return (int)ls_rng_below(s->axes->seed, 0, s->draws++, (uint64_t)n); }

static int best_value(search *s, const covering_row *row, int a) {
    int best = -1, most = -1, ties = 0;
    for (int i = 0; i < s->axes->size[a]; i++) {
        const int g = gain(s, row, a, i);
        if (g < 0 || g < most) continue;
        ties = g > most ? 1 : ties + 1;
        most = g;
        if (ties == 1 || draw(s, ties) == 0) best = i;
    }
    LS_ASSERT(best >= 0);
    return best;
}

/* A row with the first missing pair. */
static covering_row begin_row(const search *s) {
    covering_row row;
    for (int a = 0; a < COVERING_AXES; a++) row.at[a] = -1;
    int at = 0;
    while (!s->missing[at]) at++;
    for (int a = 0; a < s->axes->n; a++) {
        const int x = at / s->values - s->first[a], y = at % s->values - s->first[a];
        if (x >= 0 && x < s->axes->size[a]) row.at[a] = x;
        if (y >= 0 && y < s->axes->size[a]) row.at[a] = y;
    }
    return row;
}

static void finish_row(search *s, covering_row *row) {
    const int n = s->axes->n, turn = draw(s, n);
    for (int k = 0; k < n; k++) {
        const int a = (turn + k) % n;
        if (row->at[a] < 0) row->at[a] = best_value(s, row, a);
    }
    for (int a = 0; a < n; a++) {
        for (int b = a + 1; b < n; b++) {
            bool *missing = pair_of(s, a, row->at[a], b, row->at[b]);
            s->left -= *missing;
            *missing = false;
        }
    }
}

covering_row *covering_make(const covering_axes *axes, int *rows, int *pairs) {
    search s = {.axes = axes};
    find_pairs(&s);
    covering_row *all = malloc(sizeof *all * (size_t)(s.left + 1)); /* a pair for each row at least */
    LS_ASSERT(all != NULL);
    *pairs = s.left;
    for (*rows = 0; s.left > 0; ++*rows) {
        all[*rows] = begin_row(&s);
        finish_row(&s, &all[*rows]);
    }
    free(s.missing);
    return all;
}

bool covering_allows(const covering_axes *axes, const int *at) {
    for (int a = 0; a < axes->n; a++) {
        for (int b = a + 1; b < axes->n; b++) {
            if (!allowed(axes, a, at[a], b, at[b])) return false;
        }
    }
    return true;
}

covering_row *covering_product(const covering_axes *axes, int *rows) {
    int combinations = 1;
    for (int a = 0; a < axes->n; a++) combinations *= axes->size[a];
    covering_row *all = calloc((size_t)combinations + 1, sizeof *all);
    LS_ASSERT(all != NULL);
    *rows = 0;
    for (int i = 0; i < combinations; i++) {
        covering_row *row = &all[*rows];
        for (int a = axes->n - 1, left = i; a >= 0; left /= axes->size[a--]) row->at[a] = left % axes->size[a];
        *rows += covering_allows(axes, row->at);
    }
    return all;
}

static bool occurs(const covering_row *rows, int n, int a, int i, int b, int j) {
    for (int r = 0; r < n; r++) {
        if (rows[r].at[a] == i && rows[r].at[b] == j) return true;
    }
    return false;
}

int covering_count(const covering_axes *axes, const covering_row *rows, int n) {
    int pairs = 0;
    for (int a = 0; a < axes->n; a++) {
        for (int b = a + 1; b < axes->n; b++) {
            for (int ij = 0; ij < axes->size[a] * axes->size[b]; ij++) {
                const int i = ij / axes->size[b], j = ij % axes->size[b];
                const bool wanted = allowed(axes, a, i, b, j);
                if (occurs(rows, n, a, i, b, j) != wanted) return -1;
                pairs += wanted;
            }
        }
    }
    return pairs;
}
