/*
 * The receiving side of the transport tcp: one thread for each rank. The thread never waits for a peer that has sent
 * half of a message, and its answers are so few that they always fit into a connection's buffer. So it never waits
 * while there is something to receive.
 */
#include "comm/tcp_impl.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18 };

/* A message that arrives: first its head, then its payload. */
typedef struct incoming {
    ls_tcp_head head;
    size_t got;        /* bytes of the head */
    size_t at, bytes;  /* bytes of the payload: arrived; in total */
    _Atomic bool left; /* written by the thread, as is `lost` */
    _Atomic bool lost;
} incoming;

struct ls_tcp_receiver {
    const ls_endpoint *end;
    incoming *peers;       /* [ranks] */
    struct pollfd *polled; /* [ranks + 1]; fd -1: no connection. The last entry serves to end the thread */
    char *buffer;
    bool runs;
    pthread_t thread;
};

static void hang_up(ls_tcp_receiver *r, int peer, bool left) {
    incoming *in = &r->peers[peer];
    atomic_store_explicit(left ? &in->left : &in->lost, true, memory_order_release);
    (void)close(r->polled[peer].fd);
    r->polled[peer].fd = -1;
    ls_bell_ring(ls_endpoint_line(r->end));
}

/* Aborts the world because a call of this thread failed. */
static void abort_world(const ls_tcp_receiver *r, const char *call) {
    char why[160];
    snprintf(why, sizeof why, "rank %d cannot receive: %s: %s", r->end->rank, call, strerror(errno));
    (void)ls_notice_abort(r->end->boot->notice, why);
}

static void answer(const ls_tcp_receiver *r, int peer, int kind) {
    const ls_rank_line *line = ls_endpoint_line(r->end);
    const ls_tcp_answer a = {.kind = kind,
                             .waits_for = atomic_load_explicit(&line->waits_for, memory_order_relaxed) - 1,
                             .ticks = atomic_load_explicit(&line->ticks, memory_order_relaxed)};
    const ls_patience patience = {.notice = r->end->boot->notice, .seconds = 1};
    const ls_status status = ls_socket_send(r->polled[peer].fd, &a, sizeof a, &patience, "an answer to be sent");
    /* If the peer has closed the connection, the thread will notice when it receives. */
    if (status.code == LS_IO) {
        const ls_status why = ls_error_in(status, "rank %d, to rank %d", r->end->rank, peer);
        (void)ls_notice_abort(r->end->boot->notice, why.text);
    }
}

/* Refuses a peer that has sent something that no rank of this world sends. */
static void refuse(ls_tcp_receiver *r, int peer, ls_status why) {
    (void)ls_notice_abort(r->end->boot->notice, why.text);
    hang_up(r, peer, false);
}

static bool carries(const ls_tcp_head *head) { return head->kind == LS_TCP_PUT || head->kind == LS_TCP_PIECE; }
static bool signals(const ls_tcp_head *head) { return head->kind == LS_TCP_PUT || head->kind == LS_TCP_SIGNAL; }

/* LS_PEER unless this rank expects the message. The numbers in the head are used only after this check. */
static ls_status check_head(const ls_tcp_receiver *r, int peer, const ls_tcp_head *head) {
    const ls_endpoint *end = r->end;
    if (head->kind < 0 || head->kind >= LS_TCP_KINDS || head->word < -1 || head->word >= end->form.n_words ||
        (signals(head) && head->word < 0))
        return ls_error(LS_PEER, "rank %d refuses what rank %d sends: message %d for word %d; expected words below %d",
                        end->rank, peer, head->kind, head->word, end->form.n_words);
    if (!carries(head) && !signals(head)) return ls_ok();
    const ls_arrival arrival = {.word = head->word,
                                .generation = head->generation,
                                .to = carries(head) ? &head->to : NULL,
                                .piece = head->kind == LS_TCP_PIECE};
    const uint64_t reached = head->word < 0 ? 0 : ls_endpoint_reached(end, head->word);
    return ls_windows_check(end->windows, peer, reached, &arrival);
}

/* Called when a complete message has arrived. */
static void finish(ls_tcp_receiver *r, int peer) {
    incoming *in = &r->peers[peer];
    const ls_tcp_head *head = &in->head;
    in->got = 0;
    if (signals(head)) ls_endpoint_deliver(r->end, head->word, head->generation);
    if (head->kind == LS_TCP_ASK || head->kind == LS_TCP_FLUSH) answer(r, peer, head->kind);
    if (head->kind == LS_TCP_LEAVE) hang_up(r, peer, true);
}

/* Takes bytes of the head; returns how many. */
static size_t take_head(ls_tcp_receiver *r, int peer, const char *from, size_t n) {
    incoming *in = &r->peers[peer];
    const size_t taken = ls_min(n, sizeof in->head - in->got);
    memcpy((char *)&in->head + in->got, from, taken);
    in->got += taken;
    if (in->got < sizeof in->head) return taken;
    const ls_status sound = check_head(r, peer, &in->head);
    if (sound.code != LS_OK) {
        refuse(r, peer, sound);
        return taken;
    }
    in->at = 0;
    in->bytes = carries(&in->head) ? ls_range_bytes(&in->head.to) : 0;
    if (in->bytes == 0) finish(r, peer);
    return taken;
}

/* Takes bytes of the payload, as far as one piece of the range goes; returns how many. */
static size_t take_payload(ls_tcp_receiver *r, int peer, const char *from, size_t n) {
    incoming *in = &r->peers[peer];
    const ls_range *to = &in->head.to;
    const size_t in_piece = in->at % to->length, taken = ls_min(n, to->length - in_piece);
    char *heap = r->end->segments[r->end->rank] + r->end->form.heap;
    memcpy(heap + ls_range_piece(to, in->at / to->length) + in_piece, from, taken);
    in->at += taken;
    if (in->at == in->bytes) finish(r, peer);
    return taken;
}

static void receive(ls_tcp_receiver *r, int peer) {
    const ssize_t n = recv(r->polled[peer].fd, r->buffer, BUFFER_BYTES, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        char call[32];
        snprintf(call, sizeof call, "recv from rank %d", peer);
        if (n < 0 && errno != ECONNRESET) abort_world(r, call);
        hang_up(r, peer, false);
        return;
    }
    const incoming *in = &r->peers[peer];
    for (size_t at = 0; at < (size_t)n && r->polled[peer].fd >= 0;) {
        const size_t left = (size_t)n - at;
        at += in->got < sizeof in->head ? take_head(r, peer, r->buffer + at, left)
                                        : take_payload(r, peer, r->buffer + at, left);
    }
}

bool ls_tcp_receiver_step(ls_tcp_receiver *r) {
    const int ranks = r->end->ranks;
    const int n = poll(r->polled, (nfds_t)ranks + 1, -1);
    if (n < 0 && errno == EINTR) return true;
    if (n < 0) abort_world(r, "poll");
    if (n < 0 || r->polled[ranks].revents != 0) return false;
    for (int peer = 0; peer < ranks; peer++)
        if (r->polled[peer].fd >= 0 && r->polled[peer].revents != 0) receive(r, peer);
    return true;
}

static void *thread_main(void *argument) {
    while (ls_tcp_receiver_step(argument)) continue;
    return NULL;
}

ls_status ls_tcp_receiver_open(const ls_endpoint *end, const int *fds, ls_tcp_receiver **out) {
    const size_t ranks = (size_t)end->ranks;
    ls_tcp_receiver *r = calloc(1, sizeof *r);
    LS_ASSERT(r != NULL);
    *r = (ls_tcp_receiver){.end = end,
                           .peers = calloc(ranks, sizeof *r->peers),
                           .polled = calloc(ranks + 1, sizeof *r->polled),
                           .buffer = malloc(BUFFER_BYTES)};
    LS_ASSERT(r->peers != NULL && r->polled != NULL && r->buffer != NULL);
    for (size_t p = 0; p < ranks; p++) r->polled[p] = (struct pollfd){.fd = fds[p], .events = POLLIN};
    r->polled[ranks] = (struct pollfd){.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    if (r->polled[ranks].fd >= 0) {
        *out = r;
        return ls_ok();
    }
    const int error = errno;
    ls_tcp_receiver_end(r);
    return ls_error(LS_NO_MEMORY, "cannot receive for rank %d: eventfd: %s", end->rank, strerror(error));
}

ls_status ls_tcp_receiver_start(ls_tcp_receiver *r) {
    const int error = pthread_create(&r->thread, NULL, thread_main, r);
    r->runs = error == 0;
    if (r->runs) return ls_ok();
    return ls_error(LS_NO_MEMORY, "cannot start the thread that receives for rank %d: pthread_create: %s", r->end->rank,
                    strerror(error));
}

void ls_tcp_receiver_end(ls_tcp_receiver *r) {
    if (r == NULL) return;
    if (r->runs) {
        (void)eventfd_write(r->polled[r->end->ranks].fd, 1);
        pthread_join(r->thread, NULL);
    }
    for (int p = 0; p <= r->end->ranks; p++)
        if (r->polled[p].fd >= 0) (void)close(r->polled[p].fd);
    free(r->peers);
    free(r->polled);
    free(r->buffer);
    free(r);
}

bool ls_tcp_has_left(const ls_tcp_receiver *r, int peer) {
    return atomic_load_explicit(&r->peers[peer].left, memory_order_acquire);
}

bool ls_tcp_is_lost(const ls_tcp_receiver *r, int peer) {
    return atomic_load_explicit(&r->peers[peer].lost, memory_order_acquire);
}
