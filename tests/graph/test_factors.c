/* Which dimensions of a graph's tensors are one factor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

#include "../../examples/graphs/graphs.h"

typedef struct factored {
    ls_arena *arena;
    ls_graph *g;
    ls_factors f;
} factored;

/* Of a network and its gradients. */
static factored factor(ls_tensor (*loss)(ls_graph *)) {
    factored x = {.arena = ls_arena_create(), .g = ls_graph_create(LS_F64)};
    const ls_tensor sum = loss(x.g);
    assert_int_equal(ls_graph_accumulate_loss(x.g, sum).code, LS_OK);
    const ls_status status = ls_graph_differentiate_loss(x.g, sum);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    ls_factors_find(x.g, x.arena, &x.f);
    return x;
}

static void release(factored *x) {
    ls_graph_destroy(x->g);
    ls_arena_destroy(x->arena);
}

static const ls_factored_dim *dim_of(const factored *x, const char *name, int d) {
    for (int t = 1; t < x->g->n_tensors; t++)
        if (strcmp(x->g->tensors[t].name, name) == 0) return &x->f.dim[t * LS_MAX_DIMS + d];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* A dimension of one segment, that is the product of these factors. */
static void expect_product(const factored *x, const char *name, int d, int n, const int *factors) {
    const ls_factored_dim *dim = dim_of(x, name, d);
    assert_int_equal(dim->n, 1);
    assert_int_equal(dim->segment[0].n, n);
    for (int k = 0; k < n; k++) assert_int_equal(dim->segment[0].factor[k], factors[k]);
}

static int single(const factored *x, const char *name, int d) {
    const ls_factored_dim *dim = dim_of(x, name, d);
    assert_int_equal(dim->n, 1);
    assert_int_equal(dim->segment[0].n, 1);
    return dim->segment[0].factor[0];
}

static void expect_sizes(const factored *x, const ls_segment *s, int n, const int64_t *sizes) {
    assert_int_equal(s->n, n);
    for (int k = 0; k < n; k++) assert_int_equal(x->f.list[s->factor[k]].size, sizes[k]);
}

/* Gradients of parameters have their factors, and the sizes of all factors make up those of dimensions. */
static void expect_sound(const factored *x) {
    for (int t = 1; t < x->g->n_tensors; t++) {
        const ls_tensor_info *info = &x->g->tensors[t];
        for (int d = 0; d < info->shape.ndim; d++) {
            const ls_factored_dim *dim = &x->f.dim[t * LS_MAX_DIMS + d];
            int64_t size = 0;
            for (int s = 0; s < dim->n; s++) {
                int64_t product = 1;
                for (int k = 0; k < dim->segment[s].n; k++) product *= x->f.list[dim->segment[s].factor[k]].size;
                size += product;
            }
            assert_int_equal(size, info->shape.dim[d].size);
            const ls_factored_dim *of = &x->f.dim[info->of.id * LS_MAX_DIMS + d];
            if (info->of.id != 0) assert_memory_equal(dim, of, sizeof *dim);
        }
    }
}

static void test_llama(void **state) {
    (void)state;
    factored x = factor(llama_loss);
    expect_sound(&x);
    const int E = single(&x, "embed_tokens", 1), F = single(&x, "layers.0.gate_proj", 0);
    const ls_segment *heads = dim_of(&x, "layers.0.q_proj", 0)->segment;
    expect_sizes(&x, heads, 3, (int64_t[]){2, 4, 4}); /* KV heads, queries of each, D */
    const int k = heads->factor[0], g = heads->factor[1], D = heads->factor[2];
    expect_product(&x, "layers.0.k_proj", 0, 2, (int[]){k, D});
    const int W = dim_of(&x, "layers.0.v_proj", 0)->segment[0].factor[1]; /* of values: its size is a fact of its own */
    assert_int_not_equal(W, D);
    expect_product(&x, "layers.0.v_proj", 0, 2, (int[]){k, W});
    expect_product(&x, "layers.0.o_proj", 1, 3, (int[]){k, g, W});
    assert_int_equal(single(&x, "layers.0.up_proj", 0), F);
    assert_int_equal(single(&x, "layers.0.down_proj", 1), F);
    static const char *const of_model_size[] = {"layers.0.q_proj", "layers.1.v_proj", "layers.1.up_proj", "lm_head"};
    for (size_t i = 0; i < LS_COUNT(of_model_size); i++) assert_int_equal(single(&x, of_model_size[i], 1), E);
    assert_int_equal(single(&x, "layers.1.o_proj", 0), E);
    assert_int_equal(single(&x, "layers.2.norm", 0), E);
    /* Heads and features of a layer are its own, and nothing needs all of them, nor of the vocabulary; norms and
     * rotations need E and D, attention D and W. */
    assert_int_not_equal(single(&x, "layers.1.gate_proj", 0), F);
    assert_int_not_equal(dim_of(&x, "layers.1.q_proj", 0)->segment[0].factor[0], k);
    assert_int_equal(dim_of(&x, "layers.1.q_proj", 0)->segment[0].factor[2], D); /* of one table of rotations */
    const int V = single(&x, "lm_head", 0);
    assert_false(x.f.list[F].whole || x.f.list[k].whole || x.f.list[g].whole || x.f.list[V].whole);
    assert_true(x.f.list[E].whole && x.f.list[D].whole && x.f.list[W].whole);
    assert_int_equal(x.f.list[single(&x, "tokens", 0)].is, LS_FACTOR_BATCH);
    assert_int_equal(x.f.list[single(&x, "labels", 1)].is, LS_FACTOR_SEQUENCE);
    assert_int_equal(single(&x, "labels", 1), single(&x, "tokens", 1));
    release(&x);
}

/* A head for each KV head, and a tied table. */
static void test_gpt2(void **state) {
    (void)state;
    factored x = factor(gpt2_loss);
    expect_sound(&x);
    expect_sizes(&x, dim_of(&x, "h.1.attn.q.bias", 0)->segment, 2, (int64_t[]){8, 4});
    assert_memory_equal(dim_of(&x, "h.1.attn.k.weight", 0), dim_of(&x, "h.1.attn.q.weight", 0),
                        sizeof(ls_factored_dim));
    assert_memory_equal(dim_of(&x, "h.1.attn.v.weight", 0), dim_of(&x, "h.1.attn.proj.weight", 1),
                        sizeof(ls_factored_dim));
    assert_int_equal(single(&x, "h.0.mlp.fc.bias", 0), single(&x, "h.0.mlp.proj.weight", 1));
    assert_int_equal(single(&x, "wpe", 1), single(&x, "wte", 1));
    release(&x);
}

enum { S = 8, E = 6, HQ = 4, HKV = 2, D = 3, W = 2 }; /* W: of values */

/* Queries, keys and values of one product; then a square weight whose result is added to what it was made of. */
static ls_tensor fused_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 2, S);
    const ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){5, E}));
    const ls_tensor w = ls_parameter(g, "qkv", 2, (int64_t[]){(HQ + HKV) * D + HKV * W, E});
    ls_tensor part[3];
    ls_split(g, ls_linear(g, x, w, ls_parameter(g, "bias", 1, (int64_t[]){(HQ + HKV) * D + HKV * W})), 3,
             (int64_t[]){HQ * D, HKV * D, HKV * W}, part);
    const ls_mask mask = ls_mask_causal();
    const ls_tensor o = ls_attention(g, ls_split_last(g, part[0], HQ, D), ls_split_last(g, part[1], HKV, D),
                                     ls_split_last(g, part[2], HKV, W), &mask, 0.5);
    const ls_tensor y =
        ls_linear(g, ls_merge_last(g, o), ls_parameter(g, "o", 2, (int64_t[]){E, HQ * W}), LS_NO_TENSOR);
    const ls_tensor z = ls_add(g, y, ls_linear(g, y, ls_parameter(g, "square", 2, (int64_t[]){E, E}), LS_NO_TENSOR));
    return ls_sum(g, ls_cross_entropy(g, z, tokens));
}

static void test_fused(void **state) {
    (void)state;
    factored x = factor(fused_loss);
    expect_sound(&x);
    const ls_factored_dim *qkv = dim_of(&x, "qkv", 0);
    assert_int_equal(qkv->n, 3);
    expect_sizes(&x, &qkv->segment[0], 3, (int64_t[]){HKV, HQ / HKV, D});
    for (int s = 1; s < 3; s++) {
        expect_sizes(&x, &qkv->segment[s], 2, (int64_t[]){HKV, s == 1 ? D : W});
        assert_int_equal(qkv->segment[s].factor[0], qkv->segment[0].factor[0]);
    }
    assert_memory_equal(dim_of(&x, "bias", 0), qkv, sizeof *qkv);
    const int *of_queries = qkv->segment[0].factor;
    assert_int_equal(qkv->segment[1].factor[1], of_queries[2]);
    expect_product(&x, "o", 1, 3, (int[]){of_queries[0], of_queries[1], qkv->segment[2].factor[1]});
    assert_int_equal(single(&x, "square", 0), single(&x, "square", 1));
    release(&x);
}

/* Of [4,6] as [8,3] no dimension is a part of another; of [4,6] as [2,2,6] and as [24] they are. */
static void test_reshapes(void **state) {
    (void)state;
    factored x = {.arena = ls_arena_create(), .g = ls_graph_create(LS_F64)};
    const ls_tensor a = ls_parameter(x.g, "a", 2, (int64_t[]){4, 6}), b = ls_parameter(x.g, "b", 2, (int64_t[]){4, 6});
    (void)ls_named(x.g, ls_reshape(x.g, a, 2, (int64_t[]){8, 3}), "mixed");
    (void)ls_named(x.g, ls_reshape(x.g, b, 4, (int64_t[]){2, 2, 1, 6}), "split");
    (void)ls_named(x.g, ls_reshape(x.g, b, 1, (int64_t[]){24}), "merged");
    ls_factors_find(x.g, x.arena, &x.f);
    expect_sound(&x);
    assert_true(x.f.list[single(&x, "a", 0)].whole && x.f.list[single(&x, "mixed", 1)].whole);
    expect_sizes(&x, dim_of(&x, "b", 0)->segment, 2, (int64_t[]){2, 2});
    expect_product(&x, "merged", 0, 3, (int[]){single(&x, "split", 0), single(&x, "split", 1), single(&x, "split", 3)});
    assert_int_equal(single(&x, "b", 1), single(&x, "split", 3));
    assert_false(x.f.list[single(&x, "split", 0)].whole);
    release(&x);
}

/* Two ways to cut one dimension into heads: 12 = 4 x 3 = 2 x 6 has the parts 2, 2 and 3; 6 = 2 x 3 = 3 x 2 has none. */
static void test_two_products(void **state) {
    (void)state;
    factored x = {.arena = ls_arena_create(), .g = ls_graph_create(LS_F64)};
    const ls_tensor a = ls_parameter(x.g, "a", 1, (int64_t[]){12}), b = ls_parameter(x.g, "b", 1, (int64_t[]){6});
    (void)ls_named(x.g, ls_reshape(x.g, a, 2, (int64_t[]){4, 3}), "a1");
    (void)ls_named(x.g, ls_reshape(x.g, a, 2, (int64_t[]){2, 6}), "a2");
    (void)ls_named(x.g, ls_reshape(x.g, b, 2, (int64_t[]){2, 3}), "b1");
    (void)ls_named(x.g, ls_reshape(x.g, b, 2, (int64_t[]){3, 2}), "b2");
    ls_factors_find(x.g, x.arena, &x.f);
    expect_sound(&x);
    expect_sizes(&x, dim_of(&x, "a", 0)->segment, 3, (int64_t[]){2, 2, 3});
    expect_sizes(&x, dim_of(&x, "a1", 0)->segment, 2, (int64_t[]){2, 2});
    expect_sizes(&x, dim_of(&x, "a2", 1)->segment, 2, (int64_t[]){2, 3});
    const ls_factored_dim *b6 = dim_of(&x, "b", 0);
    for (int k = 0; k < b6->segment[0].n; k++) assert_true(x.f.list[b6->segment[0].factor[k]].whole);
    release(&x);
}

static ls_tensor one_head_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 2, S);
    const ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){5, E}));
    const ls_tensor qk = ls_linear(g, x, ls_parameter(g, "qk", 2, (int64_t[]){D, E}), LS_NO_TENSOR);
    const ls_tensor v = ls_linear(g, x, ls_parameter(g, "v", 2, (int64_t[]){W, E}), LS_NO_TENSOR);
    const ls_tensor head = ls_split_last(g, qk, 1, D);
    const ls_mask mask = ls_mask_causal();
    const ls_tensor o = ls_merge_last(g, ls_attention(g, head, head, ls_split_last(g, v, 1, W), &mask, 0.5));
    return ls_sum(
        g, ls_cross_entropy(g, ls_linear(g, o, ls_parameter(g, "o", 2, (int64_t[]){5, W}), LS_NO_TENSOR), tokens));
}

/* One head of keys with one of queries: their number is a product of nothing, and the weights are the heads' elements.
 */
static void test_one_head(void **state) {
    (void)state;
    factored x = factor(one_head_loss);
    expect_sound(&x);
    expect_sizes(&x, dim_of(&x, "qk", 0)->segment, 1, (int64_t[]){D});
    assert_int_equal(single(&x, "v", 0), single(&x, "o", 1));
    release(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_head), cmocka_unit_test(test_llama),
                                       cmocka_unit_test(test_gpt2),     cmocka_unit_test(test_fused),
                                       cmocka_unit_test(test_reshapes), cmocka_unit_test(test_two_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
