/*
 * What a plan saves where memory is short: on a device with memory of its own (cuda, by kernels that were compiled for
 * the host; nothing is run) results wait in memory of the host or are made again, whichever is faster.
 */
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/fake_cuda.h"
#include "support/images.h"
#include "support/scratch.h"

enum { S = 512, LAYERS = 6 };

typedef struct problem {
    ls_graph *graph;
    ls_job job;
    ls_plan_request request;
} problem;

static void make_layers(problem *p, const char *device, int layers) {
    p->graph = ls_graph_create(LS_F32);
    p->job = job_of_loss(p->graph, loss_of_layers(p->graph, 1, S, layers), false, NULL);
    p->request = (ls_plan_request){.ranks = 1,
                                   .device = device,
                                   .isa = LS_ISA_REF,
                                   .host = ls_host_nominal(LS_DEVICE_CPU, LS_ISA_REF),
                                   .threads = 1,
                                   .machine_ranks = 1,
                                   .shard = -1,
                                   .drop = -1,
                                   .tile = -1,
                                   .offload = -1,
                                   .offload_state = -1,
                                   .host_apart = device[0] == 'c' && device[1] == 'u'};
}

static void make(problem *p, const char *device) { make_layers(p, device, LAYERS); }

/* The best candidate where a rank may map `memory` bytes. */
static ls_plan_candidate best(problem *p, int64_t memory) {
    ls_plan plan;
    p->request.memory = memory;
    const ls_status status = ls_plan_make(&p->job, &p->request, &plan);
    if (status.code != LS_OK) fail_msg("%lld bytes: %s", (long long)memory, status.text);
    const ls_plan_candidate found = plan.candidates[0];
    ls_plan_free(&plan);
    return found;
}

static void test_the_faster_way(void **state) {
    (void)state;
    problem p;
    make(&p, "cuda");
    const ls_plan_candidate whole = best(&p, 0);
    assert_int_equal(whole.saving.offload, 0);
    assert_false(whole.saving.offload_state);
    assert_int_equal(whole.bytes[LS_HOST], 0);
    const int64_t half = (int64_t)whole.mapped / 2;
    p.request.host.to_host = p.request.host.from_host = 1e12;
    const ls_plan_candidate fast = best(&p, half);
    assert_true(fast.saving.offload > 0);
    assert_int_equal(fast.saving.drop, 0);
    assert_true((int64_t)fast.mapped <= half && fast.bytes[LS_HOST] > 0);
    assert_true(fast.seconds <= whole.seconds * 1.02); /* copies run beside kernels */
    p.request.host.to_host = p.request.host.from_host = 1e3;
    const ls_plan_candidate slow = best(&p, half);
    assert_int_equal(slow.saving.offload, 0);
    assert_false(slow.saving.offload_state);
    assert_true(slow.saving.drop > 0 && slow.seconds > whole.seconds);
    assert_true((int64_t)slow.mapped <= half);
    /* No more than the memory demands, and no more than that of the host allows. */
    p.request.host.to_host = p.request.host.from_host = 1e12;
    const ls_plan_candidate little = best(&p, (int64_t)whole.mapped * 9 / 10);
    assert_true(little.saving.offload < fast.saving.offload && little.bytes[LS_HOST] < fast.bytes[LS_HOST]);
    p.request.host_memory = (int64_t)fast.bytes[LS_HOST] / 4;
    const ls_plan_candidate both = best(&p, half);
    assert_true((int64_t)both.bytes[LS_HOST] <= p.request.host_memory && both.saving.drop > 0);
    ls_graph_destroy(p.graph);
}

/* The question whether anything fits has the answer of the whole plan, whatever the memory. */
static void test_only_fit(void **state) {
    (void)state;
    static const struct {
        const char *device;
        int ranks;
    } at[] = {{"cuda", 1}, {"cpu", 2}};
    enum { PARTS = 5 };
    for (size_t i = 0; i < LS_COUNT(at); i++) {
        problem p;
        int fit = 0;
        make_layers(&p, at[i].device, 1);
        p.request.strategy = "ring";
        p.request.layout = "contiguous";
        assert_ok(ls_mesh_parse("tp=1", &p.request.mesh));
        p.request.ranks = p.request.machine_ranks = p.request.host_ranks = at[i].ranks;
        const int64_t most = (int64_t)best(&p, 0).mapped;
        for (int part = 2; part <= PARTS; part++) {
            ls_plan plan;
            p.request.memory = most * part / PARTS;
            p.request.only_fit = false;
            const ls_status whole = ls_plan_make(&p.job, &p.request, &plan);
            ls_plan_free(&plan);
            p.request.only_fit = true;
            const ls_status asked = ls_plan_make(&p.job, &p.request, &plan);
            ls_plan_free(&plan);
            assert_int_equal(asked.code, whole.code);
            fit += asked.code == LS_OK;
        }
        assert_true(fit > 1 && fit < PARTS); /* both answers occur, and one fits by what it saves */
        ls_graph_destroy(p.graph);
    }
}

/* Where the device computes in memory of the host nothing is gained there. */
static void test_not_on_the_processor(void **state) {
    (void)state;
    problem p;
    make(&p, "cpu");
    const ls_plan_candidate whole = best(&p, 0), half = best(&p, (int64_t)whole.mapped / 2);
    assert_true(half.saving.drop > 0);
    assert_int_equal(half.saving.offload, 0);
    assert_false(half.saving.offload_state);
    p.request.offload = LS_OFFLOAD_ALL; /* but whoever asks for it gets it, counted as what it is */
    const ls_plan_candidate asked = best(&p, 0);
    assert_true(asked.bytes[LS_HOST] > 0);
    assert_int_equal(asked.mapped, asked.bytes[LS_PRIVATE] + asked.bytes[LS_SYMMETRIC] + asked.bytes[LS_HOST]);
    ls_graph_destroy(p.graph);
}

static void test_the_option(void **state) {
    (void)state;
    static const struct {
        const char *text, *normal;
        int results, state;
    } valid[] = {{"none", "none", 0, 0},
                 {"optimizer", "optimizer", 0, 1},
                 {"results", "results", LS_OFFLOAD_ALL, 0},
                 {"all", "all", LS_OFFLOAD_ALL, 1},
                 {"optimizer+results", "all", LS_OFFLOAD_ALL, 1},
                 {"12+optimizer", "optimizer+12", 12, 1},
                 {"7", "7", 7, 0},
                 {"0", "none", 0, 0}};
    for (size_t i = 0; i < LS_COUNT(valid); i++) {
        int results, kept;
        char text[LS_OFFLOAD_TEXT];
        assert_ok(ls_offload_parse(valid[i].text, &results, &kept));
        assert_int_equal(results, valid[i].results);
        assert_int_equal(kept, valid[i].state);
        ls_offload_print(&(ls_saving){.offload = results, .offload_state = kept > 0}, text);
        assert_string_equal(text, valid[i].normal);
    }
    static const char *const wrong[] = {"", "+", "optimizer+", "-1", "all+1", "1e3", "4294967296", "optimiser", "12 "};
    for (size_t i = 0; i < LS_COUNT(wrong); i++) {
        int results, kept;
        assert_error(ls_offload_parse(wrong[i], &results, &kept), LS_USAGE, "--offload", "expected auto, none");
    }
    int results, kept;
    assert_ok(ls_offload_parse(NULL, &results, &kept));
    assert_int_equal(results, -1);
    assert_int_equal(kept, -1);
}

int main(void) {
    use_emulated_kernels();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_faster_way), cmocka_unit_test(test_only_fit),
                                       cmocka_unit_test(test_not_on_the_processor), cmocka_unit_test(test_the_option)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
