/*
 * Parquet against pyarrow (tests/reference/make_parquet.py): each codec, encoding and version of pages, nested columns;
 * files that are cut off or changed give one line, or other rows, and nothing worse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include "parquet/parquet.h"

#include <stdlib.h>
#include <string.h>

/* Reads a file, `step` bytes at once. */
static ls_status read_file(const char *path, size_t step, ls_json_buffer *out) {
    ls_parquet *parquet = NULL;
    LS_TRY(ls_parquet_open(path, &parquet));
    ls_status status = ls_ok();
    char *block = malloc(step);
    assert_non_null(block);
    for (size_t n = step; status.code == LS_OK && n == step;) {
        status = ls_parquet_read(parquet, block, step, &n);
        assert_ok(ls_json_buffer_add(out, block, n));
        assert_true((status.code == LS_OK) == (ls_parquet_broken(parquet) == NULL));
    }
    free(block);
    ls_parquet_close(parquet);
    return status;
}

/* ---- against the reference ---- */

static size_t line_length(const char *at, const char *end) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    assert_non_null(newline);
    return (size_t)(newline - at);
}

static uint64_t hash_line(const char *name, const char *line, size_t n) {
    ls_json *document = NULL;
    assert_ok(ls_json_parse_record(name, line, n, &document));
    const uint64_t hash = ls_json_hash(ls_json_root(document));
    ls_json_free(document);
    return hash;
}

static void assert_lines(const char *name, const char *a, const char *end, const ls_json_buffer *made) {
    const char *b = made->at, *b_end = made->at + made->n;
    for (int row = 1; a < end; row++) {
        if (b == b_end) fail_msg("%s: ends before row %d", name, row);
        const size_t n = line_length(a, end), m = line_length(b, b_end);
        if (hash_line(name, a, n) != hash_line(name, b, m))
            fail_msg("%s: row %d is %.*s, expected %.*s", name, row, (int)m, b, (int)n, a);
        a += n + 1;
        b += m + 1;
    }
    assert_true(b == b_end);
}

static void check_file(const char *name) {
    LS_PATH path = NULL;
    LS_PATH expected = NULL;
    char *text;
    size_t bytes;
    ls_json_buffer made = {0};
    assert_ok(ls_path_print(&path, LS_TEST_REFERENCE "/parquet/%s", name));
    assert_ok(ls_path_print(&expected, LS_TEST_REFERENCE "/parquet/%.*s.jsonl", (int)strcspn(name, "."), name));
    assert_ok(ls_file_read(expected, SIZE_MAX - 1, &text, &bytes));
    for (size_t step = 1 << 16; step > 0; step = step > 7 ? 7 : 0) {
        made.n = 0;
        const ls_status status = read_file(path, step, &made);
        if (status.code != LS_OK) fail_msg("%s", status.text);
        assert_lines(name, text, text + bytes, &made);
    }
    ls_json_buffer_free(&made);
    free(text);
}

static bool is_read(const char *name) {
    const size_t n = strlen(name);
    return n > 8 && strcmp(name + n - 8, ".parquet") == 0 && strncmp(name, "refused", 7) != 0;
}

static void rows_are_those_of_the_reference(void **state) {
    ls_file_names names = {0};
    int files = 0;
    (void)state;
    assert_ok(ls_file_list(LS_TEST_REFERENCE "/parquet", &names));
    for (size_t i = 0; i < names.count; i++) {
        if (!is_read(names.name[i])) continue;
        check_file(names.name[i]);
        files++;
    }
    ls_file_names_free(&names);
    assert_true(files >= 20);
}

/* ---- files that are not as they should be ---- */

static void refuses_by_name(void **state) {
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "is no Parquet file: expected it to begin with PAR1"},
        {"{\"text\": \"x\"}\n", "is no Parquet file"},
        {"PAR1 and no more", "is cut off or damaged: expected a Parquet file to end with PAR1"},
        {"PARE1234PARE", "is encrypted"},
        {"PAR1\xff\xff\xff\x7fPAR1", "its description has 2147483647 bytes"},
        {"PAR1\x19\x01\x01\x01PAR1", "its description has"},
    };
    ls_json_buffer made = {0};
    for (size_t i = 0; i < LS_COUNT(cases); i++)
        assert_error(read_file(scratch_text(state, "x.parquet", cases[i].text), 100, &made), LS_INVALID, "x.parquet",
                     cases[i].word);
    assert_error(read_file(LS_TEST_REFERENCE "/parquet/refused-brotli.parquet", 1 << 16, &made), LS_INVALID,
                 "row 1: column text", "Brotli");
    ls_json_buffer_free(&made);
}

static void assert_one_line(ls_status status, const char *path) {
    if (status.code == LS_OK) return;
    if (status.code != LS_INVALID || strstr(status.text, path) == NULL || strchr(status.text, '\n') != NULL)
        fail_msg("\"%s\" is not one line that names %s", status.text, path);
}

static void damaged_files_give_one_line(void **state) {
    static const char *const names[] = {"table.snappy", "table.page2-dictionary", "table.delta", "nested.page1",
                                        "types"};
    const int changes = 4000;
    int refused = 0;
    for (size_t k = 0; k < LS_COUNT(names); k++) {
        LS_PATH path = NULL;
        uint8_t *data;
        size_t bytes;
        ls_json_buffer made = {0};
        assert_ok(ls_path_print(&path, LS_TEST_REFERENCE "/parquet/%s.parquet", names[k]));
        assert_ok(ls_file_read(path, SIZE_MAX - 1, (char **)&data, &bytes));
        for (size_t n = 0; n < bytes; n += 1 + bytes / 97) {
            made.n = 0;
            const ls_status status = read_file(scratch_file(state, "cut.parquet", data, n), 1 << 16, &made);
            assert_int_equal(status.code, LS_INVALID);
            assert_one_line(status, "cut.parquet");
        }
        for (int i = 0; i < changes / (int)LS_COUNT(names); i++) {
            const size_t at = ls_rng_below(9, k, (uint64_t)i, bytes);
            const uint8_t before = data[at];
            data[at] = (uint8_t)ls_rng_below(10, k, (uint64_t)i, 256);
            made.n = 0;
            const ls_status status = read_file(scratch_file(state, "changed.parquet", data, bytes), 1 << 16, &made);
            assert_one_line(status, "changed.parquet");
            refused += status.code != LS_OK;
            data[at] = before;
        }
        ls_json_buffer_free(&made);
        free(data);
    }
    assert_true(refused > changes / 10);
}

/* ---- as records ---- */

static void is_read_as_records(void **state) {
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const char *paths[] = {LS_TEST_REFERENCE "/parquet/required.parquet", LS_TEST_REFERENCE "/parquet/many.parquet"};
    ls_build_options options = build_options(tokenizer, paths, 2, scratch_path(state, "out"));
    ls_build_summary built;
    assert_ok(ls_shards_build(&options, &built));
    assert_int_equal(built.documents, 702);
    /* A file that ends too early, and the text of a row. */
    char *data;
    size_t bytes;
    assert_ok(ls_file_read(paths[1], SIZE_MAX - 1, &data, &bytes));
    paths[0] = scratch_file(state, "cut.parquet", data, bytes / 2);
    free(data);
    options.n_paths = 1;
    options.out = scratch_path(state, "cut");
    assert_error(ls_shards_build(&options, &built), LS_INVALID, "cut.parquet", "is cut off or damaged");
    paths[0] = LS_TEST_REFERENCE "/parquet/table.zstd.parquet";
    assert_error(ls_shards_build(&options, &built), LS_INVALID, "table.zstd.parquet:9", "text is null");
    options.form.skip_bad = true;
    assert_ok(ls_shards_build(&options, &built));
    assert_int_equal(built.bad, 6);
    ls_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_reference),
        cmocka_unit_test_setup_teardown(refuses_by_name, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(damaged_files_give_one_line, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(is_read_as_records, scratch_make, scratch_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
