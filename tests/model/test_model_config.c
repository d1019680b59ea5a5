/* config.json: accepted and refused fields; a message names file, field, value and expectation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/model.h"
#include "support/scratch.h"

typedef struct field {
    const char *key, *value; /* JSON; value NULL: left out */
} field;

static const field base[] = {{"architectures", "[\"LlamaForCausalLM\"]"},
                             {"model_type", "\"llama\""},
                             {"vocab_size", "32"},
                             {"hidden_size", "24"},
                             {"intermediate_size", "20"},
                             {"num_hidden_layers", "2"},
                             {"num_attention_heads", "4"},
                             {"num_key_value_heads", "2"}};

/* Writes the base with some fields changed or added; returns the path. */
static const char *write_config(void **state, const field *changes, size_t n) {
    char text[4096] = "{";
    size_t used = 1;
    bool seen[8] = {false};
    for (size_t i = 0; i < LS_COUNT(base); i++) {
        const char *value = base[i].value;
        for (size_t c = 0; c < n; c++) {
            if (strcmp(changes[c].key, base[i].key) != 0) continue;
            value = changes[c].value;
            seen[c] = true;
        }
        if (value != NULL)
            used += (size_t)snprintf(text + used, sizeof text - used, "\"%s\": %s, ", base[i].key, value);
    }
    for (size_t c = 0; c < n; c++)
        if (!seen[c] && changes[c].key != NULL)
            used += (size_t)snprintf(text + used, sizeof text - used, "\"%s\": %s, ", changes[c].key, changes[c].value);
    snprintf(text + used, sizeof text - used, "\"unknown_to_us\": [1, {}]}");
    return scratch_text(state, "config.json", text);
}

#define LLAMA3(low, high, rest) \
    "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": " low ", \"high_freq_factor\": " high rest "}"

#define YARN(rest) "{\"rope_type\": \"yarn\", \"factor\": 4" rest "}"

typedef struct broken {
    field change[2];
    ls_code code;
    const char *named, *expected;
} broken;

static const broken broken_configs[] = {
    {{{"architectures", "[\"MambaForCausalLM\"]"}},
     LS_UNSUPPORTED,
     "architectures[0] is \"MambaForCausalLM\"",
     "LlamaForCausalLM"},
    {{{"architectures", "[]"}}, LS_INVALID, "architectures is an array of 0", "one name"},
    {{{"architectures", "\"LlamaForCausalLM\""}}, LS_INVALID, "architectures is", "an array"},
    {{{"architectures", NULL}, {"model_type", NULL}}, LS_UNSUPPORTED, "architectures is missing", "LlamaForCausalLM"},
    {{{"model_type", "\"mamba\""}}, LS_UNSUPPORTED, "model_type is \"mamba\"", "LlamaForCausalLM"},
    {{{"model_type", "\"gpt2\""}}, LS_INVALID, "model_type is \"gpt2\"", "\"llama\", as architectures says"},
    {{{"vocab_size", NULL}}, LS_INVALID, "vocab_size is missing", "an integer"},
    {{{"vocab_size", "0"}}, LS_INVALID, "vocab_size is 0", "from 1"},
    {{{"hidden_size", "\"big\""}}, LS_INVALID, "hidden_size is \"big\"", "an integer"},
    {{{"hidden_size", "-24"}}, LS_INVALID, "hidden_size is -24", "from 1"},
    {{{"hidden_size", "24.5"}}, LS_INVALID, "hidden_size is 24.5", "an integer"},
    {{{"hidden_size", "1e300"}}, LS_INVALID, "hidden_size is", "an integer"},
    {{{"intermediate_size", "null"}}, LS_INVALID, "intermediate_size is null, expected an integer", "an integer"},
    {{{"num_hidden_layers", "9223372036854775807"}}, LS_INVALID, "num_hidden_layers is 9223372036854775807", "to 4096"},
    {{{"num_attention_heads", "5"}}, LS_INVALID, "num_key_value_heads is 2", "a divisor of the num_attention_heads 5"},
    {{{"num_attention_heads", "10"}}, LS_INVALID, "num_attention_heads is 10", "a divisor of hidden_size 24"},
    {{{"num_attention_heads", "8"}}, LS_INVALID, "num_attention_heads is 8", "here 3, that is even"},
    {{{"num_attention_heads", "48"}}, LS_INVALID, "num_attention_heads is 48", "a divisor of hidden_size 24"},
    {{{"num_key_value_heads", "3"}}, LS_INVALID, "num_key_value_heads is 3", "a divisor of the num_attention_heads 4"},
    {{{"num_key_value_heads", "8"}}, LS_INVALID, "num_key_value_heads is 8", "a divisor"},
    {{{"head_dim", "5"}}, LS_INVALID, "head_dim is 5", "an even number"},
    {{{"head_dim", "0"}}, LS_INVALID, "head_dim is 0", "from 1"},
    {{{"max_position_embeddings", "0"}}, LS_INVALID, "max_position_embeddings is 0", "from 1"},
    {{{"rms_norm_eps", "-1e-6"}}, LS_INVALID, "rms_norm_eps is -", "from 0"},
    {{{"pad_token_id", "32"}}, LS_INVALID, "pad_token_id is 32", "expected an integer from -32 to 31"},
    {{{"pad_token_id", "-33"}}, LS_INVALID, "pad_token_id is -33", "expected an integer from -32 to 31"},
    {{{"rope_theta", "0"}}, LS_INVALID, "rope_theta is 0", "expected"},
    {{{"rope_theta", "\"1e4\""}}, LS_INVALID, "rope_theta is \"1e4\"", "a number"},
    {{{"rope_scaling", "3"}}, LS_INVALID, "rope_scaling is 3", "an object"},
    {{{"rope_scaling", "{}"}}, LS_INVALID, "rope_scaling.rope_type is missing", "expected"},
    {{{"rope_scaling", "{\"type\": \"ntk\", \"factor\": 2}"}},
     LS_UNSUPPORTED,
     "rope_scaling.type is \"ntk\"",
     "llama3"},
    {{{"rope_scaling", "{\"type\": \"longrope\", \"factor\": 2}"}},
     LS_INVALID,
     "rope_scaling.short_factor is missing",
     "an array"},
    {{{"rope_scaling", "{\"type\": \"longrope\", \"short_factor\": [1, 1, 0], \"long_factor\": [1, 1, 2]}"}},
     LS_INVALID,
     "rope_scaling.short_factor[2] is 0",
     "a number from"},
    {{{"rope_scaling", "{\"type\": \"longrope\", \"short_factor\": [1, 1, 1], \"long_factor\": [1, 1, 2, 3]}"}},
     LS_INVALID,
     "rope_scaling.long_factor is an array of 4",
     "each of the 3 rotated pairs"},
    {{{"rope_scaling", "{\"type\": \"dynamic\"}"}}, LS_INVALID, "rope_scaling.factor is missing", "a number"},
    {{{"rope_scaling", "{\"type\": \"linear\", \"factor\": 2, \"mrope_section\": [1]}"}},
     LS_UNSUPPORTED,
     "rope_scaling.mrope_section is an array of 1",
     "left out"},
    {{{"rope_parameters", "{\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}"}},
     LS_UNSUPPORTED,
     "rope_parameters.partial_rotary_factor is 0.5",
     "1: all of a head"},
    {{{"rope_parameters", "{\"full_attention\": {\"rope_type\": \"default\"}}"}},
     LS_UNSUPPORTED,
     "rope_parameters.full_attention is an object",
     "left out"},
    {{{"rope_scaling", YARN(", \"beta_fast\": 1, \"beta_slow\": 2")}},
     LS_INVALID,
     "rope_scaling.beta_fast is 1",
     "at least beta_slow 2"},
    {{{"rope_scaling", YARN(", \"truncate\": 1")}}, LS_INVALID, "rope_scaling.truncate is 1", "true or false"},
    {{{"rope_scaling", "{\"rope_type\": \"yarn\", \"original_max_position_embeddings\": 4096}"}},
     LS_INVALID,
     "rope_scaling.factor is missing",
     "2048 is less than the original 4096"},
    {{{"rope_scaling", "{\"type\": \"linear\"}"}}, LS_INVALID, "rope_scaling.factor is missing", "a number"},
    {{{"rope_scaling", "{\"type\": \"linear\", \"factor\": 0.5}"}}, LS_INVALID, "rope_scaling.factor is 0.5", "from 1"},
    {{{"rope_scaling", LLAMA3("1", "4", "")}},
     LS_INVALID,
     "rope_scaling.original_max_position_embeddings is missing",
     "expected"},
    {{{"rope_scaling", LLAMA3("4", "4", ", \"original_max_position_embeddings\": 64")}},
     LS_INVALID,
     "rope_scaling.high_freq_factor is 4",
     "more than low_freq_factor 4"},
    {{{"rope_scaling", LLAMA3("0", "4", ", \"original_max_position_embeddings\": 64")}},
     LS_INVALID,
     "rope_scaling.low_freq_factor is 0",
     "expected"},
    {{{"rope_scaling", "{\"type\": \"default\"}"}, {"rope_parameters", "{\"rope_type\": \"default\"}"}},
     LS_INVALID,
     "rope_scaling is",
     "rope_parameters is there"},
    {{{"tie_word_embeddings", "\"yes\""}}, LS_INVALID, "tie_word_embeddings is \"yes\"", "true or false"},
    {{{"attention_bias", "1"}}, LS_INVALID, "attention_bias is 1", "true or false"},
    {{{"mlp_bias", "[]"}}, LS_INVALID, "mlp_bias is", "true or false"},
    {{{"initializer_range", "-0.1"}}, LS_INVALID, "initializer_range is -0.1", "from 0"},
    {{{"hidden_act", "\"mish\""}}, LS_UNSUPPORTED, "hidden_act is \"mish\"", "silu"},
    {{{"attention_dropout", "0.1"}}, LS_UNSUPPORTED, "attention_dropout is 0.1", "0"},
    {{{"partial_rotary_factor", "0.5"}}, LS_UNSUPPORTED, "partial_rotary_factor is 0.5", "1"},
    {{{"quantization_config", "{}"}}, LS_INVALID, "quantization_config.quant_method is missing", "expected"},
    {{{"quantization_config", "{\"quant_method\": \"gptq\"}"}},
     LS_UNSUPPORTED,
     "quantization_config.quant_method is \"gptq\"",
     "bitsandbytes (nf4, int8), fp8 or mxfp4"},
    {{{"quantization_config", "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}"}},
     LS_UNSUPPORTED,
     "bnb_4bit_quant_type is missing",
     "nf4"},
    {{{"quantization_config", "{\"quant_method\": \"bitsandbytes\"}"}},
     LS_UNSUPPORTED,
     "load_in_4bit is missing",
     "one of load_in_4bit and load_in_8bit"},
    {{{"quantization_config", "{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 64]}"}},
     LS_UNSUPPORTED,
     "weight_block_size[1] is 64",
     "128"},
};

static void test_broken(void **state) {
    for (size_t i = 0; i < LS_COUNT(broken_configs); i++) {
        const broken *b = &broken_configs[i];
        ls_model *model = NULL;
        const char *path = write_config(state, b->change, b->change[1].key != NULL ? 2 : 1);
        const ls_status status = ls_model_open(path, &model);
        assert_error(status, b->code, b->named, b->expected);
        assert_error(status, b->code, path, ", expected ");
        assert_null(model);
    }
}

static void test_broken_files(void **state) {
    ls_model *model = NULL;
    assert_error(ls_model_open(scratch_path(state, "nowhere"), &model), LS_IO, "nowhere", "No such file");
    assert_ok(ls_file_make_folders(scratch_path(state, "empty")));
    assert_error(ls_model_open(scratch_path(state, "empty"), &model), LS_IO, "empty/config.json", "No such file");
    assert_error(ls_model_open(scratch_text(state, "config.json", "{\"a\": "), &model), LS_INVALID, "config.json",
                 "not valid JSON");
    assert_error(ls_model_open(scratch_text(state, "config.json", "[1]"), &model), LS_INVALID, "config.json",
                 "an object");
}

static void open_with(void **state, const field *changes, size_t n, ls_model **out) {
    assert_ok(ls_model_open(write_config(state, changes, n), out));
}

static void test_defaults(void **state) {
    ls_model *model = NULL;
    const field changes[] = {{"num_key_value_heads", NULL}, {"architectures", NULL}, {"head_dim", "null"}};
    open_with(state, changes, 3, &model);
    const ls_model_sizes n = ls_model_describe(model);
    assert_string_equal(ls_model_architecture(model), "LlamaForCausalLM");
    assert_string_equal(ls_model_folder(model), *state);
    assert_non_null(strstr(ls_model_written(model).text, "unknown_to_us"));
    assert_int_equal(n.Hkv, 4);
    assert_int_equal(n.D, 6);
    assert_int_equal(n.longest, 2048);
    assert_false(n.tied);
    assert_true(n.initializer_range == 0.02);
    /* V·E twice; per layer q, k, v, o and three of the feed-forward and two norms; one norm. */
    assert_int_equal(ls_model_parameters(model), 2 * 32 * 24 + 2 * (4 * 24 * 24 + 3 * 20 * 24 + 2 * 24) + 24);
    ls_model_close(model);
    /* As a folder, it is the same model. */
    assert_ok(ls_model_open(*state, &model));
    assert_int_equal(ls_model_describe(model).D, 6);
    ls_model_close(model);
}

static bool has_parameter(const ls_graph *g, const char *name, int ndim, int64_t rows) {
    for (int t = 1; t < g->n_tensors; t++)
        if (g->tensors[t].role == LS_ROLE_PARAMETER && strcmp(g->tensors[t].name, name) == 0)
            return g->tensors[t].shape.ndim == ndim && g->tensors[t].shape.dim[0].size == rows;
    return false;
}

static void test_variants(void **state) {
    ls_model *model = NULL;
    ls_language_model lm;
    const field changes[] = {
        {"head_dim", "10"},
        {"tie_word_embeddings", "true"},
        {"attention_bias", "true"},
        {"mlp_bias", "true"},
        {"torch_dtype", "\"bfloat16\""},
        {"rope_parameters", LLAMA3("1", "4", ", \"original_max_position_embeddings\": 64, \"rope_theta\": 500")}};
    open_with(state, changes, LS_COUNT(changes), &model);
    ls_graph *g = ls_graph_create(LS_BF16);
    assert_ok(ls_model_build(model, g, 2, 7, true, &lm));
    assert_false(has_parameter(g, "lm_head.weight", 2, 32));
    assert_true(has_parameter(g, "model.layers.1.self_attn.q_proj.weight", 2, 40));
    assert_true(has_parameter(g, "model.layers.1.self_attn.k_proj.bias", 1, 20));
    assert_true(has_parameter(g, "model.layers.0.self_attn.o_proj.bias", 1, 24));
    assert_true(has_parameter(g, "model.layers.0.mlp.down_proj.bias", 1, 24));
    assert_true(has_parameter(g, "model.layers.0.post_attention_layernorm.weight", 1, 24));
    assert_string_equal(ls_graph_tensor(g, lm.logits)->name, "logits");
    assert_int_equal(ls_graph_tensor(g, lm.logits)->dtype, LS_F32);
    assert_true(lm.forward_nodes > 0 && lm.forward_nodes < g->n_nodes);
    ls_graph_destroy(g);
    g = ls_graph_create(LS_F64);
    assert_ok(ls_model_build(model, g, 1, 1, false, &lm));
    assert_true(lm.forward_nodes == g->n_nodes);
    assert_int_equal(ls_graph_tensor(g, lm.token_loss)->dtype, LS_F64);
    ls_graph_destroy(g);
    g = ls_graph_create(LS_F32);
    assert_error(ls_model_build(model, g, 1, 0, false, &lm), LS_INVALID, "tokens", "expected at least 1");
    ls_graph_destroy(g);
    ls_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_variants),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
