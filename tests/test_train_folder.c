/* The folder of a run: one run at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_train_support.h"

#include <sys/stat.h>

/* A second start, of either kind, changes nothing and names the first; the first does not notice. */
static void one_run_at_a_time(void **state) {
    run_paths *p = make_paths(state, "one");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.steps = 100000;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, p->out, 3);
    char process[32];
    snprintf(process, sizeof process, "process %d ", (int)run.pid);
    ls_train_result result;
    for (int i = 0; i < 2; i++) {
        options.resume = i == 1;
        assert_error(ls_train(&options, &result), LS_USAGE, process, "longspan.lock");
    }
    assert_int_equal(kill(run.pid, SIGTERM), 0);
    ls_status status;
    (void)end_run(&run, &status);
    assert_error(status, LS_INTERRUPTED, "stopped after step", "");
    (void)steps_written(p->out); /* no step twice */
    ls_file_names names;
    assert_ok(ls_file_list(p->out, &names));
    for (size_t i = 0; i < names.count; i++) assert_string_not_equal(names.name[i], "longspan.lock");
    ls_file_names_free(&names);
    free(p);
}

/* A path longer than any buffer that one might think of is a path like others. */
static void a_long_path(void **state) {
    run_paths *p = make_paths(state, "long");
    LS_PATH out = NULL;
    assert_ok(ls_path_print(&out, "%s", p->out));
    for (int i = 0; i < 9; i++)
        assert_ok(ls_path_join(
            out,
            "a-folder-with-a-name-of-about-a-hundred-characters-so-that-nine-of-them-are-longer-than-any-buffer",
            &out));
    ls_train_options options = tiny_options(p->model, p->data, out);
    options.steps = 2;
    ls_train_result result;
    assert_ok(ls_train(&options, &result));
    assert_true(strncmp(result.checkpoint, out, strlen(out)) == 0 && ls_file_is_directory(result.checkpoint));
    assert_true(strncmp(result.model, out, strlen(out)) == 0 && ls_file_is_directory(result.model));
    assert_error(ls_train(&options, &result), LS_USAGE, "continue it with --resume", "/checkpoint-00000002");
    options.resume = true;
    options.steps = 4;
    options.schedule = "constant";
    assert_error(ls_train(&options, &result), LS_USAGE, "--schedule", "");
    options.schedule = NULL;
    assert_ok(ls_train(&options, &result));
    assert_int_equal(result.steps, 4);
    for (int i = 0; i < 128; i++) assert_ok(ls_path_join(out, p->out, &out));
    options.out = out;
    assert_error(ls_train(&options, &result), LS_USAGE, "--out is a path of", "expected at most");
    free(p);
}

static const char *closed_folder;

static void as_somebody_else(void) {
    const uid_t other = 65534;
    if (geteuid() == 0 && (chown(closed_folder, other, other) != 0 || setresuid(other, other, other) != 0))
        _exit(99);
    if (chmod(closed_folder, 0311) != 0) _exit(99);
}

/* What cannot be listed may hold a run: it is not overwritten. */
static void a_folder_that_cannot_be_listed(void **state) {
    run_paths *p = make_paths(state, "closed");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.steps = 2;
    ls_train_result result;
    assert_ok(ls_train(&options, &result));
    assert_int_equal(chmod(*state, 0711), 0);
    closed_folder = p->out;
    child_run run = start_run(&options, as_somebody_else);
    ls_status status;
    (void)end_run(&run, &status);
    assert_error(status, LS_IO, "cannot list", p->out);
    assert_int_equal(chmod(p->out, 0755), 0);
    assert_int_equal(steps_written(p->out), 2);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run_at_a_time),
        cmocka_unit_test(a_long_path),
        cmocka_unit_test(a_folder_that_cannot_be_listed),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
