/*
 * Layout `balanced`: the sequence is cut into pieces of equal length, as many for each block, and the pieces are dealt by their area,
 * the (query, key) pairs that the masks leave to their queries: longest processing time first (Graham, "Bounds on multiprocessing timing
 * anomalies", 1969), in rounds of neighbouring pieces, so that every block has one piece of each round and the tokens per block come out as in every other
 * layout. In a round the heaviest piece goes to the block with least area so far. Then neighbours change places while that evens out
 * what each block of queries has to do with each block of keys, which is its work at one hop of the ring.
 *
 * Pieces are as long as balance allows: they are halved until the slowest blocks of all hops together are within TOLERANCE of the mean, because
 * kernels look at keys in groups of 64 positions, and because what lies together need not travel. A full mask gets contiguous parts, a causal
 * one zigzag's.
 */
#include "tensor/layout_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tensor/mask.h"

enum { SHORTEST_PIECE = 16, MOST_PIECES = 1024, MOST_HALVINGS = 40, FARTHEST_SWAP = 16 };

/* Of the time of all hops, if each took as long as its slowest block, over the mean. */
static const double TOLERANCE = 0.05;

/* A number of pieces, what each has to do with each, and who gets it. */
typedef struct deal {
    int R, n;     /* blocks; pieces, a multiple of R */
    double *area; /* [n][n]: of piece of queries and piece of keys */
    int *first,
        *other;   /* piece i has to do with other[first[i]] ... other[first[i + 1] - 1], in either role */
    int *block;   /* by piece; -1: not dealt */
    double *pair; /* [R][R]: of block of queries and block of keys */
    double *hop, *load; /* sums of pair: by hop, by block of queries */
    double all, spread; /* sum of pair; how uneven it is, see add */
} deal;

/* --- what a deal comes to -------------------------------------------------------------------------------------------------- */

static double grown(double sum, double by) { return (2 * sum + by) * by; }

/* R times the variance of pairs within a hop, added up over the hops, and R times that of loads. */
static void add(deal *d, int queries, int keys, double area) {
    double *pair = &d->pair[queries * d->R + keys], *hop = &d->hop[(queries - keys + d->R) % d->R];
    double *load = &d->load[queries];
    d->spread += grown(*pair, area) - grown(*hop, area) / d->R;
    d->spread += grown(*load, area) - grown(d->all, area) / d->R;
    *pair += area;
    *hop += area;
    *load += area;
    d->all += area;
}

/* Piece i as part of a block, once more (1) or no longer (-1). */
static void count(deal *d, int i, int block, double sign) {
    add(d, block, block, sign * d->area[(int64_t)i * d->n + i]);
    for (int a = d->first[i]; a < d->first[i + 1]; a++) {
        LS_ASSERT(d->other != NULL); /* somebody is there */
        const int j = d->other[a];
        if (d->block[j] < 0) continue;
        add(d, block, d->block[j], sign * d->area[(int64_t)i * d->n + j]);
        add(d, d->block[j], block, sign * d->area[(int64_t)j * d->n + i]);
    }
}

static void move(deal *d, int i, int block) {
    if (d->block[i] >= 0) count(d, i, d->block[i], -1);
    d->block[i] = block;
    count(d, i, block, 1);
}

/* Over the mean, if every hop took as long as its slowest block. */
static double excess(const deal *d) {
    double sum = 0;
    for (int h = 0; h < d->R; h++) {
        double slowest = 0;
        for (int q = 0; q < d->R; q++) slowest = fmax(slowest, d->pair[q * d->R + (q - h + d->R) % d->R]);
        sum += slowest;
    }
    return d->all > 0 ? sum * d->R / d->all - 1 : 0;
}

/* --- dealing --------------------------------------------------------------------------------------------------------------- */

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

static double area_of_queries(const deal *d, int i) {
    double area = 0;
    for (int j = 0; j < d->n; j++) area += d->area[(int64_t)i * d->n + j];
    return area;
}

/* Rounds from the last positions to the first, which have least to do under a causal mask. */
static void deal_rounds(deal *d, ls_arena *scratch) {
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

/* Neighbours up to a round away change places where that lowers the spread; once over all of them. */
static void swap_neighbours(deal *d) {
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
            d->spread = before; /* without what rounding left */
        }
    }
}

static void find_others(deal *d, ls_arena *scratch) {
    size_t capacity = 0;
    int n = 0;
    d->first = LS_NEW_ARRAY(scratch, int, d->n + 1);
    for (int i = 0; i < d->n; i++) {
        for (int j = 0; j < d->n; j++) {
            if (j == i || (d->area[(int64_t)i * d->n + j] == 0 && d->area[(int64_t)j * d->n + i] == 0))
                continue;
            *LS_PUSH(scratch, d->other, n, capacity) = j;
        }
        d->first[i + 1] = n;
    }
}

static void deal_pieces(deal *d, ls_arena *scratch) {
    find_others(d, scratch);
    d->block = LS_NEW_ARRAY(scratch, int, d->n);
    d->pair = LS_NEW_ARRAY(scratch, double, d->R * d->R);
    d->hop = LS_NEW_ARRAY(scratch, double, d->R);
    d->load = LS_NEW_ARRAY(scratch, double, d->R);
    for (int i = 0; i < d->n; i++) d->block[i] = -1;
    if (d->n == d->R) { /* in order: what a window sees then lies on the block before */
        for (int i = 0; i < d->n; i++) move(d, i, i);
        return;
    }
    deal_rounds(d, scratch);
    if (excess(d) > TOLERANCE) swap_neighbours(d);
}

/* --- how many pieces ------------------------------------------------------------------------------------------------------- */

static deal measured(const ls_layout_need *need, int R, int n, ls_arena *scratch) {
    deal d = {.R = R, .n = n, .area = LS_NEW_ARRAY(scratch, double, (int64_t)n *n)};
    for (int m = 0; m < need->n_masks; m++)
        ls_mask_areas(need->masks[m].mask, need->S, n, need->masks[m].weight, d.area);
    return d;
}

/* The same with two pieces in one. */
static deal coarser(const deal *fine, ls_arena *scratch) {
    const int n = fine->n / 2;
    deal d = {.R = fine->R, .n = n, .area = LS_NEW_ARRAY(scratch, double, (int64_t)n *n)};
    for (int i = 0; i < fine->n; i++)
        for (int j = 0; j < fine->n; j++)
            d.area[(int64_t)(i / 2) * n + j / 2] += fine->area[(int64_t)i * fine->n + j];
    return d;
}

/* Pieces of a block, at most: a power of two. Two are always tried, because a causal mask wants them. */
static int most_pieces(const ls_layout_need *need, int R) {
    int k = need->S >= 2 * (int64_t)R ? 2 : 1;
    while (2 * k * R <= MOST_PIECES && need->S / (2 * (int64_t)k * R) >= SHORTEST_PIECE) k *= 2;
    return k;
}

void ls_layout_deal_balanced(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out) {
    const int R = ls_layout_blocks(need);
    deal deals[MOST_HALVINGS];
    int n = 1, best = 0;
    deals[0] = measured(need, R, R * most_pieces(need, R), scratch);
    for (; deals[n - 1].n > R; n++) deals[n] = coarser(&deals[n - 1], scratch);
    for (int i = n - 1; i >= 0; i--) {
        deal_pieces(&deals[i], scratch);
        if (i == n - 1 || excess(&deals[i]) < excess(&deals[best])) best = i;
        if (excess(&deals[best]) <= TOLERANCE) break;
    }
    const deal *d = &deals[best];
    int *held = LS_NEW_ARRAY(scratch, int, R); /* pieces of each block so far */
    int64_t at = 0;
    for (int i = 0; i < d->n; i++) {
        const int b = d->block[i], j = held[b]++;
        const int64_t tokens = ls_layout_block_tokens(need, b);
        at += ls_part_start(tokens, d->n / R, j + 1) - ls_part_start(tokens, d->n / R, j);
        *LS_PUSH(scratch, out->at, out->n, out->capacity) = (ls_layout_piece){at, b};
    }
}
