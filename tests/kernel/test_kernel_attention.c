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

#include "support/attention_oracle.h"
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

typedef struct variant {
    const ls_kernel *forward, *backward;
} variant;

static const variant variants[] = {
    {&ls_ref_f32_attention, &ls_ref_f32_attention_grad},
    {&ls_cpu_base_f32_attention, &ls_cpu_base_f32_attention_grad},
    {&ls_cpu_base_bf16_attention, &ls_cpu_base_bf16_attention_grad},
#ifdef __x86_64__
    {&ls_cpu_avx2_f32_attention, &ls_cpu_avx2_f32_attention_grad},
    {&ls_cpu_avx2_bf16_attention, &ls_cpu_avx2_bf16_attention_grad},
    {&ls_cpu_avx512_f32_attention, &ls_cpu_avx512_f32_attention_grad},
    {&ls_cpu_avx512_bf16_attention, &ls_cpu_avx512_bf16_attention_grad},
    {&ls_cpu_avx512bf16_f32_attention, &ls_cpu_avx512bf16_f32_attention_grad},
    {&ls_cpu_avx512bf16_bf16_attention, &ls_cpu_avx512bf16_bf16_attention_grad},
    {&ls_cpu_avx512bf16_bf16_attention_pairs, &ls_cpu_avx512bf16_bf16_attention_grad_pairs},
    {&ls_cpu_amx_bf16_attention, &ls_cpu_amx_bf16_attention_grad},
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
};

/*
 * Few enough queries to go the way of attention_few.h: every number of rows that are taken at a time, masks, gaps,
 * merges, stretches. B, D, Hq, Hkv, group, first_q, first_kv, S, P, rank, queries, layout, mask, threads, scale,
 * softcap, spread, f32_limit.
 */
static const test_case few[] = {
    {1, 64, 4, 2, 2, 0, 0, 517, 1, 0, 1, LS_LAYOUT_CONTIGUOUS, "causal", 2, 0, 0, 0, 0},
    {1, 64, 12, 4, 3, 0, 0, 1500, 2, 1, 1, LS_LAYOUT_ZIGZAG, "causal", 3, 0, 0, 0, 0},
    {1, 128, 7, 1, 7, 0, 0, 700, 1, 0, 2, LS_LAYOUT_CONTIGUOUS, "window:150:5", 2, 0, 0, 0, 0},
    {1, 40, 16, 2, 8, 0, 0, 800, 3, 2, 1, LS_LAYOUT_STRIPED, "causal", 2, 0, 1.5, 0, 0},
    {2, 33, 2, 2, 1, 0, 0, 450, 2, 1, 3, LS_LAYOUT_ZIGZAG, "causal+documents", 2, 0, 0, 0, 0},
    {3, 80, 3, 2, 3, 2, 0, 610, 1, 0, 4, LS_LAYOUT_CONTIGUOUS, "causal", 1, 0, 0, 0, 0},
    {1, 16, 2, 1, 4, 6, 1, 300, 1, 0, 1, LS_LAYOUT_CONTIGUOUS, "full", 1, 0, 0, 0, 0},
    {1, 256, 2, 1, 2, 0, 0, 257, 2, 0, 1, LS_LAYOUT_CONTIGUOUS, "full", 2, -0.05, 0, 0, 0},
    {1, 64, 2, 1, 2, 0, 0, 900, 2, 1, 5, LS_LAYOUT_ZIGZAG, "causal", 2, 0, 0, 2.5, 1e-4},
    {1, 24, 1, 1, 1, 0, 0, 17001, 1, 0, 1, LS_LAYOUT_CONTIGUOUS, "causal", 3, 0, 0, 0, 0},
    {1, 8, 1, 1, 1, 0, 0, 2000, 4, 0, 16, LS_LAYOUT_CONTIGUOUS, "causal", 2, 0, 0, 0, 0},
    {1, 1, 3, 1, 3, 0, 0, 300, 1, 0, 1, LS_LAYOUT_CONTIGUOUS, "window:70", 2, 0, 0, 0, 0},
};

static void put(const ls_view *view, int64_t at, float value) {
    if (view->dtype == LS_BF16)
        ((ls_bf16 *)view->data)[at] = ls_bf16_from_f32(value);
    else
        ((float *)view->data)[at] = value;
}

/* [B,n,H,D] with a head more and three elements more in each row than are used, all NaN but `values`. */
static ls_view strided(ls_dtype dtype, int64_t B, int64_t n, int64_t H, int64_t D, const float *values) {
    const int64_t head = D + 3, row = (H + 1) * head, batch = n * row + 5;
    ls_view view = {filled(B * batch, 4), dtype, 4, {B, n, H, D}, {batch, row, head, 1}};
    for (int64_t x = 0; values && x < B * n * H * D; x++) {
        const int64_t at = x / (D * H * n) * batch + x / (D * H) % n * row + x / D % H * head + x % D;
        put(&view, at, values[x]);
    }
    return view;
}

static ls_view dense(ls_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t size[] = {a, b, c, d};
    return ls_view_dense(filled(a * b * c * (d ? d : 1), 4), dtype, d ? 4 : 3, size);
}

static ls_view given(int64_t count, const float *values, ls_view view) {
    for (int64_t i = 0; i < count; i++) put(&view, i, values[i]);
    return view;
}

/* Norm of the error over the norm of what is right, of a [B,n,H,D] view; NaN where either has one. */
static double error_of(const ls_view *view, const double *right) {
    double wrong = 0, norm = 0;
    const int64_t *n = view->size, *s = view->stride;
    for (int64_t x = 0; x < ls_view_elements(view); x++) {
        const int64_t at =
            x / (n[1] * n[2] * n[3]) * s[0] + x / (n[2] * n[3]) % n[1] * s[1] + x / n[3] % n[2] * s[2] + x % n[3];
        const double value = ((const float *)view->data)[at];
        wrong += (value - right[x]) * (value - right[x]);
        norm += right[x] * right[x];
    }
    return norm > 0 ? sqrt(wrong / norm) : sqrt(wrong);
}

/* Whether the gaps of a strided view of [B,n,H,D] floats are as they were: all bits set. */
static bool gaps_untouched(const ls_view *view) {
    const int64_t *n = view->size, *s = view->stride;
    for (int64_t at = 0; at < n[0] * s[0]; at++) {
        const int64_t row = at % s[0] / s[1], head = at % s[0] % s[1] / s[2], d = at % s[0] % s[1] % s[2];
        const bool used = row < n[1] && head < n[2] && d < n[3];
        if (!used && ((const uint32_t *)view->data)[at] != UINT32_MAX) return false;
    }
    return true;
}

static void call_kernel(const ls_kernel *kernel, ls_kernel_call *call, ls_pool *pool) {
    call->threads = ls_pool_threads(pool);
    const size_t needed = kernel->workspace(call);
    char *space = aligned_alloc(64, ls_round_up(needed, 64) + 64);
    assert_non_null(space);
    memset(space, 0xff, ls_round_up(needed, 64) + 64);
    call->workspace = space;
    void *state = NULL;
    if (kernel->prepare) {
        const ls_status status = kernel->prepare(call, &state);
        if (status.code != LS_OK) fail_msg("%s", status.text);
    }
    kernel->run(call, state, pool);
    if (kernel->release) kernel->release(state);
    for (size_t i = needed; i < ls_round_up(needed, 64) + 64; i++) assert_true((unsigned char)space[i] == 0xff);
    free(space);
}

typedef struct results {
    ls_view o, lse, dq;
    ls_view *dk, *dv;
} results;

static ls_view position_view(key_block *block) {
    const int64_t size[] = {block->t};
    return ls_view_dense(block->kpos, LS_I32, 1, size);
}

static results run_case(const problem *p, const variant *v, ls_pool *pool) {
    const test_case *c = &p->c;
    const ls_dtype T = v->forward->dtype;
    const int64_t n = p->n, rows = c->B * c->Hq * n, span_size[] = {c->B, n, 2 * p->w};
    results r = {strided(LS_F32, c->B, n, c->Hq, c->D, NULL), dense(LS_F32, c->B, c->Hq, n, 0),
                 dense(LS_F32, c->B, n, c->Hq, c->D), filled(c->P, sizeof(ls_view)), filled(c->P, sizeof(ls_view))};
    const ls_view q = strided(T, c->B, n, c->Hq, c->D, p->q);
    const ls_view spans = ls_view_dense(p->spans, LS_I32, 3, span_size);
    const ls_view dout = given(rows * c->D, p->dout, dense(T, c->B, n, c->Hq, c->D));
    const ls_view delta = given(rows, p->delta, dense(LS_F32, c->B, c->Hq, n, 0));
    ls_attention_params params = {
        .scale = p->scale, .softcap = c->softcap, .group = c->group, .first_q = c->first_q, .first_kv = c->first_kv};
    ls_view k[8], values[8];
    for (int i = 0; i < c->P; i++) {
        key_block *block = &p->block[i];
        k[i] = strided(T, c->B, block->t, c->Hkv, c->D, block->k);
        values[i] = strided(T, c->B, block->t, c->Hkv, c->D, block->v);
        params.merge = i > 0;
        ls_kernel_call call = {5, 2, {q, k[i], values[i], spans, position_view(block)}, {r.o, r.lse}, &params, 0, 1};
        call_kernel(v->forward, &call, pool);
    }
    for (int i = 0; i < c->P; i++) {
        key_block *block = &p->block[i];
        r.dk[i] = dense(LS_F32, c->B, block->t, c->Hkv, c->D);
        r.dv[i] = dense(LS_F32, c->B, block->t, c->Hkv, c->D);
        params.accumulate_dq = i > 0;
        params.accumulate_dkv = i % 2 == 1;
        if (params.accumulate_dkv) {
            memset(r.dk[i].data, 0, sizeof(float) * (size_t)ls_view_elements(&r.dk[i]));
            memset(r.dv[i].data, 0, sizeof(float) * (size_t)ls_view_elements(&r.dv[i]));
        }
        ls_kernel_call call = {8,
                               3,
                               {q, k[i], values[i], spans, position_view(block), dout, r.lse, delta},
                               {r.dq, r.dk[i], r.dv[i]},
                               &params,
                               0,
                               1};
        call_kernel(v->backward, &call, pool);
        free(k[i].data), free(values[i].data);
    }
    free(q.data), free(dout.data), free(delta.data);
    return r;
}

static void results_free(results *r, int P) {
    for (int i = 0; i < P; i++) free(r->dk[i].data), free(r->dv[i].data);
    free(r->o.data), free(r->lse.data), free(r->dq.data), free(r->dk), free(r->dv);
}

static void expect_small(double error, double limit, const char *what, const problem *p, const variant *v) {
    if (!(error <= limit)) {
        fail_msg("%s of %s %s: D %d Hq %d Hkv %d S %d P %d layout %d mask %s threads %d: error %.3g, at most %.3g",
                 what, kernel_isa_name(v->forward), ls_dtype_name(v->forward->dtype), p->c.D, p->c.Hq, p->c.Hkv, p->c.S,
                 p->c.P, (int)p->c.layout, p->c.mask, p->c.threads, error, limit);
    }
}

static void check_lse(const problem *p, const results *r, double limit, const variant *v) {
    const float *lse = r->lse.data;
    for (int64_t i = 0; i < p->c.B * p->c.Hq * p->n; i++) {
        if (p->lse[i] == -INFINITY)
            assert_true(lse[i] == -INFINITY);
        else
            expect_small(fabs(lse[i] - p->lse[i]) / fmax(1, fabs(p->lse[i])), limit, "lse", p, v);
    }
}

static bool same_bits(const ls_view *a, const ls_view *b) {
    const int64_t outer = a->ndim == 4 ? a->size[0] * a->stride[0] : ls_view_elements(a);
    return memcmp(a->data, b->data, sizeof(float) * (size_t)outer) == 0;
}

static void check_case(const problem *p, const variant *v) {
    ls_pool *pool;
    assert_int_equal(ls_pool_create(p->c.threads, false, &pool).code, LS_OK);
    results r = run_case(p, v, pool), again = run_case(p, v, pool);
    const double f32_limit = p->c.f32_limit != 0 ? p->c.f32_limit : 1e-5;
    const double limit = v->forward->dtype == LS_BF16 ? 0x1p-7 : f32_limit;
    expect_small(error_of(&r.o, p->o), limit, "o", p, v);
    expect_small(error_of(&r.dq, p->dq), limit, "dq", p, v);
    check_lse(p, &r, limit, v);
    assert_true(gaps_untouched(&r.o));
    assert_true(same_bits(&r.o, &again.o) && same_bits(&r.lse, &again.lse) && same_bits(&r.dq, &again.dq));
    for (int i = 0; i < p->c.P; i++) {
        expect_small(error_of(&r.dk[i], p->block[i].dk), limit, "dk", p, v);
        expect_small(error_of(&r.dv[i], p->block[i].dv), limit, "dv", p, v);
        assert_true(same_bits(&r.dk[i], &again.dk[i]) && same_bits(&r.dv[i], &again.dv[i]));
    }
    results_free(&r, p->c.P);
    results_free(&again, p->c.P);
    ls_pool_destroy(pool);
}

static void for_each_variant(const test_case *c) {
    for (ls_dtype T = LS_F32; T < LS_DTYPES; T++) {
        if (T != LS_F32 && T != LS_BF16) continue;
        problem p = problem_make(c, T);
        for (size_t v = 0; v < LS_COUNT(variants); v++) {
            if (variants[v].forward->dtype == T && kernel_runs_here(variants[v].forward)) check_case(&p, &variants[v]);
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

enum { ODD_KEYS = 600 };

/* o and lse of queries that are all alike, beside a softmax in f64. n: few take another way than many. */
static void check_scores(const ls_kernel *kernel, int64_t n, float query, const float *keys) {
    const int64_t t = ODD_KEYS, spans_size[] = {1, n, 2}, kpos_size[] = {t};
    int32_t spans_of[2 * ODD_KEYS], positions[ODD_KEYS];
    ls_view q = dense(LS_F32, 1, n, 1, 8), k = dense(LS_F32, 1, t, 1, 8), v = dense(LS_F32, 1, t, 1, 8);
    ls_view o = dense(LS_F32, 1, n, 1, 8), lse = dense(LS_F32, 1, 1, n, 0);
    double most = -INFINITY, sum = 0, right = 0;
    for (int64_t i = 0; i < n; i++) spans_of[2 * i] = 0, spans_of[2 * i + 1] = (int32_t)t;
    for (int64_t x = 0; x < n * 8; x++) put(&q, x, query);
    for (int64_t j = 0; j < t; j++) {
        positions[j] = (int32_t)j;
        for (int64_t d = 0; d < 8; d++) put(&k, j * 8 + d, keys[j]), put(&v, j * 8 + d, sinf((float)j));
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
    for (size_t v = 0; v < LS_COUNT(variants); v++) {
        const variant *kernels = &variants[v];
        if (!kernel_runs_here(kernels->forward)) continue;
        for (int which = 0; which < 2; which++) {
            const int64_t n = which == 0 ? 5 : 0, t = which == 0 ? 0 : 5, spans_size[] = {1, n, 2}, kpos_size[] = {t};
            const ls_dtype T = kernels->forward->dtype;
            int32_t numbers[10] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5};
            ls_view q = dense(T, 1, n, 2, 16), k = dense(T, 1, t, 1, 16), o = dense(LS_F32, 1, n, 2, 16);
            ls_view lse = dense(LS_F32, 1, 2, n, 0), dk = dense(LS_F32, 1, t, 1, 16), dv = dense(LS_F32, 1, t, 1, 16);
            const ls_view spans = ls_view_dense(numbers, LS_I32, 3, spans_size);
            const ls_view kpos = ls_view_dense(numbers, LS_I32, 1, kpos_size);
            const ls_attention_params params = {.scale = 1, .group = 2};
            ls_kernel_call call = {5, 2, {q, k, k, spans, kpos}, {o, lse}, &params, NULL, 1};
            call_kernel(kernels->forward, &call, NULL);
            for (int64_t i = 0; i < n * 2; i++) assert_true(((float *)lse.data)[i] == -INFINITY);
            for (int64_t i = 0; i < n * 32; i++) assert_true(((float *)o.data)[i] == 0);
            ls_kernel_call grad = {8, 3, {q, k, k, spans, kpos, q, lse, lse}, {o, dk, dv}, &params, NULL, 1};
            memset(o.data, 0xff, (size_t)n * 128);
            call_kernel(kernels->backward, &grad, NULL);
            for (int64_t i = 0; i < n * 32; i++) assert_true(((float *)o.data)[i] == 0);
            for (int64_t i = 0; i < t * 16; i++) {
                assert_true(((float *)dk.data)[i] == 0 && ((float *)dv.data)[i] == 0);
            }
            free(q.data), free(k.data), free(o.data), free(lse.data), free(dk.data), free(dv.data);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_f64), cmocka_unit_test(test_few_queries_against_f64),
        cmocka_unit_test(test_head_sizes),  cmocka_unit_test(test_odd_scores),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
