/*
 * Each kind of call of a device fails once, early and late, on every rank: the run ends with an error that names the
 * call, and nothing hangs.
 */
#include "support/images.h"
#include "support/meshes.h"
#include "support/step_digest.h"
#include "support/world.h"

#include <stdlib.h>

static const char *const calls[] = {"allocate", "adopt",   "read",     "write", "clear", "launch",
                                    "hold",     "release", "happened", "await", "join",  "execute"};

/* Whether the N-th call of the kind came, and failed. */
static bool fails(const image_set *set, const char *kind, const char *call, int n) {
    char device[64], expected[64];
    uint64_t digest;
    snprintf(device, sizeof device, "delayed:1%s:%s=%d", kind, call, n);
    snprintf(expected, sizeof expected, "device delayed: %s number %d fails", call, n);
    setenv("LONGSPAN_DEVICE", device, 1);
    const double start = ls_seconds();
    const ls_status status = step_digest(set, NULL, &digest);
    assert_true(ls_seconds() - start < 30);
    if (status.code != LS_OK) assert_fails(status, LS_IO, expected);
    return status.code != LS_OK;
}

static void test_the_error_names_the_call(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 26, 1);
    for (int awaited = 0; awaited < 2; awaited++) {
        int failed[LS_COUNT(calls)] = {0};
        for (size_t i = 0; i < LS_COUNT(calls); i++)
            for (int n = 1; n <= 20; n = 2 * n + 2) failed[i] += fails(&set, awaited ? ":awaited" : "", calls[i], n);
        for (size_t i = 0; i < LS_COUNT(calls); i++) {
            print_message("%s%s: %d failed\n", calls[i], awaited ? ", awaited" : "", failed[i]);
            const bool of_holds = strcmp(calls[i], "hold") == 0 || strcmp(calls[i], "release") == 0;
            assert_true(awaited && of_holds ? failed[i] == 0 : failed[i] > 0);
        }
    }
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_error_names_the_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
