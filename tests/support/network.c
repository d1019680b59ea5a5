#include "network.h"
#include "meshes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "kernel_call.h"
#include "model/model.h"
#include "program/program.h"
#include "run/interpret.h"
#include "spread.h"

enum { MOST_INPUTS = 256 };
/* Of AdamW: large, so that a gradient of zero but for rounding makes no step. */
static const double epsilon = 1e-3;

static ls_status build_model(const network *n, ls_graph *g) {
    ls_model *model;
    ls_language_model lm;
    LS_TRY(ls_model_open_text(n->name, n->config, &model));
    const ls_status status = ls_model_build(model, g, n->B, n->S, true, &lm);
    ls_model_close(model);
    return status;
}

static ls_status build_loss(const network *n, ls_graph *g) {
    const ls_tensor loss = n->loss(g);
    LS_TRY(ls_graph_accumulate_loss(g, loss));
    return ls_graph_differentiate_loss(g, loss);
}

/* The graph, differentiated. Parameter gradients go to accumulators. */
static ls_status build(const network *n, ls_dtype dtype, ls_graph **out) {
    ls_graph *g = *out = ls_graph_create(dtype);
    LS_TRY(n->config != NULL ? build_model(n, g) : build_loss(n, g));
    for (int i = 0; i < g->n_nodes && n->mask != NULL; i++) {
        ls_mask *mask = (ls_mask *)(uintptr_t)ls_node_mask(&g->nodes[i]);
        if (mask != NULL) *mask = *n->mask;
    }
    return ls_ok();
}

/* A step's job: the update of several micro-batches where it accumulates. */
static ls_job job_of(const network *n, const ls_graph *g, ls_update update, bool accumulates) {
    ls_job job = {.graph = g,
                  .programs = ls_training_programs(g, 0, update, accumulates),
                  .optimizer = n->optimizer,
                  .filled_together = n->filled_together};
    job.hyper = ls_optimizer_defaults(ls_job_optimizer(&job));
    job.hyper.epsilon = epsilon;
    return job;
}

/* The place of token i in its document. */
static int32_t place_in_document(int64_t i, int64_t S) {
    int32_t place = 0;
    for (; i % S != 0 && i % 7 != 3 && i % 11 != 4; i--) place++;
    return place;
}

/* The number of token i for the input of that name. */
static int32_t id_of(const network *n, const char *name, int64_t i, int64_t S) {
    if (strcmp(name, "positions") == 0) return (int32_t)(i % S);
    if (strcmp(name, "places") == 0) return place_in_document(i, S);
    if (strcmp(name, "labels") == 0 && i % S == S - 1) return -100;
    const int64_t at = strcmp(name, "labels") == 0 ? i + 1 : i;
    return (int32_t)((at * at * 7 + at * 3 + at / 5) % n->ids);
}

static void put(void *array, ls_dtype dtype, int64_t i, double value) {
    if (dtype == LS_F64)
        ((double *)array)[i] = value;
    else if (dtype == LS_F32)
        ((float *)array)[i] = (float)value;
    else
        ((ls_bf16 *)array)[i] = ls_bf16_from_f32((float)value);
}

/*
 * Of all micro-batches of a program, and the slices of each, which take their parts of the same inputs, under their own
 * names, which lie behind the values: ids, and 1 for what the loss is multiplied by.
 */
static int fill_inputs(const network *n, const ls_graph *g, const ls_image *image, spread_array *in, int n_in) {
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_INPUT) continue;
        const int64_t count = ls_shape_elements(&info->shape);
        const size_t bytes = ls_dtype_bytes(info->dtype) * (size_t)count;
        for (int j = 0; j < image->micro_batches * image->slices; j++) {
            LS_ASSERT(n_in < MOST_INPUTS);
            char *values = malloc(bytes + LS_MICRO_NAME);
            int32_t *ids = (int32_t *)values;
            for (int64_t i = 0; i < count && info->dtype == LS_I32; i++)
                ids[i] = id_of(n, info->name, i, info->shape.dim[1].size);
            if (info->dtype != LS_I32) put(values, info->dtype, 0, 1);
            in[n_in++] = (spread_array){ls_micro_name(info->name, j, values + bytes), values};
        }
    }
    return n_in;
}

static double rounded_to(double x, ls_dtype dtype) {
    if (dtype == LS_F64) return x;
    return dtype == LS_F32 ? (double)(float)x : (double)ls_bf16_to_f32(ls_bf16_from_f32((float)x));
}

/* What parameters are, before they get the type of a run. */
typedef struct values {
    ls_dtype rounded; /* to this type */
    uint64_t moved;   /* a seed, by which each is moved afterwards by half a rounding up or down; 0: none is */
} values;

/* The largest error of a rounding, as a share of the number. */
static double unit_of(ls_dtype dtype) { return dtype == LS_BF16 ? 0x1p-8 : dtype == LS_F32 ? 0x1p-24 : 0x1p-53; }

/* The place of a parameter in the order of declaration. */
static int declared_at(const ls_graph *g, const char *name) {
    int place = 0;
    for (int t = 1; t < g->n_tensors && strcmp(g->tensors[t].name, name) != 0; t++)
        place += g->tensors[t].role == LS_ROLE_PARAMETER;
    return place;
}

/* Initial values: matrices with standard deviation 0.25, weights of norms about 1, small biases. */
static void *make_parameters(const ls_graph *g, const ls_image *image, ls_dtype dtype, const values *v) {
    const int64_t n = image->whole_elements;
    double *exact = malloc(sizeof *exact * (size_t)n);
    void *typed = malloc(ls_dtype_bytes(dtype) * (size_t)n);
    memset(exact, 0, sizeof *exact * (size_t)n);
    for (int f = 0; f < image->n_flats; f++) {
        const ls_flat *flat = &image->flats[f];
        /* The same on any mesh, and whatever is trained of it. */
        fill_normal(exact + flat->whole_start, flat->whole_count, (uint64_t)(5 + declared_at(g, flat->name)));
        const bool vector = flat->shape.ndim == 1, bias = strstr(flat->name, "bias") != NULL;
        for (int64_t i = flat->whole_start; i < flat->whole_start + flat->whole_count; i++)
            exact[i] = (vector && !bias ? 1 : 0) + (bias ? 0.05 : 0.25) * exact[i];
    }
    for (int64_t i = 0; i < n; i++) {
        const double up = v->moved == 0 ? 0 : ls_rng_below(v->moved, 0, (uint64_t)i, 2) == 0 ? 0.5 : -0.5;
        put(typed, dtype, i, rounded_to(exact[i], v->rounded) * (1 + up * unit_of(v->rounded)));
    }
    free(exact);
    return typed;
}

/* The job on all ranks; the gradient comes in type G. */
static ls_status run(const network *n, const spread_job *base, ls_dtype dtype, const values *v, int64_t flat,
                     network_result *r) {
    const ls_dtype G = ls_dtype_accumulator(dtype);
    void *parameters = make_parameters(r->graph, r->image, dtype, v), *gradient = calloc((size_t)flat, sizeof(double));
    const ls_binding *kept = ls_image_find(r->image, LS_BIND_KEPT);
    void *others = kept != NULL ? make_parameters(r->graph, r->image, kept->operand.view.dtype, v) : NULL;
    const bool frozen = ls_image_find(r->image, LS_BIND_FROZEN) != NULL;
    double totals[LS_TOTALS], hyper[LS_HYPERS] = {0.01, 1, 1, 0.9, 0.95};
    const bool trains = ls_image_find(r->image, LS_BIND_HYPER) != NULL;
    spread_array in[MOST_INPUTS] = {{LS_BIND_PARAMETERS, parameters}};
    int fixed = 1;
    if (trains) in[fixed++] = (spread_array){LS_BIND_HYPER, hyper};
    if (frozen) in[fixed++] = (spread_array){LS_BIND_FROZEN, parameters};
    if (kept != NULL) in[fixed++] = (spread_array){LS_BIND_KEPT, others};
    const spread_array results[] = {{LS_BIND_RESULT, totals}, {LS_BIND_PARAMETERS, gradient}};
    spread_job job = *base;
    job.update = true;
    job.in = in;
    job.n_in = fill_inputs(n, r->graph, r->image, in, fixed);
    job.out = results;
    job.n_out = trains ? 2 : 1;
    job.gradient = trains ? NULL : gradient;
    const ls_status status = spread_run(&job);
    r->loss = totals[LS_TOTAL_LOSS];
    for (int64_t i = 0; i < flat; i++)
        r->gradient[i] = G == LS_F64 ? ((double *)gradient)[i] : (double)((float *)gradient)[i];
    for (int i = fixed; i < job.n_in; i++) free(in[i].data);
    free(others);
    free(parameters);
    free(gradient);
    return status;
}

/* steps 0: one, without an update. */
static ls_status solve(const network *n, const ls_target *target, ls_dtype dtype, const values *v, int micro, int steps,
                       network_result *out) {
    *out = (network_result){0};
    network_result r = {0};
    ls_status status = build(n, dtype, &r.graph);
    const ls_update update = steps > 0 ? LS_UPDATE_APPLY : LS_UPDATE_REDUCE;
    const int runs = ls_mesh_stages(&target->mesh) > 1 ? 1 : micro;
    spread_job job = {.job = job_of(n, r.graph, update, runs > 1),
                      .target = *target,
                      .transport = n->transport,
                      .micro = runs,
                      .steps = steps};
    job.job.micro_batches = micro;
    job.target.rank = 0;
    if (status.code == LS_OK) status = ls_compile(&job.job, &job.target, &r.image);
    if (status.code == LS_OK) {
        const int64_t flat = r.image->whole_elements;
        r.gradient = calloc((size_t)flat, sizeof(double));
        status = run(n, &job, dtype, v, flat, &r);
    }
    if (status.code != LS_OK)
        network_free(&r);
    else
        *out = r;
    return status;
}

ls_status network_solve(const network *n, const ls_target *target, ls_dtype dtype, ls_dtype rounded,
                        network_result *out) {
    return solve(n, target, dtype, &(values){rounded, 0}, 1, 0, out);
}

ls_status network_gradient(const network *n, const ls_target *target, ls_dtype dtype, ls_dtype rounded, int micro,
                           network_result *out) {
    return solve(n, target, dtype, &(values){rounded, 0}, micro, 0, out);
}

ls_status network_accumulate(const network *n, const ls_target *target, int micro, network_result *out) {
    return solve(n, target, LS_F64, &(values){LS_F64, 0}, micro, 0, out);
}

ls_status network_train(const network *n, const ls_target *target, int micro, int steps, network_result *out) {
    return solve(n, target, LS_F64, &(values){LS_F64, 0}, micro, steps, out);
}

void network_free(network_result *r) {
    ls_image_destroy(r->image);
    ls_graph_destroy(r->graph);
    free(r->gradient);
    *r = (network_result){0};
}

ls_status network_under_chaos(const network *n, const ls_target *target, int seeds) {
    network under = *n;
    network_result calm, wild;
    ls_status status = network_solve(n, target, LS_F64, LS_F64, &calm);
    LS_TRY(status);
    for (int seed = 1; seed <= seeds && status.code == LS_OK; seed++) {
        char transport[32];
        snprintf(transport, sizeof transport, "chaos:%d", seed);
        under.transport = transport;
        status = network_solve(&under, target, LS_F64, LS_F64, &wild);
        if (status.code != LS_OK) break;
        const size_t bytes = sizeof(double) * (size_t)calm.image->whole_elements;
        if (wild.loss != calm.loss || memcmp(wild.gradient, calm.gradient, bytes) != 0)
            status = ls_error(LS_INVALID, "%s: loss or gradients have other bits under %s", n->name, transport);
        network_free(&wild);
    }
    network_free(&calm);
    return status;
}

static double norm_of(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static const char *skip_digits(const char *text) { return text + strspn(text, "0123456789"); }

/* Whether two names are of one kind: "layers.0.q_proj" and "layers.1.q_proj" are. */
static bool same_kind(const char *a, const char *b) {
    while (*a != 0 && *b != 0) {
        const char *after_a = skip_digits(a), *after_b = skip_digits(b);
        if ((after_a == a) != (after_b == b) || (after_a == a && *a != *b)) return false;
        a = after_a == a ? a + 1 : after_a;
        b = after_b == b ? b + 1 : after_b;
    }
    return *a == *b;
}

/* Of all gradients of parameter i's kind together; -1: of all gradients. */
static double norm_of_kind(const network_result *r, int i) {
    double squares = 0;
    for (int f = 0; f < r->image->n_flats; f++) {
        const ls_flat *flat = &r->image->flats[f];
        if (i >= 0 && !same_kind(flat->name, r->image->flats[i].name)) continue;
        const double norm = norm_of(r->gradient + flat->whole_start, flat->whole_count);
        squares += norm * norm;
    }
    return sqrt(squares);
}

/* Where the parameter of that name lies in results: its order depends on the mesh. */
static int64_t place_of(const ls_image *image, const char *name) {
    int f = 0;
    while (strcmp(image->flats[f].name, name) != 0) f++;
    return image->flats[f].whole_start;
}

double network_error(const network_result *a, const network_result *b, int i) {
    if (i < 0) return relative_error(&a->loss, &b->loss, 1, 1e-9);
    const ls_flat *flat = &b->image->flats[i];
    const double kind = norm_of_kind(b, i), whole = norm_of_kind(b, -1);
    const bool zero_in_theory = kind < (b->image->dtype == LS_F64 ? 1e-12 : 1e-6) * whole;
    return relative_error(a->gradient + place_of(a->image, flat->name), b->gradient + flat->whole_start,
                          flat->whole_count, zero_in_theory ? whole : 1e-3 * kind);
}

double network_error_of_kind(const network_result *a, const network_result *b, int i) {
    if (i < 0) return network_error(a, b, i);
    double squares = 0;
    int n = 0;
    for (int f = 0; f < b->image->n_flats; f++) {
        if (!same_kind(b->image->flats[f].name, b->image->flats[i].name)) continue;
        const double error = network_error(a, b, f);
        squares += error * error;
        n++;
    }
    return sqrt(squares / n);
}

ls_status network_own_errors(const network *n, ls_dtype dtype, int micro, const network_result *exact, double *errors) {
    const int n_flats = exact->image->n_flats;
    for (int i = 0; i <= n_flats; i++) errors[i] = 0;
    for (ls_isa isa = dtype == LS_F32 ? LS_ISA_REF : LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1, .isa = isa};
        network_result one;
        LS_TRY(network_gradient(n, &alone, dtype, dtype, micro, &one));
        for (int i = 0; i <= n_flats; i++) errors[i] = fmax(errors[i], network_error_of_kind(&one, exact, i - 1));
        network_free(&one);
    }
    return ls_ok();
}

ls_status network_condition(const network *n, ls_dtype dtype, int micro, const network_result *exact, int draws,
                            double *errors) {
    const int n_flats = exact->image->n_flats;
    const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    for (int i = 0; i <= n_flats; i++) errors[i] = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)draws; seed++) {
        network_result moved;
        LS_TRY(solve(n, &alone, LS_F64, &(values){dtype, seed}, micro, 0, &moved));
        for (int i = 0; i <= n_flats; i++) errors[i] = fmax(errors[i], network_error_of_kind(&moved, exact, i - 1));
        network_free(&moved);
    }
    return ls_ok();
}

double network_difference(const network_result *a, const network_result *b, const char **what) {
    double worst = -1;
    for (int i = -1; i < b->image->n_flats; i++) {
        const double error = network_error(a, b, i);
        if (error <= worst) continue; /* NaN goes on */
        worst = isnan(error) ? INFINITY : error;
        *what = i < 0 ? "loss" : b->image->flats[i].name;
    }
    return worst;
}

/* Judges the verifier: a few orders of deliveries leave the same values, and no rank reads poison. */
static ls_status interpret(const network *n, const ls_image *const *images, int ranks) {
    ls_interpreter *first = ls_interpreter_create(images, ranks), *other = ls_interpreter_create(images, ranks);
    const ls_interpreter_result reference = ls_interpreter_run(first, 0);
    ls_status status = ls_ok();
    for (uint64_t seed = 1; seed < 3 && status.code == LS_OK; seed++) {
        const ls_interpreter_result outcome = ls_interpreter_run(other, seed);
        if (!ls_interpreter_same(&reference, &outcome))
            status = ls_error(LS_INVALID, "%s: seed %d: hung %d, poison %d, outside %d", n->name, (int)seed,
                              outcome.hung, outcome.poison, outcome.outside);
    }
    ls_interpreter_destroy(first);
    ls_interpreter_destroy(other);
    return status;
}

/* Nothing that communicates is about no bytes. */
static ls_status check_messages(const network *n, const ls_image *image, int rank) {
    for (int p = 0; p < image->n_programs; p++) {
        for (int i = 0; i < image->programs[p].n_instrs; i++) {
            const ls_instr *instr = &image->programs[p].instrs[i];
            const ls_operand *subject = ls_instr_subject(instr);
            if (subject != NULL && ls_operand_is_empty(subject))
                return ls_error(LS_INVALID, "%s: rank %d, %s: instruction %d, %s, is about nothing", n->name, rank,
                                image->programs[p].name, i, instr->op);
        }
    }
    return ls_ok();
}

ls_status network_verify(const network *n, const ls_target *target, int micro) {
    const int ranks = ls_mesh_ranks(&target->mesh);
    ls_image **images = calloc((size_t)ranks, sizeof(ls_image *));
    ls_graph *g;
    ls_status status = build(n, LS_F64, &g);
    ls_job job = job_of(n, g, LS_UPDATE_APPLY, micro > 1);
    job.micro_batches = micro;
    ls_classes classes = {0};
    if (status.code == LS_OK) status = ls_classes_find(&job, target, &classes);
    for (int r = 0; r < ranks && status.code == LS_OK; r++) {
        ls_target one = *target;
        one.rank = r;
        status = ls_compile(&job, &one, &images[r]);
        if (status.code == LS_OK && ls_image_frame(images[r]) != ls_image_frame(images[0]))
            status = ls_error(LS_INVALID, "%s: the frames of ranks 0 and %d differ", n->name, r);
        if (status.code == LS_OK) status = check_messages(n, images[r], r);
        const int first = ls_class_first(&classes, ls_class_of(&classes, r));
        if (status.code == LS_OK && !images_equal(images[r], images[first]))
            status =
                ls_error(LS_INVALID, "%s: ranks %d and %d are one class, and their programs differ", n->name, first, r);
    }
    if (status.code == LS_OK) status = ls_verify((const ls_image *const *)images, ranks);
    if (status.code == LS_OK) status = ls_verify_local((const ls_image *const *)images, ranks);
    if (status.code == LS_OK && ranks <= 4) status = interpret(n, (const ls_image *const *)images, ranks);
    for (int r = 0; r < ranks; r++) ls_image_destroy(images[r]);
    ls_graph_destroy(g);
    free(images);
    return status;
}
