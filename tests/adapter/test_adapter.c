/*
 * Adapters without peft: what --lora and adapter_config.json may say, which modules are meant, how a new adapter
 * begins, the same numbers on every mesh, and merging. tests/python/test_adapters.py compares with peft.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "adapter/adapter.h"
#include "cli/cli.h"
#include "model/model.h"
#include "support/scratch.h"

enum { S = 19, B = 2, V = 40 };

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 24,"
    " \"intermediate_size\": 40, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"max_position_embeddings\": 64, \"attention_bias\": true, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": %s}";

/* --- files -------------------------------------------------------------------------------------------------------- */

static double number_of(const char *name, int64_t i) {
    return 0.3 * ls_rng_normal(5, ls_rng_stream(name), (uint64_t)i);
}

/* A file of the parameters of a model, random: those that an adapter's files have, or (own) those of the model's. */
static void write_tensors(const char *path, const ls_model *model, bool own) {
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model lm;
    assert_ok(ls_model_build(model, g, 1, 4, false, &lm));
    ls_st_entry *entries = calloc((size_t)g->n_tensors, sizeof *entries);
    int n = 0;
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER || (own ? info->added : info->borrowed)) continue;
        entries[n] = (ls_st_entry){.dtype = LS_ST_F32, .ndim = info->shape.ndim};
        entries[n].name = ls_arena_printf(g->arena, "%s%s", own ? "" : "base_model.model.", info->name);
        for (int d = 0; d < info->shape.ndim; d++) entries[n].shape[d] = info->shape.dim[d].size;
        n++;
    }
    ls_st_plan *plan;
    ls_st_writer *writer;
    assert_ok(ls_st_plan_create(entries, n, NULL, 0, &plan));
    assert_ok(ls_st_create(path, plan, &writer));
    for (int i = 0; i < n; i++) {
        const int64_t count = ls_st_plan_bytes(plan, i) / (int64_t)sizeof(float);
        float *values = malloc(sizeof *values * (size_t)count);
        for (int64_t k = 0; k < count; k++) values[k] = (float)number_of(entries[i].name, k);
        assert_ok(ls_st_write(writer, i, 0, values, count * (int64_t)sizeof *values));
        free(values);
    }
    assert_ok(ls_st_finish(writer));
    ls_st_plan_destroy(plan);
    free(entries);
    ls_graph_destroy(g);
}

static ls_model *open_model(void **state, const char *lora) {
    ls_model *model = NULL;
    assert_ok(ls_model_open(scratch_path(state, "base"), &model));
    if (lora != NULL) assert_ok(ls_model_adapt(model, &(ls_adapter_choice){.lora = lora}));
    return model;
}

static void write_base(void **state, const char *tied) {
    char text[1024];
    snprintf(text, sizeof text, config, tied);
    assert_ok(ls_file_make_folders(scratch_path(state, "base")));
    assert_ok(ls_file_remove_tree(scratch_path(state, "base/model.safetensors")));
    (void)scratch_text(state, "base/config.json", text);
    ls_model *model = open_model(state, NULL);
    write_tensors(scratch_path(state, "base/model.safetensors"), model, true);
    ls_model_close(model);
}

/* The folder of an adapter as --lora describes it, but with numbers for all of it. */
static void write_adapter(void **state, const char *lora) {
    ls_model *model = open_model(state, lora);
    assert_ok(ls_file_make_folders(scratch_path(state, "adapter")));
    (void)scratch_text(state, "adapter/adapter_config.json", ls_model_written(model).adapter);
    write_tensors(scratch_path(state, "adapter/adapter_model.safetensors"), model, false);
    ls_model_close(model);
}

/* --- what may be said --------------------------------------------------------------------------------------------- */

static void mistakes_in_lora(void **state) {
    static const struct {
        const char *lora, *found, *expected;
    } mistakes[] = {
        {"r=0", "'r=0'", "expected r=N"},
        {"r=2.5", "'r=2.5'", "expected r=N"},
        {"alpha=-1", "'alpha=-1'", "alpha=X"},
        {"r=4,rank=3", "'rank=3'", "modules-to-save"},
        {"dora=1", "'dora=1'", "rslora and dora"},
        {"target=", "'target='", "PATTERN"},
        {"r=4,,dora", "''", "with commas between"},
        {"target=q_prj", "target=q_prj matches no module", "q_proj"},
        {"target=q_proj,modules-to-save=nrm", "modules-to-save=nrm", "matches no module"},
    };
    write_base(state, "false");
    for (size_t i = 0; i < LS_COUNT(mistakes); i++) {
        ls_model *model = open_model(state, NULL);
        assert_error(ls_model_adapt(model, &(ls_adapter_choice){.lora = mistakes[i].lora}), LS_USAGE, mistakes[i].found,
                     mistakes[i].expected);
        ls_model_close(model);
    }
    ls_model *model = open_model(state, "r=2");
    assert_error(ls_model_adapt(model, &(ls_adapter_choice){.lora = "r=2"}), LS_USAGE, "adapter already", "--lora");
    ls_model_close(model);
}

static void mistakes_in_a_config(void **state) {
    static const struct {
        const char *text;
        ls_code code;
        const char *found, *expected;
    } mistakes[] = {
        {"{}", LS_INVALID, "peft_type is missing", "expected"},
        {"{\"peft_type\": \"LOHA\"}", LS_UNSUPPORTED, "peft_type is \"LOHA\"", "\"LORA\""},
        {"{\"peft_type\": \"LORA\", \"r\": 0}", LS_INVALID, "r is 0", "1"},
        {"{\"peft_type\": \"LORA\", \"bias\": \"all\"}", LS_UNSUPPORTED, "bias is \"all\"", "\"none\""},
        {"{\"peft_type\": \"LORA\", \"init_lora_weights\": \"pissa\"}", LS_UNSUPPORTED, "pissa", "change the weights"},
        {"{\"peft_type\": \"LORA\", \"target_parameters\": [\"x\"]}", LS_UNSUPPORTED, "target_parameters", "left out"},
        {"{\"peft_type\": \"LORA\", \"alpha_pattern\": {\"q\": \"2\"}}", LS_INVALID, "alpha_pattern.q", "number"},
    };
    write_base(state, "false");
    write_adapter(state, "r=2");
    for (size_t i = 0; i < LS_COUNT(mistakes); i++) {
        ls_model *model = open_model(state, NULL);
        (void)scratch_text(state, "adapter/adapter_config.json", mistakes[i].text);
        assert_error(ls_model_adapt(model, &(ls_adapter_choice){.folder = scratch_path(state, "adapter")}),
                     mistakes[i].code, mistakes[i].found, mistakes[i].expected);
        ls_model_close(model);
    }
}

/* --- which modules ------------------------------------------------------------------------------------------------ */

typedef struct counts {
    int added, trained, borrowed; /* parameters: of adapters, of the model's that are trained, and that are not */
} counts;

static counts count_of(const ls_model *model) {
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model lm;
    counts c = {0};
    assert_ok(ls_model_build(model, g, 1, 4, false, &lm));
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        assert_int_equal(info->frozen, info->borrowed);
        c.added += info->added;
        c.borrowed += info->borrowed;
        c.trained += !info->added && !info->borrowed;
    }
    ls_graph_destroy(g);
    return c;
}

static void modules_are_found(void **state) {
    static const struct {
        const char *lora;
        counts expected;
    } cases[] = {
        {"r=2", {28, 0, 29}}, /* seven matrices of each layer: the head and the table are none of them */
        {"r=2,dora", {42, 0, 29}},
        {"r=2,target=q_proj", {4, 0, 29}},
        {"r=2,target=q_proj+model.layers.1.*", {16, 0, 29}},
        {"r=2,target=self_attn.*_proj", {16, 0, 29}},
        {"r=2,target=embed_tokens+lm_head", {4, 0, 29}},
        {"r=2,modules-to-save=*norm+embed_tokens", {28, 6, 23}}, /* LongLoRA: norms and the table */
        {"r=2,modules-to-save=layers.0.self_attn", {20, 8, 21}}, /* with its biases; it has no adapter then */
    };
    write_base(state, "false");
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_model *model = open_model(state, cases[i].lora);
        const counts c = count_of(model), e = cases[i].expected;
        if (c.added != e.added || c.trained != e.trained || c.borrowed != e.borrowed)
            fail_msg("%s: %d of adapters, %d trained, %d not", cases[i].lora, c.added, c.trained, c.borrowed);
        ls_model_close(model);
    }
}

/* peft would change one use of a tied matrix and leave the other. */
static void a_tied_matrix_is_refused(void **state) {
    static const char *const tied[] = {"target=embed_tokens", "target=lm_head", "modules-to-save=embed_tokens",
                                       "modules-to-save=lm_head"};
    write_base(state, "true");
    for (size_t i = 0; i < LS_COUNT(tied); i++) {
        ls_model *model = open_model(state, NULL);
        assert_error(ls_model_adapt(model, &(ls_adapter_choice){.lora = tied[i]}), LS_UNSUPPORTED,
                     "model.embed_tokens is tied", "lm_head.weight");
        ls_model_close(model);
    }
    ls_model *model = open_model(state, "r=2");
    assert_int_equal(count_of(model).added, 28);
    ls_model_close(model);
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* The parameters of a model as an image has them, and its weights. */
typedef struct parameters {
    ls_model *model;
    ls_graph *graph;
    ls_image *image;
    ls_weight_source source;
} parameters;

static parameters open_parameters(void **state, const ls_adapter_choice *choice) {
    parameters p = {.model = open_model(state, NULL), .graph = ls_graph_create(LS_F32)};
    ls_language_model lm;
    assert_ok(ls_model_adapt(p.model, choice));
    assert_ok(ls_model_build(p.model, p.graph, 1, 4, false, &lm));
    p.image = LS_NEW(p.graph->arena, ls_image);
    p.image->flats = LS_NEW_ARRAY(p.graph->arena, ls_flat, p.graph->n_tensors);
    for (int t = 1; t < p.graph->n_tensors; t++) {
        const ls_tensor_info *info = &p.graph->tensors[t];
        if (info->role == LS_ROLE_PARAMETER)
            p.image->flats[p.image->n_flats++] =
                (ls_flat){.name = info->name, .shape = info->shape, .borrowed = info->borrowed, .added = info->added};
    }
    assert_ok(ls_model_weights(p.model, p.image, 3, &p.source));
    return p;
}

static void close_parameters(parameters *p) {
    ls_weights_close(&p->source);
    ls_graph_destroy(p->graph);
    ls_model_close(p->model);
}

static const ls_flat *flat_of(const parameters *p, const char *name) {
    for (int i = 0; i < p->image->n_flats; i++)
        if (strcmp(p->image->flats[i].name, name) == 0) return &p->image->flats[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* All numbers of a parameter, read in two parts; the caller frees them. */
static double *read_of(const parameters *p, const ls_weight_source *source, const char *name) {
    const ls_flat *flat = flat_of(p, name);
    const int64_t n = ls_shape_elements(&flat->shape), half = n / 3;
    double *x = malloc(sizeof *x * (size_t)n);
    assert_ok(source->read(source->context, flat, 0, half, x));
    assert_ok(source->read(source->context, flat, half, n - half, x + half));
    return x;
}

#define Q "model.layers.1.self_attn.q_proj"

static void an_adapter_begins_as_in_peft(void **state) {
    write_base(state, "false");
    parameters p = open_parameters(state, &(ls_adapter_choice){.lora = "r=3,dora"});
    double *a = read_of(&p, &p.source, Q ".lora_A.weight"), *b = read_of(&p, &p.source, Q ".lora_B.weight");
    double *m = read_of(&p, &p.source, Q ".lora_magnitude_vector"), *w = read_of(&p, &p.source, Q ".weight");
    const double bound = 1 / sqrt(24);
    double most = 0, sum = 0;
    for (int i = 0; i < 3 * 24; i++) {
        most = fmax(most, fabs(a[i]));
        sum += a[i];
    }
    assert_true(most <= bound && most > 0.9 * bound && fabs(sum / (3 * 24)) < 0.2 * bound);
    for (int row = 0; row < 24; row++) {
        double squares = 0;
        for (int i = 0; i < 24; i++) squares += w[row * 24 + i] * w[row * 24 + i];
        assert_true(fabs(m[row] - sqrt(squares)) <= 1e-12 * m[row]);
        for (int i = 0; i < 3; i++) assert_true(b[row * 3 + i] == 0);
    }
    free(a), free(b), free(m), free(w);
    close_parameters(&p);
}

static void merging_adds(void **state) {
    static const char *const loras[] = {"r=3,alpha=5,target=q_proj+embed_tokens",
                                        "r=3,alpha=5,rslora,dora,target=q_proj"};
    for (size_t i = 0; i < LS_COUNT(loras); i++) {
        write_base(state, "false");
        write_adapter(state, loras[i]);
        parameters p = open_parameters(state, &(ls_adapter_choice){.folder = scratch_path(state, "adapter")});
        double *a = read_of(&p, &p.source, Q ".lora_A.weight"), *b = read_of(&p, &p.source, Q ".lora_B.weight");
        double *w = read_of(&p, &p.source, Q ".weight");
        double *m = i == 1 ? read_of(&p, &p.source, Q ".lora_magnitude_vector") : NULL;
        ls_weight_source merged;
        assert_ok(ls_model_merged(p.model, p.image, &p.source, &merged));
        p.source.context = NULL; /* it is the other's */
        double *sum = read_of(&p, &merged, Q ".weight"), *other = read_of(&p, &merged, "model.norm.weight"), change;
        assert_false(ls_adapter_merged_change(&merged, flat_of(&p, "model.norm.weight"), &change));
        assert_true(other[5] == (double)(float)number_of("model.norm.weight", 5));
        for (int row = 0; row < 24; row++) {
            double expected[24], squares = 0;
            for (int k = 0; k < 24; k++) {
                expected[k] = w[row * 24 + k];
                for (int j = 0; j < 3; j++) expected[k] += 5 / (i == 1 ? sqrt(3) : 3) * b[row * 3 + j] * a[j * 24 + k];
                squares += expected[k] * expected[k];
            }
            for (int k = 0; k < 24; k++) {
                const double e = expected[k] * (m != NULL ? m[row] / sqrt(squares) : 1);
                assert_true(fabs(sum[row * 24 + k] - e) <= 1e-14 * (1 + fabs(e)));
            }
        }
        free(a), free(b), free(w), free(m), free(sum), free(other);
        ls_weights_close(&merged);
        close_parameters(&p);
    }
}

/* --- on meshes ---------------------------------------------------------------------------------------------------- */

static void write_tokens(void **state) {
    int32_t tokens[B * S];
    for (int i = 0; i < B * S; i++) tokens[i] = (int32_t)(ls_rng_bits(5, 0, (uint64_t)i) % V);
    assert_ok(ls_npy_write(scratch_path(state, "tokens.npy"), LS_NPY_I4, 2, (const int64_t[]){B, S}, tokens));
}

static double differentiate(void **state, const char *mesh, const char *out) {
    char model[512], adapter[512], tokens[512], file[512];
    snprintf(model, sizeof model, "%s", scratch_path(state, "base"));
    snprintf(adapter, sizeof adapter, "%s", scratch_path(state, "adapter"));
    snprintf(tokens, sizeof tokens, "%s", scratch_path(state, "tokens.npy"));
    snprintf(file, sizeof file, "%s", scratch_path(state, out));
    const ls_grad_job job = {.model = model,
                             .adapter = {.folder = adapter},
                             .tokens = tokens,
                             .dtype = "f64",
                             .out = file,
                             .spread = {.mesh = mesh, .threads = 1, .as_threads = true}};
    ls_grad_result result;
    assert_ok(ls_run_grad(&job, &result));
    return result.loss;
}

static void compare_gradients(void **state, const char *mesh) {
    ls_st_file *one, *many;
    assert_ok(ls_st_open(scratch_path(state, "one"), &one));
    assert_ok(ls_st_open(scratch_path(state, "many"), &many));
    assert_int_equal(ls_st_count(one), ls_st_count(many));
    for (int64_t i = 0; i < ls_st_count(one); i++) {
        const ls_st_tensor *x = ls_st_at(one, i), *y = ls_st_find(many, x->name);
        assert_non_null(y);
        const double *a = x->data, *b = y->data;
        double most = 0, apart = 0;
        for (int64_t k = 0; k < x->count; k++) {
            most = fmax(most, fabs(a[k]));
            apart = fmax(apart, fabs(a[k] - b[k]));
        }
        assert_true(most > 0);
        if (!(apart <= 1e-12 * most)) fail_msg("%s: %s differs by %g of %g", mesh, x->name, apart, most);
    }
    ls_st_close(one);
    ls_st_close(many);
}

static void the_same_on_all_meshes(void **state) {
    static const char *const loras[] = {"r=3,alpha=5,target=*_proj+embed_tokens+lm_head,modules-to-save=*norm",
                                        "r=3,alpha=5,dora,modules-to-save=embed_tokens"};
    static const char *const meshes[] = {"ring=3", "ulysses=2", "tp=2", "ring=2,tp=2", "dp=2,ring=2"};
    write_tokens(state);
    for (size_t i = 0; i < LS_COUNT(loras); i++) {
        write_base(state, "false");
        write_adapter(state, loras[i]);
        const double loss = differentiate(state, "ring=1", "one");
        for (size_t m = 0; m < LS_COUNT(meshes); m++) {
            const double other = differentiate(state, meshes[m], "many");
            if (!(fabs(other - loss) <= 1e-12)) fail_msg("%s: loss %.17g, on one rank %.17g", meshes[m], other, loss);
            compare_gradients(state, meshes[m]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mistakes_in_lora, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(mistakes_in_a_config, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(modules_are_found, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(a_tied_matrix_is_refused, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(an_adapter_begins_as_in_peft, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(merging_adds, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(the_same_on_all_meshes, scratch_make, scratch_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
