/* Timetables of pipelines: what each schedule says of idle time and of what a stage holds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/pipeline/pipeline.h"

enum { PLAIN, INTERLEAVED, ZERO_BUBBLE };

/* takes NULL: all turns are alike, a whole one backward twice as long. */
static ls_timetable make_table(int schedule, int stages, int own, int micro, int slices, const int *takes,
                               ls_arena *arena) {
    int *alike = LS_NEW_ARRAY(arena, int, slices *stages *own *LS_TURN_KINDS);
    for (int i = 0; i < slices * stages * own * LS_TURN_KINDS; i++) alike[i] = 1;
    const ls_pipelining of = {.schedule = ls_pipeline_schedule_at(schedule),
                              .stages = stages,
                              .chunks = stages * own,
                              .micro = micro * slices,
                              .slices = slices,
                              .backward = true,
                              .takes = takes != NULL ? takes : alike};
    ls_timetable table;
    const ls_status status = ls_timetable_make(&of, arena, &table);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    return table;
}

static ls_timetable table_of(int schedule, int stages, int own, int micro, ls_arena *arena) {
    return make_table(schedule, stages, own, micro, 1, NULL, arena);
}

/* Of stages that take equally long and wait for nothing but each other: the share of time that they are idle. */
static double idle_share(const ls_timetable *table) {
    double busy = 0;
    for (int s = 0; s < table->stages; s++)
        for (int i = 0; i < table->n_of_stage[s]; i++) busy += table->of_stage[s][i].end - table->of_stage[s][i].begin;
    return 1 - busy / ((double)table->end * table->stages);
}

/* The most micro-batches that are in a stage at once: through a chunk of it forward, and not yet backward. */
static int most_held(const ls_timetable *table, int stage) {
    int now = 0, most = 0;
    for (int i = 0; i < table->n_of_stage[stage]; i++) {
        const ls_turn_kind kind = table->of_stage[stage][i].kind;
        now += kind == LS_TURN_FORWARD ? 1 : kind == LS_TURN_BACKWARD ? -1 : 0;
        most = (int)ls_max(most, now);
    }
    return most;
}

/* Every turn is there once, no stage does two at once, and what a turn needs has ended. */
static void check(const ls_timetable *t, bool splits) {
    int *end = calloc((size_t)t->chunks * (size_t)t->micro * LS_TURN_KINDS, sizeof *end);
    for (int s = 0; s < t->stages; s++) {
        for (int i = 0; i < t->n_of_stage[s]; i++) {
            const ls_turn *turn = &t->of_stage[s][i];
            int *mine = &end[((int)turn->kind * t->chunks + turn->chunk) * t->micro + turn->micro];
            assert_int_equal(turn->chunk % t->stages, s);
            assert_int_equal(*mine, 0);
            if (i > 0) assert_true(turn->begin >= t->of_stage[s][i - 1].end);
            *mine = turn->end;
        }
    }
    const int kinds = splits ? LS_TURN_KINDS : LS_TURN_WEIGHTS, all = t->chunks * t->micro;
    for (int i = 0; i < kinds * all; i++) assert_true(end[i] > 0);
    for (int s = 0; s < t->stages; s++) {
        for (int i = 0; i < t->n_of_stage[s]; i++) {
            const ls_turn *turn = &t->of_stage[s][i];
            const int at = turn->chunk * t->micro + turn->micro;
            if (turn->kind == LS_TURN_FORWARD && turn->chunk > 0) assert_true(turn->begin >= end[at - t->micro]);
            if (turn->kind == LS_TURN_BACKWARD) assert_true(turn->begin >= end[at]);
            if (turn->kind == LS_TURN_BACKWARD && turn->chunk + 1 < t->chunks)
                assert_true(turn->begin >= end[all + at + t->micro]);
            if (turn->kind == LS_TURN_WEIGHTS) assert_true(turn->begin >= end[all + at]);
        }
    }
    free(end);
}

/* Narayanan et al.: idle are (p - 1) / (m + p - 1) of the time, and with v chunks (p - 1) / (v m + p - 1). */
static void test_idle_time_follows_the_formulas(void **state) {
    (void)state;
    for (int stages = 1; stages <= 8; stages++) {
        for (int micro = stages; micro <= 6 * stages; micro += stages) {
            ls_arena *arena = ls_arena_create();
            const ls_timetable plain = table_of(PLAIN, stages, 1, micro, arena);
            check(&plain, false);
            const double bubble = (stages - 1.0) / (micro + stages - 1.0);
            assert_true(fabs(idle_share(&plain) - bubble) < 1e-12);
            for (int stage = 0; stage < stages; stage++)
                assert_int_equal(most_held(&plain, stage), ls_min(micro, stages - stage));
            for (int own = 2; own <= 4; own++) {
                const ls_timetable interleaved = table_of(INTERLEAVED, stages, own, micro, arena);
                check(&interleaved, false);
                assert_true(fabs(idle_share(&interleaved) - (stages - 1.0) / (own * micro + stages - 1.0)) < 1e-12);
            }
            const ls_timetable split = table_of(ZERO_BUBBLE, stages, 1, micro, arena);
            check(&split, true);
            if (stages > 1) assert_true(idle_share(&split) < idle_share(&plain));
            for (int stage = 0; stage < stages; stage++)
                assert_true(most_held(&split, stage) <= ls_min(micro, stages - stage));
            ls_arena_destroy(arena);
        }
    }
}

/* A slice goes forward behind the slices before it, and backward behind those after it. */
static void check_slices(const ls_timetable *t, int slices) {
    for (int s = 0; s < t->stages; s++) {
        for (int i = 0; i < t->n_of_stage[s]; i++) {
            for (int k = i + 1; k < t->n_of_stage[s]; k++) {
                const ls_turn *a = &t->of_stage[s][i], *b = &t->of_stage[s][k];
                if (a->kind != b->kind || a->chunk != b->chunk || a->micro / slices != b->micro / slices) continue;
                assert_true((a->micro < b->micro) == (a->kind == LS_TURN_FORWARD));
            }
        }
    }
}

/*
 * Sun et al.: a sequence of n slices, of which a stage holds n - 1 more than it would of micro-batches, leaves it idle
 * as n m micro-batches do: (p - 1) / (n m + p - 1) of the time.
 */
static void test_slices_of_a_sequence(void **state) {
    (void)state;
    for (int stages = 1; stages <= 6; stages++) {
        for (int slices = 2; slices <= 8; slices++) {
            for (int micro = 1; micro <= 4; micro++) {
                ls_arena *arena = ls_arena_create();
                const ls_timetable plain = make_table(PLAIN, stages, 1, micro, slices, NULL, arena),
                                   split = make_table(ZERO_BUBBLE, stages, 1, micro, slices, NULL, arena);
                check(&plain, false);
                check(&split, true);
                check_slices(&plain, slices);
                check_slices(&split, slices);
                assert_true(fabs(idle_share(&plain) - (stages - 1.0) / (slices * micro + stages - 1.0)) < 1e-12);
                if (stages > 1) assert_true(idle_share(&split) < idle_share(&plain));
                for (int stage = 0; stage < stages; stage++)
                    assert_int_equal(most_held(&plain, stage), ls_min(slices * micro, slices - 1 + stages - stage));
                for (int own = 2; own <= 3 && slices * micro % stages == 0; own++) {
                    const ls_timetable interleaved = make_table(INTERLEAVED, stages, own, micro, slices, NULL, arena);
                    check(&interleaved, false);
                    check_slices(&interleaved, slices);
                    assert_true(idle_share(&interleaved) <= idle_share(&plain));
                }
                ls_arena_destroy(arena);
            }
        }
    }
}

static void test_fewer_micro_batches_than_stages(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    for (int micro = 1; micro <= 4; micro++) {
        const ls_timetable plain = table_of(PLAIN, 4, 1, micro, arena),
                           split = table_of(ZERO_BUBBLE, 4, 1, micro, arena);
        check(&plain, false);
        check(&split, true);
    }
    ls_arena_destroy(arena);
}

/* A chain of products of as many tokens as features, and a loss that takes nothing. */
static ls_graph *chain(int products) {
    enum { V = 8, B = 4, S = 64, E = 256 };
    ls_graph *g = ls_graph_create(LS_F32);
    ls_tensor x = ls_embedding(g, ls_tokens(g, "tokens", B, S), ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    for (int i = 0; i < products; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        x = ls_linear(g, x, ls_parameter(g, name, 2, (int64_t[]){E, E}), LS_NO_TENSOR);
    }
    assert_int_equal(ls_graph_differentiate_loss(g, ls_sum(g, x)).code, LS_OK);
    return g;
}

/* Of a product, forward, the gradient of what goes in and that of the parameter take alike; twice as many twice that.
 */
static void test_turns_take_what_their_nodes_do(void **state) {
    (void)state;
    static const double products[][2] = {{4, 4}, {3, 3}, {2, 3}}; /* of each stage */
    for (size_t i = 0; i < LS_COUNT(products); i++) {
        ls_graph *g = chain((int)(products[i][0] + products[i][1]));
        ls_target target = {.strategy = "local", .threads = 1, .isa = LS_ISA_REF};
        ls_arena *arena = ls_arena_create();
        ls_graph_chunks chunks;
        ls_rates rates;
        ls_job job = {.graph = g};
        assert_int_equal(ls_mesh_parse("pp=2", &target.mesh).code, LS_OK);
        assert_int_equal(ls_mark_boundaries(&job, &target, arena).code, LS_OK);
        assert_int_equal(ls_durations_rates(&target, LS_F32, &rates).code, LS_OK);
        ls_cut_graph(&job, arena, &chunks);
        assert_int_equal(chunks.chunks, 2);
        ls_pipelining of = {.schedule = ls_pipeline_schedule_at(PLAIN),
                            .stages = 2,
                            .chunks = 2,
                            .micro = 4,
                            .slices = 1,
                            .backward = true};
        const ls_job_program all = {.end_node = LS_LAST_NODE};
        ls_turns_take(&of, job.graph, &chunks, &all, &rates, 1, arena);
        const int *takes = of.takes;
        int most = 0;
        for (int t = 0; t < 2 * LS_TURN_KINDS; t++) most = (int)ls_max(most, takes[t]);
        assert_in_range(most, 500, 1000);
        for (int t = 0; t < 2 * LS_TURN_KINDS; t++)
            assert_true(fabs(takes[t] / (double)most - products[i][t / LS_TURN_KINDS] / products[i][1]) < 0.05);
        ls_arena_destroy(arena);
        ls_graph_destroy(g);
    }
}

/* Attention of a later slice takes as much longer as its queries see more, all slices together as much as the whole. */
static void test_later_slices_take_longer(void **state) {
    (void)state;
    enum { B = 2, S = 64, H = 2, D = 16, SLICES = 4 };
    ls_target target = {.strategy = "local", .threads = 1, .isa = LS_ISA_REF};
    ls_rates rates;
    assert_int_equal(ls_durations_rates(&target, LS_F32, &rates).code, LS_OK);
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_mask mask = ls_mask_causal();
    const ls_shape shape = {4,
                            {{B, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {H, LS_FACTOR_NONE}, {D, LS_FACTOR_NONE}}};
    ls_tensor x[3];
    for (int i = 0; i < 3; i++)
        x[i] = ls_graph_leaf(g, LS_ROLE_INPUT, (const char *[]){"q", "k", "v"}[i], LS_F32, &shape);
    ls_attention(g, x[0], x[1], x[2], &mask, 0.25);
    const ls_node *node = &g->nodes[g->n_nodes - 1];
    const double one = ls_node_seconds(g, node, (ls_slice_of){0, 1}, &rates);
    double all = 0;
    for (int i = 0; i < SLICES; i++) {
        const double seconds = ls_node_seconds(g, node, (ls_slice_of){i, SLICES}, &rates);
        const double pairs = S * (S + 1) / 2.0 + (double)i * S * S;
        assert_true(fabs(seconds / one - pairs / (S * (S + 1) / 2.0)) < 1e-9);
        all += seconds;
    }
    assert_true(fabs(ls_node_seconds(g, node, (ls_slice_of){-1, SLICES}, &rates) * SLICES / all - 1) < 1e-9);
    ls_graph_destroy(g);
}

static void refused(int schedule, int stages, int chunks, int micro, const char *words) {
    ls_arena *arena = ls_arena_create();
    const ls_pipelining of = {.schedule = ls_pipeline_schedule_at(schedule),
                              .stages = stages,
                              .chunks = chunks,
                              .micro = micro,
                              .slices = 1,
                              .backward = true};
    ls_timetable table;
    const ls_status status = ls_timetable_make(&of, arena, &table);
    assert_int_equal(status.code, LS_USAGE);
    if (strstr(status.text, words) == NULL) fail_msg("expected \"%s\" in: %s", words, status.text);
    ls_arena_destroy(arena);
}

static void test_what_a_schedule_cannot_do_is_refused(void **state) {
    (void)state;
    refused(INTERLEAVED, 4, 8, 6, "6 micro-batches of a step on 4 stages; expected a multiple of 4");
    refused(PLAIN, 4, 8, 4, "8 chunks on 4 stages; expected one for each stage");
    refused(PLAIN, 4, 4, 0, "0 micro-batches");
    refused(INTERLEAVED, 4, 6, 4, "6 chunks");
}

/* Takes of a turn of chunk c: between 50 and 150, and of the last one more, which has the head of a model. */
static int *unequal(int chunks, uint64_t seed, ls_arena *arena) {
    int *takes = LS_NEW_ARRAY(arena, int, chunks *LS_TURN_KINDS);
    for (int i = 0; i < chunks * LS_TURN_KINDS; i++)
        takes[i] = 50 + (int)ls_rng_below(seed, 0, (uint64_t)i, 100) + (i / LS_TURN_KINDS + 1 == chunks ? 40 : 0);
    return takes;
}

/* What a stage takes for all micro-batches, and what passes before it can begin, of the stage with most of both. */
static int least_end(const ls_timetable *t, const int *takes) {
    int least = 0, before = 0;
    for (int s = 0; s < t->stages; s++) {
        const int *mine = &takes[s * LS_TURN_KINDS];
        least = (int)ls_max(least, before + t->micro * (mine[0] + mine[1] + mine[2]));
        before += mine[LS_TURN_FORWARD];
    }
    return least;
}

/* Turns last as long as they are said to, and gradients of parameters fill what 1F1B would wait for. */
static void test_turns_of_unequal_length(void **state) {
    (void)state;
    int better = 0, all = 0;
    for (int stages = 1; stages <= 8; stages++) {
        for (int micro = stages; micro <= 4 * stages; micro += stages) {
            ls_arena *arena = ls_arena_create();
            const int *takes = unequal(2 * stages, (uint64_t)micro, arena);
            const ls_timetable plain = make_table(PLAIN, stages, 1, micro, 1, takes, arena),
                               interleaved = make_table(INTERLEAVED, stages, 2, micro, 1, takes, arena),
                               split = make_table(ZERO_BUBBLE, stages, 1, micro, 1, takes, arena);
            check(&plain, false);
            check(&interleaved, false);
            check(&split, true);
            assert_int_equal(split.of_stage[0][0].end, takes[0]);
            assert_true(split.end >= least_end(&split, takes) && plain.end >= least_end(&plain, takes));
            assert_true(split.end <= plain.end);
            for (int stage = 0; stage < stages; stage++) {
                assert_true(most_held(&split, stage) <= ls_min(micro, stages - stage));
                const ls_turn *last = &plain.of_stage[stage][plain.n_of_stage[stage] - 1];
                assert_int_equal(last->kind, LS_TURN_BACKWARD);
                assert_int_equal(last->end - last->begin, takes[3 * stage + 1] + takes[3 * stage + 2]);
            }
            better += split.end < plain.end;
            all += stages > 1;
            ls_arena_destroy(arena);
        }
    }
    assert_int_equal(better, all);
}

/* A long list ends where an int still counts it. */
static void test_many_micro_batches(void **state) {
    (void)state;
    enum { MICRO = 1 << 14 };
    ls_arena *arena = ls_arena_create();
    const ls_timetable split = table_of(ZERO_BUBBLE, 8, 1, MICRO, arena);
    check(&split, true);
    assert_true(idle_share(&split) < 1e-3);
    ls_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle_time_follows_the_formulas),
                                       cmocka_unit_test(test_slices_of_a_sequence),
                                       cmocka_unit_test(test_fewer_micro_batches_than_stages),
                                       cmocka_unit_test(test_turns_of_unequal_length),
                                       cmocka_unit_test(test_many_micro_batches),
                                       cmocka_unit_test(test_turns_take_what_their_nodes_do),
                                       cmocka_unit_test(test_later_slices_take_longer),
                                       cmocka_unit_test(test_what_a_schedule_cannot_do_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
