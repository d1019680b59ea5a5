/*
 * attention and attention_grad: every variant that this processor runs, and the reference in f32, against a plain
 * f64 computation (support/attention_oracle.h).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/attention_check.h"
#include "support/kernel_call.h"

/* By name, not through the registry: the pair variants are not in it where they would be slow. */
#define VARIANT(isa, element) \
    extern const ls_kernel ls_cpu_##isa##_##element##_attention, ls_cpu_##isa##_##element##_attention_grad
VARIANT(base, f32);
VARIANT(base, bf16);
#ifdef __x86_64__
VARIANT(avx2, f32);
VARIANT(avx2, bf16);
VARIANT(avx512, f32);
VARIANT(avx512, bf16);
VARIANT(avx512bf16, f32);
VARIANT(avx512bf16, bf16);
VARIANT(amx, bf16);
extern const ls_kernel ls_cpu_avx512bf16_bf16_attention_pairs, ls_cpu_avx512bf16_bf16_attention_grad_pairs;
#endif

extern const ls_kernel ls_ref_f32_attention, ls_ref_f32_attention_grad;

static const attention_variant variants[] = {
    {&ls_ref_f32_attention, &ls_ref_f32_attention_grad, "ref", 3},
    {&ls_cpu_base_f32_attention, &ls_cpu_base_f32_attention_grad, "base", 3},
    {&ls_cpu_base_bf16_attention, &ls_cpu_base_bf16_attention_grad, "base", 3},
#ifdef __x86_64__
    {&ls_cpu_avx2_f32_attention, &ls_cpu_avx2_f32_attention_grad, "avx2", 3},
    {&ls_cpu_avx2_bf16_attention, &ls_cpu_avx2_bf16_attention_grad, "avx2", 3},
    {&ls_cpu_avx512_f32_attention, &ls_cpu_avx512_f32_attention_grad, "avx512", 3},
    {&ls_cpu_avx512_bf16_attention, &ls_cpu_avx512_bf16_attention_grad, "avx512", 3},
    {&ls_cpu_avx512bf16_f32_attention, &ls_cpu_avx512bf16_f32_attention_grad, "avx512bf16", 3},
    {&ls_cpu_avx512bf16_bf16_attention, &ls_cpu_avx512bf16_bf16_attention_grad, "avx512bf16", 3},
    {&ls_cpu_avx512bf16_bf16_attention_pairs, &ls_cpu_avx512bf16_bf16_attention_grad_pairs, "avx512bf16 pairs", 3},
    {&ls_cpu_amx_bf16_attention, &ls_cpu_amx_bf16_attention_grad, "amx", 3},
#endif
};

static const test_case cases[] = {
    {.B = 1, .D = 64, .Hq = 4, .Hkv = 2, .group = 2, .S = 517, .P = 1, .mask = "causal", .threads = 2},
    {.B = 2,
     .D = 64,
     .Hq = 3,
     .Hkv = 1,
     .group = 3,
     .S = 611,
     .P = 2,
     .rank = 1,
     .layout = LS_LAYOUT_ZIGZAG,
     .mask = "causal",
     .threads = 3},
    {.B = 1,
     .D = 128,
     .Hq = 2,
     .Hkv = 2,
     .group = 1,
     .S = 400,
     .P = 3,
     .rank = 2,
     .layout = LS_LAYOUT_STRIPED,
     .mask = "causal",
     .threads = 1},
    {.B = 1,
     .D = 8,
     .Hq = 2,
     .Hkv = 1,
     .group = 2,
     .S = 389,
     .P = 3,
     .rank = 0,
     .layout = LS_LAYOUT_CONTIGUOUS,
     .mask = "causal",
     .threads = 2},
    {.B = 2, .D = 16, .Hq = 2, .Hkv = 1, .group = 2, .S = 301, .P = 1, .mask = "full", .threads = 3},
    {.B = 1,
     .D = 40,
     .Hq = 8,
     .Hkv = 1,
     .group = 8,
     .S = 413,
     .P = 2,
     .rank = 1,
     .layout = LS_LAYOUT_ZIGZAG,
     .mask = "window:50:7",
     .threads = 2},
    {.B = 1,
     .D = 80,
     .Hq = 2,
     .Hkv = 1,
     .group = 2,
     .S = 530,
     .P = 2,
     .rank = 0,
     .layout = LS_LAYOUT_STRIPED,
     .mask = "window:130",
     .threads = 3},
    {.B = 1, .D = 256, .Hq = 2, .Hkv = 1, .group = 2, .S = 257, .P = 1, .mask = "prefix:100", .threads = 2},
    {.B = 2,
     .D = 33,
     .Hq = 2,
     .Hkv = 2,
     .group = 1,
     .S = 450,
     .P = 2,
     .rank = 1,
     .layout = LS_LAYOUT_ZIGZAG,
     .mask = "causal+documents",
     .threads = 2},
    {.B = 1, .D = 64, .Hq = 2, .Hkv = 1, .group = 2, .S = 450, .P = 1, .mask = "window:60:5+documents", .threads = 1},
    {.B = 1, .D = 1, .Hq = 1, .Hkv = 1, .group = 1, .S = 200, .P = 1, .mask = "causal", .threads = 2},
    {.B = 1, .D = 64, .Hq = 1, .Hkv = 1, .group = 1, .S = 1, .P = 1, .mask = "causal", .threads = 3},
    {.B = 3, .D = 24, .Hq = 3, .Hkv = 2, .group = 3, .first_q = 2, .S = 97, .P = 1, .mask = "causal", .threads = 2},
    {.B = 1,
     .D = 16,
     .Hq = 2,
     .Hkv = 1,
     .group = 4,
     .first_q = 6,
     .first_kv = 1,
     .S = 70,
     .P = 1,
     .mask = "full",
     .threads = 1},
    {.B = 1,
     .D = 64,
     .Hq = 2,
     .Hkv = 1,
     .group = 2,
     .S = 300,
     .P = 2,
     .rank = 1,
     .layout = LS_LAYOUT_ZIGZAG,
     .mask = "causal",
     .threads = 2,
     .scale = 1,
     .spread = 11,
     .f32_limit = 1e-3},
    {.B = 1,
     .D = 32,
     .Hq = 1,
     .Hkv = 1,
     .group = 1,
     .S = 200,
     .P = 2,
     .rank = 0,
     .mask = "full",
     .threads = 2,
     .scale = -0.3},
    {.B = 2,
     .D = 64,
     .Hq = 3,
     .Hkv = 1,
     .group = 3,
     .S = 411,
     .P = 2,
     .rank = 1,
     .layout = LS_LAYOUT_ZIGZAG,
     .mask = "window:150",
     .threads = 2,
     .softcap = 1.5},
    {.B = 1,
     .D = 40,
     .Hq = 2,
     .Hkv = 2,
     .group = 1,
     .S = 300,
     .P = 1,
     .mask = "full",
     .threads = 2,
     .scale = -0.5,
     .spread = 3,
     .softcap = 50},
    /* More keys than the widest tile has; the second tile is ragged, and windows leave out whole parts of both. */
    {.B = 1, .D = 32, .Hq = 2, .Hkv = 1, .group = 2, .S = 850, .P = 1, .mask = "causal", .threads = 3},
    {.B = 1, .D = 64, .Hq = 1, .Hkv = 1, .group = 1, .S = 850, .P = 1, .mask = "window:100:5+documents", .threads = 1},
    /* Values of other sizes than keys. */
    {.B = 1, .D = 192, .E = 128, .Hq = 4, .Hkv = 2, .group = 2, .S = 517, .P = 1, .mask = "causal", .threads = 2},
    {.B = 1,
     .D = 64,
     .E = 128,
     .Hq = 2,
     .Hkv = 1,
     .group = 2,
     .S = 611,
     .P = 2,
     .rank = 1,
     .layout = LS_LAYOUT_ZIGZAG,
     .mask = "window:130",
     .threads = 3},
    {.B = 2, .D = 8, .E = 5, .Hq = 3, .Hkv = 1, .group = 3, .S = 301, .P = 1, .mask = "full", .threads = 2},
    {.B = 2,
     .D = 33,
     .E = 80,
     .Hq = 2,
     .Hkv = 2,
     .group = 1,
     .S = 450,
     .P = 1,
     .mask = "causal+documents",
     .threads = 2},
    {.B = 1,
     .D = 64,
     .E = 24,
     .Hq = 2,
     .Hkv = 1,
     .group = 2,
     .S = 850,
     .P = 1,
     .mask = "causal",
     .threads = 1,
     .softcap = 1.5},
    {.B = 1,
     .D = 16,
     .E = 256,
     .Hq = 2,
     .Hkv = 1,
     .group = 2,
     .S = 200,
     .P = 1,
     .mask = "causal",
     .threads = 1,
     .spread = 11,
     .scale = 1,
     .f32_limit = 1e-3},
};

/*
 * Few enough queries to go the way of attention_few.h: every number of rows that are taken at a time, masks, gaps,
 * merges, stretches. B, D, Hq, Hkv, group, first_q, first_kv, S, P, rank, queries, layout, mask, threads, scale,
 * softcap, spread, f32_limit, E (0: D).
 */
static const test_case few[] = {
    {1, 64, 4, 2, 2, 0, 0, 517, 1, 0, 1, LS_LAYOUT_CONTIGUOUS, "causal", 2, 0, 0, 0, 0, 0},
    {1, 64, 12, 4, 3, 0, 0, 1500, 2, 1, 1, LS_LAYOUT_ZIGZAG, "causal", 3, 0, 0, 0, 0, 0},
    {1, 128, 7, 1, 7, 0, 0, 700, 1, 0, 2, LS_LAYOUT_CONTIGUOUS, "window:150:5", 2, 0, 0, 0, 0, 0},
    {1, 40, 16, 2, 8, 0, 0, 800, 3, 2, 1, LS_LAYOUT_STRIPED, "causal", 2, 0, 1.5, 0, 0, 0},
    {2, 33, 2, 2, 1, 0, 0, 450, 2, 1, 3, LS_LAYOUT_ZIGZAG, "causal+documents", 2, 0, 0, 0, 0, 0},
    {3, 80, 3, 2, 3, 2, 0, 610, 1, 0, 4, LS_LAYOUT_CONTIGUOUS, "causal", 1, 0, 0, 0, 0, 0},
    {1, 16, 2, 1, 4, 6, 1, 300, 1, 0, 1, LS_LAYOUT_CONTIGUOUS, "full", 1, 0, 0, 0, 0, 0},
    {1, 256, 2, 1, 2, 0, 0, 257, 2, 0, 1, LS_LAYOUT_CONTIGUOUS, "full", 2, -0.05, 0, 0, 0, 0},
    {1, 64, 2, 1, 2, 0, 0, 900, 2, 1, 5, LS_LAYOUT_ZIGZAG, "causal", 2, 0, 0, 2.5, 1e-4, 0},
    {1, 24, 1, 1, 1, 0, 0, 17001, 1, 0, 1, LS_LAYOUT_CONTIGUOUS, "causal", 3, 0, 0, 0, 0, 0},
    {1, 8, 1, 1, 1, 0, 0, 2000, 4, 0, 16, LS_LAYOUT_CONTIGUOUS, "causal", 2, 0, 0, 0, 0, 0},
    {1, 1, 3, 1, 3, 0, 0, 300, 1, 0, 1, LS_LAYOUT_CONTIGUOUS, "window:70", 2, 0, 0, 0, 0, 0},
    {.B = 1,
     .D = 192,
     .E = 128,
     .Hq = 8,
     .Hkv = 8,
     .group = 1,
     .S = 700,
     .P = 1,
     .queries = 1,
     .mask = "causal",
     .threads = 2},
    {.B = 2,
     .D = 24,
     .E = 100,
     .Hq = 6,
     .Hkv = 2,
     .group = 3,
     .S = 500,
     .P = 2,
     .rank = 1,
     .queries = 2,
     .mask = "causal",
     .threads = 3},
    {.B = 1,
     .D = 80,
     .E = 1,
     .Hq = 4,
     .Hkv = 1,
     .group = 4,
     .S = 300,
     .P = 1,
     .queries = 1,
     .mask = "full",
     .threads = 1},
};

static void for_each_variant(const test_case *c) {
    for (ls_dtype T = LS_F32; T < LS_DTYPES; T++) {
        if (T != LS_F32 && T != LS_BF16) continue;
        problem p = problem_make(c, T);
        for (size_t v = 0; v < LS_COUNT(variants); v++) {
            if (variants[v].forward->dtype == T && kernel_runs_here(variants[v].forward))
                check_attention(&p, &variants[v]);
        }
        problem_free(&p);
    }
}

static void test_against_f64(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) for_each_variant(&cases[i]);
}

static void test_few_queries_against_f64(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(few); i++) for_each_variant(&few[i]);
}

/* Any head size: below a vector, between vectors, odd, and beyond what is usual. */
static void test_head_sizes(void **state) {
    (void)state;
    static const int sizes[] = {1, 3, 8, 40, 64, 72, 80, 96, 112, 128, 160, 192, 256, 257, 320};
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        const test_case c = {.B = 1,
                             .D = sizes[i],
                             .Hq = 1,
                             .Hkv = 1,
                             .group = 1,
                             .S = 260,
                             .P = 2,
                             .rank = (int)i % 2,
                             .layout = LS_LAYOUT_ZIGZAG,
                             .mask = i % 3 == 0 ? "window:70:5" : "causal",
                             .threads = 1 + (int)i % 2,
                             .softcap = i % 4 == 1 ? 2 : 0};
        for_each_variant(&c);
    }
}

/* Any two of them: values narrower and wider than keys. */
static void test_sizes_of_values(void **state) {
    (void)state;
    static const int sizes[] = {1, 8, 33, 64, 72, 128, 192, 257};
    enum { N = LS_COUNT(sizes) };
    for (int i = 0; i < N * N; i++) {
        const test_case c = {.B = 1,
                             .D = sizes[i % N],
                             .E = sizes[i / N],
                             .Hq = 2,
                             .Hkv = 1,
                             .group = 2,
                             .S = 120,
                             .P = 1,
                             .mask = i % 3 == 0 ? "window:50:5" : "causal",
                             .queries = i % 4 == 0 ? 5 : 0,
                             .threads = 1 + i % 2};
        if (c.D != c.E) for_each_variant(&c);
    }
}

enum { ODD_KEYS = 600 };

/* o and lse of queries that are all alike, beside a softmax in f64. n: few take another way than many. */
static void check_scores(const ls_kernel *kernel, int64_t n, float query, const float *keys) {
    const int64_t t = ODD_KEYS, spans_size[] = {1, n, 2}, kpos_size[] = {t};
    int32_t spans_of[2 * ODD_KEYS], positions[ODD_KEYS];
    ls_view q = dense_view(LS_F32, 1, n, 1, 8), k = dense_view(LS_F32, 1, t, 1, 8), v = dense_view(LS_F32, 1, t, 1, 8);
    ls_view o = dense_view(LS_F32, 1, n, 1, 8), lse = dense_view(LS_F32, 1, 1, n, 0);
    double most = -INFINITY, sum = 0, right = 0;
    for (int64_t i = 0; i < n; i++) spans_of[2 * i] = 0, spans_of[2 * i + 1] = (int32_t)t;
    for (int64_t x = 0; x < n * 8; x++) put_float(&q, x, query);
    for (int64_t j = 0; j < t; j++) {
        positions[j] = (int32_t)j;
        for (int64_t d = 0; d < 8; d++) put_float(&k, j * 8 + d, keys[j]), put_float(&v, j * 8 + d, sinf((float)j));
        most = fmax(most, 8.0 * query * keys[j]);
    }
    for (int64_t j = 0; j < t; j++) {
        const double p = exp(8.0 * query * keys[j] - most);
        sum += p, right += p * (double)sinf((float)j);
    }
    const ls_view spans = ls_view_dense(spans_of, LS_I32, 3, spans_size);
    const ls_view kpos = ls_view_dense(positions, LS_I32, 1, kpos_size);
    const ls_attention_params params = {.scale = 1, .group = 1};
    ls_kernel_call call = {5, 2, {q, k, v, spans, kpos}, {o, lse}, &params, NULL, 1};
    call_kernel(kernel, &call, NULL);
    for (int64_t x = 0; x < n * 8; x++) {
        const double error = fabs(((float *)o.data)[x] - right / sum);
        if (!(error < 1e-4))
            fail_msg("%s: o %g, expected %g", kernel_isa_name(kernel), ((float *)o.data)[x], right / sum);
    }
    for (int64_t i = 0; i < n; i++) {
        const double log_sum = most + log(sum), error = fabs(((float *)lse.data)[i] - log_sum);
        assert_true(error <= 1e-5 + 1e-6 * fabs(log_sum));
    }
    free(q.data), free(k.data), free(v.data), free(o.data), free(lse.data);
}

/*
 * In f32: scores that rise by a little from key to key, until they are far above what the first tile had; and scores
 * near 1e11, where a difference of two that are rounded in different ways is thousands, or infinite once exponentiated.
 */
static void test_odd_scores(void **state) {
    (void)state;
    float rising[ODD_KEYS], huge[ODD_KEYS];
    for (int j = 0; j < ODD_KEYS; j++) rising[j] = (float)j * 0.25f, huge[j] = j == 137 ? 170003.3f : 70003.3f;
    for (size_t v = 0; v < LS_COUNT(variants); v++) {
        const ls_kernel *kernel = variants[v].forward;
        if (kernel->dtype != LS_F32 || !kernel_runs_here(kernel)) continue;
        for (int64_t n = 1; n <= 101; n += 100) {
            check_scores(kernel, n, 0.125f, rising);
            check_scores(kernel, n, -0.125f, rising);
            check_scores(kernel, n, 70001.7f, huge);
        }
    }
}

/*
 * Sizes of nothing: no keys gives o 0 and lse -inf (or what was there, when merging); no queries gives dk
 * and dv 0.
 */
static void test_empty(void **state) {
    (void)state;
    for (size_t v = 0; v < LS_COUNT(variants); v++)
        if (kernel_runs_here(variants[v].forward)) check_empty_attention(&variants[v]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_f64), cmocka_unit_test(test_few_queries_against_f64),
        cmocka_unit_test(test_head_sizes),  cmocka_unit_test(test_sizes_of_values),
        cmocka_unit_test(test_odd_scores),  cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
