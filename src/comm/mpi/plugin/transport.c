/*
 * The transport `mpi`. For the ranks it is one-sided: a put needs no help of the target rank, because a thread in that
 * rank's process receives it, sets the word, and rings the bell. A small put is copied into a message. A large put is a
 * message that says where its bytes go, followed by the bytes, which MPI copies directly from source to target.
 *
 * Why not MPI's own puts: docs/decisions/mpi-messages.md.
 */
#include "comm/mpi/plugin/mpi_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEWS_SECONDS 0.02 /* what is known about a peer is asked for again when it is older than this */

/* MPI connects every rank with every other. */
static ls_peer_reach reach(const ls_boot *boot, int rank, int peer) {
    return (ls_peer_reach){.put = true, .seconds = boot->hosts[rank] == boot->hosts[peer] ? 2e-6 : 1e-5};
}

/* ---- open and close ---- */

/* Sets the transport that incoming messages are for; NULL: none. */
static void set_transport(ls_mpi *m, ls_mpi_transport *t) {
    pthread_mutex_lock(&m->library);
    LS_ASSERT(t == NULL || m->transport == NULL);
    m->transport = t;
    pthread_mutex_unlock(&m->library);
}

static ls_status open(const ls_endpoint *end, const bool *used, void **state) {
    (void)used;
    ls_mpi *m = end->boot->state;
    ls_mpi_transport *t = calloc(1, sizeof *t + (size_t)end->ranks * sizeof t->peers[0]);
    if (t == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate the state of %d peers", end->ranks);
    t->mpi = m;
    t->end = end;
    atomic_init(&t->undone, UINT64_MAX);
    for (int r = 0; r < end->ranks; r++) t->peers[r].state.waits_for = -1;
    set_transport(m, t);
    if (ls_mpi_meet(m, m->worlds, 0, false)) { /* from here on messages find the transport open on all ranks */
        *state = t;
        return ls_ok();
    }
    set_transport(m, NULL);
    free(t);
    const ls_status aborted = ls_notice_aborted(&m->notice);
    return aborted.code != LS_OK ? aborted : ls_error(LS_PEER, "the job has ended");
}

static bool is_aborted(const ls_mpi_transport *t) { return ls_notice_aborted(&t->mpi->notice).code != LS_OK; }

static void abort_job(const ls_mpi_transport *t, const char *doing, int peer) {
    char why[256];
    ls_print(why, sizeof why, "rank %d waited %.3g s for rank %d to %s", t->end->rank, t->end->timeout, peer, doing);
    (void)ls_notice_abort(&t->mpi->notice, why);
}

/* Waits until the peer has answered the fence; false: the job was aborted. */
static bool await_fence(ls_mpi_transport *t, int peer, uint64_t fence) {
    const double started = ls_seconds(), limit = t->end->timeout;
    while (atomic_load(&t->peers[peer].fenced) < fence) {
        (void)ls_mpi_advance(t->mpi, false);
        if (is_aborted(t)) return false;
        if (limit > 0 && ls_seconds() - started > limit) abort_job(t, "confirm that its puts are in place", peer);
        ls_mpi_give_way(started);
    }
    return true;
}

static void quiet(void *state) {
    ls_mpi_transport *t = state;
    const uint64_t fence = ++t->fences;
    for (int peer = 0; peer < t->end->ranks; peer++) {
        if (!atomic_exchange(&t->peers[peer].unfenced, false)) {
            atomic_store(&t->peers[peer].fenced, fence);
            continue;
        }
        ls_mpi_sending *s = ls_mpi_message_to(peer, LS_MPI_FENCE, 0);
        s->message.generation = fence;
        ls_mpi_post(t->mpi, s);
    }
    for (int peer = 0; peer < t->end->ranks; peer++)
        if (!await_fence(t, peer, fence)) return;
    const double arrived = ls_seconds();
    while (atomic_load(&t->undone) != UINT64_MAX && !is_aborted(t)) { /* MPI has not reported it to this rank yet */
        (void)ls_mpi_advance(t->mpi, false);
        ls_mpi_give_way(arrived);
    }
}

/*
 * The memory of an aborted world is freed while peers may still send to it. Waits a moment for bodies on their way; if
 * they do not come, this process no longer enters MPI.
 */
static void close_aborted(ls_mpi *m) {
    const double started = ls_seconds();
    bool idle = false;
    while (!idle && ls_seconds() - started < 0.5) {
        (void)ls_mpi_advance(m, false);
        pthread_mutex_lock(&m->library);
        idle = m->receiving == NULL && m->sending == NULL;
        pthread_mutex_unlock(&m->library);
        ls_mpi_give_way(started);
    }
    if (!idle) atomic_store(&m->silent, true);
}

static void close_world(void *state) {
    ls_mpi_transport *t = state;
    ls_mpi *m = t->mpi;
    quiet(t); /* completes also the signals since the last quiet */
    if (is_aborted(t) || !ls_mpi_meet(m, m->worlds, 0, false)) close_aborted(m);
    set_transport(m, NULL);
    free(t);
}

/* ---- out ---- */

static void post(ls_mpi_transport *t, ls_mpi_sending *s) {
    atomic_store(&t->peers[s->peer].unfenced, true);
    ls_mpi_post(t->mpi, s);
}

static void signal(void *state, int peer, int word, uint64_t generation) {
    ls_mpi_sending *s = ls_mpi_message_to(peer, LS_MPI_SIGNAL, 0);
    s->message.word = word;
    s->message.generation = generation;
    post(state, s);
}

/* Records that the put is not done. */
static void note_undone(ls_mpi_transport *t, ls_mpi_sending *s) {
    pthread_mutex_lock(&t->mpi->list);
    if (t->oldest == NULL) {
        t->oldest = s;
        atomic_store(&t->undone, s->ticket);
    } else {
        t->newest->next_put = s;
    }
    t->newest = s;
    pthread_mutex_unlock(&t->mpi->list);
}

static void put(void *state, const ls_put *p) {
    ls_mpi_transport *t = state;
    const size_t bytes = ls_range_bytes(p->to);
    LS_ASSERT(bytes == ls_range_bytes(p->from));
    const bool is_inline = bytes <= LS_MPI_INLINE;
    ls_mpi_sending *s = ls_mpi_message_to(p->peer, is_inline ? LS_MPI_PUT : LS_MPI_BODY, is_inline ? bytes : 0);
    s->message.word = ls_put_signals(p) ? p->word : -1;
    s->message.generation = p->generation;
    s->message.to = *p->to;
    if (is_inline) {
        const ls_range whole = ls_range_flat(0, bytes);
        if (bytes > 0) ls_range_copy(s->message.payload, &whole, p->source, p->from);
    } else {
        s->source = p->source;
        s->from = *p->from;
        s->ticket = p->ticket;
        note_undone(t, s);
    }
    post(t, s);
}

static bool done(void *state, uint64_t ticket) {
    ls_mpi_transport *t = state;
    return atomic_load(&t->undone) > ticket;
}

/* The plug-in's thread does the same if the rank does not. */
static double progress(void *state) {
    const ls_mpi_transport *t = state;
    (void)atomic_fetch_add_explicit(&t->mpi->looks, 1, memory_order_relaxed);
    (void)ls_mpi_advance(t->mpi, true);
    return INFINITY;
}

static ls_peer_state look(void *state, int peer) {
    ls_mpi_transport *t = state;
    ls_mpi_known *p = &t->peers[peer];
    const double now = ls_seconds();
    pthread_mutex_lock(&t->mpi->list);
    ls_peer_state known = p->state;
    const bool ask = p->asked == 0 && now - p->since > NEWS_SECONDS;
    if (ask) p->asked = now;
    known.silent = p->asked > 0 ? now - p->asked : 0;
    pthread_mutex_unlock(&t->mpi->list);
    if (ask) post(t, ls_mpi_message_to(peer, LS_MPI_ASK, 0));
    return known;
}

const ls_transport ls_mpi_transport_row = {
    .name = "mpi",
    .reach = reach,
    .open = open,
    .put = put,
    .signal = signal,
    .look = look,
    .quiet = quiet,
    .done = done,
    .progress = progress,
    .close = close_world,
};
