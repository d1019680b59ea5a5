/*
 * A crew: the ranks of a world as threads of this process, which wait for tasks between calls. No process is forked and
 * no signal is handled, so that any program can have a crew.
 *
 * A turn is one task on all ranks; turn 0 is what the ranks do before they wait for the first task. Every rank arrives
 * once in each turn: when it has done its task, or when it ends. After a failure no further turn begins.
 */
#include "run/run.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A sleeping thread takes 5 to 50 microseconds to wake; spinning longer would take cores from the caller's own work. */
#define SPIN_SECONDS 20e-6

typedef struct member {
    ls_crew *crew;
    int rank;
    bool owes; /* the rank has not arrived in this turn */
    uint64_t turn;
    ls_crew_task do_task;
    void *state;
    ls_status last;
    pthread_t thread;
} member;

struct ls_crew {
    ls_world *world;
    int ranks, started;
    bool here, may_spin;
    ls_rank_main rank_main;
    void *context;
    member *members;
    ls_processors processors; /* of the thread that started the crew */
    int caller_on;            /* the processor that the ranks' threads leave to the caller; -1: none */

    pthread_mutex_t lock;
    pthread_cond_t begun, finished, ended;
    const void *task; /* written between turns */
    _Atomic uint64_t turn;
    _Atomic int missing; /* ranks that have not arrived */
    atomic_bool ends;
    ls_status cause; /* under the lock; the one of the ranks' failures that caused the others */
};

/* --- on a rank ---------------------------------------------------------------------------------------------------- */

static void note_failure(ls_crew *crew, int rank, ls_status status) {
    pthread_mutex_lock(&crew->lock);
    const bool first = crew->cause.code == LS_OK;
    if (ls_severity(status.code) > ls_severity(crew->cause.code)) crew->cause = status;
    pthread_mutex_unlock(&crew->lock);
    if (!first) return;
    const ls_status why = status.code == LS_PEER ? status : ls_error_in(status, "rank %d", rank);
    ls_world_abort(crew->world, why.text);
}

static void arrive(member *m, ls_status status) {
    ls_crew *crew = m->crew;
    m->owes = false;
    if (status.code != LS_OK) note_failure(crew, m->rank, status);
    if (atomic_fetch_sub_explicit(&crew->missing, 1, memory_order_acq_rel) > 1) return;
    pthread_mutex_lock(&crew->lock); /* otherwise a caller that has just looked would miss the signal */
    pthread_cond_signal(&crew->finished);
    pthread_mutex_unlock(&crew->lock);
}

/* Whether the calling thread of ls_crew_call does this rank's tasks. */
static bool is_done_here(const member *m) { return m->crew->here && m->rank == 0; }

/* Whether this rank's thread has something to do. */
static bool is_called(const member *m) {
    const ls_crew *crew = m->crew;
    if (atomic_load_explicit(&crew->ends, memory_order_acquire)) return true;
    return !is_done_here(m) && atomic_load_explicit(&crew->turn, memory_order_acquire) != m->turn;
}

static bool is_finished(const ls_crew *crew) { return atomic_load_explicit(&crew->missing, memory_order_acquire) == 0; }

/* Returns whether there is a turn: the crew may end instead. */
static bool await_turn(member *m) {
    ls_crew *crew = m->crew;
    const double until = ls_seconds() + (crew->may_spin && !is_done_here(m) ? SPIN_SECONDS : 0);
    while (!is_called(m) && ls_seconds() < until) ls_pause();
    if (!is_called(m)) {
        pthread_mutex_lock(&crew->lock);
        while (!is_called(m)) pthread_cond_wait(is_done_here(m) ? &crew->ended : &crew->begun, &crew->lock);
        pthread_mutex_unlock(&crew->lock);
    }
    m->turn++;
    return !atomic_load_explicit(&crew->ends, memory_order_acquire);
}

static void do_turn(member *m) {
    m->owes = true;
    m->last = m->do_task(m->state, m->crew->task);
    arrive(m, m->last);
}

ls_status ls_crew_serve(ls_crew *crew, int rank, ls_crew_task do_task, void *state) {
    member *m = &crew->members[rank];
    m->do_task = do_task;
    m->state = state;
    m->last = ls_ok();
    arrive(m, m->last);
    while (m->last.code == LS_OK && await_turn(m)) do_turn(m);
    return m->last;
}

static void *thread_main(void *argument) {
    member *m = argument;
    ls_comm *comm = NULL;
    ls_status status = ls_world_join(m->crew->world, m->rank, &comm);
    if (status.code == LS_OK) status = m->crew->rank_main(comm, m->crew->context);
    if (m->owes) arrive(m, status);
    ls_comm_leave(comm);
    return NULL;
}

/* --- the caller --------------------------------------------------------------------------------------------------- */

/* Returns when all ranks have arrived; the status is the cause if one has failed in this turn or before. */
static ls_status await_ranks(ls_crew *crew) {
    const double until = ls_seconds() + (crew->may_spin ? SPIN_SECONDS : 0);
    while (!is_finished(crew) && ls_seconds() < until) ls_pause();
    pthread_mutex_lock(&crew->lock);
    while (!is_finished(crew)) pthread_cond_wait(&crew->finished, &crew->lock);
    const ls_status cause = crew->cause;
    pthread_mutex_unlock(&crew->lock);
    return cause;
}

/*
 * A woken thread often starts on the processor of the thread that woke it, and waits until that processor is free. So
 * if there is a core for each rank, the threads of the other ranks leave the caller's current processor to the caller.
 */
static void leave_to_caller(ls_crew *crew) {
    const int now = sched_getcpu();
    if (!crew->here || !crew->may_spin || now == crew->caller_on) return;
    ls_processors others = crew->processors;
    ls_processors_remove(&others, now);
    if (ls_processors_count(&others) < crew->ranks - 1) return;
    for (int r = 1; r < crew->ranks; r++) ls_thread_place(crew->members[r].thread, &others);
    crew->caller_on = now;
}

/* Gives the task to the threads of all ranks, except the rank whose tasks the caller does. */
static void begin_turn(ls_crew *crew, const void *task) {
    pthread_mutex_lock(&crew->lock);
    crew->task = task;
    atomic_store_explicit(&crew->missing, crew->ranks, memory_order_relaxed);
    atomic_fetch_add_explicit(&crew->turn, 1, memory_order_release);
    pthread_cond_broadcast(&crew->begun);
    pthread_mutex_unlock(&crew->lock);
}

static void start_threads(ls_crew *crew) {
    for (; crew->started < crew->ranks; crew->started++) {
        member *m = &crew->members[crew->started];
        *m = (member){.crew = crew, .rank = crew->started, .owes = true};
        const int error = ls_thread_start(&m->thread, thread_main, m);
        if (error == 0) continue;
        note_failure(crew, m->rank,
                     ls_error(LS_NO_MEMORY, "cannot start a thread for rank %d: %s", m->rank, strerror(error)));
        atomic_fetch_sub(&crew->missing, crew->ranks - crew->started);
        return;
    }
}

ls_status ls_crew_start(ls_world *world, bool here, bool may_spin, ls_rank_main rank_main, void *context,
                        ls_crew **out) {
    const int ranks = ls_world_ranks(world);
    ls_crew *crew = calloc(1, sizeof *crew);
    member *members = calloc((size_t)ranks, sizeof *members);
    if (crew == NULL || members == NULL) {
        free(crew);
        free(members);
        return ls_error(LS_NO_MEMORY, "no memory for %d ranks", ranks);
    }
    crew->world = world;
    crew->ranks = ranks;
    crew->here = here;
    crew->may_spin = may_spin;
    crew->rank_main = rank_main;
    crew->context = context;
    crew->members = members;
    crew->missing = ranks;
    crew->caller_on = -1;
    ls_machine_processors(&crew->processors);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->begun, NULL);
    pthread_cond_init(&crew->finished, NULL);
    pthread_cond_init(&crew->ended, NULL);
    *out = crew;
    start_threads(crew);
    return await_ranks(crew);
}

ls_status ls_crew_call(ls_crew *crew, const void *task) {
    if (crew->cause.code != LS_OK) return crew->cause;
    leave_to_caller(crew);
    begin_turn(crew, task);
    if (crew->here) do_turn(&crew->members[0]);
    return await_ranks(crew);
}

void ls_crew_end(ls_crew *crew) {
    if (crew == NULL) return;
    pthread_mutex_lock(&crew->lock);
    atomic_store_explicit(&crew->ends, true, memory_order_release);
    pthread_cond_broadcast(&crew->begun);
    pthread_cond_broadcast(&crew->ended);
    pthread_mutex_unlock(&crew->lock);
    for (int r = 0; r < crew->started; r++) pthread_join(crew->members[r].thread, NULL);
    pthread_cond_destroy(&crew->begun);
    pthread_cond_destroy(&crew->finished);
    pthread_cond_destroy(&crew->ended);
    pthread_mutex_destroy(&crew->lock);
    free(crew->members);
    free(crew);
}
