/*
 * The example pLSTM (examples/graphs/plstm.c), a layer that is a composition of ops: what it gives is what its gates
 * say token by token, on one rank and on several; loss and gradients are the same on any number of ranks, and gradients
 * those of finite differences. Documents are packed: each has the results that it has alone. All in f64.
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
#include "graph/graph.h"
#include "longspan/longspan.h"
#include "support/meshes.h"
#include "support/network.h"

/* As in the example. */
enum { B = 2, S = 23, H = 2, DK = 3, DV = 4, J = 2, V = 17, L = 2, N = B * S };

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

/* --- token by token ----------------------------------------------------------------------------------------------- */

/* Of token i of a sequence: its place in its document. */
static int32_t place_of(int i) {
    static const int start[] = {0, 1, 9, 22};
    int d = LS_COUNT(start) - 1;
    while (start[d] > i) d--;
    return i - start[d];
}

/* Of a layer: what it was given, and its result. */
typedef struct parts {
    double q[N][H][DK], k[N][H][DK], v[N][H][DV], s[N][H][J], m[N][H][J], d[N][H], t[N][H][J][J], y[N][H][DV];
} parts;

#define PARTS(X) X(q) X(k) X(v) X(s) X(m) X(d) X(t) X(y)

static ls_status set_tokens(ls_worker *w) {
    int32_t tokens[N], labels[N], places[N];
    for (int i = 0; i < N; i++) {
        tokens[i] = i * i * 7 % V;
        labels[i] = (i * 5 + 3) % V;
        places[i] = place_of(i % S);
    }
    LS_TRY(ls_worker_set_input(w, "tokens", tokens));
    LS_TRY(ls_worker_set_input(w, "places", places));
    return ls_worker_set_input(w, "labels", labels);
}

static ls_status read_parts(ls_worker *w, const void *input, void *result) {
    (void)input;
    parts *out = result;
    ls_step_result step;
    LS_TRY(ls_worker_set_random(w, 0.5, 3));
    LS_TRY(set_tokens(w));
    LS_TRY(ls_worker_evaluate(w, &(ls_step){.tokens = N}, &step));
    for (int layer = 0; layer < L; layer++) {
        char name[32];
#define READ(part)                                         \
    snprintf(name, sizeof name, "layer.%d." #part, layer); \
    LS_TRY(ls_worker_get_tensor(w, name, (double *)out[layer].part));
        PARTS(READ)
    }
    return ls_ok();
}

static ls_tensor find(const ls_graph *g, int layer, const char *part) {
    char name[32];
    snprintf(name, sizeof name, "layer.%d.%s", layer, part);
    for (int t = 1; t < g->n_tensors; t++)
        if (strcmp(g->tensors[t].name, name) == 0) return ls_graph_at(g, t);
    fail_msg("the graph has no %s", name);
    return LS_NO_TENSOR;
}

static void run_parts(int ranks, parts *out) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor loss = plstm_loss(g);
    ls_tensor read[L * 8];
    int n = 0;
    for (int layer = 0; layer < L; layer++) {
#define FIND(part) read[n++] = find(g, layer, #part);
        PARTS(FIND)
    }
    const ls_engine_options options = {.purpose = LS_TO_EVALUATE,
                                       .read = read,
                                       .n_read = n,
                                       .spread = {.ranks = ranks, .as_threads = true, .wait_timeout = 60}};
    ls_engine *engine;
    must(ls_engine_open(g, loss, &options, &engine));
    must(ls_engine_run(engine, read_parts, NULL, out, sizeof *out * L));
    ls_engine_close(engine);
    ls_graph_destroy(g);
}

/* The largest difference from the recurrence itself. */
static double largest_error(const parts *p) {
    double most = 0;
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < H; h++) {
            double c[J][DK][DV] = {0};
            for (int i = b * S; i < (b + 1) * S; i++) {
                double y[DV] = {0}, next[J][DK][DV];
                if (place_of(i % S) == 0) memset(c, 0, sizeof c);
                for (int k = 0; k < DK; k++) {
                    for (int v = 0; v < DV; v++) {
                        const double kv = p->k[i][h][k] * p->v[i][h][v];
                        y[v] += p->q[i][h][k] * p->d[i][h] * kv;
                        for (int j = 0; j < J; j++) {
                            y[v] += p->q[i][h][k] * p->m[i][h][j] * c[j][k][v];
                            next[j][k][v] = p->s[i][h][j] * kv;
                            for (int f = 0; f < J; f++) next[j][k][v] += p->t[i][h][j][f] * c[f][k][v];
                        }
                    }
                }
                memcpy(c, next, sizeof c);
                for (int v = 0; v < DV; v++) most = fmax(most, fabs(y[v] - p->y[i][h][v]));
            }
        }
    }
    return most;
}

/* Transitions lengthen no vector: the sum of the squares of T's columns is at most 2, and 0 at starts alone. */
static bool is_short(const parts *p) {
    for (int i = 0; i < N; i++) {
        for (int h = 0; h < H; h++) {
            double squares = 0;
            for (int j = 0; j < J * J; j++) squares += pow(p->t[i][h][j / J][j % J], 2);
            if (!(squares <= 2) || (squares > 0) != (place_of(i % S) > 0)) return false;
        }
    }
    return true;
}

static void test_token_by_token(void **state) {
    (void)state;
    static const int ranks[] = {1, 2, 3, 8};
    parts *p = calloc(L, sizeof *p);
    for (size_t r = 0; r < LS_COUNT(ranks); r++) {
        run_parts(ranks[r], p);
        for (int layer = 0; layer < L; layer++) {
            const double error = largest_error(&p[layer]);
            if (!(error < 1e-12 && fabs(p[layer].y[N - 1][0][0]) > 1e-6 && is_short(&p[layer])))
                fail_msg("%d ranks, layer %d: y is off by %g", ranks[r], layer, error);
        }
    }
    free(p);
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static const network plstm = {"plstm", plstm_loss, .ids = V};

static ls_target target_of(const int *mesh, ls_layout_kind layout) {
    return (ls_target){.mesh = mesh_of_two_rings(mesh[0], mesh[1], mesh[2], mesh[3]),
                       .strategy = "local",
                       .layout = layout,
                       .threads = 1};
}

static void test_same_on_every_mesh(void **state) {
    (void)state;
    static const int alone[] = {1, 1, 1, 1},
                     meshes[][4] = {{1, 2, 1, 1}, {1, 3, 1, 1}, {1, 2, 2, 1}, {2, 2, 1, 1}, {1, 1, 1, 2}, {1, 8, 1, 1}};
    network_result one, many;
    const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
    must(network_solve(&plstm, &single, LS_F64, LS_F64, &one));
    for (size_t m = 0; m < LS_COUNT(meshes) * 2; m++) {
        const ls_target target = target_of(meshes[m / 2], m % 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS);
        const char *what;
        must(network_solve(&plstm, &target, LS_F64, LS_F64, &many));
        const double difference = network_difference(&many, &one, &what);
        if (!(difference < 1e-12))
            fail_msg("%d ranks, %s: %s differs by %g", ls_mesh_ranks(&target.mesh), ls_layout_name(target.layout), what,
                     difference);
        network_free(&many);
    }
    network_free(&one);
}

static ls_status loss_with(ls_worker *w, const char *name, const double *values, double *loss) {
    ls_step_result step;
    LS_TRY(ls_worker_set_parameter(w, name, values));
    LS_TRY(ls_worker_evaluate(w, &(ls_step){.tokens = N}, &step));
    *loss = step.loss;
    return ls_ok();
}

/* result: the largest difference of a gradient's element from its quotient, of 1 and the quotient. */
static ls_status compare_quotients(ls_worker *w, const void *input, void *result) {
    const ls_graph *g = input;
    double *most = result, values[1024], gradient[1024];
    ls_step_result step;
    ls_shape shape;
    const char *name;
    LS_TRY(ls_worker_set_random(w, 0.25, 3));
    LS_TRY(set_tokens(w));
    LS_TRY(ls_worker_step(w, &(ls_step){.tokens = N}, &step));
    for (int p = 0; (name = ls_graph_parameter(g, p, &shape)) != NULL; p++) {
        const int64_t n = ls_shape_elements(&shape);
        LS_TRY(ls_worker_get_parameter(w, name, values));
        LS_TRY(ls_worker_get_gradient(w, name, gradient));
        for (int64_t i = p % 3; i < n; i += n / 3) {
            const double step_size = 1e-5, kept = values[i];
            double above, below;
            values[i] = kept + step_size;
            LS_TRY(loss_with(w, name, values, &above));
            values[i] = kept - step_size;
            LS_TRY(loss_with(w, name, values, &below));
            values[i] = kept;
            const double quotient = (above - below) / (2 * step_size);
            *most = fmax(*most, fabs(quotient - gradient[i]) / (1 + fabs(quotient)));
        }
        LS_TRY(ls_worker_set_parameter(w, name, values));
    }
    return ls_ok();
}

static void test_finite_differences(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor loss = plstm_loss(g);
    const ls_engine_options options = {.purpose = LS_TO_DIFFERENTIATE,
                                       .spread = {.ranks = 3, .as_threads = true, .wait_timeout = 60}};
    ls_engine *engine;
    double most = 0;
    must(ls_engine_open(g, loss, &options, &engine));
    must(ls_engine_run(engine, compare_quotients, g, &most, sizeof most));
    ls_engine_close(engine);
    ls_graph_destroy(g);
    if (!(most < 1e-8)) fail_msg("a gradient differs from finite differences by %g", most);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_token_by_token), cmocka_unit_test(test_same_on_every_mesh),
                                       cmocka_unit_test(test_finite_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
