/*
 * attention and attention_grad of src/kernel/cpu, every variant that this processor runs, against a plain f64
 * computation below (softmax over all keys at once, written independently of the kernels).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel.h"

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
extern const ls_kernel ls_cpu_avx512bf16_bf16_attention_pairs, ls_cpu_avx512bf16_bf16_attention_grad_pairs;
#endif

typedef struct variant {
    const ls_kernel *forward, *backward;
} variant;

static const variant variants[] = {
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
#endif
};

/*
 * One problem: rank `rank` of `layout` holds the queries, and every rank's keys are a block that is merged in turn.
 * q, k, v and o lie with gaps between heads and rows.
 */
typedef struct test_case {
    int B, D, Hq, Hkv, group, first_q, first_kv;
    int S, P, rank;
    ls_layout_kind layout;
    const char *mask; /* terms joined by +; "documents" has fixed ends */
    int threads;
    double scale;     /* 0: 1/sqrt(D) */
    double spread;    /* standard deviation of q and k; 0: 1 */
    double f32_limit; /* 0: 1e-5. Scores near 1e3 have an ulp of 6e-5, which exp makes a relative error. */
} test_case;

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
    {.B = 1,
     .D = 64,
     .Hq = 2,
     .Hkv = 1,
     .group = 2,
     .S = 450,
     .P = 1,
     .mask = "window:60:5+documents",
     .threads = 1},
    {.B = 1, .D = 1, .Hq = 1, .Hkv = 1, .group = 1, .S = 200, .P = 1, .mask = "causal", .threads = 2},
    {.B = 1, .D = 64, .Hq = 1, .Hkv = 1, .group = 1, .S = 1, .P = 1, .mask = "causal", .threads = 3},
    {.B = 3,
     .D = 24,
     .Hq = 3,
     .Hkv = 2,
     .group = 3,
     .first_q = 2,
     .S = 97,
     .P = 1,
     .mask = "causal",
     .threads = 2},
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
};

typedef struct key_block {
    int64_t t;
    int32_t *kpos;
    float *k, *v;    /* [B,t,Hkv,D], already rounded */
    double *dk, *dv; /* what is right */
} key_block;

typedef struct problem {
    test_case c;
    int64_t n;
    int w;
    double scale;
    ls_span *spans;       /* [B,n,w] */
    float *q, *dout;      /* [B,n,Hq,D], rounded */
    key_block *block;     /* [P] */
    double *o, *lse, *dq; /* what is right */
    float *delta;
} problem;

static const int32_t document_ends[] = {0, 37, 37, 38, 200, 300, 450};

static void *filled(int64_t count, size_t size) {
    const size_t bytes = (size_t)count * size;
    void *p = malloc(bytes + 64);
    assert_non_null(p);
    memset(p, 0xff, bytes + 64); /* NaN in every floating type */
    return p;
}

static void *zeroed(int64_t count, size_t size) {
    void *p = calloc((size_t)count + 1, size);
    assert_non_null(p);
    return p;
}

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static float *draw(int64_t count, double spread, ls_dtype dtype, uint64_t *state) {
    float *x = filled(count, sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        const double r = sqrt(-2 * log(uniform(state) + 1e-300)), a = 6.283185307179586 * uniform(state);
        x[i] = (float)(spread * r * cos(a));
        if (dtype == LS_BF16) x[i] = ls_bf16_to_f32(ls_bf16_from_f32(x[i]));
    }
    return x;
}

static ls_mask parse_mask(const char *text) {
    ls_mask mask = {0};
    char copy[64], *rest = copy;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *term; (term = strsep(&rest, "+")) != NULL;) {
        if (strcmp(term, "documents") == 0) {
            mask.term[mask.n++] = (ls_mask_term){
                .kind = LS_MASK_DOCUMENTS, .ends = document_ends, .n_ends = (int)LS_COUNT(document_ends)};
        } else {
            const ls_status status = ls_mask_add_term(&mask, term);
            if (status.code != LS_OK) fail_msg("%s", status.text);
        }
    }
    return mask;
}

static int kv_of(const test_case *c, int head) { return (c->first_q + head) / c->group - c->first_kv; }

static bool sees(const problem *p, int64_t b, int64_t i, int32_t key) {
    for (int j = 0; j < p->w; j++) {
        const ls_span span = p->spans[(b * p->n + i) * p->w + j];
        if (key >= span.lo && key < span.hi) return true;
    }
    return false;
}

static double dot(const float *a, const float *b, int D) {
    double sum = 0;
    for (int d = 0; d < D; d++) sum += (double)a[d] * b[d];
    return sum;
}

/* One query row of the oracle: scores of all keys, softmax, o, and its part of every gradient. */
static void oracle_row(problem *p, int64_t b, int64_t i, int h) {
    const test_case *c = &p->c;
    const int kv = kv_of(c, h), D = c->D;
    const int64_t row = ((b * p->n + i) * c->Hq + h) * D;
    double most = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < c->P; r++) {
            for (int64_t j = 0; j < p->block[r].t; j++) {
                if (!sees(p, b, i, p->block[r].kpos[j])) continue;
                const int64_t at = ((b * p->block[r].t + j) * c->Hkv + kv) * D;
                const double s = p->scale * dot(p->q + row, p->block[r].k + at, D);
                if (pass == 0) {
                    most = fmax(most, s);
                    continue;
                }
                sum += exp(s - most);
                for (int d = 0; d < D; d++) p->o[row + d] += exp(s - most) * p->block[r].v[at + d];
            }
        }
    }
    p->lse[(b * c->Hq + h) * p->n + i] = sum > 0 ? most + log(sum) : -INFINITY;
    double delta = 0;
    for (int d = 0; d < D; d++) {
        if (sum > 0) p->o[row + d] /= sum;
        delta += p->o[row + d] * p->dout[row + d];
    }
    p->delta[(b * c->Hq + h) * p->n + i] = (float)delta;
    for (int r = 0; r < c->P; r++) {
        const key_block *block = &p->block[r];
        for (int64_t j = 0; j < block->t; j++) {
            if (!sees(p, b, i, block->kpos[j])) continue;
            const int64_t at = ((b * block->t + j) * c->Hkv + kv) * D;
            const double prob = exp(p->scale * dot(p->q + row, block->k + at, D) - most) / sum;
            const double ds = p->scale * prob * (dot(p->dout + row, block->v + at, D) - delta);
            for (int d = 0; d < D; d++) {
                block->dv[at + d] += prob * p->dout[row + d];
                block->dk[at + d] += ds * p->q[row + d];
                p->dq[row + d] += ds * block->k[at + d];
            }
        }
    }
}

static problem problem_make(const test_case *c, ls_dtype dtype) {
    problem p = {.c = *c, .scale = c->scale != 0 ? c->scale : 1 / sqrt(c->D)};
    uint64_t seed = 12345;
    const double spread = c->spread != 0 ? c->spread : 1;
    const ls_layout layout = {c->layout, c->S, c->P};
    const ls_mask mask = parse_mask(c->mask);
    p.n = ls_layout_count(&layout, c->rank);
    p.w = ls_mask_width(&mask);
    int32_t *positions = filled(p.n, sizeof *positions);
    ls_layout_positions(&layout, c->rank, positions);
    p.spans = filled(c->B * p.n * p.w, sizeof *p.spans);
    for (int b = 0; b < c->B; b++) {
        ls_mask_table(&mask, c->S, positions, p.n, p.spans + b * p.n * p.w);
        if (b == 1 && p.n > 2)
            memset(p.spans + (b * p.n + 1) * p.w, 0, sizeof *p.spans * (size_t)p.w); /* blind */
    }
    free(positions);
    const int64_t size = c->B * p.n * c->Hq * c->D;
    p.q = draw(size, spread, dtype, &seed);
    p.dout = draw(size, 1, dtype, &seed);
    p.o = zeroed(size, sizeof *p.o);
    p.dq = zeroed(size, sizeof *p.dq);
    p.lse = zeroed(c->B * c->Hq * p.n, sizeof *p.lse);
    p.delta = zeroed(c->B * c->Hq * p.n, sizeof *p.delta);
    p.block = zeroed(c->P, sizeof *p.block);
    for (int r = 0; r < c->P; r++) {
        key_block *block = &p.block[r];
        block->t = ls_layout_count(&layout, r);
        block->kpos = filled(block->t, sizeof *block->kpos);
        ls_layout_positions(&layout, r, block->kpos);
        const int64_t count = c->B * block->t * c->Hkv * c->D;
        block->k = draw(count, spread, dtype, &seed);
        block->v = draw(count, 1, dtype, &seed);
        block->dk = zeroed(count, sizeof *block->dk);
        block->dv = zeroed(count, sizeof *block->dv);
    }
    for (int64_t b = 0; b < c->B; b++) {
        for (int64_t i = 0; i < p.n; i++) {
            for (int h = 0; h < c->Hq; h++) oracle_row(&p, b, i, h);
        }
    }
    return p;
}

static void problem_free(problem *p) {
    for (int r = 0; r < p->c.P; r++) {
        key_block *block = &p->block[r];
        free(block->kpos), free(block->k), free(block->v), free(block->dk), free(block->dv);
    }
    free(p->block), free(p->spans), free(p->q), free(p->dout), free(p->o), free(p->dq), free(p->lse),
        free(p->delta);
}

/* [B,n,H,D] with a head more and three elements more in each row than are used, all NaN but `values`. */
static ls_view strided(ls_dtype dtype, int64_t B, int64_t n, int64_t H, int64_t D, const float *values) {
    const int64_t head = D + 3, row = (H + 1) * head, batch = n * row + 5;
    ls_view view = {filled(B * batch, 4), dtype, 4, {B, n, H, D}, {batch, row, head, 1}};
    for (int64_t x = 0; values && x < B * n * H * D; x++) {
        const int64_t at = x / (D * H * n) * batch + x / (D * H) % n * row + x / D % H * head + x % D;
        if (dtype == LS_BF16)
            ((ls_bf16 *)view.data)[at] = ls_bf16_from_f32(values[x]);
        else
            ((float *)view.data)[at] = values[x];
    }
    return view;
}

static ls_view dense(ls_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t size[] = {a, b, c, d};
    return ls_view_dense(filled(a * b * c * (d ? d : 1), 4), dtype, d ? 4 : 3, size);
}

static ls_view given(ls_dtype dtype, int64_t count, const float *values, ls_view view) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == LS_BF16)
            ((ls_bf16 *)view.data)[i] = ls_bf16_from_f32(values[i]);
        else
            ((float *)view.data)[i] = values[i];
    }
    return view;
}

/* Norm of the error over the norm of what is right, of a [B,n,H,D] view; NaN where either has one. */
static double error_of(const ls_view *view, const double *right) {
    double wrong = 0, norm = 0;
    const int64_t *n = view->size, *s = view->stride;
    for (int64_t x = 0; x < ls_view_elements(view); x++) {
        const int64_t at = x / (n[1] * n[2] * n[3]) * s[0] + x / (n[2] * n[3]) % n[1] * s[1] +
                           x / n[3] % n[2] * s[2] + x % n[3];
        const double value = ((const float *)view->data)[at];
        wrong += (value - right[x]) * (value - right[x]);
        norm += right[x] * right[x];
    }
    return norm > 0 ? sqrt(wrong / norm) : sqrt(wrong);
}

static void run_kernel(const ls_kernel *kernel, ls_kernel_call *call, ls_pool *pool) {
    const size_t bytes = kernel->workspace(call);
    call->threads = ls_pool_threads(pool);
    assert_true(bytes == 0 || call->threads >= 1);
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
    for (size_t i = needed; i < ls_round_up(needed, 64) + 64; i++)
        assert_true((unsigned char)space[i] == 0xff);
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
                 dense(LS_F32, c->B, n, c->Hq, c->D), zeroed(c->P, sizeof(ls_view)),
                 zeroed(c->P, sizeof(ls_view))};
    const ls_view q = strided(T, c->B, n, c->Hq, c->D, p->q);
    const ls_view spans = ls_view_dense(p->spans, LS_I32, 3, span_size);
    const ls_view dout = given(T, rows * c->D, p->dout, dense(T, c->B, n, c->Hq, c->D));
    const ls_view delta = given(LS_F32, rows, p->delta, dense(LS_F32, c->B, c->Hq, n, 0));
    ls_attention_params params = {
        .scale = p->scale, .group = c->group, .first_q = c->first_q, .first_kv = c->first_kv};
    ls_view k[8], values[8];
    for (int i = 0; i < c->P; i++) {
        key_block *block = &p->block[i];
        k[i] = strided(T, c->B, block->t, c->Hkv, c->D, block->k);
        values[i] = strided(T, c->B, block->t, c->Hkv, c->D, block->v);
        params.merge = i > 0;
        ls_kernel_call call = {5, 2, {q, k[i], values[i], spans, position_view(block)}, {r.o, r.lse}, &params,
                               0, 1};
        run_kernel(v->forward, &call, pool);
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
        run_kernel(v->backward, &call, pool);
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
        fail_msg(
            "%s of %s %s: D %d Hq %d Hkv %d S %d P %d layout %d mask %s threads %d: error %.3g, at most %.3g",
            what, ls_isa_name(v->forward->isa), ls_dtype_name(v->forward->dtype), p->c.D, p->c.Hq, p->c.Hkv,
            p->c.S, p->c.P, (int)p->c.layout, p->c.mask, p->c.threads, error, limit);
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
    ls_machine machine;
    ls_machine_detect(&machine);
    for (ls_dtype T = LS_F32; T < LS_DTYPES; T++) {
        if (T != LS_F32 && T != LS_BF16) continue;
        problem p = problem_make(c, T);
        for (size_t v = 0; v < LS_COUNT(variants); v++) {
            if (variants[v].forward->dtype == T && variants[v].forward->isa <= machine.isa)
                check_case(&p, &variants[v]);
        }
        problem_free(&p);
    }
}

static void test_against_f64(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) for_each_variant(&cases[i]);
}

/* Sizes of nothing: no keys gives o 0 and lse -inf (or what was there, when merging); no queries gives dk and dv 0. */
static void test_empty(void **state) {
    (void)state;
    ls_machine machine;
    ls_machine_detect(&machine);
    for (size_t v = 0; v < LS_COUNT(variants); v++) {
        const variant *kernels = &variants[v];
        if (kernels->forward->isa > machine.isa) continue;
        for (int which = 0; which < 2; which++) {
            const int64_t n = which == 0 ? 5 : 0, t = which == 0 ? 0 : 5, spans_size[] = {1, n, 2},
                          kpos_size[] = {t};
            const ls_dtype T = kernels->forward->dtype;
            int32_t numbers[10] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5};
            ls_view q = dense(T, 1, n, 2, 16), k = dense(T, 1, t, 1, 16), o = dense(LS_F32, 1, n, 2, 16);
            ls_view lse = dense(LS_F32, 1, 2, n, 0), dk = dense(LS_F32, 1, t, 1, 16),
                    dv = dense(LS_F32, 1, t, 1, 16);
            const ls_view spans = ls_view_dense(numbers, LS_I32, 3, spans_size);
            const ls_view kpos = ls_view_dense(numbers, LS_I32, 1, kpos_size);
            const ls_attention_params params = {.scale = 1, .group = 2};
            ls_kernel_call call = {5, 2, {q, k, k, spans, kpos}, {o, lse}, &params, NULL, 1};
            run_kernel(kernels->forward, &call, NULL);
            for (int64_t i = 0; i < n * 2; i++) assert_true(((float *)lse.data)[i] == -INFINITY);
            for (int64_t i = 0; i < n * 32; i++) assert_true(((float *)o.data)[i] == 0);
            ls_kernel_call grad = {8, 3, {q, k, k, spans, kpos, q, lse, lse}, {o, dk, dv}, &params, NULL, 1};
            memset(o.data, 0xff, (size_t)n * 128);
            run_kernel(kernels->backward, &grad, NULL);
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
        cmocka_unit_test(test_against_f64),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
