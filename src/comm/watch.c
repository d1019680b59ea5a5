/*
 * When to give up on a peer. A peer that works ticks; a peer that sleeps does not, but is in order as long as
 * the rank that it sleeps for ticks, and so on. So the whole chain is watched: rank, the rank that it waits
 * for, ... A wait fails when nothing in the chain has moved for the time limit, and blames the chain's end.
 */
#include "comm/comm_impl.h"

#include <stdio.h>

/* At most this much of the time between two looks counts, so that a stopped or suspended process that goes on
 * does not take its own absence for its peers'. */
#define COUNTED_SECONDS (2 * LS_LOOK_SECONDS)

static bool is_stopped(const ls_comm *comm, int rank) {
    return atomic_load_explicit(&comm->world->board->lines[rank].stopped, memory_order_relaxed);
}

/* Sums the ticks of the chain that begins at peer and returns its last rank: one that waits for nobody or is stopped, or
 * the one whose wait closes a circle. */
static int follow(const ls_comm *comm, int peer, uint64_t *ticks) {
    const ls_board *board = comm->world->board;
    int end = peer;
    *ticks = 0;
    for (int hops = 0; hops < comm->world->options.ranks; hops++) {
        *ticks += atomic_load_explicit(&board->lines[end].ticks, memory_order_relaxed);
        const int next = atomic_load_explicit(&board->lines[end].waits_for, memory_order_relaxed);
        if (next < 0 || next == end || next == comm->rank || is_stopped(comm, end)) break;
        end = next;
    }
    return end;
}

static ls_status stands_still(const ls_comm *comm, const char *what) {
    const ls_watch *watch = &comm->watch;
    const int next =
        atomic_load_explicit(&comm->world->board->lines[watch->end].waits_for, memory_order_relaxed);
    char why[128] = "which stands still";
    if (is_stopped(comm, watch->end) && watch->end == watch->peer)
        snprintf(why, sizeof why, "which is stopped (SIGSTOP)");
    else if (is_stopped(comm, watch->end))
        snprintf(why, sizeof why, "which waits for rank %d, which is stopped (SIGSTOP)", watch->end);
    else if (next >= 0 && watch->end == watch->peer)
        snprintf(why, sizeof why, "which waits for rank %d", next);
    else if (next >= 0)
        snprintf(why, sizeof why, "which waits in a chain for rank %d, which waits for rank %d", watch->end,
                 next);
    else if (watch->end != watch->peer)
        snprintf(why, sizeof why, "which waits for rank %d, which stands still", watch->end);
    return ls_error(LS_PEER, "rank %d waited %.3g s for rank %d, %s (%s)", comm->rank, watch->still,
                    watch->peer, why, what);
}

/* What can never come: a sender that has left sends no more, and a rank alone is its own sender. */
static ls_status check_possible(const ls_comm *comm, uint32_t bell, int peer, const char *what) {
    if (comm->world->options.ranks == 1)
        return ls_error(LS_PEER, "rank 0 is alone and waits for what it has not sent (%s)", what);
    if (peer == comm->rank) return ls_ok();
    /* What the peer sent before it left rang the bell before: with the bell unchanged after this load, it is
     * not it. */
    if (!atomic_load_explicit(&comm->world->board->lines[peer].left, memory_order_acquire)) return ls_ok();
    if (ls_bell_read(ls_line(comm)) != bell) return ls_ok();
    return ls_error(LS_PEER, "rank %d waits for rank %d, which has left (%s)", comm->rank, peer, what);
}

ls_status ls_watch_look(ls_comm *comm, uint32_t bell, int peer, const char *what) {
    LS_TRY(check_possible(comm, bell, peer, what));
    const double limit = comm->world->options.wait_timeout;
    if (limit <= 0.0) return ls_ok();

    ls_watch *watch = &comm->watch;
    const double now = ls_seconds();
    uint64_t ticks;
    const int end = follow(comm, peer, &ticks);
    const uint64_t own = atomic_load_explicit(&ls_line(comm)->ticks, memory_order_relaxed);
    if (watch->peer != peer || watch->end != end || watch->ticks != ticks || watch->own_ticks != own) {
        *watch = (ls_watch){
            .peer = peer, .end = end, .own_ticks = own, .ticks = ticks, .looked = now, .still = 0.0};
        return ls_ok();
    }
    const double passed = now - watch->looked;
    watch->still += passed < COUNTED_SECONDS ? passed : COUNTED_SECONDS;
    watch->looked = now;
    return watch->still < limit ? ls_ok() : stands_still(comm, what);
}

double ls_watch_pause(const ls_comm *comm) {
    const double left = comm->world->options.wait_timeout - comm->watch.still;
    return left > 0.0 && left < LS_LOOK_SECONDS ? left : LS_LOOK_SECONDS;
}
