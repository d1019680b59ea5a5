/*
 * Messages between the processes of a job, and the thread that moves them.
 *
 * Messages from one process to another arrive in the order in which they were posted. So do the bodies of large puts,
 * which are sent separately: body k of a sender belongs to its k-th message LS_MPI_BODY. There is no order between
 * bodies and messages, nor between different senders.
 *
 * MPI must be polled: it does not notify anyone that something has come. The plug-in's thread (ls_mpi_run) polls
 * without pause while messages move, and then less and less often: it sleeps for a quarter of the time since the last
 * message. A rank that waits polls too.
 */
#include "comm/mpi/plugin/mpi_impl.h"

#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_AT_ONCE = 64 }; /* messages that are handled before others may take the lock */
#define LEAST_SLEEP 20e-6
#define LET_SECONDS 50e-6 /* the thread polls again when a rank that polls has not done so for this long */
#define MOST_SLEEP 200e-6 /* seconds: the longest that a message of a peer waits until this rank polls */

/* ---- out ---- */

void ls_mpi_post(ls_mpi *m, ls_mpi_sending *s) {
    ls_mpi_post_later(m, s);
    (void)ls_mpi_advance(m, true);
}

/* Sends what was posted, in the order of posting. */
static bool send_posted(ls_mpi *m) {
    pthread_mutex_lock(&m->list);
    ls_mpi_sending *newest = m->posted, *oldest = NULL;
    m->posted = NULL;
    pthread_mutex_unlock(&m->list);
    const bool any = newest != NULL;
    while (newest != NULL) {
        ls_mpi_sending *s = newest;
        newest = s->next;
        s->next = oldest;
        oldest = s;
    }
    while (oldest != NULL) {
        ls_mpi_sending *s = oldest;
        oldest = s->next;
        ls_mpi_send(m, s);
        s->next = m->sending;
        m->sending = s;
    }
    return any;
}

static bool is_complete(ls_mpi *m, MPI_Request *request) {
    int complete = 1;
    if (*request != MPI_REQUEST_NULL)
        (void)ls_mpi_succeeded(m, MPI_Test(request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    return complete;
}

static bool finish_sent(ls_mpi *m) {
    bool any = false;
    for (ls_mpi_sending **link = &m->sending; *link != NULL;) {
        ls_mpi_sending *s = *link;
        if (!is_complete(m, &s->message_request) || !is_complete(m, &s->body_request)) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        any = true;
        if (s->ticket != 0)
            ls_mpi_put_sent(m, s);
        else
            free(s);
    }
    return any;
}

bool ls_mpi_all_sent(ls_mpi *m) {
    pthread_mutex_lock(&m->library);
    pthread_mutex_lock(&m->list);
    const bool all = m->posted == NULL && m->sending == NULL;
    pthread_mutex_unlock(&m->list);
    pthread_mutex_unlock(&m->library);
    return all;
}

/* ---- in ---- */

static void (*const handlers[LS_MPI_KINDS])(ls_mpi *m, int peer, const ls_mpi_message *message) = {
    [LS_MPI_STOP] = ls_mpi_on_stop,     [LS_MPI_ABORT] = ls_mpi_on_abort, [LS_MPI_SIGNAL] = ls_mpi_on_signal,
    [LS_MPI_PUT] = ls_mpi_on_put,       [LS_MPI_BODY] = ls_mpi_on_body,   [LS_MPI_FENCE] = ls_mpi_on_fence,
    [LS_MPI_FENCED] = ls_mpi_on_fenced, [LS_MPI_ASK] = ls_mpi_on_ask,     [LS_MPI_TELL] = ls_mpi_on_tell,
    [LS_MPI_WHERE] = ls_mpi_on_where,   [LS_MPI_HERE] = ls_mpi_on_here,
};

/* Whether what has come is a valid message; if not, the job is aborted. count: the bytes that have come. */
static bool is_message(ls_mpi *m, int peer, int count) {
    const ls_mpi_message *in = &m->in;
    const size_t head = offsetof(ls_mpi_message, payload);
    const bool good = count >= 0 && (size_t)count >= head && in->kind >= 0 && in->kind < LS_MPI_KINDS &&
                      in->bytes == (size_t)count - head && in->bytes <= sizeof in->payload;
    char why[160];
    snprintf(why, sizeof why, "rank %d: a message of rank %d has %d bytes and kind %d, which no message has",
             m->boot->rank, peer, count, (int)in->kind);
    if (!good) (void)ls_notice_abort(&m->notice, why);
    return good;
}

static bool handle_arrived(ls_mpi *m) {
    for (int n = 0; n < MOST_AT_ONCE; n++) {
        int any = 0;
        MPI_Status status;
        int result = MPI_Iprobe(MPI_ANY_SOURCE, LS_MPI_TAG, m->messages, &any, &status);
        if (!ls_mpi_succeeded(m, result, "MPI_Iprobe") || !any) return n > 0;
        const int peer = status.MPI_SOURCE;
        int count = 0;
        result = MPI_Recv(&m->in, sizeof m->in, MPI_BYTE, peer, LS_MPI_TAG, m->messages, &status);
        if (!ls_mpi_succeeded(m, result, "MPI_Recv")) return true;
        (void)MPI_Get_count(&status, MPI_BYTE, &count);
        if (!is_message(m, peer, count)) return true;
        handlers[m->in.kind](m, peer, &m->in);
    }
    return true;
}

static bool finish_received(ls_mpi *m) {
    bool any = false;
    for (ls_mpi_receiving **link = &m->receiving; *link != NULL;) {
        ls_mpi_receiving *r = *link;
        if (!is_complete(m, &r->request)) {
            link = &r->next;
            continue;
        }
        *link = r->next;
        any = true;
        ls_mpi_body_received(m, r);
        free(r);
    }
    return any;
}

/* ---- both ---- */

/* Tells all other ranks what the notice of this process says, once. */
static void tell_notice(ls_mpi *m) {
    const bool stop = atomic_load(&m->notice.stop) && !m->told_stop;
    const ls_status aborted = ls_notice_aborted(&m->notice);
    const bool abort = aborted.code != LS_OK && !m->told_abort;
    if (!stop && !abort) return;
    m->told_stop |= stop;
    m->told_abort |= abort;
    for (int peer = 0; peer < m->boot->ranks; peer++) {
        if (peer == m->boot->rank) continue;
        ls_mpi_sending *s =
            ls_mpi_message_to(peer, abort ? LS_MPI_ABORT : LS_MPI_STOP, abort ? sizeof aborted.text : 0);
        if (abort) memcpy(s->message.payload, aborted.text, sizeof aborted.text);
        ls_mpi_post_later(m, s);
    }
}

bool ls_mpi_advance(ls_mpi *m, bool try) {
    if (!try)
        pthread_mutex_lock(&m->library);
    else if (pthread_mutex_trylock(&m->library) != 0)
        return false;
    bool moved = false;
    if (!atomic_load(&m->silent)) {
        tell_notice(m);
        moved = send_posted(m);
        moved |= handle_arrived(m);
        moved |= finish_received(m);
        moved |= finish_sent(m);
    }
    pthread_mutex_unlock(&m->library);
    return moved;
}

static void sleep_for(double seconds) { (void)nanosleep(&(struct timespec){0, (long)(seconds * 1e9)}, NULL); }

void ls_mpi_give_way(double since) {
    const double sleep = fmin((ls_seconds() - since) / 4, MOST_SLEEP);
    if (sleep < LEAST_SLEEP)
        sched_yield();
    else
        sleep_for(sleep);
}

void ls_mpi_run(ls_mpi *m) {
    double moved = ls_seconds();
    uint64_t seen = 0;
    while (!atomic_load(&m->closing)) {
        const uint64_t looks = atomic_load_explicit(&m->looks, memory_order_relaxed);
        if (looks != seen) { /* the rank polls by itself, and does so more often if nothing else uses its processor */
            seen = looks;
            sleep_for(LET_SECONDS);
        } else if (ls_mpi_advance(m, false))
            moved = ls_seconds();
        else
            ls_mpi_give_way(moved);
    }
}
