/*
 * Tensor parallelism: along an axis of heads and features each rank has a part of most parameters. Loss, gradients and
 * updated parameters are those of one rank, for every network, strategy, shard mode and saving, with KV heads and
 * features that do not divide, and both verifiers accept the programs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "model/model.h"
#include "program/peak.h"
#include "support/meshes.h"
#include "support/network.h"

enum { V = 17 };

#define MODEL(type, heads, kv_heads, more)                                                               \
    "{\"architectures\": [\"" type "\"], \"vocab_size\": 17, \"hidden_size\": 24, \"n_embd\": 24,"       \
    " \"intermediate_size\": 22, \"n_inner\": 22, \"num_hidden_layers\": 2, \"n_layer\": 2,"             \
    " \"num_attention_heads\": " heads ", \"n_head\": " heads ", \"num_key_value_heads\": " kv_heads "," \
    " \"max_position_embeddings\": 64" more "}"

/* A frozen weight is cut along its rows going forward and along its columns going back, where that is cheapest. */
static ls_tensor products_loss(ls_graph *g) {
    enum { B = 2, S = 20, E = 4, N = 6, M = 8 };
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    x = ls_rmsnorm(g, x, ls_parameter(g, "first", 1, (int64_t[]){E}), 1e-5);
    x = ls_linear(g, x, ls_parameter(g, "up", 2, (int64_t[]){E, E}), LS_NO_TENSOR);
    const ls_tensor frozen = ls_parameter(g, "frozen", 2, (int64_t[]){N, E});
    x = ls_linear(g, x, frozen, LS_NO_TENSOR);
    g->tensors[frozen.id].frozen = true;
    x = ls_linear(g, x, ls_parameter(g, "down", 2, (int64_t[]){M, N}), LS_NO_TENSOR);
    x = ls_rmsnorm(g, x, ls_parameter(g, "last", 1, (int64_t[]){M}), 1e-5);
    return ls_sum(g, ls_mul(g, x, x));
}

/* Parameters that no node reads: their gradients are 0. */
static ls_tensor unused_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 2, 4);
    const ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, 4}));
    (void)ls_parameter(g, "unused matrix", 2, (int64_t[]){3, 5});
    (void)ls_parameter(g, "unused number", 1, (int64_t[]){1});
    return ls_sum(g, ls_mul(g, x, x));
}

static const network networks[] = {
    {"llama3", llama_loss, .ids = V},
    {"gpt2", gpt2_loss, .ids = V},
    {"qwen2", qwen2_loss, .ids = V},
    {"qwen3", qwen3_loss, .ids = V},
    {"mistral", mistral_loss, .ids = V},
    {"gemma2", gemma2_loss, .ids = V},
    {"gptoss", gptoss_loss, .ids = V},
    {"mla", mla_loss, .ids = V},
    {"encoder", encoder_loss, .ids = V},
    {"mixer", mixer_loss, .ids = V},
    {"products", products_loss, .ids = V},
    {"timemix", timemix_loss, .ids = V},
    {"plstm", plstm_loss, .ids = V},
    {"experts", experts_loss, .ids = V},
    {"Llama", .config = MODEL("LlamaForCausalLM", "6", "3", ", \"attention_bias\": true, \"mlp_bias\": true"), .ids = V,
     .B = 2, .S = 19},
    /* As many ranks use each KV head: two of tp=4, of ulysses=2,tp=2. */
    {"Llama with shared heads", .config = MODEL("LlamaForCausalLM", "12", "2", ""), .ids = V, .B = 2, .S = 24},
    {"GPT-2", .config = MODEL("GPT2LMHeadModel", "6", "6", ""), .ids = V, .B = 2, .S = 19},
};

static const struct {
    const char *mesh, *strategy;
    bool outside; /* tp is the outermost axis, as only a program can say; else the innermost */
} places[] = {
    {"tp=4", "local", false},
    {"dp=2,tp=2", "local", false},
    {"ring=2,tp=3", "ring", false},
    {"ulysses=2,tp=2", "ulysses", false},
    {"ring=2,ulysses=2,tp=2", "usp", false},
    {"dp=2,ring=2,tp=2", "gather", false},
    {"dp=2,tp=3", "local", true},
    {"ring=3,tp=2", "ring", true},
    {"ulysses=2,tp=3", "ulysses", true},
};

static const ls_saving savings[] = {{0},
                                    {.drop = 1 << 20, .tile = LS_TILE_ALL, .tile_rows = 3},
                                    {.drop = 4, .tile = LS_TILE_LOSS, .tile_rows = 2},
                                    {.offload = 1 << 20, .offload_state = true}};

static ls_target target_of(size_t place, int mode, size_t saving) {
    ls_target target = {
        .strategy = places[place].strategy, .threads = 1, .shard = &ls_shard_modes[mode], .saving = savings[saving]};
    const ls_status status = ls_mesh_parse(places[place].mesh, &target.mesh);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    if (places[place].outside) target.mesh = mesh_tp_outside(&target.mesh);
    return target;
}

static void must(ls_status status, const network *n, size_t place, const ls_target *target) {
    if (status.code != LS_OK)
        fail_msg("%s, %s, shard %s, drop %d: %s", n->name, places[place].mesh, target->shard->name, target->saving.drop,
                 status.text);
}

static ls_status two_steps(const network *n, const ls_target *target, int micro, network_result *out) {
    return network_train(n, target, micro, 2, out);
}

typedef ls_status (*solver)(const network *n, const ls_target *target, int micro, network_result *out);

/* Every third place: those of one solver are places that the other leaves out, and each network has others. */
static int compare_all(const network *n, solver solve, size_t first) {
    const int micro = 1 + (int)(n - networks) % 2;
    const ls_target alone = {.strategy = "local", .threads = 1};
    network_result one, many;
    int cases = 0;
    const ls_status solved = solve(n, &alone, micro, &one);
    if (solved.code != LS_OK) fail_msg("%s: %s", n->name, solved.text);
    for (size_t p = (first + (size_t)(n - networks)) % 3; p < LS_COUNT(places); p += 3, cases++) {
        const int mode = (int)(p + (size_t)micro + (size_t)(n - networks)) % LS_SHARD_MODES;
        const ls_target target = target_of(p, mode, (p + (size_t)micro) % LS_COUNT(savings));
        const char *what = "";
        must(solve(n, &target, micro, &many), n, p, &target);
        const double error = network_difference(&many, &one, &what);
        if (!(error < 1e-12)) must(ls_error(LS_DIVERGED, "%s is off by %g", what, error), n, p, &target);
        network_free(&many);
    }
    network_free(&one);
    return cases;
}

static void test_same_gradients(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++)
        print_message("%s: %d gradients are those of one rank\n", networks[n].name,
                      compare_all(&networks[n], network_accumulate, 0));
}

static void test_same_parameters(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++)
        print_message("%s: %d trainings are that of one rank\n", networks[n].name,
                      compare_all(&networks[n], two_steps, 1));
}

static void test_proofs(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++) {
        for (size_t p = n % 2; p < LS_COUNT(places); p += 2) { /* the matrix verifies others */
            const ls_target target = target_of(p, (int)(n + p) % LS_SHARD_MODES, (n + p) % LS_COUNT(savings));
            must(network_verify(&networks[n], &target, 1 + (int)(n % 2)), &networks[n], p, &target);
        }
    }
}

/* Gradients of several micro-batches that nothing uses up, whose sums over tp lie where they were added. */
static void test_gradients_alone(void **state) {
    (void)state;
    static const char config[] = MODEL("LlamaForCausalLM", "4", "2", "");
    ls_model *model = NULL;
    assert_int_equal(ls_model_open_text("model", config, &model).code, LS_OK);
    for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
        for (int dp = 1; dp <= 2; dp++) {
            ls_language_model lm;
            ls_graph *g = ls_graph_create(LS_F64);
            assert_int_equal(ls_model_build(model, g, dp, 20, true, &lm).code, LS_OK);
            const ls_job job = {.graph = g, .programs = ls_training_programs(g, 0, LS_UPDATE_REDUCE, 1)};
            const ls_target target = {
                .mesh = mesh_with_tp(dp, 1, 1, 2), .strategy = "local", .threads = 1, .shard = &ls_shard_modes[mode]};
            ls_images images = {.of_class = NULL};
            const ls_image *of_rank[4];
            ls_status status = ls_compile_classes(&job, &target, &images);
            for (int r = 0; r < 2 * dp && status.code == LS_OK; r++) of_rank[r] = ls_images_of(&images, r);
            if (status.code == LS_OK) status = ls_verify(of_rank, 2 * dp);
            if (status.code == LS_OK) status = ls_verify_local(of_rank, 2 * dp);
            if (status.code != LS_OK) fail_msg("dp %d, shard %s: %s", dp, ls_shard_modes[mode].name, status.text);
            ls_images_destroy(&images);
            ls_graph_destroy(g);
        }
    }
    ls_model_close(model);
}

/* --- what is sent, and what is there ------------------------------------------------------------------------------ */

/* The programs of a model's training on rank 0; the caller destroys both. */
static ls_image *compile_model(const char *config, int64_t B, int64_t S, ls_dtype dtype, const ls_target *target,
                               ls_graph **g) {
    ls_model *model = NULL;
    ls_language_model lm;
    ls_image *image = NULL;
    *g = ls_graph_create(dtype);
    ls_status status = ls_model_open_text("model", config, &model);
    if (status.code == LS_OK) status = ls_model_build(model, *g, B, S, true, &lm);
    ls_model_close(model);
    const ls_job job = {.graph = *g, .programs = ls_training_programs(*g, lm.forward_nodes, LS_UPDATE_APPLY, 0)};
    if (status.code == LS_OK) status = ls_compile(&job, target, &image);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    return image;
}

/* A Llama of so many layers along tp=T. */
static ls_image *compile_layers(int layers, int64_t B, int64_t S, ls_dtype dtype, int T, ls_graph **g) {
    char config[400];
    snprintf(config, sizeof config,
             "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 24, \"hidden_size\": 24,"
             " \"intermediate_size\": 48, \"num_hidden_layers\": %d, \"num_attention_heads\": 12,"
             " \"num_key_value_heads\": 12, \"max_position_embeddings\": 512}",
             layers);
    const ls_target target = {.mesh = mesh_with_tp(1, 1, 1, T), .strategy = "local", .isa = LS_ISA_BASE, .threads = 1};
    return compile_model(config, B, S, dtype, &target, g);
}

static double bytes_sent(int layers, int64_t B, int64_t S, ls_dtype dtype, int T, const char *program) {
    ls_graph *g;
    ls_image *image = compile_layers(layers, B, S, dtype, T, &g);
    const double sent = ls_program_measure(image, ls_program_find(image, program)).bytes_sent;
    ls_image_destroy(image);
    ls_graph_destroy(g);
    return sent;
}

/*
 * Norms and residuals are cut along the sequence. With n_total the elements of the model size of all tokens and E the
 * bytes of one in the tensor's type, in which all of it travels, (T-1)/T n_total E are sent each time: in the forward
 * pass twice for a sum to its parts, and twice for parts to the whole that the products of heads and of hidden features
 * read; in the backward pass twice each for their gradients, and twice for the same parts to the whole again. The
 * gradients of two norms are added up over tp once in a step, in the accumulator's type.
 */
static void test_bytes(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    enum { B = 2, S = 96, E = 24 };
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        for (int T = 2; T <= 4; T++) {
            const double one = (double)B * S * E * (T - 1) / T * (double)ls_dtype_bytes(types[t]);
            const double forward = bytes_sent(3, B, S, types[t], T, LS_PROGRAM_EVALUATE) -
                                   bytes_sent(2, B, S, types[t], T, LS_PROGRAM_EVALUATE),
                         step = bytes_sent(3, B, S, types[t], T, LS_PROGRAM_STEP) -
                                bytes_sent(2, B, S, types[t], T, LS_PROGRAM_STEP);
            const double norms = 2 * LS_FLAT_UNIT * (T - 1) * (double)ls_dtype_bytes(ls_dtype_accumulator(types[t]));
            assert_true(forward == 4 * one);
            assert_true(step == 10 * one + norms);
        }
    }
}

/* Bytes of activations that are live where the forward pass has ended and the backward pass begins. */
static double bytes_kept(int layers, int64_t B, int64_t S, ls_dtype dtype, int T) {
    ls_graph *g;
    ls_image *image = compile_layers(layers, B, S, dtype, T, &g);
    const int program = ls_program_find(image, LS_PROGRAM_STEP);
    int turn = 0;
    const ls_instr *instrs = image->programs[program].instrs;
    while (instrs[turn].kernel == NULL || instrs[turn].kernel->id != LS_KERNEL_CROSS_ENTROPY_GRAD) turn++;
    double bytes = 0;
    for (int i = 0; i < image->n_buffers; i++)
        if (image->buffers[i].kind == LS_BUFFER_ACTIVATION && ls_buffer_is_live(&image->buffers[i], program, turn))
            bytes += (double)image->buffers[i].bytes;
    ls_image_destroy(image);
    ls_graph_destroy(g);
    return bytes;
}

/*
 * What a layer keeps for the backward pass is cut T ways, all of it: with n = n_total / T, input, both norms' results,
 * q, k, v, the result of attention and the sum behind it are 8 n; gate, up and their product of hidden size I = 2 E are
 * 6 n more; a number of a head or a token in the accumulator's type is kept for each head and each of two norms.
 */
static void test_kept(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    enum { B = 2, S = 96, E = 24, HEADS = 12 };
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        for (int T = 1; T <= 4; T++) {
            const double tokens = (double)B * S / T, G = (double)ls_dtype_bytes(ls_dtype_accumulator(types[t])),
                         expected = tokens * (14 * E * (double)ls_dtype_bytes(types[t]) + (HEADS + 2) * G),
                         kept = bytes_kept(3, B, S, types[t], T) - bytes_kept(2, B, S, types[t], T);
            if (kept != expected)
                fail_msg("%s, tp=%d: %g bytes, expected %g", ls_dtype_name(types[t]), T, kept, expected);
        }
    }
}

/* Logits in tiles: a rank never has more than those of a tile and its own words. */
static void test_logits(void **state) {
    (void)state;
    enum { S = 131072, WORDS = 128000, T = 4, TILE = 1024 };
    static const char config[] =
        "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 128000, \"hidden_size\": 32,"
        " \"intermediate_size\": 48, \"num_hidden_layers\": 1, \"num_attention_heads\": 4,"
        " \"num_key_value_heads\": 4, \"max_position_embeddings\": 131072}";
    const ls_target target = {.mesh = mesh_with_tp(1, 1, 1, T),
                              .strategy = "local",
                              .isa = LS_ISA_BASE,
                              .threads = 1,
                              .saving = {.tile = LS_TILE_LOSS, .tile_rows = TILE}};
    ls_graph *g;
    ls_image *image = compile_model(config, 1, S, LS_BF16, &target, &g);
    size_t largest = 0;
    for (int i = 0; i < image->n_buffers; i++)
        if (strstr(image->buffers[i].name, "logits") != NULL)
            largest = (size_t)ls_max((int64_t)largest, (int64_t)image->buffers[i].bytes);
    assert_int_equal(largest, (size_t)TILE * (WORDS / T) * sizeof(float));
    ls_image_destroy(image);
    ls_graph_destroy(g);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void refused(const ls_job *job, const ls_target *target, const char *says) {
    ls_image *image;
    const ls_status status = ls_compile(job, target, &image);
    assert_int_equal(status.code, LS_USAGE);
    if (strstr(status.text, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", status.text, says);
}

static void test_refused(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor sum = llama_loss(g);
    assert_int_equal(ls_graph_accumulate_loss(g, sum).code, LS_OK);
    assert_int_equal(ls_graph_differentiate_loss(g, sum).code, LS_OK);
    ls_job job = {.graph = g, .programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, 0)};
    ls_target target = {.mesh = mesh_with_tp(1, 1, 1, 2), .strategy = "local", .threads = 1, .canonical = true};
    refused(&job, &target, "--sums canonical: products over heads and features are added up over the ranks of tp=2");
    target.canonical = false;
    job.optimizer = &ls_optimizer_muon;
    job.hyper = ls_optimizer_defaults(job.optimizer);
    refused(&job, &target, "--optimizer muon updates whole matrices, and \"layers.0.q_proj\" is cut along --mesh tp=2");
    job.optimizer = NULL;
    target.mesh = mesh_with_tp(1, 1, 1, 9);
    refused(&job, &target, "--mesh tp=9: \"layers.0.q_proj\" has 8 heads or features");
    ls_graph_destroy(g);
}

static void test_unused_parameters(void **state) {
    (void)state;
    const network unused = {"unused", unused_loss, .ids = V};
    for (size_t p = 0; p < LS_COUNT(places); p++) {
        network_result many;
        const ls_target target = target_of(p, (int)p % LS_SHARD_MODES, 0);
        must(network_verify(&unused, &target, 1), &unused, p, &target);
        must(network_gradient(&unused, &target, LS_F64, LS_F64, 1, &many), &unused, p, &target);
        for (int f = 0; f < many.image->n_flats; f++) {
            const ls_flat *flat = &many.image->flats[f];
            double most = 0;
            for (int64_t i = 0; i < flat->whole_count; i++)
                most = fmax(most, fabs(many.gradient[flat->whole_start + i]));
            assert_true(strncmp(flat->name, "unused", 6) == 0 ? most == 0 : most > 0);
        }
        network_free(&many);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_gradients),
                                       cmocka_unit_test(test_same_parameters),
                                       cmocka_unit_test(test_proofs),
                                       cmocka_unit_test(test_gradients_alone),
                                       cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_kept),
                                       cmocka_unit_test(test_logits),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_unused_parameters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
