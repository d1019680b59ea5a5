/*
 * The stored inputs of every fuzz target (tests/corpora/inputs), once each, as they are and with corrected lengths
 * and checksums, so that a mistake that a fuzzer found is tested without one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fuzz/fuzz.h"
#include "support/scratch.h"

/* FUZZ_CORPUS: the folder in the sources. */
static void corpus_path(const char *target, char **out) { assert_ok(ls_path_join(FUZZ_CORPUS, target, out)); }

static void replay_file(const fuzz_target *target, const char *path) {
    enum { SPARE = 64 };
    char *text;
    size_t bytes;
    assert_ok(ls_file_read(path, 1 << 20, &text, &bytes));
    target->run((const uint8_t *)text, bytes);
    if (target->repair) {
        uint8_t *copy = malloc(bytes + SPARE);
        assert_non_null(copy);
        memcpy(copy, text, bytes);
        target->run(copy, target->repair(copy, bytes, bytes + SPARE));
        free(copy);
    }
    free(text);
}

static void replay(void **state) {
    const fuzz_target *target = *state;
    LS_PATH folder = NULL;
    LS_PATH path = NULL;
    ls_file_names names;
    corpus_path(target->name, &folder);
    assert_ok(ls_file_list(folder, &names));
    assert_true(names.count > 0);
    for (size_t i = 0; i < names.count; i++) {
        assert_ok(ls_path_join(folder, names.name[i], &path));
        const double began = ls_seconds();
        replay_file(target, path);
        if (ls_seconds() - began > 20) fail_msg("%s takes %.1f s", path, ls_seconds() - began);
    }
    ls_file_names_free(&names);
}

/* Each folder belongs to a target. */
static void has_no_other(void **state) {
    (void)state;
    LS_PATH folder = NULL;
    ls_file_names names;
    corpus_path("", &folder);
    assert_ok(ls_file_list(folder, &names));
    assert_int_equal(names.count, fuzz_target_count);
    for (int i = 0; i < fuzz_target_count; i++) assert_string_equal(fuzz_targets[i]->name, names.name[i]);
    ls_file_names_free(&names);
}

int main(void) {
    struct CMUnitTest tests[64] = {cmocka_unit_test(has_no_other)};
    size_t n = 1;
    for (int i = 0; i < fuzz_target_count; i++)
        tests[n++] = (struct CMUnitTest){
            .name = fuzz_targets[i]->name, .test_func = replay, .initial_state = (void *)(uintptr_t)fuzz_targets[i]};
    return _cmocka_run_group_tests("fuzz corpus", tests, n, NULL, NULL);
}
