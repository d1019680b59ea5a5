/*
 * .npy: round trips, every malformed header, truncated files and flipped bits. Sanitizers find reads out of bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

static void round_trips(void **state) {
    static const int64_t shape[LS_NPY_DIMS] = {2, 3, 1, 4};
    for (int type = 0; type < LS_NPY_TYPES; type++) {
        for (int ndim = 0; ndim <= LS_NPY_DIMS; ndim++) {
            uint8_t data[24 * 8];
            int64_t count = 1;
            for (int i = 0; i < ndim; i++) count *= shape[i];
            size_t bytes = (size_t)count * ls_npy_type_bytes((ls_npy_type)type);
            for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 37 + 11);
            const char *path = scratch_path(state, "a.npy");
            assert_ok(ls_npy_write(path, (ls_npy_type)type, ndim, shape, data));
            ls_npy array;
            assert_ok(ls_npy_open(path, &array));
            assert_int_equal(array.type, type);
            assert_int_equal(array.ndim, ndim);
            assert_int_equal(array.count, count);
            assert_memory_equal(array.shape, shape, sizeof *shape * (size_t)ndim);
            assert_memory_equal(array.data, data, bytes);
            assert_int_equal((uintptr_t)array.data % 64, 0);
            ls_npy_close(&array);
        }
    }
    ls_npy_close(NULL);
}

/* What NumPy itself writes: numpy.save of numpy.arange(3, dtype='<i4'), version 2.4. */
static void is_numpys_format(void **state) {
    char expected[128 + 12];
    memset(expected, ' ', 128);
    memcpy(expected, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char dictionary[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
    memcpy(expected + 10, dictionary, strlen(dictionary));
    expected[127] = '\n';
    static const int32_t numbers[] = {0, 1, 2};
    memcpy(expected + 128, numbers, sizeof numbers);
    ls_npy array;
    assert_ok(ls_npy_open(scratch_file(state, "numpy.npy", expected, sizeof expected), &array));
    assert_int_equal(array.shape[0], 3);
    assert_memory_equal(array.data, numbers, sizeof numbers);
    ls_npy_close(&array);

    const char *path = scratch_path(state, "ours.npy");
    assert_ok(ls_npy_write(path, LS_NPY_I4, 1, (const int64_t[]){3}, numbers));
    char *text;
    size_t bytes;
    assert_ok(ls_file_read(path, 1000, &text, &bytes));
    assert_int_equal(bytes % 64, 12);
    assert_memory_equal(text + 10, dictionary, strlen(dictionary));
    free(text);
}

/* A file of the given version, dictionary and bytes of zeros. */
static const char *make(void **state, int version, const char *dictionary, size_t data_bytes) {
    uint8_t file[2048] = "\x93NUMPY";
    size_t length = strlen(dictionary), begin = version == 1 ? 10 : 12;
    file[6] = (uint8_t)version;
    file[8] = (uint8_t)length;
    file[9] = (uint8_t)(length >> 8);
    memcpy(file + begin, dictionary, length);
    return scratch_file(state, "made.npy", file, begin + length + data_bytes);
}

static void reads_versions_and_spellings(void **state) {
    static const char *const spellings[] = {
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }   \n",
        "{\"shape\":(2,3,),\"descr\":\"<f8\",\"fortran_order\":False}",
        "  { 'fortran_order' : False , 'shape' : ( 2 , 3 ) , 'descr' : '<f8' } ",
    };
    for (int version = 1; version <= 3; version++) {
        for (size_t i = 0; i < LS_COUNT(spellings); i++) {
            ls_npy array;
            assert_ok(ls_npy_open(make(state, version, spellings[i], 48), &array));
            assert_int_equal(array.ndim, 2);
            assert_int_equal(array.shape[1], 3);
            assert_int_equal((uintptr_t)array.data % 8, 0); /* copied where the file is not aligned */
            ls_npy_close(&array);
        }
    }
    ls_npy array;
    assert_ok(ls_npy_open(make(state, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5)}", 0), &array));
    assert_int_equal(array.count, 0);
    assert_non_null(array.data);
    ls_npy_close(&array);
}

static void names_what_is_wrong(void **state) {
    static const struct {
        const char *dictionary;
        size_t bytes;
        ls_code code;
        const char *word;
    } cases[] = {
        {"", 0, LS_INVALID, "expected {"},
        {"{}", 0, LS_INVALID, "each once"},
        {"{'descr': '<f4', 'fortran_order': False}", 0, LS_INVALID, "each once"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': ()}", 0, LS_INVALID, "each once"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}", 4, LS_INVALID, "each once"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': ()}", 4, LS_UNSUPPORTED, "big-endian"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': ()}", 2, LS_UNSUPPORTED, "'<f2'"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': ()}", 8, LS_UNSUPPORTED, "'<c8'"},
        {"{'descr': '', 'fortran_order': False, 'shape': ()}", 8, LS_UNSUPPORTED, "''"},
        {"{'descr': 'f4', 'fortran_order': False, 'shape': ()}", 4, LS_UNSUPPORTED, "'f4'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': ()}", 8, LS_UNSUPPORTED, "'|O'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", 4, LS_INVALID, "simple type"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", 16, LS_UNSUPPORTED, "Fortran"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2)}", 16, LS_INVALID, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", 8, LS_INVALID, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", 8, LS_INVALID, "a shape such as"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8, LS_INVALID, "at least 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", 8, LS_INVALID, "at least 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", 24, LS_INVALID, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3", 24, LS_INVALID, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1)}", 4, LS_UNSUPPORTED, "more than 4"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4, LS_INVALID, "63 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4, LS_INVALID, "63 bits"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,)}", 4, LS_INVALID, "63 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 11, LS_INVALID, "needs 12 bytes of data"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 13, LS_INVALID, "the file has 13"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x", 12, LS_INVALID, "end of the header"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}", 12, LS_INVALID, "a comma or }"},
        {"{'descr' '<f4', 'fortran_order': False, 'shape': (3,)}", 12, LS_INVALID, "a colon"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)", 12, LS_INVALID, "a comma or }"},
        {"{'descr': '<f4", 0, LS_INVALID, "simple type"},
        {"{'a_key_that_is_longer_than_any_that_is_known': 1}", 0, LS_INVALID, "expected a key"},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_npy array = {.ndim = 77};
        assert_error(ls_npy_open(make(state, 1, cases[i].dictionary, cases[i].bytes), &array), cases[i].code,
                     "made.npy: ", cases[i].word);
        assert_int_equal(array.ndim, 77);
    }
    ls_npy array;
    assert_error(ls_npy_open(scratch_text(state, "t.npy", "hello, this is text"), &array), LS_INVALID, "t.npy",
                 "not an .npy file");
    assert_error(ls_npy_open(make(state, 4, "{}", 0), &array), LS_UNSUPPORTED, "version 4", "expected 1, 2 or 3");
    assert_error(ls_npy_open(scratch_path(state, "none.npy"), &array), LS_IO, "none.npy", "No such file");
}

static void survives_truncation_and_noise(void **state) {
    const char *path = scratch_path(state, "whole.npy");
    static const float numbers[6] = {1, 2, 3, 4, 5, 6};
    assert_ok(ls_npy_write(path, LS_NPY_F4, 2, (const int64_t[]){2, 3}, numbers));
    char *text;
    size_t bytes;
    ls_npy array;
    assert_ok(ls_file_read(path, 1000, &text, &bytes));
    for (size_t n = 0; n < bytes; n++)
        assert_error(ls_npy_open(scratch_file(state, "cut.npy", text, n), &array), LS_INVALID, "cut.npy: ", "");
    int accepted = 0;
    for (size_t i = 0; i < bytes; i++) {
        static const char noise[] = {0, 1, -1, '9', '(', '\'', '}', ' '};
        for (size_t k = 0; k < sizeof noise; k++) {
            char before = text[i];
            text[i] = noise[k];
            ls_status status = ls_npy_open(scratch_file(state, "noise.npy", text, bytes), &array);
            text[i] = before;
            if (status.code != LS_OK) continue;
            accepted++;
            assert_int_equal(array.count, 6);
            ls_npy_close(&array);
        }
    }
    assert_true(accepted >= 24 * 8); /* the data may be anything */
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(is_numpys_format),
        cmocka_unit_test(reads_versions_and_spellings),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(survives_truncation_and_noise),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
