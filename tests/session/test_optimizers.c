/*
 * Every optimiser of the table: a small Llama in f64 has the same parameters after some steps on any number of ranks,
 * in one stage and in two, and its loss falls; bf16 parameters with f32 masters are trained too.
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

enum { STEPS = 3 };

typedef struct trained {
    double before, after; /* losses */
    double parameter[ROOM];
    int64_t n; /* elements of all parameters */
} trained;

typedef struct wanted {
    const ls_graph *graph;
    double lr;
} wanted;

static void must(const char *what, ls_status status) {
    if (status.code != LS_OK) fail_msg("%s: %s", what, status.text);
}

static ls_status work(ls_worker *w, const void *input, void *result) {
    const wanted *in = input;
    trained *out = result;
    ls_step_result last;
    const ls_step look = {.tokens = VALID, .feed = feed_example},
                  step = {.tokens = VALID, .lr = in->lr, .feed = feed_example};
    LS_TRY(ls_worker_set_random(w, 0.25, 3));
    LS_TRY(ls_worker_evaluate(w, &look, &last));
    out->before = last.loss;
    for (int i = 0; i < STEPS; i++) LS_TRY(ls_worker_step(w, &step, &last));
    LS_TRY(ls_worker_evaluate(w, &look, &last));
    out->after = last.loss;
    for (int t = 1; t < in->graph->n_tensors; t++) {
        const ls_tensor_info *info = &in->graph->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        const int64_t n = ls_shape_elements(&info->shape);
        LS_ASSERT(out->n + n <= ROOM);
        LS_TRY(ls_worker_get_parameter(w, info->name, w->rank == 0 ? out->parameter + out->n : NULL));
        out->n += n;
    }
    return ls_ok();
}

/* Learning rates that suit such a model. */
static double rate_of(const ls_optimizer *optimizer) { return optimizer == &ls_optimizer_sgd ? 3e-2 : 3e-3; }

static trained *train(const ls_optimizer *optimizer, ls_dtype dtype, const char *mesh, const char *shard) {
    ls_graph *g = ls_graph_create(dtype);
    const ls_tensor loss = llama_loss(g);
    const ls_engine_options options = {.optimizer = optimizer->name,
                                       .weight_decay = 0.1,
                                       .spread = {.mesh = mesh, .shard = shard, .threads = 1, .as_threads = true}};
    const wanted in = {g, rate_of(optimizer)};
    trained *out = calloc(1, sizeof *out);
    ls_engine *engine;
    must(optimizer->name, ls_engine_open(g, loss, &options, &engine));
    must(optimizer->name, ls_engine_run(engine, work, &in, out, sizeof *out));
    ls_engine_close(engine);
    ls_graph_destroy(g);
    if (!(out->after < out->before))
        fail_msg("%s, %s on %s: loss %g, then %g", optimizer->name, ls_dtype_name(dtype), mesh, out->before,
                 out->after);
    return out;
}

static void same_on_any_ranks(void **state) {
    (void)state;
    static const struct {
        const char *mesh, *shard;
    } cases[] = {
        {"dp=1,ring=2,ulysses=1", "optimizer"}, {"dp=1,ring=3,ulysses=1", "none"},
        {"dp=2,ring=1,ulysses=2", "gradients"}, {"dp=1,ring=3,ulysses=1", "parameters"},
        {"dp=2,ring=8,ulysses=1", "optimizer"}, {"dp=2,ring=8,ulysses=1", "parameters"},
    };
    for (int i = 0; ls_optimizer_at(i) != NULL; i++) {
        const ls_optimizer *optimizer = ls_optimizer_at(i);
        trained *one = train(optimizer, LS_F64, "dp=1,ring=1,ulysses=1", NULL);
        for (size_t m = 0; m < LS_COUNT(cases); m++) {
            trained *many = train(optimizer, LS_F64, cases[m].mesh, cases[m].shard);
            double difference = 0, norm = 0;
            assert_int_equal(many->n, one->n);
            for (int64_t e = 0; e < one->n; e++) {
                difference += pow(many->parameter[e] - one->parameter[e], 2);
                norm += pow(one->parameter[e], 2);
            }
            print_message("%s on %s, shard %s: %.2g\n", optimizer->name, cases[m].mesh, cases[m].shard,
                          sqrt(difference / norm));
            assert_true(sqrt(difference / norm) < 1e-12);
            free(many);
        }
        free(one);
    }
}

static void trains_bf16(void **state) {
    (void)state;
    for (int i = 0; ls_optimizer_at(i) != NULL; i++)
        free(train(ls_optimizer_at(i), LS_BF16, "dp=1,ring=2,ulysses=1", NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_on_any_ranks), cmocka_unit_test(trains_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
