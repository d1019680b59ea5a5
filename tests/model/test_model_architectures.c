/*
 * config.json of each architecture: the meaning of its own fields, refused fields, and rotary positions set by
 * options.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "model/model.h"
#include "support/scratch.h"
#include "tensor/tensor.h"

#include <math.h>

#define DECODER(type, name, rest)                                                                                 \
    "{\"architectures\": [\"" name "\"], \"model_type\": \"" type "\", \"vocab_size\": 32, \"hidden_size\": 24, " \
    "\"intermediate_size\": 20, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"head_dim\": 6, "          \
    "\"num_key_value_heads\": 4, "                                                                                \
    "\"max_position_embeddings\": 64" rest "}"
#define LLAMA(rest) DECODER("llama", "LlamaForCausalLM", rest)
#define MISTRAL(rest) DECODER("mistral", "MistralForCausalLM", rest)
#define QWEN2(rest) DECODER("qwen2", "Qwen2ForCausalLM", rest)
#define QWEN3(rest) DECODER("qwen3", "Qwen3ForCausalLM", rest)
#define GEMMA2(rest) DECODER("gemma2", "Gemma2ForCausalLM", rest)
#define GEMMA3(rest) DECODER("gemma3_text", "Gemma3ForCausalLM", rest)
#define PHI3(rest) DECODER("phi3", "Phi3ForCausalLM", ", \"pad_token_id\": null" rest)
#define SMALL(type, name, rest) DECODER(type, name, ", \"pad_token_id\": null" rest)
#define OLMO3(rest) SMALL("olmo3", "Olmo3ForCausalLM", rest)
#define SMOLLM3(rest) SMALL("smollm3", "SmolLM3ForCausalLM", rest)
#define MINISTRAL3(rest) SMALL("ministral3", "Ministral3ForCausalLM", rest)
#define GLM4(rest) SMALL("glm4", "Glm4ForCausalLM", rest)
#define COHERE2(rest) SMALL("cohere2", "Cohere2ForCausalLM", rest)
#define STARCODER2(rest) SMALL("starcoder2", "Starcoder2ForCausalLM", rest)
#define LONGROPE(type, rest) \
    "{\"" type "\": \"longrope\", \"short_factor\": [1, 2, 3], \"long_factor\": [4, 5, 6]" rest "}"
#define WRAPPED(type, inner, rest) \
    "{\"architectures\": [\"" type "\"], \"model_type\": \"" inner "\", \"text_config\": {" rest "}}"
#define GPT2(rest)                                                                                                   \
    "{\"architectures\": [\"GPT2LMHeadModel\"], \"vocab_size\": 32, \"n_embd\": 24, \"n_head\": 4, \"n_layer\": 2, " \
    "\"n_positions\": 16" rest "}"

/* --- masks -------------------------------------------------------------------------------------------------------- */

/* The windows of the layers of a model at a sequence of 12: "5.5." for 5, none, 5, none. */
static void masks_of(const char *config, char out[8]) {
    ls_model *model;
    ls_language_model lm;
    ls_graph *g = ls_graph_create(LS_F32);
    int n = 0;
    assert_ok(ls_model_open_text("config.json", config, &model));
    assert_ok(ls_model_build(model, g, 1, 12, false, &lm));
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_mask *mask = ls_node_mask(&g->nodes[i]);
        if (mask == NULL) continue;
        assert_int_equal(mask->n, 1);
        const bool window = mask->term[0].kind == LS_MASK_WINDOW;
        if (!window) assert_int_equal(mask->term[0].kind, LS_MASK_CAUSAL);
        out[n++] = window ? (char)('0' + mask->term[0].window) : '.';
    }
    out[n] = 0;
    ls_graph_destroy(g);
    ls_model_close(model);
}

static void test_windows(void **state) {
    (void)state;
    static const struct {
        const char *config, *masks;
    } cases[] = {
        {LLAMA(""), "...."},
        {MISTRAL(", \"sliding_window\": 5"), "5555"},
        {MISTRAL(", \"sliding_window\": null"), "...."},
        {MISTRAL(""), "...."}, /* 4096 is longer than the sequence */
        {MISTRAL(", \"sliding_window\": 12"), "...."},
        {QWEN2(", \"sliding_window\": 5, \"max_window_layers\": 1"), "...."},
        {QWEN2(", \"use_sliding_window\": true, \"sliding_window\": 5, \"max_window_layers\": 1"), ".555"},
        {QWEN2(", \"use_sliding_window\": true, \"sliding_window\": 5"), "...."},
        {QWEN3(", \"use_sliding_window\": true, \"sliding_window\": 5, \"layer_types\": [\"full_attention\", "
               "\"sliding_attention\", \"full_attention\", \"sliding_attention\"]"),
         ".5.5"},
        {GEMMA2(", \"sliding_window\": 5"), "5.5."},
        {GEMMA2(", \"sliding_window\": null"), "...."},
        {GEMMA3(", \"sliding_window\": 5, \"sliding_window_pattern\": 3"), "55.5"},
        {GEMMA3(", \"sliding_window\": 5"), "5555"}, /* the sixth has none */
        {PHI3(", \"sliding_window\": 5"), "5555"},
        {PHI3(""), "...."},
        {OLMO3(", \"sliding_window\": 5"), "555."},
        {SMOLLM3(", \"sliding_window\": 5"), "...."},
        {SMOLLM3(", \"use_sliding_window\": true, \"sliding_window\": 5"), "...5"},
        {SMOLLM3(", \"use_sliding_window\": true, \"sliding_window\": 5, \"no_rope_layers\": [0, 1, 0, 1, 0]"), "5.5."},
        {MINISTRAL3(", \"sliding_window\": 5"), "5555"},
        {GLM4(", \"partial_rotary_factor\": 1, \"sliding_window\": 5"), "...."},
        {COHERE2(", \"sliding_window\": 5"), "555."},
        {COHERE2(", \"sliding_window\": 5, \"sliding_window_pattern\": 2"), "5.5."},
        {STARCODER2(", \"sliding_window\": 5"), "5555"},
        {GPT2(""), ".."},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        char masks[8];
        masks_of(cases[i].config, masks);
        assert_string_equal(masks, cases[i].masks);
    }
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *config;
    ls_code code;
    const char *found, *expected;
} refused[] = {
    {MISTRAL(", \"layer_types\": []"), LS_UNSUPPORTED, "layer_types is an array of 0", "left out"},
    {MISTRAL(", \"sliding_window\": 0"), LS_INVALID, "sliding_window is 0", "from 1"},
    {QWEN3(", \"layer_types\": [\"full_attention\"]"), LS_INVALID, "layer_types is an array of 1",
     "each of the 4 layers"},
    {QWEN3(", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\", "
           "\"full_attention\"]"),
     LS_UNSUPPORTED, "layer_types[1] is \"sliding_attention\"", "sliding_window to be given"},
    {QWEN3(", \"layer_types\": [\"linear_attention\", \"full_attention\", \"full_attention\", "
           "\"full_attention\"]"),
     LS_UNSUPPORTED, "layer_types[0] is \"linear_attention\"", "\"full_attention\""},
    {QWEN2(", \"use_sliding_window\": 1"), LS_INVALID, "use_sliding_window is 1", "true or false"},
    {GEMMA2(", \"use_bidirectional_attention\": true"), LS_UNSUPPORTED, "use_bidirectional_attention is true",
     "causal"},
    {GEMMA2(", \"hidden_activation\": \"mish\""), LS_UNSUPPORTED, "hidden_activation is \"mish\"", "gelu"},
    {GEMMA2(", \"attn_logit_softcapping\": -1"), LS_INVALID, "attn_logit_softcapping is -1", "number from"},
    {GEMMA2(", \"query_pre_attn_scalar\": 0"), LS_INVALID, "query_pre_attn_scalar is 0", "number from"},
    {GEMMA3(", \"attn_logit_softcapping\": 50"), LS_UNSUPPORTED, "attn_logit_softcapping is 50", "null"},
    {GEMMA3(", \"rope_parameters\": {\"rope_type\": \"default\"}"), LS_INVALID, "rope_parameters.rope_type is",
     "one for \"sliding_attention\""},
    {GEMMA3(
         ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"yarn\", \"factor\": 2, \"truncate\": false}}"),
     LS_INVALID, "rope_parameters.full_attention.truncate is false", "to be left out"},
    {GEMMA3(", \"rope_parameters\": {\"sliding_attention\": {\"mrope\": 1}}"), LS_UNSUPPORTED,
     "rope_parameters.sliding_attention.mrope is 1", "left out"},
    {GEMMA3(", \"sliding_window_pattern\": 2, \"layer_types\": [\"full_attention\", \"full_attention\", "
            "\"full_attention\", \"full_attention\"]"),
     LS_INVALID, "sliding_window_pattern is 2", "layer_types says otherwise"},
    {PHI3(", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}"), LS_INVALID, "rope_scaling.type is \"linear\"",
     "\"longrope\""},
    {PHI3(", \"rope_parameters\": " LONGROPE("rope_type", ", \"original_max_position_embeddings\": 16")), LS_INVALID,
     "rope_parameters.original_max_position_embeddings is 16", "beside max_position_embeddings too"},
    {PHI3(", \"partial_rotary_factor\": 0.5"), LS_INVALID, "partial_rotary_factor is 0.5", "even number of the 6"},
    {DECODER("phi3", "Phi3ForCausalLM", ""), LS_INVALID, "pad_token_id is missing", "below vocab_size 32"},
    {OLMO3(", \"rope_theta\": 10000"), LS_INVALID, "rope_theta is 10000", "500000, or rope_parameters"},
    {SMOLLM3(", \"no_rope_layers\": [1, 0, 1]"), LS_INVALID, "no_rope_layers is an array of 3", "of the 4 layers"},
    {SMOLLM3(", \"no_rope_layers\": [1, 0, 1, 2]"), LS_INVALID, "no_rope_layers[3] is 2", "from 0 to 1"},
    {SMOLLM3(", \"no_rope_layer_interval\": 0"), LS_INVALID, "no_rope_layer_interval is 0", "from 1"},
    {SMOLLM3(", \"attention_dropout\": 0.1"), LS_UNSUPPORTED, "attention_dropout is 0.1", "not supported"},
    {SMALL("granite", "GraniteForCausalLM", ", \"residual_multiplier\": 0"), LS_INVALID, "residual_multiplier is 0",
     "number from"},
    {MINISTRAL3(", \"rope_parameters\": {\"rope_type\": \"default\", \"llama_4_scaling_beta\": 0.1}"), LS_INVALID,
     "rope_parameters is an object", "original_max_position_embeddings in it"},
    {MINISTRAL3(", \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2}"), LS_INVALID,
     "llama_4_scaling_beta is missing", "a number"},
    {LLAMA(", \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, \"llama_4_scaling_beta\": 0.1}"),
     LS_UNSUPPORTED, "llama_4_scaling_beta is 0.1", "left out"},
    {GLM4(""), LS_INVALID, "partial_rotary_factor is missing", "even number of the 6"},
    {COHERE2(", \"sliding_window\": null"), LS_INVALID, "sliding_window is null", "layers with a window rotate"},
    {COHERE2(", \"use_parallel_block\": false"), LS_UNSUPPORTED, "use_parallel_block is false", "true"},
    {COHERE2(", \"rotary_pct\": 0.5"), LS_UNSUPPORTED, "rotary_pct is 0.5", "1"},
    {"{\"model_type\": \"nemotron_h\", \"layers_block_type\": [\"mlp\", \"moe\"]}", LS_UNSUPPORTED,
     "layers_block_type[1] is \"moe\"", "layers linear_attention (M)"},
    {"{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M*E\"}", LS_UNSUPPORTED,
     "hybrid_override_pattern is \"M*E\"", "layers linear_attention (M)"},
    {"{\"model_type\": \"nemotron_h\"}", LS_INVALID, "hybrid_override_pattern is missing", "text"},
    {"{\"model_type\": \"mamba2\", \"num_heads\": 5}", LS_INVALID, "num_heads is 5", "8192 elements wide"},
    {"{\"model_type\": \"mamba2\", \"n_groups\": 5}", LS_INVALID, "n_groups is 5", "a divisor of the num_heads 128"},
    {"{\"model_type\": \"mamba2\", \"time_step_limit\": [0.1]}", LS_INVALID, "time_step_limit is an array of 1",
     "the least and the largest step"},
    {"{\"model_type\": \"mamba2\", \"time_step_limit\": [0, {\"__float__\": \"-Infinity\"}]}", LS_INVALID,
     "time_step_limit[1] is an object", "a number of at least 0"},
    {"{\"model_type\": \"mamba2\", \"time_step_limit\": [0, NaN]}", LS_INVALID, "time_step_limit[1] is NaN",
     "a number of at least 0"},
    {"{\"model_type\": \"nemotron_h\", \"mamba_n_groups\": 5}", LS_INVALID, "mamba_n_groups is 5",
     "a divisor of the mamba_num_heads 128"},
    {"{\"model_type\": \"nemotron_h\", \"layer_types\": [\"moe\"]}", LS_UNSUPPORTED, "layer_types[0] is \"moe\"",
     "layers linear_attention (M)"},
    {"{\"model_type\": \"mamba2\", \"hidden_act\": \"gelu\"}", LS_UNSUPPORTED, "hidden_act is \"gelu\"",
     "expected \"silu\""},
    {"{\"model_type\": \"nemotron_h\", \"mamba_hidden_act\": \"relu\"}", LS_UNSUPPORTED, "mamba_hidden_act is \"relu\"",
     "expected \"silu\""},
    {DECODER("qwen3_5_text", "Qwen3_5ForCausalLM",
             ", \"partial_rotary_factor\": 1, \"linear_num_value_heads\": 32, \"hidden_act\": \"gelu\""),
     LS_UNSUPPORTED, "hidden_act is \"gelu\"", "expected \"silu\""},
    {DECODER("qwen3_5_text", "Qwen3_5ForCausalLM", ", \"partial_rotary_factor\": 1, \"linear_num_value_heads\": 24"),
     LS_INVALID, "linear_num_value_heads is 24", "a multiple of the 16"},
    {DECODER("qwen3_5_text", "Qwen3_5ForCausalLM",
             ", \"partial_rotary_factor\": 1, \"layer_types\": [\"mamba\", \"mamba\", \"mamba\", \"mamba\"]"),
     LS_UNSUPPORTED, "layer_types[0] is \"mamba\"", "\"linear_attention\" or"},
    {STARCODER2(", \"use_bias\": 1"), LS_INVALID, "use_bias is 1", "true or false"},
    {WRAPPED("Mistral3ForConditionalGeneration", "mistral3", "\"model_type\": \"qwen9\""), LS_UNSUPPORTED,
     "model_type is \"qwen9\"", "mistral"},
    {WRAPPED("Gemma2ForCausalLM", "gemma3", ""), LS_INVALID, "architectures[0] is \"Gemma2ForCausalLM\"",
     "\"Gemma3ForConditionalGeneration\", as model_type says"},
    {WRAPPED("Gemma3ForConditionalGeneration", "gemma3", "\"model_type\": \"mamba\""), LS_UNSUPPORTED,
     "model_type is \"mamba\"", "gemma3_text"},
    {WRAPPED("Gemma3ForConditionalGeneration", "gemma3", "\"final_logit_softcapping\": 3"), LS_UNSUPPORTED,
     "final_logit_softcapping is 3", "null"},
    {WRAPPED("Gemma3ForConditionalGeneration", "gemma3", "\"head_dim\": 5"), LS_INVALID, "head_dim is 5", "even"},
    {GPT2(", \"n_head\": 4, \"add_cross_attention\": true"), LS_INVALID, "not valid JSON", "duplicate"},
    {GPT2(", \"add_cross_attention\": true"), LS_UNSUPPORTED, "add_cross_attention is true", "encoder"},
    {GPT2(", \"activation_function\": \"tanh\""), LS_UNSUPPORTED, "activation_function is \"tanh\"", "gelu_new"},
    {GPT2(", \"n_inner\": 0"), LS_INVALID, "n_inner is 0", "from 1"},
    {GPT2(", \"hidden_size\": 25"), LS_INVALID, "n_head is 4", "a divisor of n_embd 25"},
    {GPT2(", \"is_causal\": false"), LS_UNSUPPORTED, "is_causal is false", "attention is causal"},
    {QWEN3(", \"is_causal\": false"), LS_UNSUPPORTED, "is_causal is false", "attention is causal"},
    {LLAMA(", \"per_layer_config\": {\"1\": {}}"), LS_UNSUPPORTED, "per_layer_config is an object", "layers are alike"},
    {"{\"architectures\": [\"LlamaForCausalLM\"], \"text_config\": {\"vocab_size\": 32}}", LS_INVALID,
     "vocab_size is missing", "an integer"},
};

static void test_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(refused); i++) {
        ls_model *model = NULL;
        const ls_status status = ls_model_open_text("config.json", refused[i].config, &model);
        assert_error(status, refused[i].code, refused[i].found, refused[i].expected);
        assert_error(status, refused[i].code, "config.json", "");
        assert_null(model);
    }
}

/* Fields that are missing, null or called by another name. */
static void test_sizes(void **state) {
    (void)state;
#define BARE(type, heads, rest)                                                                            \
    "{\"model_type\": \"" type "\", \"vocab_size\": 32, \"hidden_size\": 512, \"intermediate_size\": 20, " \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": " heads rest "}"
    static const struct {
        const char *config;
        ls_model_sizes want;
    } cases[] = {
        {BARE("llama", "64", ""), {.Hkv = 64, .D = 8, .longest = 2048}},
        {BARE("llama", "64", ", \"num_key_value_heads\": null, \"head_dim\": null"),
         {.Hkv = 64, .D = 8, .longest = 2048}},
        {BARE("mistral", "64", ""), {.Hkv = 8, .D = 8, .longest = 131072}},
        {BARE("mistral", "64", ", \"num_key_value_heads\": null"), {.Hkv = 64, .D = 8, .longest = 131072}},
        {BARE("qwen2", "64", ""), {.Hkv = 32, .D = 8, .longest = 32768}},
        {BARE("qwen3", "64", ""), {.Hkv = 32, .D = 128, .longest = 32768}},
        {BARE("gemma3_text", "64", ""), {.Hkv = 4, .D = 256, .longest = 131072, .tied = true}},
        {WRAPPED("Gemma3ForConditionalGeneration", "gemma3", ""),
         {.Hkv = 4, .D = 256, .longest = 131072, .tied = true}},
        {WRAPPED("Gemma3ForConditionalGeneration", "gemma3",
                 "\"num_key_value_heads\": 8, \"head_dim\": 64}, \"tie_word_embeddings\": false, \"vision_config\": {"),
         {.Hkv = 8, .D = 64, .longest = 131072}},
        {BARE("olmo2", "64", ""), {.Hkv = 64, .D = 8, .longest = 2048}},
        {BARE("granite", "64", ""), {.Hkv = 64, .D = 8, .longest = 2048}},
        {BARE("ministral3", "64", ""), {.Hkv = 8, .D = 128, .longest = 262144}},
        {BARE("glm4", "64", ", \"pad_token_id\": null"), {.Hkv = 2, .D = 128, .longest = 131072}},
        {BARE("cohere2", "64", ""), {.Hkv = 64, .D = 8, .longest = 8192, .tied = true}},
        {BARE("seed_oss", "64", ""), {.Hkv = 8, .D = 128, .longest = 524288}},
        {BARE("qwen3_5_text", "64", ""), {.Hkv = 4, .D = 256, .longest = 32768}},
        {WRAPPED("Qwen3_5ForConditionalGeneration", "qwen3_5", ""), {.Hkv = 4, .D = 256, .longest = 32768}},
        {WRAPPED("Qwen3_5ForConditionalGeneration", "qwen3_5", "\"tie_word_embeddings\": true"),
         {.Hkv = 4, .D = 256, .longest = 32768}},
        {WRAPPED("Qwen3_5ForConditionalGeneration", "qwen3_5",
                 "\"tie_word_embeddings\": false}, \"tie_word_embeddings\": true, \"vision_config\": {"),
         {.Hkv = 4, .D = 256, .longest = 32768, .tied = true}},
        {WRAPPED("Gemma3ForConditionalGeneration", "gemma3", "\"tie_word_embeddings\": false"),
         {.Hkv = 4, .D = 256, .longest = 131072, .tied = true}},
        {BARE("smollm3", "64", ", \"pad_token_id\": null"), {.Hkv = 4, .D = 8, .longest = 32768, .tied = true}},
        {WRAPPED("Mistral3ForConditionalGeneration", "mistral3",
                 "\"vocab_size\": 32, \"hidden_size\": 512, \"intermediate_size\": 20, \"num_hidden_layers\": 1, "
                 "\"num_attention_heads\": 64, \"model_type\": \"ministral3\""),
         {.Hkv = 8, .D = 128, .longest = 262144}},
        {BARE("gemma2", "64", ""), {.Hkv = 4, .D = 256, .longest = 8192, .tied = true}},
        {GPT2(", \"hidden_size\": 40, \"num_attention_heads\": 5, \"num_hidden_layers\": 3, "
              "\"max_position_embeddings\": 7"),
         {.Hkv = 5, .D = 8, .longest = 7, .tied = true}},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_model *model;
        assert_ok(ls_model_open_text("config.json", cases[i].config, &model));
        const ls_model_sizes n = ls_model_describe(model), *want = &cases[i].want;
        assert_int_equal(n.Hkv, want->Hkv);
        assert_int_equal(n.D, want->D);
        assert_int_equal(n.longest, want->longest);
        assert_int_equal(n.tied, want->tied);
        assert_true(n.initializer_range == 0.02);
        ls_model_close(model);
    }
}

/* What a model with states is after its config was read: its parameters, and the limits of a token's step size. */
typedef struct state_space {
    int64_t parameters;
    double least, most;
} state_space;

static state_space read_state_space(const char *config) {
    state_space found = {0};
    ls_model *model;
    ls_language_model lm;
    assert_ok(ls_model_open_text("config.json", config, &model));
    ls_graph *g = ls_graph_create(LS_F32);
    assert_ok(ls_model_build(model, g, 1, 4, false, &lm));
    found.parameters = ls_model_parameters(model);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const ls_map_params *map = g->nodes[i].params;
        /* ls_layer_step: the limits are the numbers of its steps 8 and 10 */
        if (g->nodes[i].op != &ls_op_map || map->n_in != 3 || map->n_results != 2 || map->n_steps != 15) continue;
        found.least = map->step[8].number;
        found.most = map->step[10].number;
    }
    ls_graph_destroy(g);
    ls_model_close(model);
    return found;
}

/* Limits of a step size, and earlier names of fields, which the library reads before the later ones. */
static void test_state_spaces(void **state) {
    (void)state;
#define STATES(type, rest) "{\"model_type\": \"" type "\", \"vocab_size\": 32, \"hidden_size\": 24" rest "}"
#define MAMBA2(rest) \
    STATES("mamba2", ", \"num_hidden_layers\": 1, \"num_heads\": 6, \"head_dim\": 8, \"n_groups\": 2" rest)
#define NEMOTRON_H(rest) STATES("nemotron_h", ", \"mamba_num_heads\": 6, \"mamba_head_dim\": 8" rest)
#define MIXERS "\"linear_attention\", \"mlp\""
    static const struct {
        const char *config, *same;
        double least, most;
    } cases[] = {
        {MAMBA2(", \"time_step_limit\": [0.25, Infinity]"), MAMBA2(""), 0.25, INFINITY},
        {MAMBA2(", \"time_step_limit\": [0.25, {\"__float__\": \"Infinity\"}]"), MAMBA2(""), 0.25, INFINITY},
        {MAMBA2(", \"time_step_limit\": [0.25, 0.5]"), MAMBA2(""), 0.25, 0.5},
        {NEMOTRON_H(", \"layer_types\": [" MIXERS
                    "], \"layers_block_type\": [\"mlp\"], \"mamba_n_groups\": 3, \"n_groups\": 2, "
                    "\"mamba_d_conv\": 3, \"mamba_conv_bias\": false, \"mamba_dt_min\": 0.75, \"time_step_min\": 0.5"),
         NEMOTRON_H(", \"layers_block_type\": [" MIXERS
                    "], \"n_groups\": 3, \"conv_kernel\": 3, \"use_conv_bias\": false"),
         0.75, INFINITY},
        {NEMOTRON_H(", \"n_groups\": 2, \"attention_bias\": true, \"layers_block_type\": [\"full_attention\", " MIXERS
                    "]"),
         NEMOTRON_H(", \"n_groups\": 2, \"layers_block_type\": [\"full_attention\", " MIXERS "]"), 0.001, INFINITY},
        {STATES("mamba2", ", \"num_hidden_layers\": 1, \"num_heads\": 6, \"head_dim\": 12, \"expand\": 3"
                          ", \"time_step_limit\": [0.25, 0.5], \"n_groups\": 2"),
         STATES("nemotron_h", ", \"layers_block_type\": [\"linear_attention\"], \"mamba_num_heads\": 6"
                              ", \"mamba_head_dim\": 12, \"n_groups\": 2"),
         0.25, 0.5},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const state_space found = read_state_space(cases[i].config), same = read_state_space(cases[i].same);
        assert_int_equal(found.parameters, same.parameters);
        assert_true(found.least == cases[i].least && found.most == cases[i].most);
    }
}

/* Only layers with a convolution need the neighbours of a token. */
static void test_layers_without_states(void **state) {
    (void)state;
    static const struct {
        const char *config;
        bool shifts;
    } cases[] = {
        {NEMOTRON_H(", \"n_groups\": 2, \"layers_block_type\": [\"full_attention\", \"mlp\"]"), false},
        {NEMOTRON_H(", \"n_groups\": 2, \"layers_block_type\": [\"full_attention\", " MIXERS "]"), true},
        {BARE("qwen3_5_text", "64", ", \"layer_types\": [\"full_attention\"]"), false},
        {BARE("qwen3_5_text", "64", ", \"layer_types\": [\"linear_attention\"]"), true},
        {MAMBA2(""), true},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_model *model;
        ls_language_model lm;
        assert_ok(ls_model_open_text("config.json", cases[i].config, &model));
        ls_graph *g = ls_graph_create(LS_F32);
        assert_ok(ls_model_build(model, g, 1, 4, false, &lm));
        bool shifts = false;
        for (int k = 0; k < g->n_nodes; k++) shifts = shifts || g->nodes[k].op == &ls_op_shift;
        assert_int_equal(shifts, cases[i].shifts);
        ls_graph_destroy(g);
        ls_model_close(model);
    }
}

/* GPT-2 has a position for so many tokens and no more. */
static void test_learned_positions(void **state) {
    (void)state;
    ls_model *model;
    ls_language_model lm;
    assert_ok(ls_model_open_text("config.json", GPT2(", \"resid_pdrop\": 0.1, \"n_inner\": null"), &model));
    assert_int_equal(ls_model_describe(model).F, 96);
    assert_true(ls_model_describe(model).tied);
    ls_graph *g = ls_graph_create(LS_F32);
    assert_error(ls_model_build(model, g, 1, 17, false, &lm), LS_USAGE, "17 tokens", "n_positions 16");
    ls_graph_destroy(g);
    g = ls_graph_create(LS_F32);
    assert_ok(ls_model_build(model, g, 1, 16, false, &lm));
    assert_int_equal(ls_graph_id_range(g, lm.positions).count, 16);
    ls_graph_destroy(g);
    ls_model_close(model);
}

/* Longrope goes by the length of the sequence: what is divided by 4, 5 and 6 from 17 tokens on is by 1, 2 and 3 before.
 */
static void test_longrope(void **state) {
    (void)state;
    ls_model *model;
    ls_language_model lm;
    assert_ok(ls_model_open_text(
        "config.json", PHI3(", \"original_max_position_embeddings\": 16, \"rope_scaling\": " LONGROPE("type", "")),
        &model));
    for (int S = 16; S <= 17; S++) {
        ls_graph *g = ls_graph_create(LS_F32);
        assert_ok(ls_model_build(model, g, 1, S, false, &lm));
        int found = 0;
        for (int i = 0; i < g->n_nodes; i++) {
            if (g->nodes[i].op != &ls_op_rope_table) continue;
            const ls_rope_params *p = g->nodes[i].params;
            for (int pair = 0; pair < 3; pair++) {
                const double exact = pow(10000, -2.0 * pair / 6) / (S > 16 ? 4 + pair : 1 + pair);
                assert_true(fabs((double)ls_rope_frequency(p, pair, 6) / exact - 1) < 3e-7);
            }
            assert_true(fabs(ls_rope_magnitude(p) - sqrt(1 + log(4) / log(16))) < 1e-15);
            found++;
        }
        assert_int_equal(found, 1);
        ls_graph_destroy(g);
        assert_int_equal(ls_model_check_apart(model, S).code, S > 16 ? LS_UNSUPPORTED : LS_OK);
    }
    /* What grows past the original length would change all that is kept. */
    const struct {
        int known, S;
        ls_code code;
    } growths[] = {{4, 16, LS_OK}, {17, 40, LS_OK}, {4, 17, LS_UNSUPPORTED}, {16, 17, LS_UNSUPPORTED}};
    for (size_t i = 0; i < LS_COUNT(growths); i++) {
        ls_graph *g = ls_graph_create(LS_F32);
        const ls_status status = ls_model_build_growing(model, g, growths[i].known, growths[i].S, &lm);
        assert_int_equal(status.code, growths[i].code);
        if (status.code != LS_OK) assert_error(status, LS_UNSUPPORTED, "that grow to 17", "beyond 16");
        ls_graph_destroy(g);
    }
    ls_model_close(model);
}

/* --- other rotary positions --------------------------------------------------------------------------------------- */

typedef struct change {
    const char *config;
    ls_rope_change rope;
    const char *holds[3]; /* what the text has afterwards; of the whole if it begins with { */
} change;

#define OLD LLAMA(", \"kept\": [1, {\"a\": \"}\\\"\"}], \"rope_theta\": 1e4")
#define NEW LLAMA(", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}, \"kept\": 1.50")
#define SCALED \
    LLAMA(", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 48}")

#define BESIDE \
    LLAMA(", \"original_max_position_embeddings\": 32, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2}")

static const change changes[] = {
    {OLD, {NULL, 0}, {OLD}},
    {OLD, {"", 0}, {OLD}},
    {OLD, {NULL, 5e5}, {LLAMA(", \"kept\": [1, {\"a\": \"}\\\"\"}], \"rope_theta\": 500000")}},
    {OLD,
     {"linear:2", 0},
     {"\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}", "\"max_position_embeddings\": 64,",
      "\"kept\": [1, {\"a\": \"}\\\"\"}], \"rope_theta\": 1e4}"}},
    {OLD,
     {"yarn:4", 0},
     {"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 64}",
      "\"max_position_embeddings\": 256,"}},
    {OLD, {"yarn:1.5:32", 0}, {"\"original_max_position_embeddings\": 32}", "\"max_position_embeddings\": 64,"}},
    {OLD, {"dynamic:4:32", 0}, {"{\"rope_type\": \"dynamic\", \"factor\": 4}", "\"max_position_embeddings\": 32,"}},
    {OLD,
     {"llama3:8", 5e5},
     {"\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0}", "\"rope_theta\": 500000",
      "\"max_position_embeddings\": 512,"}},
    {NEW,
     {"yarn:2", 0},
     {"\"rope_parameters\": {\"rope_theta\": 500000,\"rope_type\": \"yarn\", \"factor\": 2, "
      "\"original_max_position_embeddings\": 64}",
      "\"max_position_embeddings\": 128,", "\"kept\": 1.50}"}},
    {NEW, {NULL, 1e6}, {"{\"rope_type\": \"default\", \"rope_theta\": 1000000}", "\"kept\": 1.50}"}},
    {SCALED,
     {"yarn:4", 0},
     {"\"factor\": 4, \"original_max_position_embeddings\": 48", "\"max_position_embeddings\": 192,"}},
    {BESIDE,
     {"yarn:4", 0},
     {"\"factor\": 4, \"original_max_position_embeddings\": 32}", "\"max_position_embeddings\": 128,"}},
    {BESIDE,
     {"yarn:8:16", 0},
     {"\"original_max_position_embeddings\": 16, \"rope_scaling\"", "\"max_position_embeddings\": 128,"}},
    /* Of two kinds of layers those without a window. */
    {GEMMA3(", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": 7e5}, "
            "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 7e3}}"),
     {"linear:2", 0},
     {"\"full_attention\": {\"rope_theta\": 700000,\"rope_type\": \"linear\", \"factor\": 2}",
      "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 7e3}"}},
    {GEMMA3(", \"rope_parameters\": {\"full_attention\": null}"),
     {NULL, 5e5},
     {"\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 500000}}"}},
    {GEMMA3(", \"rope_theta\": 1e6, \"rope_local_base_freq\": 1e4"),
     {"linear:2", 5e5},
     {"\"rope_local_base_freq\": 1e4", "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}",
      "\"rope_theta\": 500000"}},
    {PHI3(", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 7e5, \"partial_rotary_factor\": 0.34}"),
     {"default", 5e5},
     {"\"rope_theta\": 500000", "\"partial_rotary_factor\": 0.34"}},
    {MINISTRAL3(", \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 7e5, \"factor\": 2, "
                "\"original_max_position_embeddings\": 32, \"llama_4_scaling_beta\": 0.25}"),
     {"yarn:4:16", 0},
     {"\"original_max_position_embeddings\": 16", "\"llama_4_scaling_beta\": 0.25", "\"rope_theta\": 700000"}},
    {SCALED, {"default", 0}, {"\"rope_scaling\": {\"rope_type\": \"default\"}", "\"max_position_embeddings\": 64"}},
    {OLD,
     {"{\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": 16}", 0},
     {"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": 16}",
      "\"max_position_embeddings\": 128,"}},
};

static void test_changes(void **state) {
    for (size_t i = 0; i < LS_COUNT(changes); i++) {
        const change *c = &changes[i];
        const char *path = scratch_text(state, "config.json", c->config);
        ls_model *model = NULL, *again = NULL;
        assert_ok(ls_model_open_changed(path, &c->rope, &model));
        const char *text = ls_model_written(model).text;
        for (int h = 0; h < 3 && c->holds[h] != NULL; h++) {
            const bool whole = strncmp(c->holds[h], "{\"arch", 7) == 0;
            if (whole ? strcmp(text, c->holds[h]) != 0 : strstr(text, c->holds[h]) == NULL)
                fail_msg("case %zu: \"%s\" does not hold \"%s\"", i, text, c->holds[h]);
        }
        /* What is exported is a config of the same model. */
        assert_ok(ls_model_open_text("again", text, &again));
        assert_string_equal(ls_model_written(again).text, text);
        ls_model_close(again);
        ls_model_close(model);
    }
}

static void test_changes_refused(void **state) {
    static const struct {
        const char *config;
        ls_rope_change rope;
        ls_code code;
        const char *found, *expected;
    } cases[] = {
        {OLD, {"yarn", 0}, LS_USAGE, "--rope-scaling yarn", "yarn:FACTOR"},
        {OLD, {"yarn:0.5", 0}, LS_USAGE, "--rope-scaling yarn:0.5", "yarn:FACTOR"},
        {OLD, {"yarn:x", 0}, LS_USAGE, "--rope-scaling yarn:x", "yarn:FACTOR"},
        {OLD, {"yarn:2:3:4", 0}, LS_USAGE, "--rope-scaling yarn:2:3:4", "yarn:FACTOR"},
        {OLD, {"linear:2:16", 0}, LS_USAGE, "--rope-scaling linear:2:16", "linear:FACTOR"},
        {OLD, {"longrope:2", 0}, LS_USAGE, "--rope-scaling longrope:2", "linear:FACTOR"},
        {OLD, {"default:2", 0}, LS_USAGE, "--rope-scaling default:2", "default"},
        {OLD, {"{\"rope_type\": \"ntk\"}", 0}, LS_UNSUPPORTED, "rope_scaling.rope_type is \"ntk\"", "--rope-scaling"},
        {OLD, {"{\"rope_type\":", 0}, LS_INVALID, "--rope-scaling: not valid JSON", "line 1"},
        {OLD, {NULL, -1}, LS_USAGE, "--rope-theta -1", "a number"},
        {GPT2(""), {"yarn:2", 0}, LS_USAGE, "GPT2LMHeadModel", "positions are learned"},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_model *model = NULL;
        const char *path = scratch_text(state, "config.json", cases[i].config);
        assert_error(ls_model_open_changed(path, &cases[i].rope, &model), cases[i].code, cases[i].found,
                     cases[i].expected);
        assert_null(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_learned_positions),
        cmocka_unit_test(test_longrope),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_state_spaces),
        cmocka_unit_test(test_layers_without_states),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_changes_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
