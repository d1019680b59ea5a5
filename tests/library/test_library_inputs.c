/*
 * Inputs of real numbers of a user's graph (ls_input_typed, ls_worker_set_real_input): a weight for the loss of each
 * token, over ranks and types, against the sum by hand; a loss of the caller's by log-probabilities; and wrong calls.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "longspan/longspan.h"

enum { B = 2, S = 12, V = 7, E = 5, TOKENS = B * S };

static void assert_ok(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s: %s", ls_code_name(status.code), status.text);
}

static void must_fail(ls_status status, ls_code code, const char *words) {
    if (status.code != code || strstr(status.text, words) == NULL)
        fail_msg("%s: %s; expected %s with '%s'", ls_code_name(status.code), status.text, ls_code_name(code), words);
}

static double weight_at(int i) { return 0.25 * (i % 5); } /* exact in every type */

/* The loss of token i is its weight times its cross-entropy. */
static ls_graph *make_graph(ls_dtype dtype, ls_tensor *losses, ls_tensor *loss) {
    ls_graph *g = ls_graph_create(dtype);
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), labels = ls_input_like(g, "labels", tokens);
    const ls_tensor weights = ls_input_typed(g, "weights", dtype == LS_F64 ? LS_F64 : LS_F32, tokens);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){V, E});
    *losses =
        ls_named(g, ls_cross_entropy(g, ls_linear_wide(g, ls_embedding(g, tokens, table), table), labels), "losses");
    *loss = ls_sum(g, ls_mul(g, *losses, weights));
    return g;
}

typedef struct found {
    double one_by_one; /* the sum of weight times loss, of which each is got by a weight of 1 at one token */
    double weighted;
} found;

static ls_status loss_of(ls_worker *w, const double *weights, double *out) {
    ls_step_result step;
    LS_TRY(ls_worker_set_real_input(w, "weights", weights));
    LS_TRY(ls_worker_step(w, &(ls_step){.tokens = 1}, &step));
    *out = step.loss;
    return ls_ok();
}

static ls_status work(ls_worker *w, const void *input, void *result) {
    (void)input;
    found *out = result;
    int32_t tokens[TOKENS], labels[TOKENS];
    double weights[TOKENS], one[TOKENS], loss;
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = i * 3 % V;
        labels[i] = (i * 5 + 1) % V;
        weights[i] = weight_at(i);
    }
    LS_TRY(ls_worker_set_random(w, 0.5, 1));
    LS_TRY(ls_worker_set_input(w, "tokens", tokens));
    LS_TRY(ls_worker_set_input(w, "labels", labels));
    for (int i = 0; i < TOKENS; i++) {
        memset(one, 0, sizeof one);
        one[i] = 1;
        LS_TRY(loss_of(w, one, &loss));
        out->one_by_one += weight_at(i) * loss;
    }
    return loss_of(w, weights, &out->weighted);
}

static void test_weights(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F64, LS_F32, LS_BF16};
    for (int t = 0; t < 3; t++)
        for (int ranks = 1; ranks <= 3; ranks++) {
            ls_tensor losses, loss;
            ls_engine *engine;
            found out = {0, 0};
            ls_graph *g = make_graph(types[t], &losses, &loss);
            assert_ok(ls_engine_open(
                g, loss,
                &(ls_engine_options){.purpose = LS_TO_DIFFERENTIATE, .spread = {.ranks = ranks, .as_threads = true}},
                &engine));
            assert_ok(ls_engine_run(engine, work, NULL, &out, sizeof out));
            assert_true(out.weighted > 1);
            assert_true(fabs(out.weighted - out.one_by_one) < (types[t] == LS_F64 ? 1e-12 : 1e-5) * out.weighted);
            ls_engine_close(engine);
            ls_graph_destroy(g);
        }
}

/* --- a loss of log-probabilities, computed here ------------------------------------------------------------------- */

/* Of the losses of all tokens: the sum over sequences of log(1 + exp(their sum - 20)); slope: by a sequence's sum. */
static double loss_of_sequences(const double *losses, double slope[B]) {
    double loss = 0;
    for (int b = 0; b < B; b++) {
        double sum = -20;
        for (int i = 0; i < S; i++) sum += losses[b * S + i];
        loss += log1p(exp(sum));
        slope[b] = 1 / (1 + exp(-sum));
    }
    return loss;
}

static ls_status evaluate(ls_worker *w, const double *table, double *losses) {
    ls_step_result step;
    LS_TRY(ls_worker_set_parameter(w, "table", table));
    LS_TRY(ls_worker_evaluate(w, &(ls_step){.tokens = 1}, &step));
    return ls_worker_get_tensor(w, "losses", losses);
}

/* Sets *result to the largest difference of a derivative by an element of the table from finite differences. */
static ls_status differentiate(ls_worker *w, const void *input, void *result) {
    (void)input;
    int32_t tokens[TOKENS], labels[TOKENS];
    double table[V * E], losses[TOKENS], weights[TOKENS] = {0}, slope[B], unused[B], gradient[V * E];
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = i * 3 % V;
        labels[i] = (i * 5 + 1) % V;
    }
    for (int i = 0; i < V * E; i++) table[i] = sin(i + 1);
    LS_TRY(ls_worker_set_input(w, "tokens", tokens));
    LS_TRY(ls_worker_set_input(w, "labels", labels));
    LS_TRY(ls_worker_set_real_input(w, "weights", weights)); /* of an evaluation they may be any */
    LS_TRY(evaluate(w, table, losses));
    loss_of_sequences(losses, slope);
    for (int i = 0; i < TOKENS; i++) weights[i] = slope[i / S];
    ls_step_result step;
    LS_TRY(ls_worker_set_real_input(w, "weights", weights));
    LS_TRY(ls_worker_step(w, &(ls_step){.tokens = 1}, &step));
    LS_TRY(ls_worker_get_gradient(w, "table", gradient));
    for (int i = 0; i < V * E; i++) {
        const double at = table[i], h = 1e-5;
        double loss[2];
        for (int side = 0; side < 2; side++) {
            table[i] = at + (side == 0 ? h : -h);
            LS_TRY(evaluate(w, table, losses));
            loss[side] = loss_of_sequences(losses, unused);
        }
        table[i] = at;
        *(double *)result = fmax(*(double *)result, fabs(gradient[i] - (loss[0] - loss[1]) / (2 * h)));
    }
    return ls_ok();
}

static void test_loss_of_the_caller(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        ls_tensor losses, loss;
        ls_engine *engine;
        double off = 0;
        ls_graph *g = make_graph(LS_F64, &losses, &loss);
        assert_ok(ls_engine_open(g, loss,
                                 &(ls_engine_options){.purpose = LS_TO_DIFFERENTIATE,
                                                      .read = &losses,
                                                      .n_read = 1,
                                                      .spread = {.ranks = ranks, .as_threads = true}},
                                 &engine));
        assert_ok(ls_engine_run(engine, differentiate, NULL, &off, sizeof off));
        if (!(off > 0 && off < 1e-7)) fail_msg("%d ranks: a derivative is off by %g", ranks, off);
        ls_engine_close(engine);
        ls_graph_destroy(g);
    }
}

static ls_status call_wrongly(ls_worker *w, const void *input, void *result) {
    (void)input;
    (void)result;
    const double numbers[TOKENS] = {0};
    const int32_t ids[TOKENS] = {0};
    ls_worker lost = {.ranks = 1};
    must_fail(ls_worker_set_real_input(w, NULL, numbers), LS_INVALID, "ls_worker_set_real_input: name is NULL");
    must_fail(ls_worker_set_real_input(w, "weights", NULL), LS_INVALID, "values is NULL");
    must_fail(ls_worker_set_real_input(w, "tokens", numbers), LS_USAGE, "is i32; expected ls_worker_set_input");
    must_fail(ls_worker_set_input(w, "weights", ids), LS_USAGE, "is f32; expected ls_worker_set_real_input");
    must_fail(ls_worker_set_real_input(w, "nothing", numbers), LS_USAGE, "expected one of \"tokens\"");
    must_fail(ls_worker_set_real_input(NULL, "weights", numbers), LS_INVALID, "no worker");
    must_fail(ls_worker_set_real_input(&lost, "weights", numbers), LS_INVALID, "no worker");
    return ls_ok();
}

static void test_wrong_calls(void **state) {
    (void)state;
    ls_tensor losses, loss;
    ls_engine *engine;
    ls_graph *g = make_graph(LS_F32, &losses, &loss);
    assert_ok(ls_engine_open(g, loss, &(ls_engine_options){.spread = {.ranks = 1, .as_threads = true}}, &engine));
    assert_ok(ls_engine_run(engine, call_wrongly, NULL, NULL, 0));
    ls_engine_close(engine);
    ls_graph_destroy(g);
}

static void test_wrong_inputs(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        static const char *const words[] = {"ls_input_typed: the tensor is missing", "ls_input_typed: element type 77",
                                            "ls_input_typed: the name is NULL", "\"w\" is declared twice"};
        ls_graph *g = ls_graph_create(LS_F32);
        const ls_tensor tokens = ls_tokens(g, "tokens", 1, 4);
        (void)ls_input_typed(g, "w", LS_F32, tokens);
        assert_ok(ls_graph_status(g));
        (void)ls_input_typed(g,
                             i == 2   ? NULL
                             : i == 3 ? "w"
                                      : "x",
                             i == 1 ? (ls_dtype)77 : LS_F32, i == 0 ? LS_NO_TENSOR : tokens);
        must_fail(ls_graph_status(g), LS_INVALID, words[i]);
        ls_graph_destroy(g);
    }
    (void)ls_input_typed(NULL, "w", LS_F32, LS_NO_TENSOR); /* does nothing, as the other functions do */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_loss_of_the_caller),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_wrong_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
