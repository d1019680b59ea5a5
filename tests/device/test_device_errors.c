/*
 * Each kind of call of a device fails once, early and late, on every rank: the run ends with an error that names the
 * call, and nothing hangs.
 */
#include "support/images.h"
#include "support/meshes.h"
#include "support/step_digest.h"
#include "support/world.h"

#include <stdlib.h>

/* What a device is, and the calls that are not made of it. */
static const struct {
    const char *kind, *never;
} kinds[] = {{"", "share reach message"},
             {":awaited", "hold release share reach message"},
             {":messages", "adopt hold release"},
             {":recorded", "adopt hold release"}};

static const char *const calls[] = {"allocate", "adopt", "read", "write",   "clear", "launch", "hold",   "release",
                                    "happened", "await", "join", "execute", "share", "reach",  "message"};

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
    for (size_t k = 0; k < LS_COUNT(kinds); k++) {
        for (size_t i = 0; i < LS_COUNT(calls); i++) {
            int failed = 0;
            for (int n = 1; n <= 20; n = 2 * n + 2) failed += fails(&set, kinds[k].kind, calls[i], n);
            print_message("%s%s: %d failed\n", calls[i], kinds[k].kind, failed);
            assert_true(strstr(kinds[k].never, calls[i]) != NULL ? failed == 0 : failed > 0);
        }
    }
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_error_names_the_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
