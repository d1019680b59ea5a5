/* Waiting: spin for a moment where that is allowed, then sleep on the bell and look around now and then. */
#include "comm/comm_impl.h"

#include <math.h>
#include <sched.h>

/* About the price of falling asleep and being woken. */
#define SPIN_SECONDS 50e-6
#define PAUSES_PER_LOOK_AT_CLOCK 32

/* What one waits for: a word's generation, or (word -1) any ring after `bell`. */
typedef struct arrival {
    int word;
    uint64_t generation;
    uint32_t bell;
} arrival;

static bool has_come(const ls_comm *comm, const arrival *awaited) {
    if (awaited->word < 0) return ls_bell_read(ls_line(comm)) != awaited->bell;
    return comm->world->transport->word(comm, awaited->word) >= awaited->generation;
}

static void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
}

/* Whether it has come, after spinning where ranks may spin. */
static bool spin_for(const ls_comm *comm, const arrival *awaited) {
    if (has_come(comm, awaited)) return true;
    if (!comm->world->options.may_spin) return false;
    const double end = ls_seconds() + SPIN_SECONDS;
    do {
        for (int i = 0; i < PAUSES_PER_LOOK_AT_CLOCK; i++) {
            pause_core();
            if (has_come(comm, awaited)) return true;
        }
        sched_yield(); /* should the peer have been put on this very core, it must run to send */
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
    const arrival ring = {.word = -1, .bell = bell};
    if (spin_for(comm, &ring)) return ls_world_aborted(comm->world);
    return sleep_on(comm, bell, peer, what);
}

ls_status ls_wait_word(ls_comm *comm, int word, uint64_t generation, int peer, const char *what) {
    const arrival awaited = {.word = word, .generation = generation};
    if (spin_for(comm, &awaited)) return ls_ok();
    for (;;) {
        const uint32_t bell = ls_comm_bell(comm);
        if (has_come(comm, &awaited)) return ls_ok();
        LS_TRY(sleep_on(comm, bell, peer, what));
    }
}
