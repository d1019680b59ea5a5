/*
 * Fusion of maps (compile/fuse.c): which nodes become one, which stay, and that losses and gradients are those of the
 * formulas.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile_impl.h"
#include "longspan/longspan.h"

enum { B = 2, S = 7, V = 5, E = 6 };

#define MAP(g, in, ...)                                                 \
    ls_map(g, in, (int)(sizeof(in) / sizeof(in)[0]),                    \
           &(ls_expression){.step = (const ls_map_step[]){__VA_ARGS__}, \
                            .n_steps = (int)(sizeof((ls_map_step[]){__VA_ARGS__}) / sizeof(ls_map_step))})

static ls_tensor one(ls_graph *g, ls_tensor x, ls_map_code code) {
    const ls_tensor in[] = {x};
    return MAP(g, in, {code, 0, 0, 0, 0});
}

static ls_tensor looked_up(ls_graph *g) {
    return ls_embedding(g, ls_tokens(g, "tokens", B, S), ls_parameter(g, "table", 2, (int64_t[]){V, E}));
}

/* --- which nodes become one --------------------------------------------------------------------------------------- */

typedef struct counted {
    int nodes, maps, steps, results;
} counted;

static counted count(const ls_graph *g) {
    counted n = {.nodes = g->n_nodes};
    for (int i = 0; i < g->n_nodes; i++) {
        if (!g->nodes[i].op->fuses) continue;
        const ls_map_params *params = g->nodes[i].params;
        n.maps++;
        n.steps += params->n_steps;
        n.results += params->n_results;
        assert_int_equal(ls_map_check(params).code, LS_OK);
        assert_int_equal(params->n_in, g->nodes[i].n_in);
        assert_int_equal(params->n_results, g->nodes[i].n_out);
    }
    return n;
}

/* After fusion of the whole graph as one program; fetch: a tensor that the host reads, or none. */
static counted fused(ls_graph *g, ls_tensor fetch) {
    ls_arena *arena = ls_arena_create();
    assert_int_equal(ls_graph_status(g).code, LS_OK);
    ls_job job = {.graph = g, .programs = ls_plain_programs(g, 0), .fetch = &fetch, .n_fetch = fetch.id != 0};
    ls_fuse(&job, arena);
    const counted n = count(job.graph);
    for (int i = 0; i < job.graph->n_nodes; i++) /* each reads what stands before it */
        for (int k = 0; k < job.graph->nodes[i].n_in; k++)
            assert_true(ls_graph_tensor(job.graph, job.graph->nodes[i].in[k])->producer < i);
    ls_arena_destroy(arena);
    ls_graph_destroy(g);
    return n;
}

static void test_chain(void **unused) {
    (void)unused;
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor x = looked_up(g), y = ls_scale(g, ls_add(g, one(g, x, LS_MAP_TANH), x), 0.5);
    (void)ls_sum(g, one(g, y, LS_MAP_EXP));
    const counted n = fused(g, LS_NO_TENSOR); /* tanh, add, number, mul, exp */
    assert_true(n.nodes == 4 && n.maps == 1 && n.steps == 5 && n.results == 1);
}

static void test_named_ops_stay(void **unused) {
    (void)unused;
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor x = looked_up(g);
    (void)ls_sum(g, ls_mul(g, ls_add(g, x, x), x));
    assert_int_equal(fused(g, LS_NO_TENSOR).nodes, 5); /* embedding, add, mul, zeros, sum */
}

/* What somebody else reads stays, as a second result. */
static void test_results_that_stay(void **unused) {
    (void)unused;
    for (int by_host = 0; by_host < 2; by_host++) {
        ls_graph *g = ls_graph_create(LS_F32);
        const ls_tensor a = one(g, looked_up(g), LS_MAP_TANH), b = one(g, a, LS_MAP_EXP);
        ls_tensor loss = ls_sum(g, b);
        if (!by_host) loss = ls_add(g, loss, ls_sum(g, a));
        const counted n = fused(g, by_host ? a : LS_NO_TENSOR);
        assert_true(n.maps == 1 && n.steps == 2 && n.results == 2);
    }
}

/* What is read before the later node is not moved behind that. */
static void test_read_between(void **unused) {
    (void)unused;
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor a = one(g, looked_up(g), LS_MAP_TANH);
    const ls_tensor w = ls_parameter(g, "w", 2, (int64_t[]){E, E});
    const ls_tensor in[] = {a, ls_linear(g, a, w, LS_NO_TENSOR)};
    (void)ls_sum(g, MAP(g, in, {LS_MAP_MUL, 0, 1, 0, 0}));
    assert_int_equal(fused(g, LS_NO_TENSOR).maps, 2);
}

/* Two inputs would be kept for one result that goes away: not beyond a product; beside each other, yes. */
static void test_what_is_kept_longer(void **unused) {
    (void)unused;
    for (int far = 0; far < 2; far++) {
        ls_graph *g = ls_graph_create(LS_F32);
        const ls_tensor w = ls_parameter(g, "w", 2, (int64_t[]){E, E}), x = looked_up(g);
        const ls_tensor p = ls_linear(g, x, w, LS_NO_TENSOR), q = ls_linear(g, p, w, LS_NO_TENSOR), of[] = {p, q};
        const ls_tensor product = MAP(g, of, {LS_MAP_MUL, 0, 1, 0, 0});
        const ls_tensor other = far ? ls_linear(g, x, w, LS_NO_TENSOR) : x, in[] = {product, other};
        (void)ls_sum(g, MAP(g, in, {LS_MAP_ADD, 0, 1, 0, 0}));
        assert_int_equal(fused(g, LS_NO_TENSOR).maps, 1 + far);
    }
}

/* Different shapes: a value for each token is not computed again for each of its elements. */
static void test_shapes(void **unused) {
    (void)unused;
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor x = looked_up(g), in[] = {x, one(g, ls_reduce_sum(g, x, 1U << 2, true), LS_MAP_EXP)};
    (void)ls_sum(g, MAP(g, in, {LS_MAP_MUL, 0, 1, 0, 0}));
    assert_int_equal(fused(g, LS_NO_TENSOR).maps, 2);

    g = ls_graph_create(LS_F32); /* repeated by itself it is an input with stride 0 */
    const ls_tensor z = looked_up(g), sum = ls_reduce_sum(g, z, 1U << 2, true);
    const ls_tensor both[] = {z, ls_broadcast(g, sum, 1U << 2, z)};
    (void)ls_sum(g, MAP(g, both, {LS_MAP_MUL, 0, 1, 0, 0}));
    const counted n = fused(g, LS_NO_TENSOR);
    assert_true(n.maps == 1 && n.nodes == 6); /* embedding, zeros, reduce, map, zeros, sum */
}

/* 100 steps in maps of at most 64; 20 inputs in maps of at most 7. */
static void test_limits(void **unused) {
    (void)unused;
    ls_graph *g = ls_graph_create(LS_F32);
    ls_tensor x = looked_up(g);
    for (int i = 0; i < 100; i++) x = one(g, x, LS_MAP_SIN);
    (void)ls_sum(g, x);
    counted n = fused(g, LS_NO_TENSOR);
    assert_true(n.maps == 2 && n.steps == 100);

    g = ls_graph_create(LS_F32);
    x = looked_up(g);
    for (int i = 0; i < 20; i++) {
        const ls_tensor in[] = {x, ls_parameter_named(g, 1, (int64_t[]){E}, "w%d", i)};
        x = MAP(g, in, {LS_MAP_MUL, 0, 1, 0, 0});
    }
    (void)ls_sum(g, x);
    n = fused(g, LS_NO_TENSOR);
    assert_true(n.maps == 4 && n.steps == 20); /* 6 factors and x, or the map before */
}

/* The forward pass is a program of its own, too: nothing of it moves into the backward pass. */
static void test_programs(void **unused) {
    (void)unused;
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor x = looked_up(g), loss = ls_sum(g, one(g, one(g, x, LS_MAP_TANH), LS_MAP_EXP));
    const int forward = g->n_nodes;
    assert_int_equal(ls_graph_differentiate_loss(g, loss).code, LS_OK);
    ls_arena *arena = ls_arena_create();
    ls_job job = {.graph = g, .programs = ls_training_programs(g, forward, LS_UPDATE_APPLY, 0)};
    const counted before = count(g);
    ls_fuse(&job, arena);
    const counted after = count(job.graph);
    assert_true(after.maps < before.maps && job.graph->forward_nodes == forward - 1);
    for (int r = 0; r < job.programs.n; r++) {
        const ls_job_program *row = &job.programs.list[r];
        if (strcmp(row->name, LS_PROGRAM_EVALUATE) == 0) assert_int_equal(row->end_node, job.graph->forward_nodes);
    }
    for (int i = 0; i < job.graph->n_nodes; i++) {
        const int of = job.graph->nodes[i].forward;
        assert_true(of < job.graph->forward_nodes && (i < job.graph->forward_nodes ? of < 0 : true));
    }
    ls_arena_destroy(arena);
    ls_graph_destroy(g);
}

/* --- the same numbers --------------------------------------------------------------------------------------------- */

/*
 * w = z sigmoid(y) with y = tanh(x), z = y + x / 2; the loss is twice the sum of w over all tokens, as another shape of
 * the sum, so that its gradient is another shape of an input.
 */
static ls_tensor gated_loss(ls_graph *g) {
    const ls_tensor x = looked_up(g), y = one(g, x, LS_MAP_TANH), z = ls_add(g, y, ls_scale(g, x, 0.5));
    const ls_tensor gated[] = {z, y};
    const ls_tensor sum = ls_sum(g, MAP(g, gated, {LS_MAP_SIGMOID, 1, 0, 0, 0}, {LS_MAP_MUL, 0, 2, 0, 0})),
                    twice[] = {sum};
    return ls_reshape(g, MAP(g, twice, {LS_MAP_ADD, 0, 0, 0, 0}), 1, (int64_t[]){1});
}

typedef struct solved {
    double loss, table[V * E], gradient[V * E];
} solved;

static int32_t token(int i) { return (int32_t)((i * 3 + i / 4) % V); }

static ls_status feed(ls_worker *w, int64_t micro_batch, void *context) {
    (void)micro_batch, (void)context;
    int32_t tokens[B * S];
    for (int i = 0; i < B * S; i++) tokens[i] = token(i);
    return ls_worker_set_input(w, "tokens", tokens);
}

static ls_status solve(ls_worker *w, const void *input, void *result) {
    (void)input;
    solved *out = result;
    ls_step_result step;
    LS_TRY(ls_worker_set_random(w, 0.7, 3));
    LS_TRY(ls_worker_step(w, &(ls_step){.tokens = 1, .feed = feed}, &step));
    out->loss = step.loss;
    LS_TRY(ls_worker_get_parameter(w, "table", w->rank == 0 ? out->table : NULL));
    return ls_worker_get_gradient(w, "table", w->rank == 0 ? out->gradient : NULL);
}

static void test_numbers(void **unused) {
    (void)unused;
    static const char *const meshes[] = {"ring=1", "ring=2", "tp=2", "ring=2,tp=2"};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++) {
        ls_graph *g = ls_graph_create(LS_F64);
        const ls_tensor loss = gated_loss(g);
        const ls_engine_options options = {.purpose = LS_TO_DIFFERENTIATE,
                                           .spread = {.mesh = meshes[m], .as_threads = true}};
        solved got;
        ls_engine *engine;
        ls_status status = ls_engine_open(g, loss, &options, &engine);
        if (status.code == LS_OK) status = ls_engine_run(engine, solve, NULL, &got, sizeof got);
        if (status.code != LS_OK) fail_msg("%s: %s", meshes[m], status.text);
        ls_engine_close(engine);
        ls_graph_destroy(g);
        double expected = 0, gradient[V * E] = {0};
        for (int i = 0; i < B * S; i++)
            for (int e = 0; e < E; e++) {
                const int at = token(i) * E + e;
                const double x = got.table[at], y = tanh(x), z = y + x / 2, s = 1 / (1 + exp(-y)), dy = 1 - y * y;
                expected += 2 * z * s;
                gradient[at] += 2 * ((dy + 0.5) * s + z * s * (1 - s) * dy);
            }
        assert_true(fabs(got.loss - expected) <= 1e-12 * fabs(expected));
        for (int i = 0; i < V * E; i++) assert_true(fabs(got.gradient[i] - gradient[i]) <= 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain),
                                       cmocka_unit_test(test_named_ops_stay),
                                       cmocka_unit_test(test_results_that_stay),
                                       cmocka_unit_test(test_read_between),
                                       cmocka_unit_test(test_what_is_kept_longer),
                                       cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_programs),
                                       cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
