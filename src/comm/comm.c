/* The one-sided operations of one rank, with their checks. */
#include "comm/comm_impl.h"

#include <math.h>

int ls_comm_rank(const ls_comm *comm) { return comm->end.rank; }

int ls_comm_size(const ls_comm *comm) { return comm->end.ranks; }

int ls_comm_machine_ranks(const ls_comm *comm) { return comm->end.boot->machine_ranks; }
int ls_comm_machine_rank(const ls_comm *comm) {
    return comm->end.boot->rank < 0 ? comm->end.rank : comm->end.boot->machine_rank;
}

size_t ls_comm_heap_bytes(const ls_comm *comm) { return ls_heap_bytes_of(&comm->world->options, comm->end.rank); }
void *ls_comm_heap(const ls_comm *comm) { return comm->heap; }

static void check_peer(const ls_comm *comm, int peer) { LS_ASSERT(peer >= 0 && peer < comm->end.ranks); }

static void check_word(const ls_comm *comm, int word) { LS_ASSERT(word >= 0 && word < comm->world->options.words); }

static void check_put(const ls_comm *comm, const ls_put *put) {
    check_peer(comm, put->peer);
    LS_ASSERT(ls_range_end(put->to) <= ls_heap_bytes_of(&comm->world->options, put->peer));
}

int ls_comm_word_count(const ls_comm *comm) { return comm->world->options.words; }

size_t ls_comm_heap_bytes_of(const ls_comm *comm, int rank) {
    check_peer(comm, rank);
    return ls_heap_bytes_of(&comm->world->options, rank);
}

void *ls_comm_peer_heap(const ls_comm *comm, int peer) {
    check_peer(comm, peer);
    char *segment = comm->segments[peer];
    return segment != NULL ? segment + comm->end.form.heap : NULL;
}

void *ls_comm_common(const ls_comm *comm, int rank) {
    check_peer(comm, rank);
    char *segment = comm->segments[rank];
    return segment != NULL ? segment + ls_segment_lay_out(&comm->world->options, rank).common : NULL;
}

void *ls_comm_words(const ls_comm *comm, int rank, size_t *bytes) {
    check_peer(comm, rank);
    *bytes = (size_t)comm->world->options.words * sizeof(uint64_t);
    char *segment = comm->segments[rank];
    return segment != NULL ? (void *)ls_segment_words(&comm->end.form, segment) : NULL;
}

void ls_comm_send(ls_comm *comm, ls_put *put) {
    const ls_link *route = &comm->routes[put->peer];
    put->ticket = ++comm->puts;
    if (put->word >= 0) ls_windows_note_set(comm->windows, put->word, put->generation);
    route->transport->put(route->state, put);
}

void ls_comm_send_signal(ls_comm *comm, int peer, int word, uint64_t generation) {
    const ls_link *route = &comm->routes[peer];
    ls_windows_note_set(comm->windows, word, generation);
    route->transport->signal(route->state, peer, word, generation);
}

uint64_t ls_comm_put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from) {
    ls_put put = {.peer = peer, .word = -1, .source = source, .to = to, .from = from};
    check_put(comm, &put);
    ls_comm_send(comm, &put);
    return put.ticket;
}

uint64_t ls_comm_put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from,
                            int word, uint64_t generation) {
    ls_put put = {.peer = peer, .word = word, .generation = generation, .source = source, .to = to, .from = from};
    check_put(comm, &put);
    check_word(comm, word);
    ls_comm_send(comm, &put);
    return put.ticket;
}

bool ls_comm_done(ls_comm *comm, uint64_t ticket) {
    (void)ls_comm_progress(comm);
    for (int i = 0; i < comm->n_links; i++) {
        const ls_link *link = &comm->links[i];
        if (link->transport->done != NULL && !link->transport->done(link->state, ticket)) return false;
    }
    return true;
}

bool ls_comm_idle(ls_comm *comm) { return ls_comm_done(comm, comm->puts); }

void ls_comm_signal(ls_comm *comm, int peer, int word, uint64_t generation) {
    check_peer(comm, peer);
    check_word(comm, word);
    ls_comm_send_signal(comm, peer, word, generation);
}

uint64_t ls_comm_word(const ls_comm *comm, int word) {
    check_word(comm, word);
    return atomic_load_explicit(&comm->words[word], memory_order_acquire);
}

double ls_comm_progress(ls_comm *comm) {
    double until = INFINITY;
    for (int i = 0; i < comm->n_links; i++) {
        const ls_link *link = &comm->links[i];
        if (link->transport->progress != NULL) until = fmin(until, link->transport->progress(link->state));
    }
    return until;
}

bool ls_comm_test(ls_comm *comm, int word, uint64_t generation) {
    (void)ls_comm_progress(comm);
    return ls_comm_word(comm, word) >= generation;
}

void ls_comm_quiet(ls_comm *comm) {
    for (int i = 0; i < comm->n_links; i++) comm->links[i].transport->quiet(comm->links[i].state);
}

void ls_comm_end_at_stop(ls_comm *comm, bool ends) { comm->ends_at_stop = ends; }

bool ls_comm_stop_requested(const ls_comm *comm) { return atomic_load(&comm->world->boot->notice->stop); }

ls_status ls_comm_check_stop(const ls_comm *comm) {
    if (!comm->ends_at_stop || !ls_comm_stop_requested(comm)) return ls_ok();
    return ls_error(LS_INTERRUPTED, "stopped by a signal before the work was done");
}

/* This rank is the only writer, so no atomic addition is needed. */
void ls_comm_tick(ls_comm *comm) {
    _Atomic uint64_t *ticks = &comm->line->ticks;
    atomic_store_explicit(ticks, atomic_load_explicit(ticks, memory_order_relaxed) + 1, memory_order_relaxed);
    (void)ls_comm_progress(comm);
}
