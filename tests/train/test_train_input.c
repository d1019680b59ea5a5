/* Wrong settings are reported in one line before anything runs; and the learning rates of schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

#include "train/train_impl.h"

static void refuse(const ls_train_options *options, ls_code code, const char *word, const char *other) {
    TRAIN_RESULT result = {.steps = 0};
    assert_error(train_into(options, &result), code, word, other);
}

static void bad_data_and_places(void **state) {
    run_paths *p = make_paths(state, "bad");
    const ls_train_options good = tiny_options(p->model, p->data, p->out);
    ls_train_options bad = good;
    bad.data = (const char *[]){scratch_text(state, "empty.txt", "")};
    refuse(&bad, LS_INVALID, "empty.txt", "empty");
    bad.data = (const char *[]){scratch_text(state, "short.txt", "too short")};
    refuse(&bad, LS_INVALID, "short.txt", "97 tokens");
    bad.data = (const char *[]){scratch_path(state, "nowhere.txt")};
    refuse(&bad, LS_IO, "nowhere.txt", "");
    bad = good;
    bad.out = scratch_path(state, "text.txt/run"); /* below a file: nobody, not even root, can create that folder */
    refuse(&bad, LS_IO, "text.txt", "");
    bad = good;
    bad.model = scratch_text(state, "broken.json", "{\"vocab_size\": ");
    refuse(&bad, LS_INVALID, "broken.json", "");
    bad.model = scratch_path(state, "nowhere.json");
    refuse(&bad, LS_IO, "nowhere.json", "");
    free(p);
}

static void bad_settings(void **state) {
    run_paths *p = make_paths(state, "settings");
    const ls_train_options good = tiny_options(p->model, p->data, p->out);
    ls_train_options bad = good;
    bad.spread.ranks = 100000;
    refuse(&bad, LS_USAGE, "100000", "96 tokens");
    bad = good;
    bad.spread.ranks = -1;
    refuse(&bad, LS_USAGE, "-1", "");
    bad = good;
    bad.spread.strategy = "ulysses"; /* 4 query heads */
    bad.spread.ranks = 8;
    refuse(&bad, LS_USAGE, "ulysses", "4");
    bad = good;
    bad.spread.strategy = "magic";
    refuse(&bad, LS_USAGE, "magic", "ring");
    bad = good;
    bad.accumulate = 3;
    refuse(&bad, LS_USAGE, "--accumulate 3", "--batch 2");
    bad = good;
    bad.dtype = "f16";
    refuse(&bad, LS_USAGE, "f16", "bf16");
    bad = good;
    bad.schedule = "polynomial";
    refuse(&bad, LS_USAGE, "polynomial", "cosine, linear, constant or wsd");
    bad = good;
    bad.beta1 = 1.5;
    refuse(&bad, LS_USAGE, "--beta1", "1.5");
    bad = good;
    bad.eval_every = 2;
    refuse(&bad, LS_USAGE, "--eval-every", "--eval-data");
    bad = good;
    bad.replan = true;
    refuse(&bad, LS_USAGE, "--replan", "--resume");
    free(p);
}

static void resume_checks_what_is_given(void **state) {
    run_paths *p = make_paths(state, "contradict");
    const ls_train_options good = tiny_options(p->model, p->data, p->out);
    ls_train_options options = good;
    options.resume = true;
    refuse(&options, LS_INVALID, "no checkpoint", p->out);
    options.resume = false;
    options.steps = 2;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
    refuse(&options, LS_USAGE, "already holds a run", "--resume"); /* never overwritten */

    options.resume = true;
    ls_train_options bad = options;
    bad.lr = 1e-2;
    refuse(&bad, LS_USAGE, "--lr 0.01", "0.003");
    bad = options;
    bad.steps = 1;
    refuse(&bad, LS_USAGE, "--steps 1 is less than the 2 steps", "done");
    bad.epochs = 1;
    refuse(&bad, LS_USAGE, "--steps 1 and --epochs 1", "expected one of them");
    bad = options;
    bad.spread.ranks = 1;
    refuse(&bad, LS_USAGE, "--ranks 1", "2");
    bad = options;
    bad.data = (const char *[]){make_text(state, "other.txt", TEXT_BYTES + 1)};
    refuse(&bad, LS_USAGE, "--data", "run.json");
    bad.data = p->data;
    bad.model = "examples/tiny";
    if (ls_file_is_folder(bad.model)) refuse(&bad, LS_USAGE, "--model examples/tiny", "run.json");
    ls_train_options least = {.data = p->data, .n_data = 1, .model = p->model, .out = p->out, .resume = true};
    least.spread.as_threads = options.spread.as_threads;
    assert_ok(train_into(&least, &result)); /* nothing given: all of it comes from run.json */
    assert_int_equal(result.steps, 2);
    free(p);
}

/* run.json as a version without these fields wrote it; each row is a line of run.json. */
static void forget_fields(const char *out, const char *const *fields, size_t n) {
    char path[600], *text;
    size_t bytes;
    snprintf(path, sizeof path, "%s/run.json", out);
    assert_ok(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    for (size_t i = 0; i < n; i++) {
        char *line = strstr(text, fields[i]);
        if (line == NULL) fail_msg("run.json has no %s", fields[i]);
        while (*line != '\n') line--;
        const char *next = strchr(line + 1, '\n');
        memmove(line, next, strlen(next) + 1);
    }
    assert_ok(ls_file_write(path, text, strlen(text)));
    free(text);
}

static void older_run_goes_on(void **state) {
    static const char *const younger[] = {"\"transfers\"", "\"recompute\"", "\"tile\"", "\"tile_rows\""};
    run_paths *old = make_paths(state, "older"), *whole = make_paths(state, "older-whole");
    ls_train_options options = tiny_options(old->model, old->data, old->out);
    options.schedule = "constant";
    options.steps = 2;
    options.spread.transfers = "put";
    options.spread.recompute = options.spread.tile = "none";
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
    forget_fields(old->out, younger, LS_COUNT(younger));

    ls_train_options on = options;
    on.resume = true;
    on.steps = 4;
    on.spread.tile = "loss";
    refuse(&on, LS_USAGE, "--tile loss", "none"); /* the settings of the run, not the defaults of a new run */
    on.spread = (ls_spread){.as_threads = options.spread.as_threads};
    assert_ok(train_into(&on, &result));

    ls_json *record;
    ls_json_value spread;
    const char *transfers, *recompute, *tile;
    char path[600];
    snprintf(path, sizeof path, "%s/run.json", old->out);
    assert_ok(ls_json_read(path, LS_JSON_MOST_BYTES, &record));
    assert_ok(ls_json_object(ls_json_root(record), "spread", &spread));
    assert_ok(ls_json_text(spread, "transfers", &transfers));
    assert_ok(ls_json_text(spread, "recompute", &recompute));
    assert_ok(ls_json_text(spread, "tile", &tile));
    assert_string_equal(transfers, "put");
    assert_string_equal(recompute, "0");
    assert_string_equal(tile, "none");
    ls_json_free(record);

    options.out = whole->out;
    options.steps = 4;
    assert_ok(train_into(&options, &result));
    assert_same_weights(old->out, whole->out);
    free(old);
    free(whole);
}

static void replanned_run_goes_on(void **state) {
    run_paths *p = make_paths(state, "replan");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.schedule = "constant";
    options.steps = 4;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
    options.resume = options.replan = true;
    options.steps = 8;
    options.spread.ranks = 3;
    options.spread.strategy = "ring";
    assert_ok(train_into(&options, &result));
    double *loss = losses_written(p->out, 8);
    run_paths *q = make_paths(state, "replan-whole");
    options = tiny_options(q->model, q->data, q->out);
    options.schedule = "constant";
    options.steps = 8;
    assert_ok(train_into(&options, &result));
    double *whole = losses_written(q->out, 8);
    for (int i = 0; i < 8; i++) assert_true(fabs(loss[i] - whole[i]) < 1e-4);
    free(loss);
    free(whole);
    free(p);
    free(q);
}

static void evaluation_changes_nothing(void **state) {
    run_paths *plain = make_paths(state, "eval-no"), *with = make_paths(state, "eval-yes");
    ls_train_options options = tiny_options(plain->model, plain->data, plain->out);
    options.steps = 6;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
    assert_true(isnan(result.eval_loss));
    options.out = with->out;
    options.eval_data = with->text;
    options.eval_every = 2;
    assert_ok(train_into(&options, &result));
    assert_true(result.eval_loss > 1.0 && result.eval_loss < 6.0);
    assert_same_weights(plain->out, with->out);
    char path[600];
    snprintf(path, sizeof path, "%s/metrics.jsonl", with->out);
    double *eval;
    int64_t rows;
    assert_ok(ls_jsonl_columns(path, (const char *[]){"eval_loss"}, 1, &eval, &rows));
    assert_int_equal(rows, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(isfinite(eval[i]), (i + 1) % 2 == 0);
    assert_true(eval[5] == result.eval_loss);
    free(eval);
    free(plain);
    free(with);
}

/* The first line of each call says what came before it, a fresh one and a resumed one; the others do not. */
static void start_up_is_told(void **state) {
    run_paths *p = make_paths(state, "start-up");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    TRAIN_RESULT result = {.steps = 0};
    options.steps = 3;
    options.max_seconds = 1e-9; /* one step */
    const double before = ls_seconds();
    assert_ok(train_into(&options, &result));
    const double took = ls_seconds() - before;
    options.max_seconds = 1e6;
    options.resume = true;
    assert_ok(train_into(&options, &result));
    char path[600];
    snprintf(path, sizeof path, "%s/metrics.jsonl", p->out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[1024];
    for (int i = 0; i < 3; i++) {
        assert_non_null(fgets(line, sizeof line, file));
        const char *told = strstr(line, "\"start_up\"");
        assert_int_equal(told != NULL, i < 2);
        if (told == NULL) continue;
        double read, plan, prove, ranks, compile, prepare, touch, weights, exchange;
        long long weights_read, huge, recorded;
        assert_int_equal(
            sscanf(
                told,
                "\"start_up\": {\"read_seconds\": %lf, \"plan_seconds\": %lf, "
                "\"prove_seconds\": %lf, \"ranks_seconds\": %lf, \"compile_seconds\": %lf, "
                "\"prepare_seconds\": %lf, \"touch_seconds\": %lf, \"weights_seconds\": %lf, "
                "\"exchange_seconds\": %lf, \"weights_read_bytes\": %lld, \"huge_page_bytes\": %lld, \"recorded_bytes\": %lld}",
                &read, &plan, &prove, &ranks, &compile, &prepare, &touch, &weights, &exchange, &weights_read, &huge,
                &recorded),
            12);
        assert_true(read > 0 && plan > 0 && prove > 0 && ranks > 0 && compile >= 0 && prepare > 0 && touch > 0);
        assert_true(weights > 0 && exchange >= 0 && huge >= 0 && recorded == 0);
        assert_int_equal(weights_read > 0, i > 0); /* random ones at first, then those of the checkpoint */
        if (i == 0) assert_true(read + plan + prove + ranks + prepare + touch + weights + exchange < took);
    }
    assert_int_equal(fclose(file), 0);
    free(p);
}

static void learning_rates(void **state) {
    (void)state;
    ls_train_options o = {.lr = 1.0, .min_lr = 0.1, .warmup = 10, .steps = 110, .schedule = "cosine"};
    assert_true(fabs(ls_schedule_lr(&o, 1) - 0.1) < 1e-12);
    assert_true(fabs(ls_schedule_lr(&o, 10) - 1.0) < 1e-12);
    assert_true(fabs(ls_schedule_lr(&o, 60) - 0.55) < 1e-12);
    assert_true(fabs(ls_schedule_lr(&o, 110) - 0.1) < 1e-12);
    o.schedule = "wsd";
    assert_true(fabs(ls_schedule_lr(&o, 89) - 1.0) < 1e-12);
    assert_true(fabs(ls_schedule_lr(&o, 100) - 0.55) < 1e-12);
    assert_true(fabs(ls_schedule_lr(&o, 110) - 0.1) < 1e-12);
    o.schedule = "linear";
    assert_true(fabs(ls_schedule_lr(&o, 35) - 0.775) < 1e-12);
    assert_true(fabs(ls_schedule_lr(&o, 110) - 0.1) < 1e-12);
    o.min_lr = 0;
    assert_true(fabs(ls_schedule_lr(&o, 60) - 0.5) < 1e-12);
    assert_true(fabs(ls_schedule_lr(&o, 110)) < 1e-12);
    o.schedule = "constant";
    assert_true(fabs(ls_schedule_lr(&o, 110) - 1.0) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_data_and_places),
        cmocka_unit_test(bad_settings),
        cmocka_unit_test(resume_checks_what_is_given),
        cmocka_unit_test(replanned_run_goes_on),
        cmocka_unit_test(older_run_goes_on),
        cmocka_unit_test(evaluation_changes_nothing),
        cmocka_unit_test(start_up_is_told),
        cmocka_unit_test(learning_rates),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
