/*
 * What lanes of a warp do together, as the emulation compares it (cuda/warps.h): each wrong kernel of
 * cuda/warp_faults.cu ends its process with a message that names the kernel, the call and the lanes, and its right twin
 * has the results that are expected. Also how much shared memory a launch may ask for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/warp_faults.h"
#include "support/process.h"

typedef struct launch {
    int fault, wrong;
} launch;

static bool has_sum(void *context) {
    const launch *l = context;
    int results[64] = {0}, sum = 0;
    if (warp_fault_launch(l->fault, l->wrong, results) != 0) return false;
    for (int i = 0; i < 32; i++) sum += results[i];
    return sum == warp_fault_of(l->fault).sum;
}

static void test_right_kernels(void **state) {
    (void)state;
    for (int i = 0; i < warp_faults(); i++) {
        launch right = {i, 0};
        if (!has_sum(&right)) fail_msg("%s: another sum", warp_fault_of(i).kernel);
    }
}

static void test_wrong_kernels_are_named(void **state) {
    (void)state;
    for (int i = 0; i < warp_faults(); i++) {
        const warp_fault fault = warp_fault_of(i);
        launch wrong = {i, 1};
        char text[512], kernel[64];
        snprintf(kernel, sizeof kernel, " of %s<true>(int*)", fault.kernel);
        if (is_true_in_a_process(has_sum, &wrong, text, sizeof text)) fail_msg("%s is not found", fault.kernel);
        const char *call = strstr(text, fault.call);
        if (call == NULL || strstr(call, fault.why) == NULL || strstr(call, kernel) == NULL)
            fail_msg("expected \"%s\", \"%s\" and \"%s\", got \"%s\"", fault.call, fault.why, kernel, text);
    }
}

/*
 * As on a GPU: a launch may ask for 48 KiB of shared memory, and for more only where that was allowed before.
 * Permission that falls is a fault: ranks that are threads share it.
 */
static void test_much_shared_memory_is_allowed_first(void **state) {
    (void)state;
    enum { OF_ALL = 48 * 1024 };
    int results[64];
    assert_int_equal(warp_launch_with_shared(0, OF_ALL, 0, results), 0);
    assert_int_not_equal(warp_launch_with_shared(0, OF_ALL + 1, 0, results), 0);
    assert_int_not_equal(warp_launch_with_shared(0, OF_ALL + 1, 228 * 1024, results), 0);
    assert_int_equal(warp_launch_with_shared(0, OF_ALL + 1, OF_ALL + 1, results), 0);
    assert_int_not_equal(warp_launch_with_shared(0, OF_ALL + 2, 0, results), 0);
    assert_int_not_equal(warp_launch_with_shared(0, OF_ALL, OF_ALL, results), 0);
    assert_int_equal(warp_launch_with_shared(1, OF_ALL, 0, results), 0);
    assert_int_not_equal(warp_launch_with_shared(1, OF_ALL + 1, 0, results), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right_kernels),
                                       cmocka_unit_test(test_wrong_kernels_are_named),
                                       cmocka_unit_test(test_much_shared_memory_is_allowed_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
