/*
 * Engines whose graph has states that Newton's method has not found: a step and an evaluation say so, by the layer and
 * the number of states, on any number of ranks; and a graph whose states have converged trains, and says what was left
 * in front of each step.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "longspan/longspan.h"

enum { B = 2, S = 37, V = 9, E = 6, D = 4, VALID = B * S, STEPS = 9 };
#define BOUND 1e-9

static ls_tensor layer(ls_graph *g, ls_tensor x, const char *name, int steps, ls_tensor *count,
                       ls_newton_progress *progress) {
    const ls_tensor in = ls_parameter_named(g, 2, (int64_t[]){3 * D, E}, "%s.in", name),
                    cell = ls_parameter_named(g, 3, (int64_t[]){1, 5, D}, "%s.cell", name),
                    out = ls_parameter_named(g, 2, (int64_t[]){E, D}, "%s.out", name),
                    given = ls_split_last(g, ls_linear(g, x, in, LS_NO_TENSOR), 1, 3 * D);
    const ls_newton_form form = {.kind = LS_RNN_DIAGONAL_LSTM, .steps = steps, .bound = BOUND};
    const ls_tensor y = ls_rnn_newton(g, given, cell, &form, count, progress);
    return ls_add(g, x, ls_linear(g, ls_merge_last(g, y), out, LS_NO_TENSOR));
}

/* Two layers; of the second the count is read by the user, too, and what is left in front of and behind steps. */
typedef struct job {
    int steps[2];
    ls_purpose purpose;
    int64_t micro_batches;
    ls_spread spread;
} job;

typedef struct result {
    double loss, count, missing[STEPS + 1], squares[STEPS + 1];
} result;

static ls_status run(ls_worker *w, const void *input, void *out) {
    const job *j = input;
    result *r = out;
    int32_t tokens[B * S], labels[B * S];
    ls_step_result step;
    for (int i = 0; i < B * S; i++) {
        tokens[i] = i * i % V;
        labels[i] = i % V;
    }
    LS_TRY(ls_worker_set_random(w, 0.5, 5));
    LS_TRY(ls_worker_set_input(w, "tokens", tokens));
    LS_TRY(ls_worker_set_input(w, "labels", labels));
    const ls_step one = {.tokens = VALID * j->micro_batches, .lr = 1e-3};
    for (int i = 0; i < 2; i++)
        LS_TRY(j->purpose == LS_TO_EVALUATE ? ls_worker_evaluate(w, &one, &step) : ls_worker_step(w, &one, &step));
    r->loss = step.loss;
    LS_TRY(ls_worker_get_tensor(w, "missed", &r->count));
    LS_TRY(ls_worker_get_tensor(w, "missing", r->missing));
    return ls_worker_get_tensor(w, "squares", r->squares);
}

static ls_status solve(const job *j, result *out) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), table = ls_parameter(g, "table", 2, (int64_t[]){V, E});
    ls_tensor first, second;
    ls_tensor x = layer(g, ls_embedding(g, tokens, table), "first", j->steps[0], &first, NULL);
    ls_newton_progress left;
    x = layer(g, x, "second", j->steps[1], &second, &left);
    const ls_tensor read[] = {ls_named(g, second, "missed"), ls_named(g, left.missing, "missing"),
                              ls_named(g, left.squares, "squares")},
                    loss =
                        ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, table), ls_input_like(g, "labels", tokens)));
    const ls_engine_options options = {
        .purpose = j->purpose, .micro_batches = j->micro_batches, .read = read, .n_read = 3, .spread = j->spread};
    ls_engine *engine = NULL;
    ls_status status = ls_engine_open(g, loss, &options, &engine);
    if (status.code == LS_OK) status = ls_engine_run(engine, run, j, out, sizeof *out);
    ls_engine_close(engine);
    ls_graph_destroy(g);
    return status;
}

static const ls_spread spreads[] = {{.ranks = 1},
                                    {.ranks = 3, .wait_timeout = 60},
                                    {.mesh = "dp=2,ring=2,ulysses=1", .as_threads = true, .wait_timeout = 60}};

/* The same words from all spreads and for all purposes. */
static void expect_error(const int *steps, const char *layer_name) {
    char first[sizeof((ls_status){0}).text] = "";
    for (size_t s = 0; s < sizeof spreads / sizeof *spreads; s++) {
        for (int purpose = LS_TO_TRAIN; purpose <= LS_TO_EVALUATE; purpose++) {
            const job j = {{steps[0], steps[1]}, (ls_purpose)purpose, 2, spreads[s]};
            result r = {0};
            const ls_status status = solve(&j, &r);
            assert_int_equal(status.code, LS_DIVERGED);
            const char *words = strstr(status.text, " of 296 states of rnn_newton with weight");
            if (words == NULL || strstr(words, layer_name) == NULL || strstr(words, "after 1 steps") == NULL ||
                strstr(words, "ls_rnn, which goes token by token") == NULL)
                fail_msg("the message is: %s", status.text);
            while (words > status.text && words[-1] >= '0' && words[-1] <= '9') words--;
            if (*first == 0) snprintf(first, sizeof first, "%s", words);
            assert_string_equal(words, first);
        }
    }
}

static void test_names_the_layer(void **state) {
    (void)state;
    expect_error((int[]){1, STEPS}, "\"first.cell\"");
    expect_error((int[]){STEPS, 1}, "\"second.cell\"");
}

/* All states in front of the first step, none behind the last, and never more. */
static void expect_progress(const result *r, const result *one) {
    assert_true(2 * r->missing[0] > VALID * D && r->missing[0] <= VALID * D);
    assert_true(r->missing[STEPS] == r->count && r->squares[STEPS] <= 2 * VALID * D * BOUND * BOUND);
    for (int i = 0; i <= STEPS; i++) {
        assert_true(i == 0 || r->missing[i] <= r->missing[i - 1]);
        assert_true(r->missing[i] == 0 || r->squares[i] > BOUND * BOUND);
        assert_true(r->missing[i] == one->missing[i]);
        assert_true(fabs(r->squares[i] - one->squares[i]) <= 1e-9 * one->squares[i] + 1e-20);
    }
}

static void test_converged(void **state) {
    (void)state;
    result one = {0};
    for (size_t s = 0; s < sizeof spreads / sizeof *spreads; s++) {
        const job j = {{STEPS, STEPS}, LS_TO_TRAIN, 2, spreads[s]};
        result r = {.count = -1};
        const ls_status status = solve(&j, &r);
        if (status.code != LS_OK) fail_msg("%s", status.text);
        assert_true(isfinite(r.loss) && r.loss > 0 && r.count == 0);
        if (s == 0) one = r;
        expect_progress(&r, &one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_the_layer), cmocka_unit_test(test_converged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
