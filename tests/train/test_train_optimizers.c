/*
 * Every optimiser of the table trains a tiny model: the curve is the same on any number of ranks and falls, a resumed
 * run has the bits of one that was not interrupted, and another optimiser cannot go on with it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

#define CURVE_TOLERANCE 1e-4 /* as in test_train.c */

static ls_train_options options_of(const run_paths *p, const ls_optimizer *optimizer, int64_t ranks) {
    ls_train_options o = tiny_options(p->model, p->data, p->out);
    o.schedule = "constant";
    o.optimizer = optimizer->name;
    if (ls_optimizer_has(optimizer, offsetof(ls_hyperparameters, momentum)) &&
        !ls_optimizer_has(optimizer, offsetof(ls_hyperparameters, beta1)))
        o.lr = 0.3; /* steps are as large as the gradient */
    o.spread.ranks = ranks;
    return o;
}

static void refuse_another(const ls_train_options *of, const ls_optimizer *another) {
    ls_train_options o = *of;
    char words[80];
    o.optimizer = another->name;
    TRAIN_RESULT result = {.steps = 0};
    const ls_status status = train_into(&o, &result);
    assert_int_equal(status.code, LS_USAGE);
    snprintf(words, sizeof words, "--optimizer %s contradicts", another->name);
    assert_non_null(strstr(status.text, words));
    snprintf(words, sizeof words, "which says %s", of->optimizer);
    assert_non_null(strstr(status.text, words));
}

static void train_with(void **state, const ls_optimizer *optimizer, const ls_optimizer *another) {
    char name[2][40];
    snprintf(name[0], sizeof name[0], "%s-two", optimizer->name);
    snprintf(name[1], sizeof name[1], "%s-three", optimizer->name);
    run_paths *two = make_paths(state, name[0]), *three = make_paths(state, name[1]);
    ls_train_options a = options_of(two, optimizer, 2), b = options_of(three, optimizer, 3);
    train_as_predicted(&a);
    b.steps = a.steps / 2;
    train_as_predicted(&b);
    double *first = losses_written(a.out, a.steps), *second = losses_written(b.out, b.steps);
    print_message("%s: %.3f to %.3f\n", optimizer->name, first[0], first[a.steps - 1]);
    assert_true(first[a.steps - 1] < first[0] - 0.2);
    for (int64_t s = 0; s < b.steps; s++) assert_true(fabs(first[s] - second[s]) <= CURVE_TOLERANCE * first[s]);
    free(first);
    free(second);

    /* The same steps on two ranks, interrupted after half of them; what was not given comes from run.json. */
    run_paths *cut = make_paths(state, strcat(name[0], "-cut"));
    ls_train_options c = options_of(cut, optimizer, 2);
    c.steps = a.steps / 2;
    train_as_predicted(&c);
    c.resume = true;
    c.steps = a.steps;
    refuse_another(&c, another);
    c.optimizer = NULL;
    train_as_predicted(&c);
    assert_same_weights(a.out, c.out);
    free(two);
    free(three);
    free(cut);
}

static void each_trains_and_resumes(void **state) {
    for (int i = 0; ls_optimizer_at(i) != NULL; i++)
        train_with(state, ls_optimizer_at(i), ls_optimizer_at(i == 0 ? 1 : 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_trains_and_resumes)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
