#include "support/op_cases.h"

static ls_tensor build_embedding(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_embedding(g, tokens, x[0]);
}
static ls_tensor build_linear(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_linear(g, x[0], x[1], x[2]);
}
static ls_tensor build_wide(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_linear_wide(g, x[0], x[1]);
}
static ls_tensor build_rmsnorm(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_rmsnorm(g, x[0], x[1], 1e-5);
}
static ls_tensor build_rmsnorm_offset(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_rmsnorm_offset(g, x[0], x[1], 1e-5, 1);
}
static ls_tensor build_linear_transposed(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_linear_transposed(g, x[0], x[1], x[2]);
}
static ls_tensor build_split(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    ls_tensor part[3];
    ls_split(g, x[0], (int64_t[]){2, 3, 2}, part);
    return ls_mul(g, part[0], part[2]); /* the middle one has no gradient */
}
static ls_tensor build_join(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_tensor joined = ls_join(g, (ls_tensor[]){x[0], x[1], x[0]});
    return ls_mul(g, joined, joined);
}
static ls_tensor build_layernorm(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_layernorm(g, x[0], x[1], x[2], 1e-5);
}
static ls_tensor build_layernorm_no_bias(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_layernorm(g, x[0], x[1], LS_NO_TENSOR, 1e-5);
}
static ls_tensor build_rotate(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    const ls_rope rope = {.theta = 100};
    return ls_rotate(g, x[0], ls_rope_table(g, tokens, 4, &rope));
}
static ls_tensor build_swiglu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_swiglu(g, x[0], x[1]);
}
static ls_tensor build_gelu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_gelu(g, x[0]);
}
static ls_tensor build_gelu_tanh(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_gelu_tanh(g, x[0]);
}
static ls_tensor build_relu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_relu(g, x[0]);
}
static ls_tensor build_silu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_silu(g, x[0]);
}
static ls_tensor build_softcap(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_softcap(g, x[0], 1.5);
}
static ls_tensor build_shift(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_shift(g, x[0], 2);
}
static ls_tensor build_shift_back(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_shift(g, x[0], -1);
}
static ls_tensor build_conv(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_conv(g, x[0], x[1]);
}
static ls_tensor build_recurrence(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_recurrence(g, x[0], x[1]);
}
static ls_tensor build_add(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_add(g, x[0], ls_add(g, x[1], x[0]));
}
static ls_tensor build_mul(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_mul(g, x[0], ls_mul(g, x[1], x[0]));
}
static ls_tensor build_scale(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_scale(g, x[0], -1.75);
}
static ls_tensor build_cast(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_cast(g, x[0], LS_F64);
}
static ls_tensor build_reshape(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_merge_last(g, ls_mul(g, ls_split_last(g, x[0], 2, 3), ls_split_last(g, x[0], 2, 3)));
}
static ls_tensor build_cross_entropy(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_cross_entropy(g, x[0], tokens);
}
static ls_tensor build_sum(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_sum(g, ls_mul(g, x[0], x[0]));
}
static ls_tensor build_attention(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_mask mask = ls_mask_causal();
    return ls_attention(g, x[0], x[1], x[2], &mask, 0.6);
}

static ls_tensor build_capped_attention(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_mask mask = ls_mask_causal();
    return ls_attention_capped(g, x[0], x[1], x[2], &mask, 0.6, 0.8);
}

static ls_tensor build_attention_with_sink(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_mask mask = ls_mask_causal();
    return ls_attention_with_sink(g, x[0], x[1], x[2], x[3], &mask, 0.6, 0.8);
}

#define BY(...)                                                                \
    {                                                                          \
        .ndim = 2 + sizeof((ls_dim[]){__VA_ARGS__}) / sizeof(ls_dim), .dim = { \
            {OP_CASE_B, LS_FACTOR_BATCH},                                      \
            {OP_CASE_S, LS_FACTOR_SEQUENCE},                                   \
            __VA_ARGS__                                                        \
        }                                                                      \
    }
#define PLAIN(...)                                                                       \
    {                                                                                    \
        .ndim = sizeof((ls_dim[]){__VA_ARGS__}) / sizeof(ls_dim), .dim = { __VA_ARGS__ } \
    }

const op_case op_cases[] = {
    {"embedding", 1, {PLAIN({7, 0}, {3, 0})}, build_embedding},
    {"linear", 3, {BY({4, 0}), PLAIN({3, 0}, {4, 0}), PLAIN({3, 0})}, build_linear},
    {"linear", 2, {BY({4, 0}), PLAIN({3, 0}, {4, 0})}, build_wide},
    {"rmsnorm", 2, {BY({6, 0}), PLAIN({6, 0})}, build_rmsnorm},
    {"rmsnorm", 2, {BY({6, 0}), PLAIN({6, 0})}, build_rmsnorm_offset},
    {"linear", 3, {BY({6, 0}), PLAIN({6, 0}, {5, 0}), PLAIN({5, 0})}, build_linear_transposed},
    {"split", 1, {BY({7, 0})}, build_split},
    {"join", 2, {BY({2, 0}), BY({3, 0})}, build_join},
    {"layernorm", 3, {BY({6, 0}), PLAIN({6, 0}), PLAIN({6, 0})}, build_layernorm},
    {"layernorm", 2, {BY({6, 0}), PLAIN({6, 0})}, build_layernorm_no_bias},
    {"rotate", 1, {BY({2, 0}, {4, 0})}, build_rotate},
    {"swiglu", 2, {BY({4, 0}), BY({4, 0})}, build_swiglu},
    {"activation", 1, {BY({4, 0})}, build_gelu},
    {"activation", 1, {BY({4, 0})}, build_gelu_tanh},
    {"activation", 1, {BY({4, 0})}, build_relu},
    {"activation", 1, {BY({4, 0})}, build_silu},
    {"activation", 1, {BY({4, 0})}, build_softcap},
    {"shift", 1, {BY({2, 0}, {2, 0})}, build_shift},
    {"shift", 1, {BY({3, 0})}, build_shift_back},
    {"conv", 2, {BY({4, 0}), PLAIN({3, 0}, {4, 0})}, build_conv},
    {"recurrence", 2, {BY({3, 0}), BY({3, 0})}, build_recurrence},
    {"add", 2, {BY({4, 0}), BY({4, 0})}, build_add},
    {"mul", 2, {BY({4, 0}), BY({4, 0})}, build_mul},
    {"scale", 1, {BY({4, 0})}, build_scale},
    {"cast", 1, {BY({4, 0})}, build_cast},
    {"reshape", 1, {BY({6, 0})}, build_reshape},
    {"cross_entropy", 1, {BY({7, 0})}, build_cross_entropy},
    {"sum", 1, {BY({4, 0})}, build_sum},
    {"attention", 3, {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_capped_attention},
    {"attention", 3, {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_attention},
    {"attention",
     4,
     {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0}), PLAIN({4, 0})},
     build_attention_with_sink},
};

const int n_op_cases = (int)LS_COUNT(op_cases);
