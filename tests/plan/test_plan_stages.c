/* Plans of steps of several micro-batches, and of stages that they go through. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "session/session.h"
#include "support/images.h"
#include "support/scratch.h"

/* A step of so many micro-batches of two sequences, planned. The caller frees the plan. */
static ls_plan plan_of(const ls_spread *spread, int micro) {
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor loss = loss_of_layers(g, 2, 64, 4);
    ls_job job = job_of_loss(g, loss, micro > 1, NULL);
    job.programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, micro - 1);
    job.micro_batches = micro;
    ls_plan_request request;
    ls_plan made = {.n_candidates = 0};
    assert_ok(ls_spread_resolve(spread, &request));
    request.host = ls_host_nominal(LS_DEVICE_CPU, request.isa);
    assert_ok(ls_plan_make(&job, &request, &made));
    ls_graph_destroy(g);
    return made;
}

/* The time is that of all micro-batches and one update, and so are the bytes; on stages one program runs them all. */
static void test_a_step_has_all_micro_batches(void **state) {
    (void)state;
    static const char *const meshes[] = {"dp=1", "ring=2", "dp=2"};
    for (size_t i = 0; i < LS_COUNT(meshes); i++) {
        double seconds[6], sent[6];
        for (int micro = 1; micro <= 5; micro += 2) {
            ls_plan made = plan_of(&(ls_spread){.mesh = meshes[i], .isa = "base", .transfers = "put"}, micro);
            seconds[micro] = made.candidates[0].seconds;
            sent[micro] = made.candidates[0].bytes_sent;
            assert_true(made.candidates[0].simulated);
            ls_plan_free(&made);
        }
        const double two = seconds[5] - seconds[3];
        assert_true(two > 0 && two < 2 * seconds[1]);
        assert_true(fabs(seconds[3] - seconds[1] - two) < 0.1 * two);
        assert_true(fabs(2 * sent[3] - sent[1] - sent[5]) <= 1e-9 * sent[5]);
    }
    ls_plan alone = plan_of(&(ls_spread){.mesh = "dp=1", .isa = "base", .threads = 1}, 4),
            stages = plan_of(&(ls_spread){.mesh = "pp=2", .isa = "base", .threads = 1}, 4);
    /* 4 of 5 turns of a stage are busy, and the stages are not quite equal. */
    const double least = alone.candidates[0].seconds / 2 * 5 / 4;
    assert_true(stages.candidates[0].seconds > least && stages.candidates[0].seconds < 1.3 * least);
    ls_plan_free(&alone);
    ls_plan_free(&stages);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_step_has_all_micro_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
