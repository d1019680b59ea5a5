/* The handlers of messages that come from other processes, and of sends that are complete; under the lock `library`. */
#include "comm/mpi/plugin/mpi_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- of the boot ---- */

void ls_mpi_on_stop(ls_mpi *m, int peer, const ls_mpi_message *message) {
    (void)peer;
    (void)message;
    m->told_stop = true;
    atomic_store(&m->notice.stop, true);
}

void ls_mpi_on_abort(ls_mpi *m, int peer, const ls_mpi_message *message) {
    char text[sizeof message->payload + 1];
    (void)peer;
    memcpy(text, message->payload, message->bytes);
    text[message->bytes] = 0;
    m->told_abort = true;
    (void)ls_notice_abort(&m->notice, text);
}

void ls_mpi_on_where(ls_mpi *m, int peer, const ls_mpi_message *message) {
    (void)message;
    ls_mpi_sending *s = ls_mpi_message_to(peer, LS_MPI_HERE, 0);
    s->message.generation = m->came;
    ls_mpi_post_later(m, s);
}

void ls_mpi_on_here(ls_mpi *m, int peer, const ls_mpi_message *message) {
    m->peers[peer] = (ls_mpi_peer){.gathers = message->generation, .asked = -1};
}

/* ---- of the transport ---- */

static char *heap_of(const ls_endpoint *end) { return end->segments[end->rank] + end->form.heap; }

/* The transport that a message is for. A message may come after an aborted world has been closed. */
static ls_mpi_transport *target_of(ls_mpi *m, int peer) {
    if (m->transport != NULL) return m->transport;
    char why[128];
    snprintf(why, sizeof why, "rank %d received a message of rank %d for a world that it has left", m->boot->rank,
             peer);
    (void)ls_notice_abort(&m->notice, why);
    return NULL;
}

static void deliver(const ls_mpi_transport *t, int word, uint64_t generation) {
    if (word >= 0) ls_endpoint_deliver(t->end, word, generation);
}

void ls_mpi_on_signal(ls_mpi *m, int peer, const ls_mpi_message *message) {
    const ls_mpi_transport *t = target_of(m, peer);
    if (t != NULL) deliver(t, message->word, message->generation);
}

void ls_mpi_on_put(ls_mpi *m, int peer, const ls_mpi_message *message) {
    const ls_mpi_transport *t = target_of(m, peer);
    if (t == NULL) return;
    const ls_range whole = ls_range_flat(0, message->bytes);
    if (message->bytes > 0) ls_range_copy(heap_of(t->end), &message->to, message->payload, &whole);
    deliver(t, message->word, message->generation);
}

void ls_mpi_on_body(ls_mpi *m, int peer, const ls_mpi_message *message) {
    ls_mpi_transport *t = target_of(m, peer);
    /* In an aborted job the sender may have left, and MPI would then find no memory to copy from. */
    if (t == NULL || ls_notice_aborted(&m->notice).code != LS_OK) return;
    t->peers[peer].receiving++;
    ls_mpi_receive_body(m, peer, message, heap_of(t->end));
}

static void answer(ls_mpi *m, int peer, ls_mpi_kind kind, uint64_t generation, const ls_peer_state *state) {
    ls_mpi_sending *s = ls_mpi_message_to(peer, kind, 0);
    s->message.generation = generation;
    if (state != NULL) s->message.answer = *state;
    ls_mpi_post_later(m, s);
}

static void answer_fence(ls_mpi *m, ls_mpi_known *p, int peer) {
    if (p->owes_fence == 0 || p->receiving > 0) return;
    answer(m, peer, LS_MPI_FENCED, p->owes_fence, NULL);
    p->owes_fence = 0;
}

void ls_mpi_on_fence(ls_mpi *m, int peer, const ls_mpi_message *message) {
    ls_mpi_transport *t = target_of(m, peer);
    if (t == NULL) return;
    t->peers[peer].owes_fence = message->generation;
    answer_fence(m, &t->peers[peer], peer);
}

void ls_mpi_on_fenced(ls_mpi *m, int peer, const ls_mpi_message *message) {
    ls_mpi_transport *t = target_of(m, peer);
    if (t != NULL) atomic_store(&t->peers[peer].fenced, message->generation);
}

void ls_mpi_on_ask(ls_mpi *m, int peer, const ls_mpi_message *message) {
    const ls_mpi_transport *t = target_of(m, peer);
    (void)message;
    if (t == NULL) return;
    const ls_rank_line *line = ls_endpoint_line(t->end);
    const ls_peer_state mine = {.left = atomic_load_explicit(&line->left, memory_order_acquire),
                                .ticks = atomic_load_explicit(&line->ticks, memory_order_relaxed),
                                .waits_for = atomic_load_explicit(&line->waits_for, memory_order_relaxed) - 1};
    answer(m, peer, LS_MPI_TELL, 0, &mine);
}

void ls_mpi_on_tell(ls_mpi *m, int peer, const ls_mpi_message *message) {
    ls_mpi_transport *t = target_of(m, peer);
    if (t == NULL) return;
    pthread_mutex_lock(&m->list);
    t->peers[peer].state = message->answer;
    t->peers[peer].since = ls_seconds();
    t->peers[peer].asked = 0;
    pthread_mutex_unlock(&m->list);
}

void ls_mpi_body_received(ls_mpi *m, const ls_mpi_receiving *r) {
    ls_mpi_transport *t = m->transport;
    if (t == NULL) return;
    deliver(t, r->word, r->generation);
    t->peers[r->peer].receiving--;
    answer_fence(m, &t->peers[r->peer], r->peer);
}

void ls_mpi_put_sent(ls_mpi *m, ls_mpi_sending *sent) {
    ls_mpi_transport *t = m->transport;
    if (t == NULL) return; /* the world was aborted and closed */
    pthread_mutex_lock(&m->list);
    sent->done = true;
    while (t->oldest != NULL && t->oldest->done) {
        ls_mpi_sending *first = t->oldest;
        t->oldest = first->next_put;
        free(first);
    }
    if (t->oldest == NULL) t->newest = NULL;
    atomic_store(&t->undone, t->oldest != NULL ? t->oldest->ticket : UINT64_MAX);
    pthread_mutex_unlock(&m->list);
    ls_bell_ring(ls_endpoint_line(t->end));
}
