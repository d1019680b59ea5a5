/* Masks: spans agree with the definitions in longspan/tensor.h for every pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "tensor/tensor.h"

enum { MOST_S = 24, MOST_ENDS = 12, CASES = 40000 };

/* The definitions, word by word. */
static bool same_document(const ls_mask_term *term, int64_t q, int64_t k) {
    for (int d = 0; d + 1 < term->n_ends; d++) {
        bool has_q = term->ends[d] <= q && q < term->ends[d + 1];
        bool has_k = term->ends[d] <= k && k < term->ends[d + 1];
        if (has_q && has_k) return true;
    }
    return false;
}

static bool term_sees(const ls_mask_term *term, int64_t q, int64_t k) {
    if (term->kind == LS_MASK_CAUSAL) return k <= q;
    if (term->kind == LS_MASK_PREFIX) return k <= q || k < term->first;
    if (term->kind == LS_MASK_DOCUMENTS) return same_document(term, q, k);
    return (q - term->window < k && k <= q) || (k < term->first && k <= q);
}

static bool sees(const ls_mask *mask, int64_t q, int64_t k) {
    for (int t = 0; t < mask->n; t++)
        if (!term_sees(&mask->term[t], q, k)) return false;
    return true;
}

typedef struct dice {
    uint64_t seed, drawn;
} dice;

static int64_t roll(dice *d, int64_t n) { return (int64_t)ls_rng_below(d->seed, 7, d->drawn++, (uint64_t)n); }

/* A random mask over S tokens: N and W from 0 or 1 to beyond S, documents with empty ones among them. */
static ls_mask random_mask(dice *d, int64_t S, int32_t ends[LS_MASK_TERMS][MOST_ENDS]) {
    ls_mask mask = {.n = (int)roll(d, LS_MASK_TERMS + 1)};
    for (int t = 0; t < mask.n; t++) {
        ls_mask_term *term = &mask.term[t];
        term->kind = (ls_mask_kind)roll(d, 4);
        term->window = 1 + roll(d, S + 3);
        term->first = roll(d, 2) ? roll(d, S + 4) : 0;
        if (term->kind != LS_MASK_DOCUMENTS) continue;
        term->ends = ends[t];
        term->n_ends = 2 + (int)roll(d, MOST_ENDS - 1);
        ends[t][0] = 0;
        for (int i = 1; i < term->n_ends; i++) {
            int32_t left = (int32_t)(S - ends[t][i - 1]);
            ends[t][i] = i + 1 == term->n_ends ? (int32_t)S : ends[t][i - 1] + (int32_t)roll(d, left / 2 + 1);
        }
    }
    return mask;
}

static void check_query(const ls_mask *mask, int64_t S, int64_t q, int *width) {
    ls_span spans[LS_MASK_SPANS];
    int n = ls_mask_spans(mask, S, q, spans);
    assert_true(n >= 0 && n <= LS_MASK_SPANS);
    for (int j = 0; j < n; j++) {
        assert_true(spans[j].lo >= 0 && spans[j].lo < spans[j].hi && spans[j].hi <= S);
        if (j > 0) assert_true(spans[j - 1].hi < spans[j].lo); /* disjoint, ascending, and not cut needlessly */
    }
    for (int64_t k = 0; k < S; k++) {
        bool listed = false;
        for (int j = 0; j < n; j++) listed |= spans[j].lo <= k && k < spans[j].hi;
        assert_int_equal(listed, sees(mask, q, k));
    }
    if (n > *width) *width = n;
}

static void check_table(const ls_mask *mask, int64_t S) {
    int32_t positions[MOST_S];
    ls_span table[MOST_S * LS_MASK_SPANS];
    for (int64_t i = 0; i < S; i++) positions[i] = (int32_t)(S - 1 - i);
    memset(table, 0x55, sizeof table);
    ls_mask_table(mask, S, positions, S, table);
    int width = ls_mask_width(mask);
    for (int64_t i = 0; i < S; i++) {
        ls_span spans[LS_MASK_SPANS];
        int n = ls_mask_spans(mask, S, positions[i], spans);
        for (int j = 0; j < width; j++) {
            assert_int_equal(table[i * width + j].lo, j < n ? spans[j].lo : 0);
            assert_int_equal(table[i * width + j].hi, j < n ? spans[j].hi : 0);
        }
    }
}

static void test_spans_are_the_definition(void **state) {
    (void)state;
    dice d = {.seed = 20261121};
    for (int c = 0; c < CASES; c++) {
        int32_t ends[LS_MASK_TERMS][MOST_ENDS];
        int64_t S = 1 + c % MOST_S, area = 0;
        ls_mask mask = random_mask(&d, S, ends);
        assert_int_equal(ls_mask_check(&mask, S).code, LS_OK);
        int width = 0;
        for (int64_t q = 0; q < S; q++) {
            check_query(&mask, S, q, &width);
            for (int64_t k = 0; k < S; k++) area += sees(&mask, q, k);
        }
        assert_int_equal(ls_mask_area(&mask, S), area);
        assert_true(width <= ls_mask_width(&mask));
        check_table(&mask, S);
    }
}

static ls_mask mask_of(const char *a, const char *b, const char *c) {
    ls_mask mask = {0};
    const char *terms[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        if (terms[i] != NULL) assert_int_equal(ls_mask_add_term(&mask, terms[i]).code, LS_OK);
    return mask;
}

/* For these masks the width is reached by some query of a sequence that is long enough, and never passed. */
static void test_width_is_tight(void **state) {
    (void)state;
    static const struct {
        const char *a, *b, *c;
        int width;
    } cases[] = {
        {"full", NULL, NULL, 1},
        {"causal", NULL, NULL, 1},
        {"window:4", NULL, NULL, 1},
        {"window:4:0", "causal", NULL, 1},
        {"prefix:3", "window:9", NULL, 1},
        {"window:4:2", NULL, NULL, 2},
        {"window:4:2", "prefix:9", "causal", 2},
        {"window:4:2", "window:4:2", NULL, 2}, /* the same twice */
        {"window:4:2", "window:9:5", NULL, 2}, /* the second adds nothing */
        {"window:9:2", "window:4:5", NULL, 3},
        {"window:9", "window:4:30", NULL, 2},
        {"window:9", "window:12:30", NULL, 1},
        {"window:40:2", "window:20:10", "window:3:25", 4},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_mask mask = mask_of(cases[i].a, cases[i].b, cases[i].c);
        int reached = 0;
        for (int64_t q = 0; q < 80; q++) {
            ls_span spans[LS_MASK_SPANS];
            int n = ls_mask_spans(&mask, 80, q, spans);
            if (n > reached) reached = n;
        }
        assert_int_equal(ls_mask_width(&mask), cases[i].width);
        assert_int_equal(reached, cases[i].width);
    }
    int32_t ends[] = {0, 5, 80};
    ls_mask documents = {.n = 1, .term = {{.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = 3}}};
    assert_int_equal(ls_mask_width(&documents), 1);
}

static void test_known_areas(void **state) {
    (void)state;
    ls_mask full = {0}, causal = ls_mask_causal(), window = mask_of("window:64:4", NULL, NULL);
    assert_int_equal(ls_mask_area(&full, 1000), 1000 * 1000);
    assert_int_equal(ls_mask_area(&causal, 1000), 1000 * 1001 / 2);
    /* 64 keys each, less what the first 63 lack, plus min(4, q-63) first tokens behind the window */
    assert_int_equal(ls_mask_area(&window, 1000), 64 * 1000 - 64 * 63 / 2 + (1 + 2 + 3 + 4 * (936 - 3)));
    assert_int_equal(ls_mask_area(&causal, 0), 0);
    /* Long ones are asked here and there. */
    const double S = 1 << 30;
    assert_float_equal((double)ls_mask_area(&causal, 1 << 30) / (S * (S + 1) / 2), 1, 1e-6);
    assert_float_equal((double)ls_mask_area(&window, 1 << 30) / (68 * S), 1, 1e-6);
}

static void test_text(void **state) {
    (void)state;
    char text[64];
    ls_mask mask = mask_of("full", NULL, NULL);
    assert_int_equal(mask.n, 0);
    ls_mask_print(&mask, text, sizeof text);
    assert_string_equal(text, "full");
    mask = mask_of("window:64:4", "prefix:10", "causal");
    ls_mask_print(&mask, text, sizeof text);
    assert_string_equal(text, "window:64:4+prefix:10+causal");
    char small[9];
    ls_mask_print(&mask, small, sizeof small);
    assert_string_equal(small, "window:6");
    mask = mask_of("window:8", NULL, NULL);
    int32_t ends[] = {0, 4, 8};
    mask.term[mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = 3};
    ls_mask_print(&mask, text, sizeof text);
    assert_string_equal(text, "window:8+documents");

    static const char *const wrong[] = {
        "",           "caus",      "causal ",   "window",      "window:",   "window:0",
        "window:x",   "window:4:", "window:-1", "window:4:-1", "window:4x", "prefix",
        "prefix:1:2", "documents", "prefix: 3", "fully",       "windows:4", "window:99999999999999999999"};
    for (size_t i = 0; i < LS_COUNT(wrong); i++) {
        ls_mask before = mask;
        ls_status status = ls_mask_add_term(&mask, wrong[i]);
        assert_int_equal(status.code, LS_USAGE);
        assert_non_null(strstr(status.text, wrong[i]));
        assert_int_equal(mask.n, before.n);
    }
    while (mask.n < LS_MASK_TERMS) assert_int_equal(ls_mask_add_term(&mask, "causal").code, LS_OK);
    assert_int_equal(ls_mask_add_term(&mask, "causal").code, LS_USAGE);
    assert_int_equal(mask.n, LS_MASK_TERMS);
}

static void test_check_names_the_entry(void **state) {
    (void)state;
    int32_t good[] = {0, 3, 3, 8}, start[] = {1, 8}, order[] = {0, 5, 4, 8}, last[] = {0, 5, 7};
    ls_mask mask = {.n = 1, .term = {{.kind = LS_MASK_DOCUMENTS, .ends = good, .n_ends = 4}}};
    assert_int_equal(ls_mask_check(&mask, 8).code, LS_OK);
    mask.term[0].n_ends = 1;
    assert_int_equal(ls_mask_check(&mask, 8).code, LS_INVALID);
    mask.term[0] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = start, .n_ends = 2};
    assert_non_null(strstr(ls_mask_check(&mask, 8).text, "0 is 1"));
    mask.term[0] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = order, .n_ends = 4};
    assert_non_null(strstr(ls_mask_check(&mask, 8).text, "2 is 4"));
    mask.term[0] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = last, .n_ends = 3};
    assert_non_null(strstr(ls_mask_check(&mask, 8).text, "S = 8"));
}

static void test_equal(void **state) {
    (void)state;
    ls_mask a = mask_of("causal", "window:4", NULL), b = mask_of("window:4", "causal", NULL);
    ls_mask c = mask_of("window:5", "causal", NULL), full = {0};
    assert_true(ls_mask_equal(&a, &b));
    assert_false(ls_mask_equal(&a, &c));
    assert_false(ls_mask_equal(&a, &full));
    assert_true(ls_mask_equal(&full, &full));
    int32_t one[] = {0, 4, 8}, two[] = {0, 4, 8}, three[] = {0, 5, 8};
    ls_mask x = {.n = 1, .term = {{.kind = LS_MASK_DOCUMENTS, .ends = one, .n_ends = 3}}}, y = x, z = x;
    y.term[0].ends = two;
    z.term[0].ends = three;
    assert_true(ls_mask_equal(&x, &y));
    assert_false(ls_mask_equal(&x, &z));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_are_the_definition),
        cmocka_unit_test(test_width_is_tight),
        cmocka_unit_test(test_known_areas),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_check_names_the_entry),
        cmocka_unit_test(test_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
