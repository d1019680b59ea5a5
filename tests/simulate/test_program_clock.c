/*
 * The clock: programs take the time of their kernels and puts, waiting is accounted to the rank that waits, and
 * programs that hang are refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/simulate.h"
#include "support/classes.h"
#include "support/images.h"
#include "support/meshes.h"

static const ls_rates even = {.core = {.attention = {{.flop = 1e-9}, {.flop = 1e-9}}, .matmul = 1e9},
                              .put = {1e-9, 1e-9},
                              .latency = 1e-6,
                              .overhead = 0};

static int step_of(const ls_image *image) { return ls_program_find(image, LS_PROGRAM_STEP); }

static void play(const image_set *set, const ls_rates *rates, ls_simulated_rank *out) {
    const ls_status status =
        ls_simulate((const ls_image *const *)set->image, set->ranks, step_of(set->image[0]), rates, NULL, out);
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
} cases[] = {{1, 1, 1, "local"}, {1, 4, 1, "ring"}, {1, 1, 3, "ulysses"}, {2, 2, 2, "usp"}};

static void all_time_is_accounted_for(void **state) {
    (void)state;
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        image_set set = images_of_step(mesh_of(cases[c].dp, cases[c].ring, cases[c].ulysses), cases[c].strategy,
                                       LS_LAYOUT_ZIGZAG, 41, 2);
        ls_simulated_rank times[16];
        play(&set, &even, times);
        for (int r = 0; r < set.ranks; r++) {
            const ls_program_cost cost = ls_program_measure(set.image[r], step_of(set.image[r]));
            const ls_simulated_rank *t = &times[r];
            assert_true(fabs(t->computing + t->sending + t->waiting - t->end) <= 1e-9 * t->end);
            assert_true(fabs(t->computing - cost.flops / 1e9) <= 1e-9 * t->end);
            assert_true(t->sending >= cost.bytes_sent / 1e9 * (1 - 1e-9));
            assert_true(t->end <= ls_simulated_seconds(times, set.ranks));
        }
        free_images(&set);
    }
}

/* Contiguous and causal: the last rank has most to do, so all end with it, and the first waits most. */
static void imbalance_is_waited_for(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 4, 1), "ring", LS_LAYOUT_CONTIGUOUS, 256, 2);
    ls_simulated_rank times[4];
    play(&set, &even, times);
    for (int r = 1; r < 4; r++) {
        assert_true(times[r].computing > times[r - 1].computing);
        assert_true(times[r].waiting < times[0].waiting);
    }
    assert_true(ls_simulated_seconds(times, 4) >= times[3].computing + times[3].sending);
    free_images(&set);
}

static void a_slow_network_is_waited_for(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 3, 1), "ring", LS_LAYOUT_ZIGZAG, 48, 1);
    ls_rates slow = even;
    ls_simulated_rank fast_times[3], times[3];
    slow.latency = 1;
    play(&set, &even, fast_times);
    play(&set, &slow, times);
    /* The sums of a block's gradient take three hops, each followed only by the next. */
    assert_true(ls_simulated_seconds(times, 3) >= ls_simulated_seconds(fast_times, 3) + 3);
    free_images(&set);
}

/* What a watcher recorded of one rank. */
typedef struct seen {
    const ls_program *program;
    double computing, sending, idle, end[LS_QUEUES], through;
    int instrs, last[LS_QUEUES];
} seen;

/* Each queue runs in its order, one instruction at a time. */
static void see(void *context, int rank, int instr, double begin, double end) {
    seen *s = (seen *)context + rank;
    assert_true(begin <= end);
    s->through = end > s->through ? end : s->through;
    if (instr < 0) {
        s->idle += end - begin;
        return;
    }
    const ls_instr *it = &s->program->instrs[instr];
    assert_true(instr > s->last[it->queue] && begin >= s->end[it->queue]);
    s->last[it->queue] = instr;
    s->end[it->queue] = end;
    s->instrs++;
    if (it->kind == LS_INSTR_KERNEL) s->computing += end - begin;
    if (it->kind == LS_INSTR_PUT) s->sending += end - begin;
}

static void what_is_seen_adds_up(void **state) {
    (void)state;
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        image_set set = images_of_step(mesh_of(cases[c].dp, cases[c].ring, cases[c].ulysses), cases[c].strategy,
                                       LS_LAYOUT_ZIGZAG, 41, 2);
        ls_simulated_rank times[16];
        seen all[16] = {0};
        for (int r = 0; r < set.ranks; r++)
            all[r] = (seen){.program = &set.image[r]->programs[step_of(set.image[r])], .last = {-1, -1}};
        const ls_simulation_watch watch = {see, all};
        assert_int_equal(
            ls_simulate((const ls_image *const *)set.image, set.ranks, step_of(set.image[0]), &even, &watch, times)
                .code,
            LS_OK);
        for (int r = 0; r < set.ranks; r++) {
            const double rounding = 1e-9 * times[r].end;
            assert_int_equal(all[r].instrs, all[r].program->n_instrs);
            assert_true(fabs(all[r].computing - times[r].computing) <= rounding);
            assert_true(fabs(all[r].sending - times[r].sending) <= rounding);
            assert_true(fabs(all[r].idle - times[r].waiting) <= rounding);
            assert_true(all[r].through == times[r].end);
        }
        free_images(&set);
    }
}

/*
 * On a device with overlapping queues copies to memory of the host run beside kernels: a program takes no longer than
 * with one thread, no less than its busiest queue, and, where the link is fast, as long as without them.
 */
static void queues_of_a_device_overlap(void **state) {
    (void)state;
    const ls_saving saving = {.offload = LS_OFFLOAD_ALL, .offload_state = true};
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        const ls_mesh mesh = mesh_of(cases[c].dp, cases[c].ring, cases[c].ulysses);
        image_set set = images_of_saving(mesh, cases[c].strategy, 3, &saving, NULL),
                  plain = images_of_saving(mesh, cases[c].strategy, 3, &(ls_saving){0}, NULL);
        ls_simulated_rank one_thread[16], queues[16], hidden[16], without[16];
        ls_rates rates = even;
        rates.to_host = rates.from_host = 1e9;
        play(&set, &rates, one_thread);
        rates.overlap = true;
        play(&set, &rates, queues);
        rates.to_host = rates.from_host = 1e15;
        play(&set, &rates, hidden);
        play(&plain, &rates, without);
        for (int r = 0; r < set.ranks; r++) {
            const ls_program *p = &set.image[r]->programs[step_of(set.image[r])];
            double busy[LS_QUEUES] = {0};
            rates.to_host = rates.from_host = 1e9;
            for (int i = 0; i < p->n_instrs; i++)
                busy[p->instrs[i].queue] += ls_instr_seconds(&p->instrs[i], 0, &rates);
            assert_true(busy[LS_LINK] > 0);
            assert_true(queues[r].end < one_thread[r].end);
            for (int q = 0; q < LS_QUEUES; q++) assert_true(queues[r].end >= busy[q] * (1 - 1e-9));
            assert_true(ls_simulate_alone(set.image[r], step_of(set.image[r]), &rates) <= queues[r].end * (1 + 1e-9));
        }
        const double with = ls_simulated_seconds(hidden, set.ranks), bare = ls_simulated_seconds(without, set.ranks);
        assert_true(with <= bare * 1.05 + 1e-6);
        free_images(&set);
        free_images(&plain);
    }
}

/*
 * Ranks that share an image are played once, and do what each does by itself: but for some latencies, since of those
 * that exchange with each other one begins.
 */
static void plays_alike(const image_set *set) {
    const double tolerance = 1e-3;
    image_set shared = *set;
    ls_simulated_rank alone[64], together[64];
    const ls_image *const *images = (const ls_image *const *)set->image;
    for (int r = 0; r < set->ranks; r++)
        for (int first = r; first >= 0; first--)
            if (images_equal(images[first], images[r])) shared.image[r] = set->image[first];
    play(set, &even, alone);
    play(&shared, &even, together);
    assert_true(count_classes(images, set->ranks) < set->ranks);
    for (int r = 0; r < set->ranks; r++) {
        assert_true(fabs(together[r].end - alone[r].end) <= tolerance * alone[r].end);
        assert_true(fabs(together[r].waiting - alone[r].waiting) <= tolerance * alone[r].end);
    }
}

static void a_class_is_played_as_one(void **state) {
    (void)state;
    static const char *const stages[] = {"pp=2,dp=2", "pp=3,dp=2"};
    static const int meshes[][3] = {{3, 1, 1}, {2, 3, 1}, {1, 1, 4}, {2, 1, 4}, {1, 2, 2}, {2, 2, 2}};
    for (size_t i = 0; i < LS_COUNT(meshes); i++) {
        const ls_mesh mesh = mesh_of(meshes[i][0], meshes[i][1], meshes[i][2]);
        const bool alone = ls_mesh_sequence_ranks(&mesh) == 1;
        image_set set = images_of_step(mesh, alone ? "local" : "usp", LS_LAYOUT_CONTIGUOUS, 48, 2);
        plays_alike(&set);
        free_images(&set);
    }
    for (size_t i = 0; i < LS_COUNT(stages); i++) {
        image_set set = images_of_stages(stages[i], "local", NULL, NULL);
        plays_alike(&set);
        free_images(&set);
    }
}

/* A chain of equal products on stages, with a step of so many micro-batches. */
static image_set images_of_chain(int stages, int own, int micro, const char *pipeline) {
    enum { V = 8, E = 256 };
    image_set set = {.ranks = stages, .graph = ls_graph_create(LS_F32)};
    ls_graph *g = set.graph;
    ls_tensor x = ls_embedding(g, ls_tokens(g, "tokens", 1, E), ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    for (int i = 0; i < 2 * stages * own; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        x = ls_linear(g, x, ls_parameter(g, name, 2, (int64_t[]){E, E}), LS_NO_TENSOR);
        x = ls_mul(g, x, x); /* so that the backward pass needs the forward pass */
    }
    ls_job job = job_of_loss(g, ls_sum(g, x), micro > 1, NULL);
    ls_target target = {.strategy = "local", .threads = 1};
    char mesh[16];
    job.micro_batches = micro;
    snprintf(mesh, sizeof mesh, "pp=%d", stages);
    assert_int_equal(ls_mesh_parse(mesh, &target.mesh).code, LS_OK);
    assert_int_equal(ls_pipeline_parse(pipeline, &target.schedule, &target.stage_chunks).code, LS_OK);
    for (target.rank = 0; target.rank < stages; target.rank++)
        assert_int_equal(ls_compile(&job, &target, &set.image[target.rank]).code, LS_OK);
    return set;
}

/* The share of the time that a stage is idle, of stages that take equally long and whose links take no time. */
static double bubble(int stages, int own, int micro, const char *pipeline) {
    static const ls_rates products = {.core = {.matmul = 1e9}};
    image_set set = images_of_chain(stages, own, micro, pipeline);
    ls_simulated_rank times[64];
    play(&set, &products, times);
    const double end = ls_simulated_seconds(times, stages);
    for (int s = 1; s < stages; s++) assert_true(fabs(times[s].computing - times[0].computing) <= 1e-9 * end);
    free_images(&set);
    return 1 - times[0].computing / end;
}

/*
 * Narayanan et al.: idle are (p - 1) / (m + p - 1) of the time, and with v chunks (p - 1) / (v m + p - 1). Where
 * gradients of parameters wait, and all of them may, it is as if each micro-batch were three.
 */
static void idle_stages_follow_the_formulas(void **state) {
    (void)state;
    for (int p = 2; p <= 4; p++) {
        for (int m = p; m <= 3 * p; m += p) {
            assert_true(fabs(bubble(p, 1, m, "1f1b") - (p - 1.0) / (m + p - 1.0)) < 1e-9);
            for (int own = 2; own <= 3; own++) {
                char pipeline[24];
                snprintf(pipeline, sizeof pipeline, "interleaved:%d", own);
                assert_true(fabs(bubble(p, own, m, pipeline) - (p - 1.0) / (own * m + p - 1.0)) < 1e-9);
            }
            const double split = bubble(p, 1, m, "zero-bubble"), least = (p - 1.0) / (3 * m + p - 1.0);
            assert_true(split > least - 1e-9 && (m > p || split < least + 1e-9) && split < 1.5 * least);
        }
    }
}

static void a_hang_is_refused(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 16, 1);
    ls_program *p = &set.image[1]->programs[step_of(set.image[1])];
    for (int i = 0; i < p->n_instrs; i++) {
        ls_instr *instr = &p->instrs[i];
        if (instr->kind != LS_INSTR_GRANT) continue;
        instr->peer = (ls_peer){0}; /* tells itself instead of rank 0 */
        break;
    }
    ls_simulated_rank times[2];
    const ls_status status =
        ls_simulate((const ls_image *const *)set.image, 2, step_of(set.image[0]), &even, NULL, times);
    assert_int_equal(status.code, LS_INVALID);
    assert_non_null(strstr(status.text, "waits for ever"));
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_time_is_accounted_for),    cmocka_unit_test(imbalance_is_waited_for),
        cmocka_unit_test(a_slow_network_is_waited_for), cmocka_unit_test(what_is_seen_adds_up),
        cmocka_unit_test(queues_of_a_device_overlap),   cmocka_unit_test(a_hang_is_refused),
        cmocka_unit_test(a_class_is_played_as_one),     cmocka_unit_test(idle_stages_follow_the_formulas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
