/*
 * attention_merge of every instruction set and type, and of src/kernel/cuda, compiled for this host (tests/cuda),
 * against exponentials in long double: ordinary values, values far apart, extremes, and queries that see nothing.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/cuda/table.h"
#include "support/kernel_call.h"

enum { B = 2, N = 35, H = 3, D = 21, WIDE = D + 4, ROWS = B * H * N, ALL = B * N * H * WIDE };

static const double sums[] = {-INFINITY, -1e3, -7.5, 0, 0.25, 6, 1e3};

/* Every pair of `sums` occurs: rows are more than their number, and 7 does not divide 5. */
static double own_sum(int64_t row) { return sums[row % (int64_t)LS_COUNT(sums)]; }
static double part_sum(int64_t row) { return sums[row / (int64_t)LS_COUNT(sums) % (int64_t)LS_COUNT(sums)]; }

typedef struct state {
    double o[ALL], part[ALL], lse[ROWS], part_lse[ROWS];
} state;

static int64_t at(int64_t row) { /* of [B,N,H,WIDE], for a row of [B,H,N] */
    const int64_t b = row / (H * N), h = row / N % H, i = row % N;
    return ((b * N + i) * H + h) * WIDE;
}

static state make(void) {
    state s;
    fill_normal(s.o, ALL, 1);
    fill_normal(s.part, ALL, 2);
    for (int64_t row = 0; row < ROWS; row++) {
        s.lse[row] = own_sum(row);
        s.part_lse[row] = part_sum(row);
        for (int64_t d = 0; d < D; d++) {
            if (isinf(s.lse[row])) s.o[at(row) + d] = 0;
            if (isinf(s.part_lse[row])) s.part[at(row) + d] = 0;
        }
    }
    for (int64_t i = 0; i < ALL; i++) { /* the same numbers in f32 */
        s.o[i] = floor(s.o[i] * 0x1p16) * 0x1p-16;
        s.part[i] = floor(s.part[i] * 0x1p16) * 0x1p-16;
    }
    return s;
}

static void expect(state *s) {
    for (int64_t row = 0; row < ROWS; row++) {
        const double most = fmax(s->lse[row], s->part_lse[row]);
        if (isinf(most)) continue;
        const long double mine = expl((long double)s->lse[row] - most);
        const long double other = expl((long double)s->part_lse[row] - most);
        double *o = s->o + at(row);
        const double *part = s->part + at(row);
        for (int64_t d = 0; d < D; d++) o[d] = (double)((mine * o[d] + other * part[d]) / (mine + other));
        s->lse[row] = (double)(most + logl(mine + other));
    }
}

static void to_real(void *to, const double *from, int64_t n, bool wide) {
    for (int64_t i = 0; i < n; i++) {
        if (wide)
            ((double *)to)[i] = from[i];
        else
            ((float *)to)[i] = (float)from[i];
    }
}

static double real_at(const void *data, int64_t i, bool wide) {
    return wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static ls_view rows_of(void *data, ls_dtype G) {
    ls_view view = VIEW(data, G, B, N, H, WIDE);
    view.size[3] = D;
    return view;
}

static void check(const ls_kernel *kernel, int threads) {
    static double o[ALL], part[ALL], lse[ROWS], part_lse[ROWS];
    const ls_dtype G = ls_dtype_accumulator(kernel->dtype);
    const bool wide = G == LS_F64;
    state s = make();
    to_real(o, s.o, ALL, wide);
    to_real(part, s.part, ALL, wide);
    to_real(lse, s.lse, ROWS, wide);
    to_real(part_lse, s.part_lse, ROWS, wide);
    call_kernel_on(kernel, threads,
                   (ls_kernel_call){.n_in = 2,
                                    .n_out = 2,
                                    .in = {rows_of(part, G), VIEW(part_lse, G, B, H, N)},
                                    .out = {rows_of(o, G), VIEW(lse, G, B, H, N)}});
    const double tolerance = wide ? 1e-15 : 3e-7;
    expect(&s);
    for (int64_t row = 0; row < ROWS; row++) {
        const double is = real_at(lse, row, wide), off = fabs(is - s.lse[row]);
        if (is != s.lse[row] && !(off <= tolerance * fmax(1, fabs(s.lse[row]))))
            fail_msg("lse of %g and %g is %.9g, expected %.9g", own_sum(row), part_sum(row), is, s.lse[row]);
        for (int64_t d = 0; d < WIDE; d++) { /* behind D nothing may change */
            const double x = real_at(o, at(row) + d, wide), expected = s.o[at(row) + d];
            if (!(fabs(x - expected) <= (d < D ? 4 * tolerance : 0)))
                fail_msg("o[%d] of %g and %g is %.17g, expected %.17g", (int)d, own_sum(row), part_sum(row), x,
                         expected);
        }
    }
}

static void test_every_isa(void **unused) {
    (void)unused;
    const ls_kernel *kernel;
    int kernels = 0;
    for (int i = 0; (kernel = ls_kernel_at(i)) != NULL; i++) {
        if (kernel->id != LS_KERNEL_ATTENTION_MERGE || !kernel_runs_here(kernel)) continue;
        for (int threads = 1; threads <= 3; threads++) check(kernel, threads);
        kernels++;
    }
    assert_in_range(kernels, 4, 100); /* f32 and f64 of ref, f32 and bf16 of base */
}

static void test_cuda(void **unused) {
    (void)unused;
    int kernels = 0;
    for (const ls_kernel *const *row = ls_cuda_kernels; *row != NULL; row++) {
        if ((*row)->id != LS_KERNEL_ATTENTION_MERGE) continue;
        check(*row, 1);
        kernels++;
    }
    assert_int_equal(kernels, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_isa), cmocka_unit_test(test_cuda)};
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
