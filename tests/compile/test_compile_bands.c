/*
 * What calls of attention are told of their masks (compile/attention/band.c): for all layouts, many masks, any queries
 * and keys of the table of positions, it says of every pair what the mask's definition says. Which calls are told
 * something at all. What every strategy's calls are told is compared with their spans by support/attention_spread.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/attention/attention.h"
#include "support/masks.h"
#include "support/plain_attention.h"

enum { S = 61 };
enum { SPANS, POSITIONS, OTHER };

/* As much of a builder as is read: a mask with the queries of all tokens, in the order of the layout. */
typedef struct setting {
    ls_arena *arena;
    ls_job job;
    ls_image image;
    ls_mask_binding binding;
    ls_builder builder;
    int32_t position[S];
} setting;

static void set_up(setting *s, ls_layout_kind kind, int P, int members, const ls_mask *mask, int n_documents) {
    *s = (setting){.arena = ls_arena_create(), .job = {.n_documents = n_documents}};
    const ls_layout_mask weighed = {mask, 1};
    const ls_layout_need need = {.kind = kind, .S = S, .P = P, .members = members, .masks = &weighed, .n_masks = 1};
    const int64_t size_of_spans[] = {1, S, 2 * ls_mask_width(mask)}, tokens = S;
    s->binding = (ls_mask_binding){
        .mask = *mask, .query_count = S, .spans = ls_operand_dense(SPANS, 64, LS_I32, 3, size_of_spans)};
    s->image = (ls_image){.layout = ls_layout_make(&need, s->arena),
                          .masks = &s->binding,
                          .n_masks = 1,
                          .positions = ls_operand_dense(POSITIONS, 128, LS_I32, 1, &tokens)};
    s->builder = (ls_builder){.image = &s->image, .job = &s->job};
    for (int p = 0; p < P; p++)
        ls_layout_positions(&s->image.layout, p, s->position + ls_layout_start(&s->image.layout, p));
}

static ls_attention_band band_of(const setting *s, int64_t q, int64_t queries, int64_t k, int64_t keys) {
    const int64_t size_of_q[] = {1, queries, 1, 8}, size_of_k[] = {1, keys, 1, 8};
    const ls_attention_call call = {.q = ls_operand_dense(OTHER, 0, LS_F32, 4, size_of_q),
                                    .k = ls_operand_dense(OTHER, 0, LS_F32, 4, size_of_k),
                                    .spans = ls_operand_slice(s->binding.spans, 1, q, queries),
                                    .positions = ls_operand_slice(s->image.positions, 0, k, keys)};
    return ls_band_of(&s->builder, &call);
}

static void expect_right(const setting *s, int64_t q, int64_t queries, int64_t k, int64_t keys) {
    const ls_attention_band band = band_of(s, q, queries, k, keys);
    if (!band.known) return;
    assert_true(band.low >= 1 - queries && band.low <= keys && band.high < keys && band.high >= -queries);
    for (int64_t i = 0; i < queries; i++) {
        for (int64_t j = 0; j < keys; j++) {
            const bool told = band.low <= j - i && j - i <= band.high;
            if (told != plain_sees(&s->binding.mask, s->position[q + i], s->position[k + j]))
                fail_msg("layout %d, %d ranks: queries %lld + %lld, keys %lld + %lld: %lld to %lld is wrong of %lld, "
                         "%lld",
                         (int)s->image.layout.kind, s->image.layout.P, (long long)q, (long long)queries, (long long)k,
                         (long long)keys, (long long)band.low, (long long)band.high, (long long)i, (long long)j);
        }
    }
}

static void every_band_is_right(void **unused) {
    (void)unused;
    static const char *const masks[] = {
        "full",    "causal",          "window:7",          "window:7:3", "window:70",       "prefix:20",
        "first:5", "causal+window:9", "window:9+prefix:4", "documents",  "documents+causal"};
    static const int32_t ends[] = {0, 11, 40, S};
    static const int ranks[][2] = {{1, 1}, {2, 1}, {4, 2}, {5, 1}, {6, 3}};
    for (size_t m = 0; m < LS_COUNT(masks); m++) {
        const ls_mask mask = mask_of_terms(masks[m], ends, LS_COUNT(ends));
        for (int kind = 0; kind < LS_LAYOUTS; kind++) {
            for (size_t r = 0; r < LS_COUNT(ranks); r++) {
                setting s;
                set_up(&s, (ls_layout_kind)kind, ranks[r][0], ranks[r][1], &mask, 0);
                for (int64_t q = 0; q < S; q += 3)
                    for (int64_t queries = 1; q + queries <= S; queries += 5)
                        for (int64_t k = 0; k < S; k += 4)
                            for (int64_t keys = 1; k + keys <= S; keys += 6) expect_right(&s, q, queries, k, keys);
                ls_arena_destroy(s.arena);
            }
        }
    }
}

/* Of two blocks of ranks: my queries, another's keys. */
static ls_attention_band between(const setting *s, int queries, int keys) {
    const ls_layout *l = &s->image.layout;
    return band_of(s, ls_layout_start(l, queries), ls_layout_count(l, queries), ls_layout_start(l, keys),
                   ls_layout_count(l, keys));
}

static void expect(ls_attention_band band, int64_t low, int64_t high) {
    assert_true(band.known);
    assert_int_equal(band.low, low);
    assert_int_equal(band.high, high);
}

/* Blocks of 16, 15, 15 and 15 tokens, or of equal strides. */
static void what_is_told(void **unused) {
    (void)unused;
    const ls_mask causal = mask_of_terms("causal", NULL, 0), window = mask_of_terms("window:20:4", NULL, 0);
    setting s;
    set_up(&s, LS_LAYOUT_CONTIGUOUS, 4, 1, &causal, 0);
    const int64_t n = ls_layout_count(&s.image.layout, 2), before = ls_layout_count(&s.image.layout, 1);
    expect(between(&s, 2, 2), 1 - n, 0);
    expect(between(&s, 2, 1), 1 - n, before - 1);
    expect(between(&s, 1, 2), 1 - before, -before);
    expect(band_of(&s, 0, S, 0, S), 1 - S, 0);
    expect(band_of(&s, 30, 31, 0, S), -30, 30);
    ls_arena_destroy(s.arena);

    set_up(&s, LS_LAYOUT_STRIPED, 4, 1, &causal, 0);
    expect(between(&s, 2, 2), 1 - n, 0);
    expect(between(&s, 2, 1), 1 - n, 0);
    expect(between(&s, 1, 2), 1 - before, -1);
    ls_arena_destroy(s.arena);

    set_up(&s, LS_LAYOUT_CONTIGUOUS, 4, 1, &window, 0);
    expect(between(&s, 3, 3), 1 - ls_layout_count(&s.image.layout, 3), 0);
    expect(band_of(&s, 40, 21, 10, 51), 11, 30);
    expect(band_of(&s, 40, 21, 0, 4), -20, 3); /* the first tokens are seen by all */
    assert_false(band_of(&s, 40, 21, 0, 5).known);
    ls_arena_destroy(s.arena);

    set_up(&s, LS_LAYOUT_ZIGZAG, 4, 1, &causal, 0);
    const int64_t own = ls_layout_count(&s.image.layout, 1);
    assert_false(between(&s, 1, 1).known);
    expect(band_of(&s, ls_layout_start(&s.image.layout, 1), own, 0, 7), 1 - own, 6); /* what is in front of both runs */
    ls_arena_destroy(s.arena);
}

/* Spans that change while a program runs, or that are another table's, and calls of nothing. */
static void what_is_not_told(void **unused) {
    (void)unused;
    const ls_mask full = mask_of_terms("full", NULL, 0);
    setting s;
    set_up(&s, LS_LAYOUT_CONTIGUOUS, 2, 1, &full, 1);
    assert_false(band_of(&s, 0, S, 0, S).known);
    s.job.n_documents = 0;
    expect(band_of(&s, 0, S, 0, S), 1 - S, S - 1);
    assert_false(band_of(&s, 0, 0, 0, S).known);
    assert_false(band_of(&s, 0, S, 0, 0).known);
    s.binding.spans.buffer = POSITIONS;
    const ls_operand spans = ls_operand_dense(SPANS, 64, LS_I32, 3, s.binding.spans.view.size);
    const int64_t size[] = {1, S, 1, 8};
    const ls_operand x = ls_operand_dense(OTHER, 0, LS_F32, 4, size);
    const ls_attention_call call = {.q = x, .k = x, .v = x, .spans = spans, .positions = s.image.positions};
    assert_false(ls_band_of(&s.builder, &call).known);
    ls_arena_destroy(s.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_band_is_right), cmocka_unit_test(what_is_told),
                                       cmocka_unit_test(what_is_not_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
