/*
 * Wrong calls of the functions of general ops, of norms and of convolutions in documents: each leaves the words in the
 * graph's status that say what is wrong.
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "longspan/graph.h"

typedef struct given {
    ls_graph *g;
    ls_tensor tokens, x, q, weight, foreign; /* i32[1,8], f32[1,8,4], f32[1,8,2,2], f32[4,4], of another graph */
} given;

static const int64_t six[] = {1, 8, 2, 2, 1, 1}, rows_of_six[] = {1, 8, 4, 1, 1, 1};

typedef struct mistake {
    const char *words;
    void (*make)(const given *c);
    ls_code code;
} mistake;

static ls_tensor conv_with(const given *c, ls_tensor reach) {
    return ls_conv_within(c->g, c->x, c->weight, &(ls_conv_form){.reach = reach});
}

#define MISTAKE(name, call) \
    static void name(const given *c) { (void)(call); }
MISTAKE(join_many, ls_join(c->g, 9, (const ls_tensor[]){c->x, c->x, c->x, c->x, c->x, c->x, c->x, c->x, c->x}))
MISTAKE(concat_nothing, ls_concat(c->g, 2, 2, NULL))
MISTAKE(concat_none, ls_concat(c->g, 2, 0, &c->x))
MISTAKE(concat_tokens, ls_concat(c->g, 1, 2, (const ls_tensor[]){c->x, c->x}))
MISTAKE(concat_types, ls_concat(c->g, 0, 2, (const ls_tensor[]){c->weight, ls_reduce_sum(c->g, c->x, 3, false)}))
MISTAKE(slice_nowhere, ls_slice(c->g, c->x, 3, 0, 1, 1))
MISTAKE(slice_behind, ls_slice(c->g, c->x, 2, 1, 4, 1))
MISTAKE(slice_far, ls_slice(c->g, c->x, 2, 0, 2, INT64_MAX))
MISTAKE(slice_stays, ls_slice(c->g, c->x, 2, 0, 2, 0))
MISTAKE(slice_tokens, ls_slice(c->g, c->x, 1, 0, 4, 1))
MISTAKE(slice_of_six, ls_slice(c->g, ls_reshape(c->g, c->x, 6, six), 2, 0, 1, 2))
MISTAKE(slice_of_six_rows, ls_slice(c->g, ls_reshape(c->g, c->x, 6, rows_of_six), 2, 0, 2, 2))
MISTAKE(permute_nothing, ls_permute_dims(c->g, c->x, NULL))
MISTAKE(permute_tokens, ls_permute_dims(c->g, c->x, (int[]){0, 2, 1}))
MISTAKE(permute_twice, ls_permute_dims(c->g, c->q, (int[]){0, 1, 2, 2}))
MISTAKE(permute_far, ls_permute_dims(c->g, c->q, (int[]){0, 1, INT_MAX, INT_MIN}))
MISTAKE(mean_foreign, ls_reduce_mean(c->g, c->foreign, 1, false))
MISTAKE(mean_of_far, ls_reduce_mean(c->g, c->x, 1U << 31, false))
MISTAKE(max_tokens, ls_reduce_max(c->g, c->x, 1U << 1, false, false))
MISTAKE(max_nothing, ls_reduce_max(c->g, c->x, 0, false, false))
MISTAKE(max_far, ls_reduce_max(c->g, c->x, 1U << 2 | 1U << 31, false, false))
MISTAKE(max_of_ids, ls_reduce_max(c->g, c->tokens, 1U << 1, false, false))
MISTAKE(softmax_tokens, ls_softmax(c->g, ls_reduce_sum(c->g, c->x, 4, false)))
MISTAKE(softmax_of_ids, ls_softmax(c->g, c->tokens))
MISTAKE(einsum_nothing, ls_einsum(c->g, NULL, c->x, c->x))
MISTAKE(einsum_foreign, ls_einsum(c->g, "bse,bse->bs", c->x, c->foreign))
MISTAKE(einsum_words, ls_einsum(c->g, "b s e, b s e -> b s", c->x, c->x))
MISTAKE(einsum_other_letters, ls_einsum(c->g, "bs\xe9,bs\xe9->bs", c->x, c->x))
MISTAKE(einsum_open, ls_einsum(c->g, "bse,bse", c->x, c->x))
MISTAKE(einsum_twice, ls_einsum(c->g, "bee,bse->bs", c->x, c->x))
MISTAKE(einsum_short, ls_einsum(c->g, "bs,bse->bs", c->x, c->x))
MISTAKE(einsum_long, ls_einsum(c->g, "abcdefghijklmnop,bse->bs", c->x, c->x))
MISTAKE(einsum_sizes, ls_einsum(c->g, "bse,bshe->bsh", c->x, c->q))
MISTAKE(einsum_over_tokens, ls_einsum(c->g, "bse,bsf->bef", c->x, c->x))
MISTAKE(einsum_scores, ls_einsum(c->g, "bqe,bke->bqk", c->x, c->x))
MISTAKE(einsum_turned, ls_einsum(c->g, "bse,ef->bfs", c->x, c->weight))
MISTAKE(einsum_new, ls_einsum(c->g, "bse,ef->bsfx", c->x, c->weight))
MISTAKE(einsum_lost, ls_einsum(c->g, "bse,fg->bsf", c->x, c->weight))
MISTAKE(einsum_of_ids, ls_einsum(c->g, "bs,ef->bsef", c->tokens, c->weight))
MISTAKE(take_by_reals, ls_take_along(c->g, c->x, c->x))
MISTAKE(take_of_ids, ls_take_along(c->g, c->tokens, c->tokens))
MISTAKE(take_rows, ls_take_along(c->g, c->x, c->tokens))
MISTAKE(topk_none, ls_topk(c->g, c->x, 0, NULL))
MISTAKE(topk_many, ls_topk(c->g, c->x, 5, NULL))
MISTAKE(topk_tokens, ls_topk(c->g, ls_reduce_sum(c->g, c->x, 4, false), 1, NULL))
#define ROW ls_reshape(c->g, ls_slice(c->g, c->weight, 0, 0, 1, 1), 1, (int64_t[]){4})
MISTAKE(gate_of_heads, ls_gated_norm(c->g, c->x, ROW, c->q, 1e-6, false))
MISTAKE(gated_of_tokens, ls_gated_norm(c->g, c->x, c->weight, c->x, 1e-6, true))
MISTAKE(gated_below_zero, ls_gated_norm(c->g, c->x, ROW, c->x, -1, true))
MISTAKE(gated_nan, ls_gated_norm(c->g, c->x, ROW, c->x, NAN, true))
MISTAKE(l2norm_nan, ls_l2norm(c->g, c->x, NAN, 1))
MISTAKE(l2norm_endless, ls_l2norm(c->g, c->x, 1e-6, INFINITY))
MISTAKE(conv_reach_less, conv_with(c, ls_conv_reach(c->g, c->tokens, 3)))
MISTAKE(conv_reach_more, conv_with(c, ls_conv_reach(c->g, c->tokens, 5)))
MISTAKE(conv_no_reach, conv_with(c, ls_slice(c->g, c->x, 2, 0, 2, 1)))
MISTAKE(conv_reach_foreign, conv_with(c, c->foreign))

static const mistake mistakes[] = {
    {"9 inputs, expected 2 to 8", join_many, LS_INVALID},
    {"its parts are NULL", concat_nothing, LS_INVALID},
    {"its parts are none", concat_none, LS_INVALID},
    {"a dimension 1 that is neither batch nor sequence", concat_tokens, LS_INVALID},
    {"except dimension 0", concat_types, LS_INVALID},
    {"dimension 3 of 3", slice_nowhere, LS_INVALID},
    {"4 elements from 1 on, 1 apart, of 4", slice_behind, LS_INVALID},
    {"2 elements from 0 on", slice_far, LS_INVALID},
    {"0 apart", slice_stays, LS_INVALID},
    {"a dimension 1 that is neither batch nor sequence", slice_tokens, LS_INVALID},
    {"", slice_of_six, LS_OK},
    {"a step of 2 in a tensor of 6 dimensions", slice_of_six_rows, LS_UNSUPPORTED},
    {"its order is NULL", permute_nothing, LS_INVALID},
    {"the batch and the sequence stay", permute_tokens, LS_INVALID},
    {"place 3 has 2", permute_twice, LS_INVALID},
    {"each dimension once", permute_far, LS_INVALID},
    {"ls_reduce_mean: the tensor is not one of this graph", mean_foreign, LS_INVALID},
    {"dimensions that are summed over (0x80000000)", mean_of_far, LS_INVALID},
    {"no maximum over the batch or the sequence (dimension 1)", max_tokens, LS_INVALID},
    {"some of its dimensions, not 0x0", max_nothing, LS_INVALID},
    {"some of its dimensions, not 0x80000004", max_far, LS_INVALID},
    {"elements of type f32", max_of_ids, LS_INVALID},
    {"a last dimension that is neither batch nor sequence", softmax_tokens, LS_INVALID},
    {"elements of type f32", softmax_of_ids, LS_INVALID},
    {"its equation is NULL", einsum_nothing, LS_INVALID},
    {"ls_einsum: the tensor is not one of this graph", einsum_foreign, LS_INVALID},
    {"each letter at most once in a tensor", einsum_words, LS_INVALID},
    {"each letter at most once in a tensor", einsum_other_letters, LS_INVALID},
    {"has no result", einsum_open, LS_INVALID},
    {"each letter at most once in a tensor", einsum_twice, LS_INVALID},
    {"has 3 dimensions for bs", einsum_short, LS_INVALID},
    {"each letter at most once in a tensor", einsum_long, LS_INVALID},
    {"e is 4 and 2", einsum_sizes, LS_INVALID},
    {"it would sum over the batch or the sequence", einsum_over_tokens, LS_UNSUPPORTED},
    {"it would multiply different tokens", einsum_scores, LS_UNSUPPORTED},
    {"batch and sequence must come first", einsum_turned, LS_UNSUPPORTED},
    {"a letter of the result is in no operand", einsum_new, LS_UNSUPPORTED},
    {"a letter of one operand alone is lost", einsum_lost, LS_UNSUPPORTED},
    {"is i32, expected f32", einsum_of_ids, LS_INVALID},
    {"i32 with the dimensions of", take_by_reals, LS_INVALID},
    {"elements of type f32", take_of_ids, LS_INVALID},
    {"i32 with the dimensions of", take_rows, LS_INVALID},
    {"k of at least 1", topk_none, LS_INVALID},
    {"at least 5", topk_many, LS_INVALID},
    {"a last dimension that is neither batch nor sequence", topk_tokens, LS_INVALID},
    {"a gate of the type and shape of", gate_of_heads, LS_INVALID},
    {"a weight of the last dimension of", gated_of_tokens, LS_INVALID},
    {"epsilon -1", gated_below_zero, LS_INVALID},
    {"epsilon nan", gated_nan, LS_INVALID},
    {"ls_l2norm: epsilon nan, scale 1", l2norm_nan, LS_INVALID},
    {"ls_l2norm: epsilon 1e-06, scale inf", l2norm_endless, LS_INVALID},
    {"is not from ls_conv_reach with a width of 4", conv_reach_less, LS_INVALID},
    {"is not from ls_conv_reach with a width of 4", conv_reach_more, LS_INVALID},
    {"is not from ls_conv_reach with a width of 4", conv_no_reach, LS_INVALID},
    {"the tensor is not one of this graph", conv_reach_foreign, LS_INVALID},
};

static void test_each(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(mistakes); i++) {
        ls_graph *other = ls_graph_create(LS_F32);
        given c = {.g = ls_graph_create(LS_F32), .foreign = ls_tokens(other, "tokens", 1, 8)};
        c.tokens = ls_tokens(c.g, "tokens", 1, 8);
        c.weight = ls_parameter(c.g, "weight", 2, (int64_t[]){4, 4});
        c.x = ls_embedding(c.g, c.tokens, c.weight);
        c.q = ls_reshape(c.g, c.x, 4, (int64_t[]){1, 8, 2, 2});
        assert_int_equal(ls_graph_status(c.g).code, LS_OK);
        mistakes[i].make(&c);
        const ls_status status = ls_graph_status(c.g);
        if (status.code != mistakes[i].code || strstr(status.text, mistakes[i].words) == NULL)
            fail_msg("expected %s with \"%s\"; got %s \"%s\"", ls_code_name(mistakes[i].code), mistakes[i].words,
                     ls_code_name(status.code), status.text);
        ls_graph_destroy(c.g);
        ls_graph_destroy(other);
    }
}

/* Without a graph nothing happens. */
static void test_no_graph(void **state) {
    (void)state;
    ls_tensor ids = {1, 1};
    assert_int_equal(ls_softmax(NULL, ids).id, 0);
    assert_int_equal(ls_permute_dims(NULL, ids, (int[]){0}).id, 0);
    assert_int_equal(ls_reduce_mean(NULL, ids, 1, false).id, 0);
    assert_int_equal(ls_reduce_max(NULL, ids, 1, false, false).id, 0);
    assert_int_equal(ls_slice(NULL, ids, 0, 0, 1, 1).id, 0);
    assert_int_equal(ls_concat(NULL, 0, 2, (ls_tensor[]){ids, ids}).id, 0);
    assert_int_equal(ls_einsum(NULL, "a,a->a", ids, ids).id, 0);
    assert_int_equal(ls_take_along(NULL, ids, ids).id, 0);
    assert_int_equal(ls_gated_norm(NULL, ids, ids, ids, 1, false).id, 0);
    assert_int_equal(ls_topk(NULL, ids, 1, &ids).id, 0);
    assert_int_equal(ids.id, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each), cmocka_unit_test(test_no_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
