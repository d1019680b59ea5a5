/* Whole files and folders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void reads_with_a_limit(void **state) {
    const char *path = scratch_text(state, "read", "hello\n");
    char *text = NULL;
    size_t bytes = 0;
    assert_content(path, "hello\n");
    assert_error(ls_file_read(path, 5, &text, &bytes), LS_INVALID, path, "6 bytes long, expected at most 5");
    assert_null(text);
    assert_error(ls_file_read(scratch_path(state, "none"), 5, &text, &bytes), LS_IO, "none", "No such file");
    assert_error(ls_file_read(*state, 5, &text, &bytes), LS_IO, *state, "it is a folder");
    assert_error(ls_file_read("/dev/null", 5, &text, &bytes), LS_IO, "/dev/null", "not a regular file");
    const char *pipe = scratch_path(state, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_error(ls_file_read(pipe, 5, &text, &bytes), LS_IO, "pipe", "not a regular file"); /* and does not wait */
}

static void leave_with_7(int number) {
    (void)number;
    _exit(7);
}

static void maps(void **state) {
    ls_file_map map;
    assert_ok(ls_file_map_open(scratch_text(state, "map", "abc"), &map));
    assert_int_equal(map.bytes, 3);
    assert_memory_equal(map.data, "abc", 3);
    ls_file_map_close(&map);
    assert_ok(ls_file_map_open(scratch_text(state, "empty", ""), &map));
    assert_int_equal(map.bytes, 0);
    assert_non_null(map.data);
    ls_file_map_close(&map);
    ls_file_map_close(NULL);
    assert_error(ls_file_map_open(scratch_path(state, "none"), &map), LS_IO, "none", "No such file");
}

/* What a child process that touches a byte of a file that has been cut says, and how it ends. */
static int touch_cut_file(const char *path, off_t left, size_t at, bool own_handler, char *said, size_t room) {
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ls_file_map map, closed;
        const struct sigaction standard = {.sa_handler = own_handler ? leave_with_7 : SIG_DFL};
        sigaction(SIGBUS, &standard, NULL); /* a sanitizer has its own */
        dup2(ends[1], STDERR_FILENO);
        if (ls_file_map_open(path, &closed).code != LS_OK || ls_file_map_open(path, &map).code != LS_OK) _exit(8);
        ls_file_map_close(&closed);
        ls_mapped_watch(NULL, NULL);
        if (truncate(path, left) != 0) _exit(9);
        if (own_handler) raise(SIGBUS);
        _exit(map.data[at] == 'x' ? 0 : 2);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], said, room - 1), more = n;
    while (more > 0 && (more = read(ends[0], said + n, room - 1 - (size_t)n)) > 0) n += more;
    said[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void cut_files_are_named(void **state) {
    enum { BYTES = 3 << 16 };
    char said[1200], expected[600], *text = malloc(BYTES + 1);
    memset(text, 'x', BYTES);
    text[BYTES] = 0;
    const char *path = scratch_text(state, "cut", text);
    assert_int_equal(touch_cut_file(path, BYTES - 1, 0, false, said, sizeof said), 0);
    assert_string_equal(said, "");
    path = scratch_text(state, "cut", text);
    assert_int_equal(touch_cut_file(path, 100, BYTES - 1, false, said, sizeof said), 1);
    snprintf(expected, sizeof expected, "longspan: %s: it was cut from %d to 100 bytes while it was read\n", path,
             BYTES);
    assert_string_equal(said, expected);
    path = scratch_text(state, "cut", text);
    assert_int_equal(touch_cut_file(path, 100, 0, true, said, sizeof said), 7); /* a SIGBUS of others is theirs */
    assert_string_equal(said, "");
    free(text);
}

/* Names in the folder. */
static size_t entries(const char *folder) {
    ls_file_names names;
    assert_ok(ls_file_list(folder, &names));
    size_t count = names.count;
    ls_file_names_free(&names);
    return count;
}

static void writes_whole_or_not(void **state) {
    const char *folder = scratch_path(state, "write"), *path = scratch_path(state, "write/file");
    assert_ok(ls_file_make_folders(folder));
    assert_ok(ls_file_write(path, "old", 3));
    assert_content(path, "old");
    const ls_file_piece pieces[] = {{"one ", 4}, {"", 0}, {"two", 3}};
    assert_ok(ls_file_write_pieces(path, pieces, 3));
    assert_content(path, "one two");
    assert_int_equal(entries(folder), 1);

    /* A write that fails half way: no file may grow beyond a page. */
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){4096, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    char *large = calloc(1, 10000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    ls_status status = ls_file_write(path, large, 10000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    free(large);
    assert_error(status, LS_IO, path, "File too large");
    assert_content(path, "one two");
    assert_int_equal(entries(folder), 1); /* the temporary file is gone */
}

static void refuses_bad_targets(void **state) {
    assert_error(ls_file_write("/dev/null", "x", 1), LS_IO, "/dev/null", "not a regular file");
    assert_error(ls_file_write(*state, "x", 1), LS_IO, *state, "not a regular file");
    assert_error(ls_file_write(scratch_path(state, "no/where"), "x", 1), LS_IO, "no/where", "No such file");
    char name[5000];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    assert_error(ls_file_write(name, "x", 1), LS_IO, "cannot ", "aaa: File name too long");
    assert_error(ls_file_make_folders(name), LS_IO, "cannot ", "aaa: File name too long");
    assert_error(ls_file_make_folders(""), LS_INVALID, "empty path", "");
}

static void makes_folders(void **state) {
    const char *path = scratch_path(state, "a/b//c/");
    assert_ok(ls_file_make_folders(path));
    assert_ok(ls_file_make_folders(path));
    assert_true(ls_file_is_folder(path));
    assert_ok(ls_file_make_folders("/"));
    scratch_text(state, "a/file", "");
    assert_error(ls_file_make_folders(scratch_path(state, "a/file")), LS_IO, "a/file", "Not a directory");
    assert_error(ls_file_make_folders(scratch_path(state, "a/file/b")), LS_IO, "a/file", "Not a directory");
    assert_false(ls_file_is_folder(scratch_path(state, "a/file")));
    assert_true(ls_file_exists(scratch_path(state, "a/file")));
    assert_false(ls_file_exists(scratch_path(state, "a/none")));
}

static void lists_in_order(void **state) {
    assert_ok(ls_file_make_folders(scratch_path(state, "list/b")));
    scratch_text(state, "list/c", "");
    scratch_text(state, "list/a", "");
    ls_file_names names;
    assert_ok(ls_file_list(scratch_path(state, "list"), &names));
    assert_int_equal(names.count, 3);
    assert_string_equal(names.name[0], "a");
    assert_string_equal(names.name[1], "b");
    assert_string_equal(names.name[2], "c");
    ls_file_names_free(&names);
    assert_error(ls_file_list(scratch_path(state, "none"), &names), LS_IO, "none", "No such file");
}

static void renames_and_removes(void **state) {
    assert_ok(ls_file_make_folders(scratch_path(state, "tree/deep/er")));
    scratch_text(state, "tree/deep/er/file", "x");
    scratch_text(state, "kept", "kept");
    assert_int_equal(symlink(scratch_path(state, "kept"), scratch_path(state, "tree/deep/link")), 0);
    assert_ok(ls_file_rename(scratch_path(state, "tree"), scratch_path(state, "moved/")));
    assert_false(ls_file_exists(scratch_path(state, "tree")));
    assert_ok(ls_file_remove_tree(scratch_path(state, "moved")));
    assert_false(ls_file_exists(scratch_path(state, "moved")));
    assert_content(scratch_path(state, "kept"), "kept"); /* the link was removed, not what it names */
    assert_ok(ls_file_remove_tree(scratch_path(state, "moved")));
    assert_error(ls_file_rename(scratch_path(state, "tree"), scratch_path(state, "x")), LS_IO, "tree", "No such file");
}

static void knows_the_space(void **state) {
    int64_t bytes = -1;
    assert_ok(ls_file_free_bytes(*state, &bytes));
    assert_true(bytes >= 0);
    assert_ok(ls_file_need_space(*state, 0));
    assert_error(ls_file_need_space(*state, INT64_MAX), LS_IO, *state, "9223372036854775807 are needed");
    assert_error(ls_file_need_space(scratch_path(state, "none"), 1), LS_IO, "none", "No such file");
}

static void joins(void **state) {
    (void)state;
    static const char *const parents[][2] = {{"a", "."},   {"a/", "."},    {"", "."},         {"/", "/"},
                                             {"/a", "/"},  {"/a/", "/"},   {"a/b", "a"},      {"a//b//", "a"},
                                             {"//a", "/"}, {"../a", ".."}, {"/a/b/c", "/a/b"}};
    LS_PATH out = NULL;
    assert_ok(ls_path_join("ab", "cd", &out));
    assert_string_equal(out, "ab/cd");
    assert_ok(ls_path_join("ab/", "cd", &out));
    assert_string_equal(out, "ab/cd");
    for (int i = 0; i < 9; i++) assert_ok(ls_path_join(out, out, &out)); /* what is read may be what is filled */
    assert_int_equal(strlen(out), (6 << 9) - 1);
    assert_error(ls_file_sync(out), LS_IO, "cannot open ab/cd", "ab/cd: No such file"); /* the reason is not cut off */
    for (size_t i = 0; i < LS_COUNT(parents); i++) {
        assert_ok(ls_path_parent(parents[i][0], &out));
        assert_string_equal(out, parents[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_with_a_limit),  cmocka_unit_test(maps),
        cmocka_unit_test(cut_files_are_named), cmocka_unit_test(writes_whole_or_not),
        cmocka_unit_test(refuses_bad_targets), cmocka_unit_test(makes_folders),
        cmocka_unit_test(lists_in_order),      cmocka_unit_test(renames_and_removes),
        cmocka_unit_test(knows_the_space),     cmocka_unit_test(joins),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
