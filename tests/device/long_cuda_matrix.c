/*
 * The matrix (support/matrix.h) on the device cuda: the kernels of src/kernel/cuda, compiled for this host, on the
 * streams of the driver for tests; with LS_TEST_GPU=1 on this machine's GPU, which all ranks share. Of the covering set
 * each n-th case (LS_TEST_GPU_EVERY=N, on a GPU), in f32 and bf16: gradients against one rank in f64, by the bounds
 * that hold on the processor. Then the same of the cases with rsa on up to four ranks: it has kernels of its own.
 */
#include "support/fake_cuda.h"
#include "support/matrix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* A case takes some 10 s where kernels are emulated. On one GPU so many ranks have streams of their own. */
enum { EVERY = 150, EVERY_ON_GPU = 5, MOST_RANKS = 16, MOST_ON_GPU = 8, MOST_OF_RSA = 4, LEAST = 5 /* cases */ };

static int every_on_gpu(void) {
    const char *text = getenv("LS_TEST_GPU_EVERY");
    const int every = text != NULL ? atoi(text) : EVERY_ON_GPU;
    LS_ASSERT(every > 0);
    return every;
}

static int most_ranks(void) { return gpu_is_real() ? MOST_ON_GPU : MOST_RANKS; }

static int run_cover(ls_dtype dtype, int first, const char *strategy, int most) {
    return matrix_run_cover(&(matrix_part){.dtype = dtype,
                                           .strategy = strategy,
                                           .device = "cuda",
                                           .first = first,
                                           .every = gpu_is_real() ? every_on_gpu() : EVERY,
                                           .most_ranks = most});
}

static void test_f32(void **state) {
    (void)state;
    assert_in_range(run_cover(LS_F32, 1, NULL, most_ranks()), LEAST, 1000);
}

static void test_bf16(void **state) {
    (void)state;
    assert_in_range(run_cover(LS_BF16, 2, NULL, most_ranks()), LEAST, 1000);
}

static void test_rsa(void **state) {
    (void)state;
    assert_in_range(run_cover(LS_F32, 3, "rsa", MOST_OF_RSA), LEAST, 1000);
    assert_in_range(run_cover(LS_BF16, 4, "rsa", MOST_OF_RSA), LEAST, 1000);
}

int main(void) {
    use_gpu("devices=4"); /* of 16 ranks each has four */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_rsa)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
