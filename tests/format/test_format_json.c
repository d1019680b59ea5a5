/* JSON: getters and their errors, the writer, files of lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include <math.h>

static ls_json *parse(const char *text) {
    ls_json *document = NULL;
    assert_ok(ls_json_parse("config.json", text, strlen(text), &document));
    return document;
}

static void gets_fields(void **state) {
    (void)state;
    ls_json *doc = parse("{\"i\": -7, \"d\": 0.5, \"big\": 10000, \"b\": true, \"t\": \"\\u00e9\", \"none\": null,"
                         " \"o\": {\"x\": [1, 2.5, \"z\"]}, \"max\": 9223372036854775807}");
    ls_json_value root = ls_json_root(doc), object, array;
    int64_t i = 0;
    double d = 0;
    bool b = false;
    const char *text = NULL;
    assert_ok(ls_json_int(root, "i", -7, 7, &i));
    assert_int_equal(i, -7);
    assert_ok(ls_json_int(root, "max", 0, INT64_MAX, &i));
    assert_true(i == INT64_MAX);
    assert_ok(ls_json_double(root, "d", 0, 1, &d));
    assert_true(d == 0.5);
    assert_ok(ls_json_double(root, "big", -INFINITY, INFINITY, &d));
    assert_true(d == 10000);
    assert_ok(ls_json_bool(root, "b", &b));
    assert_true(b);
    assert_ok(ls_json_text(root, "t", &text));
    assert_string_equal(text, "\xc3\xa9");
    assert_ok(ls_json_object(root, "o", &object));
    assert_ok(ls_json_array(object, "x", &array));
    assert_int_equal(ls_json_count(array), 3);
    assert_ok(ls_json_as_double(ls_json_item(array, 1), 0, 9, &d));
    assert_true(d == 2.5);
    assert_ok(ls_json_as_text(ls_json_item(array, 2), &text));
    assert_string_equal(text, "z");
    assert_true(ls_json_has(root, "i"));
    assert_false(ls_json_has(root, "none"));
    assert_false(ls_json_has(root, "other"));
    assert_false(ls_json_has(array, "x"));
    ls_json_free(doc);
    ls_json_free(NULL);
}

/* What 64 bits do not hold is a real number, wherever it stands; all else stays as it was. */
static void reads_wide_integers(void **state) {
    (void)state;
    ls_json *doc = parse("{\"model_max_length\": 1000000000000000019884624838656, \"most\": 9223372036854775807,"
                         " \"least\": -9223372036854775808, \"a\": [-9223372036854775809,9223372036854775808],"
                         " \"text\": \"\\\"99999999999999999999\", \"real\": 99999999999999999999.5e-19}");
    ls_json_value root = ls_json_root(doc), array;
    int64_t i = 0;
    double d = 0;
    const char *text = NULL;
    assert_ok(ls_json_double(root, "model_max_length", 0, INFINITY, &d));
    assert_true(d == 1e30);
    assert_error(ls_json_int(root, "model_max_length", 0, INT64_MAX, &i), LS_INVALID, "model_max_length is 1e30",
                 "an integer");
    assert_ok(ls_json_int(root, "most", 0, INT64_MAX, &i));
    assert_true(i == INT64_MAX);
    assert_ok(ls_json_int(root, "least", INT64_MIN, 0, &i));
    assert_true(i == INT64_MIN);
    assert_ok(ls_json_array(root, "a", &array));
    for (size_t k = 0; k < 2; k++) {
        assert_ok(ls_json_as_double(ls_json_item(array, k), -INFINITY, INFINITY, &d));
        assert_true(d == (k == 0 ? -0x1p63 : 0x1p63));
    }
    assert_ok(ls_json_text(root, "text", &text));
    assert_string_equal(text, "\"99999999999999999999");
    assert_ok(ls_json_double(root, "real", 0, 100, &d));
    assert_true(d > 9.9 && d < 10.1);
    ls_json_free(doc);
    /* Errors are those of the text, and a number can be too large for anything. */
    ls_json *none = NULL;
    const char *broken = "[99999999999999999999, \"\\";
    assert_error(ls_json_parse("x", broken, strlen(broken), &none), LS_INVALID, "not valid JSON", "line 1");
    char digits[512] = {0};
    memset(digits, '9', sizeof digits - 1);
    assert_error(ls_json_parse("x", digits, strlen(digits), &none), LS_INVALID, "not valid JSON",
                 "real number overflow");
}

/* Python's json writes NaN and infinities as words; a config may hold them where nobody looks. */
static void reads_numbers_that_are_not_finite(void **state) {
    (void)state;
    const char *text =
        "{\"a\": Infinity, \"b\": [-Infinity, NaN], \"c\": \"Infinity\", \"d\": 4, \"e\": 99999999999999999999}";
    ls_json *doc = parse(text);
    const ls_json_value root = ls_json_root(doc);
    int64_t i = 0;
    double d = 0;
    const char *word = NULL;
    ls_json_value array;
    assert_ok(ls_json_int(root, "d", 0, 9, &i));
    assert_ok(ls_json_double(root, "e", 0, INFINITY, &d));
    assert_ok(ls_json_text(root, "c", &word));
    assert_string_equal(word, "Infinity");
    assert_error(ls_json_double(root, "a", 0, INFINITY, &d), LS_INVALID, "a is Infinity, expected a number", "");
    assert_error(ls_json_text(root, "a", &word), LS_INVALID, "a is Infinity, expected a text", "");
    assert_ok(ls_json_array(root, "b", &array));
    assert_error(ls_json_as_int(ls_json_item(array, 0), 0, 1, &i), LS_INVALID, "b[0] is -Infinity", "");
    assert_error(ls_json_as_double(ls_json_item(array, 1), 0, 1, &d), LS_INVALID, "b[1] is NaN", "");
    ls_json_free(doc);
    char *edited = NULL;
    assert_ok(ls_json_set_member(text, "a", "1", &edited));
    assert_non_null(strstr(edited, "{\"a\": 1, \"b\": [-Infinity, NaN]"));
    free(edited);
}

static void reads_records_as_python_does(void **state) {
    (void)state;
    static const char text[] = "{\"a\": 1, \"a\": \"x\\u0000y\", \"b\": null}";
    ls_json *doc = NULL;
    const char *at = NULL;
    size_t bytes = 0;
    static const char twice[] = "{\"a\": 1, \"b\": {\"a\": 2},\n \"\\u0061\" : 3}";
    assert_error(ls_json_parse("x", twice, sizeof twice - 1, &doc), LS_INVALID, "line 2 column 2: duplicate object key",
                 "near '\"\\u0061\"'");
    assert_error(ls_json_parse("x", text, sizeof text - 1, &doc), LS_INVALID, "\\u0000 is not allowed", "");
    assert_ok(ls_json_parse_record("x", text, sizeof text - 1, &doc));
    assert_ok(ls_json_as_bytes(ls_json_field(ls_json_root(doc), "a"), &at, &bytes));
    assert_int_equal(bytes, 3);
    assert_memory_equal(at, "x\0y", 3);
    assert_error(ls_json_text(ls_json_root(doc), "a", &at), LS_INVALID, "expected a text without NUL characters", "");
    assert_error(ls_json_text(ls_json_root(doc), "b", &at), LS_INVALID, "b is null, expected a text", "");
    ls_json_free(doc);
}

static void falls_back(void **state) {
    (void)state;
    ls_json *doc = parse("{\"none\": null, \"i\": 3, \"wrong\": []}");
    ls_json_value root = ls_json_root(doc);
    int64_t i;
    double d;
    bool b;
    const char *text;
    assert_ok(ls_json_int_or(root, "none", 5, 0, 9, &i));
    assert_int_equal(i, 5);
    assert_ok(ls_json_int_or(root, "i", 5, 0, 9, &i));
    assert_int_equal(i, 3);
    assert_ok(ls_json_double_or(root, "other", 1.5, 0, 9, &d));
    assert_true(d == 1.5);
    assert_ok(ls_json_bool_or(root, "other", true, &b));
    assert_true(b);
    assert_ok(ls_json_text_or(root, "other", "x", &text));
    assert_string_equal(text, "x");
    assert_error(ls_json_int_or(root, "wrong", 5, 0, 9, &i), LS_INVALID, "wrong is an array of 0", "from 0 to 9");
    assert_error(ls_json_double_or(root, "wrong", 5, 0, 9, &d), LS_INVALID, "wrong is an array of 0", "from 0 to 9");
    assert_error(ls_json_bool_or(root, "i", 5, &b), LS_INVALID, "i is 3", "true or false");
    assert_error(ls_json_text_or(root, "i", "x", &text), LS_INVALID, "i is 3", "expected a text");
    ls_json_free(doc);
}

static void names_what_is_wrong(void **state) {
    (void)state;
    ls_json *doc =
        parse("{\"hidden_size\": \"big\", \"eps\": 2, \"rope\": {\"factor\": -1}, \"list\": [1, true],"
              " \"real\": 4.5, \"long\": \"0123456789012345678901234567890123456789012345678901234567890123\"}");
    ls_json_value root = ls_json_root(doc), rope, list;
    int64_t i = 77;
    double d = 77;
    assert_error(ls_json_int(root, "hidden_size", 1, 1 << 20, &i), LS_INVALID,
                 "config.json: hidden_size is \"big\", expected an integer from 1 to 1048576", "");
    assert_error(ls_json_int(root, "nothing", 1, INT64_MAX, &i), LS_INVALID,
                 "config.json: nothing is missing, expected an integer of at least 1", "");
    assert_error(ls_json_int(root, "real", 1, 9, &i), LS_INVALID, "real is 4.5", "");
    assert_error(ls_json_double(root, "eps", 0, 1, &d), LS_INVALID, "eps is 2, expected a number from 0 to 1", "");
    assert_ok(ls_json_object(root, "rope", &rope));
    assert_error(ls_json_double(rope, "factor", 0, INFINITY, &d), LS_INVALID,
                 "config.json: rope.factor is -1, expected a number of at least 0", "");
    assert_error(ls_json_object(root, "eps", &rope), LS_INVALID, "eps is 2, expected an object", "");
    assert_error(ls_json_array(root, "rope", &rope), LS_INVALID, "rope is an object, expected an array", "");
    assert_ok(ls_json_array(root, "list", &list));
    assert_error(ls_json_as_int(ls_json_item(list, 1), INT64_MIN, INT64_MAX, &i), LS_INVALID,
                 "list[1] is true, expected an integer", "");
    assert_error(ls_json_as_int(ls_json_item(list, 2), 0, 1, &i), LS_INVALID, "list[2] is missing", "");
    assert_error(ls_json_int(list, "x", 0, 1, &i), LS_INVALID, "list is an array of 2, expected an object", "");
    assert_error(ls_json_int(root, "long", 0, 1, &i), LS_INVALID, "345678...", "");
    assert_error(ls_json_error(ls_json_field(root, "eps"), "at most %d", 1), LS_INVALID, "eps is 2, expected at most 1",
                 "config.json");
    assert_int_equal(i, 77); /* outputs only on success */
    assert_true(d == 77);
    ls_json_free(doc);
}

static void refuses_broken_text(void **state) {
    (void)state;
    static const char *const broken[][2] = {
        {"", "line 1"},
        {"{", "line 1"},
        {"{\"a\": 1} x", "end of file expected"},
        {"{\"a\": 1, \"a\": 2}", "duplicate object key"},
        {"{\"a\": \"\xff\"}", "UTF-8"},
        {"{\"a\": \"\xc0\x80\"}", "UTF-8"},
        {"{\"a\": 1e999}", "real number overflow"},
        {"{\"a\": nan}", "invalid token"},
        {"{\"a\": Infinity, \"a\": 1}", "duplicate object key"},
        {"{\"a\": \"\\u0000\"}", "\\u0000"},
        {"{\"a\":\n\n tru}", "line 3"},
        {"{'a': 1}", "line 1"},
        {"{\"a\": 1,}", "line 1"},
    };
    for (size_t i = 0; i < LS_COUNT(broken); i++) {
        ls_json *doc = NULL;
        assert_error(ls_json_parse("x.json", broken[i][0], strlen(broken[i][0]), &doc), LS_INVALID,
                     "x.json: ", broken[i][1]);
        assert_null(doc);
    }
    enum { DEEP = 100000 };
    char *deep = malloc(DEEP);
    memset(deep, '[', DEEP);
    ls_json *doc = NULL;
    assert_error(ls_json_parse("deep", deep, DEEP, &doc), LS_INVALID, "deep: ", "depth");
    assert_error(ls_json_parse("nul", "{}\0", 3, &doc), LS_INVALID, "nul: ", "");
    free(deep);
}

static void limits_the_size(void **state) {
    ls_json *doc = NULL;
    const char *path = scratch_text(state, "c.json", "{\"a\": 1}");
    assert_error(ls_json_read(path, 7, &doc), LS_INVALID, path, "8 bytes long, expected at most 7");
    assert_ok(ls_json_read(path, 8, &doc));
    ls_json_free(doc);
}

static void cuts_long_paths(void **state) {
    (void)state;
    char text[1200] = "{\"", key[600];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    strcat(strcat(strcat(text, key), "\": {\"x\": 1}}"), "");
    ls_json *doc = parse(text);
    ls_json_value inner;
    int64_t i;
    assert_ok(ls_json_object(ls_json_root(doc), key, &inner));
    assert_ok(ls_json_int(inner, "x", 1, 1, &i));
    assert_error(ls_json_int(inner, "y", 1, 1, &i), LS_INVALID, "kkkk", "missing");
    ls_json_free(doc);
}

static void walks_members_in_order(void **state) {
    (void)state;
    ls_json *doc = parse("{\"z\": 1, \"a\": 2, \"m\": 3}");
    void *cursor = NULL;
    const char *key;
    ls_json_value value;
    char seen[16] = "";
    int64_t number, sum = 0;
    while (ls_json_next(ls_json_root(doc), &cursor, &key, &value)) {
        strcat(seen, key);
        assert_ok(ls_json_as_int(value, 0, 9, &number));
        sum = 10 * sum + number;
    }
    assert_string_equal(seen, "zam");
    assert_int_equal(sum, 123);
    ls_json_free(doc);
}

static void writes(void **state) {
    (void)state;
    ls_json_writer *w = ls_json_writer_create(0);
    ls_json_open_object(w, NULL);
    ls_json_put_int(w, "i", INT64_MIN);
    ls_json_put_double(w, "d", 0.1);
    ls_json_put_double(w, "nan", NAN);
    ls_json_put_double(w, "inf", -INFINITY);
    ls_json_put_bool(w, "b", false);
    ls_json_put_text(w, "t", "a\"\n\xc3\xa9");
    ls_json_put_text(w, "bad", "a\xff\xc3");
    ls_json_put_text(w, "no", NULL);
    ls_json_open_array(w, "list");
    ls_json_put_int(w, NULL, 1);
    ls_json_put_null(w, NULL);
    ls_json_close(w);
    ls_json_close(w);
    size_t bytes;
    const char *text = ls_json_written(w, &bytes);
    assert_string_equal(text, "{\"i\": -9223372036854775808, \"d\": 0.10000000000000001, \"nan\": null, \"inf\": null, "
                              "\"b\": false, \"t\": \"a\\\"\\n\xc3\xa9\", \"bad\": \"a\xef\xbf\xbd\xef\xbf\xbd\", "
                              "\"no\": null, \"list\": [1, null]}");
    assert_int_equal(bytes, strlen(text));
    ls_json_writer_destroy(w);
    ls_json_writer_destroy(NULL);

    w = ls_json_writer_create(2); /* left unfinished: nothing may leak */
    ls_json_open_object(w, NULL);
    ls_json_open_array(w, "list");
    ls_json_writer_destroy(w);
}

static ls_json_writer *result(uint64_t hash) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_hex(w, "hash", hash);
    return w;
}

static void results_are_printed_and_saved(void **state) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    assert_non_null(memory);
    ls_json_end(result(UINT64_MAX - 1), memory);
    assert_int_equal(fclose(memory), 0);
    assert_string_equal(text, "{\"hash\": \"fffffffffffffffe\"}\n");
    free(text);
    const char *path = scratch_path(state, "w.json");
    assert_ok(ls_json_end_file(result(7), path));
    assert_content(path, "{\"hash\": \"0000000000000007\"}\n");
    assert_error(ls_json_end_file(result(7), scratch_path(state, "no/w.json")), LS_IO, "w.json", "");
    assert_error(ls_jsonl_append(scratch_path(state, "no/w.jsonl"), result(7)), LS_IO, "w.jsonl", "");
}

static void doubles_read_back(void **state) {
    (void)state;
    static const double numbers[] = {0.1, 1e-310, 1.7976931348623157e308, -0.0, 123456789.123456789, 3};
    for (size_t i = 0; i < LS_COUNT(numbers); i++) {
        ls_json_writer *w = ls_json_writer_create(0);
        ls_json_open_object(w, NULL);
        ls_json_put_double(w, "x", numbers[i]);
        ls_json_close(w);
        ls_json *doc = parse(ls_json_written(w, NULL));
        double back;
        assert_ok(ls_json_double(ls_json_root(doc), "x", -INFINITY, INFINITY, &back));
        assert_memory_equal(&back, &numbers[i], sizeof back);
        ls_json_free(doc);
        ls_json_writer_destroy(w);
    }
}

static void append_step(const char *path, int step, double loss) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "step", step);
    ls_json_put_double(w, "loss", loss);
    assert_ok(ls_jsonl_append(path, w));
}

static void lines_are_appended_and_dropped(void **state) {
    const char *path = scratch_path(state, "metrics.jsonl");
    int64_t dropped = -1;
    assert_ok(ls_jsonl_truncate(path, "step", 5, &dropped, NULL)); /* no file yet */
    assert_int_equal(dropped, 0);
    assert_false(ls_file_exists(path));
    append_step(path, 1, 5.5);
    append_step(path, 2, NAN);
    append_step(path, 3, 4.5);
    FILE *file = fopen(path, "a");
    fputs("{\"step\": 4, \"lo", file); /* a process that was killed */
    fclose(file);

    double *columns;
    int64_t rows;
    assert_ok(ls_jsonl_columns(path, (const char *[]){"step", "loss", "none"}, 3, &columns, &rows));
    assert_int_equal(rows, 3);
    assert_true(columns[0] == 1 && columns[1] == 2 && columns[2] == 3);
    assert_true(columns[3] == 5.5 && isnan(columns[4]) && columns[5] == 4.5);
    assert_true(isnan(columns[6]) && isnan(columns[8]));
    free(columns);

    assert_ok(ls_jsonl_truncate(path, "step", 2, &dropped, NULL));
    assert_int_equal(dropped, 1);
    assert_content(path, "{\"step\": 1, \"loss\": 5.5}\n{\"step\": 2, \"loss\": null}\n");
    append_step(path, 3, 4.25);
    assert_content(path,
                   "{\"step\": 1, \"loss\": 5.5}\n{\"step\": 2, \"loss\": null}\n{\"step\": 3, \"loss\": 4.25}\n");
    assert_ok(ls_jsonl_truncate(path, "step", 0, NULL, NULL));
    assert_content(path, "");
}

static void broken_lines_are_named(void **state) {
    const char *path = scratch_text(state, "broken.jsonl", "{\"step\": 1}\nnonsense\n{\"step\": 2}\n");
    double *columns = NULL;
    int64_t rows = -1;
    assert_error(ls_jsonl_truncate(path, "step", 1, &rows, NULL), LS_INVALID, "broken.jsonl line 2", "not valid JSON");
    assert_ok(ls_jsonl_columns(path, (const char *[]){"step"}, 1, &columns, &rows));
    assert_int_equal(rows, 2);
    assert_true(columns[0] == 1 && columns[1] == 2);
    free(columns);
    path = scratch_text(state, "stepless.jsonl", "{\"steps\": 1}\n");
    assert_error(ls_jsonl_truncate(path, "step", 1, &rows, NULL), LS_INVALID, "stepless.jsonl line 1",
                 "step is missing");
    assert_content(path, "{\"steps\": 1}\n");
    assert_int_equal(rows, 2);
}

static void strange_lines_are_kept(void **state) {
    const char *path =
        scratch_text(state, "strange.jsonl", "{\"step\": 1}\nnonsense\n{\"step\": 3}\n[]\n{\"step\": 2}\n{");
    int64_t dropped = 0, strange = 0, rows = 0;
    double *columns = NULL;
    assert_ok(ls_jsonl_truncate(path, "step", 2, &dropped, &strange));
    assert_true(dropped == 1 && strange == 2);
    assert_content(path, "{\"step\": 1}\nnonsense\n[]\n{\"step\": 2}\n");
    assert_ok(ls_jsonl_columns(path, (const char *[]){"step", "step"}, 2, &columns, &rows));
    assert_true(columns[rows - 1] == 2 && columns[2 * rows - 1] == 2 && columns[rows] == 1);
    free(columns);
    assert_ok(ls_jsonl_truncate(path, "step", 2, &dropped, &strange));
    assert_true(dropped == 0 && strange == 2);
}

/* All other bytes stay: spaces, order, numbers as they were written. */
static void edits_one_member(void **state) {
    (void)state;
    static const struct {
        const char *text, *key, *value, *expected;
    } cases[] = {
        {"{}", "a", "1", "{\"a\": 1}"},
        {" {\n} ", "a", "[1]", " {\n\"a\": [1]\n} "},
        {"{\n  \"b\": 1e-05\n}", "a", "1", "{\n  \"a\": 1,\n  \"b\": 1e-05\n}"},
        {"{\"a\" : 1.50 , \"b\":{\"a\":2}}", "a", "null", "{\"a\" : null , \"b\":{\"a\":2}}"},
        {"{\"b\":{\"a\":2},\"a\":{\"}\":\"\\\"{\"}}", "a", "3", "{\"b\":{\"a\":2},\"a\":3}"},
        {"{\"b\":[\"a\",\"]\",{}],\"a\":true}", "a", "3", "{\"b\":[\"a\",\"]\",{}],\"a\":3}"},
        {"{\"\\u0061\":[[1],2]}", "a", "3", "{\"\\u0061\":3}"},
        {"{\"a\":-1.5e+3}", "a", "\"x\"", "{\"a\":\"x\"}"},
        {"{\"b\":\"\\\\\",\"a\":\"\"}", "a", "0", "{\"b\":\"\\\\\",\"a\":0}"},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        char *edited = NULL;
        ls_json *document = NULL;
        assert_ok(ls_json_set_member(cases[i].text, cases[i].key, cases[i].value, &edited));
        assert_string_equal(edited, cases[i].expected);
        assert_ok(ls_json_parse("edited", edited, strlen(edited), &document));
        ls_json_free(document);
        free(edited);
    }
    size_t from = 0, to = 0;
    assert_true(ls_json_find_member("{\"x\": [1, 2] }", "x", &from, &to));
    assert_true(from == 6 && to == 12);
    assert_false(ls_json_find_member("{\"x\": {\"y\": 1}}", "y", &from, &to));
    /* What is no document is not run past. */
    static const char *const broken[] = {
        "",        "[",        "{",          "{\"",      "{\"x",      "{\"x\\",    "{\"x\"",
        "{\"x\":", "{\"x\":[", "{\"x\":[\"", "{\"x\":1", "{\"x\":1,", "{\"x\" 1}", "{\"x\":1;\"y\":2}"};
    for (size_t i = 0; i < LS_COUNT(broken); i++) assert_false(ls_json_find_member(broken[i], "y", &from, &to));
    char *edited = NULL;
    assert_error(ls_json_set_member("[]", "y", "1", &edited), LS_INVALID, "\"y\" cannot be set", "no JSON object");
}

static void test_drop_member(void **state) {
    (void)state;
    static const struct {
        const char *text, *without;
    } cases[] = {
        {"{\"a\": 1}", "{\"a\": 1}"},
        {"{\"x\": [1, {\"x\": 2}]}", "{}"},
        {"{ \"x\" : 1 , \"a\": 1}", "{ \"a\": 1}"},
        {"{\"a\": \"x\",\n  \"x\": \"a, b\"\n}", "{\"a\": \"x\"}"},
        {"{\"a\": 1, \"x\": {\"b\": [2]}, \"c\": 3}", "{\"a\": 1, \"c\": 3}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *edited = NULL;
        assert_ok(ls_json_drop_member(cases[i].text, "x", &edited));
        assert_string_equal(edited, cases[i].without);
        free(edited);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gets_fields),
        cmocka_unit_test(reads_wide_integers),
        cmocka_unit_test(reads_numbers_that_are_not_finite),
        cmocka_unit_test(reads_records_as_python_does),
        cmocka_unit_test(falls_back),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(refuses_broken_text),
        cmocka_unit_test(limits_the_size),
        cmocka_unit_test(cuts_long_paths),
        cmocka_unit_test(walks_members_in_order),
        cmocka_unit_test(writes),
        cmocka_unit_test(results_are_printed_and_saved),
        cmocka_unit_test(doubles_read_back),
        cmocka_unit_test(lines_are_appended_and_dropped),
        cmocka_unit_test(broken_lines_are_named),
        cmocka_unit_test(strange_lines_are_kept),
        cmocka_unit_test(edits_one_member),
        cmocka_unit_test(test_drop_member),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
