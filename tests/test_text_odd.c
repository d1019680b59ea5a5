/* Odd tokenizers, each in a folder of its own: the ids and texts of the reference library, as tests/reference/make_odd_tokenizers.py has
 * stored them, or a refusal by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "test_format_scratch.h"

#include "text/text.h"

#define MUST(expression) assert_ok(expression)

/* A line of odd.jsonl. */
static ls_json *next_line(char **at) {
    ls_json *line = NULL;
    char *end = strchr(*at, '\n');
    if (!end) return NULL;
    MUST(ls_json_parse("odd.jsonl", *at, (size_t)(end - *at), &line));
    *at = end + 1;
    return line;
}

static void write_files(void **state, ls_json_value files) {
    void *cursor = NULL;
    const char *name, *text;
    ls_json_value value;
    while (ls_json_next(files, &cursor, &name, &value)) {
        MUST(ls_json_as_text(value, &text));
        scratch_text(state, name, text);
    }
}

static void remove_files(void **state, ls_json_value files) {
    void *cursor = NULL;
    const char *name;
    ls_json_value value;
    while (ls_json_next(files, &cursor, &name, &value)) {
        char path[LS_FILE_PATH];
        MUST(ls_file_join(*state, name, path, sizeof path));
        assert_int_equal(remove(path), 0);
    }
}

static void expect_ids(const char *name, const char *what, const char *text, const ls_token_list *ids,
                       ls_json_value expected) {
    for (size_t i = 0; i < ids->count && i < ls_json_count(expected); i++) {
        int64_t id;
        MUST(ls_json_as_int(ls_json_item(expected, i), 0, INT32_MAX, &id));
        if (ids->id[i] != id)
            fail_msg("%s: %s %zu of \"%s\" is %d, expected %d", name, what, i, text, ids->id[i], (int)id);
    }
    if (ids->count != ls_json_count(expected))
        fail_msg("%s: %zu %ss of \"%s\", expected %zu", name, ids->count, what, text,
                 ls_json_count(expected));
}

static void add(ls_token_list *list, const int32_t *ids, size_t n) {
    list->id = realloc(list->id, (list->count + n + 1) * sizeof *ids);
    assert_non_null(list->id);
    if (n > 0) memcpy(list->id + list->count, ids, n * sizeof *ids);
    list->count = list->capacity = list->count + n;
}

static void expect_text(const char *name, const ls_tokenizer *t, const char *text, ls_json_value row) {
    ls_token_list ids = {0}, framed = {0};
    ls_text back = {0};
    const char *expected;
    const ls_token_frame frame = ls_tokenizer_frame(t);
    MUST(ls_tokenizer_encode(t, text, strlen(text), &ids));
    expect_ids(name, "id", text, &ids, ls_json_item(row, 0));
    add(&framed, frame.before, frame.n_before);
    add(&framed, ids.id, ids.count);
    add(&framed, frame.after, frame.n_after);
    expect_ids(name, "framed id", text, &framed, ls_json_item(row, 1));
    MUST(ls_tokenizer_decode(t, ids.id, ids.count, &back));
    MUST(ls_json_as_text(ls_json_item(row, 2), &expected));
    if (back.count != strlen(expected) || (back.count > 0 && memcmp(back.byte, expected, back.count) != 0))
        fail_msg("%s: \"%s\" comes back as \"%.*s\", expected \"%s\"", name, text, (int)back.count, back.byte,
                 expected);
    free(ids.id);
    free(framed.id);
    free(back.byte);
}

static void check(void **state, ls_json_value texts, ls_json_value line) {
    const char *name, *refused, *text;
    ls_json_value files, rows;
    ls_tokenizer *t = NULL;
    MUST(ls_json_text(line, "name", &name));
    MUST(ls_json_text_or(line, "refused", NULL, &refused));
    MUST(ls_json_object(line, "files", &files));
    write_files(state, files);
    const ls_status status = ls_tokenizer_open(*state, &t);
    if (refused) {
        if (status.code == LS_OK) fail_msg("%s is read, expected a refusal with %s", name, refused);
        if (!strstr(status.text, refused)) fail_msg("%s: \"%s\", expected %s", name, status.text, refused);
    } else {
        if (status.code != LS_OK) fail_msg("%s: %s", name, status.text);
        MUST(ls_json_array(line, "expected", &rows));
        for (size_t i = 0; i < ls_json_count(texts); i++) {
            MUST(ls_json_as_text(ls_json_item(texts, i), &text));
            expect_text(name, t, text, ls_json_item(rows, i));
        }
        ls_tokenizer_close(t);
    }
    remove_files(state, files);
}

static void give_the_reference_s_ids_or_are_refused(void **state) {
    char *all, *at;
    size_t bytes, count = 0;
    ls_json_value texts;
    MUST(ls_file_read(LS_TEST_REFERENCE "/odd/odd.jsonl", 1 << 20, &all, &bytes));
    at = all;
    ls_json *first = next_line(&at), *line;
    MUST(ls_json_array(ls_json_root(first), "texts", &texts));
    for (; (line = next_line(&at)); count++) {
        check(state, texts, ls_json_root(line));
        ls_json_free(line);
    }
    assert_true(count >= 20);
    ls_json_free(first);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(give_the_reference_s_ids_or_are_refused)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
