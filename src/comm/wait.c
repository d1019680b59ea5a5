/*
 * Waiting for signal words: a rank spins for a moment if that is allowed, then sleeps on its bell, and checks now and
 * then whether its peers still make progress.
 */
#include "comm/comm_impl.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>

/* ---- when to give up on a peer ---- */

/*
 * A peer that works advances its ticks. A peer that sleeps does not, but that is no failure as long as the rank that it
 * sleeps for advances its own ticks, and so on. Therefore a sleeping rank watches the whole chain: the peer, the rank
 * that the peer waits for, and so on. A wait fails when no rank of the chain has advanced for wait_timeout seconds; the
 * message names the end of the chain.
 */

#define CHECK_SECONDS 0.05 /* the longest time between two checks */

/*
 * The most that counts of the time between two checks: a process that was itself suspended must not count that time
 * against its peers.
 */
#define COUNTED_SECONDS (2 * CHECK_SECONDS)

static ls_peer_state look(const ls_comm *comm, int peer) {
    return comm->routes[peer].transport->look(comm->routes[peer].state, peer);
}

/* A running process answers at once, even while its rank computes; a longer silence counts. */
#define SILENT_SECONDS 0.5

/*
 * Sums the ticks of the chain that begins at peer, and returns its last rank: the one that waits for no rank, is
 * stopped, does not answer, or waits for a rank that is already in the chain.
 */
static int follow_chain(const ls_comm *comm, int peer, uint64_t *ticks) {
    int end = peer;
    *ticks = 0;
    for (int hops = 0; hops < comm->end.ranks; hops++) {
        const ls_peer_state state = look(comm, end);
        *ticks += state.ticks;
        if (state.waits_for < 0 || state.waits_for == end || state.waits_for == comm->end.rank ||
            state.silent > SILENT_SECONDS || ls_boot_is_stopped(comm->end.boot, end))
            break;
        end = state.waits_for;
    }
    return end;
}

/* Seconds for which the last rank of the chain has been stopped or has not answered; 0: it answers. */
static double silence_of(const ls_comm *comm, int end) {
    const ls_watch *watch = &comm->watch;
    if (ls_boot_is_stopped(comm->end.boot, end)) return watch->still;
    const double silent = look(comm, end).silent;
    return silent > SILENT_SECONDS ? fmin(silent, watch->still) : 0;
}

/* Whether this rank hears rank 0. Also asks rank 0 for its state, so that the answer is known at the next call. */
static bool hears_first(const ls_comm *comm) {
    if (comm->end.rank == 0) return true;
    const ls_peer_state first = look(comm, 0);
    return !first.lost && first.silent <= SILENT_SECONDS && !ls_boot_is_stopped(comm->end.boot, 0);
}

/* The error for a chain without progress: what its last rank is doing, and where that rank stands in the chain. */
static ls_status no_progress(const ls_comm *comm, double silent, const char *what) {
    const ls_watch *watch = &comm->watch;
    const ls_peer_state last = look(comm, watch->end);
    char why[160] = "which makes no progress", chain[64] = "";
    bool waits = false;
    if (silent > 0) {
        ls_boot_print_silence(comm->end.boot, watch->end, silent, why, sizeof why);
    } else if (last.waits_for >= 0) {
        snprintf(why, sizeof why, "which waits for rank %d", last.waits_for);
        waits = true;
    }
    if (watch->end != watch->peer)
        snprintf(chain, sizeof chain, "which waits %sfor rank %d, ", waits ? "in a chain " : "", watch->end);
    const ls_status status = ls_error(LS_PEER, "rank %d waited %.3g s for rank %d, %s%s (%s)", comm->end.rank,
                                      watch->still, watch->peer, chain, why, what);
    /* Aborts, because the cause is known, and no rank must wait again for one that does not answer. */
    if (silent > 0) (void)ls_notice_abort(comm->end.boot->notice, status.text);
    return status;
}

/*
 * An error when the signal can never come: the peer has left or is lost, or the rank is alone and would have to send it
 * itself.
 */
static ls_status check_possible(ls_comm *comm, uint32_t bell, int peer, const char *what) {
    if (comm->end.ranks == 1)
        return ls_error(LS_PEER, "rank 0 is alone and waits for a signal that it has not sent (%s)", what);
    if (peer == comm->end.rank) return ls_ok();
    /*
     * A signal that the peer sent before it left has rung the bell. If the bell is unchanged after this load, there was
     * none.
     */
    const ls_peer_state state = look(comm, peer);
    if (!state.left && !state.lost) return ls_ok();
    if (ls_bell_read(comm->line) != bell) return ls_ok();
    char why[160], first[192] = "";
    const bool alone = peer != 0 && !hears_first(comm); /* then no other rank reports why the peer has left */
    if (alone) {
        ls_boot_print_silence(comm->end.boot, 0, look(comm, 0).silent, why, sizeof why);
        snprintf(first, sizeof first, ", and hears nothing from rank 0, %s", why);
    }
    comm->was_left = state.left && !alone;
    const ls_status status = ls_error(LS_PEER, "rank %d waits for rank %d, %s%s (%s)", comm->end.rank, peer,
                                      state.left ? "which has left" : "to which the connection is lost", first, what);
    if (alone) (void)ls_notice_abort(comm->end.boot->notice, status.text);
    return status;
}

/*
 * Checks the chain that begins at peer: LS_PEER when it has made no progress for wait_timeout seconds, or when its last
 * rank does not answer and the ranks are asked to stop. Called between sleeps, at most CHECK_SECONDS apart.
 */
static ls_status check_peers(ls_comm *comm, int peer, const char *what) {
    const double limit = comm->end.timeout;
    ls_watch *watch = &comm->watch;
    const double now = ls_seconds();
    uint64_t ticks;
    const int end = follow_chain(comm, peer, &ticks);
    const uint64_t own = atomic_load_explicit(&comm->line->ticks, memory_order_relaxed);
    if (watch->peer != peer || watch->end != end || watch->ticks != ticks || watch->own_ticks != own)
        *watch = (ls_watch){.peer = peer, .end = end, .own_ticks = own, .ticks = ticks, .checked = now, .still = 0.0};
    const double passed = now - watch->checked;
    watch->still += passed < COUNTED_SECONDS ? passed : COUNTED_SECONDS;
    watch->checked = now;
    const double silent = silence_of(comm, end);
    const bool first_heard = silent <= 0 || hears_first(comm);
    const bool gives_up = ls_boot_gives_up(comm->end.boot, comm->end.rank, end, silent, limit, first_heard);
    return gives_up || (limit > 0 && watch->still >= limit) ? no_progress(comm, silent, what) : ls_ok();
}

/* Seconds until the next check. */
static double until_check(const ls_comm *comm) {
    const double left = comm->end.timeout - comm->watch.still; /* also below 0 if there is no limit */
    return left > 0.0 && left < CHECK_SECONDS ? left : CHECK_SECONDS;
}

/* ---- waiting ---- */

/*
 * The time for which a rank spins before it sleeps. Going to sleep and waking up takes 10 to 20 microseconds, 2 to 4
 * percent of this time. A block of a megabyte arrives in 0.1 milliseconds.
 */
#define SPIN_SECONDS 500e-6
#define PAUSES_PER_CLOCK_READ 32

static bool has_come(ls_comm *comm, const ls_awaited *awaited) {
    if (awaited->word < 0) return ls_comm_done(comm, awaited->generation);
    return atomic_load_explicit(&comm->words[awaited->word], memory_order_acquire) >= awaited->generation;
}

static bool any_reached(ls_comm *comm, const ls_awaited *awaited, int n) {
    for (int i = 0; i < n; i++)
        if (has_come(comm, &awaited[i])) return true;
    return false;
}

/* Polls the words, not the bell: the bell is on another cache line and changes after them. */
static bool spin_for(ls_comm *comm, const ls_awaited *awaited, int n) {
    if (any_reached(comm, awaited, n)) return true;
    if (!comm->world->options.may_spin) return false;
    const double end = ls_seconds() + SPIN_SECONDS;
    do {
        for (int i = 0; i < PAUSES_PER_CLOCK_READ; i++) {
            ls_pause();
            if (any_reached(comm, awaited, n)) return true;
        }
        sched_yield(); /* a peer that is scheduled on this core must get to run before it can send */
        (void)ls_comm_progress(comm);
    } while (ls_seconds() < end);
    return false;
}

/* Sleeps until the bell no longer has the value `bell`. */
static ls_status sleep_on(ls_comm *comm, uint32_t bell, int peer, const char *what) {
    ls_rank_line *line = comm->line;
    ls_status status;
    atomic_store_explicit(&line->waits_for, peer + 1, memory_order_relaxed);
    for (;;) {
        const double until_progress = ls_comm_progress(comm);
        status = ls_notice_aborted(comm->end.boot->notice);
        if (status.code == LS_OK) status = ls_comm_check_stop(comm);
        if (status.code != LS_OK || ls_bell_read(line) != bell) break;
        if (isinf(until_progress)) status = check_possible(comm, bell, peer, what);
        if (status.code == LS_OK) status = check_peers(comm, peer, what);
        if (status.code != LS_OK) break;
        ls_bell_sleep(line, bell, fmin(until_check(comm), until_progress));
    }
    atomic_store_explicit(&line->waits_for, 0, memory_order_relaxed);
    return status;
}

bool ls_comm_was_left(const ls_comm *comm) { return comm->was_left; }

uint32_t ls_comm_bell(const ls_comm *comm) { return ls_bell_read(comm->line); }

void ls_comm_wake(ls_comm *comm) { ls_bell_ring(comm->line); }

ls_status ls_comm_sleep(ls_comm *comm, uint32_t bell, int peer, const char *what) {
    LS_ASSERT(peer >= 0 && peer < comm->end.ranks);
    return sleep_on(comm, bell, peer, what);
}

bool ls_comm_spin(ls_comm *comm, const ls_awaited *awaited, int n) {
    for (int i = 0; i < n; i++) LS_ASSERT(awaited[i].word < comm->world->options.words);
    return spin_for(comm, awaited, n);
}

ls_status ls_wait_word(ls_comm *comm, int word, uint64_t generation, int peer, const char *what) {
    const ls_awaited awaited = {word, generation};
    if (spin_for(comm, &awaited, 1)) return ls_ok();
    for (;;) {
        const uint32_t bell = ls_comm_bell(comm);
        if (any_reached(comm, &awaited, 1)) return ls_ok();
        LS_TRY(sleep_on(comm, bell, peer, what));
    }
}

ls_status ls_comm_wait(ls_comm *comm, int word, uint64_t generation, int peer, const char *what) {
    LS_ASSERT(word >= 0 && word < comm->world->options.words && peer >= 0 && peer < comm->end.ranks);
    return ls_wait_word(comm, word, generation, peer, what);
}
