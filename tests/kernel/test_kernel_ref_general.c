/* The reference kernels of general ops against values computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_call.h"

static void call(const char *name, const void *params, int n_in, const ls_view *in, int n_out, const ls_view *out) {
    ls_kernel_call c = {.n_in = n_in, .n_out = n_out, .params = params};
    memcpy(c.in, in, sizeof *in * (size_t)n_in);
    memcpy(c.out, out, sizeof *out * (size_t)n_out);
    run_kernel(name, LS_F64, LS_ISA_REF, 1, c);
}

static void close_to(double is, double expected) {
    if (!(fabs(is - expected) <= 1e-15)) fail_msg("is %.17g, expected %.17g", is, expected);
}

static void test_softmax(void **state) {
    (void)state;
    double x[] = {0, log(3), 1000, 1000 + log(3), -INFINITY, 5}, y[6], dy[] = {1, 2, 1, 2, 7, 3}, dx[6];
    call("softmax", NULL, 1, (ls_view[]){VIEW(x, LS_F64, 3, 2)}, 1, (ls_view[]){VIEW(y, LS_F64, 3, 2)});
    static const double expected[] = {0.25, 0.75, 0.25, 0.75, 0, 1};
    for (int i = 0; i < 6; i++) assert_true(fabs(y[i] - expected[i]) < 1e-12);
    call("softmax_grad", NULL, 2, (ls_view[]){VIEW(y, LS_F64, 3, 2), VIEW(dy, LS_F64, 3, 2)}, 1,
         (ls_view[]){VIEW(dx, LS_F64, 3, 2)});
    static const double gradient[] = {-0.1875, 0.1875, -0.1875, 0.1875, 0, 0}; /* y (dy - 1.75) */
    for (int i = 0; i < 6; i++) assert_true(fabs(dx[i] - gradient[i]) < 1e-12);
}

/* Three largest elements, a NaN, and the middle dimension of three. */
static void test_reduce_max(void **state) {
    (void)state;
    double x[] = {1, 7, 4, 7, 7, 0, NAN, 3}, y[2], dy[] = {6, 5}, dx[8];
    const ls_view in[] = {VIEW(x, LS_F64, 2, 4, 1), VIEW(dy, LS_F64, 2, 1)};
    const ls_reduce_max_params first = {false}, shared = {true};
    x[0] = 7;
    call("reduce_max", NULL, 1, in, 1, (ls_view[]){VIEW(y, LS_F64, 2, 1)});
    assert_true(y[0] == 7 && isnan(y[1]));
    call("reduce_max_grad", &first, 2, in, 1, (ls_view[]){VIEW(dx, LS_F64, 2, 4, 1)});
    static const double to_first[] = {6, 0, 0, 0, 0, 0, 5, 0}, to_all[] = {2, 2, 0, 2, 0, 0, 5, 0};
    for (int i = 0; i < 8; i++) close_to(dx[i], to_first[i]);
    call("reduce_max_grad", &shared, 2, in, 1, (ls_view[]){VIEW(dx, LS_F64, 2, 4, 1)});
    for (int i = 0; i < 8; i++) close_to(dx[i], to_all[i]);
    double columns[] = {1, 5, 3, 2, 2, 9};
    call("reduce_max", NULL, 1, (ls_view[]){VIEW(columns, LS_F64, 1, 3, 2)}, 1, (ls_view[]){VIEW(y, LS_F64, 1, 2)});
    assert_true(y[0] == 3 && y[1] == 9);
}

/* Ids that are none take nothing, and nothing is added there; equal ids add up. */
static void test_take_along(void **state) {
    (void)state;
    double x[] = {10, 11, 12, 20, 21, 22}, y[6], dx[] = {1, 1, 1, 1, 1, 1}, dy[] = {1, 2, 4, 8, 16, 32};
    int32_t ids[] = {2, 0, 3, -1, 1, 1};
    call("take_along", NULL, 2, (ls_view[]){VIEW(x, LS_F64, 2, 3), VIEW(ids, LS_I32, 2, 3)}, 1,
         (ls_view[]){VIEW(y, LS_F64, 2, 3)});
    assert_true(y[0] == 12 && y[1] == 10 && isnan(y[2]) && isnan(y[3]) && y[4] == 21 && y[5] == 21);
    call("take_along_grad", NULL, 2, (ls_view[]){VIEW(ids, LS_I32, 2, 3), VIEW(dy, LS_F64, 2, 3)}, 1,
         (ls_view[]){VIEW(dx, LS_F64, 2, 3)});
    static const double expected[] = {3, 1, 2, 1, 49, 1};
    for (int i = 0; i < 6; i++) close_to(dx[i], expected[i]);
}

static void test_topk(void **state) {
    (void)state;
    double x[] = {3, 9, 9, -INFINITY, 4, 0, NAN, 2, NAN, 7}, values[6];
    int32_t ids[6];
    call("topk", NULL, 1, (ls_view[]){VIEW(x, LS_F64, 2, 5)}, 2,
         (ls_view[]){VIEW(values, LS_F64, 2, 3), VIEW(ids, LS_I32, 2, 3)});
    static const int32_t expected[] = {1, 2, 4, 1, 3, 4};
    for (int i = 0; i < 6; i++) assert_int_equal(ids[i], expected[i]);
    assert_true(values[0] == 9 && values[1] == 9 && values[2] == 4);
    assert_true(isnan(values[3]) && isnan(values[4]) && values[5] == 7);
    const ls_kernel_call many = {.n_in = 1,
                                 .n_out = 2,
                                 .in = {VIEW(x, LS_F64, 2, 2)},
                                 .out = {VIEW(values, LS_F64, 2, 3), VIEW(ids, LS_I32, 2, 3)}};
    assert_non_null(strstr(prepare_kernel("topk", LS_F64, LS_ISA_REF, many).text, "values are f64[2,3]"));
}

/* [1,1,2,2,1] by [1,1,2,1,2], of which one is turned, and added to what is there. */
static void test_contract(void **state) {
    (void)state;
    double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, y[] = {100, 100, 100, 100};
    ls_view in[] = {VIEW(a, LS_F64, 1, 1, 2, 2, 1), VIEW(b, LS_F64, 1, 1, 2, 1, 2)};
    const ls_contract_params writes = {false}, adds = {true};
    call("contract", &writes, 2, in, 1, (ls_view[]){VIEW(y, LS_F64, 1, 1, 2, 2)});
    static const double product[] = {19, 22, 43, 50}, turned[] = {17 + 19, 23 + 22, 39 + 43, 53 + 50};
    for (int i = 0; i < 4; i++) close_to(y[i], product[i]);
    in[1].stride[2] = 1; /* b transposed */
    in[1].stride[4] = 2;
    call("contract", &adds, 2, in, 1, (ls_view[]){VIEW(y, LS_F64, 1, 1, 2, 2)});
    for (int i = 0; i < 4; i++) close_to(y[i], turned[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_softmax), cmocka_unit_test(test_reduce_max),
                                       cmocka_unit_test(test_take_along), cmocka_unit_test(test_topk),
                                       cmocka_unit_test(test_contract)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
