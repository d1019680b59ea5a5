/*
 * The average of trained weights (--ema): what it is after each step, that it changes no step, on meshes and shards and
 * with every kind of parameter; that it is resumed bit by bit, and that evaluations and exports are of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "checkpoint/export.h"
#include "eval/eval.h"
#include "format/safetensors.h"
#include "support/train.h"

enum { STEPS = 4 };
static const double decay = 0.75;

/* The numbers of a file of a checkpoint, or of an exported model: all tensors whose names begin so, in their order. */
typedef struct numbers {
    double *at;
    int64_t n;
} numbers;

static numbers read_numbers(const char *path, const char *begins) {
    ls_st_file *file;
    numbers all = {0};
    assert_ok(ls_st_open(path, &file));
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) all.at = calloc((size_t)all.n + 1, sizeof *all.at);
        if (pass == 1) all.n = 0;
        for (int64_t i = 0; i < ls_st_count(file); i++) {
            const ls_st_tensor *t = ls_st_at(file, i);
            if (strncmp(t->name, begins, strlen(begins)) != 0) continue;
            if (pass == 1) assert_ok(ls_st_convert(t, 0, t->count, LS_F64, all.at + all.n));
            all.n += t->count;
        }
    }
    ls_st_close(file);
    return all;
}

static numbers of_step(const char *out, int64_t step, const char *file, const char *begins) {
    char path[700];
    snprintf(path, sizeof path, "%s/checkpoint-%08lld/%s", out, (long long)step, file);
    return read_numbers(path, begins);
}
static numbers averages(const char *out, int64_t step) { return of_step(out, step, "model.safetensors", ""); }
static numbers lasts(const char *out, int64_t step) { return of_step(out, step, "optimizer.safetensors", "last "); }

/* |a - (x b + y c)| / |a| */
static double error_of(numbers a, double x, numbers b, double y, numbers c) {
    double error = 0, norm = 0;
    assert_true(a.n > 0 && a.n == b.n && a.n == c.n);
    for (int64_t i = 0; i < a.n; i++) {
        error += pow(a.at[i] - x * b.at[i] - y * c.at[i], 2);
        norm += a.at[i] * a.at[i];
    }
    return sqrt(error / norm);
}

static ls_train_options averaged(const run_paths *p) {
    ls_train_options o = tiny_options(p->model, p->data, p->out);
    o.steps = STEPS;
    o.warmup = -1;
    o.schedule = "constant";
    o.save_every = 1;
    o.ema = decay;
    return o;
}

/* In each step the average moves to the weights of that step; from: of step 1 `before`, the weights of the start. */
static void check_steps(const char *out, const numbers *before) {
    for (int64_t step = before != NULL ? 1 : 2; step <= STEPS; step++) {
        numbers now = averages(out, step), last = lasts(out, step);
        numbers old = step > 1 ? averages(out, step - 1) : *before;
        assert_true(error_of(now, decay, old, 1 - decay, last) < 2e-7); /* f32, rounded twice */
        assert_true(error_of(now, 0, old, 1, last) > 1e-5);
        assert_true(error_of(now, 1, old, 0, last) > 1e-5);
        if (step > 1) free(old.at);
        free(now.at);
        free(last.at);
    }
}

static void moves_to_the_weights_and_changes_no_step(void **state) {
    run_paths *p = make_paths(state, "averaged"), *plain = make_paths(state, "plain"),
              *still = make_paths(state, "still");
    ls_train_options o = averaged(p), without = averaged(plain), begun = averaged(still);
    without.ema = 0;
    begun.steps = 1;
    begun.lr = 1e-30;
    train_as_predicted(&o);
    train_as_predicted(&without);
    train_as_predicted(&begun);
    numbers begin = lasts(begun.out, 1), its = averages(begun.out, 1);
    assert_true(error_of(its, 0, begin, 1, begin) < 1e-7); /* all weights are those of the start */
    check_steps(o.out, &begin);
    numbers with = lasts(o.out, STEPS), other = averages(without.out, STEPS);
    assert_int_equal(with.n, other.n);
    assert_memory_equal(with.at, other.at, sizeof *with.at * (size_t)with.n);
    free(begin.at);
    free(its.at);
    free(with.at);
    free(other.at);
    free(p);
    free(plain);
    free(still);
}

/* Each optimiser, on 2, 3 and 4 ranks. The average of rows with AdamW in f32 is compared with that of one rank. */
static const struct spread_case {
    const char *name, *mesh, *shard, *offload, *dtype, *optimizer, *lora, *group;
    bool other; /* its weights are other ones */
    bool cut;   /* it is interrupted, too */
} cases[] = {
    {.name = "three", .mesh = "ring=3", .shard = "parameters", .cut = true},
    {.name = "tp", .mesh = "tp=2", .shard = "gradients", .dtype = "bf16", .cut = true, .other = true},
    {.name = "stages", .mesh = "pp=2", .shard = "none"},
    {.name = "four", .mesh = "ring=2,tp=2", .shard = "gradients", .optimizer = "lion", .other = true},
    {.name = "both", .mesh = "ring=2,ulysses=2", .shard = "optimizer", .optimizer = "sgd", .other = true},
    {.name = "offload", .mesh = "ring=2", .offload = "optimizer", .optimizer = "muon", .cut = true, .other = true},
    {.name = "lora", .mesh = "ring=2", .lora = "r=4,alpha=8", .other = true},
    {.name = "frozen", .mesh = "ring=2", .group = "model.embed_tokens*:frozen", .other = true},
};

/* trained: a model, which an adapter is on. */
static ls_train_options options_of(const struct spread_case *c, const run_paths *p, const char *trained) {
    ls_train_options o = averaged(p);
    o.dtype = c->dtype;
    o.optimizer = c->optimizer;
    o.adapter.lora = c->lora;
    if (c->lora != NULL) o.model = trained;
    o.spread = (ls_spread){
        .mesh = c->mesh, .shard = c->shard, .offload = c->offload, .threads = 1, .as_threads = sanitized_by("thread")};
    if (c->group == NULL) return o;
    o.groups = &c->group;
    o.n_groups = 1;
    return o;
}

/* A parameter that is not trained has no average: it is left out of both files. */
static void check_frozen(const char *out) {
    numbers all = averages(out, STEPS), trained = lasts(out, STEPS),
            table = of_step(out, STEPS, "model.safetensors", "model.embed");
    assert_int_equal(table.n, 256 * 32);
    assert_int_equal(trained.n, all.n - table.n);
    free(all.at);
    free(trained.at);
    free(table.at);
}

/* The same steps, interrupted after half of them. */
static void resume(const ls_train_options *whole, ls_train_options *cut) {
    cut->steps = STEPS / 2;
    train_as_predicted(cut);
    cut->resume = true;
    cut->steps = STEPS;
    train_as_predicted(cut);
    assert_same_weights(whole->out, cut->out);
}

static void is_the_same_on_any_ranks_and_resumed(void **state) {
    run_paths *one = make_paths(state, "one");
    ls_train_options alone = averaged(one);
    alone.spread.ranks = 1;
    train_as_predicted(&alone);
    char trained[600];
    snprintf(trained, sizeof trained, "%s/model", alone.out);
    numbers expected = averages(alone.out, STEPS);
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        char name[40];
        snprintf(name, sizeof name, "%s-cut", cases[i].name);
        run_paths *p = make_paths(state, cases[i].name), *cut = make_paths(state, name);
        ls_train_options o = options_of(&cases[i], p, trained), c = options_of(&cases[i], cut, trained);
        print_message("%s\n", cases[i].name);
        train_as_predicted(&o);
        if (cases[i].group == NULL) check_steps(o.out, NULL);
        if (cases[i].group != NULL) check_frozen(o.out);
        numbers found = averages(o.out, STEPS);
        if (!cases[i].other) assert_true(error_of(found, 0, found, 1, expected) < 1e-4);
        free(found.at);
        if (cases[i].cut) resume(&o, &c);
        free(p);
        free(cut);
    }
    free(expected.at);
    free(one);
}

static double loss_of(const char *model, const run_paths *p) {
    const ls_eval_options options = {
        .model = model, .data = p->data, .n_data = 1, .seq = 96, .pack = "join", .spread = {.ranks = 1, .threads = 1}};
    ls_eval_result result;
    assert_ok(ls_evaluate(&options, &result));
    return result.table.all.loss;
}

static void evaluations_and_exports_are_of_it(void **state) {
    run_paths *p = make_paths(state, "evaluated");
    ls_train_options o = averaged(p);
    char checkpoint[600], last[600];
    o.eval_data = p->text;
    o.keep_best = true;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&o, &result));
    snprintf(last, sizeof last, "%s", scratch_path(state, "last"));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%08d", o.out, STEPS);
    ls_export_options options = {.checkpoint = checkpoint, .out = last, .last = true, .dtype = LS_ST_DTYPES};
    ls_export_result exported;
    assert_ok(ls_checkpoint_export(&options, &exported));
    assert_false(exported.averaged);
    const double of_average = loss_of(result.model, p), of_last = loss_of(last, p);
    print_message("evaluation %.6f, model %.6f, last weights %.6f\n", result.eval_loss, of_average, of_last);
    assert_true(fabs(result.eval_loss - of_average) < 1e-5 && fabs(of_average - of_last) > 1e-2);
    char path[700];
    snprintf(path, sizeof path, "%s/model.safetensors", last);
    numbers written = read_numbers(path, ""), expected = lasts(o.out, STEPS);
    assert_int_equal(written.n, expected.n);
    double a = 0, b = 0; /* the files' orders may differ */
    for (int64_t i = 0; i < written.n; i++) a += written.at[i], b += expected.at[i];
    assert_true(fabs(a - b) < 1e-9 * (double)written.n);
    free(written.at);
    free(expected.at);
    free(p);
}

static void is_refused(void **state) {
    run_paths *p = make_paths(state, "refused");
    ls_train_options o = averaged(p);
    TRAIN_RESULT result = {.steps = 0};
    o.ema = 1;
    assert_error(train_into(&o, &result), LS_USAGE, "--ema is 1; expected 0 to 0.9999999", "");
    o.ema = 0;
    o.steps = 1;
    train_as_predicted(&o);
    o.resume = true;
    o.ema = decay;
    assert_error(train_into(&o, &result), LS_USAGE, "--ema 0.75 contradicts", "which says 0");
    char checkpoint[600];
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%08d", o.out, 1);
    ls_export_options options = {
        .checkpoint = checkpoint, .out = scratch_path(state, "none"), .last = true, .dtype = LS_ST_DTYPES};
    ls_export_result exported;
    assert_error(ls_checkpoint_export(&options, &exported), LS_USAGE, "--last: the checkpoint has no average",
                 "a run with --ema");
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moves_to_the_weights_and_changes_no_step),
                                       cmocka_unit_test(is_the_same_on_any_ranks_and_resumed),
                                       cmocka_unit_test(evaluations_and_exports_are_of_it),
                                       cmocka_unit_test(is_refused)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
