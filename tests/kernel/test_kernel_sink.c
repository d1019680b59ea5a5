/*
 * attention_sink and attention_sink_grad, every kernel that this machine runs, and those of src/kernel/cuda, compiled
 * for this host (tests/cuda), against the softmax with one more key, in f64, over rows that see many, few and no keys;
 * and attention_grad of a query that sees nothing.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/cuda/table.h"
#include "support/kernel_call.h"

enum { B = 2, N = 37, H = 3, HEADS = 4 /* in memory: o lies with gaps */, ROWS = B * N * H, MOST = 64 };

/* Log-sum-exps that come in, and sinks: near each other, far apart, and nothing at all. */
static const double levels[] = {0.25, -1.5, 3, -INFINITY, 1e3, -1e3, 2};
static const double sinks[][H] = {{0, -0.75, 1.25}, {1e3, -1e3, 5}, {-INFINITY, 2, -INFINITY}};

static double get(const void *data, ls_dtype dtype, int64_t i) {
    if (dtype == LS_F64) return ((const double *)data)[i];
    if (dtype == LS_F32) return (double)((const float *)data)[i];
    return (double)ls_bf16_to_f32(((const ls_bf16 *)data)[i]);
}

static void *typed(ls_dtype dtype, int64_t n, const double *values) {
    char *data = malloc((size_t)n * 8);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == LS_F64)
            ((double *)data)[i] = values[i];
        else if (dtype == LS_F32)
            ((float *)data)[i] = (float)values[i];
        else
            ((ls_bf16 *)data)[i] = ls_bf16_from_f32((float)values[i]);
    }
    return data;
}

/* The row of lse [B,H,N] as it comes in; o is 0 where it is -inf. */
static double level_of(int64_t row) { return levels[row % (int64_t)LS_COUNT(levels)]; }
static int64_t head_of(int64_t row) { return row / N % H; }

/* Where element d of that row lies in o [B,N,HEADS,D]. */
static int64_t place_of(int64_t row, int64_t D, int64_t d) {
    return ((row / (N * H) * N + row % N) * HEADS + head_of(row)) * D + d;
}

static void close_to(const ls_kernel *kernel, const char *what, double is, double expected, double unit) {
    const double tolerance = kernel->dtype == LS_F64 ? 1e-14 : 3e-7;
    if (is == expected || fabs(is - expected) <= tolerance * fmax(unit, fabs(expected))) return;
    fail_msg("%s %s %s: %s is %.17g, expected %.17g", ls_kernel_name(kernel), kernel_isa_name(kernel),
             ls_dtype_name(kernel->dtype), what, is, expected);
}

static void check_merge(const ls_kernel *kernel, int64_t D, const double *sink, int threads) {
    static double o[B * N * HEADS * MOST], lse[ROWS];
    const ls_dtype T = kernel->dtype, G = ls_dtype_accumulator(T);
    fill_normal(o, B * N * HEADS * D, 3);
    for (int64_t row = 0; row < ROWS; row++) {
        lse[row] = level_of(row);
        for (int64_t d = 0; d < D && lse[row] == -INFINITY; d++) o[place_of(row, D, d)] = 0;
    }
    void *out = typed(G, B * N * HEADS * D, o), *sums = typed(G, ROWS, lse), *in = typed(T, H, sink);
    const ls_view view = ls_view_slice(VIEW(out, G, B, N, HEADS, D), 2, 0, H);
    call_kernel_on(
        kernel, threads,
        (ls_kernel_call){.n_in = 1, .n_out = 2, .in = {VIEW(in, T, H)}, .out = {view, VIEW(sums, G, B, H, N)}});
    for (int64_t row = 0; row < ROWS; row++) {
        const double seen = level_of(row), more = sink[head_of(row)], most = fmax(seen, more);
        const double total = most == -INFINITY ? 1 : exp(seen - most) + exp(more - most);
        const double share = most == -INFINITY ? 0 : exp(seen - most) / total;
        close_to(kernel, "lse", get(sums, G, row), most + log(total), 0);
        for (int64_t d = 0; d < D; d++)
            close_to(kernel, "o", get(out, G, place_of(row, D, d)), share * o[place_of(row, D, d)], 1);
    }
    for (int64_t i = 0; i < B * N * D; i++) { /* the head that is not this call's */
        const int64_t at = (i / D * HEADS + H) * D + i % D;
        assert_true(get(out, G, at) == get(out, G, at) && fabs(get(out, G, at) - o[at]) <= 1e-6);
    }
    free(out), free(sums), free(in);
}

static void check_grad(const ls_kernel *kernel, const double *sink, int threads) {
    static double lse[ROWS], delta[ROWS];
    const ls_dtype T = kernel->dtype, G = ls_dtype_accumulator(T);
    const double before[H] = {0.5, -2, 7};
    double expected[H], size[H] = {1, 1, 1};
    memcpy(expected, before, sizeof before);
    fill_normal(delta, ROWS, 5);
    for (int64_t row = 0; row < ROWS; row++) {
        const double more = sink[head_of(row)], most = fmax(level_of(row), more);
        lse[row] = most == -INFINITY ? most : most + log(exp(level_of(row) - most) + exp(more - most));
    }
    void *sums = typed(G, ROWS, lse), *deltas = typed(G, ROWS, delta), *in = typed(T, H, sink),
         *out = typed(G, H, before);
    for (int64_t row = 0; row < ROWS; row++) {
        const double whole = get(sums, G, row); /* rounded: near 1e3 that is what the error comes from */
        if (whole == -INFINITY) continue;
        const double part = exp(sink[head_of(row)] - whole) * get(deltas, G, row);
        expected[head_of(row)] -= part;
        size[head_of(row)] += fabs(part);
    }
    call_kernel_on(kernel, threads,
                   (ls_kernel_call){.n_in = 3,
                                    .n_out = 1,
                                    .in = {VIEW(in, T, H), VIEW(sums, G, B, H, N), VIEW(deltas, G, B, H, N)},
                                    .out = {VIEW(out, G, H)}});
    for (int64_t h = 0; h < H; h++) close_to(kernel, "dsink", get(out, G, h), expected[h], size[h]);
    free(sums), free(deltas), free(in), free(out);
}

/* Whether it is one of both. */
static bool check_kernel(const ls_kernel *kernel) {
    static const int64_t sizes[] = {1, 3, 20, 64};
    const bool merges = kernel->id == LS_KERNEL_ATTENTION_SINK;
    if (!merges && kernel->id != LS_KERNEL_ATTENTION_SINK_GRAD) return false;
    for (size_t s = 0; s < LS_COUNT(sinks); s++) {
        for (size_t d = 0; d < LS_COUNT(sizes) && merges; d++)
            check_merge(kernel, sizes[d], sinks[s], 1 + (int)(d % 3));
        if (!merges) check_grad(kernel, sinks[s], 1 + (int)s);
    }
    return true;
}

static void test_every_kernel(void **state) {
    (void)state;
    const ls_kernel *kernel;
    int kernels = 0;
    for (int i = 0; (kernel = ls_kernel_at(i)) != NULL; i++)
        kernels += kernel_runs_here(kernel) && check_kernel(kernel);
    assert_in_range(kernels, 8, 100); /* f32 and f64 of ref, f32 and bf16 of base, twice */
}

static void test_cuda(void **state) {
    (void)state;
    int kernels = 0;
    for (const ls_kernel *const *row = ls_cuda_kernels; *row != NULL; row++) kernels += check_kernel(*row);
    assert_int_equal(kernels, 4);
}

/* Both of a batch's queries see key 0, or nothing: o 0, lse the sink, and every gradient of the blind one 0. */
static void test_blind_query(void **state) {
    (void)state;
    float q[2] = {1, 2}, k[1] = {3}, v[1] = {4}, o[2] = {NAN, NAN}, lse[2] = {NAN, NAN}, dO[2] = {5, 6};
    float sink[1] = {0.5}, delta[2], dq[2] = {NAN, NAN}, dk[1] = {NAN}, dv[1] = {NAN}, dsink[1] = {0};
    int32_t spans[4] = {0, 1, 0, 0}, kpos[1] = {0};
    const ls_attention_params params = {.scale = 0.1, .group = 1};
    const ls_view rows = VIEW(q, LS_F32, 1, 2, 1, 1), keys = VIEW(k, LS_F32, 1, 1, 1, 1),
                  values = VIEW(v, LS_F32, 1, 1, 1, 1), out = VIEW(o, LS_F32, 1, 2, 1, 1),
                  sums = VIEW(lse, LS_F32, 1, 1, 2), grad_o = VIEW(dO, LS_F32, 1, 2, 1, 1),
                  deltas = VIEW(delta, LS_F32, 1, 1, 2), logit = VIEW(sink, LS_F32, 1),
                  seen = VIEW(spans, LS_I32, 1, 2, 2), at = VIEW(kpos, LS_I32, 1);
    for (ls_isa isa = LS_ISA_REF; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        dsink[0] = 0;
        run_kernel("attention", LS_F32, isa, 1,
                   (ls_kernel_call){5, 2, {rows, keys, values, seen, at}, {out, sums}, &params, NULL, 1});
        run_kernel("attention_sink", LS_F32, isa, 1,
                   (ls_kernel_call){.n_in = 1, .n_out = 2, .in = {logit}, .out = {out, sums}});
        const double weight = 1 / (1 + exp(0.5 - 0.1 * 1 * 3)); /* of key 0 for query 0 */
        assert_true(fabs((double)o[0] - 4 * weight) < 1e-5 && o[1] == 0 && lse[1] == 0.5F);
        run_kernel("attention_delta", LS_F32, isa, 1,
                   (ls_kernel_call){.n_in = 2, .n_out = 1, .in = {out, grad_o}, .out = {deltas}});
        run_kernel(
            "attention_sink_grad", LS_F32, isa, 1,
            (ls_kernel_call){.n_in = 3, .n_out = 1, .in = {logit, sums, deltas}, .out = {VIEW(dsink, LS_F32, 1)}});
        run_kernel(
            "attention_grad", LS_F32, isa, 1,
            (ls_kernel_call){8,
                             3,
                             {rows, keys, values, seen, at, grad_o, sums, deltas},
                             {VIEW(dq, LS_F32, 1, 2, 1, 1), VIEW(dk, LS_F32, 1, 1, 1, 1), VIEW(dv, LS_F32, 1, 1, 1, 1)},
                             &params,
                             NULL,
                             1});
        const double slope = weight * (1 - weight) * 4 * 5; /* of the loss o·dO, by the logit of key 0 */
        assert_true(fabs((double)dsink[0] + slope) < 1e-5 && dq[1] == 0);
        assert_true(fabs((double)dq[0] - slope * 0.1 * 3) < 1e-5);
        assert_true(fabs((double)dk[0] - slope * 0.1 * 1) < 1e-5);
        assert_true(fabs((double)dv[0] - weight * 5) < 1e-5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kernel),
        cmocka_unit_test(test_cuda),
        cmocka_unit_test(test_blind_query),
    };
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
