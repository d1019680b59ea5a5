/* Waiting: spin for a moment where that is allowed, then sleep on the bell and look around now and then. */
#include "comm/comm_impl.h"

#include <math.h>
#include <sched.h>

/* Falling asleep and being woken takes 10 to 20 microseconds; after so long a time they are a few hundredths of the wait. A block of a
 * megabyte comes in 0.1 milliseconds. */
#define SPIN_SECONDS 500e-6
#define PAUSES_PER_LOOK_AT_CLOCK 32

static bool has_come(const ls_comm *comm, const ls_awaited *awaited, int n) {
    for (int i = 0; i < n; i++)
        if (comm->world->transport->word(comm, awaited[i].word) >= awaited[i].generation) return true;
    return false;
}

/* Looks at the words themselves and not at the bell, which rings only after them, from another cache line. */
static bool spin_for(ls_comm *comm, const ls_awaited *awaited, int n) {
    if (has_come(comm, awaited, n)) return true;
    if (!comm->world->options.may_spin) return false;
    const double end = ls_seconds() + SPIN_SECONDS;
    do {
        for (int i = 0; i < PAUSES_PER_LOOK_AT_CLOCK; i++) {
            ls_pause();
            if (has_come(comm, awaited, n)) return true;
        }
        sched_yield(); /* should the peer have been put on this very core, it must run to send */
        (void)ls_comm_progress(comm);
    } while (ls_seconds() < end);
    return false;
}

/* Sleeps in the kernel until the bell no longer reads `bell`. */
static ls_status sleep_on(ls_comm *comm, uint32_t bell, int peer, const char *what) {
    ls_rank_line *line = ls_line(comm);
    ls_status status;
    atomic_store_explicit(&line->waits_for, peer, memory_order_relaxed);
    for (;;) {
        const double until_progress = ls_comm_progress(comm);
        status = ls_world_aborted(comm->world);
        if (status.code != LS_OK || ls_bell_read(line) != bell) break;
        if (isinf(until_progress)) status = ls_watch_look(comm, bell, peer, what);
        if (status.code != LS_OK) break;
        ls_bell_doze(line, bell, fmin(ls_watch_pause(comm), until_progress));
    }
    atomic_store_explicit(&line->waits_for, -1, memory_order_relaxed);
    return status;
}

uint32_t ls_comm_bell(const ls_comm *comm) { return ls_bell_read(ls_line(comm)); }

ls_status ls_comm_sleep(ls_comm *comm, uint32_t bell, int peer, const char *what) {
    LS_ASSERT(peer >= 0 && peer < comm->world->options.ranks);
    return sleep_on(comm, bell, peer, what);
}

bool ls_comm_spin(ls_comm *comm, const ls_awaited *awaited, int n) {
    for (int i = 0; i < n; i++)
        LS_ASSERT(awaited[i].word >= 0 && awaited[i].word < comm->world->options.words);
    return spin_for(comm, awaited, n);
}

ls_status ls_wait_word(ls_comm *comm, int word, uint64_t generation, int peer, const char *what) {
    const ls_awaited awaited = {word, generation};
    if (spin_for(comm, &awaited, 1)) return ls_ok();
    for (;;) {
        const uint32_t bell = ls_comm_bell(comm);
        if (has_come(comm, &awaited, 1)) return ls_ok();
        LS_TRY(sleep_on(comm, bell, peer, what));
    }
}
