/* Ranks that stay (run/crew.c): tasks on all ranks, failures at the start and in a task, ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "run/run.h"

#include <sched.h>

enum { RANKS = 4 };

typedef struct work {
    ls_crew *crew;
    int fails_at_start, fails_in_task; /* that rank; -1: none */
    _Atomic int sum, ended;
} work;

typedef struct task {
    int add;
    bool fails;
} task;

typedef struct server {
    work *work;
    ls_comm *comm;
} server;

static ls_status do_task(void *state, const void *given) {
    const server *s = state;
    const task *t = given;
    if (t->fails && ls_comm_rank(s->comm) == s->work->fails_in_task) return ls_error(LS_IO, "my own reason");
    s->work->sum += t->add;
    return ls_comm_barrier(s->comm); /* of which the one that fails keeps the others waiting */
}

static ls_status rank_main(ls_comm *comm, void *context) {
    work *w = context;
    if (ls_comm_rank(comm) == w->fails_at_start) return ls_error(LS_NO_MEMORY, "no start");
    server s = {w, comm};
    const ls_status status = ls_crew_serve(w->crew, ls_comm_rank(comm), do_task, &s);
    w->ended++;
    return status;
}

static ls_world *make_world(int ranks) {
    const ls_world_options options = {.ranks = ranks, .heap_bytes = 64, .wait_timeout = 60, .unguarded = true};
    ls_world *world;
    assert_int_equal(ls_world_create("shm", &options, &world).code, LS_OK);
    return world;
}

static void test_tasks(void **state) {
    (void)state;
    for (int how = 0; how < 4; how++) {
        ls_world *world = make_world(RANKS);
        work w = {.fails_at_start = -1, .fails_in_task = -1};
        assert_int_equal(ls_crew_start(world, how & 1, how & 2, rank_main, &w, &w.crew).code, LS_OK);
        for (int i = 1; i <= 500; i++) {
            assert_int_equal(ls_crew_call(w.crew, &(task){.add = i}).code, LS_OK);
            assert_int_equal(w.sum, RANKS * i * (i + 1) / 2);
        }
        assert_int_equal(w.ended, 0);
        ls_crew_end(w.crew);
        assert_int_equal(w.ended, RANKS);
        ls_world_destroy(world);
    }
    ls_crew_end(NULL);
}

static void assert_failed(ls_status status, ls_code code, const char *part) {
    assert_int_equal(status.code, code);
    assert_non_null(strstr(status.text, part));
}

static void test_failures(void **state) {
    (void)state;
    for (int i = 0; i < 2 * RANKS; i++) {
        const int rank = i / 2;
        const bool here = i % 2 == 1;
        ls_world *world = make_world(RANKS);
        work w = {.fails_at_start = -1, .fails_in_task = rank};
        assert_int_equal(ls_crew_start(world, here, true, rank_main, &w, &w.crew).code, LS_OK);
        assert_int_equal(ls_crew_call(w.crew, &(task){.add = 1}).code, LS_OK);
        assert_failed(ls_crew_call(w.crew, &(task){.fails = true}), LS_IO, "my own reason");
        assert_failed(ls_crew_call(w.crew, &(task){.add = 1}), LS_IO, "my own reason");
        assert_int_equal(w.sum, RANKS);
        ls_crew_end(w.crew);
        ls_world_destroy(world);

        world = make_world(RANKS);
        w = (work){.fails_at_start = rank};
        assert_failed(ls_crew_start(world, here, false, rank_main, &w, &w.crew), LS_NO_MEMORY, "no start");
        assert_failed(ls_crew_call(w.crew, &(task){.add = 1}), LS_NO_MEMORY, "no start");
        ls_crew_end(w.crew);
        assert_int_equal(w.ended, RANKS - 1);
        ls_world_destroy(world);
    }
}

/* --- where threads run -------------------------------------------------------------------------------------------- */

typedef struct places {
    ls_crew *crew;
    int on[2]; /* the processor of each rank's last task */
} places;

typedef struct place_server {
    places *places;
    int rank;
} place_server;

static ls_status note_place(void *state, const void *nothing) {
    const place_server *s = state;
    (void)nothing;
    s->places->on[s->rank] = sched_getcpu();
    return ls_ok();
}

static ls_status serve_places(ls_comm *comm, void *context) {
    place_server s = {context, ls_comm_rank(comm)};
    return ls_crew_serve(s.places->crew, s.rank, note_place, &s);
}

static void run_on(int processor) {
    ls_processors one = {{0}};
    one.bits[processor / 64] = UINT64_C(1) << processor % 64;
    ls_thread_place(pthread_self(), &one);
}

/* Where each rank may have a core, another rank's thread leaves the caller its own, wherever the caller goes. */
static void test_the_callers_core_is_left_to_it(void **state) {
    (void)state;
    ls_processors all;
    ls_machine_processors(&all);
    if (ls_processors_count(&all) < 2) skip();
    ls_world *world = make_world(2);
    places p = {.crew = NULL};
    assert_int_equal(ls_crew_start(world, true, true, serve_places, &p, &p.crew).code, LS_OK);
    for (int i = 0, tried = 0; i < 64 * (int)LS_COUNT(all.bits) && tried < 4; i++) {
        if (!(all.bits[i / 64] >> i % 64 & 1)) continue;
        tried++;
        run_on(i);
        for (int n = 0; n < 20; n++) {
            assert_int_equal(ls_crew_call(p.crew, NULL).code, LS_OK);
            assert_int_equal(p.on[0], i);
            assert_int_not_equal(p.on[1], i);
        }
    }
    ls_thread_place(pthread_self(), &all);
    ls_crew_end(p.crew);
    ls_world_destroy(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tasks), cmocka_unit_test(test_failures),
                                       cmocka_unit_test(test_the_callers_core_is_left_to_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
