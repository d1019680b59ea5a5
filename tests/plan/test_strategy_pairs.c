/*
 * Attention with a window and without one in turn, each by a strategy of its own: loss and all gradients are those of
 * one rank in f64, programs are proved, and a plan takes two strategies where their cost says so.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "report/report.h"
#include "session/session.h"
#include "support/meshes.h"
#include "support/network.h"
#include "support/scratch.h"

enum { B = 2, S = 41, V = 9, E = 24, Hq = 4, Hkv = 2, D = 6, LAYERS = 4 };

static ls_tensor heads(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t n) {
    const ls_tensor w = ls_parameter_named(g, 2, (int64_t[]){n * D, E}, "%d.%s", layer, name);
    return ls_split_last(g, ls_linear(g, x, w, LS_NO_TENSOR), n, D);
}

static ls_tensor loss(ls_graph *g) {
    ls_mask mask[2] = {{.n = 0}, {.n = 0}};
    assert_ok(ls_mask_add_term(&mask[0], "window:5"));
    assert_ok(ls_mask_add_term(&mask[1], "causal"));
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    for (int layer = 0; layer < LAYERS; layer++) {
        const ls_tensor q = heads(g, x, "q", layer, Hq), k = heads(g, x, "k", layer, Hkv),
                        v = heads(g, x, "v", layer, Hkv);
        x = ls_add(g, x, ls_merge_last(g, ls_attention(g, q, k, v, &mask[layer % 2], 0.4)));
    }
    const ls_tensor logits = ls_linear_wide(g, x, ls_parameter(g, "head", 2, (int64_t[]){V, E}));
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}

static const network in_turn = {.name = "windows in turn", .loss = loss, .ids = V};

static const char *const names[] = {"ring", "gather", "tokenring", "decode", "burst", "rsa"};
enum { NAMES = LS_COUNT(names) };

/* outer, ring, ulysses. */
static const int meshes[][3] = {{1, 3, 1}, {1, 2, 2}, {2, 2, 1}};

/* Pair i of two different strategies; on a mesh with two rings one of them goes round both. */
static ls_target pair_of(size_t i, const int *mesh) {
    ls_target target = {.mesh = mesh_of_two_rings(1, mesh[0], mesh[1], mesh[2]),
                        .strategy = names[i / NAMES],
                        .window_strategy = names[i % NAMES],
                        .layout = i % 4 < 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS,
                        .threads = 1,
                        .host_ranks = i % 3 == 0 ? LS_ONE_HOST : 0};
    if (mesh[0] > 1) *(i % 2 ? &target.strategy : &target.window_strategy) = "double-ring";
    if (mesh[2] > 1 && i / NAMES == 0) target.strategy = "usp";
    return target;
}

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

static void test_each_by_its_own(void **state) {
    (void)state;
    network_result one, result;
    const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    must(network_solve(&in_turn, &alone, LS_F64, LS_F64, &one));
    for (size_t i = 0; i < (size_t)NAMES * NAMES; i++) {
        if (i / NAMES == i % NAMES) continue;
        const ls_target target = pair_of(i, meshes[i % LS_COUNT(meshes)]);
        const char *what;
        char said[LS_STRATEGY_TEXT];
        const ls_strategies strategies = ls_target_strategies(&target);
        ls_strategies_print(&strategies, said);
        must(network_solve(&in_turn, &target, LS_F64, LS_F64, &result));
        assert_string_equal(result.image->strategy, said);
        const double difference = network_difference(&result, &one, &what);
        if (!(difference < 1e-12)) fail_msg("%s: %s differs by %g", said, what, difference);
        network_free(&result);
    }
    network_free(&one);
}

static void test_programs_verify(void **state) {
    (void)state;
    for (size_t i = 1; i < (size_t)NAMES * NAMES; i += 8) {
        const ls_target target = pair_of(i, meshes[i % LS_COUNT(meshes)]);
        must(network_verify(&in_turn, &target, 1));
    }
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

typedef struct problem {
    ls_graph *graph;
    ls_tensor output[2];
    ls_job job;
} problem;

/* Two attentions, without a window and, if so, with one. */
static void make_problem(problem *p, bool windows) {
    enum { LENGTH = 4096 };
    static const char *const input[] = {"q", "k", "v"}, *const output[] = {"full", "windows"};
    ls_shape shape = {4,
                      {{1, LS_FACTOR_BATCH}, {LENGTH, LS_FACTOR_SEQUENCE}, {8, LS_FACTOR_NONE}, {64, LS_FACTOR_NONE}}};
    ls_tensor in[3];
    p->graph = ls_graph_create(LS_F32);
    for (int i = 0; i < 3; i++) {
        shape.dim[2].size = i == 0 ? 8 : 4;
        in[i] = ls_graph_leaf(p->graph, LS_ROLE_INPUT, input[i], LS_F32, &shape);
    }
    for (int i = 0; i < 2; i++) {
        ls_mask mask = {.n = 0};
        assert_ok(ls_mask_add_term(&mask, i == 1 && windows ? "window:512" : "causal"));
        p->output[i] = ls_named(p->graph, ls_attention(p->graph, in[0], in[1], in[2], &mask, 0.1), "%s", output[i]);
    }
    assert_ok(ls_graph_status(p->graph));
    p->job = (ls_job){.graph = p->graph,
                      .programs = ls_plain_programs(p->graph, p->graph->n_nodes),
                      .fetch = p->output,
                      .n_fetch = 2};
}

static ls_status plan(const problem *p, const char *strategy, ls_plan *out) {
    const ls_spread spread = {.mesh = "ring=4", .layout = "contiguous", .strategy = strategy, .transfers = "put"};
    ls_plan_request request;
    *out = (ls_plan){.n_candidates = 0};
    LS_TRY(ls_spread_resolve(&spread, &request));
    return ls_plan_make(&p->job, &request, out);
}

/* The cheapest of all pairs, of which the plan tries only some; each is costed by itself. */
static double least_seconds(const problem *p, ls_strategies *of) {
    double least = INFINITY;
    for (size_t i = 0; i < (size_t)NAMES * NAMES; i++) {
        char text[LS_STRATEGY_TEXT];
        ls_plan one;
        const ls_strategies pair = {.full = names[i / NAMES], .window = names[i % NAMES]};
        ls_strategies_print(&pair, text);
        assert_ok(plan(p, text, &one));
        LS_ASSERT(one.candidates != NULL);
        if (one.candidates[0].seconds < least) {
            least = one.candidates[0].seconds;
            *of = pair;
        }
        ls_plan_free(&one);
    }
    return least;
}

static void test_plan_takes_the_cheapest_pair(void **state) {
    (void)state;
    problem p;
    ls_plan made;
    ls_strategies least = {.full = NULL};
    make_problem(&p, true);
    const double seconds = least_seconds(&p, &least);
    assert_ok(plan(&p, "auto", &made));
    LS_ASSERT(made.candidates != NULL);
    const ls_plan_candidate *best = &made.candidates[0];
    if (!(best->seconds <= seconds * (1 + 1e-6)))
        fail_msg("planned %g s (%s, %s), but full=%s,window=%s takes %g", best->seconds, best->strategies.full,
                 best->strategies.window != NULL ? best->strategies.window : "the same", least.full, least.window,
                 seconds);
    assert_non_null(best->strategies.window); /* at these lengths one is cheaper without a window, another with one */
    ls_plan_free(&made);
    assert_ok(plan(&p, "window=gather", &made));
    for (int i = 0; i < made.n_candidates; i++) {
        const ls_plan_candidate *c = &made.candidates[i];
        assert_string_equal(c->strategies.window != NULL ? c->strategies.window : c->strategies.full, "gather");
    }
    ls_plan_free(&made);
    ls_graph_destroy(p.graph);
}

static void test_refused(void **state) {
    (void)state;
    problem p;
    ls_plan made;
    make_problem(&p, false);
    assert_error(plan(&p, "full=ring,window=gather", &made), LS_USAGE, "no attention with a window", "window=gather");
    ls_plan_free(&made);
    assert_error(plan(&p, "full=rings", &made), LS_USAGE, "\"rings\" is not known", "tokenring");
    ls_plan_free(&made);
    assert_error(plan(&p, "wide=ring", &made), LS_USAGE, "\"wide\" is no kind of layer", "full, window");
    ls_plan_free(&made);
    assert_ok(plan(&p, "full=ring", &made));
    LS_ASSERT(made.candidates != NULL);
    assert_null(made.candidates[0].strategies.window);
    ls_plan_free(&made);
    ls_graph_destroy(p.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_by_its_own),
        cmocka_unit_test(test_programs_verify),
        cmocka_unit_test(test_plan_takes_the_cheapest_pair),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
