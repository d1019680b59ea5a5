/* Which of an op's options is taken along an axis, and what is redistributed for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "compile/compile_impl.h"
#include "longspan/graph.h"
#include "support/meshes.h"

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

/* What every rank has the whole of cannot be added to by each rank: the error names op, tensor, axis and placements. */
static void test_refused(void **state) {
    (void)state;
    static const struct {
        int mesh[3];
        const char *axis;
    } cases[] = {{{2, 1, 1}, "dp"}, {{1, 3, 1}, "ring"}, {{1, 1, 4}, "ulysses"}};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const sums m = make_sums();
        const ls_tensor in[] = {m.x, ls_parameter(m.g, "so far", 1, (int64_t[]){1})};
        (void)ls_graph_add(m.g, &ls_op_sum, NULL, 0, in, 2, -1);
        assert_int_equal(ls_graph_status(m.g).code, LS_OK);
        const ls_mesh mesh = mesh_of(cases[i].mesh[0], cases[i].mesh[1], cases[i].mesh[2]);
        char expected[128];
        (void)snprintf(expected, sizeof expected,
                       "op sum: input 1 \"so far\" is whole along %s, expected a partial sum", cases[i].axis);
        ls_arena *arena = ls_arena_create();
        ls_sharding sharding;
        const ls_status status = ls_shard(m.g, m.g->n_nodes, &mesh, arena, &sharding);
        assert_int_equal(status.code, LS_UNSUPPORTED);
        assert_string_equal(status.text, expected);
        ls_arena_destroy(arena);
        ls_graph_destroy(m.g);
    }
}

/* Every op can be spread somehow, and what adds to a sum has an option for a partial one. */
static void test_rows(void **state) {
    (void)state;
    for (int i = 0; ls_op_at(i) != NULL; i++) {
        const ls_op *op = ls_op_at(i);
        bool adds = false, partial = false;
        assert_non_null(op->options);
        assert_non_null(op->options[0]);
        for (int k = 0; k < op->most_in; k++) adds |= ls_op_adds_to(op, k);
        for (int k = 0; op->options[k] != NULL; k++) {
            partial |= op->options[k]->sum == LS_ASK_PARTIAL;
            if (op->options[k]->first_only) assert_int_equal(op->options[k]->sum, LS_ASK_PARTIAL);
        }
        assert_int_equal(adds, partial);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_ops_pass_sums),
        cmocka_unit_test(test_sum_and_whole),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
