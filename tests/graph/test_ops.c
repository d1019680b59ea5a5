/*
 * The rows of all ops say what they need along the sequence and what generation keeps of them; and generation asks
 * nothing but the row, so that ops of this test, which nothing else knows, are continued or refused by what their rows
 * say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph_impl.h"
#include "support/scratch.h"

#include <string.h>

enum { S = 5, E = 3 };

static const char *const called[] = {
#define NAME(op) #op
    LS_CALLED_OPS(NAME)};
static const char *const lowered[] = {LS_LOWERED_OPS(NAME)};

static void test_rows_agree_with_the_lists(void **state) {
    (void)state;
    const int n = (int)LS_COUNT(called), all = n + (int)LS_COUNT(lowered);
    for (int i = 0; i < all; i++) assert_string_equal(ls_op_at(i)->name, i < n ? called[i] : lowered[i - n]);
    assert_null(ls_op_at(all));
    assert_null(ls_op_at(-1));
}

/* One call on a rank's own tokens is right only where no other tokens are needed. */
static void test_what_rows_say_fits(void **state) {
    (void)state;
    for (int i = 0; ls_op_at(i) != NULL; i++) {
        const ls_op *op = ls_op_at(i);
        if (i < (int)LS_COUNT(called) && op->reach != LS_REACH_OWN)
            fail_msg("op %s needs %s, so one call of its kernel does not do", op->name, ls_reach_name(op->reach));
        if ((op->neighbours != NULL) != (op->reach == LS_REACH_NEIGHBOURS))
            fail_msg("op %s needs %s, but its rule of neighbours says something else", op->name,
                     ls_reach_name(op->reach));
        if (op->cache != 0 && op->next == NULL)
            fail_msg("op %s keeps a cache, which no rule for one more token uses", op->name);
        if (op->cache >> op->most_in != 0) fail_msg("op %s keeps inputs that it does not have", op->name);
    }
}

static ls_neighbours neighbours_of(const ls_graph *g, ls_tensor t) {
    const ls_node *node = ls_graph_producer(g, t);
    return node->op->neighbours(g, node);
}

static void expect_neighbours(const ls_graph *g, ls_tensor t, int64_t before, int64_t after) {
    const ls_neighbours n = neighbours_of(g, t);
    assert_int_equal(n.before, before);
    assert_int_equal(n.after, after);
}

static void test_neighbours(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_shape shape = {3, {{1, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {E, LS_FACTOR_NONE}}};
    const ls_tensor x = ls_graph_leaf(g, LS_ROLE_INPUT, "x", LS_F64, &shape);
    const ls_tensor w = ls_parameter(g, "w", 2, (int64_t[]){4, E});
    expect_neighbours(g, ls_shift(g, x, 2), 2, -2);
    expect_neighbours(g, ls_shift(g, x, -1), -1, 1);
    expect_neighbours(g, ls_shift(g, x, INT64_MIN), -S, S);
    const ls_tensor y = ls_conv(g, x, w);
    expect_neighbours(g, y, 3, 0);
    ls_derivative d = {.n_roots = 1, .root = {y}, .seed = {x}, .n_wanted = 1, .wanted = {x}};
    assert_ok(ls_differentiate(g, &d));
    expect_neighbours(g, d.gradient[0], 0, 3); /* the same taps, looking ahead */
    for (int n = 0; n < g->n_nodes; n++)
        if (g->nodes[n].op == &ls_op_conv_dw) expect_neighbours(g, g->nodes[n].out[0], 3, 0);
    ls_graph_destroy(g);
}

static ls_tensor times_sum(ls_graph *g, ls_tensor x, ls_tensor weight) {
    return ls_sum(g, ls_cast(g, ls_mul(g, ls_conv(g, x, weight), ls_conv(g, x, weight)), LS_F32));
}

/* The gradient of a join of trained parameters has the type of their sums; of anything else the join's own. */
static void test_gradient_of_joins(void **state) {
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            ls_graph *g = ls_graph_create(LS_BF16);
            const ls_shape shape = {3, {{1, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {E, LS_FACTOR_NONE}}};
            const ls_tensor x = ls_graph_leaf(g, LS_ROLE_INPUT, "x", LS_BF16, &shape);
            const int64_t size[] = {2, E};
            const ls_tensor first = ls_parameter(g, "first", 2, size), other = ls_parameter(g, "other", 2, size);
            if (frozen) g->tensors[other.id].frozen = true;
            const ls_tensor part[] = {first, scaled ? ls_scale(g, other, 2) : other};
            const ls_tensor joined = ls_concat(g, 0, 2, part);
            assert_ok(ls_graph_differentiate_loss(g, times_sum(g, x, joined)));
            const ls_dtype expected = scaled && !frozen ? LS_BF16 : LS_F32;
            int splits = 0;
            for (int n = 0; n < g->n_nodes; n++) {
                if (g->nodes[n].op != &ls_op_split) continue;
                splits++;
                assert_int_equal(ls_graph_tensor(g, g->nodes[n].in[0])->dtype, expected);
            }
            assert_int_equal(splits, 1);
            ls_graph_destroy(g);
        }
    }
}

/* --- ops that only this test knows -------------------------------------------------------------------------------- */

static const ls_op last_op;

/* Goes on with the sum of the new token and all that was kept of the others. */
static ls_tensor continue_sum(ls_next *n, const ls_node *node) {
    const ls_tensor in[] = {ls_next_tensor(n, node->in[0]), ls_next_cache(n, node->in[0])};
    assert_int_equal(ls_next_shape(n, node->out[0]).dim[1].size, 1);
    assert_int_not_equal(ls_next_place(n).id, 0);
    return ls_graph_add(ls_next_graph(n), &last_op, NULL, 0, in, 2, -1);
}

static ls_status like_first(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    out->dtype = ls_graph_tensor(g, node->in[0])->dtype;
    out->shape = ls_graph_tensor(g, node->in[0])->shape;
    return ls_ok();
}

static const ls_op last_op = {.name = "last", .least_in = 2, .most_in = 2, .n_out = 1, .shape = like_first};
static const ls_op kept_op = {.name = "kept",
                              .reach = LS_REACH_PREFIX,
                              .least_in = 1,
                              .most_in = 1,
                              .n_out = 1,
                              .shape = like_first,
                              .cache = 1,
                              .next = continue_sum};
static const ls_op lost_op = {
    .name = "lost", .reach = LS_REACH_PREFIX, .least_in = 1, .most_in = 1, .n_out = 1, .shape = like_first};
static const ls_op own_op = {
    .name = "own", .reach = LS_REACH_OWN, .least_in = 1, .most_in = 1, .n_out = 1, .shape = like_first};

/* own, then the op, of an embedding of S tokens, as a graph that continues a sequence. */
static ls_status continued(const ls_op *op, ls_graph *to, ls_decoding *out) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor ids = ls_tokens(g, "ids", 1, S);
    const ls_tensor x = ls_embedding(g, ids, ls_parameter(g, "table", 2, (int64_t[]){7, E}));
    const ls_tensor y = ls_graph_add(g, &own_op, NULL, 0, &x, 1, -1);
    const ls_tensor z = ls_named(g, ls_graph_add(g, op, NULL, 0, &y, 1, -1), "result");
    const ls_status status = ls_graph_decode(g, z, to, out);
    ls_graph_destroy(g);
    return status;
}

static void test_a_rule_continues(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    ls_decoding d;
    assert_ok(continued(&kept_op, g, &d));
    assert_int_equal(d.forward_nodes, 2); /* the prefill: up to what is kept, and not the op itself */
    assert_int_equal(d.n_kept, 2);
    assert_ptr_equal(ls_graph_producer(g, d.kept[0])->op, &own_op);
    assert_int_equal(ls_graph_tensor(g, d.kept[0])->shape.dim[1].size, S);
    assert_int_equal(d.kept[1].id, d.logits.id);
    const ls_node *last = ls_graph_producer(g, d.logits);
    assert_ptr_equal(last->op, &last_op);
    assert_int_equal(last->in[1].id, d.kept[0].id);
    assert_int_equal(ls_graph_tensor(g, d.logits)->shape.dim[1].size, 1);
    ls_graph_destroy(g);
}

static void test_without_a_rule_it_is_refused(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    ls_decoding d;
    const ls_status status = continued(&lost_op, g, &d);
    assert_error(status, LS_UNSUPPORTED, "op lost (\"result\") needs earlier tokens", "no rule for one token more");
    ls_graph_destroy(g);
}

static void test_own_tokens_need_no_rule(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    ls_decoding d;
    assert_ok(continued(&own_op, g, &d));
    assert_int_equal(d.forward_nodes, 0); /* nothing is kept */
    assert_int_equal(d.n_kept, 1);
    assert_ptr_equal(ls_graph_producer(g, d.logits)->op, &own_op);
    ls_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_agree_with_the_lists),
        cmocka_unit_test(test_what_rows_say_fits),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_gradient_of_joins),
        cmocka_unit_test(test_a_rule_continues),
        cmocka_unit_test(test_without_a_rule_it_is_refused),
        cmocka_unit_test(test_own_tokens_need_no_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
