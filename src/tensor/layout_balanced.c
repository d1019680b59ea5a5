/*
 * The layout `balanced`. The sequence is cut into pieces of equal length, the same number for each block. The area of a
 * piece is the number of (query, key) pairs that the masks leave for its queries. Pieces are assigned by area, longest
 * processing time first (Graham, "Bounds on multiprocessing timing anomalies", 1969), in rounds of R neighbouring
 * pieces for R blocks: each block gets one piece of every round, so that it has as many tokens as in every other
 * layout, and the piece with the largest area goes to the block with the smallest area so far. Then pieces near each
 * other are swapped while that balances the work per hop of the ring: the area between each block of queries and each
 * block of keys.
 *
 * Pieces are as long as balance allows, because kernels handle keys in groups of 64 positions, and because keys that
 * lie together with their queries are not sent. The number of pieces is doubled until the slowest blocks of all hops
 * together are within TOLERANCE of the mean. A full mask gets the contiguous layout, a causal mask the zigzag layout.
 */
#include "tensor/layout_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tensor/mask.h"

enum { SHORTEST_PIECE = 16, MOST_PIECES = 1024, MOST_HALVINGS = 40, FARTHEST_SWAP = 16 };

/* The accepted excess: see excess(). */
static const double TOLERANCE = 0.05;

/* An assignment of n pieces to R blocks, and its work. */
typedef struct assignment {
    int R, n;           /* blocks; pieces, a multiple of R */
    double *area;       /* [n][n]: between a piece of queries and a piece of keys */
    int *first, *other; /* piece i has an area with other[first[i]] ... other[first[i + 1] - 1] */
    int *block;         /* [n]: the block of each piece; -1: not assigned */
    double *pair;       /* [R][R]: the area between a block of queries and a block of keys */
    double *hop, *load; /* [R] each: sums of pair by hop, and by block of queries */
    double all, spread; /* the sum of pair; how uneven the work is: see add_area */
} assignment;

/* ---- the work of an assignment ---- */

/* (sum + by)^2 - sum^2 */
static double square_growth(double sum, double by) { return (2 * sum + by) * by; }

/*
 * Adds an area between two blocks. The spread is R times the variance of pair within a hop, summed over the hops, plus
 * R times the variance of load.
 */
static void add_area(assignment *d, int queries, int keys, double area) {
    double *pair = &d->pair[queries * d->R + keys], *hop = &d->hop[(queries - keys + d->R) % d->R];
    double *load = &d->load[queries];
    d->spread += square_growth(*pair, area) - square_growth(*hop, area) / d->R;
    d->spread += square_growth(*load, area) - square_growth(d->all, area) / d->R;
    *pair += area;
    *hop += area;
    *load += area;
    d->all += area;
}

/* Adds (sign 1) or removes (sign -1) the areas of piece i as a part of a block. */
static void add_piece(assignment *d, int i, int block, double sign) {
    add_area(d, block, block, sign * d->area[(int64_t)i * d->n + i]);
    for (int a = d->first[i]; a < d->first[i + 1]; a++) {
        LS_ASSERT(d->other != NULL); /* there is such an entry only if the array exists */
        const int j = d->other[a];
        if (d->block[j] < 0) continue;
        add_area(d, block, d->block[j], sign * d->area[(int64_t)i * d->n + j]);
        add_area(d, d->block[j], block, sign * d->area[(int64_t)j * d->n + i]);
    }
}

/* Assigns piece i to a block. */
static void move(assignment *d, int i, int block) {
    if (d->block[i] >= 0) add_piece(d, i, d->block[i], -1);
    d->block[i] = block;
    add_piece(d, i, block, 1);
}

/*
 * By how much the sum of the slowest blocks of all hops exceeds the mean, relative to the mean: 0 is perfect balance.
 */
static double excess(const assignment *d) {
    double sum = 0;
    for (int h = 0; h < d->R; h++) {
        double slowest = 0;
        for (int q = 0; q < d->R; q++) slowest = fmax(slowest, d->pair[q * d->R + (q - h + d->R) % d->R]);
        sum += slowest;
    }
    return d->all > 0 ? sum * d->R / d->all - 1 : 0;
}

/* ---- assigning ---- */

typedef struct load {
    int index;
    double area;
} load;

static int heaviest_first(const void *left, const void *right) {
    const load *a = left, *b = right;
    if (a->area != b->area) return a->area > b->area ? -1 : 1;
    return b->index - a->index;
}

static int lightest_first(const void *left, const void *right) {
    const load *a = left, *b = right;
    if (a->area != b->area) return a->area < b->area ? -1 : 1;
    return a->index - b->index;
}

static double area_of_queries(const assignment *d, int i) {
    double area = 0;
    for (int j = 0; j < d->n; j++) area += d->area[(int64_t)i * d->n + j];
    return area;
}

/* Rounds begin at the last positions: the first positions have the least work under a causal mask. */
static void assign_rounds(assignment *d, ls_arena *scratch) {
    load *pieces = LS_NEW_ARRAY(scratch, load, d->R), *blocks = LS_NEW_ARRAY(scratch, load, d->R);
    for (int b = 0; b < d->R; b++) blocks[b].index = b;
    for (int first = d->n - d->R; first >= 0; first -= d->R) {
        for (int i = 0; i < d->R; i++) pieces[i] = (load){first + i, area_of_queries(d, first + i)};
        qsort(pieces, (size_t)d->R, sizeof *pieces, heaviest_first);
        qsort(blocks, (size_t)d->R, sizeof *blocks, lightest_first);
        for (int i = 0; i < d->R; i++) {
            blocks[i].area += pieces[i].area;
            move(d, pieces[i].index, blocks[i].index);
        }
    }
}

/* Swaps two pieces, at most a round apart, where that lowers the spread; one pass over all pairs. */
static void swap_neighbours(assignment *d) {
    const int reach = (int)ls_min(d->R, FARTHEST_SWAP);
    for (int i = 0; i < d->n; i++) {
        for (int j = i + 1; j < d->n && j <= i + reach; j++) {
            const int mine = d->block[i], theirs = d->block[j];
            const double before = d->spread;
            if (mine == theirs) continue;
            move(d, i, theirs);
            move(d, j, mine);
            if (d->spread < before * (1 - 1e-9)) continue;
            move(d, j, theirs);
            move(d, i, mine);
            d->spread = before; /* removes the rounding errors of four moves */
        }
    }
}

/* Fills first and other. */
static void find_others(assignment *d, ls_arena *scratch) {
    size_t capacity = 0;
    int n = 0;
    d->first = LS_NEW_ARRAY(scratch, int, d->n + 1);
    for (int i = 0; i < d->n; i++) {
        for (int j = 0; j < d->n; j++) {
            if (j == i || (d->area[(int64_t)i * d->n + j] == 0 && d->area[(int64_t)j * d->n + i] == 0)) continue;
            *LS_PUSH(scratch, d->other, n, capacity) = j;
        }
        d->first[i + 1] = n;
    }
}

static void assign_pieces(assignment *d, ls_arena *scratch) {
    find_others(d, scratch);
    d->block = LS_NEW_ARRAY(scratch, int, d->n);
    d->pair = LS_NEW_ARRAY(scratch, double, d->R * d->R);
    d->hop = LS_NEW_ARRAY(scratch, double, d->R);
    d->load = LS_NEW_ARRAY(scratch, double, d->R);
    for (int i = 0; i < d->n; i++) d->block[i] = -1;
    if (d->n == d->R) { /* in order, so that a window's keys lie in their query's block or in the one before it */
        for (int i = 0; i < d->n; i++) move(d, i, i);
        return;
    }
    assign_rounds(d, scratch);
    if (excess(d) > TOLERANCE) swap_neighbours(d);
}

/* ---- the number of pieces ---- */

/* An assignment of n pieces with their areas; no piece is assigned. */
static assignment measured(const ls_layout_need *need, int R, int n, ls_arena *scratch) {
    assignment d = {.R = R, .n = n, .area = LS_NEW_ARRAY(scratch, double, (int64_t)n *n)};
    for (int m = 0; m < need->n_masks; m++)
        ls_mask_areas(need->masks[m].mask, need->S, n, need->masks[m].weight, d.area);
    return d;
}

/* The same assignment with half as many pieces: each of them is two pieces of `fine`. */
static assignment coarser(const assignment *fine, ls_arena *scratch) {
    const int n = fine->n / 2;
    assignment d = {.R = fine->R, .n = n, .area = LS_NEW_ARRAY(scratch, double, (int64_t)n *n)};
    for (int i = 0; i < fine->n; i++)
        for (int j = 0; j < fine->n; j++) d.area[(int64_t)(i / 2) * n + j / 2] += fine->area[(int64_t)i * fine->n + j];
    return d;
}

/*
 * The largest number of pieces of a block, a power of two. Two are always allowed if there are tokens for them: a
 * causal mask needs two.
 */
static int most_pieces(const ls_layout_need *need, int R) {
    int k = need->S >= 2 * (int64_t)R ? 2 : 1;
    while (2 * k * R <= MOST_PIECES && need->S / (2 * (int64_t)k * R) >= SHORTEST_PIECE) k *= 2;
    return k;
}

void ls_layout_assign_balanced(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out) {
    const int R = ls_layout_blocks(need);
    assignment tried[MOST_HALVINGS]; /* each with half the pieces of the one before */
    int n = 1, best = 0;
    tried[0] = measured(need, R, R * most_pieces(need, R), scratch);
    for (; tried[n - 1].n > R; n++) tried[n] = coarser(&tried[n - 1], scratch);
    for (int i = n - 1; i >= 0; i--) {
        assign_pieces(&tried[i], scratch);
        if (i == n - 1 || excess(&tried[i]) < excess(&tried[best])) best = i;
        if (excess(&tried[best]) <= TOLERANCE) break;
    }
    const assignment *d = &tried[best];
    int *held = LS_NEW_ARRAY(scratch, int, R); /* the number of pieces of each block so far */
    int64_t at = 0;
    for (int i = 0; i < d->n; i++) {
        const int b = d->block[i], j = held[b]++;
        const int64_t tokens = ls_layout_block_tokens(need, b);
        at += ls_part_start(tokens, d->n / R, j + 1) - ls_part_start(tokens, d->n / R, j);
        *LS_PUSH(scratch, out->at, out->n, out->capacity) = (ls_layout_piece){at, b};
    }
}
