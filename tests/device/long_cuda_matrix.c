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

typedef struct work {
    ls_dtype dtype;
    const matrix_case *cases;
    int n, first, every;
} work;

static void add_account(void *sum, const void *account) { matrix_account_add(sum, account); }

static void run_list(test_part part, const void *input, void *account) {
    const work *w = input;
    matrix *m = matrix_open(w->dtype, account);
    matrix_run_on(m, "cuda");
    for (int i = w->first + w->every * part.index; i < w->n; i += w->every * part.parts) matrix_check(m, &w->cases[i]);
    matrix_close(m);
}

static int run_some(ls_dtype dtype, int first, int every) {
    matrix_account sum = {0};
    work w = {.dtype = dtype, .first = first, .every = every};
    matrix_case *cases = matrix_cover(&w.n);
    w.cases = cases;
    use_fake_cuda("devices=4");
    use_emulated_kernels();
    run_workers((test_part){0, 1}, run_list, &w, sizeof sum, add_account, &sum);
    free(cases);
    return matrix_report(dtype, &sum);
}

static void test_f32(void **state) {
    (void)state;
    assert_in_range(run_some(LS_F32, 1, 60), 30, 1000);
}

static void test_bf16(void **state) {
    (void)state;
    assert_in_range(run_some(LS_BF16, 2, 60), 30, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
