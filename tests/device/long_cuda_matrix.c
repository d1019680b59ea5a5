/*
 * The matrix (support/matrix.h) on the device cuda: the kernels of src/kernel/cuda, compiled for this host, on the
 * streams of the driver for tests. Of the covering set each n-th case, in f32 and bf16: gradients against one rank in
 * f64, by the bounds that hold on the processor.
 */
#include "support/fake_cuda.h"
#include "support/matrix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { EVERY = 150 }; /* a case takes some 10 s here */

static void test_f32(void **state) {
    (void)state;
    assert_in_range(matrix_run_cover(LS_F32, "cuda", 1, EVERY), 12, 1000);
}

static void test_bf16(void **state) {
    (void)state;
    assert_in_range(matrix_run_cover(LS_BF16, "cuda", 2, EVERY), 12, 1000);
}

int main(void) {
    use_fake_cuda("devices=4"); /* of 16 ranks each has four */
    use_emulated_kernels();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
