/*
 * attention and attention_grad of every instruction set and type on values that are not finite, or finite and huge,
 * against the reference in f64: no finite number hides a result that is not finite there, and logits near 1e30
 * choose the same key.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/kernel_call.h"

/* Few queries take another way than many; keys are more than a tile of either, the last ones not a whole block. */
enum { MOST = 40, T = 300, H = 2, D = 24, ROWS = MOST * H, NUMBERS = T * D, TYPES = 2 };
static const int64_t counts[] = {1, 5, MOST};
static const ls_dtype types[TYPES] = {LS_F32, LS_BF16};

/* Queries, keys and values of two query heads over one KV head; query i of n sees the first T - n + i + 1 keys. */
typedef struct problem {
    int64_t n;
    double softcap;
    double q[NUMBERS], k[NUMBERS], v[NUMBERS], dout[NUMBERS];
    double lse[ROWS], delta[ROWS]; /* of the reference, for every gradient */
} problem;

typedef struct result {
    double o[NUMBERS], lse[ROWS], dq[NUMBERS], dk[NUMBERS], dv[NUMBERS];
} result;

/* The numbers of an operand in a type that is given in numbers of f64. */
typedef struct operand {
    union {
        double f64[NUMBERS];
        float f32[NUMBERS];
        ls_bf16 bf16[NUMBERS];
    };
} operand;

static double rounded(double x, ls_dtype type) {
    return type == LS_BF16 ? (double)ls_bf16_to_f32(ls_bf16_from_f32((float)x)) : (double)(float)x;
}

static void *put(operand *to, const double *from, int64_t count, ls_dtype type) {
    for (int64_t i = 0; i < count; i++) {
        if (type == LS_F64) to->f64[i] = from[i];
        if (type == LS_F32) to->f32[i] = (float)from[i];
        if (type == LS_BF16) to->bf16[i] = ls_bf16_from_f32((float)from[i]);
    }
    return to;
}

static void get(double *to, const operand *from, int64_t count, ls_dtype type) {
    for (int64_t i = 0; i < count; i++) to[i] = type == LS_F64 ? from->f64[i] : (double)from->f32[i];
}

typedef struct operands {
    operand q, k, v, dout, lse, delta, o, dq, dk, dv;
    int32_t spans[2 * MOST], kpos[T];
} operands;

/* Forward and gradient; `own` says whether the gradient goes by the lse that this forward pass found. */
static void run(const problem *p, ls_dtype type, ls_isa isa, bool own, result *out) {
    static operands a;
    const int64_t n = p->n;
    const ls_dtype G = type == LS_F64 ? LS_F64 : LS_F32;
    const ls_attention_params params = {.scale = 0.25, .softcap = p->softcap, .group = H};
    for (int64_t i = 0; i < n; i++) a.spans[2 * i] = 0, a.spans[2 * i + 1] = (int32_t)(T - n + i + 1);
    for (int32_t j = 0; j < T; j++) a.kpos[j] = j;
    const ls_view q = VIEW(put(&a.q, p->q, n * H * D, type), type, 1, n, H, D);
    const ls_view k = VIEW(put(&a.k, p->k, T * D, type), type, 1, T, 1, D);
    const ls_view v = VIEW(put(&a.v, p->v, T * D, type), type, 1, T, 1, D);
    const ls_view dout = VIEW(put(&a.dout, p->dout, n * H * D, type), type, 1, n, H, D);
    const ls_view spans = VIEW(a.spans, LS_I32, 1, n, 2), kpos = VIEW(a.kpos, LS_I32, T);
    const ls_view o = VIEW(&a.o, G, 1, n, H, D), lse = VIEW(&a.lse, G, 1, H, n);
    run_kernel("attention", type, isa, 2, (ls_kernel_call){5, 2, {q, k, v, spans, kpos}, {o, lse}, &params, NULL, 0});
    get(out->o, &a.o, n * H * D, G);
    get(out->lse, &a.lse, n * H, G);
    if (!own) put(&a.lse, p->lse, n * H, G);
    const ls_view delta = VIEW(put(&a.delta, p->delta, n * H, G), G, 1, H, n);
    const ls_view dq = VIEW(&a.dq, G, 1, n, H, D), dk = VIEW(&a.dk, G, 1, T, 1, D), dv = VIEW(&a.dv, G, 1, T, 1, D);
    run_kernel("attention_grad", type, isa, 2,
               (ls_kernel_call){8, 3, {q, k, v, spans, kpos, dout, lse, delta}, {dq, dk, dv}, &params, NULL, 0});
    get(out->dq, &a.dq, n * H * D, G);
    get(out->dk, &a.dk, T * D, G);
    get(out->dv, &a.dv, T * D, G);
}

/* Ordinary numbers, as `type` has them. */
static void make(problem *p, int64_t n, double softcap, ls_dtype type) {
    *p = (problem){.n = n, .softcap = softcap};
    fill_normal(p->q, n * H * D, 1);
    fill_normal(p->k, T * D, 2);
    fill_normal(p->v, T * D, 3);
    fill_normal(p->dout, n * H * D, 4);
    for (int64_t i = 0; i < n * H * D; i++) p->q[i] = rounded(p->q[i], type), p->dout[i] = rounded(p->dout[i], type);
    for (int64_t i = 0; i < T * D; i++) p->k[i] = rounded(p->k[i], type), p->v[i] = rounded(p->v[i], type);
}

/* What is right, and with it lse and delta. */
static void answer(problem *p, result *right) {
    run(p, LS_F64, LS_ISA_REF, true, right);
    memcpy(p->lse, right->lse, sizeof p->lse);
    for (int64_t row = 0; row < p->n * H; row++) {
        const int64_t h = row / p->n, i = row % p->n;
        p->delta[row] = 0;
        for (int64_t d = 0; d < D; d++) {
            const int64_t at = (i * H + h) * D + d;
            p->delta[row] += right->o[at] * p->dout[at];
        }
    }
    run(p, LS_F64, LS_ISA_REF, true, right);
}

/* Whether this machine has the instruction set and there is a kernel for it and the type. */
static bool runs(ls_dtype type, int isa) {
    const ls_kernel *kernel;
    return find_kernel("attention", type, (ls_isa)isa, NULL, &kernel).code == LS_OK;
}

typedef struct place {
    const char *name;
    size_t offset;
    int64_t count; /* 0: as many as there are queries */
} place;

static const place places[] = {
    {"q", offsetof(problem, q), 0},
    {"k", offsetof(problem, k), T},
    {"v", offsetof(problem, v), T},
    {"dout", offsetof(problem, dout), 0},
};

static void hides_nothing(const double *found, const double *right, int64_t count, const char *what,
                          const char *where) {
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(right[i]) && isfinite(found[i]))
            fail_msg("%s: %s[%ld] is %g, in the reference %g", where, what, (long)i, found[i], right[i]);
    }
}

static double not_finite(int which) {
    const uint32_t all_ones = 0xffffffffu, quiet = 0x7fc00000u;
    float x;
    memcpy(&x, which == 0 ? &quiet : &all_ones, sizeof x);
    return which < 2 ? (double)x : which == 2 ? INFINITY : -INFINITY;
}

static void check_not_finite(const problem *given, const result *right, const char *what) {
    for (int t = 0; t < TYPES; t++) {
        for (int isa = LS_ISA_REF; isa < LS_ISA_COUNT; isa++) {
            static result found;
            char where[128];
            if (!runs(types[t], isa)) continue;
            run(given, types[t], (ls_isa)isa, false, &found);
            snprintf(where, sizeof where, "%s %s, %ld queries, softcap %g, %s", ls_isa_name((ls_isa)isa),
                     ls_dtype_name(types[t]), (long)given->n, given->softcap, what);
            hides_nothing(found.o, right->o, given->n * H * D, "o", where);
            hides_nothing(found.lse, right->lse, given->n * H, "lse", where);
            hides_nothing(found.dq, right->dq, given->n * H * D, "dq", where);
            hides_nothing(found.dk, right->dk, T * D, "dk", where);
            hides_nothing(found.dv, right->dv, T * D, "dv", where);
        }
    }
}

/* One row of an operand, or all of it, or one number. */
static void test_not_finite(void **state) {
    (void)state;
    static problem p;
    static result right;
    for (size_t c = 0; c < LS_COUNT(counts); c++) {
        for (int at = 0; at < (int)LS_COUNT(places) * 4; at++) {
            const place *in = &places[at / 4];
            const int which = at % 4, much = (at + (int)c) % 3;
            const int64_t rows = in->count ? in->count : counts[c] * H;
            make(&p, counts[c], at % 2 ? 2 : 0, LS_BF16);
            double *numbers = (double *)(void *)((char *)&p + in->offset);
            const int64_t first = much == 0 ? 0 : rows / 2 * D, count = much == 0 ? rows * D : much == 1 ? D : 1;
            for (int64_t i = first; i < first + count; i++) numbers[i] = not_finite(which);
            answer(&p, &right);
            char what[64];
            snprintf(what, sizeof what, "%g in %ld of %s", not_finite(which), (long)count, in->name);
            check_not_finite(&p, &right, what);
        }
    }
}

/* A logit that is no number among logits of -inf, which have no weight. */
static void test_among_nothing(void **state) {
    (void)state;
    static problem p;
    static result right;
    for (size_t c = 0; c < LS_COUNT(counts); c++) {
        make(&p, counts[c], 0, LS_BF16);
        for (int64_t i = 0; i < p.n * H * D; i++) p.q[i] = fabs(p.q[i]) + 0.125;
        for (int64_t i = D; i < T * D; i++) p.k[i] = -INFINITY;
        p.k[0] = NAN;
        answer(&p, &right);
        for (int64_t i = 0; i < p.n * H; i++) assert_true(isnan(right.lse[i]));
        check_not_finite(&p, &right, "nan among keys of -inf");
    }
}

/* A number that is not finite in lse or delta, which came from another rank, say. */
static void test_sums_that_are_not_finite(void **state) {
    (void)state;
    static problem p;
    static result right;
    for (int which = 0; which < 4; which++) {
        for (int in = 0; in < 2; in++) {
            make(&p, MOST, 0, LS_BF16);
            answer(&p, &right);
            (in ? p.delta : p.lse)[MOST / 2] = not_finite(which);
            static problem again;
            again = p;
            run(&again, LS_F64, LS_ISA_REF, false, &right);
            check_not_finite(&p, &right, in ? "delta" : "lse");
        }
    }
}

/* The largest error, relative to what is right but no less than `unit`. */
static double worst(const double *found, const double *right, int64_t count, double unit) {
    double error = 0;
    for (int64_t i = 0; i < count; i++) {
        const double here = fabs(found[i] - right[i]) / (unit + fabs(right[i]));
        if (!(here <= error)) error = here;
        if (isnan(error)) return INFINITY;
    }
    return error;
}

static void expect(double error, double limit, const char *what, double logit, ls_dtype type, int isa,
                   const problem *p) {
    if (!(error <= limit))
        fail_msg("%s of %s %s, %ld queries, softcap %g, largest logit %g: error %.3g, at most %.3g", what,
                 ls_isa_name((ls_isa)isa), ls_dtype_name(type), (long)p->n, p->softcap, logit, error, limit);
}

/*
 * One key of those that every query sees has half as much again as all others, of which each has the same: with logits
 * this large it alone is seen, and nothing is rounded away. Where gradients go by an lse that is rounded to f32, so
 * does P, which is 1.
 */
static void test_huge_logits(void **state) {
    (void)state;
    static const double sizes[] = {1e4, 3e9, 1e10, 1e12, 1.234567e15, 1e20, 1e30};
    static problem p;
    static result right, found;
    for (int at = 0; at < (int)(LS_COUNT(sizes) * LS_COUNT(counts)) * 4; at++) {
        const double size = sizes[at / 4 / (int)LS_COUNT(counts)], sign = at % 2 ? -1 : 1;
        const double cap = at % 4 < 2 ? 0 : 2 * size;
        const int64_t chosen = at % 3 == 0 ? 37 : 258;
        for (int t = 0; t < TYPES; t++) {
            make(&p, counts[at / 4 % (int)LS_COUNT(counts)], cap, types[t]);
            for (int64_t i = 0; i < p.n * H * D; i++) p.q[i] = rounded(sign * sqrt(size), types[t]);
            for (int64_t j = 0; j < T; j++) {
                const double share = j == chosen ? 1 + sign * 0.5 : 1;
                for (int64_t d = 0; d < D; d++) p.k[j * D + d] = rounded(sqrt(size) * share / 6, types[t]);
            }
            answer(&p, &right);
            for (int isa = LS_ISA_REF; isa < LS_ISA_COUNT; isa++) {
                if (!runs(types[t], isa)) continue;
                run(&p, types[t], (ls_isa)isa, true, &found);
                /* dS is a difference of two equal numbers, times rows this large. */
                const double unit = sqrt(size), limit = types[t] == LS_BF16 ? 0x1p-7 : 2e-3;
                expect(worst(found.o, right.o, p.n * H * D, 1), limit, "o", size, types[t], isa, &p);
                expect(worst(found.lse, right.lse, p.n * H, 1), 1e-6, "lse", size, types[t], isa, &p);
                if (isa == LS_ISA_REF) continue; /* whose P is e to what its lse was rounded by */
                expect(worst(found.dv, right.dv, T * D, 1), limit, "dv", size, types[t], isa, &p);
                expect(worst(found.dq, right.dq, p.n * H * D, unit), limit, "dq", size, types[t], isa, &p);
                expect(worst(found.dk, right.dk, T * D, unit), limit, "dk", size, types[t], isa, &p);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_among_nothing),
        cmocka_unit_test(test_sums_that_are_not_finite),
        cmocka_unit_test(test_huge_logits),
    };
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
