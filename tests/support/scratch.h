/* A folder for the files of one test program, and assertions on statuses. Include after the header of cmocka. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "base/base.h"
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka group state: the folder's path, made by scratch_make, removed by scratch_remove. */
static inline int scratch_make(void **state) {
    char *path = strdup("/tmp/longspan-test-XXXXXX");
    *state = path;
    return path && mkdtemp(path) ? 0 : -1;
}

static inline int scratch_remove(void **state) {
    ls_status status = ls_file_remove_tree(*state);
    free(*state);
    return status.code == LS_OK ? 0 : -1;
}

/* The path of `name` in the folder. Lives until the next-but-three call. */
static inline const char *scratch_path(void **state, const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", (const char *)*state, name);
    return path;
}

static inline const char *scratch_file(void **state, const char *name, const void *data, size_t bytes) {
    const char *path = scratch_path(state, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *scratch_text(void **state, const char *name, const char *text) {
    return scratch_file(state, name, text, strlen(text));
}

static inline void assert_ok(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s: %s", ls_code_name(status.code), status.text);
}

/* Asserts that the status has this code and that its line contains each of the words. */
static inline void assert_error(ls_status status, ls_code code, const char *word, const char *other) {
    if (status.code != code)
        fail_msg("code %s (%s), expected %s", ls_code_name(status.code), status.text, ls_code_name(code));
    if (!strstr(status.text, word)) fail_msg("\"%s\" does not say \"%s\"", status.text, word);
    if (!strstr(status.text, other)) fail_msg("\"%s\" does not say \"%s\"", status.text, other);
    if (strchr(status.text, '\n')) fail_msg("\"%s\" is more than one line", status.text);
}

static inline void assert_content(const char *path, const char *expected) {
    char *text;
    size_t bytes;
    assert_ok(ls_file_read(path, 1 << 20, &text, &bytes));
    assert_string_equal(text, expected);
    assert_int_equal(bytes, strlen(expected));
    free(text);
}

#endif
