/*
 * Training: loss curves do not depend on the ranks, bits repeat, and runs that are interrupted in any way resume.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

#include <fcntl.h>
#include <sys/resource.h>

/* Mean losses are near 5. f32 rounding grows over twenty steps; a wrong gradient shows in the second step. */
#define CURVE_TOLERANCE 1e-4

static void train_alone(ls_train_options options, const char *strategy, int64_t ranks, const char *mesh) {
    options.spread.ranks = ranks;
    options.spread.strategy = strategy;
    options.spread.mesh = mesh;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
    assert_int_equal(result.steps, options.steps);
}

static void curves_agree_over_ranks_and_strategies(void **state) {
    static const struct {
        const char *name, *strategy, *mesh;
        int64_t ranks;
    } runs[] = {{"c1", "local", NULL, 1},
                {"c2", "ring", NULL, 2},
                {"c4", "ring", NULL, 4},
                {"u4", "ulysses", NULL, 4},
                {"usp", "usp", "ring=2,ulysses=2", 4},
                {"tp", "ring", "ring=2,tp=2", 4}};
    double *first = NULL;
    for (size_t i = 0; i < LS_COUNT(runs); i++) {
        run_paths *p = make_paths(state, runs[i].name);
        train_alone(tiny_options(p->model, p->data, p->out), runs[i].strategy, runs[i].ranks, runs[i].mesh);
        double *loss = losses_written(p->out, 20), *labels = column_written(p->out, "tokens", 20);
        for (int step = 0; step < 20; step++)
            if (labels[step] != 2 * 96) fail_msg("%s, step %d: %g labels", runs[i].name, step + 1, labels[step]);
        free(labels);
        for (int step = 0; first != NULL && step < 20; step++)
            if (!(fabs(loss[step] - first[step]) <= CURVE_TOLERANCE))
                fail_msg("%s, step %d: loss %.9g, on one rank %.9g", runs[i].name, step + 1, loss[step], first[step]);
        if (first == NULL)
            first = loss;
        else
            free(loss);
        free(p);
    }
    assert_true(first[19] < first[0] - 0.3); /* the model learns, so comparing curves is meaningful */
    free(first);
}

static void same_command_same_bits(void **state) {
    run_paths *a = make_paths(state, "same-a"), *b = make_paths(state, "same-b");
    train_alone(tiny_options(a->model, a->data, a->out), NULL, 2, NULL);
    train_alone(tiny_options(b->model, b->data, b->out), NULL, 2, NULL);
    assert_same_weights(a->out, b->out);
    double *x = losses_written(a->out, 20), *y = losses_written(b->out, 20);
    assert_memory_equal(x, y, 20 * sizeof *x);
    ls_train_options other = tiny_options(b->model, b->data, scratch_path(state, "same-c"));
    other.seed = 5; /* or equality would prove nothing */
    train_alone(other, NULL, 2, NULL);
    double *z = losses_written(other.out, 20);
    assert_memory_not_equal(x, z, 20 * sizeof *x);
    free(x);
    free(y);
    free(z);
    free(a);
    free(b);
}

/* Steps of some tens of milliseconds, so that a run can be interrupted in the middle. */
static ls_train_options slower(ls_train_options options) {
    options.seq = 512;
    options.save_every = 5;
    return options;
}

static void killed_and_resumed_same_bits(void **state) {
    run_paths *whole = make_paths(state, "kill-whole"), *cut = make_paths(state, "kill-cut");
    train_alone(slower(tiny_options(whole->model, whole->data, whole->out)), NULL, 2, NULL);
    ls_train_options options = slower(tiny_options(cut->model, cut->data, cut->out));
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, cut->out, 10);
    assert_int_equal(kill(run.pid, SIGKILL), 0);
    const int result = end_run(&run, NULL);
    assert_true(WIFSIGNALED(result));
    usleep(100000); /* its ranks die with it */
    options.resume = true;
    TRAIN_RESULT done = {.steps = 0};
    assert_ok(train_into(&options, &done));
    assert_int_equal(done.steps, 20);
    assert_same_weights(whole->out, cut->out);
    double *x = losses_written(whole->out, 20), *y = losses_written(cut->out, 20);
    assert_memory_equal(x, y, 20 * sizeof *x);
    free(x);
    free(y);
    free(whole);
    free(cut);
}

static void dead_rank_ends_all(void **state) {
    if (sanitized_by("thread")) skip(); /* ranks are threads there, and a thread cannot be killed */
    run_paths *p = make_paths(state, "dead");
    ls_train_options options = slower(tiny_options(p->model, p->data, p->out));
    options.spread.ranks = 3;
    options.steps = 100000;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, p->out, 6);
    pid_t ranks[3];
    for (int r = 0; r < 3; r++) assert_true((ranks[r] = rank_process(run.pid, r)) > 0);
    const double began = ls_seconds();
    assert_int_equal(kill(ranks[1], SIGKILL), 0);
    ls_status status;
    (void)end_run(&run, &status);
    assert_true(ls_seconds() - began < 5.0);
    assert_error(status, LS_PEER, "rank 1", "signal 9");
    for (int r = 0; r < 3; r++) assert_int_not_equal(kill(ranks[r], 0), 0); /* none is left */
    LS_PATH found = NULL;
    assert_ok(ls_checkpoint_find(p->out, &found)); /* that of step 5 or later */
    free(p);
}

/*
 * With restarts the run continues from the newest checkpoint, to the same bits; the rank that had not died is replaced
 * too.
 */
static void dead_rank_is_started_again(void **state) {
    if (sanitized_by("thread")) skip();
    run_paths *whole = make_paths(state, "again-whole"), *cut = make_paths(state, "again-cut");
    ls_train_options options = slower(tiny_options(whole->model, whole->data, whole->out));
    train_alone(options, NULL, 2, NULL);
    options.out = cut->out;
    options.restarts = 2;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, cut->out, 6);
    const pid_t first = rank_process(run.pid, 1);
    assert_int_equal(kill(first, SIGKILL), 0);
    ls_status status;
    (void)end_run(&run, &status);
    assert_ok(status);
    assert_same_weights(whole->out, cut->out);
    assert_int_equal(steps_written(cut->out), 20);
    free(whole);
    free(cut);
}

/* `train 2>&1 | tee log` when tee has died: nothing reads the output, and the training continues. */
static void close_the_log(void) {
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(99);
    close(ends[0]);
    close(ends[1]);
}

static void a_closed_log_does_not_end_it(void **state) {
    run_paths *p = make_paths(state, "log");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    child_run run = start_run(&options, close_the_log);
    assert_int_equal(end_run(&run, NULL), 0);
    assert_int_equal(steps_written(p->out), 20);
    LS_PATH found = NULL;
    assert_ok(ls_checkpoint_find(p->out, &found));
    free(p);
}

/* Ctrl-C, SIGTERM by a job manager, a closed terminal: all end the run after the step, with a checkpoint. */
static void signals_save_and_resume_goes_on(void **state) {
    static const int signals[] = {SIGTERM, SIGHUP};
    for (size_t i = 0; i < LS_COUNT(signals); i++) {
        run_paths *p = make_paths(state, i == 0 ? "sig-term" : "sig-hup");
        ls_train_options options = slower(tiny_options(p->model, p->data, p->out));
        options.save_every = 0;
        child_run run = start_run(&options, NULL);
        wait_for_step(&run, p->out, 2);
        assert_int_equal(kill(run.pid, signals[i]), 0);
        ls_status status;
        (void)end_run(&run, &status);
        assert_error(status, LS_INTERRUPTED, "stopped after step", "--resume");
        LS_PATH found = NULL;
        ls_train_state saved;
        assert_ok(ls_checkpoint_find(p->out, &found));
        assert_ok(ls_checkpoint_state(found, &saved));
        assert_int_equal(saved.step, steps_written(p->out));
        free(p);
    }
}

static void interrupt_saves_and_resume_goes_on(void **state) {
    run_paths *whole = make_paths(state, "int-whole"), *cut = make_paths(state, "int-cut");
    ls_train_options options = slower(tiny_options(whole->model, whole->data, whole->out));
    options.save_every = 0;
    train_alone(options, NULL, 2, NULL);
    options.out = cut->out;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, cut->out, 3);
    assert_int_equal(kill(run.pid, SIGINT), 0);
    ls_status status;
    (void)end_run(&run, &status);
    assert_error(status, LS_INTERRUPTED, "stopped after step", "--resume");
    const int64_t stopped = steps_written(cut->out);
    assert_in_range(stopped, 3, 19);
    LS_PATH found = NULL;
    ls_train_state saved;
    assert_ok(ls_checkpoint_find(cut->out, &found));
    assert_ok(ls_checkpoint_state(found, &saved));
    assert_int_equal(saved.step, stopped);
    options.resume = true;
    TRAIN_RESULT done = {.steps = 0};
    assert_ok(train_into(&options, &done));
    assert_same_weights(whole->out, cut->out);
    free(whole);
    free(cut);
}

/* A limit of file sizes that acts like a disk that is full when the weights are written, and no sooner. */
static void limit_files(void) {
    const struct rlimit limit = {60000, 60000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(99);
    (void)signal(SIGXFSZ, SIG_IGN);
}

static void full_disk_keeps_the_last_checkpoint(void **state) {
    run_paths *whole = make_paths(state, "disk-whole"), *cut = make_paths(state, "disk-cut");
    ls_train_options options = tiny_options(whole->model, whole->data, whole->out);
    options.schedule = "constant";
    train_alone(options, NULL, 2, NULL);
    options.out = cut->out;
    options.steps = 8;
    train_alone(options, NULL, 2, NULL);
    options.steps = 20;
    options.resume = true;
    options.save_every = 4;
    child_run run = start_run(&options, limit_files);
    ls_status status;
    (void)end_run(&run, &status);
    assert_error(status, LS_IO, "step 20, the last one, is not saved (kept: ", "/checkpoint-00000008)");
    assert_int_equal(steps_written(cut->out), 20); /* the failed attempts at steps 12 and 16 did not end the run */
    LS_PATH found = NULL;
    assert_ok(ls_checkpoint_find(cut->out, &found));
    assert_non_null(strstr(found, "checkpoint-00000008"));
    TRAIN_RESULT done = {.steps = 0};
    assert_ok(train_into(&options, &done));
    assert_same_weights(whole->out, cut->out);
    free(whole);
    free(cut);
}

static void corrupted_checkpoint_is_refused(void **state) {
    run_paths *p = make_paths(state, "corrupt");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.schedule = "constant";
    options.steps = 4;
    train_alone(options, NULL, 2, NULL);
    LS_PATH found = NULL;
    char path[600];
    assert_ok(ls_checkpoint_find(p->out, &found));
    snprintf(path, sizeof path, "%s/model.safetensors", found);
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, 40000), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 40000), 1);
    close(fd);
    options.steps = 6;
    options.resume = true;
    TRAIN_RESULT result = {.steps = 0};
    assert_error(train_into(&options, &result), LS_INVALID, "model.safetensors", "");
    free(p);
}

static void not_finite_is_named_and_not_applied(void **state) {
    run_paths *p = make_paths(state, "nan");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.lr = 1e30;
    options.warmup = 0;
    options.save_every = 1;
    options.schedule = "constant";
    TRAIN_RESULT result = {.steps = 0};
    const ls_status status = train_into(&options, &result);
    assert_error(status, LS_DIVERGED, "not finite; first bad tensor \"", "the update was not applied");
    assert_non_null(strstr(status.text, "on rank "));
    int64_t step = 0;
    assert_int_equal(sscanf(status.text, "step %ld:", &step), 1);
    assert_int_equal(steps_written(p->out), step - 1);
    LS_PATH found = NULL;
    assert_ok(ls_checkpoint_find(p->out, &found));
    assert_non_null(strstr(status.text, found));
    ls_train_state saved;
    assert_ok(ls_checkpoint_state(found, &saved));
    assert_int_equal(saved.step, step - 1);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves_agree_over_ranks_and_strategies),
        cmocka_unit_test(same_command_same_bits),
        cmocka_unit_test(killed_and_resumed_same_bits),
        cmocka_unit_test(dead_rank_ends_all),
        cmocka_unit_test(dead_rank_is_started_again),
        cmocka_unit_test(a_closed_log_does_not_end_it),
        cmocka_unit_test(signals_save_and_resume_goes_on),
        cmocka_unit_test(interrupt_saves_and_resume_goes_on),
        cmocka_unit_test(full_disk_keeps_the_last_checkpoint),
        cmocka_unit_test(corrupted_checkpoint_is_refused),
        cmocka_unit_test(not_finite_is_named_and_not_applied),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
