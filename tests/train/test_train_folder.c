/*
 * The folder of a run: one run at a time, any path, left-overs of killed runs, and a folder that is removed while a
 * run writes to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

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
    TRAIN_RESULT result = {.steps = 0};
    for (int i = 0; i < 2; i++) {
        options.resume = i == 1;
        assert_error(train_into(&options, &result), LS_USAGE, process, "longspan.lock");
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

/* A very long path works like any other. */
static void a_long_path(void **state) {
    run_paths *p = make_paths(state, "long");
    LS_PATH out = NULL;
    assert_ok(ls_path_print(&out, "%s", p->out));
    for (int i = 0; i < 9; i++)
        assert_ok(ls_path_join(
            out, "a-folder-with-a-name-of-about-a-hundred-characters-so-that-nine-of-them-are-longer-than-any-buffer",
            &out));
    ls_train_options options = tiny_options(p->model, p->data, out);
    options.steps = 2;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
    assert_true(strncmp(result.checkpoint, out, strlen(out)) == 0 && ls_file_is_folder(result.checkpoint));
    assert_true(strncmp(result.model, out, strlen(out)) == 0 && ls_file_is_folder(result.model));
    assert_error(train_into(&options, &result), LS_USAGE, "continue it with --resume", "/checkpoint-00000002");
    options.resume = true;
    options.steps = 4;
    options.schedule = "constant";
    assert_error(train_into(&options, &result), LS_USAGE, "--schedule", "");
    options.schedule = NULL;
    assert_ok(train_into(&options, &result));
    assert_int_equal(result.steps, 4);
    assert_string_equal(strrchr(result.checkpoint, '/'), "/checkpoint-00000004");
    assert_string_equal(strrchr(result.model, '/'), "/model");
    free(p);
}

static const char *closed_folder;

static void as_somebody_else(void) {
    const uid_t other = 65534;
    if (geteuid() == 0 && (chown(closed_folder, other, other) != 0 || setresuid(other, other, other) != 0)) _exit(99);
    if (chmod(closed_folder, 0311) != 0) _exit(99);
}

/* A folder that cannot be listed may hold a run and is not overwritten. */
static void a_folder_that_cannot_be_listed(void **state) {
    run_paths *p = make_paths(state, "closed");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.steps = 2;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
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

/* The next run removes left-overs of killed runs; other files stay. */
static void leftovers_go(void **state) {
    static const char *const left[] = {"run.json.tmp-12",  "loss.svg.tmp-4711",           "metrics.jsonl.tmp-1",
                                       "eval.json.tmp-77", "loss_by_position.svg.tmp-9",  "model.partial-999999999",
                                       "best.partial",     "checkpoint-00000003.partial", "longspan.lock"};
    static const char *const foreign[] = {"notes.tmp-12", "run.json.tmp-", "run.json.tmp-1x", "loss.svg.tmp",
                                          "checkpoint-x.partial"};
    run_paths *p = make_paths(state, "left");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.steps = 6;
    options.save_every = 1;
    TRAIN_RESULT result = {.steps = 0};
    LS_PATH path = NULL;
    assert_ok(train_into(&options, &result));
    for (size_t i = 0; i < LS_COUNT(left) + LS_COUNT(foreign); i++) {
        assert_ok(ls_path_join(p->out, i < LS_COUNT(left) ? left[i] : foreign[i - LS_COUNT(left)], &path));
        assert_ok(ls_file_write(path, "x", 1));
    }
    options.resume = true;
    options.keep = 2;
    assert_ok(train_into(&options, &result)); /* no step is left to do */
    for (size_t i = 0; i < LS_COUNT(left) + LS_COUNT(foreign); i++) {
        assert_ok(ls_path_join(p->out, i < LS_COUNT(left) ? left[i] : foreign[i - LS_COUNT(left)], &path));
        assert_int_equal(ls_file_exists(path), i >= LS_COUNT(left));
    }
    for (int64_t step = 1; step <= 6; step++) {
        assert_ok(ls_checkpoint_path(p->out, step, &path));
        assert_int_equal(ls_file_exists(path), step >= 5);
    }
    free(p);
}

/* Until the folder has a checkpoint. */
static void wait_for_checkpoint(const char *out) {
    int64_t newest = -1;
    for (int i = 0; i < 10000 && newest < 0; i++) {
        usleep(1000);
        assert_ok(ls_checkpoint_newest(out, &newest));
    }
    assert_true(newest > 0);
}

/* The folder is moved, then removed, during a run: each time it is made again at once, with all that a resume needs. */
static void a_folder_that_goes_comes_again(void **state) {
    run_paths *p = make_paths(state, "gone");
    LS_PATH moved = NULL;
    assert_ok(ls_path_print(&moved, "%s-moved", p->out));
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.steps = 1000000;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, p->out, 2);
    assert_int_equal(rename(p->out, moved), 0);
    wait_for_checkpoint(p->out);
    assert_int_equal(rename(p->out, scratch_path(state, "doomed")), 0); /* at once, as no removal is */
    assert_ok(ls_file_remove_tree(scratch_path(state, "doomed")));
    wait_for_checkpoint(p->out);
    assert_int_equal(kill(run.pid, SIGTERM), 0);
    ls_status status;
    (void)end_run(&run, &status);
    assert_error(status, LS_INTERRUPTED, "stopped after step", "");
    int64_t newest;
    assert_ok(ls_checkpoint_newest(p->out, &newest));
    options.resume = true;
    options.steps = newest + 2;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
    free(p);
}

/* Another run holds the folder at that path now: this run ends and leaves it alone. */
static void a_folder_of_another_run_is_left(void **state) {
    run_paths *p = make_paths(state, "taken");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.steps = 1000000;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, p->out, 2);
    assert_ok(ls_file_make_folders(scratch_path(state, "others")));
    ls_lock *lock;
    assert_ok(ls_lock_take(scratch_path(state, "others"), &lock));
    assert_int_equal(rename(p->out, scratch_path(state, "old")), 0);
    assert_int_equal(rename(scratch_path(state, "others"), p->out), 0);
    ls_status status;
    (void)end_run(&run, &status);
    assert_error(status, LS_USAGE, "was removed or replaced", "longspan.lock");
    ls_file_names names;
    assert_ok(ls_file_list(p->out, &names));
    for (size_t i = 0; i < names.count; i++)
        if (strncmp(names.name[i], "metrics.jsonl", 13) != 0) assert_string_equal(names.name[i], "longspan.lock");
    ls_file_names_free(&names);
    ls_lock_release(lock);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run_at_a_time),
        cmocka_unit_test(a_long_path),
        cmocka_unit_test(a_folder_that_cannot_be_listed),
        cmocka_unit_test(leftovers_go),
        cmocka_unit_test(a_folder_that_goes_comes_again),
        cmocka_unit_test(a_folder_of_another_run_is_left),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
