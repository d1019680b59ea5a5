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

static ls_timetable table_of(int schedule, int stages, int own, int micro, ls_arena *arena) {
    const ls_pipelining of = {ls_pipeline_schedule_at(schedule), stages, stages * own, micro, true};
    ls_timetable table;
    const ls_status status = ls_timetable_make(&of, arena, &table);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    return table;
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
    int *end = calloc((size_t)(t->chunks * t->micro * LS_TURN_KINDS), sizeof *end);
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

static void refused(int schedule, int stages, int chunks, int micro, const char *words) {
    ls_arena *arena = ls_arena_create();
    const ls_pipelining of = {ls_pipeline_schedule_at(schedule), stages, chunks, micro, true};
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle_time_follows_the_formulas),
                                       cmocka_unit_test(test_fewer_micro_batches_than_stages),
                                       cmocka_unit_test(test_what_a_schedule_cannot_do_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
