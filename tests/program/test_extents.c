/*
 * Extents: what is said of the bytes of two operands on all ranks at once holds on each of 12 ranks, for random pieces
 * and displacements; and the cases that programs depend on are told apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "program/program.h"

enum { RANKS = 12, NEAR, FAR, TEAMS, DISPLACEMENTS = 64, TRIALS = 200000 };

/* Ranks with neighbouring numbers are near. */
static ls_team teams[TEAMS] = {[NEAR] = {1, {{4, 1}}}, [FAR] = {1, {{3, 4}}}};
static ls_displacement displacements[DISPLACEMENTS];
static ls_image image = {.teams = teams, .n_teams = TEAMS, .displacements = displacements};

static size_t most_of(const ls_displacement *d) {
    size_t most = 0;
    for (int t = 0; t < d->n; t++) most += (size_t)(ls_team_size(&teams[d->term[t].team]) - 1) * d->term[t].bytes;
    return most;
}

/* A displacement of up to two terms. */
static int displace(int n, int team, int shift, size_t bytes, int team_2, int shift_2, size_t bytes_2) {
    ls_displacement *d = &displacements[image.n_displacements];
    *d = (ls_displacement){.n = n, .term = {{team, shift, bytes}, {team_2, shift_2, bytes_2}}};
    d->most = most_of(d);
    return image.n_displacements++;
}

static ls_range on_rank(const ls_extent *extent, int rank) {
    const ls_operand operand = {.displacement = extent->displacement};
    ls_range range = extent->range;
    range.offset += ls_operand_displacement(&image, &operand, rank);
    return range;
}

static void check(const ls_extent *a, const ls_extent *b) {
    const bool meet = ls_extents_meet(&image, a, b), covers = ls_extent_covers(&image, a, b);
    assert_int_equal(meet, ls_extents_meet(&image, b, a));
    for (int rank = 0; rank < RANKS; rank++) {
        const ls_range x = on_rank(a, rank), y = on_rank(b, rank);
        assert_true(ls_range_end(&x) <= ls_extent_end(&image, a));
        if (ls_range_overlap(&x, &y)) assert_true(meet);
        if (covers) assert_true(ls_range_covers(&x, &y));
    }
}

static size_t below(size_t n) { return (size_t)random() % n; }

static ls_extent random_extent(void) {
    static const size_t distances[] = {16, 24, 32, 48};
    const size_t length = 1 + below(6), distance = distances[below(LS_COUNT(distances))];
    ls_extent e = {ls_range_flat(below(40), length), (int)below((size_t)image.n_displacements)};
    if (below(3) > 0) {
        e.range.count[0] = 1 + (int64_t)below(4);
        e.range.stride[0] = (int64_t)distance;
    }
    if (below(3) == 0) {
        e.range.count[1] = 1 + (int64_t)below(3);
        e.range.stride[1] = e.range.count[0] * (int64_t)distance + (int64_t)(below(2) * 8);
    }
    return e;
}

static void test_every_rank(void **state) {
    (void)state;
    srandom(7);
    image.n_displacements = 1; /* number 0: none */
    for (int i = 1; i < DISPLACEMENTS; i++)
        displace(1 + i % 2, NEAR, (int)below(4), 1 + below(8), FAR, (int)below(3), 1 + below(4));
    int apart = 0;
    for (int i = 0; i < TRIALS; i++) {
        const ls_extent a = random_extent(), b = random_extent();
        check(&a, &b);
        apart += a.displacement != b.displacement && !ls_extents_meet(&image, &a, &b);
    }
    assert_in_range(apart, TRIALS / 20, TRIALS); /* the answer is not always the careful one */
}

/* A row of buckets, each divided over near ranks and then over far ones: the parts that different ranks own. */
static void test_parts_of_buckets(void **state) {
    (void)state;
    enum { BUCKET = 96, NEAR_PART = BUCKET / 4, PART = NEAR_PART / 3, BUCKETS = 5 };
    image.n_displacements = 1;
    ls_extent near[4], far[3];
    for (int s = 0; s < 4; s++) {
        near[s] = (ls_extent){ls_range_flat(8, NEAR_PART), displace(1, NEAR, s, NEAR_PART, 0, 0, 0)};
        near[s].range.count[0] = BUCKETS;
        near[s].range.stride[0] = BUCKET;
    }
    for (int s = 0; s < 3; s++) {
        far[s] = near[0];
        far[s].range.length = PART;
        far[s].displacement = displace(2, NEAR, 0, NEAR_PART, FAR, s, PART);
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) assert_int_equal(ls_extents_meet(&image, &near[i], &near[j]), i == j);
        for (int j = 0; j < 3; j++) assert_int_equal(ls_extents_meet(&image, &near[i], &far[j]), i == 0);
    }
    for (int k = 0; k < BUCKETS; k++) { /* this rank's part of one bucket, beside what others own of all */
        ls_extent own = far[0];
        own.range = ls_range_flat(8 + (size_t)k * BUCKET, PART);
        for (int j = 1; j < 4; j++) assert_false(ls_extents_meet(&image, &own, &near[j]));
        for (int j = 0; j < 3; j++) assert_int_equal(ls_extents_meet(&image, &own, &far[j]), j == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_rank), cmocka_unit_test(test_parts_of_buckets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
