/*
 * The choice of options over a graph: for random graphs of up to eight nodes it is the cheapest of all, found here by
 * trying every one; it never costs more than the cheapest option node by node, and on named graphs less.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "compile/shard/shard.h"
#include "longspan/graph.h"
#include "support/meshes.h"

enum { GRAPHS = 300, NODES = 8, V = 64, MOST_TENSORS = 64 };

/* --- random graphs ------------------------------------------------------------------------------------------------ */

typedef struct maker {
    ls_graph *g;
    uint64_t seed, draws;
    ls_tensor x[NODES + 1];
    int64_t features[NODES + 1];
    int n;
} maker;

static int draw(maker *m, int n) { return (int)ls_rng_below(m->seed, 0, m->draws++, (uint64_t)n); }

static void push(maker *m, ls_tensor x, int64_t features) {
    m->x[m->n] = x;
    m->features[m->n++] = features;
}

static ls_tensor weight(maker *m, int ndim, const int64_t *size) {
    return ls_parameter_named(m->g, ndim, size, "w%d", (int)m->draws++);
}

static void add_node(maker *m) {
    static const int64_t sizes[] = {16, 48, 64};
    const int a = draw(m, m->n), b = draw(m, m->n);
    const int64_t in = m->features[a], out = sizes[draw(m, LS_COUNT(sizes))];
    switch (draw(m, 7)) {
    case 0:
    case 1:
        push(m, ls_linear(m->g, m->x[a], weight(m, 2, (int64_t[]){out, in}), LS_NO_TENSOR), out);
        break;
    case 2:
        push(m, ls_rmsnorm(m->g, m->x[a], weight(m, 1, &in), 1e-5), in);
        break;
    case 3:
        push(m, ls_silu(m->g, m->x[a]), in);
        break;
    case 4:
        push(m, in == m->features[b] ? ls_mul(m->g, m->x[a], m->x[b]) : ls_scale(m->g, m->x[a], 2), in);
        break;
    case 5:
        push(m, in == m->features[b] ? ls_add(m->g, m->x[a], m->x[b]) : ls_scale(m->g, m->x[a], 3), in);
        break;
    default:
        push(m, ls_linear(m->g, m->x[a], weight(m, 2, (int64_t[]){out, in}), weight(m, 1, &out)), out);
    }
}

static ls_graph *random_graph(uint64_t seed) {
    maker m = {.g = ls_graph_create(LS_BF16), .seed = seed};
    static const int64_t tokens[] = {2, 32, 4096};
    const int64_t S = tokens[draw(&m, LS_COUNT(tokens))], size[] = {V, 48};
    push(&m, ls_embedding(m.g, ls_tokens(m.g, "tokens", 1, S), ls_parameter(m.g, "table", 2, size)), 48);
    for (int n = 1 + draw(&m, NODES - 1); m.n <= n;) add_node(&m);
    if (ls_graph_status(m.g).code != LS_OK) fail_msg("%s", ls_graph_status(m.g).text);
    return m.g;
}

/* --- every choice ------------------------------------------------------------------------------------------------- */

/* The least that nodes from n on cost, after what has been decided; negative: no choice is possible. */
static double least_from(const ls_along *l, int n, const ls_decided *decided) {
    if (n == l->n_nodes) return 0;
    double least = -1;
    ls_along_placement at[MOST_TENSORS];
    unsigned char made[MOST_TENSORS];
    const size_t tensors = (size_t)l->graph->n_tensors;
    ls_question q;
    ls_question_ask(l, &l->graph->nodes[n], &q);
    for (int k = 0; k < q.n; k++) {
        int misfit;
        ls_decided next = {at, made, decided->gathered};
        memcpy(at, decided->at, sizeof *at * tensors);
        memcpy(made, decided->made, sizeof *made * tensors);
        ls_decided_meet(l, n, &next);
        const double price = ls_option_price(&q, &next, q.option[k], &misfit);
        if (price < 0) continue;
        ls_decided_note(&q, q.option[k], &next);
        const double rest = least_from(l, n + 1, &next);
        if (rest >= 0 && (least < 0 || price + rest < least)) least = price + rest;
    }
    return least;
}

typedef struct prices {
    double searched, node_by_node, least; /* least: of all choices; 0 where they are not tried */
} prices;

static prices find_prices(const ls_graph *g, int ranks, bool all) {
    const ls_mesh mesh = mesh_with_tp(1, 1, 1, ranks);
    ls_arena *arena = ls_arena_create();
    ls_shared_features features;
    ls_shared_find(g, &mesh, arena, &features);
    const ls_along l = {
        .graph = g, .n_nodes = g->n_nodes, .a = mesh.n - 1, .axis = mesh.along[mesh.n - 1].axis, .features = &features};
    LS_ASSERT(g->n_tensors <= MOST_TENSORS || !all);
    const ls_decided begin = ls_decided_begin(&l, arena);
    ls_spread_option *option = LS_NEW_ARRAY(arena, ls_spread_option, g->n_nodes);
    prices p = {0};
    assert_int_equal(ls_spread_node_by_node(&l, &begin, arena, option, &p.node_by_node).code, LS_OK);
    assert_int_equal(ls_spread_search(&l, &begin, arena, option, &p.searched).code, LS_OK);
    if (all) p.least = least_from(&l, 0, &begin);
    ls_arena_destroy(arena);
    return p;
}

static void test_random(void **state) {
    (void)state;
    int cheaper = 0;
    for (int i = 0; i < GRAPHS; i++) {
        ls_graph *g = random_graph((uint64_t)i);
        const prices p = find_prices(g, 2 + i % 3, true);
        if (!(p.least >= 0) || !(p.searched <= p.least * (1 + 1e-9)) || !(p.searched <= p.node_by_node))
            fail_msg("graph %d: searched %.17g, least %.17g, node by node %.17g", i, p.searched, p.least,
                     p.node_by_node);
        if (p.searched < p.node_by_node * 0.999) cheaper++;
        ls_graph_destroy(g);
    }
    print_message("%d of %d random graphs cost less than node by node\n", cheaper, GRAPHS);
    assert_in_range(cheaper, 1, GRAPHS);
}

/* --- named graphs ------------------------------------------------------------------------------------------------- */

enum { E = 48, F = 64 };

static ls_tensor embedded(ls_graph *g) {
    return ls_embedding(g, ls_tokens(g, "tokens", 2, 32), ls_parameter(g, "table", 2, (int64_t[]){V, E}));
}

/* Cut by words, the lookup is a sum, which the activation needs whole; cut by columns, nothing is sent. */
static void lookup_and_activation(ls_graph *g) { ls_silu(g, embedded(g)); }

/* The same behind a sum of two of its readers. */
static void two_readers(ls_graph *g) {
    const ls_tensor x = embedded(g);
    ls_mul(g, ls_silu(g, x), ls_scale(g, x, 2));
}

/* The second product can take what the first one made, cut; its own result then need not be added up. */
static void chain_and_branch(ls_graph *g) {
    const ls_tensor h = ls_linear(g, embedded(g), ls_parameter(g, "up", 2, (int64_t[]){F, E}), LS_NO_TENSOR);
    ls_linear(g, h, ls_parameter(g, "down", 2, (int64_t[]){E, F}), LS_NO_TENSOR);
    ls_silu(g, h);
}

static void test_named(void **state) {
    (void)state;
    static void (*const make[])(ls_graph *) = {lookup_and_activation, two_readers, chain_and_branch};
    for (size_t i = 0; i < LS_COUNT(make); i++) {
        ls_graph *g = ls_graph_create(LS_BF16);
        make[i](g);
        assert_int_equal(ls_graph_status(g).code, LS_OK);
        const prices p = find_prices(g, 2, true);
        print_message("named graph %zu: %g, node by node %g\n", i, p.searched, p.node_by_node);
        assert_true(p.searched < p.node_by_node);
        ls_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
