/*
 * matmul of src/kernel/cpu against the f64 reference: all transpositions, sizes on and off the blocks, bias,
 * accumulation, f32 and bf16 results. A second call gives the same bits, Longspan's own products also with any
 * number of threads. oneDNN starts no thread. oneDNN has one function for all instruction sets and chooses by the
 * processor, so this test forces its instruction sets one by one.
 */
#include "kernel/cpu/matmul_impl.h"
#include "support/covering.h"
#include "support/emulated.h"
#include "support/kernel_call.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <dnnl.h>

typedef struct product {
    int64_t M, N, K;
    bool bias;
    ls_matmul_params params;
    ls_dtype in, out;
} product;

/* An array of a type, and the same values (after rounding) in f64. */
typedef struct array {
    double *exact;
    void *typed;
    ls_dtype dtype;
    int64_t n;
} array;

static array make_array(ls_dtype dtype, int64_t n, uint64_t stream) {
    array a = {malloc(sizeof(double) * (size_t)n), malloc(ls_dtype_bytes(dtype) * (size_t)n), dtype, n};
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)ls_rng_normal(5, stream, (uint64_t)i);
        const ls_bf16 half = ls_bf16_from_f32(value);
        if (dtype == LS_BF16)
            ((ls_bf16 *)a.typed)[i] = half;
        else
            ((float *)a.typed)[i] = value;
        a.exact[i] = dtype == LS_BF16 ? (double)ls_bf16_to_f32(half) : (double)value;
    }
    return a;
}

static void free_array(array *a) {
    free(a->exact);
    free(a->typed);
}

static ls_view matrix(const array *a, bool exact, int64_t rows, int64_t columns) {
    return VIEW(exact ? (void *)a->exact : a->typed, exact ? LS_F64 : a->dtype, rows, columns);
}

static ls_kernel_call make_call(const product *p, const array x[4], bool exact) {
    const bool ta = p->params.transpose_a, tb = p->params.transpose_b;
    ls_kernel_call call = {.n_in = p->bias ? 3 : 2, .n_out = 1, .params = &p->params};
    call.in[0] = matrix(&x[0], exact, ta ? p->K : p->M, ta ? p->M : p->K);
    call.in[1] = matrix(&x[1], exact, tb ? p->N : p->K, tb ? p->K : p->N);
    call.in[2] = VIEW(exact ? (void *)x[2].exact : x[2].typed, exact ? LS_F64 : p->in, p->N);
    call.out[0] = matrix(&x[3], exact, p->M, p->N);
    return call;
}

static double error_of(const array *c) {
    double error = 0, norm = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const double got =
            c->dtype == LS_BF16 ? (double)ls_bf16_to_f32(((ls_bf16 *)c->typed)[i]) : (double)((float *)c->typed)[i];
        if (isnan(got)) return INFINITY;
        error += (got - c->exact[i]) * (got - c->exact[i]);
        norm += c->exact[i] * c->exact[i];
    }
    return error == 0 ? 0 : sqrt(error / norm);
}

/* What C holds before: numbers to add to, or NaN that must go. */
static void set_c(array *c, bool accumulate) {
    if (!accumulate) memset(c->typed, 0xff, ls_dtype_bytes(c->dtype) * (size_t)c->n);
}

/* Products of our own: the same bits from any number of threads, too. Small ones are the library's. */
static bool is_ours(const product *p, ls_isa isa) {
#ifdef __aarch64__
    return ls_isa_allows(isa, LS_FEATURE_BASELINE) && p->K > 0;
#endif
    if (p->in == LS_BF16) return ls_isa_allows(isa, LS_FEATURE_AMX_BF16) && p->M >= 32;
    if (!ls_isa_allows(isa, LS_FEATURE_AVX2) || p->M < 128 || p->N < 512 || p->K < 128) return false;
    return ls_isa_allows(isa, LS_FEATURE_AVX512) || (p->K <= 8192 && (p->M <= 512 || p->K <= 512));
}

static void check(const product *p, ls_isa isa) {
    const bool ours = is_ours(p, isa);
    array x[4] = {make_array(p->in, p->M * p->K, 0), make_array(p->in, p->K * p->N, 1), make_array(p->in, p->N, 2),
                  make_array(p->out, p->M * p->N, 3)};
    const size_t bytes = ls_dtype_bytes(p->out) * (size_t)x[3].n;
    set_c(&x[3], p->params.accumulate);
    void *const before = memcpy(malloc(bytes), x[3].typed, bytes), *const first = malloc(bytes);
    run_kernel("matmul", LS_F64, LS_ISA_REF, 1, make_call(p, x, true));
    /* One thread has the same bits, as the run that is repeated has found. */
    const int least_threads = is_repeated() ? 2 : 1, most_threads = is_repeated() ? 2 : 3;
    const int times = is_repeated() ? 1 : 2;
    for (int threads = least_threads; threads <= most_threads; threads++) {
        for (int time = 0; time < times; time++) {
            memcpy(x[3].typed, before, bytes);
            run_kernel("matmul", p->in, isa, threads, make_call(p, x, false));
            if (time == 0 && (threads == least_threads || !ours)) memcpy(first, x[3].typed, bytes);
        }
        const double error = error_of(&x[3]);
        if (!(error <= (p->out == LS_BF16 ? 0x1.01p-8 : 2e-6)))
            fail_msg(
                "matmul on %s, %s to %s, M %lld N %lld K %lld, transposed %d %d, bias %d, accumulate %d, %d threads: "
                "error %g",
                ls_isa_name(isa), ls_dtype_name(p->in), ls_dtype_name(p->out), (long long)p->M, (long long)p->N,
                (long long)p->K, p->params.transpose_a, p->params.transpose_b, p->bias, p->params.accumulate, threads,
                error);
        assert_memory_equal(first, x[3].typed, bytes);
    }
    free(before);
    free(first);
    for (int i = 0; i < 4; i++) free_array(&x[i]);
}

typedef struct shape {
    int64_t M, N, K;
} shape;

/* Every shape with and without bias, transpositions and accumulation; repeated by an emulator, every pair of these. */
static void check_shapes(const shape *shapes, size_t n_shapes, ls_dtype in, ls_dtype out, ls_isa isa) {
    const covering_axes axes = {.n = 5, .size = {(int)n_shapes, 2, 2, 2, 2}};
    int n, pairs;
    covering_row *rows = is_repeated() ? covering_make(&axes, &n, &pairs) : covering_product(&axes, &n);
    for (int i = 0; i < n; i++) {
        const int *at = rows[i].at;
        const shape *s = &shapes[at[0]];
        const product p = {s->M, s->N, s->K, at[1], {at[2], at[3], at[4]}, in, out};
        check(&p, isa);
    }
    free(rows);
}

static void check_on_base(ls_dtype in, ls_dtype out) {
    static const shape shapes[] = {{1, 1, 1},    {3, 5, 7},      {1, 300, 64},  {97, 1, 33}, {64, 64, 64},
                                   {130, 67, 9}, {70, 129, 260}, {20, 700, 31}, {257, 96, 1}};
    check_shapes(shapes, LS_COUNT(shapes), in, out, LS_ISA_BASE);
}

static void f32_products(void **unused) {
    (void)unused;
    check_on_base(LS_F32, LS_F32);
}

static void bf16_products_to_f32(void **unused) {
    (void)unused;
    check_on_base(LS_BF16, LS_F32);
}

static void bf16_products_to_bf16(void **unused) {
    (void)unused;
    check_on_base(LS_BF16, LS_BF16);
}

/* On AMX: ragged edges, several passes over K whose sums wait in C or apart, and then a few rows at a time. */
static void products_in_tiles(void **unused) {
    (void)unused;
    static const shape tiled[] = {{32, 1, 1},    {65, 33, 40},   {70, 129, 260},
                                  {257, 96, 64}, {96, 65, 2100}, {64, 64, 4200}};
    static const product large = {70, 8200, 2049, false, {false, false, false}, LS_BF16, LS_BF16};
    if (ls_isa_check(LS_ISA_AMX).code != LS_OK) {
        print_message("no AMX here: not run\n");
        skip();
    }
    check_shapes(tiled, LS_COUNT(tiled), LS_BF16, LS_BF16, LS_ISA_AMX);
    check_shapes(tiled, LS_COUNT(tiled), LS_BF16, LS_F32, LS_ISA_AMX);
    check(&large, LS_ISA_AMX);
}

/* Ragged edges, several parts of rows, several passes over K. */
static void products_in_vectors(void **unused) {
    (void)unused;
    static const shape shapes[] = {{131, 573, 193}, {128, 512, 128}, {210, 528, 129}};
    const size_t n_shapes = is_repeated() ? 1 : LS_COUNT(shapes); /* the first has ragged edges everywhere */
    const int64_t K = is_repeated() ? 1100 : 5000;                /* for two passes on AVX2 1100 are enough */
    const product deep = {130, 515, K, true, {false, true, true}, LS_F32, LS_F32};
#ifdef __aarch64__
    static const ls_isa isas[] = {LS_ISA_BASE};
#else
    static const ls_isa isas[] = {LS_ISA_AVX2, LS_ISA_AVX512};
#endif
    if (ls_isa_check(isas[0]).code != LS_OK) {
        print_message("no AVX2 here: not run\n");
        skip();
    }
    for (size_t i = 0; i < LS_COUNT(isas); i++) {
        const ls_isa isa = isas[i];
        if (ls_isa_check(isa).code != LS_OK) continue;
        check_shapes(shapes, n_shapes, LS_F32, LS_F32, isa);
        if (is_repeated() && is_emulated()) continue; /* it takes long there, and its kernels are those of the shapes */
        check(&deep, isa);
    }
}

static int count_threads(void) {
    DIR *folder = opendir("/proc/self/task");
    int n = 0;
    if (!folder) return 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

/*
 * Large enough for the library to want threads; a sanitizer may have one thread of its own, so the count is compared.
 */
static void no_threads_of_its_own(void **unused) {
    (void)unused;
#ifdef __SANITIZE_THREAD__
    skip(); /* the sanitizer starts a thread itself */
#endif
    const int before = count_threads();
    const int64_t n = is_repeated() ? 128 : 512;
    const product p = {n, n, n / 2, true, {false, true, false}, LS_F32, LS_F32};
    check(&p, LS_ISA_BASE);
    /* A thread of the pool that has been joined may be listed for a moment more; the library's would stay. */
    for (int i = 0; i < 500 && count_threads() > before; i++) usleep(10000);
    assert_int_equal(count_threads(), before);
}

static void small_products(void) {
    static const shape small[] = {{65, 33, 40}};
    static const ls_dtype types[][2] = {{LS_F32, LS_F32}, {LS_BF16, LS_F32}, {LS_BF16, LS_BF16}};
    for (size_t t = 0; t < LS_COUNT(types); t++)
        check_shapes(small, LS_COUNT(small), types[t][0], types[t][1], LS_ISA_BASE);
}

/*
 * bf16 on a processor without AVX-512, say. A child process each, because the library settles its instruction set once.
 */
static void every_isa_of_the_library(void **unused) {
#ifndef __x86_64__
    skip(); /* elsewhere no product is the library's */
#endif
    (void)unused;
    static const struct {
        const char *name;
        dnnl_cpu_isa_t most;
    } isas[] = {{"sse41", dnnl_cpu_isa_sse41},
                {"avx2", dnnl_cpu_isa_avx2},
                {"avx512_core", dnnl_cpu_isa_avx512_core},
                {"avx512_core_bf16", dnnl_cpu_isa_avx512_core_bf16}};
    for (size_t i = 0; i < LS_COUNT(isas); i++) {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (dnnl_set_max_cpu_isa(isas[i].most) != dnnl_success) _exit(3);
            small_products();
            _exit(0);
        }
        int result = 0;
        assert_int_equal(waitpid(child, &result, 0), child);
        if (!WIFEXITED(result) || WEXITSTATUS(result) != 0)
            fail_msg("products with no more than %s: the child ended with status %d", isas[i].name, result);
    }
}

/*
 * What a product of one row needs is the same before and after one that differs in nothing but how far its rows are
 * apart, which for one row means nothing. The library keeps descriptions and takes the two for equal.
 */
static void one_row_needs_the_same_at_all_strides(void **unused) {
    (void)unused;
    for (int64_t N = 24; N <= 136; N += 8) {
        const ls_cpu_product apart = {.M = 1,
                                      .N = N,
                                      .K = 72,
                                      .a_row = 72,
                                      .a_column = 1,
                                      .b_row = 1,
                                      .b_column = 72,
                                      .c_row = N + 32,
                                      .in = LS_F32,
                                      .out = LS_F32};
        ls_cpu_product dense = apart;
        dense.c_row = N;
        size_t first, between, again;
        assert_int_equal(ls_onednn_scratch(&apart, &first).code, LS_OK);
        assert_int_equal(ls_onednn_scratch(&dense, &between).code, LS_OK);
        assert_int_equal(ls_onednn_scratch(&apart, &again).code, LS_OK);
        if (first != between || first != again)
            fail_msg("N %d: %zu bytes of scratch, %zu where rows are dense, and then %zu", (int)N, first, between,
                     again);
    }
}

static void wrong_shapes_are_refused(void **unused) {
    (void)unused;
    const ls_matmul_params params = {0};
    const ls_kernel_call call = {.n_in = 2,
                                 .n_out = 1,
                                 .in = {VIEW(NULL, LS_F32, 3, 4), VIEW(NULL, LS_F32, 5, 6)},
                                 .out = {VIEW(NULL, LS_F32, 3, 6)},
                                 .params = &params};
    assert_int_equal(prepare_kernel("matmul", LS_F32, LS_ISA_BASE, call).code, LS_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_isa_of_the_library), /* first: a child must not inherit a settled library */
        cmocka_unit_test(no_threads_of_its_own),    /* next: before any product could have started them */
        cmocka_unit_test(one_row_needs_the_same_at_all_strides),
        cmocka_unit_test(f32_products),
        cmocka_unit_test(bf16_products_to_f32),
        cmocka_unit_test(bf16_products_to_bf16),
        cmocka_unit_test(products_in_tiles),
        cmocka_unit_test(products_in_vectors),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
