/* Layouts: each is a permutation with the promised counts and order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "tensor/tensor.h"

enum { MOST_S = 40 };

static ls_layout make(ls_arena *arena, ls_layout_kind kind, int64_t S, int P) {
    return ls_layout_make(&(ls_layout_need){.kind = kind, .S = S, .P = P}, arena);
}

/* Every position once, counts as ls_part_start deals them, ascending within a rank. */
static void check_permutation(const ls_layout *layout) {
    int *owner = malloc(sizeof *owner * (size_t)layout->S);
    int32_t *positions = malloc(sizeof *positions * (size_t)(layout->S + 1));
    for (int i = 0; i < layout->S; i++) owner[i] = -1;
    int64_t total = 0;
    for (int p = 0; p < layout->P; p++) {
        int64_t n = ls_layout_count(layout, p);
        assert_int_equal(n, ls_part_start(layout->S, layout->P, p + 1) - ls_part_start(layout->S, layout->P, p));
        assert_true(n <= ls_layout_most(layout) && n >= layout->S / layout->P);
        assert_int_equal(ls_layout_start(layout, p), total);
        total += n;
        positions[n] = -77;
        ls_layout_positions(layout, p, positions);
        assert_int_equal(positions[n], -77);
        for (int64_t i = 0; i < n; i++) {
            assert_true(positions[i] >= 0 && positions[i] < layout->S);
            assert_int_equal(owner[positions[i]], -1);
            owner[positions[i]] = p;
            if (i > 0) assert_true(positions[i] > positions[i - 1]);
        }
    }
    assert_int_equal(total, layout->S);
    assert_int_equal(ls_layout_start(layout, layout->P), layout->S);
    free(positions);
    free(owner);
}

static void test_every_layout_is_a_permutation(void **state) {
    (void)state;
    for (int kind = 0; kind < LS_LAYOUTS; kind++) {
        ls_arena *arena = ls_arena_create();
        for (int64_t S = 1; S <= MOST_S; S++) {
            for (int P = 1; P <= S; P++) {
                const ls_layout layout = make(arena, (ls_layout_kind)kind, S, P);
                check_permutation(&layout);
            }
        }
        ls_arena_destroy(arena);
    }
}

static double uniform(uint64_t *draws) { return ls_rng_uniform(1, ls_rng_stream("layouts"), (*draws)++); }

/* Lengths drawn from 1 upwards, most of them short; returns how many ends there are. */
static int draw_documents(uint64_t *draws, int64_t S, int32_t *ends) {
    int n = 0;
    ends[n++] = 0;
    while (ends[n - 1] < S) {
        const double long_tail = 1 / (1.0001 - uniform(draws));
        const int64_t length = ls_min(S - ends[n - 1], (int64_t)long_tail);
        ends[n] = (int32_t)(ends[n - 1] + length);
        n++;
    }
    return n;
}

/* Lengths, ranks, members of blocks, documents (of one token, too) at random. */
static void test_layouts_that_follow_masks(void **state) {
    (void)state;
    uint64_t draws = 0;
    int32_t ends[2001];
    int many_runs = 0;
    for (int i = 0; i < 400; i++) {
        const int64_t S = 1 + (int64_t)(uniform(&draws) * (i % 4 == 0 ? 2000 : 60));
        const int members = 1 + (int)(uniform(&draws) * 3);
        const int blocks = i % 10 == 1 ? (int)(S / members) : 1 + (int)(uniform(&draws) * 9);
        if (blocks < 1 || (int64_t)members * blocks > S) continue;
        ls_mask mask = ls_mask_causal();
        mask.term[mask.n++] =
            (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = draw_documents(&draws, S, ends)};
        const ls_layout_mask masks[] = {{&mask, 2}};
        ls_arena *arena = ls_arena_create();
        for (int kind = LS_LAYOUT_DOCUMENTS; kind <= LS_LAYOUT_BALANCED; kind++) {
            const ls_layout layout = ls_layout_make(&(ls_layout_need){.kind = (ls_layout_kind)kind,
                                                                      .S = S,
                                                                      .P = members * blocks,
                                                                      .members = members,
                                                                      .masks = masks,
                                                                      .n_masks = 1},
                                                    arena);
            check_permutation(&layout);
            many_runs += ls_layout_most_runs(&layout) > 2;
        }
        ls_arena_destroy(arena);
    }
    assert_true(many_runs > 200);
}

/* Nothing to balance, and what zigzag balances already: balanced pieces are as long as can be. */
static void test_balanced_is_no_finer_than_needed(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    const ls_mask full = {.n = 0}, causal = ls_mask_causal();
    for (int P = 1; P <= 8; P++) {
        for (int which = 0; which < 2; which++) {
            const ls_layout_mask masks[] = {{which == 0 ? &full : &causal, 1}};
            ls_layout_need need = {.kind = LS_LAYOUT_BALANCED, .S = 4096 + P, .P = P, .masks = masks, .n_masks = 1};
            const ls_layout balanced = ls_layout_make(&need, arena);
            assert_true(ls_layout_most_runs(&balanced) <= (which == 0 ? 1 : 2));
        }
    }
    ls_arena_destroy(arena);
}

/* Pairs of a causal mask inside documents: the first run of a rank sees least, its second most. */
static void test_documents_are_balanced_inside(void **state) {
    (void)state;
    static const int32_t ends[] = {0, 64, 192, 193, 194, 195, 196, 512};
    ls_mask mask = ls_mask_causal();
    mask.term[mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    const ls_layout_mask masks[] = {{&mask, 1}};
    ls_arena *arena = ls_arena_create();
    const ls_layout layout = ls_layout_make(
        &(ls_layout_need){.kind = LS_LAYOUT_DOCUMENTS, .S = 512, .P = 4, .masks = masks, .n_masks = 1}, arena);
    const double mean = (double)ls_mask_area(&mask, 512) / 4;
    for (int p = 0; p < 4; p++) {
        int32_t positions[128];
        double area = 0;
        ls_layout_positions(&layout, p, positions);
        for (int i = 0; i < 128; i++) {
            ls_span spans[LS_MASK_SPANS];
            const int n = ls_mask_spans(&mask, 512, positions[i], spans);
            for (int j = 0; j < n; j++) area += spans[j].hi - spans[j].lo;
        }
        assert_true(area <= mean * 1.01 && area >= mean * 0.99);
    }
    ls_arena_destroy(arena);
}

/* Rank p: ceil(n/2) tokens from the front, in rank order; n/2 from the back, the ranks reversed. */
static void test_zigzag_runs(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    for (int64_t S = 1; S <= MOST_S; S++) {
        for (int P = 1; P <= S; P++) {
            const ls_layout layout = make(arena, LS_LAYOUT_ZIGZAG, S, P);
            int64_t front = 0, back = S;
            for (int p = 0; p < P; p++) {
                int32_t positions[MOST_S];
                ls_layout_positions(&layout, p, positions);
                int64_t n = ls_layout_count(&layout, p), half = n - n / 2;
                back -= n / 2;
                for (int64_t i = 0; i < half; i++) assert_int_equal(positions[i], front + i);
                for (int64_t i = half; i < n; i++) assert_int_equal(positions[i], back + i - half);
                front += half;
            }
            assert_int_equal(front, back);
        }
    }
    ls_arena_destroy(arena);
}

static void expect_positions(ls_layout_kind kind, int64_t S, int p, const int32_t *expected, int64_t n) {
    int32_t positions[MOST_S];
    ls_arena *arena = ls_arena_create();
    const ls_layout layout = make(arena, kind, S, 2);
    assert_int_equal(ls_layout_count(&layout, p), n);
    ls_layout_positions(&layout, p, positions);
    for (int64_t i = 0; i < n; i++) assert_int_equal(positions[i], expected[i]);
    ls_arena_destroy(arena);
}

static void test_known_layouts(void **state) {
    (void)state;
    expect_positions(LS_LAYOUT_CONTIGUOUS, 8, 1, (int32_t[]){4, 5, 6, 7}, 4);
    expect_positions(LS_LAYOUT_ZIGZAG, 8, 0, (int32_t[]){0, 1, 6, 7}, 4);
    expect_positions(LS_LAYOUT_ZIGZAG, 8, 1, (int32_t[]){2, 3, 4, 5}, 4);
    expect_positions(LS_LAYOUT_ZIGZAG, 7, 0, (int32_t[]){0, 1, 6}, 3);
    expect_positions(LS_LAYOUT_ZIGZAG, 7, 1, (int32_t[]){2, 3, 4, 5}, 4);
    expect_positions(LS_LAYOUT_STRIPED, 8, 1, (int32_t[]){1, 3, 5, 7}, 4);
    expect_positions(LS_LAYOUT_STRIPED, 7, 1, (int32_t[]){0, 2, 4, 6}, 4);
    expect_positions(LS_LAYOUT_STRIPED, 7, 0, (int32_t[]){1, 3, 5}, 3);
}

/* Pairs of a causal mask per rank: equal for zigzag when 2P divides S. */
static void test_zigzag_balances_causal(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    for (int P = 1; P <= 8; P++) {
        const ls_layout layout = make(arena, LS_LAYOUT_ZIGZAG, 4 * P, P);
        for (int p = 0; p < P; p++) {
            int32_t positions[4];
            ls_layout_positions(&layout, p, positions);
            int64_t pairs = 0;
            for (int i = 0; i < 4; i++) pairs += positions[i] + 1;
            assert_int_equal(pairs, 2 * (4 * P + 1));
        }
    }
    ls_arena_destroy(arena);
}

static void test_names(void **state) {
    (void)state;
    for (int kind = 0; kind < LS_LAYOUTS; kind++) {
        ls_layout_kind read = LS_LAYOUTS;
        assert_int_equal(ls_layout_parse(ls_layout_name((ls_layout_kind)kind), &read).code, LS_OK);
        assert_int_equal(read, kind);
    }
    ls_layout_kind untouched = LS_LAYOUT_STRIPED;
    ls_status status = ls_layout_parse("zigzagged", &untouched);
    assert_int_equal(status.code, LS_USAGE);
    for (int kind = 0; kind < LS_LAYOUTS; kind++)
        assert_non_null(strstr(status.text, ls_layout_name((ls_layout_kind)kind)));
    assert_int_equal(untouched, LS_LAYOUT_STRIPED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout_is_a_permutation),
        cmocka_unit_test(test_layouts_that_follow_masks),
        cmocka_unit_test(test_balanced_is_no_finer_than_needed),
        cmocka_unit_test(test_documents_are_balanced_inside),
        cmocka_unit_test(test_zigzag_runs),
        cmocka_unit_test(test_known_layouts),
        cmocka_unit_test(test_zigzag_balances_causal),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
