#include "support/attention_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void put_float(const ls_view *view, int64_t at, float value) {
    if (view->dtype == LS_BF16)
        ((ls_bf16 *)view->data)[at] = ls_bf16_from_f32(value);
    else
        ((float *)view->data)[at] = value;
}

/* [B,n,H,D] with a head more, and `gap` elements more behind each head and batch, all NaN but `values`. */
static ls_view strided(ls_dtype dtype, int64_t B, int64_t n, int64_t H, int64_t D, int gap, const float *values) {
    const int64_t head = D + gap, row = (H + 1) * head, batch = n * row + 2 * gap;
    ls_view view = {filled(B * batch, 4), dtype, 4, {B, n, H, D}, {batch, row, head, 1}};
    for (int64_t x = 0; values && x < B * n * H * D; x++) {
        const int64_t at = x / (D * H * n) * batch + x / (D * H) % n * row + x / D % H * head + x % D;
        put_float(&view, at, values[x]);
    }
    return view;
}

ls_view dense_view(ls_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t size[] = {a, b, c, d};
    return ls_view_dense(filled(a * b * c * (d ? d : 1), 4), dtype, d ? 4 : 3, size);
}

static ls_view given(int64_t count, const float *values, ls_view view) {
    for (int64_t i = 0; i < count; i++) put_float(&view, i, values[i]);
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

typedef struct results {
    ls_view o, lse, dq;
    ls_view *dk, *dv;
} results;

static ls_view position_view(key_block *block) {
    const int64_t size[] = {block->t};
    return ls_view_dense(block->kpos, LS_I32, 1, size);
}

/* What the spans come to, of a block of keys. */
static ls_attention_band band_of(const problem *p, const key_block *block) {
    const int32_t *spans = (const int32_t *)p->spans;
    const int64_t W = 2 * p->w, rows = p->c.B * p->n;
    ls_attention_band band = {.low = INT64_MAX, .high = INT64_MIN};
    for (int64_t x = 0; x < rows * block->t; x++) {
        const int64_t row = x / block->t, j = x % block->t, apart = j - row % p->n;
        if (!spans_show(spans + row * W, W, block->kpos[j])) continue;
        band.low = ls_min(band.low, apart);
        band.high = ls_max(band.high, apart);
    }
    band.known = band.low <= band.high;
    for (int64_t x = 0; x < rows * block->t; x++) {
        const int64_t row = x / block->t, j = x % block->t, apart = j - row % p->n;
        band.known &= (band.low <= apart && apart <= band.high) == spans_show(spans + row * W, W, block->kpos[j]);
    }
    return band;
}

static results run_case(const problem *p, const attention_variant *v, attention_caller *make, ls_pool *pool) {
    const test_case *c = &p->c;
    const ls_dtype T = v->forward->dtype;
    const int64_t n = p->n, rows = c->B * c->Hq * n, span_size[] = {c->B, n, 2 * p->w};
    results r = {strided(LS_F32, c->B, n, c->Hq, c->E, v->gap, NULL), dense_view(LS_F32, c->B, c->Hq, n, 0),
                 dense_view(LS_F32, c->B, n, c->Hq, c->D), filled(c->P, sizeof(ls_view)),
                 filled(c->P, sizeof(ls_view))};
    const ls_view q = strided(T, c->B, n, c->Hq, c->D, v->gap, p->q);
    const ls_view spans = ls_view_dense(p->spans, LS_I32, 3, span_size);
    const ls_view dout = given(rows * c->E, p->dout, dense_view(T, c->B, n, c->Hq, c->E));
    const ls_view delta = given(rows, p->delta, dense_view(LS_F32, c->B, c->Hq, n, 0));
    ls_attention_params params = {
        .scale = p->scale, .softcap = c->softcap, .group = c->group, .first_q = c->first_q, .first_kv = c->first_kv};
    ls_view k[8], values[8];
    for (int i = 0; i < c->P; i++) {
        key_block *block = &p->block[i];
        k[i] = strided(T, c->B, block->t, c->Hkv, c->D, v->gap, block->k);
        values[i] = strided(T, c->B, block->t, c->Hkv, c->E, v->gap, block->v);
        params.merge = i > 0;
        params.band = band_of(p, block);
        ls_kernel_call call = {5, 2, {q, k[i], values[i], spans, position_view(block)}, {r.o, r.lse}, &params, 0, 1};
        make(v->forward, &call, pool);
    }
    for (int i = 0; i < c->P; i++) {
        key_block *block = &p->block[i];
        r.dk[i] = dense_view(LS_F32, c->B, block->t, c->Hkv, c->D);
        r.dv[i] = dense_view(LS_F32, c->B, block->t, c->Hkv, c->E);
        params.accumulate_dq = i > 0;
        params.band = band_of(p, block);
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
        make(v->backward, &call, pool);
        free(k[i].data), free(values[i].data);
    }
    free(q.data), free(dout.data), free(delta.data);
    return r;
}

static void results_free(results *r, int P) {
    for (int i = 0; i < P; i++) free(r->dk[i].data), free(r->dv[i].data);
    free(r->o.data), free(r->lse.data), free(r->dq.data), free(r->dk), free(r->dv);
}

static void expect_small(double error, double limit, const char *what, const problem *p, const attention_variant *v) {
    if (!(error <= limit)) {
        fail_msg("%s of %s %s: D %d E %d Hq %d Hkv %d S %d P %d layout %d mask %s threads %d: error %.3g, at most %.3g",
                 what, v->name, ls_dtype_name(v->forward->dtype), p->c.D, p->c.E, p->c.Hq, p->c.Hkv, p->c.S, p->c.P,
                 (int)p->c.layout, p->c.mask, p->c.threads, error, limit);
    }
}

static void check_lse(const problem *p, const results *r, double limit, const attention_variant *v) {
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

void check_attention(const problem *p, const attention_variant *v) { check_attention_by(p, v, call_kernel); }

void check_attention_by(const problem *p, const attention_variant *v, attention_caller *make) {
    ls_pool *pool;
    assert_int_equal(ls_pool_create(p->c.threads, false, &pool).code, LS_OK);
    results r = run_case(p, v, make, pool), again = run_case(p, v, make, pool);
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

static void expect_zeros(const ls_view *view) {
    for (int64_t i = 0; i < ls_view_elements(view); i++) assert_true(((const float *)view->data)[i] == 0);
}

/* n queries and t keys, of which one number is 0. */
static void check_nothing_seen(const attention_variant *v, int64_t n, int64_t t) {
    const int64_t spans_size[] = {1, n, 2}, kpos_size[] = {t};
    const ls_dtype T = v->forward->dtype;
    int32_t numbers[10] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5};
    const ls_view q = dense_view(T, 1, n, 2, 16), k = dense_view(T, 1, t, 1, 16), o = dense_view(LS_F32, 1, n, 2, 16),
                  lse = dense_view(LS_F32, 1, 2, n, 0), dk = dense_view(LS_F32, 1, t, 1, 16),
                  dv = dense_view(LS_F32, 1, t, 1, 16), spans = ls_view_dense(numbers, LS_I32, 3, spans_size),
                  kpos = ls_view_dense(numbers, LS_I32, 1, kpos_size);
    const ls_attention_params params = {.scale = 1, .group = 2};
    ls_kernel_call call = {5, 2, {q, k, k, spans, kpos}, {o, lse}, &params, NULL, 1};
    call_kernel(v->forward, &call, NULL);
    for (int64_t i = 0; i < n * 2; i++) assert_true(((const float *)lse.data)[i] == -INFINITY);
    expect_zeros(&o);
    ls_kernel_call grad = {8, 3, {q, k, k, spans, kpos, q, lse, lse}, {o, dk, dv}, &params, NULL, 1};
    memset(o.data, 0xff, ls_view_bytes(&o));
    call_kernel(v->backward, &grad, NULL);
    expect_zeros(&o);
    expect_zeros(&dk);
    expect_zeros(&dv);
    free(q.data), free(k.data), free(o.data), free(lse.data), free(dk.data), free(dv.data);
}

void check_empty_attention(const attention_variant *v) {
    check_nothing_seen(v, 5, 0);
    check_nothing_seen(v, 0, 5);
}
