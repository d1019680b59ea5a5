/*
 * Numbers of options that are out of their limits, in calls of the library that no command line has checked: each is
 * refused by its name, and none is taken for a default.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "longspan/longspan.h"

static void must_fail(ls_status status, const char *words) {
    if (status.code != LS_USAGE || strstr(status.text, words) == NULL)
        fail_msg("expected usage with \"%s\"; got %s \"%s\"", words, ls_code_name(status.code), status.text);
}

static void test_training(void **state) {
    (void)state;
    static const char *const data[] = {"text"};
    ls_train_result result;
    must_fail(
        ls_train(&(ls_train_options){.model = "m", .data = data, .n_data = 1, .out = "o", .restarts = -5}, &result),
        "--restart -5; expected 0 or more");
}

static void test_building_shards(void **state) {
    (void)state;
    static const char *const paths[] = {"text"};
    ls_data_build_result result;
    ls_data_build_job job = {.paths = paths, .n_paths = 1, .out = "o", .shard_tokens = -1};
    must_fail(ls_run_data_build(&job, &result), "--shard-tokens -1; expected 1 or more");
    job.shard_tokens = 0;
    job.threads = -2;
    must_fail(ls_run_data_build(&job, &result), "--threads -2; expected 1 to 1024");
    job.threads = (int64_t)1 << 40;
    must_fail(ls_run_data_build(&job, &result), "--threads 1099511627776; expected 1 to 1024");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_training), cmocka_unit_test(test_building_shards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
