/*
 * The graph of a model: its gradient against finite differences, equal numbers over meshes, and compiling at odd
 * sizes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/model.h"
#include "support/meshes.h"
#include "support/scratch.h"
#include "support/spread.h"
#include "support/tensors.h"

#include <math.h>

/* Odd sizes everywhere; grouped queries, biases, a head size that is not E/Hq, rope scaling, tied tables. */
static const char small_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 13, \"hidden_size\": 10, \"intermediate_size\": 7,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 6,"
    " \"attention_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": true, \"initializer_range\": 0.4,"
    " \"rope_theta\": 100, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4, \"low_freq_factor\": 1,"
    " \"high_freq_factor\": 4, \"original_max_position_embeddings\": 16}}";

enum { B = 2, S = 11, TOKENS = B * S };

/* A model's job in f64, with inputs and parameters as global arrays. */
typedef struct fixture {
    ls_model *model;
    ls_graph *graph;
    ls_language_model lm;
    int32_t tokens[TOKENS], labels[TOKENS], positions[TOKENS];
    double seed;
    ls_image *alone; /* of one rank: where parameters lie in the arrays */
    int64_t n;       /* elements of its flat space */
    double *parameters;
} fixture;

static ls_job job_of(const fixture *f, ls_update update) {
    return (ls_job){.graph = f->graph, .programs = ls_training_programs(f->graph, f->lm.forward_nodes, update, 0)};
}

static ls_target target_of(int dp, int ring, int ulysses, const char *strategy, ls_layout_kind layout) {
    return (ls_target){
        .mesh = mesh_of(dp, ring, ulysses), .strategy = strategy, .layout = layout, .isa = LS_ISA_REF, .threads = 1};
}

/* Random parameters, as one rank holds them; biases and norms are moved off 0 and 1. */
static ls_status read_parameters(ls_comm *comm, void *context) {
    fixture *f = context;
    ls_image *image;
    ls_executor *executor;
    ls_weight_source source;
    const ls_job job = job_of(f, LS_UPDATE_REDUCE);
    const ls_target target = target_of(1, 1, 1, "local", LS_LAYOUT_CONTIGUOUS);
    LS_TRY(ls_compile(&job, &target, &image));
    LS_TRY(ls_executor_create(image, comm, &executor));
    LS_TRY(ls_model_weights(f->model, image, 7, &source));
    LS_TRY(ls_weights_fill(executor, &source));
    ls_weights_close(&source);
    f->n = image->flat_elements;
    f->parameters = calloc((size_t)f->n, sizeof(double));
    read_tensor(executor, LS_BIND_PARAMETERS, f->n, f->parameters);
    for (int i = 0; i < image->n_flats; i++)
        for (int64_t e = 0; image->flats[i].shape.ndim == 1 && e < image->flats[i].count; e++)
            f->parameters[image->flats[i].start + e] += 0.1 * ls_rng_normal(1, (uint64_t)i, (uint64_t)e);
    ls_executor_destroy(executor);
    f->alone = image;
    return ls_ok();
}

static void run_alone(ls_rank_main rank_main, void *context) {
    const ls_world_options options = {.ranks = 1, .heap_bytes = 1 << 20, .words = 1024, .wait_timeout = 20};
    ls_world *world;
    assert_ok(ls_world_create(NULL, &options, &world));
    assert_ok(ls_launch(world, 1, true, rank_main, context));
    ls_world_destroy(world);
}

static void set_up(void **state, fixture *f) {
    *f = (fixture){.seed = 1.0 / (TOKENS - 3)};
    assert_ok(ls_model_open(scratch_text(state, "config.json", small_config), &f->model));
    f->graph = ls_graph_create(LS_F64);
    assert_ok(ls_model_build(f->model, f->graph, B, S, true, &f->lm));
    for (int i = 0; i < TOKENS; i++) {
        f->tokens[i] = (int32_t)ls_rng_below(3, 0, (uint64_t)i, 13);
        f->labels[i] = i % 9 == 4 ? -100 : (int32_t)ls_rng_below(3, 1, (uint64_t)i, 13);
        f->positions[i] = i % S;
    }
    run_alone(read_parameters, f);
}

static void tear_down(fixture *f) {
    free(f->parameters);
    ls_image_destroy(f->alone);
    ls_graph_destroy(f->graph);
    ls_model_close(f->model);
}

/* Copies parameters from where they lie in one image's flat space to where they lie in another's. */
static void move(const ls_image *from, const double *source, const ls_image *to, double *target) {
    for (int i = 0; i < from->n_flats; i++)
        memcpy(target + to->flats[i].start, source + from->flats[i].start,
               sizeof *source * (size_t)from->flats[i].count);
}

/* Loss times seed, and the gradient when asked for, over a mesh. */
static ls_status evaluate(const fixture *f, const ls_target *target, double *gradient, double *loss) {
    const ls_job job = job_of(f, LS_UPDATE_REDUCE);
    ls_image *image;
    LS_TRY(ls_compile(&job, target, &image));
    double *parameters = calloc((size_t)image->flat_elements, sizeof *parameters),
           *found = calloc((size_t)image->flat_elements, sizeof *found);
    move(f->alone, f->parameters, image, parameters);
    const spread_array in[] = {{"tokens", (void *)(uintptr_t)f->tokens},
                               {"labels", (void *)(uintptr_t)f->labels},
                               {"positions", (void *)(uintptr_t)f->positions},
                               {LS_BIND_SCALE, (void *)(uintptr_t)&f->seed},
                               {LS_BIND_PARAMETERS, parameters}};
    double totals[LS_TOTALS] = {0};
    const spread_array out[] = {{LS_BIND_RESULT, totals}};
    const spread_job run = {.job = job,
                            .target = *target,
                            .update = true,
                            .in = in,
                            .n_in = (int)LS_COUNT(in),
                            .out = out,
                            .n_out = 1,
                            .gradient = found};
    const ls_status status = spread_run(&run);
    if (gradient != NULL) move(image, found, f->alone, gradient);
    free(parameters);
    free(found);
    ls_image_destroy(image);
    LS_TRY(status);
    *loss = totals[LS_TOTAL_LOSS] * f->seed;
    return ls_ok();
}

/* Central differences of the whole model, for parameters of every kind. */
static void test_finite_differences(void **state) {
    fixture f;
    set_up(state, &f);
    const ls_target alone = target_of(1, 1, 1, "local", LS_LAYOUT_CONTIGUOUS);
    double *gradient = calloc((size_t)f.n, sizeof *gradient);
    double loss = 0;
    assert_ok(evaluate(&f, &alone, gradient, &loss));
    assert_true(loss > 1.0 && loss < 20.0);
    int checked = 0;
    for (int64_t i = 0; i < f.n; i += 23) {
        const double at = f.parameters[i], h = 1e-5;
        double more = 0, less = 0;
        f.parameters[i] = at + h;
        assert_ok(evaluate(&f, &alone, NULL, &more));
        f.parameters[i] = at - h;
        assert_ok(evaluate(&f, &alone, NULL, &less));
        f.parameters[i] = at;
        const double difference = (more - less) / (2 * h);
        if (fabs(difference - gradient[i]) > 1e-7 * (1 + fabs(difference)))
            fail_msg("element %lld: gradient %.12g, difference quotient %.12g", (long long)i, gradient[i], difference);
        checked += difference != 0;
    }
    assert_true(checked > 30);
    free(gradient);
    tear_down(&f);
}

typedef struct mesh_case {
    int dp, ring, ulysses;
    const char *strategy;
    ls_layout_kind layout;
} mesh_case;

static const mesh_case cases[] = {
    {1, 2, 1, "ring", LS_LAYOUT_ZIGZAG},     {1, 3, 1, "ring", LS_LAYOUT_CONTIGUOUS},
    {1, 4, 1, "ring", LS_LAYOUT_STRIPED},    {1, 1, 2, "ulysses", LS_LAYOUT_CONTIGUOUS},
    {1, 1, 3, "ulysses", LS_LAYOUT_ZIGZAG},  {1, 1, 4, "ulysses", LS_LAYOUT_CONTIGUOUS},
    {1, 2, 2, "usp", LS_LAYOUT_ZIGZAG},      {2, 1, 1, "local", LS_LAYOUT_CONTIGUOUS},
    {2, 2, 1, "ring", LS_LAYOUT_CONTIGUOUS},
};

/* The whole model over ranks is the model on one rank, to rounding in f64. */
static void test_meshes(void **state) {
    fixture f;
    set_up(state, &f);
    const ls_target alone = target_of(1, 1, 1, "local", LS_LAYOUT_CONTIGUOUS);
    double *expected = calloc((size_t)f.n, sizeof *expected), *gradient = calloc((size_t)f.n, sizeof *gradient);
    double loss = 0, here = 0;
    assert_ok(evaluate(&f, &alone, expected, &loss));
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const mesh_case *c = &cases[i];
        const ls_target target = target_of(c->dp, c->ring, c->ulysses, c->strategy, c->layout);
        const ls_status status = evaluate(&f, &target, gradient, &here);
        const double error = relative_error(gradient, expected, f.n, 1e-3);
        if (status.code != LS_OK || !(error < 1e-12) || !(fabs(here - loss) < 1e-12 * loss))
            fail_msg("%s dp %d ring %d ulysses %d: %s; gradient off by %g, loss %.15g, expected %.15g", c->strategy,
                     c->dp, c->ring, c->ulysses, status.text, error, here, loss);
    }
    free(expected);
    free(gradient);
    tear_down(&f);
}

/* The job that training makes compiles for every mesh and type. */
static void test_training_compiles(void **state) {
    static const ls_dtype types[] = {LS_F32, LS_F64, LS_BF16};
    ls_model *model = NULL;
    ls_machine machine;
    ls_machine_detect(&machine);
    assert_ok(ls_model_open(scratch_text(state, "config.json", small_config), &model));
    for (size_t i = 0; i < LS_COUNT(cases) * LS_COUNT(types); i++) {
        const mesh_case *c = &cases[i / LS_COUNT(types)];
        ls_graph *g = ls_graph_create(types[i % LS_COUNT(types)]);
        ls_language_model lm;
        assert_ok(ls_model_build(model, g, B, S, true, &lm));
        const ls_job job = {.graph = g, .programs = ls_training_programs(g, lm.forward_nodes, LS_UPDATE_APPLY, 0)};
        ls_target target = target_of(c->dp, c->ring, c->ulysses, c->strategy, c->layout);
        target.isa = machine.isa; /* bf16 has no reference kernels */
        for (target.rank = 0; target.rank < ls_mesh_ranks(&target.mesh); target.rank++) {
            ls_image *image = NULL;
            assert_ok(ls_compile(&job, &target, &image));
            assert_non_null(ls_image_find(image, LS_BIND_LOSS));
            assert_int_equal(ls_image_find(image, LS_BIND_MASTER) != NULL, image->dtype == LS_BF16);
            assert_non_null(ls_image_find(image, LS_BIND_SCALE));
            ls_image_destroy(image);
        }
        ls_graph_destroy(g);
    }
    ls_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_meshes),
        cmocka_unit_test(test_training_compiles),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
