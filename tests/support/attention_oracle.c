#include "support/attention_oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int32_t document_ends[] = {0, 37, 37, 38, 200, 300, 450};

void *filled(int64_t count, size_t size) {
    const size_t bytes = (size_t)count * size;
    void *p = malloc(bytes + 64);
    LS_ASSERT(p != NULL);
    memset(p, 0xff, bytes + 64); /* NaN in every floating type */
    return p;
}

static void *zeroed(int64_t count, size_t size) {
    void *p = calloc((size_t)count + 1, size);
    LS_ASSERT(p != NULL);
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
            LS_ASSERT(status.code == LS_OK);
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

/* The logit of a product q·k, with a soft cap if there is one, and its derivative by the product. */
static double logit_of(const problem *p, double product) {
    const double x = p->scale * product, c = p->c.softcap;
    return c > 0 ? c * tanh(x / c) : x;
}

static double slope_of(const problem *p, double product) {
    const double c = p->c.softcap;
    return c > 0 ? p->scale / pow(cosh(p->scale * product / c), 2) : p->scale;
}

/* One query row of the oracle: scores of all keys, softmax, o, and its part of every gradient. */
static void oracle_row(problem *p, int64_t b, int64_t i, int h) {
    const test_case *c = &p->c;
    const int kv = kv_of(c, h), D = c->D, E = c->E;
    const int64_t row = (b * p->n + i) * c->Hq + h;
    const float *q = p->q + row * D, *dout = p->dout + row * E;
    double *o = p->o + row * E;
    double most = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < c->P; r++) {
            for (int64_t j = 0; j < p->block[r].t; j++) {
                if (!sees(p, b, i, p->block[r].kpos[j])) continue;
                const int64_t at = (b * p->block[r].t + j) * c->Hkv + kv;
                const double s = logit_of(p, dot(q, p->block[r].k + at * D, D));
                if (pass == 0) {
                    most = fmax(most, s);
                    continue;
                }
                sum += exp(s - most);
                for (int d = 0; d < E; d++) o[d] += exp(s - most) * p->block[r].v[at * E + d];
            }
        }
    }
    p->lse[(b * c->Hq + h) * p->n + i] = sum > 0 ? most + log(sum) : -INFINITY;
    double delta = 0;
    for (int d = 0; d < E; d++) {
        if (sum > 0) o[d] /= sum;
        delta += o[d] * dout[d];
    }
    p->delta[(b * c->Hq + h) * p->n + i] = (float)delta;
    for (int r = 0; r < c->P; r++) {
        const key_block *block = &p->block[r];
        for (int64_t j = 0; j < block->t; j++) {
            if (!sees(p, b, i, block->kpos[j])) continue;
            const int64_t at = (b * block->t + j) * c->Hkv + kv;
            const double product = dot(q, block->k + at * D, D);
            const double prob = exp(logit_of(p, product) - most) / sum;
            const double ds = slope_of(p, product) * prob * (dot(dout, block->v + at * E, E) - delta);
            for (int d = 0; d < E; d++) block->dv[at * E + d] += prob * dout[d];
            for (int d = 0; d < D; d++) {
                block->dk[at * D + d] += ds * q[d];
                p->dq[row * D + d] += ds * block->k[at * D + d];
            }
        }
    }
}

problem problem_make(const test_case *c, ls_dtype dtype) {
    problem p = {.c = *c, .scale = c->scale != 0 ? c->scale : 1 / sqrt(c->D)};
    if (c->E == 0) p.c.E = c->D;
    uint64_t seed = 12345;
    const double spread = c->spread != 0 ? c->spread : 1;
    const ls_mask mask = parse_mask(c->mask);
    const ls_layout_mask masks[] = {{&mask, 1}};
    const ls_layout_need need = {.kind = c->layout, .S = c->S, .P = c->P, .masks = masks, .n_masks = LS_COUNT(masks)};
    ls_arena *arena = ls_arena_create();
    const ls_layout layout = ls_layout_make(&need, arena);
    p.n = ls_layout_count(&layout, c->rank);
    p.w = ls_mask_width(&mask);
    int32_t *all = filled(p.n, sizeof *all);
    ls_layout_positions(&layout, c->rank, all);
    const int64_t held = p.n;
    if (c->queries > 0) p.n = c->queries;
    const int32_t *positions = all + held - p.n;
    p.spans = filled(c->B * p.n * p.w, sizeof *p.spans);
    for (int b = 0; b < c->B; b++) {
        ls_mask_table(&mask, c->S, positions, p.n, p.spans + b * p.n * p.w);
        if (b == 1 && p.n > 2)
            memset(p.spans + (b * p.n + 1) * p.w, 0, sizeof *p.spans * (size_t)p.w); /* sees no key */
    }
    free(all);
    const int64_t rows = c->B * p.n * c->Hq;
    p.q = draw(rows * c->D, spread, dtype, &seed);
    p.dout = draw(rows * p.c.E, 1, dtype, &seed);
    p.o = zeroed(rows * p.c.E, sizeof *p.o);
    p.dq = zeroed(rows * c->D, sizeof *p.dq);
    p.lse = zeroed(c->B * c->Hq * p.n, sizeof *p.lse);
    p.delta = zeroed(c->B * c->Hq * p.n, sizeof *p.delta);
    p.block = zeroed(c->P, sizeof *p.block);
    for (int r = 0; r < c->P; r++) {
        key_block *block = &p.block[r];
        block->t = ls_layout_count(&layout, r);
        block->kpos = filled(block->t, sizeof *block->kpos);
        ls_layout_positions(&layout, r, block->kpos);
        const int64_t keys = c->B * block->t * c->Hkv;
        block->k = draw(keys * c->D, spread, dtype, &seed);
        block->v = draw(keys * p.c.E, 1, dtype, &seed);
        block->dk = zeroed(keys * c->D, sizeof *block->dk);
        block->dv = zeroed(keys * p.c.E, sizeof *block->dv);
    }
    for (int64_t b = 0; b < c->B; b++) {
        for (int64_t i = 0; i < p.n; i++) {
            for (int h = 0; h < c->Hq; h++) oracle_row(&p, b, i, h);
        }
    }
    ls_arena_destroy(arena);
    return p;
}

void problem_free(problem *p) {
    for (int r = 0; r < p->c.P; r++) {
        key_block *block = &p->block[r];
        free(block->kpos), free(block->k), free(block->v), free(block->dk), free(block->dv);
    }
    free(p->block), free(p->spans), free(p->q), free(p->dout), free(p->o), free(p->dq), free(p->lse), free(p->delta);
}
