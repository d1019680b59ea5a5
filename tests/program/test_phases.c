/* The phase table: which orders of programs it allows, and the one that takes every row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "program/program.h"

enum { A, B, C, PROGRAMS };

#define ROW(from, to) \
    { from, to, LS_PHASE_ZERO }

static ls_image image_of(ls_program *programs, const ls_phase *phases, int n) {
    static const char *const names[PROGRAMS] = {"a", "b", "c"};
    for (int p = 0; p < PROGRAMS; p++) programs[p] = (ls_program){.name = names[p], .n_instrs = 10 + p};
    return (ls_image){.programs = programs, .n_programs = PROGRAMS, .phases = phases, .n_phases = n};
}

static bool holds(const int *walk, int n, const ls_phase *row) {
    if (row->from == LS_FIRST) {
        for (int i = 0; i < n; i++)
            if (walk[i] == row->to) return true;
    }
    for (int i = 1; i < n; i++)
        if (walk[i - 1] == row->from && walk[i] == row->to) return true;
    return false;
}

static void check_walk(const ls_phase *phases, int n_phases) {
    ls_program programs[PROGRAMS];
    const ls_image image = image_of(programs, phases, n_phases);
    ls_arena *arena = ls_arena_create();
    int *walk;
    const int n = ls_phase_walk(&image, arena, &walk);
    assert_true(n > 0 && ls_phase_exists(&image, LS_FIRST, walk[0]));
    for (int i = 1; i < n; i++) assert_true(ls_phase_exists(&image, walk[i - 1], walk[i]));
    for (int i = 0; i < n_phases; i++) assert_true(holds(walk, n, &phases[i]));
    assert_int_equal(ls_phases_check(&image).code, LS_OK);
    ls_arena_destroy(arena);
}

static void a_walk_takes_every_row(void **state) {
    (void)state;
    static const ls_phase alone[] = {ROW(LS_FIRST, A), ROW(A, A)}, once[] = {ROW(LS_FIRST, B)},
                          begun[] = {ROW(LS_FIRST, C), ROW(C, A), ROW(A, A), ROW(A, B), ROW(B, A)},
                          pairs[] = {ROW(LS_FIRST, A), ROW(LS_FIRST, B), ROW(LS_FIRST, C), ROW(A, A),
                                     ROW(A, B),        ROW(A, C),        ROW(B, A),        ROW(B, B),
                                     ROW(B, C),        ROW(C, A),        ROW(C, B),        ROW(C, C)},
                          steps[] = {ROW(LS_FIRST, A), ROW(LS_FIRST, B), ROW(A, A), ROW(A, B), ROW(B, A),
                                     ROW(B, B),        ROW(B, C),        ROW(C, C), ROW(C, A)};
    check_walk(alone, LS_COUNT(alone));
    check_walk(once, LS_COUNT(once));
    check_walk(begun, LS_COUNT(begun));
    check_walk(pairs, LS_COUNT(pairs));
    check_walk(steps, LS_COUNT(steps));
}

/* Each row costs what it must: with all pairs of three programs a walk of nine rows and ten programs is possible. */
static void a_walk_is_short(void **state) {
    (void)state;
    static const ls_phase pairs[] = {ROW(LS_FIRST, A), ROW(A, A), ROW(A, B), ROW(A, C), ROW(B, A),
                                     ROW(B, B),        ROW(B, C), ROW(C, A), ROW(C, B), ROW(C, C)};
    ls_program programs[PROGRAMS];
    const ls_image image = image_of(programs, pairs, LS_COUNT(pairs));
    ls_arena *arena = ls_arena_create();
    int *walk;
    assert_in_range(ls_phase_walk(&image, arena, &walk), 10, 12);
    ls_arena_destroy(arena);
}

static void what_no_walk_can_take_is_refused(void **state) {
    (void)state;
    static const ls_phase nothing[] = {ROW(A, B)}, no_way[] = {ROW(LS_FIRST, A), ROW(A, A), ROW(B, C)},
                          apart[] = {ROW(LS_FIRST, A), ROW(LS_FIRST, B), ROW(A, A), ROW(B, B)};
    static const struct {
        const ls_phase *phases;
        int n;
        const char *says;
    } cases[] = {{nothing, LS_COUNT(nothing), "no program may be the first"},
                 {no_way, LS_COUNT(no_way), "\"c\" after \"b\""},
                 {apart, LS_COUNT(apart), "after \"the beginning\""}};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_program programs[PROGRAMS];
        const ls_image image = image_of(programs, cases[i].phases, cases[i].n);
        const ls_status status = ls_phases_check(&image);
        assert_int_equal(status.code, LS_INVALID);
        assert_non_null(strstr(status.text, cases[i].says));
    }
}

static void programs_have_names(void **state) {
    (void)state;
    ls_program programs[PROGRAMS];
    const ls_image image = image_of(programs, NULL, 0);
    assert_int_equal(ls_program_find(&image, "c"), C);
    assert_int_equal(ls_program_find(&image, "d"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_walk_takes_every_row), cmocka_unit_test(a_walk_is_short),
                                       cmocka_unit_test(what_no_walk_can_take_is_refused),
                                       cmocka_unit_test(programs_have_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
