/* Which of an op's options is taken along an axis, and what is redistributed for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile_impl.h"
#include "graph/graph_impl.h"
#include "longspan/graph.h"
#include "support/meshes.h"

#include "../../examples/graphs/graphs.h"

enum { B = 2, S = 8, V = 5, E = 3 };

/* A graph with two partial sums, s and t, along axes that cut its batch or its sequence. */
typedef struct sums {
    ls_graph *g;
    ls_tensor x, s, t;
} sums;

static sums make_sums(void) {
    sums m = {.g = ls_graph_create(LS_F64)};
    const ls_tensor table = ls_parameter(m.g, "table", 2, (int64_t[]){V, E});
    m.x = ls_embedding(m.g, ls_tokens(m.g, "tokens", B, S), table);
    m.s = ls_sum(m.g, m.x);
    m.t = ls_sum(m.g, ls_mul(m.g, m.x, m.x));
    return m;
}

typedef struct choice {
    bool partial; /* the result is a partial sum; else it is whole */
    bool resolve[3];
} choice;

/* The node that makes the tensor was spread so along every axis of the mesh. */
static void check(const sums *m, ls_tensor made, choice expected) {
    const ls_mesh meshes[] = {mesh_of(2, 1, 1), mesh_of(1, 2, 1), mesh_of(1, 1, 2), mesh_of(2, 2, 2)};
    assert_int_equal(ls_graph_status(m->g).code, LS_OK);
    int n = 0;
    while (m->g->nodes[n].out[0].id != made.id) n++;
    for (size_t i = 0; i < LS_COUNT(meshes); i++) {
        const ls_axes all = ls_mesh_axes(&meshes[i], LS_AXIS_BATCH) | ls_mesh_axes(&meshes[i], LS_AXIS_SEQUENCE);
        ls_arena *arena = ls_arena_create();
        ls_sharding sharding;
        const ls_status status = ls_shard(m->g, m->g->n_nodes, &meshes[i], arena, &sharding);
        if (status.code != LS_OK) fail_msg("%s", status.text);
        const ls_placements *x = &sharding.tensor[m->x.id], *result = &sharding.tensor[made.id];
        assert_int_equal(x->cut[0] | x->cut[1], all);
        assert_int_equal(sharding.tensor[m->s.id].partial, all);
        assert_int_equal(result->partial, expected.partial ? all : 0);
        assert_int_equal(result->cut[0] | result->cut[1], 0);
        for (int k = 0; k < m->g->nodes[n].n_in; k++) {
            const ls_placements *have = &sharding.tensor[m->g->nodes[n].in[k].id];
            const ls_placements *want = &sharding.wanted[n * LS_NODE_INPUTS + k];
            assert_int_equal(!ls_placements_equal(have, want), expected.resolve[k]);
        }
        ls_arena_destroy(arena);
    }
    ls_graph_destroy(m->g);
}

/* What is linear takes partial sums as they are, what is not needs each of them whole. */
static void test_linear_ops_pass_sums(void **state) {
    (void)state;
    sums m = make_sums();
    check(&m, ls_add(m.g, m.s, m.t), (choice){.partial = true});
    m = make_sums();
    check(&m, ls_scale(m.g, m.s, 2), (choice){.partial = true});
    m = make_sums();
    check(&m, ls_mul(m.g, m.s, m.t), (choice){.resolve = {true, true}});
}

/* A sum and what is whole on every rank: adding each rank's part to the whole would add that many times. */
static void test_sum_and_whole(void **state) {
    (void)state;
    sums m = make_sums();
    const ls_tensor whole = ls_parameter(m.g, "whole", 1, (int64_t[]){1});
    check(&m, ls_add(m.g, m.s, whole), (choice){.resolve = {true, false}});
}

/* Through a weight a sum passes; a bias would be added by every rank. */
static void test_bias(void **state) {
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        sums m = make_sums();
        const ls_tensor w = ls_parameter(m.g, "w", 2, (int64_t[]){4, 1});
        const ls_tensor b = bias ? ls_parameter(m.g, "b", 1, (int64_t[]){4}) : LS_NO_TENSOR;
        const ls_tensor row = ls_reshape(m.g, m.s, 2, (int64_t[]){1, 1});
        check(&m, ls_linear(m.g, row, w, b), (choice){.partial = !bias, .resolve = {bias}});
    }
}

/*
 * What was made as parts cannot be added to as a partial sum: the error names op, tensor, axis and placements. Parts of
 * the zeros are made for the first node that reads them.
 */
static void test_refused(void **state) {
    (void)state;
    static const struct {
        int mesh[3];
        const char *axis;
    } cases[] = {{{2, 1, 1}, "dp"}, {{1, 3, 1}, "ring"}, {{1, 1, 4}, "ulysses"}};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const sums m = make_sums();
        const ls_tensor ids = ls_tokens(m.g, "ids", B, S), loss = ls_cross_entropy(m.g, m.x, ids);
        const ls_tensor parts = ls_accumulate(m.g, loss, ls_zeros(m.g, &ls_graph_tensor(m.g, loss)->shape));
        const ls_tensor in[] = {ls_embedding(m.g, ids, ls_parameter(m.g, "rows", 2, (int64_t[]){V, B})),
                                ls_embedding(m.g, ids, ls_parameter(m.g, "columns", 2, (int64_t[]){V, S})), parts};
        (void)ls_graph_add(m.g, &ls_op_linear_dw, NULL, 0, in, 3, -1);
        assert_int_equal(ls_graph_status(m.g).code, LS_OK);
        const ls_mesh mesh = mesh_of(cases[i].mesh[0], cases[i].mesh[1], cases[i].mesh[2]);
        char expected[128];
        (void)snprintf(expected, sizeof expected,
                       "op linear_dw: input 2 \"%s\" is cut along %s, expected a partial sum",
                       ls_graph_tensor(m.g, parts)->name, cases[i].axis);
        ls_arena *arena = ls_arena_create();
        ls_sharding sharding;
        const ls_status status = ls_shard(m.g, m.g->n_nodes, &mesh, arena, &sharding);
        assert_int_equal(status.code, LS_UNSUPPORTED);
        assert_string_equal(status.text, expected);
        ls_arena_destroy(arena);
        ls_graph_destroy(m.g);
    }
}

/* --- axes that cut heads and features ----------------------------------------------------------------------------- */

static const ls_axis features = {.name = "features", .kind = LS_AXIS_FEATURE, .divides = "heads and features"};

/* A graph with its gradients along such an axis, after an axis of the batch. */
typedef struct spread {
    ls_arena *arena;
    ls_graph *g;
    ls_sharding sharding;
} spread;

static spread spread_features(ls_tensor (*loss)(ls_graph *)) {
    spread s = {.arena = ls_arena_create(), .g = ls_graph_create(LS_F64)};
    const ls_tensor sum = loss(s.g);
    assert_int_equal(ls_graph_accumulate_loss(s.g, sum).code, LS_OK);
    assert_int_equal(ls_graph_differentiate_loss(s.g, sum).code, LS_OK);
    const ls_mesh mesh = {.n = 2, .along = {{ls_axis_at(1), 2}, {&features, 2}}};
    const ls_status status = ls_shard(s.g, s.g->n_nodes, &mesh, s.arena, &s.sharding);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    return s;
}

/* The dimension that the axis cuts; -1: none. */
static int feature_dim(const spread *s, int t) {
    int dim = -1;
    for (int d = 0; d < LS_MAX_DIMS; d++)
        if (s->sharding.tensor[t].cut[d] & ls_axis_bit(1)) dim = d;
    return dim;
}

/*
 * Projections to heads and hidden features are cut by rows and those from them by columns, and the tables of words by
 * words, as Megatron-LM cuts them (Shoeybi et al., arXiv 1909.08053); the rest is whole. Gradients are cut as their
 * parameters, and those of norms are sums over the ranks. Norms and residuals are cut along the sequence (Korthikanti
 * et al., arXiv 2205.05198): of each block, one sum over the ranks becomes parts in the forward pass, and one in the
 * backward pass; one more of the embeddings in the forward pass, and of the logits' gradient in the backward pass.
 */
static void test_features(void **state) {
    (void)state;
    static const struct {
        const char *end; /* of a parameter's name */
        int dim;
    } cut[] = {{"q_proj", 0},  {"k_proj", 0},    {"v_proj", 0},       {"o_proj", 1}, {"gate_proj", 0},
               {"up_proj", 0}, {"down_proj", 1}, {"embed_tokens", 0}, {"lm_head", 0}};
    enum { LAYERS = 2, BLOCKS = 2 };
    spread s = spread_features(llama_loss);
    for (int t = 1; t < s.g->n_tensors; t++) {
        const ls_tensor_info *info = &s.g->tensors[t];
        const bool gradient = info->of.id != 0;
        const char *name = gradient ? s.g->tensors[info->of.id].name : info->name;
        int expected = -1;
        for (size_t i = 0; i < LS_COUNT(cut); i++)
            if (strstr(name, cut[i].end) != NULL) expected = cut[i].dim;
        if (info->role == LS_ROLE_PARAMETER || gradient) assert_int_equal(feature_dim(&s, t), expected);
        if (gradient)
            assert_int_equal(s.sharding.tensor[t].partial & ls_axis_bit(1), expected < 0 ? ls_axis_bit(1) : 0);
    }
    enum { TOKENS = 1 };
    int made[2] = {0, 0}; /* sums that become parts: forward, backward */
    bool *known = LS_NEW_ARRAY(s.arena, bool, s.g->n_tensors);
    for (int n = 0; n < s.g->n_nodes; n++) {
        assert_int_equal(s.sharding.first_only[n] & ls_axis_bit(1), 0);
        for (int i = 0; i < s.g->nodes[n].n_in; i++) {
            const ls_placements *have = &s.sharding.tensor[s.g->nodes[n].in[i].id],
                                *want = &s.sharding.wanted[n * LS_NODE_INPUTS + i];
            bool *again = &known[s.g->nodes[n].in[i].id];
            if ((have->partial & ~want->partial & ls_axis_bit(1)) == 0 || *again) continue;
            *again = true;
            made[n >= s.g->forward_nodes]++;
            for (int d = 0; d < LS_MAX_DIMS; d++)
                assert_int_equal(want->cut[d] & ls_axis_bit(1), d == TOKENS ? ls_axis_bit(1) : 0);
        }
    }
    assert_int_equal(made[0], LAYERS * BLOCKS + 1);
    assert_int_equal(made[1], LAYERS * BLOCKS + 1);
    ls_graph_destroy(s.g);
    ls_arena_destroy(s.arena);
}

/* An axis with more ranks than a parameter has heads or features is refused by name. */
static void test_too_many_ranks(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor sum = llama_loss(g);
    assert_int_equal(ls_graph_accumulate_loss(g, sum).code, LS_OK);
    const ls_job job = {.graph = g, .programs = ls_plain_programs(g, 0)};
    const ls_target target = {.mesh = {.n = 1, .along = {{&features, 9}}}, .strategy = "local", .threads = 1};
    ls_image *image;
    const ls_status status = ls_compile(&job, &target, &image);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text, "--mesh features=9: \"layers.0.q_proj\" has 8 heads or features that ranks "
                                     "can share; expected at most that many ranks");
    ls_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_ops_pass_sums),
        cmocka_unit_test(test_sum_and_whole),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_too_many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
