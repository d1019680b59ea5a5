#include "support/op_cases.h"

static ls_tensor build_embedding(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_embedding(g, tokens, x[0]);
}
static ls_tensor build_scale_rows(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_scale_rows(g, tokens, x[0], x[1]);
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
static ls_tensor build_gated_norm(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_gated_norm(g, x[0], x[1], x[2], 1e-2, false);
}
static ls_tensor build_norm_of_gated(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_gated_norm(g, x[0], x[1], x[2], 1e-2, true);
}
static ls_tensor build_linear_transposed(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_linear_transposed(g, x[0], x[1], x[2]);
}
static ls_tensor build_split(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    ls_tensor part[3];
    ls_split(g, x[0], 3, (int64_t[]){2, 3, 2}, part);
    return ls_mul(g, part[0], part[2]); /* the middle one has no gradient */
}
static ls_tensor build_join(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_tensor joined = ls_join(g, 3, (ls_tensor[]){x[0], x[1], x[0]});
    return ls_mul(g, joined, joined);
}
static ls_tensor build_four_parts(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    ls_tensor part[4];
    ls_split(g, x[0], 4, (int64_t[]){3, 2, 4, 2}, part);
    const ls_tensor turned = ls_join(g, 4, (ls_tensor[]){part[2], part[3], part[0], part[1]});
    return ls_mul(g, turned, x[0]);
}
static ls_tensor build_two_parts(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    ls_tensor part[2];
    ls_split(g, x[0], 2, (int64_t[]){4, 3}, part);
    return ls_join(g, 2, (ls_tensor[]){part[1], ls_mul(g, part[0], part[0])});
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
/* Tokens that are 0 begin a document; of two taps it does not matter how far others are from its beginning. */
static ls_tensor build_conv_within(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_conv_within(g, x[0], x[1], &(ls_conv_form){.reach = ls_conv_reach(g, tokens, 2), .last_first = true});
}
static ls_tensor build_conv_silu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_conv_within(
        g, x[0], x[1],
        &(ls_conv_form){.reach = ls_conv_reach(g, tokens, 2), .last_first = true, .bias = x[2], .silu = true});
}
/* Of one tap. */
static ls_tensor build_product_silu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_conv_within(g, x[0], x[1], &(ls_conv_form){.bias = x[2], .silu = true});
}
static ls_tensor build_conv_only_silu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_conv_within(g, x[0], x[1], &(ls_conv_form){.silu = true});
}
static ls_tensor build_recurrence(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_recurrence(g, x[0], x[1]);
}
/* decay, beta: inputs, 0: none; with documents, tokens that are 0 begin one. */
static ls_tensor recurrence_of(ls_graph *g, ls_tensor places, const ls_tensor *x, int decay, int beta, bool delta) {
    const ls_linear_state rule = {.decay = decay > 0 ? x[decay] : LS_NO_TENSOR,
                                  .beta = beta > 0 ? x[beta] : LS_NO_TENSOR,
                                  .places = places,
                                  .delta = delta};
    return ls_linear_recurrence(g, x[0], x[1], x[2], &rule);
}
static ls_tensor build_linear_attention(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return recurrence_of(g, LS_NO_TENSOR, x, 0, 0, false);
}
static ls_tensor build_decayed(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return recurrence_of(g, LS_NO_TENSOR, x, 3, 4, false);
}
static ls_tensor build_delta(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return recurrence_of(g, LS_NO_TENSOR, x, 0, 3, true);
}
static ls_tensor build_gated_delta(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return recurrence_of(g, LS_NO_TENSOR, x, 3, 4, true);
}
static ls_tensor build_packed_delta(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return recurrence_of(g, tokens, x, 3, 4, true);
}
static ls_tensor build_unmasked(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_linear_state rule = {.beta = x[3], .unmasked = true};
    return ls_linear_recurrence(g, x[0], x[1], x[2], &rule);
}
/* Of inputs x and weight, then a bias if there is one; with documents, tokens that are 0 begin one. */
static ls_tensor rnn_of(ls_graph *g, ls_rnn_kind kind, const ls_tensor *x, bool biased, ls_tensor places) {
    const ls_rnn_form form = {.kind = kind, .bias = biased ? x[2] : LS_NO_TENSOR, .places = places};
    return ls_rnn(g, x[0], x[1], &form);
}
#define RNN_CASES(X)                           \
    X(elman, LS_RNN_ELMAN, true, false)        \
    X(lstm, LS_RNN_LSTM, true, true)           \
    X(plain_lstm, LS_RNN_LSTM, false, false)   \
    X(gru, LS_RNN_GRU, true, false)            \
    X(slstm, LS_RNN_SLSTM, true, false)        \
    X(packed_slstm, LS_RNN_SLSTM, false, true) \
    X(dgru, LS_RNN_DIAGONAL_GRU, false, true)  \
    X(dlstm, LS_RNN_DIAGONAL_LSTM, false, false)
#define RNN_CASE(name, kind, biased, packed)                                               \
    static ls_tensor build_rnn_##name(ls_graph *g, ls_tensor tokens, const ls_tensor *x) { \
        return rnn_of(g, kind, x, biased, packed ? tokens : LS_NO_TENSOR);                 \
    }
RNN_CASES(RNN_CASE)
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
static ls_tensor build_smoothed(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_cross_entropy_smoothed(g, x[0], tokens, 0.3, 0);
}
static ls_tensor build_squared(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_cross_entropy_smoothed(g, x[0], tokens, 0.1, 0.2);
}
static ls_tensor build_noise(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_noise(g, ls_mul(g, x[0], x[0]), tokens, 0.5);
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

/* A step of each kind that has a gradient, of x0 and x1, where it takes only positive numbers of x0 squared and 1/2. */
static ls_tensor build_step(ls_graph *g, const ls_tensor *x, ls_map_code code) {
    const ls_map_step step[] = {{LS_MAP_MUL, 0, 0, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, 0.5}, {LS_MAP_ADD, 2, 3, 0, 0},
                                {code, 4, 1, 0, 0},       {LS_MAP_LT, 0, 1, 0, 0},       {LS_MAP_WHERE, 6, 5, 1, 0}};
    return ls_map(g, x, 2, &(ls_expression){.step = step, .n_steps = 6});
}
#define STEPS(X)                                                                                                      \
    X(NEG), X(ABS), X(EXP), X(LOG), X(LOG1P), X(SQRT), X(RSQRT), X(SIN), X(COS), X(TANH), X(SIGMOID), X(ERF), X(ADD), \
        X(SUB), X(MUL), X(DIV), X(POW), X(MOD), X(MIN), X(MAX)
#define BUILD_STEP(code)                                                               \
    static ls_tensor build_##code(ls_graph *g, ls_tensor tokens, const ls_tensor *x) { \
        (void)tokens;                                                                  \
        return build_step(g, x, LS_MAP_##code);                                        \
    }
BUILD_STEP(NEG)
BUILD_STEP(ABS)
BUILD_STEP(EXP)
BUILD_STEP(LOG)
BUILD_STEP(LOG1P)
BUILD_STEP(SQRT)
BUILD_STEP(RSQRT)
BUILD_STEP(SIN)
BUILD_STEP(COS)
BUILD_STEP(TANH)
BUILD_STEP(SIGMOID)
BUILD_STEP(ERF)
BUILD_STEP(ADD)
BUILD_STEP(SUB)
BUILD_STEP(MUL)
BUILD_STEP(DIV)
BUILD_STEP(POW)
BUILD_STEP(MOD)
BUILD_STEP(MIN)
BUILD_STEP(MAX)

/* Three results of inputs of several shapes, of which one is not used and one is an input as it is. */
static ls_tensor build_broadcasts(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_map_step step[] = {{LS_MAP_MUL, 0, 1, 0, 0}, {LS_MAP_ADD, 3, 2, 0, 0}, {LS_MAP_SIN, 4, 0, 0, 0}};
    const ls_expression e = {.step = step, .n_steps = 3, .result = (int[]){5, 3, 2}, .n_results = 3};
    const ls_tensor y = ls_map(g, x, 3, &e);
    return ls_mul(g, y, ls_map_result(g, y, 2));
}
static ls_tensor build_of_integers(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    const ls_tensor in[] = {x[0], tokens};
    const ls_map_step step[] = {{LS_MAP_MUL, 0, 1, 0, 0}, {LS_MAP_ADD, 0, 2, 0, 0}};
    return ls_map(g, in, 2, &(ls_expression){.step = step, .n_steps = 2});
}
/* A rmsnorm of general ops. */
static ls_tensor build_norm(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_map_step square = {LS_MAP_MUL, 0, 0, 0, 0};
    /* The absolute value is for those who try the node with any numbers. */
    const ls_map_step step[] = {{LS_MAP_NUMBER, 0, 0, 0, 1.0 / 6}, {LS_MAP_ABS, 1, 0, 0, 0}, {LS_MAP_MUL, 4, 3, 0, 0},
                                {LS_MAP_RSQRT, 5, 0, 0, 0},        {LS_MAP_MUL, 0, 6, 0, 0}, {LS_MAP_MUL, 7, 2, 0, 0}};
    const ls_tensor squares = ls_map(g, x, 1, &(ls_expression){.step = &square, .n_steps = 1});
    const ls_tensor in[] = {x[0], ls_reduce_sum(g, squares, 1U << 2, true), x[1]};
    return ls_map(g, in, 3, &(ls_expression){.step = step, .n_steps = 6});
}
static ls_tensor build_reduce(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_reduce_sum(g, x[0], 1U << 0 | 1U << 1 | 1U << 3, false); /* in two steps */
}
static ls_tensor build_reduce_within(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_reduce_sum(g, x[0], 1U << 2, false);
}
static ls_tensor build_broadcast(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_mul(g, x[1], ls_broadcast(g, x[0], 1U << 0 | 1U << 1 | 1U << 3, x[1]));
}

static ls_tensor build_permute(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_tensor turned = ls_permute_dims(g, x[0], (int[]){0, 1, 4, 2, 3});
    return ls_mul(g, turned, ls_permute_dims(g, x[1], (int[]){0, 1, 3, 2, 4}));
}
static ls_tensor build_permuted_matrix(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_linear(g, x[0], ls_permute_dims(g, x[1], (int[]){1, 0}), LS_NO_TENSOR);
}
static ls_tensor build_softmax(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_softmax(g, x[0]);
}
static ls_tensor build_mean(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_reduce_mean(g, x[0], 1U << 2, true);
}
static ls_tensor build_max(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_reduce_max(g, x[0], 1U << 2, false, false);
}
static ls_tensor build_max_of_parts(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_reduce_max(g, x[0], 1U << 2 | 1U << 4, true, true);
}
/* A largest element that is there three times: moving the number itself moves all. */
static ls_tensor build_shared_max(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_reduce_max(g, ls_join(g, 3, (ls_tensor[]){x[0], x[0], x[0]}), 1U << 2, false, true);
}
static ls_tensor build_split_within(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    ls_tensor part[3];
    ls_split_along(g, x[0], 2, 3, (int64_t[]){2, 1, 2}, part);
    return ls_concat(g, 3, 2, (ls_tensor[]){ls_mul(g, part[0], part[2]), part[0]});
}
/* Slices with a step: one that ends before the dimension does, and one whose last element has nothing behind it. */
static ls_tensor build_slices(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_tensor odd = ls_slice(g, x[0], 2, 1, 2, 2), ends = ls_slice(g, x[0], 2, 0, 2, 4);
    return ls_mul(g, ls_mul(g, odd, ends), ls_slice(g, x[0], 2, 1, 2, 1));
}
static ls_tensor build_many_parts(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    ls_tensor part[11];
    for (int i = 0; i < 11; i++) part[i] = i % 2 == 0 ? x[0] : x[1];
    const ls_tensor joined = ls_concat(g, 2, 11, part);
    return ls_mul(g, joined, joined);
}
static ls_tensor build_take(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    const ls_tensor one = ls_reshape(g, tokens, 3, (int64_t[]){OP_CASE_B, OP_CASE_S, 1});
    const ls_tensor taken = ls_take_along(g, x[0], ls_concat(g, 2, 3, (ls_tensor[]){one, one, one}));
    return ls_mul(g, taken, x[1]);
}
static ls_tensor build_topk(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    ls_tensor ids;
    const ls_tensor values = ls_topk(g, x[0], 3, &ids);
    return ls_mul(g, values, ls_take_along(g, x[1], ids));
}
#define BUILD_CONTRACT(name, equation)                                                 \
    static ls_tensor build_##name(ls_graph *g, ls_tensor tokens, const ls_tensor *x) { \
        (void)tokens;                                                                  \
        return ls_einsum(g, equation, x[0], x[1]);                                     \
    }
BUILD_CONTRACT(of_tokens, "bshd,bsge->bshgde")
BUILD_CONTRACT(of_heads, "bshd,bsdh->bsh")
BUILD_CONTRACT(turned, "bsdi,bsjd->bsji")
BUILD_CONTRACT(by_head, "bshd,hde->bseh")
BUILD_CONTRACT(by_head_turned, "hed,bsdh->bshe")
BUILD_CONTRACT(by_matrix, "bshd,hde->bse")
BUILD_CONTRACT(by_matrix_turned, "edh,bshd->bse")
BUILD_CONTRACT(of_matrices, "hd,dke->khe")
BUILD_CONTRACT(by_parameters, "nik,njk->nij")

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
    {"scale_rows", 2, {BY({3, 0}), PLAIN({7, 0}, {3, 0})}, build_scale_rows},
    {"linear", 3, {BY({4, 0}), PLAIN({3, 0}, {4, 0}), PLAIN({3, 0})}, build_linear},
    {"linear", 2, {BY({4, 0}), PLAIN({3, 0}, {4, 0})}, build_wide},
    {"rmsnorm", 2, {BY({6, 0}), PLAIN({6, 0})}, build_rmsnorm},
    {"rmsnorm", 2, {BY({6, 0}), PLAIN({6, 0})}, build_rmsnorm_offset},
    {"gated_norm", 3, {BY({6, 0}), PLAIN({6, 0}), BY({6, 0})}, build_gated_norm},
    {"gated_norm", 3, {BY({2, 0}, {3, 0}), PLAIN({2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_gated_norm},
    {"gated_norm", 3, {BY({2, 0}, {3, 0}), PLAIN({2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_norm_of_gated},
    {"gated_norm", 3, {BY({2, 0}, {3, 0}), PLAIN({3, 0}), BY({2, 0}, {3, 0})}, build_norm_of_gated},
    {"linear", 3, {BY({6, 0}), PLAIN({6, 0}, {5, 0}), PLAIN({5, 0})}, build_linear_transposed},
    {"split", 1, {BY({7, 0})}, build_split},
    {"join", 2, {BY({2, 0}), BY({3, 0})}, build_join},
    {"split", 1, {BY({11, 0})}, build_four_parts},
    {"join", 1, {BY({7, 0})}, build_two_parts},
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
    {"conv", 2, {BY({4, 0}), PLAIN({2, 0}, {4, 0})}, build_conv_within},
    {"conv", 3, {BY({4, 0}), PLAIN({2, 0}, {4, 0}), PLAIN({4, 0})}, build_conv_silu},
    {"map", 3, {BY({4, 0}), PLAIN({1, 0}, {4, 0}), PLAIN({4, 0})}, build_product_silu},
    {"conv", 2, {BY({4, 0}), PLAIN({3, 0}, {4, 0})}, build_conv_only_silu},
    {"recurrence", 2, {BY({3, 0}), BY({3, 0})}, build_recurrence},
    {"recurrence", 2, {BY({2, 0}, {2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_recurrence},
#define KEYS_AND_VALUES BY({2, 0}, {2, 0}), BY({2, 0}, {2, 0}), BY({2, 0}, {1, 0})
#define SHARED_KEYS BY({1, 0}, {2, 0}), BY({1, 0}, {2, 0}), BY({2, 0}, {3, 0})
    {"linear_recurrence", 3, {KEYS_AND_VALUES}, build_linear_attention},
    {"linear_recurrence", 5, {KEYS_AND_VALUES, BY({2, 0}), BY({2, 0})}, build_decayed},
    {"linear_recurrence", 5, {SHARED_KEYS, BY({2, 0}, {2, 0}), BY({2, 0})}, build_decayed},
    {"linear_recurrence", 4, {SHARED_KEYS, BY({2, 0})}, build_delta},
    {"linear_recurrence", 5, {KEYS_AND_VALUES, BY({2, 0}), BY({2, 0})}, build_gated_delta},
    {"linear_recurrence", 5, {KEYS_AND_VALUES, BY({2, 0}, {2, 0}), BY({2, 0})}, build_gated_delta},
    {"linear_recurrence", 5, {KEYS_AND_VALUES, BY({2, 0}, {2, 0}), BY({2, 0})}, build_packed_delta},
    {"linear_recurrence_unmasked", 4, {KEYS_AND_VALUES, BY({2, 0})}, build_unmasked},
    {"rnn", 3, {BY({2, 0}, {2, 0}), PLAIN({2, 0}, {2, 0}, {2, 0}), PLAIN({2, 0}, {2, 0})}, build_rnn_elman},
#define FOUR_GATES BY({2, 0}, {8, 0}), PLAIN({2, 0}, {8, 0}, {2, 0})
    {"rnn", 3, {FOUR_GATES, PLAIN({2, 0}, {8, 0})}, build_rnn_lstm},
    {"rnn", 2, {FOUR_GATES}, build_rnn_plain_lstm},
    {"rnn", 3, {BY({2, 0}, {6, 0}), PLAIN({2, 0}, {6, 0}, {2, 0}), PLAIN({2, 0}, {6, 0})}, build_rnn_gru},
    {"rnn", 3, {FOUR_GATES, PLAIN({2, 0}, {8, 0})}, build_rnn_slstm},
    {"rnn", 2, {FOUR_GATES}, build_rnn_packed_slstm},
    {"rnn", 2, {BY({2, 0}, {9, 0}), PLAIN({2, 0}, {3, 0}, {3, 0})}, build_rnn_dgru},
    {"rnn", 2, {BY({2, 0}, {6, 0}), PLAIN({2, 0}, {5, 0}, {2, 0})}, build_rnn_dlstm},
    {"add", 2, {BY({4, 0}), BY({4, 0})}, build_add},
    {"mul", 2, {BY({4, 0}), BY({4, 0})}, build_mul},
    {"scale", 1, {BY({4, 0})}, build_scale},
    {"cast", 1, {BY({4, 0})}, build_cast},
    {"reshape", 1, {BY({6, 0})}, build_reshape},
    {"cross_entropy", 1, {BY({7, 0})}, build_cross_entropy},
    {"cross_entropy", 1, {BY({7, 0})}, build_smoothed},
    {"cross_entropy", 1, {BY({7, 0})}, build_squared},
    {"noise", 1, {BY({4, 0})}, build_noise},
    {"sum", 1, {BY({4, 0})}, build_sum},
    {"attention", 3, {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_capped_attention},
    {"attention", 3, {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {5, 0})}, build_attention},
    {"attention",
     4,
     {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0}), PLAIN({4, 0})},
     build_attention_with_sink},
#define STEP_CASE(code) \
    { "map", 2, {BY({4, 0}), BY({4, 0})}, build_##code }
    STEPS(STEP_CASE),
    {"map", 3, {BY({1, 0}, {3, 0}), PLAIN({4, 0}, {1, 0}), PLAIN({3, 0})}, build_broadcasts},
    {"map", 1, {BY()}, build_of_integers},
    {"map", 2, {BY({6, 0}), PLAIN({6, 0})}, build_norm},
    {"reduce", 1, {BY({3, 0}, {2, 0})}, build_reduce},
    {"reduce", 1, {BY({3, 0}, {2, 0})}, build_reduce_within},
    {"broadcast", 2, {PLAIN({3, 0}), BY({3, 0}, {2, 0})}, build_broadcast},
    {"permute", 2, {BY({2, 0}, {3, 0}, {4, 0}), BY({2, 0}, {4, 0}, {3, 0})}, build_permute},
    {"permute", 2, {BY({4, 0}), PLAIN({4, 0}, {3, 0})}, build_permuted_matrix},
    {"softmax", 1, {BY({2, 0}, {5, 0})}, build_softmax},
    {"reduce", 1, {BY({3, 0}, {2, 0})}, build_mean},
    {"reduce_max", 1, {BY({4, 0}, {3, 0})}, build_max},
    {"reduce_max", 1, {BY({2, 0}, {3, 0}, {2, 0})}, build_max_of_parts},
    {"reduce_max", 1, {BY({3, 0})}, build_shared_max},
    {"split", 1, {BY({5, 0}, {3, 0})}, build_split_within},
    {"split", 1, {BY({5, 0}, {2, 0})}, build_slices},
    {"join", 2, {BY({1, 0}, {2, 0}), BY({2, 0}, {2, 0})}, build_many_parts},
    {"take_along", 2, {BY({7, 0}), BY({3, 0})}, build_take},
    {"topk", 2, {BY({7, 0}), BY({7, 0})}, build_topk},
    {"contract", 2, {BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_of_tokens},
    {"contract", 2, {BY({2, 0}, {3, 0}), BY({3, 0}, {2, 0})}, build_of_heads},
    {"contract", 2, {BY({4, 0}, {3, 0}), BY({2, 0}, {4, 0})}, build_turned},
    {"contract", 2, {BY({2, 0}, {3, 0}), PLAIN({2, 0}, {3, 0}, {4, 0})}, build_by_head},
    {"contract", 2, {PLAIN({2, 0}, {4, 0}, {3, 0}), BY({3, 0}, {2, 0})}, build_by_head_turned},
    {"contract", 2, {BY({2, 0}, {3, 0}), PLAIN({2, 0}, {3, 0}, {4, 0})}, build_by_matrix},
    {"contract", 2, {PLAIN({4, 0}, {3, 0}, {2, 0}), BY({2, 0}, {3, 0})}, build_by_matrix_turned},
    {"contract", 2, {PLAIN({2, 0}, {3, 0}), PLAIN({3, 0}, {2, 0}, {4, 0})}, build_of_matrices},
    {"contract", 2, {PLAIN({2, 0}, {3, 0}, {4, 0}), PLAIN({2, 0}, {2, 0}, {4, 0})}, build_by_parameters},
};

const int n_op_cases = (int)LS_COUNT(op_cases);
