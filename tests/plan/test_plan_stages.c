/* Plans of steps of several micro-batches, and of stages that they go through. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/report.h"
#include "session/session.h"
#include "support/images.h"
#include "support/scratch.h"

/* A step of so many micro-batches of two sequences of S tokens, planned. The caller frees the plan. */
static ls_status try_plan(const ls_spread *spread, int64_t S, int micro, ls_plan *out) {
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor loss = loss_of_layers(g, 2, S, 4);
    ls_job job = job_of_loss(g, loss, micro > 1, NULL);
    job.programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, micro - 1);
    job.micro_batches = micro;
    ls_plan_request request;
    *out = (ls_plan){.n_candidates = 0};
    assert_ok(ls_spread_resolve(spread, &request));
    request.host = ls_host_nominal(LS_DEVICE_CPU, request.isa);
    request.memory = spread->memory;
    const ls_status status = ls_plan_make(&job, &request, out);
    ls_graph_destroy(g);
    return status;
}

static ls_plan plan_of(const ls_spread *spread, int micro) {
    ls_plan made;
    assert_ok(try_plan(spread, 64, micro, &made));
    return made;
}

/* How many candidates have so many stages. */
static int candidates_with(const ls_plan *plan, int stages) {
    int n = 0;
    for (int i = 0; i < plan->n_candidates; i++) n += ls_mesh_stages(&plan->candidates[i].mesh) == stages;
    return n;
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
            stages = plan_of(&(ls_spread){.mesh = "pp=2", .pipeline = "1f1b", .isa = "base", .threads = 1}, 4);
    /* 4 of 5 turns of a stage are busy, and the stages are not quite equal. */
    const double least = alone.candidates[0].seconds / 2 * 5 / 4;
    assert_true(stages.candidates[0].seconds > least && stages.candidates[0].seconds < 1.3 * least);
    ls_plan_free(&alone);
    ls_plan_free(&stages);
}

/* Of given stages each schedule is a candidate; what one cannot do is said. */
static void test_schedules_of_given_stages(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes;
    ls_plan made = plan_of(&(ls_spread){.mesh = "pp=2", .isa = "base"}, 4);
    assert_int_equal(made.n_candidates, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(made.candidates[i].refused[0] == 0);
        for (int j = 0; j < i; j++) assert_ptr_not_equal(made.candidates[i].schedule, made.candidates[j].schedule);
    }
    assert_ptr_equal(made.target.schedule, made.candidates[0].schedule);
    assert_true(made.candidates[0].simulated && made.candidates[0].seconds <= made.candidates[1].seconds);
    FILE *out = open_memstream(&text, &bytes);
    ls_candidates_print(&made, out);
    fclose(out);
    assert_non_null(strstr(text, "2 zero-bubble"));
    assert_non_null(strstr(text, "2 interleaved:2"));
    assert_non_null(strstr(text, "2 1f1b"));
    free(text);
    ls_plan_free(&made);
    made = plan_of(&(ls_spread){.mesh = "pp=2", .isa = "base"}, 3);
    assert_non_null(strstr(made.candidates[2].refused, "3 micro-batches of a step on 2 stages"));
    ls_plan_free(&made);
    made = plan_of(&(ls_spread){.mesh = "pp=2", .pipeline = "1f1b", .isa = "base"}, 4);
    assert_int_equal(made.n_candidates, 1);
    ls_plan_free(&made);
}

/* Where nothing else fits into the memory, or only what takes longer, layers are divided, if a step has micro-batches.
 */
static void test_stages_where_nothing_else_fits(void **state) {
    (void)state;
    enum { S = 8 }; /* parameters need more than what so few tokens make */
    ls_spread spread = {
        .mesh = "pp=2", .pipeline = "1f1b", .shard = "none", .recompute = "none", .tile = "none", .isa = "base"};
    ls_plan made;
    assert_ok(try_plan(&spread, S, 2, &made));
    spread.memory = (int64_t)made.candidates[0].mapped;
    ls_plan_free(&made);
    spread.mesh = spread.pipeline = NULL;
    spread.ranks = 2;
    assert_ok(try_plan(&spread, S, 2, &made));
    assert_int_equal(ls_mesh_stages(&made.target.mesh), 2);
    assert_true(made.candidates[0].fits && candidates_with(&made, 1) > 0 && candidates_with(&made, 2) == 3);
    ls_plan_free(&made);
    assert_ok(try_plan(&spread, S, 1, &made)); /* by tp, which sends more */
    assert_int_equal(candidates_with(&made, 2), 0);
    ls_plan_free(&made);
    spread.mesh = "ring=2"; /* which leaves no rank to stages */
    spread.strategy = "ring";
    assert_error(try_plan(&spread, S, 2, &made), LS_NO_MEMORY, "a rank needs", "--memory allows");
    assert_int_equal(candidates_with(&made, 2), 0);
    ls_plan_free(&made);
}

/* Where a rank alone would take as long as all of its parts, no stages can be faster, and none are compiled. */
static void test_stages_that_cannot_be_faster(void **state) {
    (void)state;
    ls_plan made = plan_of(&(ls_spread){.ranks = 1, .isa = "base"}, 4);
    assert_int_equal(candidates_with(&made, 1), made.n_candidates);
    ls_plan_free(&made);
    /* 8 stages are idle for more than a ring of 8 sends. */
    made = plan_of(&(ls_spread){.ranks = 8, .isa = "base", .threads = 1}, 2);
    assert_int_equal(candidates_with(&made, 8), 0);
    ls_plan_free(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_has_all_micro_batches), cmocka_unit_test(test_schedules_of_given_stages),
        cmocka_unit_test(test_stages_where_nothing_else_fits), cmocka_unit_test(test_stages_that_cannot_be_faster)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
