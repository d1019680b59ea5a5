/* Ranges: overlaps and copies agree with a map of bytes. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SPACE = 4096 };

static uint64_t draws;
static int64_t draw_below(int64_t n) { return (int64_t)ls_rng_below(11, 4, draws++, (uint64_t)n); }

/* Calls visit for the bytes of a range in the order of its definition. */
static void for_each_byte(const ls_range *r, void (*visit)(void *, int64_t), void *context) {
    for (int64_t i2 = 0; i2 < r->count[2]; i2++)
        for (int64_t i1 = 0; i1 < r->count[1]; i1++)
            for (int64_t i0 = 0; i0 < r->count[0]; i0++)
                for (size_t b = 0; b < r->length; b++)
                    visit(context,
                          (int64_t)(r->offset + b) + i0 * r->stride[0] + i1 * r->stride[1] + i2 * r->stride[2]);
}

typedef struct byte_map {
    bool covered[SPACE];
    bool twice, hit;
    int64_t end;
} byte_map;

static void mark(void *context, int64_t at) {
    byte_map *map = context;
    assert_true(at >= 0 && at < SPACE);
    map->twice |= map->covered[at];
    map->covered[at] = true;
    map->end = ls_max(map->end, at + 1);
}

static void probe(void *context, int64_t at) {
    byte_map *map = context;
    map->hit |= map->covered[at];
}

/* Strides need not nest, may be negative, and pieces may come out joined or interleaved. May be too wide for SPACE. */
static ls_range draw_any_range(int64_t *width) {
    ls_range r = ls_range_flat(0, (size_t)(1 + draw_below(6)));
    int64_t least = 0, most = (int64_t)r.length;
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        if (draw_below(3) == 0) continue;
        r.count[d] = 1 + draw_below(7);
        r.stride[d] = (draw_below(4) == 0 ? -1 : 1) * (1 + draw_below(90));
        if (draw_below(6) == 0) r.stride[d] = most - least; /* touching */
        const int64_t span = r.stride[d] * (r.count[d] - 1);
        least += ls_min(span, 0), most += ls_max(span, 0);
    }
    *width = most - least;
    r.offset = (size_t)(-least + draw_below(300));
    return r;
}

static ls_range draw_range(void) {
    int64_t width;
    ls_range r;
    do r = draw_any_range(&width);
    while (width + 300 > SPACE);
    return r;
}

static bool pieces_are_disjoint(const ls_range *r) {
    byte_map map = {.end = 0};
    for_each_byte(r, mark, &map);
    return !map.twice;
}

static ls_range draw_disjoint_range(void) {
    ls_range r;
    do r = draw_range();
    while (!pieces_are_disjoint(&r));
    return r;
}

static void test_overlap_is_exact(void **state) {
    (void)state;
    int yes = 0, no = 0;
    for (int trial = 0; trial < 20000; trial++) {
        const ls_range a = draw_range(), b = draw_range();
        byte_map map = {.end = 0};
        for_each_byte(&a, mark, &map);
        for_each_byte(&b, probe, &map);
        assert_int_equal(ls_range_overlap(&a, &b), map.hit);
        assert_int_equal(ls_range_overlap(&b, &a), map.hit);
        if (map.hit)
            yes++;
        else
            no++;
    }
    assert_true(yes > 2000 && no > 2000); /* both answers were asked for */
}

/* A range lies within an area if all its bytes do and it has no more bytes; a part of a piece is found, others are not.
 */
static void test_ranges_of_others(void **state) {
    (void)state;
    int within = 0, parts = 0;
    for (int trial = 0; trial < 20000; trial++) {
        const ls_range r = draw_disjoint_range();
        byte_map map = {.end = 0};
        for_each_byte(&r, mark, &map);
        const int64_t area = map.end - 20 + draw_below(40);
        assert_int_equal(ls_range_lies_within(&r, (size_t)area), area >= map.end);
        within += area >= map.end;
        const int64_t at = draw_below(map.end + 1), n = 1 + draw_below(4);
        bool inside = false;
        for (int64_t i2 = 0; i2 < r.count[2]; i2++)
            for (int64_t i1 = 0; i1 < r.count[1]; i1++)
                for (int64_t i0 = 0; i0 < r.count[0]; i0++) {
                    const int64_t piece = (int64_t)r.offset + i0 * r.stride[0] + i1 * r.stride[1] + i2 * r.stride[2];
                    inside |= at >= piece && at + n <= piece + (int64_t)r.length;
                }
        assert_int_equal(ls_range_has_piece(&r, (size_t)at, (size_t)n), inside);
        parts += inside;
    }
    assert_true(within > 5000 && within < 15000 && parts > 1000);
}

/* Numbers that overflow when they are added up or multiplied. */
static void test_hostile_ranges(void **state) {
    (void)state;
    const size_t area = 1 << 20;
    const size_t below = (size_t) - ((int64_t)1 << 30);
    const ls_range bad[] = {ls_range_flat(below, ((size_t)1 << 30) + 16),
                            ls_range_flat(area + 1, 0),
                            ls_range_flat(area - 4, SIZE_MAX - 2),
                            ls_range_flat(SIZE_MAX, SIZE_MAX),
                            {16, 16, {2, 1, 1}, {-17, 0, 0}},
                            {16, 16, {-1, -1, 1}, {16, 16, 0}},
                            {16, 16, {INT64_MAX, 1, 1}, {0, 0, 0}},
                            {16, 16, {INT64_MAX, 1, 1}, {INT64_MAX, 0, 0}},
                            {16, 16, {3, 3, 3}, {INT64_MIN / 2, INT64_MIN / 2, 0}},
                            {16, 16, {3, 3, 1}, {INT64_MAX / 2, INT64_MIN / 2, 0}},
                            {16, (size_t)1 << 18, {(int64_t)1 << 46, 1, 1}, {0, 0, 0}},
                            {0, (size_t)1 << 19, {2, 2, 1}, {1 << 19, 0, 0}}};
    for (size_t i = 0; i < LS_COUNT(bad); i++) assert_false(ls_range_lies_within(&bad[i], area));
    const ls_range good[] = {ls_range_flat(area, 0),
                             ls_range_flat(0, area),
                             {16, 16, {2, 1, 1}, {-16, 0, 0}},
                             {16, 16, {0, INT64_MAX, 1}, {INT64_MAX, INT64_MAX, 0}}};
    for (size_t i = 0; i < LS_COUNT(good); i++) assert_true(ls_range_lies_within(&good[i], area));
}

/* Two terms with large counts go through Euclid's algorithm; checked by trying all of one side. */
static void test_overlap_of_long_combs(void **state) {
    (void)state;
    int yes = 0;
    enum { TRIALS = 3000 };
    for (int trial = 0; trial < TRIALS; trial++) {
        ls_range a = ls_range_flat((size_t)draw_below(5000), (size_t)(1 + draw_below(3)));
        ls_range b = ls_range_flat((size_t)draw_below(5000), (size_t)(1 + draw_below(3)));
        a.count[0] = 1 + draw_below(200), a.stride[0] = 7 + draw_below(400);
        b.count[0] = 1 + draw_below(200), b.stride[0] = 7 + draw_below(400);
        bool hit = false;
        for (int64_t i = 0; i < a.count[0]; i++)
            for (int64_t j = 0; j < b.count[0]; j++) {
                const int64_t at_a = (int64_t)a.offset + i * a.stride[0], at_b = (int64_t)b.offset + j * b.stride[0];
                hit |= at_a < at_b + (int64_t)b.length && at_b < at_a + (int64_t)a.length;
            }
        assert_int_equal(ls_range_overlap(&a, &b), hit);
        yes += hit;
    }
    assert_true(yes > TRIALS / 10 && yes < TRIALS * 9 / 10);
}

/* Slices of a large tensor, as programs have them: heads and halves of [B, S, H, D]. */
static void test_overlap_of_slices(void **state) {
    (void)state;
    const int64_t D = 128, H = 32, S = 1 << 20, B = 8, head = 2 * D, row = H * head;
    const ls_range head3 = {(size_t)(3 * head), (size_t)head, {S, B, 1}, {row, S * row, 0}};
    const ls_range head4 = {(size_t)(4 * head), (size_t)head, {S, B, 1}, {row, S * row, 0}};
    const ls_range heads3to5 = {(size_t)(3 * head), (size_t)(3 * head), {S / 2, B, 1}, {row, S * row, 0}};
    const ls_range late = {(size_t)(S / 2 * row + 3 * head), (size_t)(2 * head), {S / 2, B, 1}, {row, S * row, 0}};
    const ls_range odd_rows = {(size_t)row, (size_t)row, {S / 2, B, 1}, {2 * row, S * row, 0}};
    const ls_range even_rows = {0, (size_t)row, {S / 2, B, 1}, {2 * row, S * row, 0}};
    assert_false(ls_range_overlap(&head3, &head4));
    assert_true(ls_range_overlap(&head3, &heads3to5));
    assert_true(ls_range_overlap(&head4, &heads3to5));
    assert_false(ls_range_overlap(&late, &heads3to5));
    assert_true(ls_range_overlap(&late, &head4));
    assert_false(ls_range_overlap(&odd_rows, &even_rows));
    assert_true(ls_range_overlap(&odd_rows, &head3));
    const ls_range nothing = ls_range_flat(100, 0), next = ls_range_flat(200, 10), before = ls_range_flat(190, 10);
    assert_false(ls_range_overlap(&nothing, &nothing));
    assert_false(ls_range_overlap(&next, &before));
    assert_true(ls_range_overlap(&next, &next));
}

static void test_bytes_and_end(void **state) {
    (void)state;
    for (int trial = 0; trial < 2000; trial++) {
        const ls_range r = draw_disjoint_range();
        byte_map map = {.end = 0};
        for_each_byte(&r, mark, &map);
        size_t bytes = 0;
        for (int i = 0; i < SPACE; i++) bytes += map.covered[i];
        assert_int_equal(ls_range_bytes(&r), bytes);
        assert_int_equal(ls_range_end(&r), map.end);
    }
    const ls_range empty = ls_range_flat(40, 0);
    assert_int_equal(ls_range_end(&empty), 40);
}

typedef struct byte_list {
    int64_t at[SPACE];
    int n;
} byte_list;

static void append(void *context, int64_t at) {
    byte_list *list = context;
    list->at[list->n++] = at;
}

/* The same number of bytes as r, cut in another way. */
static ls_range cut_differently(const ls_range *r) {
    const int64_t bytes = (int64_t)ls_range_bytes(r);
    int64_t divisors[64];
    int n = 0;
    for (int64_t d = 1; d <= bytes && n < 64; d++)
        if (bytes % d == 0) divisors[n++] = d;
    const int64_t length = divisors[draw_below(n)];
    ls_range cut = ls_range_flat((size_t)draw_below(50), (size_t)length);
    int64_t pieces = bytes / length;
    for (int64_t d = 2; d <= pieces; d++)
        if (pieces % d == 0) {
            cut.count[0] = d;
            break;
        }
    cut.count[1] = pieces / cut.count[0];
    cut.stride[0] = length + draw_below(2);
    cut.stride[1] = cut.count[0] * cut.stride[0] + draw_below(2);
    return cut;
}

static void test_copy_between_different_cuts(void **state) {
    (void)state;
    static unsigned char source[SPACE], target[2 * SPACE], expected[2 * SPACE];
    for (int i = 0; i < SPACE; i++) source[i] = (unsigned char)(1 + draw_below(255));
    for (int trial = 0; trial < 3000; trial++) {
        const ls_range from = draw_disjoint_range(), to = cut_differently(&from);
        byte_list read = {.n = 0}, written = {.n = 0};
        for_each_byte(&from, append, &read);
        for_each_byte(&to, append, &written);
        memset(target, 0, sizeof target);
        memset(expected, 0, sizeof expected);
        for (int i = 0; i < read.n; i++) expected[written.at[i]] = source[read.at[i]];
        ls_range_copy(target, &to, source, &from);
        assert_memory_equal(target, expected, sizeof target);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_of_others),
        cmocka_unit_test(test_hostile_ranges),
        cmocka_unit_test(test_overlap_is_exact),
        cmocka_unit_test(test_overlap_of_long_combs),
        cmocka_unit_test(test_overlap_of_slices),
        cmocka_unit_test(test_bytes_and_end),
        cmocka_unit_test(test_copy_between_different_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
