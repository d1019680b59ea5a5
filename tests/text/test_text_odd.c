/*
 * Odd tokenizers, each in a folder of its own, have the ids and texts of the reference library, which
 * tests/reference/make_odd_tokenizers.py stored, or are refused by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "support/scratch.h"

#include "text/text.h"

/* A line of odd.jsonl. */
static ls_json *next_line(char **at) {
    ls_json *line = NULL;
    char *end = strchr(*at, '\n');
    if (!end) return NULL;
    assert_ok(ls_json_parse("odd.jsonl", *at, (size_t)(end - *at), &line));
    *at = end + 1;
    return line;
}

/* A file; "model":"@N" in it stands for a model that several share. */
static void write_file(void **state, ls_json_value models, const char *name, const char *text) {
    static const char mark[] = "\"model\":\"@";
    const char *found = strstr(text, mark), *model;
    char *end;
    if (!found) {
        scratch_text(state, name, text);
        return;
    }
    const size_t number = strtoul(found + sizeof mark - 1, &end, 10);
    assert_int_equal(*end, '"');
    assert_ok(ls_json_as_text(ls_json_item(models, number), &model));
    const size_t room = strlen(text) + strlen(model) + 1;
    char *whole = malloc(room);
    assert_non_null(whole);
    snprintf(whole, room, "%.*s\"model\":%s%s", (int)(found - text), text, model, end + 1);
    scratch_text(state, name, whole);
    free(whole);
}

static void write_files(void **state, ls_json_value models, ls_json_value files) {
    void *cursor = NULL;
    const char *name, *text;
    ls_json_value value;
    while (ls_json_next(files, &cursor, &name, &value)) {
        assert_ok(ls_json_as_text(value, &text));
        write_file(state, models, name, text);
    }
}

static void remove_files(void **state, ls_json_value files) {
    void *cursor = NULL;
    const char *name;
    ls_json_value value;
    while (ls_json_next(files, &cursor, &name, &value)) {
        LS_PATH path = NULL;
        assert_ok(ls_path_join(*state, name, &path));
        assert_int_equal(remove(path), 0);
    }
}

static void expect_ids(const char *name, const char *what, const char *text, const ls_token_list *ids,
                       ls_json_value expected) {
    for (size_t i = 0; i < ids->count && i < ls_json_count(expected); i++) {
        int64_t id;
        assert_ok(ls_json_as_int(ls_json_item(expected, i), 0, INT32_MAX, &id));
        if (ids->id[i] != id)
            fail_msg("%s: %s %zu of \"%s\" is %d, expected %d", name, what, i, text, ids->id[i], (int)id);
    }
    if (ids->count != ls_json_count(expected))
        fail_msg("%s: %zu %ss of \"%s\", expected %zu", name, ids->count, what, text, ls_json_count(expected));
}

/* What stands before or behind the ids. */
static void expect_around(const char *name, const char *what, const int32_t *ids, size_t n, ls_json_value expected) {
    const ls_token_list list = {.id = (int32_t *)(uintptr_t)ids, .count = n};
    expect_ids(name, what, "", &list, expected);
}

static void expect_text(const char *name, const ls_tokenizer *t, const char *text, ls_json_value row) {
    ls_token_list ids = {0};
    ls_text back = {0};
    const char *expected;
    if (!ls_json_is_array(row)) return; /* the library panics */
    assert_ok(ls_tokenizer_encode(t, text, strlen(text), &ids));
    expect_ids(name, "id", text, &ids, ls_json_item(row, 0));
    assert_ok(ls_tokenizer_decode(t, ids.id, ids.count, &back));
    assert_ok(ls_json_as_text(ls_json_item(row, 1), &expected));
    if (back.count != strlen(expected) || (back.count > 0 && memcmp(back.byte, expected, back.count) != 0))
        fail_msg("%s: \"%s\" comes back as \"%.*s\", expected \"%s\"", name, text, (int)back.count, back.byte,
                 expected);
    free(ids.id);
    free(back.byte);
}

static void expect_all(const char *name, const ls_tokenizer *t, ls_json_value texts, ls_json_value line) {
    const ls_token_frame frame = ls_tokenizer_frame(t);
    const char *text;
    ls_json_value rows;
    expect_around(name, "id before", frame.before, frame.n_before, ls_json_field(line, "before"));
    expect_around(name, "id behind", frame.after, frame.n_after, ls_json_field(line, "after"));
    assert_ok(ls_json_array(line, "expected", &rows));
    for (size_t i = 0; i < ls_json_count(texts); i++) {
        assert_ok(ls_json_as_text(ls_json_item(texts, i), &text));
        expect_text(name, t, text, ls_json_item(rows, i));
    }
}

static void check(void **state, ls_json_value first, ls_json_value line) {
    const char *name, *refused;
    ls_json_value files;
    ls_tokenizer *t = NULL;
    assert_ok(ls_json_text(line, "name", &name));
    assert_ok(ls_json_text_or(line, "refused", NULL, &refused));
    assert_ok(ls_json_object(line, "files", &files));
    write_files(state, ls_json_field(first, "models"), files);
    const ls_status status = ls_tokenizer_open(*state, &t);
    if (refused && status.code == LS_OK) fail_msg("%s is read, expected a refusal with %s", name, refused);
    if (refused && !strstr(status.text, refused)) fail_msg("%s: \"%s\", expected %s", name, status.text, refused);
    if (!refused && status.code != LS_OK) fail_msg("%s: %s", name, status.text);
    if (!refused) expect_all(name, t, ls_json_field(first, "texts"), line);
    ls_tokenizer_close(t);
    remove_files(state, files);
}

static void give_the_reference_s_ids_or_are_refused(void **state) {
    char *all, *at;
    size_t bytes, count = 0;
    assert_ok(ls_file_read(LS_TEST_REFERENCE "/odd/odd.jsonl", 1 << 20, &all, &bytes));
    at = all;
    ls_json *first = next_line(&at), *line;
    for (; (line = next_line(&at)); count++) {
        check(state, ls_json_root(first), ls_json_root(line));
        ls_json_free(line);
    }
    assert_true(count >= 140);
    ls_json_free(first);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(give_the_reference_s_ids_or_are_refused)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
