/*
 * Wrong calls of the public functions: NULL, tensors of another graph, unknown numbers of an enum, impossible
 * sizes. Each refuses with a status that says what is wrong, and none crashes. Arguments of steps and workers are
 * tested on a worker that runs.
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/cli.h"
#include "eval/eval.h"
#include "longspan/longspan.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void must_fail(ls_status status, ls_code code, const char *words) {
    if (status.code != code || strstr(status.text, words) == NULL)
        fail_msg("expected %s with \"%s\"; got %s \"%s\"", ls_code_name(code), words, ls_code_name(status.code),
                 status.text);
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

static void test_element_types(void **state) {
    (void)state;
    static const int wrong[] = {77, -1, LS_I32, LS_DTYPES, INT_MAX, INT_MIN};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        ls_graph *g = ls_graph_create((ls_dtype)wrong[i]);
        assert_non_null(g);
        assert_int_equal(ls_tokens(g, "tokens", 1, 4).id, 0);
        must_fail(ls_graph_status(g), LS_INVALID, "expected f32, f64 or bf16");
        ls_graph_destroy(g);
    }
}

/* Available to every case: a graph with a few tensors, and a tensor of another graph. */
typedef struct given {
    ls_graph *g;
    ls_tensor tokens, x, weight, q, foreign, forged;
    const ls_mask *mask;
} given;

static const int64_t matrix[] = {4, 4}, six[] = {1, 8, 2, 2, 1, 1}, four[] = {1, 8, 2, 2},
                     huge[] = {INT64_MAX, INT64_MAX, 2, 2}, thirds[] = {1, 1, 2};

static const ls_rope no_theta = {.theta = 0}, unknown_rope = {.theta = 1e4, .scaling = "spiral"};
static const ls_mask unknown_term = {.n = 1, .term = {{.kind = (ls_mask_kind)9}}}, many_terms = {.n = 1000000},
                     few_terms = {.n = -1}, no_ends = {.n = 1, .term = {{.kind = LS_MASK_DOCUMENTS, .n_ends = 3}}},
                     no_window = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = -4}}};

/* One mistake, and words that the graph's status must contain. */
typedef struct mistake {
    const char *words;
    void (*make)(const given *c);
    ls_code code;
} mistake;

static void split_nothing(const given *c) { ls_split(c->g, c->x, 3, NULL, (ls_tensor[3]){{0, 0}}); }
static void split_nowhere(const given *c) { ls_split(c->g, c->x, 3, thirds, NULL); }
static void split_foreign(const given *c) { ls_split(c->g, c->foreign, 3, thirds, (ls_tensor[3]){{0, 0}}); }

#define MISTAKE(name, call) \
    static void name(const given *c) { (void)(call); }
MISTAKE(named_nothing, ls_named(c->g, c->x, NULL))
MISTAKE(named_foreign, ls_named(c->g, c->foreign, "y"))
MISTAKE(named_twice, ls_named(c->g, c->weight, "other"))
MISTAKE(tokens_nameless, ls_tokens(c->g, NULL, 1, 4))
MISTAKE(tokens_of_none, ls_tokens(c->g, "t", 0, 4))
MISTAKE(tokens_too_many, ls_tokens(c->g, "t", INT64_MAX, INT64_MAX))
MISTAKE(like_nothing, ls_input_like(c->g, "l", LS_NO_TENSOR))
MISTAKE(like_foreign, ls_input_like(c->g, "l", c->foreign))
MISTAKE(like_forged, ls_input_like(c->g, "l", c->forged))
MISTAKE(like_nameless, ls_input_like(c->g, NULL, c->tokens))
MISTAKE(parameter_nameless, ls_parameter(c->g, NULL, 2, matrix))
MISTAKE(parameter_sizeless, ls_parameter(c->g, "p", 2, NULL))
MISTAKE(parameter_of_many, ls_parameter(c->g, "p", 99, matrix))
MISTAKE(parameter_of_none, ls_parameter(c->g, "p", -1, matrix))
MISTAKE(parameter_huge, ls_parameter(c->g, "p", 4, huge))
MISTAKE(parameter_twice, ls_parameter(c->g, "other", 2, matrix))
MISTAKE(parameter_formless, ls_parameter_named(c->g, 2, matrix, NULL))
MISTAKE(embedding_foreign, ls_embedding(c->g, c->tokens, c->foreign))
MISTAKE(embedding_of_reals, ls_embedding(c->g, c->x, c->weight))
MISTAKE(embedding_padding, ls_embedding_padded(c->g, c->tokens, c->weight, 1000))
MISTAKE(linear_foreign, ls_linear(c->g, c->foreign, c->weight, LS_NO_TENSOR))
MISTAKE(linear_foreign_bias, ls_linear(c->g, c->x, c->weight, c->foreign))
MISTAKE(linear_forged, ls_linear(c->g, c->x, c->forged, LS_NO_TENSOR))
MISTAKE(wide_of_ids, ls_linear_wide(c->g, c->tokens, c->weight))
MISTAKE(transposed_missing, ls_linear_transposed(c->g, c->x, LS_NO_TENSOR, LS_NO_TENSOR))
MISTAKE(rmsnorm_epsilon, ls_rmsnorm(c->g, c->x, ls_parameter(c->g, "n", 1, matrix), NAN))
MISTAKE(rmsnorm_offset, ls_rmsnorm_offset(c->g, c->x, ls_parameter(c->g, "n", 1, matrix), 1e-6, INFINITY))
MISTAKE(layernorm_epsilon, ls_layernorm(c->g, c->x, ls_parameter(c->g, "n", 1, matrix), LS_NO_TENSOR, -1))
MISTAKE(rope_nothing, ls_rope_table(c->g, c->tokens, 4, NULL))
MISTAKE(rope_theta, ls_rope_table(c->g, c->tokens, 4, &no_theta))
MISTAKE(rope_unknown, ls_rope_table(c->g, c->tokens, 4, &unknown_rope))
MISTAKE(rope_odd, ls_rope_table(c->g, c->tokens, 3, &(ls_rope){.theta = 1e4}))
MISTAKE(rope_huge, ls_rope_table(c->g, c->tokens, INT64_MAX - 1, &(ls_rope){.theta = 1e4}))
MISTAKE(rotate_foreign, ls_rotate(c->g, c->q, c->foreign))
MISTAKE(attention_maskless, ls_attention(c->g, c->q, c->q, c->q, NULL, 1))
MISTAKE(attention_scale, ls_attention(c->g, c->q, c->q, c->q, c->mask, NAN))
MISTAKE(attention_term, ls_attention(c->g, c->q, c->q, c->q, &unknown_term, 1))
MISTAKE(attention_many, ls_attention(c->g, c->q, c->q, c->q, &many_terms, 1))
MISTAKE(attention_few, ls_attention(c->g, c->q, c->q, c->q, &few_terms, 1))
MISTAKE(attention_ends, ls_attention(c->g, c->q, c->q, c->q, &no_ends, 1))
MISTAKE(attention_window, ls_attention(c->g, c->q, c->q, c->q, &no_window, 1))
MISTAKE(attention_cap, ls_attention_capped(c->g, c->q, c->q, c->q, c->mask, 1, -3))
MISTAKE(attention_sink, ls_attention_with_sink(c->g, c->q, c->q, c->q, c->foreign, c->mask, 1, 0))
MISTAKE(attention_foreign, ls_attention(c->g, c->q, c->foreign, c->q, c->mask, 1))
MISTAKE(lse_of_another, ls_attention_lse(c->g, c->x))
MISTAKE(lse_of_a_leaf, ls_attention_lse(c->g, c->tokens))
MISTAKE(lse_foreign, ls_attention_lse(c->g, c->foreign))
MISTAKE(swiglu_missing, ls_swiglu(c->g, c->x, LS_NO_TENSOR))
MISTAKE(gelu_foreign, ls_gelu(c->g, c->foreign))
MISTAKE(gelu_of_ids, ls_gelu_tanh(c->g, c->tokens))
MISTAKE(relu_missing, ls_relu(c->g, LS_NO_TENSOR))
MISTAKE(silu_forged, ls_silu(c->g, c->forged))
MISTAKE(softcap_nan, ls_softcap(c->g, c->x, NAN))
MISTAKE(add_foreign, ls_add(c->g, c->x, c->foreign))
MISTAKE(mul_shapes, ls_mul(c->g, c->x, c->weight))
MISTAKE(scale_nan, ls_scale(c->g, c->x, NAN))
MISTAKE(cast_77, ls_cast(c->g, c->x, (ls_dtype)77))
MISTAKE(cast_minus, ls_cast(c->g, c->x, (ls_dtype)-1))
MISTAKE(shift_weight, ls_shift(c->g, c->weight, INT64_MIN))
MISTAKE(conv_foreign, ls_conv(c->g, c->x, c->foreign))
MISTAKE(recurrence_gate, ls_recurrence(c->g, c->weight, c->x))
MISTAKE(reshape_sizeless, ls_reshape(c->g, c->x, 2, NULL))
MISTAKE(reshape_none, ls_reshape(c->g, c->x, 0, matrix))
MISTAKE(reshape_huge, ls_reshape(c->g, c->x, 4, huge))
MISTAKE(reshape_negative, ls_reshape(c->g, c->x, 2, (const int64_t[]){-8, -4}))
MISTAKE(split_last_foreign, ls_split_last(c->g, c->foreign, 2, 2))
MISTAKE(split_last_full, ls_split_last(c->g, ls_reshape(c->g, c->x, 6, six), 2, 1))
MISTAKE(split_last_huge, ls_split_last(c->g, c->x, INT64_MAX, INT64_MAX))
MISTAKE(merge_last_forged, ls_merge_last(c->g, c->forged))
MISTAKE(merge_last_vector, ls_merge_last(c->g, ls_parameter(c->g, "v", 1, matrix)))
MISTAKE(join_nothing, ls_join(c->g, 3, NULL))
MISTAKE(join_foreign, ls_join(c->g, 3, (const ls_tensor[]){c->x, c->foreign, c->x}))
MISTAKE(loss_foreign, ls_cross_entropy(c->g, c->x, c->foreign))
MISTAKE(sum_missing, ls_sum(c->g, LS_NO_TENSOR))
MISTAKE(sum_foreign, ls_sum(c->g, c->foreign))

static const mistake mistakes[] = {
    {"ls_named: the name is NULL", named_nothing, LS_INVALID},
    {"ls_named: the tensor is not one of this graph", named_foreign, LS_INVALID},
    {"\"other\" is declared twice", named_twice, LS_INVALID},
    {"ls_tokens: the name is NULL", tokens_nameless, LS_INVALID},
    {"dimension 0 is 0", tokens_of_none, LS_INVALID},
    {"expected at most 2^58", tokens_too_many, LS_INVALID},
    {"ls_input_like: the tensor is missing", like_nothing, LS_INVALID},
    {"ls_input_like: the tensor is not one of this graph", like_foreign, LS_INVALID},
    {"ls_input_like: the tensor is not one of this graph", like_forged, LS_INVALID},
    {"ls_input_like: the name is NULL", like_nameless, LS_INVALID},
    {"ls_parameter: the name is NULL", parameter_nameless, LS_INVALID},
    {"ls_parameter: the list of sizes is NULL", parameter_sizeless, LS_INVALID},
    {"99 dimensions", parameter_of_many, LS_INVALID},
    {"-1 dimensions", parameter_of_none, LS_INVALID},
    {"expected at most 2^58", parameter_huge, LS_INVALID},
    {"\"other\" is declared twice", parameter_twice, LS_INVALID},
    {"ls_parameter_named: the name is NULL", parameter_formless, LS_INVALID},
    {"op embedding: input 1 is no tensor of this graph", embedding_foreign, LS_INVALID},
    {"i32 ids", embedding_of_reals, LS_INVALID},
    {"padding id 1000", embedding_padding, LS_INVALID},
    {"op linear: input 0 is no tensor of this graph", linear_foreign, LS_INVALID},
    {"op linear: input 2 is no tensor of this graph", linear_foreign_bias, LS_INVALID},
    {"op linear: input 1 is no tensor of this graph", linear_forged, LS_INVALID},
    {"activations", wide_of_ids, LS_INVALID},
    {"input 1 is missing", transposed_missing, LS_INVALID},
    {"epsilon nan", rmsnorm_epsilon, LS_INVALID},
    {"offset inf", rmsnorm_offset, LS_INVALID},
    {"epsilon -1", layernorm_epsilon, LS_INVALID},
    {"the rope is NULL", rope_nothing, LS_INVALID},
    {"theta is 0", rope_theta, LS_INVALID},
    {"\"spiral\" is not known", rope_unknown, LS_UNSUPPORTED},
    {"head size 3", rope_odd, LS_INVALID},
    {"expected at most 2^58", rope_huge, LS_INVALID},
    {"op rotate: input 1 is no tensor of this graph", rotate_foreign, LS_INVALID},
    {"its mask is NULL", attention_maskless, LS_INVALID},
    {"scale is nan", attention_scale, LS_INVALID},
    {"mask term 0 is of kind 9", attention_term, LS_INVALID},
    {"a mask of 1000000 terms", attention_many, LS_INVALID},
    {"a mask of -1 terms", attention_few, LS_INVALID},
    {"there are no ends", attention_ends, LS_INVALID},
    {"window -4", attention_window, LS_INVALID},
    {"softcap is -3", attention_cap, LS_INVALID},
    {"input 3 is no tensor of this graph", attention_sink, LS_INVALID},
    {"input 1 is no tensor of this graph", attention_foreign, LS_INVALID},
    {"is no result of ls_attention", lse_of_another, LS_INVALID},
    {"is no result of ls_attention", lse_of_a_leaf, LS_INVALID},
    {"ls_attention_lse: the tensor is not one of this graph", lse_foreign, LS_INVALID},
    {"input 1 is missing", swiglu_missing, LS_INVALID},
    {"input 0 is no tensor of this graph", gelu_foreign, LS_INVALID},
    {"activations of type", gelu_of_ids, LS_INVALID},
    {"input 0 is missing", relu_missing, LS_INVALID},
    {"input 0 is no tensor of this graph", silu_forged, LS_INVALID},
    {"cap is nan", softcap_nan, LS_INVALID},
    {"input 1 is no tensor of this graph", add_foreign, LS_INVALID},
    {"the type and shape of", mul_shapes, LS_INVALID},
    {"the factor is nan", scale_nan, LS_INVALID},
    {"element type 77", cast_77, LS_INVALID},
    {"element type -1", cast_minus, LS_INVALID},
    {"the batch and the sequence first", shift_weight, LS_INVALID},
    {"input 1 is no tensor of this graph", conv_foreign, LS_INVALID},
    {"and its shape", recurrence_gate, LS_INVALID},
    {"the list of sizes is NULL", reshape_sizeless, LS_INVALID},
    {"0 dimensions", reshape_none, LS_INVALID},
    {"at least as many elements", reshape_huge, LS_INVALID},
    {"at least 1", reshape_negative, LS_INVALID},
    {"ls_split_last: the tensor is not one of this graph", split_last_foreign, LS_INVALID},
    {"7 dimensions", split_last_full, LS_INVALID},
    {"at least as many elements", split_last_huge, LS_INVALID},
    {"ls_merge_last: the tensor is not one of this graph", merge_last_forged, LS_INVALID},
    {"0 dimensions", merge_last_vector, LS_INVALID},
    {"its sizes are NULL", split_nothing, LS_INVALID},
    {"its parts are NULL", split_nowhere, LS_INVALID},
    {"input 0 is no tensor of this graph", split_foreign, LS_INVALID},
    {"its parts are NULL", join_nothing, LS_INVALID},
    {"input 1 is no tensor of this graph", join_foreign, LS_INVALID},
    {"input 1 is no tensor of this graph", loss_foreign, LS_INVALID},
    {"input 0 is missing", sum_missing, LS_INVALID},
    {"input 0 is no tensor of this graph", sum_foreign, LS_INVALID},
};

static given give(void) {
    given c = {.g = ls_graph_create(LS_F32)};
    c.tokens = ls_tokens(c.g, "tokens", 1, 8);
    c.weight = ls_parameter(c.g, "weight", 2, matrix);
    (void)ls_parameter(c.g, "other", 2, matrix);
    c.x = ls_embedding(c.g, c.tokens, c.weight);
    c.q = ls_reshape(c.g, c.x, 4, four);
    assert_int_equal(ls_graph_status(c.g).code, LS_OK);
    return c;
}

static void test_graph(void **state) {
    (void)state;
    const ls_mask causal = ls_mask_causal();
    given other = give();
    for (size_t i = 0; i < COUNT(mistakes); i++) {
        given c = give();
        c.mask = &causal;
        c.foreign = other.x; /* an id that this graph has too */
        c.forged = (ls_tensor){1 << 30, c.x.graph};
        mistakes[i].make(&c);
        must_fail(ls_graph_status(c.g), mistakes[i].code, mistakes[i].words);
        assert_int_equal(ls_add(c.g, c.x, c.x).id, 0); /* the first mistake is kept, and later calls do nothing */
        ls_graph_destroy(c.g);
        /* and without a graph at all */
        c.g = NULL;
        mistakes[i].make(&c);
    }
    ls_shape shape;
    must_fail(ls_graph_status(NULL), LS_INVALID, "ls_graph_status: graph is NULL");
    assert_null(ls_graph_parameter(NULL, 0, &shape));
    assert_null(ls_graph_parameter(other.g, -1, &shape));
    assert_null(ls_graph_parameter(other.g, 2, &shape));
    assert_string_equal(ls_graph_parameter(other.g, 0, NULL), "weight");
    ls_graph_destroy(other.g);
    ls_graph_destroy(NULL);
}

/* --- engines ------------------------------------------------------------------------------------------------------ */

static ls_status misuse_worker(ls_worker *w, const void *input, void *unused) {
    (void)input, (void)unused;
    static const int32_t ids[8] = {0, 1, 2, 3, 0, 1, 2, 9};
    static const double numbers[16];
    double out[16];
    ls_step_result result;
    ls_worker lost = {.ranks = 1};
    must_fail(ls_worker_set_input(w, NULL, ids), LS_INVALID, "ls_worker_set_input: name is NULL");
    must_fail(ls_worker_set_input(w, "tokens", NULL), LS_INVALID, "values is NULL");
    must_fail(ls_worker_set_input(w, "tokens", ids), LS_INVALID, "is 9 at row 0, column 7");
    must_fail(ls_worker_set_input(w, "nothing", ids), LS_USAGE, "expected one of \"tokens\"");
    must_fail(ls_worker_set_input(NULL, "tokens", ids), LS_INVALID, "no worker");
    must_fail(ls_worker_set_input(&lost, "tokens", ids), LS_INVALID, "no worker");
    must_fail(ls_worker_set_parameter(w, NULL, numbers), LS_INVALID, "name is NULL");
    must_fail(ls_worker_set_parameter(w, "weight", NULL), LS_INVALID, "values is NULL");
    must_fail(ls_worker_set_parameter(w, "wait", numbers), LS_USAGE, "no parameter \"wait\"");
    must_fail(ls_worker_set_parameter(NULL, "weight", numbers), LS_INVALID, "no worker");
    must_fail(ls_worker_set_random(w, NAN, 1), LS_INVALID, "deviation of nan");
    must_fail(ls_worker_set_random(NULL, 1, 1), LS_INVALID, "no worker");
    must_fail(ls_worker_step(w, NULL, &result), LS_INVALID, "step is NULL");
    must_fail(ls_worker_step(w, &(ls_step){.tokens = 8}, NULL), LS_INVALID, "result is NULL");
    must_fail(ls_worker_step(w, &(ls_step){.tokens = -8}, &result), LS_INVALID, "-8 tokens");
    must_fail(ls_worker_step(w, &(ls_step){.tokens = 8, .lr = NAN}, &result), LS_INVALID, "lr nan");
    must_fail(ls_worker_step(NULL, &(ls_step){.tokens = 8}, &result), LS_INVALID, "no worker");
    must_fail(ls_worker_evaluate(w, NULL, &result), LS_INVALID, "step is NULL");
    must_fail(ls_worker_evaluate(&lost, &(ls_step){.tokens = 8}, &result), LS_INVALID, "no worker");
    must_fail(ls_worker_get_parameter(w, NULL, out), LS_INVALID, "name is NULL");
    must_fail(ls_worker_get_parameter(NULL, "weight", out), LS_INVALID, "no worker");
    must_fail(ls_worker_get_gradient(w, NULL, out), LS_INVALID, "name is NULL");
    must_fail(ls_worker_get_gradient(NULL, "weight", out), LS_INVALID, "no worker");
    must_fail(ls_worker_get_tensor(w, NULL, out), LS_INVALID, "name is NULL");
    must_fail(ls_worker_get_tensor(NULL, "x", out), LS_INVALID, "no worker");
    must_fail(ls_worker_gather(w, NULL, 8, out), LS_INVALID, "mine is NULL");
    must_fail(ls_worker_gather(w, numbers, 8, NULL), LS_INVALID, "all is NULL");
    must_fail(ls_worker_gather(&lost, numbers, 8, out), LS_INVALID, "no worker");
    return ls_ok();
}

static void test_engine(void **state) {
    (void)state;
    given c = give(), other = give();
    const ls_tensor loss = ls_sum(c.g, ls_cross_entropy(c.g, c.x, c.tokens));
    const ls_spread one = {.ranks = 1, .as_threads = true};
    ls_engine *engine = NULL, *none = NULL;
    const struct {
        ls_engine_options options;
        ls_code code;
        const char *words;
    } cases[] = {
        {{.purpose = (ls_purpose)9}, LS_USAGE, "purpose 9"},
        {{.purpose = (ls_purpose)-1}, LS_USAGE, "purpose -1"},
        {{.micro_batches = INT64_MIN}, LS_USAGE, "micro-batches"},
        {{.beta1 = NAN}, LS_USAGE, "beta1"},
        {{.epsilon = -1}, LS_USAGE, "epsilon -1"},
        {{.weight_decay = INFINITY}, LS_USAGE, "weight decay inf"},
        {{.optimizer = "adam"}, LS_USAGE, "optimizer \"adam\" is not known; expected one of adamw, sgd, lion, muon"},
        {{.optimizer = "sgd", .momentum = 1}, LS_USAGE, "momentum is 1"},
        {{.optimizer = "sgd", .beta1 = 0.9}, LS_USAGE, "beta1: optimizer sgd does not have it"},
        {{.momentum = 0.9}, LS_USAGE, "momentum: optimizer adamw does not have it; expected only with sgd, muon"},
        {{.optimizer = "lion", .nesterov = true}, LS_USAGE, "nesterov: optimizer lion"},
        {{.n_read = 1}, LS_INVALID, "options.n_read is 1, but options.read is NULL"},
        {{.n_read = -1}, LS_INVALID, "options.n_read is -1"},
        {{.n_read = 1, .read = &other.x}, LS_INVALID, "not a tensor of this graph"},
        {{.n_read = 1, .read = &c.tokens}, LS_INVALID, "no op makes it"},
        {{.spread = {.ranks = -1}}, LS_USAGE, "-1 ranks"},
        {{.spread = {.threads = INT64_MAX}}, LS_USAGE, "--threads"},
        {{.spread = {.strategy = "x"}}, LS_USAGE, "\"x\" is not known"},
        {{.spread = {.mesh = "x"}}, LS_USAGE, "x"},
        {{.spread = {.layout = "x"}}, LS_USAGE, "x"},
        {{.spread = {.transfers = "x"}}, LS_USAGE, "x"},
        {{.spread = {.isa = "x"}}, LS_USAGE, "x"},
        {{.spread = {.memory = -1}}, LS_USAGE, "--memory -1"},
        {{.spread = {.recompute = "x"}}, LS_USAGE, "x"},
        {{.spread = {.tile = "x"}}, LS_USAGE, "x"},
        {{.spread = {.tile_rows = -1}}, LS_USAGE, "--tile-rows -1"},
        {{.spread = {.wait_timeout = NAN}}, LS_USAGE, "--wait-timeout nan"},
        {{.spread = {.wait_timeout = -1}}, LS_USAGE, "--wait-timeout -1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        given own = give();
        ls_engine_options options = cases[i].options;
        if (options.read == &c.tokens) options.read = &own.tokens;
        const ls_tensor sum = ls_sum(own.g, ls_cross_entropy(own.g, own.x, own.tokens));
        must_fail(ls_engine_open(own.g, sum, &options, &none), cases[i].code, cases[i].words);
        ls_graph_destroy(own.g);
    }
    must_fail(ls_engine_open(NULL, loss, NULL, &none), LS_INVALID, "ls_engine_open: graph is NULL");
    must_fail(ls_engine_open(c.g, loss, NULL, NULL), LS_INVALID, "ls_engine_open: out is NULL");
    must_fail(ls_engine_open(c.g, other.x, NULL, &none), LS_INVALID, "no tensor of this graph");
    assert_null(none);
    assert_int_equal(ls_engine_open(c.g, loss, &(ls_engine_options){.spread = one}, &engine).code, LS_OK);
    must_fail(ls_engine_run(NULL, misuse_worker, NULL, NULL, 0), LS_INVALID, "engine is NULL");
    must_fail(ls_engine_run(engine, NULL, NULL, NULL, 0), LS_INVALID, "work is NULL");
    must_fail(ls_engine_run(engine, misuse_worker, NULL, NULL, 8), LS_INVALID, "result is NULL");
    const ls_status ran = ls_engine_run(engine, misuse_worker, NULL, NULL, 0);
    if (ran.code != LS_OK) fail_msg("%s", ran.text);
    ls_engine_print(NULL, LS_PRINT_PLAN, stdout);
    ls_engine_print(engine, LS_PRINT_PLAN, NULL);
    assert_int_equal(ls_engine_describe(NULL).predicted_bytes, 0);
    ls_engine_close(engine);
    ls_engine_close(NULL);
    ls_graph_destroy(c.g);
    ls_graph_destroy(other.g);
}

/* --- attention alone ---------------------------------------------------------------------------------------------- */

static void test_attention(void **state) {
    (void)state;
    const ls_attention_options options = {.batch = 1, .seq = 8, .heads = 2, .kv_heads = 1, .head_size = 4};
    ls_attention_rank lost = {.ranks = 1};
    ls_shared_attention *attention = NULL;
    must_fail(ls_shared_attention_open(NULL, &attention), LS_INVALID, "options is NULL");
    must_fail(ls_shared_attention_open(&options, NULL), LS_INVALID, "out is NULL");
    must_fail(ls_shared_attention_run(NULL, NULL, NULL, NULL, 0), LS_INVALID, "attention is NULL");
    assert_int_equal(ls_shared_attention_open(&options, &attention).code, LS_OK);
    must_fail(ls_shared_attention_run(attention, NULL, NULL, NULL, 0), LS_INVALID, "work is NULL");
    ls_shared_attention_print(NULL, LS_PRINT_PLAN, stdout);
    ls_shared_attention_print(attention, LS_PRINT_PLAN, NULL);
    assert_int_equal(ls_shared_attention_describe(NULL).predicted_bytes, 0);
    ls_shared_attention_close(attention);
    ls_attention_rank *const ranks[] = {NULL, &lost};
    for (size_t i = 0; i < COUNT(ranks); i++) {
        must_fail(ls_attention_forward(ranks[i]), LS_INVALID, "no rank");
        must_fail(ls_attention_backward(ranks[i]), LS_INVALID, "no rank");
        must_fail(ls_attention_barrier(ranks[i], NULL), LS_INVALID, "no rank");
        must_fail(ls_attention_get(ranks[i], "o", &lost), LS_INVALID, "no rank");
        must_fail(ls_attention_gather(ranks[i], &lost, 1, &lost), LS_INVALID, "no rank");
    }
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

static void no_text(void *context, const char *bytes, size_t n) { (void)context, (void)bytes, (void)n; }

static void test_jobs(void **state) {
    (void)state;
    static const char *const holes[] = {"/nonexistent", NULL};
    ls_spread_result spread;
    ls_grad_result grad;
    ls_generate_result generated;
    ls_eval_result evaluated;
    ls_train_result trained;
    ls_recall_result *recalled = calloc(1, sizeof *recalled);
    ls_data_build_result built;
    FILE *out = tmpfile();
    assert_non_null(recalled);
    assert_non_null(out);

    must_fail(ls_run_attention(NULL, &spread), LS_INVALID, "job is NULL");
    must_fail(ls_run_attention(&(ls_attention_job){.q = "q"}, &spread), LS_INVALID, "job->k is NULL");
    must_fail(ls_run_attention(&(ls_attention_job){.q = "q", .k = "k", .v = "v"}, &spread), LS_INVALID,
              "job->mask is NULL");
    must_fail(ls_run_grad(NULL, &grad), LS_INVALID, "job is NULL");
    must_fail(ls_run_grad(&(ls_grad_job){.tokens = "t"}, &grad), LS_INVALID, "job->out is NULL");
    must_fail(ls_run_grad(&(ls_grad_job){.tokens = "t", .out = "o"}, &grad), LS_USAGE, "--model is missing");
    must_fail(ls_run_generate(NULL, &generated), LS_INVALID, "job is NULL");
    must_fail(ls_run_generate(&(ls_generate_job){.prompt = "p", .tokens = 1}, &generated), LS_INVALID,
              "job->text is NULL");
    must_fail(ls_run_generate(&(ls_generate_job){.prompt = "p", .tokens = 1, .text = no_text}, &generated), LS_USAGE,
              "--model");
    must_fail(ls_run_bench(NULL, out), LS_INVALID, "job is NULL");
    must_fail(ls_run_bench(&(ls_bench_job){.name = NULL}, out), LS_USAGE, "no bench is given");
    must_fail(ls_run_bench(&(ls_bench_job){.name = "gemm"}, NULL), LS_INVALID, "out is NULL");
    must_fail(ls_run_explain(NULL, out), LS_INVALID, "job is NULL");
    must_fail(ls_run_explain(&(ls_explain_job){.seq = 8}, out), LS_USAGE, "--model is missing");
    must_fail(ls_run_plan(NULL, out), LS_INVALID, "job is NULL");
    must_fail(ls_run_plan(&(ls_plan_job){.seq = 8}, out), LS_USAGE, "--model is missing");
    must_fail(ls_limit_isa("abacus"), LS_USAGE, "'abacus' is unknown");
    must_fail(ls_limit_transports(NULL), LS_INVALID, "names is NULL");
    must_fail(ls_limit_transports("pigeon"), LS_USAGE, "'pigeon': expected some of shm, tcp, mpi");
    must_fail(ls_checkpoint_print(NULL, false, out), LS_INVALID, "path is NULL");
    must_fail(ls_checkpoint_print("/nonexistent", false, NULL), LS_INVALID, "out is NULL");
    must_fail(ls_checkpoint_print_verdict(NULL, true, out), LS_INVALID, "path is NULL");
    must_fail(ls_run_export(NULL, false, out), LS_INVALID, "job is NULL");
    must_fail(ls_run_export(&(ls_export_job){.out = "o"}, false, out), LS_INVALID, "job->checkpoint is NULL");
    must_fail(ls_run_export(&(ls_export_job){.checkpoint = "c"}, false, out), LS_USAGE, "--out is missing");

    must_fail(ls_run_data_build(NULL, &built), LS_INVALID, "job is NULL");
    must_fail(ls_run_data_build(&(ls_data_build_job){.paths = holes, .n_paths = 2, .out = "o"}, &built), LS_INVALID,
              "is a list of 2 texts: one of them is NULL");
    must_fail(ls_run_data_build(&(ls_data_build_job){.n_paths = 3, .out = "o"}, &built), LS_INVALID,
              "is a list of 3 texts: it is NULL");
    must_fail(ls_run_data_build(&(ls_data_build_job){.n_paths = -3, .out = "o"}, &built), LS_USAGE, "no files given");
    must_fail(ls_run_data_inspect(NULL, out), LS_INVALID, "job is NULL");
    must_fail(ls_run_data_inspect(&(ls_data_inspect_job){.paths = holes, .n_paths = 2}, out), LS_INVALID,
              "one of them is NULL");
    must_fail(ls_run_tokenize(NULL, out), LS_INVALID, "job is NULL");
    must_fail(ls_run_tokenize(&(ls_tokenize_job){.n_paths = 2}, out), LS_INVALID, "it is NULL");
    must_fail(ls_run_tokenize(&(ls_tokenize_job){.text = "t"}, NULL), LS_INVALID, "out is NULL");

    must_fail(ls_evaluate(NULL, &evaluated), LS_INVALID, "options is NULL");
    must_fail(ls_evaluate(&(ls_eval_options){.n_data = 1}, &evaluated), LS_INVALID, "it is NULL");
    must_fail(ls_evaluate(&(ls_eval_options){.n_data = 1, .data = holes}, &evaluated), LS_USAGE, "--model");
    must_fail(ls_recall(NULL, recalled), LS_INVALID, "options is NULL");
    must_fail(ls_recall(&(ls_recall_options){.n_lengths = -1}, recalled), LS_USAGE, "-1 --lengths");
    must_fail(ls_recall(&(ls_recall_options){.n_lengths = 1000}, recalled), LS_USAGE, "1000 --lengths");
    must_fail(ls_recall(&(ls_recall_options){.n_data = 1}, recalled), LS_INVALID, "it is NULL");
    must_fail(ls_train(NULL, &trained), LS_INVALID, "options is NULL");
    must_fail(ls_train(&(ls_train_options){.n_data = 1}, &trained), LS_INVALID, "it is NULL");
    must_fail(ls_train(&(ls_train_options){.n_data = 1, .data = holes, .out = "o"}, &trained), LS_USAGE,
              "--model is missing");
    must_fail(ls_train(&(ls_train_options){.n_groups = 2}, &trained), LS_INVALID, "groups is a list of 2");
    fclose(out);
    free(recalled);
}

/* Numbers that overflow. */
static void test_job_sizes(void **state) {
    (void)state;
    static const char *const here[] = {"."};
    FILE *out = tmpfile();
    assert_non_null(out);
    must_fail(ls_run_bench(&(ls_bench_job){.name = "attention", .options = {.head_size = -1}}, out), LS_USAGE,
              "--head-size -1");
    must_fail(ls_run_bench(&(ls_bench_job){.name = "attention", .options = {.head_size = INT64_MAX}}, out), LS_USAGE,
              "--head-size 9223372036854775807");
    must_fail(ls_run_bench(&(ls_bench_job){.name = "gemm", .options = {.seq = (int64_t)1 << 40}}, out), LS_USAGE,
              "--seq 1099511627776; expected 1 to 16777216");
    must_fail(ls_run_plan(&(ls_plan_job){.model = "m", .seq = (int64_t)1 << 40}, out), LS_USAGE,
              "--seq 1099511627776 and --batch 1");
    must_fail(ls_run_explain(&(ls_explain_job){.model = "m", .seq = 8, .batch = (int64_t)1 << 40}, out), LS_USAGE,
              "--batch 1099511627776");
    must_fail(ls_run_data_inspect(&(ls_data_inspect_job){.paths = here, .n_paths = 1, .order = true, .from = -1}, out),
              LS_USAGE, "--from -1");
    fclose(out);
}

/* --- reports, options, words -------------------------------------------------------------------------------------- */

static void test_reports(void **state) {
    (void)state;
    char *page = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&page, &bytes);
    assert_non_null(out);
    must_fail(ls_about_get(NULL), LS_INVALID, "out is NULL");
    ls_recall_result *recalled = calloc(1, sizeof *recalled);
    assert_non_null(recalled);
    recalled->n_lengths = recalled->n_depths = INT_MAX;
    const ls_loss_table table = {.n = INT_MAX};
    ls_loss_table_print(&table, out);
    ls_recall_print(recalled, out);
    ls_recall_result_json(recalled, out);
    for (int nowhere = 0; nowhere < 2; nowhere++) {
        FILE *to = nowhere ? NULL : out;
        ls_about_json(NULL, to);
        ls_spread_result_json(NULL, to);
        ls_grad_result_json(NULL, to);
        ls_eval_result_json(NULL, to);
        ls_train_result_json(NULL, to);
        ls_generate_result_json(NULL, NULL, NULL, NULL, to);
        ls_named_texts_json(NULL, 3, to);
        ls_data_build_result_json(NULL, to);
        ls_loss_table_print(NULL, to);
        ls_recall_print(NULL, to);
        ls_recall_result_json(NULL, to);
    }
    ls_spread_result_json(&(ls_spread_result){.seconds = 1}, NULL);
    fclose(out);
    assert_int_equal(bytes, 0);
    free(page);
    free(recalled);

    out = open_memstream(&page, &bytes);
    assert_non_null(out);
    ls_generate_result_json(NULL, NULL, NULL, &(ls_generate_result){.tokens = 3}, out);
    ls_named_texts_json(&(ls_named_text){NULL, NULL}, 1, out);
    fclose(out);
    assert_non_null(strstr(page, "\"text\": null"));
    free(page);
}

static void test_options(void **state) {
    (void)state;
    struct {
        int64_t n;
    } into = {0};
    static char *const words[] = {(char *)(uintptr_t) "--n", NULL};
    const ls_option row = {"n", LS_OPTION_INT, "N", NULL, NULL, 0, 0, false, 0, "a number"};
    const struct {
        ls_option row;
        const char *words;
        ls_code code;
    } cases[] = {
        {{.name = NULL}, "row 0 of the options has no name", LS_INVALID},
        {{.name = "n", .type = (ls_option_type)50, .metavar = "N"}, "type 50", LS_INVALID},
        {{.name = "n", .type = LS_OPTION_CHOICE, .metavar = "N"}, "no choices", LS_INVALID},
        {{.name = "n", .type = LS_OPTION_INT}, "no metavar", LS_INVALID},
        {{.name = "n", .type = LS_OPTION_INT, .metavar = "N", .initial = "many"}, "'many'", LS_USAGE},
        {{.name = "n", .type = LS_OPTION_FLAG, .initial = "yes"}, "has a default", LS_INVALID},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        must_fail(ls_options_parse(&cases[i].row, 1, 0, NULL, &into, NULL), cases[i].code, cases[i].words);
    must_fail(ls_options_parse(NULL, 1, 0, NULL, &into, NULL), LS_INVALID, "table is NULL");
    must_fail(ls_options_parse(&row, 97, 0, NULL, &into, NULL), LS_INVALID, "a table of 97 options");
    must_fail(ls_options_parse(&row, -1, 0, NULL, &into, NULL), LS_INVALID, "a table of -1 options");
    must_fail(ls_options_parse(&row, 1, 0, NULL, NULL, NULL), LS_INVALID, "target is NULL");
    must_fail(ls_options_parse(&row, 1, 2, words, &into, NULL), LS_INVALID, "a word of argv is NULL");
    must_fail(ls_options_parse(&row, 1, -1, words, &into, NULL), LS_INVALID, "-1 words");
    must_fail(ls_options_parse(&row, 1, 1, NULL, &into, NULL), LS_INVALID, "a word of argv is NULL");
    ls_options_help(NULL, 3, stdout);
    ls_options_help(&row, 1, NULL);
    assert_int_equal(ls_edit_distance(NULL, 3, "abc"), ls_edit_distance("abc", 3, NULL));
}

static void test_words(void **state) {
    (void)state;
    char text[LS_SECONDS_TEXT];
    static const double odd[] = {-1, -1e300, 0, NAN, INFINITY, -INFINITY, 1e300};
    for (size_t i = 0; i < COUNT(odd); i++) {
        assert_ptr_equal(ls_seconds_text(odd[i], text), text);
        assert_ptr_equal(ls_bytes_text(odd[i], text), text);
    }
    assert_null(ls_seconds_text(1, NULL));
    assert_null(ls_bytes_text(1, NULL));
    assert_string_equal(ls_code_name((ls_code)77), "unknown");
    assert_string_equal(ls_code_name((ls_code)-1), "unknown");
    ls_status (*say)(ls_code code, const char *format, ...) = ls_error; /* the compiler knows nothing of its format */
    ls_status (*say_in)(ls_status inner, const char *format, ...) = ls_error_in;
    assert_string_equal(say(LS_IO, NULL).text, "");
    assert_string_equal(say_in(ls_error(LS_IO, "inner"), NULL).text, ": inner");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_element_types), cmocka_unit_test(test_graph),   cmocka_unit_test(test_engine),
        cmocka_unit_test(test_attention),     cmocka_unit_test(test_jobs),    cmocka_unit_test(test_job_sizes),
        cmocka_unit_test(test_reports),       cmocka_unit_test(test_options), cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
