/*
 * How states of linear recurrences and of recurrent cells come to the ranks of a sequence is chosen as attention's
 * strategy is: a plan takes the ways that cost least, --strategy names them, and what is not there is refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "session/session.h"
#include "support/scratch.h"

enum { S = 4096, H = 8, D = 64 };

typedef struct problem {
    ls_graph *graph;
    ls_tensor output[3];
    ls_job job;
} problem;

static ls_tensor input(ls_graph *g, const char *name, int64_t elements) {
    const ls_shape shape = {
        4, {{1, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {H, LS_FACTOR_NONE}, {elements, LS_FACTOR_NONE}}};
    return ls_graph_leaf(g, LS_ROLE_INPUT, name, LS_F32, &shape);
}

/* Attention, and if so a linear recurrence and a recurrent cell beside it. */
static void make_problem(problem *p, bool states) {
    ls_graph *g = p->graph = ls_graph_create(LS_F32);
    const ls_tensor q = input(g, "q", D), k = input(g, "k", D), v = input(g, "v", D);
    ls_mask causal = {.n = 0};
    int n = 0;
    assert_ok(ls_mask_add_term(&causal, "causal"));
    p->output[n++] = ls_named(g, ls_attention(g, q, k, v, &causal, 0.1), "attended");
    if (states) {
        const ls_linear_state added = {.decay = LS_NO_TENSOR, .beta = LS_NO_TENSOR, .places = LS_NO_TENSOR};
        const ls_rnn_form cell = {.kind = LS_RNN_GRU, .bias = LS_NO_TENSOR, .places = LS_NO_TENSOR};
        const ls_tensor weight = ls_parameter(g, "weight", 3, (int64_t[]){H, 3 * D, D});
        p->output[n++] = ls_named(g, ls_linear_recurrence(g, q, k, v, &added), "added");
        p->output[n++] = ls_named(g, ls_rnn(g, input(g, "x", 3 * D), weight, &cell), "y");
    }
    assert_ok(ls_graph_status(g));
    p->job = (ls_job){.graph = g, .programs = ls_plain_programs(g, g->n_nodes), .fetch = p->output, .n_fetch = n};
}

static ls_status plan(const problem *p, const char *strategy, ls_plan *out) {
    const ls_spread spread = {.mesh = "ring=4", .layout = "contiguous", .strategy = strategy, .transfers = "put"};
    ls_plan_request request;
    *out = (ls_plan){.n_candidates = 0};
    LS_TRY(ls_spread_resolve(&spread, &request));
    return ls_plan_make(&p->job, &request, out);
}

/* The cheapest by naming the ways; the image has what is named. */
static double least_seconds(const problem *p, double *most) {
    double least = INFINITY;
    *most = 0;
    for (int i = 0; ls_recurrence_way_name(i) != NULL; i++) {
        for (int k = 0; ls_rnn_way_name(k) != NULL; k++) {
            const ls_strategies by = {
                .full = "ring", .recurrence = ls_recurrence_way_name(i), .rnn = ls_rnn_way_name(k)};
            char text[LS_STRATEGY_TEXT];
            ls_plan one;
            ls_strategies_print(&by, text);
            assert_ok(plan(p, text, &one));
            LS_ASSERT(one.candidates != NULL);
            assert_string_equal(one.target.recurrence_way, by.recurrence);
            assert_string_equal(one.target.rnn_way, by.rnn);
            least = fmin(least, one.candidates[0].seconds);
            *most = fmax(*most, one.candidates[0].seconds);
            ls_plan_free(&one);
        }
    }
    return least;
}

static void test_plan_takes_the_cheapest_ways(void **state) {
    (void)state;
    problem p;
    ls_plan made;
    double most;
    make_problem(&p, true);
    const double least = least_seconds(&p, &most);
    assert_true(most > 1.05 * least); /* or nothing would be chosen */
    assert_ok(plan(&p, "ring", &made));
    LS_ASSERT(made.candidates != NULL);
    if (!(made.candidates[0].seconds <= least * (1 + 1e-6)))
        fail_msg("planned %g s, but the cheapest ways take %g s, the dearest %g s", made.candidates[0].seconds, least,
                 most);
    ls_plan_free(&made);
    ls_graph_destroy(p.graph);
}

static void test_texts(void **state) {
    (void)state;
    static const char *const same[] = {"ring", "full=ring,window=gather", "ring,recurrence=heads",
                                       "full=ring,window=usp,recurrence=maps,rnn=chain", "gather,rnn=heads"};
    for (size_t i = 0; i < LS_COUNT(same); i++) {
        ls_strategies read;
        char text[LS_STRATEGY_TEXT];
        assert_ok(ls_strategies_parse(same[i], &read));
        ls_strategies_print(&read, text);
        assert_string_equal(text, same[i]);
    }
    ls_strategies left;
    assert_ok(ls_strategies_parse("auto,recurrence=auto", &left));
    assert_null(left.full);
    assert_null(left.recurrence);
}

static void test_refused(void **state) {
    (void)state;
    problem p;
    ls_plan made;
    make_problem(&p, true);
    assert_error(plan(&p, "recurrence=chain", &made), LS_USAGE, "\"chain\" is not known for linear recurrences",
                 "maps, owners, heads");
    assert_error(plan(&p, "ring,rnn=maps", &made), LS_USAGE, "\"maps\" is not known for recurrent cells", "chain");
    assert_error(plan(&p, "ring,states=maps", &made), LS_USAGE, "\"states\" is no kind of layer", "recurrence, rnn");
    assert_error(plan(&p, "ring,", &made), LS_USAGE, "\"\" is not known for attention", "auto");
    ls_graph_destroy(p.graph);
    make_problem(&p, false);
    assert_error(plan(&p, "ring,recurrence=heads", &made), LS_USAGE, "no linear recurrences",
                 "it has attention (full=NAME)");
    assert_error(plan(&p, "rnn=heads", &made), LS_USAGE, "no recurrent cells", "rnn=heads");
    ls_graph_destroy(p.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_takes_the_cheapest_ways),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
