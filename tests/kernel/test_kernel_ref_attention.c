/* attention and its gradient of ref in f64 against a naive softmax over S x S: in blocks, at extremes, strided. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_call.h"

enum { MOST = 100, B = 2, H = 4, J = 2, D = 6, Q = B * MOST * H * D, KV = B * MOST * J * D, ROWS = B * H * MOST };

/* One attention problem over S tokens: q and do [B,S,H,D], k and v [B,S,J,D], group H/J. */
typedef struct problem {
    int64_t S;
    double scale;
    ls_mask mask;
    double q[Q], k[KV], v[KV], dO[Q];
} problem;

typedef struct result {
    double o[Q], lse[ROWS], delta[ROWS], dq[Q], dk[KV], dv[KV];
} result;

static problem *make_problem(int64_t S, ls_mask mask, double size) {
    problem *p = calloc(1, sizeof *p);
    p->S = S;
    p->scale = 1 / sqrt(D);
    p->mask = mask;
    fill_normal(p->q, Q, 1);
    fill_normal(p->k, KV, 2);
    fill_normal(p->v, KV, 3);
    fill_normal(p->dO, Q, 4);
    for (int64_t i = 0; i < Q; i++) p->q[i] *= size;
    return p;
}

static result *make_result(void) {
    result *r = malloc(sizeof *r);
    fill_nan(r->o, Q), fill_nan(r->lse, ROWS), fill_nan(r->delta, ROWS);
    fill_nan(r->dq, Q), fill_nan(r->dk, KV), fill_nan(r->dv, KV);
    return r;
}

static bool sees(const problem *p, int64_t q, int64_t k) {
    ls_span spans[LS_MASK_SPANS];
    int n = ls_mask_spans(&p->mask, p->S, q, spans);
    for (int j = 0; j < n; j++)
        if (spans[j].lo <= k && k < spans[j].hi) return true;
    return false;
}

/* The definition, query by query, with all of its logits in a row. */
static void naive_row(const problem *p, int64_t b, int64_t h, int64_t i, result *r) {
    const int64_t S = p->S, row = (b * H + h) * S + i, at = ((b * S + i) * H + h) * D, j = h / (H / J);
    double logit[MOST], most = -INFINITY, total = 0, delta = 0;
    for (int64_t t = 0; t < S; t++) {
        logit[t] = 0;
        for (int64_t d = 0; d < D; d++) logit[t] += p->q[at + d] * p->k[((b * S + t) * J + j) * D + d];
        logit[t] = sees(p, i, t) ? logit[t] * p->scale : -INFINITY;
        most = fmax(most, logit[t]);
    }
    for (int64_t d = 0; d < D; d++) r->o[at + d] = r->dq[at + d] = 0;
    r->lse[row] = -INFINITY;
    r->delta[row] = 0;
    if (most == -INFINITY) return;
    for (int64_t t = 0; t < S; t++) total += exp(logit[t] - most);
    r->lse[row] = most + log(total);
    for (int64_t t = 0; t < S; t++)
        for (int64_t d = 0; d < D; d++)
            r->o[at + d] += exp(logit[t] - most) / total * p->v[((b * S + t) * J + j) * D + d];
    for (int64_t d = 0; d < D; d++) delta += r->o[at + d] * p->dO[at + d];
    r->delta[row] = delta;
    for (int64_t t = 0; t < S; t++) {
        const int64_t key = ((b * S + t) * J + j) * D;
        const double P = exp(logit[t] - most) / total;
        double dP = 0;
        for (int64_t d = 0; d < D; d++) dP += p->dO[at + d] * p->v[key + d];
        const double dS = P * (dP - delta) * p->scale;
        for (int64_t d = 0; d < D; d++) {
            r->dq[at + d] += dS * p->k[key + d];
            r->dk[key + d] += dS * p->q[at + d];
            r->dv[key + d] += P * p->dO[at + d];
        }
    }
}

static result *naive(const problem *p) {
    result *r = make_result();
    memset(r->dk, 0, sizeof r->dk);
    memset(r->dv, 0, sizeof r->dv);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < p->S; i++) naive_row(p, b, h, i, r);
    return r;
}

/* The kernels over keys [first, first+count), all queries; o and lse merged, gradients accumulated, when not
 * the first. */
typedef struct block {
    int64_t first, count;
    bool more;
} block;

static int32_t *spans_of(const problem *p, int *width) {
    int32_t positions[MOST];
    *width = ls_mask_width(&p->mask);
    ls_span *spans = malloc(sizeof *spans * (size_t)(B * p->S * *width));
    for (int64_t i = 0; i < p->S; i++) positions[i] = (int32_t)i;
    for (int64_t b = 0; b < B; b++) ls_mask_table(&p->mask, p->S, positions, p->S, spans + b * p->S * *width);
    return (int32_t *)spans;
}

static void forward_block(problem *p, block at, int32_t *spans, int width, result *r) {
    const int64_t S = p->S;
    int32_t kpos[MOST];
    for (int64_t t = 0; t < at.count; t++) kpos[t] = (int32_t)(at.first + t);
    const ls_attention_params params = {.scale = p->scale, .group = H / J, .merge = at.more};
    ls_view k = ls_view_slice(VIEW(p->k, LS_F64, B, S, J, D), 1, at.first, at.count);
    ls_view v = ls_view_slice(VIEW(p->v, LS_F64, B, S, J, D), 1, at.first, at.count);
    run_kernel("attention", LS_F64, LS_ISA_REF, 2,
               (ls_kernel_call){.n_in = 5,
                                .n_out = 2,
                                .in = {VIEW(p->q, LS_F64, B, S, H, D), k, v, VIEW(spans, LS_I32, B, S, 2 * width),
                                       VIEW(kpos, LS_I32, at.count)},
                                .out = {VIEW(r->o, LS_F64, B, S, H, D), VIEW(r->lse, LS_F64, B, H, S)},
                                .params = &params});
}

/* The gradient over a block of keys: dk and dv of the block are made apart (dense) and put in place. */
static void backward_block(problem *p, block at, int32_t *spans, int width, result *r) {
    const int64_t S = p->S, count = at.count;
    int32_t kpos[MOST];
    for (int64_t t = 0; t < count; t++) kpos[t] = (int32_t)(at.first + t);
    double *dk = malloc(sizeof r->dk), *dv = malloc(sizeof r->dv);
    fill_nan(dk, KV), fill_nan(dv, KV);
    const ls_attention_params params = {.scale = p->scale, .group = H / J, .accumulate_dq = at.more};
    ls_view k = ls_view_slice(VIEW(p->k, LS_F64, B, S, J, D), 1, at.first, count);
    ls_view v = ls_view_slice(VIEW(p->v, LS_F64, B, S, J, D), 1, at.first, count);
    run_kernel("attention_grad", LS_F64, LS_ISA_REF, 2,
               (ls_kernel_call){.n_in = 8,
                                .n_out = 3,
                                .in = {VIEW(p->q, LS_F64, B, S, H, D), k, v, VIEW(spans, LS_I32, B, S, 2 * width),
                                       VIEW(kpos, LS_I32, count), VIEW(p->dO, LS_F64, B, S, H, D),
                                       VIEW(r->lse, LS_F64, B, H, S), VIEW(r->delta, LS_F64, B, H, S)},
                                .out = {VIEW(r->dq, LS_F64, B, S, H, D), VIEW(dk, LS_F64, B, count, J, D),
                                        VIEW(dv, LS_F64, B, count, J, D)},
                                .params = &params});
    for (int64_t b = 0; b < B; b++) {
        memcpy(r->dk + (b * S + at.first) * J * D, dk + b * count * J * D, sizeof(double) * (size_t)(count * J * D));
        memcpy(r->dv + (b * S + at.first) * J * D, dv + b * count * J * D, sizeof(double) * (size_t)(count * J * D));
    }
    free(dk), free(dv);
}

static result *by_kernels(problem *p, int blocks) {
    const int64_t S = p->S;
    int width;
    int32_t *spans = spans_of(p, &width);
    result *r = make_result();
    for (int i = 0; i < blocks; i++) {
        const int64_t first = ls_part_start(S, blocks, i);
        forward_block(p, (block){first, ls_part_start(S, blocks, i + 1) - first, i > 0}, spans, width, r);
    }
    run_kernel("attention_delta", LS_F64, LS_ISA_REF, 1,
               (ls_kernel_call){.n_in = 2,
                                .n_out = 1,
                                .in = {VIEW(r->o, LS_F64, B, S, H, D), VIEW(p->dO, LS_F64, B, S, H, D)},
                                .out = {VIEW(r->delta, LS_F64, B, H, S)}});
    for (int i = 0; i < blocks; i++) {
        const int64_t first = ls_part_start(S, blocks, i);
        backward_block(p, (block){first, ls_part_start(S, blocks, i + 1) - first, i > 0}, spans, width, r);
    }
    free(spans);
    return r;
}

/*
 * The largest difference, relative to the largest expected value or to `unit`, whichever is more: a gradient
 * may cancel to nothing, as with one visible key, and has no digits of its own then.
 */
static void check_close(const char *what, const double *is, const double *expected, int64_t n, double unit,
                        double tolerance) {
    double error = 0;
    for (int64_t i = 0; i < n; i++) {
        assert_false(isnan(is[i]));
        unit = fmax(unit, fabs(expected[i]));
        error = fmax(error, fabs(is[i] - expected[i]));
    }
    if (!(error <= tolerance * unit)) printf("%s: relative error %g, allowed %g\n", what, error / unit, tolerance);
    assert_true(error <= tolerance * unit);
}

/* lse may be -inf, and must then be -inf in both. */
static void check_lse(const double *is, const double *expected, int64_t n, double tolerance) {
    for (int64_t i = 0; i < n; i++) {
        if (expected[i] == -INFINITY)
            assert_true(is[i] == -INFINITY);
        else
            assert_true(fabs(is[i] - expected[i]) <= tolerance * fmax(1, fabs(expected[i])));
    }
}

/* size: that of the queries, which dk is proportional to. */
static void check_result(const result *is, const result *expected, int64_t S, double size, double tolerance) {
    check_lse(is->lse, expected->lse, B * H * S, tolerance);
    check_close("o", is->o, expected->o, B * S * H * D, 1, tolerance);
    check_close("delta", is->delta, expected->delta, B * H * S, 1, tolerance);
    check_close("dq", is->dq, expected->dq, B * S * H * D, 1, tolerance);
    check_close("dk", is->dk, expected->dk, B * S * J * D, size, tolerance);
    check_close("dv", is->dv, expected->dv, B * S * J * D, 1, tolerance);
}

/* S = 1, inside one tile, across tiles; every kind of mask, and rows that see nothing. */
static void for_every_mask(double size, double tolerance, int blocks) {
    static const int64_t lengths[] = {1, 7, 33, 100};
    for (size_t s = 0; s < LS_COUNT(lengths); s++) {
        const int64_t S = lengths[s];
        if (S < blocks) continue;
        const int32_t third = (int32_t)(S / 3), ends[] = {0, third, third, third + (S > 1), (int32_t)S};
        const ls_mask_term causal = {.kind = LS_MASK_CAUSAL}, window = {.kind = LS_MASK_WINDOW, .window = 5};
        const ls_mask_term sinks = {.kind = LS_MASK_WINDOW, .window = 9, .first = 3};
        const ls_mask_term prefix = {.kind = LS_MASK_PREFIX, .first = S / 2};
        const ls_mask_term documents = {.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = 5};
        const ls_mask masks[] = {{0},
                                 {1, {causal}},
                                 {1, {window}},
                                 {1, {sinks}},
                                 {1, {prefix}},
                                 {1, {documents}},
                                 {2, {causal, documents}},
                                 {3, {sinks, documents, prefix}}};
        for (size_t m = 0; m < LS_COUNT(masks); m++) {
            problem *p = make_problem(S, masks[m], size);
            result *expected = naive(p), *is = by_kernels(p, blocks);
            check_result(is, expected, S, size, tolerance);
            free(p), free(expected), free(is);
        }
    }
}

static void test_naive(void **state) {
    (void)state;
    for_every_mask(1, 2e-14, 1);
}

static void test_extreme_logits(void **state) {
    (void)state;
    for_every_mask(1e3, 1e-11, 1); /* logits beyond 1e3 cost exp three digits */
    for_every_mask(1e3, 1e-11, 3);
}

static void test_blocks_equal_the_whole(void **state) {
    (void)state;
    for (int blocks = 2; blocks <= 5; blocks++) for_every_mask(1, 1e-13, blocks);
}

/* Spans that are empty for some queries: output 0, lse -inf, gradients 0, merged or not. */
static void test_rows_that_see_nothing(void **state) {
    (void)state;
    problem *p = make_problem(40, (ls_mask){0}, 1);
    int width;
    int32_t *spans = spans_of(p, &width);
    for (int64_t row = 0; row < B * 40; row++)
        if (row % 3 == 0) spans[2 * row + 1] = 0;
    for (int merged = 0; merged < 2; merged++) {
        result *r = make_result();
        forward_block(p, (block){0, 20, false}, spans, width, r);
        if (merged) forward_block(p, (block){20, 20, true}, spans, width, r);
        memset(r->delta, 0, sizeof r->delta);
        backward_block(p, (block){0, 40, false}, spans, width, r);
        for (int64_t row = 0; row < B * 40; row++) {
            for (int64_t h = 0; h < H; h++) {
                const double lse = r->lse[(row / 40 * H + h) * 40 + row % 40];
                assert_int_equal(lse == -INFINITY, row % 3 == 0);
                for (int64_t d = 0; d < D; d++) {
                    assert_int_equal(r->o[(row * H + h) * D + d] == 0, row % 3 == 0);
                    assert_int_equal(r->dq[(row * H + h) * D + d] == 0, row % 3 == 0);
                }
            }
        }
        free(r);
    }
    free(spans), free(p);
}

/* Merging blocks whose log-sum-exps are 2000 apart, and a block that shows nothing first, in the middle,
 * last. */
static void test_merge_of_extremes(void **state) {
    (void)state;
    const double levels[] = {-1e3, 1e3, 0, 999};
    for (int hidden = -1; hidden < 4; hidden++) {
        double q[1] = {1}, k[4], v[4], o[1] = {NAN}, lse[1] = {NAN}, most = -INFINITY, total = 0, expected = 0;
        int32_t spans[2] = {0, 4};
        for (int t = 0; t < 4; t++) {
            k[t] = levels[t];
            v[t] = t + 1;
            if (t != hidden) most = fmax(most, levels[t]);
        }
        for (int t = 0; t < 4; t++) {
            if (t != hidden) total += exp(levels[t] - most);
            if (t != hidden) expected += exp(levels[t] - most) * v[t];
        }
        for (int t = 0; t < 4; t++) {
            int32_t kpos[1] = {t == hidden ? 9 : t};
            const ls_attention_params params = {.scale = 1, .group = 1, .merge = t > 0};
            run_kernel("attention", LS_F64, LS_ISA_REF, 1,
                       (ls_kernel_call){.n_in = 5,
                                        .n_out = 2,
                                        .in = {VIEW(q, LS_F64, 1, 1, 1, 1), VIEW(k + t, LS_F64, 1, 1, 1, 1),
                                               VIEW(v + t, LS_F64, 1, 1, 1, 1), VIEW(spans, LS_I32, 1, 1, 2),
                                               VIEW(kpos, LS_I32, 1)},
                                        .out = {VIEW(o, LS_F64, 1, 1, 1, 1), VIEW(lse, LS_F64, 1, 1, 1)},
                                        .params = &params});
        }
        assert_true(fabs(lse[0] - (most + log(total))) < 1e-12);
        assert_true(fabs(o[0] - expected / total) < 1e-12);
    }
}

/* Two query heads and their KV head of a wider tensor: first_q and first_kv, strided q, k, v and o. */
static void test_strided_heads(void **state) {
    (void)state;
    const int64_t S = 50;
    problem *p = make_problem(S, ls_mask_causal(), 1);
    int width;
    int32_t *spans = spans_of(p, &width), kpos[MOST];
    for (int64_t t = 0; t < S; t++) kpos[t] = (int32_t)t;
    result *whole = by_kernels(p, 1), *r = make_result();
    const int64_t h = 2, j = h / (H / J);
    const ls_attention_params params = {.scale = p->scale, .group = H / J, .first_q = (int)h, .first_kv = (int)j};
    run_kernel(
        "attention", LS_F64, LS_ISA_REF, 1,
        (ls_kernel_call){.n_in = 5,
                         .n_out = 2,
                         .in = {ls_view_slice(VIEW(p->q, LS_F64, B, S, H, D), 2, h, 2),
                                ls_view_slice(VIEW(p->k, LS_F64, B, S, J, D), 2, j, 1),
                                ls_view_slice(VIEW(p->v, LS_F64, B, S, J, D), 2, j, 1),
                                VIEW(spans, LS_I32, B, S, 2 * width), VIEW(kpos, LS_I32, S)},
                         .out = {ls_view_slice(VIEW(r->o, LS_F64, B, S, H, D), 2, h, 2), VIEW(r->lse, LS_F64, B, 2, S)},
                         .params = &params});
    for (int64_t i = 0; i < B * S * H * D; i++) {
        const int64_t head = i / D % H;
        if (head < h)
            assert_true(isnan(r->o[i])); /* not its own: untouched */
        else
            assert_true(r->o[i] == whole->o[i]);
    }
    for (int64_t b = 0; b < B; b++)
        for (int64_t i = 0; i < 2 * S; i++) assert_true(r->lse[b * 2 * S + i] == whole->lse[(b * H + h) * S + i]);
    free(whole), free(r), free(spans), free(p);
}

/* What the mask hides is not read into the result: NaN keys and values behind it change nothing. */
static void test_hidden_keys_may_be_poisoned(void **state) {
    (void)state;
    const int64_t S = 70;
    problem *p = make_problem(S, ls_mask_causal(), 1);
    result *clean = by_kernels(p, 1), *r = make_result();
    int width;
    int32_t *spans = spans_of(p, &width);
    for (int64_t row = 0; row < B * S; row++) spans[2 * row + 1] = (int32_t)ls_min(spans[2 * row + 1], 40);
    forward_block(p, (block){0, S, false}, spans, width, clean);
    for (int64_t b = 0; b < B; b++) {
        fill_nan(p->k + (b * S + 40) * J * D, 30 * J * D);
        fill_nan(p->v + (b * S + 40) * J * D, 30 * J * D);
    }
    forward_block(p, (block){0, S, false}, spans, width, r);
    memcpy(r->delta, clean->delta, sizeof r->delta);
    backward_block(p, (block){0, S, false}, spans, width, r);
    check_close("o", r->o, clean->o, B * S * H * D, 1, 0);
    for (int64_t i = 0; i < B * S * H * D; i++) assert_false(isnan(r->dq[i]));
    for (int64_t i = 0; i < B * S * J * D; i++) assert_false(isnan(r->dk[i]) || isnan(r->dv[i]));
    free(clean), free(r), free(spans), free(p);
}

/* The gradient of sum(o * do) by central differences. */
static void check_difference(problem *p, double *x, int64_t n, const double *grad) {
    for (int64_t i = 0; i < n; i += 5) {
        double loss[2] = {0, 0};
        const double at = x[i], h = 1e-5;
        for (int side = 0; side < 2; side++) {
            x[i] = side ? at - h : at + h;
            result *r = by_kernels(p, 1);
            for (int64_t j = 0; j < B * p->S * H * D; j++) loss[side] += r->o[j] * p->dO[j];
            free(r);
        }
        x[i] = at;
        assert_true(fabs((loss[0] - loss[1]) / (2 * h) - grad[i]) < 1e-6 * fmax(1, fabs(grad[i])));
    }
}

static void test_finite_differences(void **state) {
    (void)state;
    problem *p = make_problem(7, ls_mask_causal(), 1);
    result *r = by_kernels(p, 1);
    check_difference(p, p->q, B * 7 * H * D, r->dq);
    check_difference(p, p->k, B * 7 * J * D, r->dk);
    check_difference(p, p->v, B * 7 * J * D, r->dv);
    free(p), free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naive),
        cmocka_unit_test(test_extreme_logits),
        cmocka_unit_test(test_blocks_equal_the_whole),
        cmocka_unit_test(test_rows_that_see_nothing),
        cmocka_unit_test(test_merge_of_extremes),
        cmocka_unit_test(test_strided_heads),
        cmocka_unit_test(test_hidden_keys_may_be_poisoned),
        cmocka_unit_test(test_finite_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
