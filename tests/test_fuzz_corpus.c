/*
 * The stored inputs of every fuzz target (tests/fuzz/corpus), once each, as they are and with lengths and checksums made right:
 * what a fuzzer once found stays found without one. And what hostile headers are refused with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fuzz/fuzz.h"
#include "test_format_scratch.h"

/* FUZZ_CORPUS: the folder in the sources. */
static void corpus_path(const char *target, char out[LS_FILE_PATH]) {
    assert_ok(ls_file_join(FUZZ_CORPUS, target, out, LS_FILE_PATH));
}

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
    char folder[LS_FILE_PATH], path[LS_FILE_PATH];
    ls_file_names names;
    corpus_path(target->name, folder);
    assert_ok(ls_file_list(folder, &names));
    assert_true(names.count > 0);
    for (size_t i = 0; i < names.count; i++) {
        assert_ok(ls_file_join(folder, names.name[i], path, sizeof path));
        const double began = ls_seconds();
        replay_file(target, path);
        if (ls_seconds() - began > 20) fail_msg("%s takes %.1f s", path, ls_seconds() - began);
    }
    ls_file_names_free(&names);
}

/* Each folder belongs to a target. */
static void has_no_other(void **state) {
    (void)state;
    char folder[LS_FILE_PATH];
    ls_file_names names;
    corpus_path("", folder);
    assert_ok(ls_file_list(folder, &names));
    assert_int_equal(names.count, fuzz_target_count);
    for (int i = 0; i < fuzz_target_count; i++) assert_string_equal(fuzz_targets[i]->name, names.name[i]);
    ls_file_names_free(&names);
}

/* Hostile safetensors: one line each, which says what is wrong. */
static void refuses_headers(void **state) {
    (void)state;
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"bad-short", "4 bytes long, a safetensors file has at least 8"},
        {"bad-length-past-end", "the header says it is 1000 bytes long, but 54 are left"},
        {"bad-length-2e63", "the header says it is 9223372036854775808 bytes long, but 62 are left"},
        {"bad-length-2e64", "the header says it is 18446744073709551615 bytes long, but 62 are left"},
        {"bad-length-wraps", "the header says it is 18446744073709551608 bytes long, but 62 are left"},
        {"bad-length-0", "the safetensors header does not begin with {"},
        {"bad-overlap", "tensors 'a' and 'b' overlap at data offset 4"},
        {"bad-same-place", "tensors 'a' and 'b' overlap at data offset 0"},
        {"bad-hole", "data bytes 8 to 12, before tensor 'b', belong to no tensor"},
        {"bad-tail", "the tensors take 8 bytes of data, but the file has 12"},
        {"bad-past-end", "b.data_offsets[1] is 16, expected an integer from 8 to 12"},
        {"bad-reversed", "a.data_offsets[1] is 0, expected an integer from 8 to 8"},
        {"bad-negative", "a.data_offsets[0] is -8, expected an integer from 0 to 8"},
        {"bad-offset-2e63", "a.data_offsets[0] is 9223372036854775806, expected an integer from 0 to 8"},
        {"bad-offset-2e64", "too big integer"},
        {"bad-shape-2e64", "a.shape is an array of 2, expected a size in bytes that fits 63 bits"},
        {"bad-shape-2e63", "a.shape is an array of 1, expected a size in bytes that fits 63 bits"},
        {"bad-shape-negative", "a.shape[0] is -2, expected an integer of at least 0"},
        {"bad-dimensions", "a.shape is an array of 9, expected at most 8 dimensions"},
        {"bad-duplicate-tensor", "duplicate object key near '\"a\"'"},
        {"bad-duplicate-field", "duplicate object key near '\"dtype\"'"},
        {"bad-duplicate-metadata", "duplicate object key near '\"k\"'"},
        {"bad-deep-arrays", "maximum parsing depth reached"},
        {"bad-deep-objects", "maximum parsing depth reached"},
        {"bad-name-lines", "tensor 'a?b?[2J' has data offsets [0, 4], but [2] of F32 takes 8 bytes"},
        {"bad-name-nul", "NUL byte in object key not supported"},
        {"bad-name-utf8", "not valid JSON (not UTF-8)"},
        {"bad-metadata", "__metadata__.format is 1, expected a text"},
        {"bad-array", "the safetensors header does not begin with {"},
        {"bad-text-after", "end of file expected near '{'"},
    };
    char folder[LS_FILE_PATH], path[LS_FILE_PATH];
    corpus_path("safetensors", folder);
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_st_file *file;
        assert_ok(ls_file_join(folder, cases[i].name, path, sizeof path));
        assert_error(ls_st_open(path, &file), LS_INVALID, cases[i].words, path);
    }
}

int main(void) {
    struct CMUnitTest tests[64] = {cmocka_unit_test(has_no_other), cmocka_unit_test(refuses_headers)};
    size_t n = 2;
    for (int i = 0; i < fuzz_target_count; i++)
        tests[n++] = (struct CMUnitTest){.name = fuzz_targets[i]->name,
                                         .test_func = replay,
                                         .initial_state = (void *)(uintptr_t)fuzz_targets[i]};
    return _cmocka_run_group_tests("fuzz corpus", tests, n, NULL, NULL);
}
