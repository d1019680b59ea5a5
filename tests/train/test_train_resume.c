/* What a resumed run takes from run.json, and what it may not contradict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

static ls_train_options options_of(const run_paths *p) {
    ls_train_options o = tiny_options(p->model, p->data, p->out);
    o.seq = 32;
    o.steps = 4;
    o.spread.ranks = 1;
    return o;
}

/* Only what a resume must be given. */
static ls_train_options resumed(const run_paths *p, int64_t steps) {
    return (ls_train_options){
        .model = p->model, .data = p->data, .n_data = 1, .out = p->out, .steps = steps, .resume = true};
}

/* A zero that was given is stored as zero, and is not taken for an option that was left out. */
static void zeros_are_settings(void **state) {
    run_paths *p = make_paths(state, "zeros");
    ls_train_options o = options_of(p);
    o.clip = o.weight_decay = o.min_lr = o.save_seconds = -1; /* how a zero is given where it is not the default */
    o.seed = 5;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&o, &result));
    char path[600], *text;
    size_t bytes;
    snprintf(path, sizeof path, "%s/run.json", p->out);
    assert_ok(ls_file_read(path, 1 << 20, &text, &bytes));
    assert_non_null(strstr(text, "\"clip\": 0"));
    assert_null(strstr(text, ": -1"));
    free(text);
    o = resumed(p, 6);
    o.seed = UINT64_MAX;
    assert_error(train_into(&o, &result), LS_USAGE, "--seed 0 contradicts", "which says 5");
    o = resumed(p, 6);
    o.warmup = -1;
    assert_error(train_into(&o, &result), LS_USAGE, "--warmup 0 contradicts", "which says 3");
    o = resumed(p, 6);
    o.clip = 1;
    assert_error(train_into(&o, &result), LS_USAGE, "--clip 1 contradicts", "which says 0");
    o = resumed(p, 6);
    o.clip = o.weight_decay = o.min_lr = -1;
    assert_ok(train_into(&o, &result));
    assert_int_equal(result.steps, 6);
    o.clip = -2;
    assert_error(train_into(&o, &result), LS_USAGE, "--clip is -2", "expected 0 to");
    free(p);
}

static void evaluations_are_remembered(void **state) {
    run_paths *p = make_paths(state, "remembered");
    ls_train_options o = options_of(p);
    char text[600];
    snprintf(text, sizeof text, "%s", make_text(state, "evaluation.txt", 300));
    o.eval_data = text;
    o.eval_every = 2;
    o.eval_sequences = 2;
    o.keep_best = true;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&o, &result));
    assert_int_equal(result.best_step, 4);
    const double before = result.best_loss;
    o = resumed(p, 6);
    assert_ok(train_into(&o, &result));
    assert_true(isfinite(result.eval_loss) && result.best_step > 0 && result.best_loss <= before);
    assert_int_equal(result.positions.sequences, 2);
    /* An evaluation of other sequences does not compare with the earlier ones: the first of them is the best so far. */
    o = resumed(p, 8);
    o.eval_sequences = 3;
    assert_ok(train_into(&o, &result));
    assert_int_equal(result.best_step, 8);
    free(p);
}

/* Changes the format in a checkpoint's record, and its hash with it. */
static void make_newer(const char *out, int step, char *path, size_t room) {
    char *text;
    size_t bytes;
    snprintf(path, room, "%s/checkpoint-%08d/state.json", out, step);
    assert_ok(ls_file_read(path, 1 << 20, &text, &bytes));
    char *version = strstr(text, "longspan checkpoint 1"), *hash = strstr(text, "\"state_hash\"");
    assert_true(version != NULL && hash != NULL);
    version[strlen("longspan checkpoint ")] = '2';
    char *digits = strchr(hash + strlen("\"state_hash\""), '"') + 1, made[17];
    memset(digits, '0', 16);
    snprintf(made, sizeof made, "%016llx", (unsigned long long)ls_hash_bytes(text, bytes));
    memcpy(digits, made, 16);
    assert_ok(ls_file_write(path, text, bytes));
    free(text);
}

/* A checkpoint of a newer version is not taken for a damaged one, to go on from an older one and overwrite it. */
static void a_newer_format_is_refused(void **state) {
    run_paths *p = make_paths(state, "newer");
    ls_train_options o = options_of(p);
    char path[600], *before, *after;
    size_t bytes[2];
    o.save_every = 2;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&o, &result));
    make_newer(p->out, 4, path, sizeof path);
    assert_ok(ls_file_read(path, 1 << 20, &before, &bytes[0]));
    o = resumed(p, 6);
    assert_error(train_into(&o, &result), LS_UNSUPPORTED,
                 "checkpoint-00000004/state.json: format is \"longspan checkpoint 2\"",
                 "this version reads \"longspan checkpoint 1\"");
    assert_ok(ls_file_read(path, 1 << 20, &after, &bytes[1]));
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_are_settings),
        cmocka_unit_test(evaluations_are_remembered),
        cmocka_unit_test(a_newer_format_is_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
