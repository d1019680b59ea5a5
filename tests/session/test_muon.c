/*
 * Muon against a few lines of arithmetic: two steps of a small Llama on three ranks, whose hidden matrices of several
 * shapes, wide and tall, get the momentum with about equal singular values, and all else AdamW's steps, as it is; what
 * one rank keeps of states; and exceptions by name.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "compile/compile.h"
#include "longspan/longspan.h"
#include "support/example_batch.h"
#include "support/meshes.h"

enum { MOST = 64 };

#define LR 0.02
#define DECAY 0.1
#define MOMENTUM 0.8
#define TOLERANCE 1e-12

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

/* --- what the engine does ----------------------------------------------------------------------------------------- */

typedef struct numbers {
    double parameter[ROOM], gradient[ROOM]; /* of all parameters in the order of declaration */
} numbers;

typedef struct wanted {
    const ls_graph *graph;
    const numbers *from; /* NULL: random */
    int steps;
    bool gradients;
} wanted;

static ls_status work(ls_worker *w, const void *input, void *result) {
    const wanted *in = input;
    numbers *out = result;
    const ls_graph *g = in->graph;
    const bool home = w->rank == 0;
    ls_step_result last;
    if (in->from == NULL) LS_TRY(ls_worker_set_random(w, 0.25, 3));
    for (int64_t t = 1, at = 0; in->from != NULL && t < g->n_tensors; t++) {
        if (g->tensors[t].role != LS_ROLE_PARAMETER) continue;
        LS_TRY(ls_worker_set_parameter(w, g->tensors[t].name, in->from->parameter + at));
        at += ls_shape_elements(&g->tensors[t].shape);
    }
    for (int i = 0; i < in->steps; i++)
        LS_TRY(ls_worker_step(w, &(ls_step){.tokens = VALID, .lr = LR, .feed = feed_example}, &last));
    for (int64_t t = 1, at = 0; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        LS_TRY(ls_worker_get_parameter(w, info->name, home ? out->parameter + at : NULL));
        if (in->gradients) LS_TRY(ls_worker_get_gradient(w, info->name, home ? out->gradient + at : NULL));
        at += ls_shape_elements(&info->shape);
    }
    return ls_ok();
}

/* Parameters after so many steps of the optimiser, from the random ones; NULL: the gradient at `from`. */
static numbers *run(const char *optimizer, int steps, const numbers *from) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor loss = llama_loss(g);
    const bool muon = optimizer != NULL && strcmp(optimizer, "muon") == 0;
    const ls_engine_options options = {.purpose = optimizer == NULL ? LS_TO_DIFFERENTIATE : LS_TO_TRAIN,
                                       .optimizer = optimizer,
                                       .momentum = muon ? MOMENTUM : 0,
                                       .weight_decay = DECAY,
                                       .spread = {.mesh = "dp=1,ring=3,ulysses=1", .threads = 1, .as_threads = true}};
    const wanted in = {g, from, steps, optimizer == NULL};
    numbers *out = calloc(1, sizeof *out);
    ls_engine *engine;
    must(ls_engine_open(g, loss, &options, &engine));
    must(ls_engine_run(engine, work, &in, out, sizeof *out));
    ls_engine_close(engine);
    ls_graph_destroy(g);
    return out;
}

/* --- what it should do -------------------------------------------------------------------------------------------- */

/* out[n,m] = x[n,k] y[k,m] */
static void multiply(const double *x, const double *y, int64_t n, int64_t k, int64_t m, double *out) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++) sum += x[i * k + p] * y[p * m + j];
            out[i * m + j] = sum;
        }
    }
}

/* x[r,c] with its singular values s replaced by five times 3.4445 s - 4.775 s^3 + 2.0315 s^5. */
static void equalize(double *x, int64_t r, int64_t c) {
    double t[MOST * MOST], third[MOST * MOST], fifth[MOST * MOST], inner[MOST * MOST], norm = 0;
    for (int64_t i = 0; i < r * c; i++) norm += x[i] * x[i];
    for (int64_t i = 0; i < r * c; i++) x[i] /= sqrt(norm);
    for (int step = 0; step < 5; step++) {
        for (int64_t i = 0; i < r * c; i++) t[i % c * r + i / c] = x[i];
        multiply(x, t, r, c, r, inner);
        multiply(inner, x, r, r, c, third);
        multiply(inner, third, r, r, c, fifth);
        for (int64_t i = 0; i < r * c; i++) x[i] = 3.4445 * x[i] - 4.775 * third[i] + 2.0315 * fifth[i];
    }
}

static bool is_hidden(const char *name) { return strstr(name, "_proj") != NULL; }

/* The root of the mean square of singular values: small ones grow by less than the rest. */
static void check_values(const double *x, int64_t r, int64_t c) {
    double squares = 0;
    for (int64_t i = 0; i < r * c; i++) squares += x[i] * x[i];
    const double mean = sqrt(squares / (double)ls_min(r, c));
    assert_true(mean > 0.3 && mean < 1.2);
}

static void check_matrix(const ls_tensor_info *info, const numbers *first, const numbers *second, const numbers *begin,
                         const numbers *middle, const numbers *end, int64_t at) {
    const int64_t r = info->shape.dim[0].size, c = info->shape.dim[1].size, n = r * c;
    double m[MOST * MOST], x[MOST * MOST];
    assert_true(r <= MOST && c <= MOST);
    const double size = 0.2 * sqrt((double)ls_max(r, c));
    for (int step = 0; step < 2; step++) {
        const double *g = (step == 0 ? first : second)->gradient + at;
        const double *from = (step == 0 ? begin : middle)->parameter + at;
        const double *to = (step == 0 ? middle : end)->parameter + at;
        for (int64_t i = 0; i < n; i++) m[i] = step == 0 ? g[i] : MOMENTUM * m[i] + g[i];
        for (int64_t i = 0; i < n; i++) x[i] = g[i] + MOMENTUM * m[i];
        equalize(x, r, c);
        check_values(x, r, c);
        for (int64_t i = 0; i < n; i++) {
            const double expected = from[i] - LR * (size * x[i] + DECAY * from[i]);
            if (fabs(to[i] - expected) > TOLERANCE)
                fail_msg("%s[%lld] after step %d: %.17g, expected %.17g", info->name, (long long)i, step + 1, to[i],
                         expected);
        }
    }
}

static void two_steps(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    (void)llama_loss(g);
    numbers *begin = run("muon", 0, NULL), *middle = run("muon", 1, NULL), *end = run("muon", 2, NULL);
    numbers *adamw = run("adamw", 1, NULL);
    numbers *first = run(NULL, 1, begin), *second = run(NULL, 1, middle);
    int hidden = 0;
    for (int64_t t = 1, at = 0; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        const int64_t n = ls_shape_elements(&info->shape);
        if (is_hidden(info->name)) {
            check_matrix(info, first, second, begin, middle, end, at);
            hidden++;
        } else if (memcmp(middle->parameter + at, adamw->parameter + at, sizeof(double) * (size_t)n) != 0) {
            for (int64_t i = 0; i < n; i++)
                assert_true(fabs(middle->parameter[at + i] - adamw->parameter[at + i]) <= TOLERANCE);
        }
        at += n;
    }
    assert_int_equal(hidden, 2 * 7);
    numbers *const all[] = {begin, middle, end, adamw, first, second};
    for (size_t i = 0; i < LS_COUNT(all); i++) free(all[i]);
    ls_graph_destroy(g);
}

/* --- what is kept ------------------------------------------------------------------------------------------------- */

static ls_image *compile(const ls_parameter_settings *own, ls_graph *g, ls_mesh mesh, int rank) {
    const ls_job job = {.graph = g,
                        .programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, 0),
                        .optimizer = &ls_optimizer_muon,
                        .hyper = ls_optimizer_defaults(&ls_optimizer_muon),
                        .own = own};
    const ls_target target = {.mesh = mesh, .rank = rank, .strategy = "ring", .threads = 1};
    ls_image *image;
    must(ls_compile(&job, &target, &image));
    return image;
}

static int64_t elements_of(const ls_image *image, const char *name) {
    const ls_binding *binding = ls_image_find(image, name);
    return binding == NULL ? 0 : ls_view_elements(&binding->operand.view);
}

/* Second moments are kept for what AdamW updates; an exception by name is one of these. */
static void states_are_of_their_parameters(void **state) {
    (void)state;
    for (int exception = 0; exception < 2; exception++) {
        ls_graph *g = ls_graph_create(LS_F64);
        const ls_tensor loss = llama_loss(g);
        ls_parameter_settings own[MOST];
        for (int p = 0; p < MOST; p++) own[p] = (ls_parameter_settings){{1, 0.1}, NULL};
        own[2].optimizer = &ls_optimizer_adamw; /* layers.0.q_proj: embedding and a norm are before it */
        must(ls_graph_accumulate_loss(g, loss));
        must(ls_graph_differentiate_loss(g, loss));
        ls_image *image = compile(exception ? own : NULL, g, mesh_of(1, 3, 1), 0);
        int matrices = 0;
        int64_t others = 0; /* elements on the rank, with padding of the groups */
        for (int f = 0; f < image->n_flats; f++) {
            const ls_flat *flat = &image->flats[f];
            assert_true(flat->matrix ==
                        (is_hidden(flat->name) && !(exception && strcmp(flat->name, "layers.0.q_proj") == 0)));
            matrices += flat->matrix;
            if (!flat->matrix) others = ls_max(others, flat->start + flat->count);
        }
        assert_int_equal(matrices, 14 - exception);
        assert_int_equal(elements_of(image, "optimizer.m"), image->shard_count);
        assert_in_range(3 * elements_of(image, "optimizer.v"), others, others + 3 * 3 * LS_FLAT_UNIT);
        assert_true(3 * elements_of(image, "optimizer.v") < image->flat_elements / 4);
        ls_image_destroy(image);
        ls_graph_destroy(g);
    }
}

/* Both judges accept the programs of all ranks: fewer and more than the matrices of a shape, in one stage and in two.
 */
static void programs_are_proved(void **state) {
    (void)state;
    static const int rings[] = {1, 2, 3, 8};
    for (size_t i = 0; i < LS_COUNT(rings); i++) {
        ls_image *images[16];
        ls_graph *g = ls_graph_create(LS_F64);
        const ls_tensor loss = llama_loss(g);
        must(ls_graph_accumulate_loss(g, loss));
        must(ls_graph_differentiate_loss(g, loss));
        const ls_mesh mesh = mesh_of(2, rings[i], 1);
        const int ranks = ls_mesh_ranks(&mesh);
        for (int r = 0; r < ranks; r++) images[r] = compile(NULL, g, mesh, r);
        must(ls_verify((const ls_image *const *)images, ranks));
        must(ls_verify_local((const ls_image *const *)images, ranks));
        for (int r = 0; r < ranks; r++) ls_image_destroy(images[r]);
        ls_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_steps), cmocka_unit_test(states_are_of_their_parameters),
                                       cmocka_unit_test(programs_are_proved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
