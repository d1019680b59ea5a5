#include "network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_call.h"
#include "program/verify.h"
#include "spread.h"

enum { MOST_INPUTS = 8 };

/* The graph, differentiated. Parameter gradients go to accumulators. */
static ls_status build(const network *n, ls_graph **out) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor loss = n->loss(g);
    const ls_shape one = {1, {{1, LS_FACTOR_NONE}}};
    (void)ls_accumulate(g, loss, ls_graph_leaf(g, LS_ROLE_ACCUMULATOR, LS_BIND_LOSS, LS_F64, &one));
    ls_derivative d = {
        .n_roots = 1, .root = {loss}, .seed = {ls_graph_leaf(g, LS_ROLE_INPUT, "seed", LS_F64, &one)}};
    *out = g;
    LS_TRY(ls_graph_status(g));
    return ls_differentiate(g, &d);
}

/* The number of token i for the input of that name. */
static int32_t id_of(const network *n, const char *name, int64_t i, int64_t S) {
    if (strcmp(name, "positions") == 0) return (int32_t)(i % S);
    if (strcmp(name, "labels") == 0 && i % S == S - 1) return -100;
    const int64_t at = strcmp(name, "labels") == 0 ? i + 1 : i;
    return (int32_t)((at * at * 7 + at * 3 + at / 5) % n->ids);
}

static int fill_inputs(const network *n, const ls_graph *g, spread_array *in, int n_in) {
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_INPUT || info->dtype != LS_I32) continue;
        LS_ASSERT(n_in < MOST_INPUTS);
        const int64_t count = ls_shape_elements(&info->shape);
        int32_t *ids = malloc(sizeof *ids * (size_t)count);
        for (int64_t i = 0; i < count; i++) ids[i] = id_of(n, info->name, i, info->shape.dim[1].size);
        in[n_in++] = (spread_array){info->name, ids};
    }
    return n_in;
}

ls_status network_solve(const network *n, const ls_target *target, network_result *out) {
    *out = (network_result){0};
    network_result r = {0};
    ls_status status = build(n, &r.graph);
    ls_target first = *target;
    first.rank = 0;
    const ls_job what = {.graph = r.graph, .update = LS_UPDATE_REDUCE};
    if (status.code == LS_OK) status = ls_compile(&what, &first, &r.image);
    if (status.code != LS_OK) {
        network_free(&r);
        return status;
    }
    const int64_t flat = r.image->flat_elements;
    r.gradient = calloc((size_t)flat, sizeof(double));
    double *parameters = malloc(sizeof(double) * (size_t)flat), unit = 1, totals[LS_TOTALS];
    fill_normal(parameters, flat, 5);
    for (int64_t i = 0; i < flat; i++) parameters[i] *= 0.4;
    spread_array in[MOST_INPUTS] = {{"seed", &unit}, {LS_BIND_PARAMETERS, parameters}};
    const int n_in = fill_inputs(n, r.graph, in, 2);
    const spread_array results[] = {{LS_BIND_RESULT, totals}};
    const spread_job job = {.job = what,
                            .target = *target,
                            .update = true,
                            .in = in,
                            .n_in = n_in,
                            .out = results,
                            .n_out = 1,
                            .gradient = r.gradient};
    status = spread_run(&job);
    r.loss = totals[LS_TOTAL_LOSS];
    for (int i = 2; i < n_in; i++) free(in[i].data);
    free(parameters);
    if (status.code != LS_OK)
        network_free(&r);
    else
        *out = r;
    return status;
}

void network_free(network_result *r) {
    ls_image_destroy(r->image);
    ls_graph_destroy(r->graph);
    free(r->gradient);
    *r = (network_result){0};
}

static double norm_of(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

double network_difference(const network_result *a, const network_result *b, const char **what) {
    double worst = relative_error(&a->loss, &b->loss, 1, 1e-9), largest = 0;
    *what = "loss";
    for (int i = 0; i < b->image->n_flats; i++)
        largest = fmax(largest, norm_of(b->gradient + b->image->flats[i].start, b->image->flats[i].count));
    for (int i = 0; i < b->image->n_flats; i++) {
        const ls_flat *flat = &b->image->flats[i];
        const double error =
            relative_error(a->gradient + flat->start, b->gradient + flat->start, flat->count, 1e-3 * largest);
        if (error <= worst) continue; /* so a NaN is kept below */
        worst = isnan(error) ? INFINITY : error;
        *what = flat->name;
    }
    return worst;
}

ls_status network_verify(const network *n, const ls_target *target) {
    const int ranks = ls_mesh_ranks(&target->mesh);
    ls_image **images = calloc((size_t)ranks, sizeof(ls_image *));
    ls_graph *g;
    ls_status status = build(n, &g);
    const ls_job job = {.graph = g, .update = LS_UPDATE_ADAMW, .adamw = {0.9, 0.95, 1e-8, 0.1}};
    for (int r = 0; r < ranks && status.code == LS_OK; r++) {
        ls_target one = *target;
        one.rank = r;
        status = ls_compile(&job, &one, &images[r]);
        if (status.code == LS_OK && ls_image_skeleton(images[r]) != ls_image_skeleton(images[0]))
            status = ls_error(LS_INVALID, "%s: the skeletons of ranks 0 and %d differ", n->name, r);
    }
    if (status.code == LS_OK) status = ls_verify((const ls_image *const *)images, ranks);
    for (int r = 0; r < ranks; r++) ls_image_destroy(images[r]);
    ls_graph_destroy(g);
    free(images);
    return status;
}
