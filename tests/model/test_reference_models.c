/*
 * Logits and gradients of a small random model of each architecture against what the Hugging Face library computed with
 * the same files (tests/reference/make_models.py), on 1, 2 and 4 ranks in f32; and of one model with each kind of rope
 * scaling, as the command line asks for it.
 *
 * Tolerances: of logits 3e-6 of the largest one. Of gradients 1e-5 by |g - g*| / max(|g*|, 1e-3 of the norm of its kind
 * over the layers). Of models with a state, whose sums the library's own f32 has no nearer, 1e-5 and 1e-4, and of a
 * sensitive model what its row says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "graph/graph.h"
#include "model/model.h"
#include "session/session.h"
#include "support/scratch.h"
#include "support/tensors.h"

#include <math.h>

typedef struct folder {
    const char *name, *expected;
    ls_rope_change rope;
    bool convolves;   /* tokens need their neighbours, of which a striped layout has none */
    double sensitive; /* of logits, in place of the common tolerance; 0: that */
} folder;

static double logit_tolerance(const folder *f) {
    if (f->sensitive > 0) return f->sensitive;
    return f->convolves ? 1e-5 : 3e-6;
}

static double gradient_tolerance(const folder *f) { return f->convolves ? 1e-4 : 1e-5; }

static const folder folders[] = {
    {"llama", "expected", {NULL, 0}, false, 0},
    {"llama", "expected-linear", {"linear:2", 0}, false, 0},
    {"llama", "expected-dynamic", {"dynamic:4:16", 0}, false, 0},
    {"llama",
     "expected-yarn",
     {"{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16, \"beta_fast\": 2, "
      "\"beta_slow\": 0.5}",
      200},
     false,
     0},
    {"qwen2", "expected", {NULL, 0}, false, 0},
    {"qwen3", "expected", {NULL, 0}, false, 0},
    {"mistral", "expected", {NULL, 0}, false, 0},
    {"gpt2", "expected", {NULL, 0}, false, 0},
    {"gemma2", "expected", {NULL, 0}, false, 0},
    /* Where results of products are off by half an ulp of f32, the last token's logits are by 8e-7, all others by 2e-7.
     */
    {"gemma3", "expected", {NULL, 0}, false, 6e-6},
    {"phi3", "expected", {NULL, 0}, false, 0},
    {"olmo2", "expected", {NULL, 0}, false, 0},
    {"olmo3", "expected", {NULL, 0}, false, 0},
    {"smollm3", "expected", {NULL, 0}, false, 0},
    {"granite", "expected", {NULL, 0}, false, 0},
    {"ministral3", "expected", {NULL, 0}, false, 0},
    {"glm4", "expected", {NULL, 0}, false, 0},
    {"cohere2", "expected", {NULL, 0}, false, 0},
    {"seed_oss", "expected", {NULL, 0}, false, 0},
    {"starcoder2", "expected", {NULL, 0}, false, 0},
    {"qwen3_5", "expected", {NULL, 0}, true, 0},
    {"mamba2", "expected", {NULL, 0}, true, 0},
    {"nemotron_h", "expected", {NULL, 0}, true, 0},
};

static const struct {
    int64_t ranks;
    const char *strategy, *mesh, *layout;
} meshes[] = {
    {1, "local", NULL, "contiguous"}, {2, "ring", NULL, "zigzag"},
    {2, "ulysses", NULL, NULL},       {4, "usp", "ring=2,ulysses=2", "contiguous"},
    {4, "gather", NULL, "striped"},   {4, NULL, NULL, NULL},
};

enum { MOST_BYTES = 512 };

static const char *path_of(const folder *f, const char *inside, const char *file, char out[MOST_BYTES]) {
    snprintf(out, MOST_BYTES, LS_TEST_REFERENCE "/models/%s/%s%s%s", f->name, inside, inside[0] ? "/" : "", file);
    return out;
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

/* A model's job on given tokens, and what its ranks found. Ranks are threads of the test. */
typedef struct run {
    const folder *folder;
    ls_model *model;
    ls_graph *graph;
    ls_language_model lm;
    int32_t *positions;
    ls_npy tokens, labels;
    int64_t B, S, V, valid;
    float *logits;    /* [B,S,V] */
    float *gradients; /* flat, as the image lays parameters */
} run;

static void open_run(const folder *f, run *r) {
    char path[MOST_BYTES];
    *r = (run){.folder = f};
    assert_ok(ls_model_open_changed(path_of(f, "", "", path), &f->rope, &r->model));
    assert_ok(ls_npy_open(path_of(f, "expected", "tokens.npy", path), &r->tokens));
    assert_ok(ls_npy_open(path_of(f, "expected", "labels.npy", path), &r->labels));
    r->B = r->tokens.shape[0];
    r->S = r->tokens.shape[1];
    r->V = ls_model_describe(r->model).V;
    r->positions = calloc((size_t)(r->B * r->S), sizeof *r->positions);
    for (int64_t i = 0; i < r->B * r->S; i++) {
        r->positions[i] = (int32_t)(i % r->S);
        r->valid += ((const int32_t *)r->labels.data)[i] != -100;
    }
    r->graph = ls_graph_create(LS_F32);
    assert_ok(ls_model_build(r->model, r->graph, r->B, r->S, true, &r->lm));
    r->logits = calloc((size_t)(r->B * r->S * r->V), sizeof *r->logits);
    r->gradients = calloc((size_t)ls_model_parameters(r->model) * 4 + (1 << 16), sizeof *r->gradients);
}

static void close_run(run *r) {
    ls_npy_close(&r->tokens);
    ls_npy_close(&r->labels);
    ls_graph_destroy(r->graph);
    ls_model_close(r->model);
    free(r->positions);
    free(r->logits);
    free(r->gradients);
}

/* Ranks are threads: each writes its part into the arrays of the run. */
static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    (void)result;
    const run *r = input;
    ls_weight_source source;
    LS_TRY(ls_model_weights(r->model, rank->image, 0, &source));
    const ls_status status = ls_weights_fill(rank->executor, &source);
    ls_weights_close(&source);
    LS_TRY(status);
    LS_TRY(ls_executor_scatter(rank->executor, ls_image_find(rank->image, "tokens"), r->tokens.data));
    LS_TRY(ls_executor_scatter(rank->executor, ls_image_find(rank->image, "labels"), r->labels.data));
    const ls_binding *positions = ls_image_find(rank->image, "positions");
    if (positions != NULL) LS_TRY(ls_executor_scatter(rank->executor, positions, r->positions));
    const float scale = (float)(1.0 / (double)r->valid);
    write_tensor(rank->executor, LS_BIND_SCALE, 1, &scale);
    LS_TRY(ls_executor_run(rank->executor, ls_program_find(ls_executor_image(rank->executor), LS_PROGRAM_STEP)));
    LS_TRY(ls_executor_gather(rank->executor, ls_image_find(rank->image, "logits"), r->logits));
    for (int p = 0; p < rank->image->n_pieces; p++) {
        const ls_flat_piece piece = ls_image_piece(rank->image, p, rank->rank);
        const ls_operand from = ls_image_elements(rank->image, LS_BIND_SHARD, piece.at, piece.count);
        LS_TRY(ls_executor_read(rank->executor, &from, r->gradients + piece.start));
    }
    return ls_comm_barrier(rank->comm);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static double compare_logits(const folder *f, int64_t count, const float *logits) {
    ls_npy expected;
    char path[MOST_BYTES];
    double most = 0, largest = 0;
    assert_ok(ls_npy_open(path_of(f, f->expected, "logits.npy", path), &expected));
    assert_int_equal(expected.count, count);
    for (int64_t i = 0; i < count; i++) {
        const double right = (double)((const float *)expected.data)[i];
        const double off = fabs((double)logits[i] - right);
        if (!(off <= most)) most = off;
        largest = fmax(largest, fabs(right));
    }
    ls_npy_close(&expected);
    assert_true(largest > 1);
    return most / largest;
}

static double squares(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (b != NULL ? (double)b[i] : 0);
        sum += d * d;
    }
    return sum;
}

/* The name from the layer's number on: "model.layers.1.mlp.up_proj.weight" and "model.layers.0...." are one kind. */
static const char *kind_of(const char *name) {
    const char *digit = strpbrk(name, "0123456789");
    return digit != NULL && digit > name && digit[-1] == '.' && strchr(digit, '.') ? strchr(digit, '.') : name;
}

static double norm_of_kind(const ls_st_file *file, const char *name) {
    double sum = 0;
    for (int64_t i = 0; i < ls_st_count(file); i++) {
        const ls_st_tensor *t = ls_st_at(file, i);
        if (strcmp(kind_of(t->name), kind_of(name)) == 0) sum += squares(t->data, NULL, t->count);
    }
    return sqrt(sum);
}

static const ls_flat *find_flat(const ls_image *image, const char *name) {
    for (int f = 0; f < image->n_flats; f++)
        if (strcmp(image->flats[f].name, name) == 0) return &image->flats[f];
    return NULL;
}

/*
 * Every tensor of the reference is a parameter of that shape, and where the reference has all, the other way round too.
 */
static double compare_gradients(const run *r, const ls_image *image, char worst[128]) {
    ls_st_file *file;
    char path[MOST_BYTES];
    double most = 0;
    assert_ok(ls_st_open(path_of(r->folder, r->folder->expected, "gradients.safetensors", path), &file));
    if (r->folder->rope.scaling == NULL) assert_int_equal(ls_st_count(file), image->n_flats);
    for (int64_t i = 0; i < ls_st_count(file); i++) {
        const ls_st_tensor *right = ls_st_at(file, i);
        const ls_flat *flat = find_flat(image, right->name);
        if (flat == NULL) fail_msg("%s is no parameter of %s", right->name, r->folder->name);
        assert_int_equal(flat->shape.ndim, right->ndim);
        for (int d = 0; d < right->ndim; d++) assert_int_equal(flat->shape.dim[d].size, right->shape[d]);
        assert_int_equal((uintptr_t)right->data % sizeof(float), 0);
        const double norm =
            fmax(sqrt(squares(right->data, NULL, right->count)), 1e-3 * norm_of_kind(file, right->name));
        const double error = sqrt(squares(r->gradients + flat->start, right->data, right->count)) / norm;
        if (error <= most) continue;
        most = error;
        snprintf(worst, 128, "%s", right->name);
    }
    ls_st_close(file);
    return most;
}

/* ls_spread of a mesh. */
static ls_spread spread_of(const folder *f, size_t mesh) {
    const char *layout = meshes[mesh].layout;
    const bool striped = layout != NULL && strcmp(layout, "striped") == 0;
    return (ls_spread){.ranks = meshes[mesh].ranks,
                       .strategy = meshes[mesh].strategy,
                       .mesh = meshes[mesh].mesh,
                       .layout = striped && f->convolves ? "zigzag" : layout,
                       .threads = 1,
                       .as_threads = true};
}

static void check(const folder *f, size_t mesh) {
    run r;
    ls_session *session;
    char worst[128] = "";
    open_run(f, &r);
    const ls_spread spread = spread_of(f, mesh);
    const ls_job job = {.graph = r.graph,
                        .programs = ls_training_programs(r.graph, r.lm.forward_nodes, LS_UPDATE_REDUCE, 0),
                        .fetch = &r.lm.logits,
                        .n_fetch = 1};
    assert_ok(ls_session_open(&job, &spread, &session));
    assert_ok(ls_session_run(session, on_rank, &r, NULL, 0));
    const double logits = compare_logits(f, r.B * r.S * r.V, r.logits);
    const double gradients = compare_gradients(&r, ls_session_image(session), worst);
    print_message("%-8s %-16s %lld ranks: logits %.1e, gradients %.1e\n", f->name, f->expected, (long long)spread.ranks,
                  logits, gradients);
    if (!(logits <= logit_tolerance(f)) || !(gradients <= gradient_tolerance(f)))
        fail_msg("%s %s on mesh %zu: logits off by %g, gradient of %s by %g", f->name, f->expected, mesh, logits, worst,
                 gradients);
    ls_session_close(session);
    close_run(&r);
}

static void test_parity(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(folders); i++)
        for (size_t m = 0; m < LS_COUNT(meshes); m++) check(&folders[i], m);
}

/* The command's own way: files with the published names and shapes, and with the logits. */
static void test_grad_command(void **state) {
    for (size_t i = 0; i < LS_COUNT(folders); i++) {
        const folder *f = &folders[i];
        char model[MOST_BYTES], tokens[MOST_BYTES], labels[MOST_BYTES], expected[MOST_BYTES], out[MOST_BYTES];
        char logits[MOST_BYTES];
        ls_npy made_logits;
        ls_st_file *made, *right;
        const ls_st_tensor *found;
        ls_grad_result result;
        snprintf(logits, sizeof logits, "%s", scratch_path(state, "logits.npy"));
        snprintf(out, sizeof out, "%s", scratch_path(state, "gradients.safetensors"));
        const ls_grad_job job = {.model = path_of(f, "", "", model),
                                 .tokens = path_of(f, "expected", "tokens.npy", tokens),
                                 .rope = f->rope,
                                 .labels = path_of(f, "expected", "labels.npy", labels),
                                 .out = out,
                                 .logits = logits,
                                 .spread = spread_of(&folders[0], 1)};
        assert_ok(ls_run_grad(&job, &result));
        assert_ok(ls_st_open(out, &made));
        assert_ok(ls_npy_open(logits, &made_logits));
        assert_int_equal(made_logits.type, LS_NPY_F4);
        assert_int_equal(made_logits.ndim, 3);
        assert_true(compare_logits(f, made_logits.count, made_logits.data) <= logit_tolerance(f));
        ls_npy_close(&made_logits);
        assert_ok(ls_st_open(path_of(f, "expected", "gradients.safetensors", expected), &right));
        assert_int_equal(ls_st_count(made), ls_st_count(right));
        for (int64_t t = 0; t < ls_st_count(right); t++) {
            const ls_st_tensor *one = ls_st_at(right, t);
            assert_ok(ls_st_need(made, one->name, one->ndim, one->shape, &found));
        }
        ls_st_close(made);
        ls_st_close(right);
    }
}

/* --- what is left out shows ------------------------------------------------------------------------------------------
 */

typedef struct member {
    const char *key, *value;
} member;

/* Parts of architectures that a reader could forget: a config without each, and weights that stay. */
static const struct {
    const char *folder, *what;
    member changes[4];
} omissions[] = {
    {"llama", "scaling", {{"rope_scaling", "null"}}},
    {"gemma3", "the theta of layers with a window", {{"rope_local_base_freq", "1000"}}},
    {"gemma3", "scaling", {{"rope_scaling", "null"}}},
    {"gemma3",
     "scaling only where there is no window",
     {{"rope_scaling", "null"},
      {"rope_theta", "1000"},
      {"rope_parameters", "{\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8, \"rope_theta\": 1000}, "
                          "\"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 8, \"rope_theta\": 30}}"}}},
    {"gemma3", "the cap of logits", {{"final_logit_softcapping", "null"}}},
    {"gemma3", "the scale of queries", {{"query_pre_attn_scalar", "4"}}},
    {"gemma2", "the cap of attention", {{"attn_logit_softcapping", "null"}}},
    {"gemma2", "the window", {{"layer_types", "[\"full_attention\", \"full_attention\"]"}}},
    {"olmo3",
     "scaling",
     {{"rope_parameters", "{\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": 1000}, "
                          "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 1000}}"}}},
    {"olmo3",
     "scaling only where there is no window",
     {{"rope_parameters", "{\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": 1000}, "
                          "\"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": 1000}}"}}},
    {"phi3", "the switch of longrope", {{"original_max_position_embeddings", "24"}}},
    {"phi3", "a part of heads that does not rotate", {{"rope_scaling", "null"}, {"partial_rotary_factor", "1.0"}}},
    {"smollm3", "layers that do not rotate", {{"no_rope_layers", "[1, 1]"}}},
    {"granite", "the factor of embeddings", {{"embedding_multiplier", "1"}}},
    {"granite", "the factor of blocks", {{"residual_multiplier", "1"}}},
    {"granite", "the factor of attention", {{"attention_multiplier", "1"}}},
    {"granite", "the divisor of logits", {{"logits_scaling", "1"}}},
    {"ministral3",
     "the factor of queries",
     {{"rope_parameters", "{\"rope_type\": \"yarn\", \"rope_theta\": 1000, \"factor\": 4, "
                          "\"original_max_position_embeddings\": 7, \"beta_fast\": 2, \"beta_slow\": 0.5, "
                          "\"mscale\": 1, \"mscale_all_dim\": 1, \"llama_4_scaling_beta\": 0}"}}},
    {"glm4", "the half of heads that does not rotate", {{"partial_rotary_factor", "1.0"}}},
    {"cohere2", "the scale of logits", {{"logit_scale", "1"}}},
    {"cohere2", "layers with a window, which alone rotate", {{"sliding_window_pattern", "1"}}},
    {"cohere2", "layers that do not rotate", {{"sliding_window_pattern", "3"}}},
};

/* The folder's model with other fields in the scratch folder. */
static void write_changed(void **state, const char *name, const member *changes) {
    const folder f = {.name = name};
    char path[MOST_BYTES], *text = NULL;
    size_t bytes = 0;
    (void)remove(scratch_path(state, "model.safetensors"));
    assert_int_equal(symlink(path_of(&f, "", "model.safetensors", path), scratch_path(state, "model.safetensors")), 0);
    assert_ok(ls_file_read(path_of(&f, "", "config.json", path), 1 << 20, &text, &bytes));
    for (const member *m = changes; m->key != NULL; m++) {
        char *changed = NULL;
        assert_ok(ls_json_set_member(text, m->key, m->value, &changed));
        free(text);
        text = changed;
    }
    scratch_text(state, "config.json", text);
    free(text);
}

/* Logits without the part are others, by far more than the tolerance. */
static void test_omissions(void **state) {
    for (size_t i = 0; i < LS_COUNT(omissions); i++) {
        const folder f = {.name = omissions[i].folder, .expected = "expected"};
        char tokens[MOST_BYTES], logits[MOST_BYTES], out[MOST_BYTES];
        ls_npy made;
        ls_grad_result result;
        write_changed(state, f.name, omissions[i].changes);
        snprintf(logits, sizeof logits, "%s", scratch_path(state, "logits.npy"));
        snprintf(out, sizeof out, "%s", scratch_path(state, "gradients.safetensors"));
        const ls_grad_job job = {.model = *state,
                                 .tokens = path_of(&f, "expected", "tokens.npy", tokens),
                                 .out = out,
                                 .logits = logits,
                                 .spread = {.ranks = 1, .threads = 1, .as_threads = true}};
        assert_ok(ls_run_grad(&job, &result));
        assert_ok(ls_npy_open(logits, &made));
        const double off = compare_logits(&f, made.count, made.data);
        ls_npy_close(&made);
        print_message("%-10s without %s: logits %.1e\n", f.name, omissions[i].what, off);
        if (!(off > 1e-3)) fail_msg("%s without %s: logits off by %g alone", f.name, omissions[i].what, off);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parity),
        cmocka_unit_test(test_grad_command),
        cmocka_unit_test(test_omissions),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
