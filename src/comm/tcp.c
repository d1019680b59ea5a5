/*
 * The transport tcp, between any two ranks whose hosts reach each other: for hosts without MPI, and for tests. The rank
 * itself copies a put into the connection, so the put is done when it returns; it blocks while the connection is full.
 * The peer's receiver thread (tcp_receive.c) writes the bytes into the heap without help of the peer's rank.
 */
#include "comm/tcp_impl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_SECONDS 0.05 /* the age at which what is known about a peer is asked for again */
/* How long to wait for peers to close their connections; in an aborted world hardly any may answer. */
#define CLOSE_SECONDS 1.0
#define ABORTED_CLOSE_SECONDS 0.1

enum { STAGED_BYTES = 1 << 16 }; /* smaller pieces are collected and sent together */

/* The sending side of the connection with one peer. */
typedef struct outgoing {
    int fd;         /* the connection to the peer; -1: none, or it broke */
    bool unflushed; /* puts were sent after the last flush */
    double asked;   /* ls_seconds() of an LS_TCP_ASK that is not answered yet; 0: there is none */
    double since;   /* ls_seconds() of the last answer */
    ls_tcp_answer answer;
    size_t got; /* bytes of `answer` that have come */
    ls_peer_state known;
} outgoing;

typedef struct tcp {
    const ls_endpoint *end;
    outgoing *peers; /* [ranks] */
    ls_tcp_receiver *receiver;
    char *staged;
    size_t n_staged;
} tcp;

static ls_peer_reach reach(const ls_boot *boot, int rank, int peer) {
    (void)rank, (void)peer;
    return (ls_peer_reach){.put = boot->address[0] != 0, .seconds = 3e-5};
}

/* ---- opening ---- */

/* Collective. */
static ls_status connect_all(tcp *t, const bool *used) {
    const size_t ranks = (size_t)t->end->ranks;
    int *calls = malloc(ranks * sizeof *calls), *called = malloc(ranks * sizeof *called);
    LS_ASSERT(calls != NULL && called != NULL);
    for (size_t r = 0; r < ranks; r++) calls[r] = called[r] = -1;
    ls_status status = ls_tcp_connect(t->end, used, &(ls_tcp_connections){calls, called});
    for (size_t r = 0; r < ranks; r++) t->peers[r].fd = calls[r];
    if (status.code == LS_OK) {
        status = ls_tcp_receiver_open(t->end, called, &t->receiver);
        if (status.code == LS_OK) status = ls_tcp_receiver_start(t->receiver);
    } else {
        for (size_t r = 0; r < ranks; r++)
            if (called[r] >= 0) (void)close(called[r]);
    }
    free(calls);
    free(called);
    return status;
}

static void free_all(tcp *t) {
    ls_tcp_receiver_end(t->receiver);
    for (int peer = 0; peer < t->end->ranks; peer++)
        if (t->peers[peer].fd >= 0) (void)close(t->peers[peer].fd);
    free(t->peers);
    free(t->staged);
    free(t);
}

static ls_status open_tcp(const ls_endpoint *end, const bool *used, void **state) {
    const size_t ranks = (size_t)end->ranks;
    tcp *t = calloc(1, sizeof *t);
    LS_ASSERT(t != NULL);
    *t = (tcp){.end = end, .peers = calloc(ranks, sizeof *t->peers), .staged = malloc(STAGED_BYTES)};
    LS_ASSERT(t->peers != NULL && t->staged != NULL);
    for (size_t r = 0; r < ranks; r++) t->peers[r] = (outgoing){.fd = -1, .known.waits_for = -1};
    const ls_status status = ls_error_in(connect_all(t, used), "transport tcp of rank %d", end->rank);
    if (status.code == LS_OK)
        *state = t;
    else
        free_all(t);
    return status;
}

/* ---- sending ---- */

/* Gives up a connection to a peer. status NULL: the peer has closed it, and the wait for the peer will report that. */
static void hang_up(tcp *t, int peer, const ls_status *status) {
    if (status != NULL) {
        const ls_status why = ls_error_in(*status, "rank %d", t->end->rank);
        (void)ls_notice_abort(t->end->boot->notice, why.text);
    }
    (void)close(t->peers[peer].fd);
    t->peers[peer].fd = -1;
}

static ls_peer_state look(void *state, int peer);

/* The context of a wait for a peer to take what was sent to it. */
typedef struct slow_peer {
    tcp *t;
    int peer;
    const char *doing; /* "to take a message" */
} slow_peer;

/*
 * LS_PEER, with the same text as the abort, if the rank gives up. Normally a peer's receiver takes everything at once.
 */
static ls_status check_slow(void *context, double waited) {
    const slow_peer *s = context;
    tcp *t = s->t;
    const ls_endpoint *end = t->end;
    const bool hears_first =
        end->rank == 0 || (s->peer != 0 && (t->peers[0].fd < 0 || look(t, 0).silent < LOOK_SECONDS));
    if (!ls_boot_gives_up(end->boot, end->rank, s->peer, waited, end->timeout, hears_first)) return ls_ok();
    char why[160];
    ls_boot_print_silence(end->boot, s->peer, waited, why, sizeof why);
    const ls_status status =
        ls_error(LS_PEER, "rank %d waited %.3g s for rank %d %s, %s", end->rank, waited, s->peer, s->doing, why);
    (void)ls_notice_abort(end->boot->notice, status.text);
    return status;
}

/*
 * If a peer takes nothing for too long, or a call fails, the world is aborted. If the connection is closed, messages
 * are dropped: either the peer has left, or the wait for it will report the loss.
 */
static void send_bytes(tcp *t, int peer, const void *from, size_t bytes) {
    outgoing *out = &t->peers[peer];
    if (out->fd < 0 || bytes == 0) return;
    ls_rank_line *line = ls_endpoint_line(t->end);
    slow_peer slow = {t, peer, "to take a message"};
    const ls_patience patience = {.notice = t->end->boot->notice, .slow = check_slow, .context = &slow};
    const int own = atomic_load_explicit(&line->waits_for, memory_order_relaxed);
    char what[64];
    snprintf(what, sizeof what, "rank %d to take a message", peer);
    atomic_store_explicit(&line->waits_for, peer + 1, memory_order_relaxed);
    const ls_status status = ls_socket_send(out->fd, from, bytes, &patience, what);
    atomic_store_explicit(&line->waits_for, own, memory_order_relaxed);
    if (status.code != LS_OK) hang_up(t, peer, status.code == LS_IO ? &status : NULL);
}

static void send_staged(tcp *t, int peer) {
    send_bytes(t, peer, t->staged, t->n_staged);
    t->n_staged = 0;
}

static void stage(tcp *t, int peer, const void *from, size_t bytes) {
    if (bytes > STAGED_BYTES - t->n_staged) send_staged(t, peer);
    if (bytes > STAGED_BYTES) {
        send_bytes(t, peer, from, bytes);
        return;
    }
    memcpy(t->staged + t->n_staged, from, bytes);
    t->n_staged += bytes;
}

static void put(void *state, const ls_put *p) {
    tcp *t = state;
    const ls_tcp_head head = {.kind = ls_put_signals(p) ? LS_TCP_PUT : LS_TCP_PIECE,
                              .word = p->word,
                              .generation = p->generation,
                              .to = *p->to};
    const size_t bytes = ls_range_bytes(p->from);
    LS_ASSERT(bytes == ls_range_bytes(p->to));
    stage(t, p->peer, &head, sizeof head);
    for (size_t at = 0; at < bytes; at += p->from->length)
        stage(t, p->peer, (const char *)p->source + ls_range_piece(p->from, at / p->from->length), p->from->length);
    send_staged(t, p->peer);
    t->peers[p->peer].unflushed = true;
}

static void signal_word(void *state, int peer, int word, uint64_t generation) {
    const ls_tcp_head head = {.kind = LS_TCP_SIGNAL, .word = word, .generation = generation};
    send_bytes(state, peer, &head, sizeof head);
}

/* ---- answers ---- */

static bool is_sound(const tcp *t, const ls_tcp_answer *answer) {
    return (answer->kind == LS_TCP_ASK || answer->kind == LS_TCP_FLUSH) && answer->waits_for >= -1 &&
           answer->waits_for < t->end->ranks;
}

/* Takes an answer if a complete one has come; returns its kind, or -1. */
static int take_answer(tcp *t, int peer) {
    outgoing *out = &t->peers[peer];
    if (out->fd < 0) return -1;
    const ssize_t n = recv(out->fd, (char *)&out->answer + out->got, sizeof out->answer - out->got, MSG_DONTWAIT);
    if (n > 0) out->got += (size_t)n;
    if (n == 0 || (n < 0 && errno == ECONNRESET)) {
        hang_up(t, peer, NULL);
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        const ls_status status = ls_error(LS_IO, "waited for an answer of rank %d: recv: %s", peer, strerror(errno));
        hang_up(t, peer, &status);
    }
    if (out->got < sizeof out->answer) return -1;
    out->got = 0;
    if (!is_sound(t, &out->answer)) {
        const ls_status status = ls_error(LS_PEER, "rank %d answers message %d, and waits for rank %d of %d", peer,
                                          out->answer.kind, out->answer.waits_for, t->end->ranks);
        hang_up(t, peer, &status);
        return -1;
    }
    out->since = ls_seconds();
    out->known.ticks = out->answer.ticks;
    out->known.waits_for = out->answer.waits_for;
    if (out->answer.kind == LS_TCP_ASK) out->asked = 0;
    return out->answer.kind;
}

static ls_peer_state look(void *state, int peer) {
    tcp *t = state;
    outgoing *out = &t->peers[peer];
    while (take_answer(t, peer) >= 0) continue;
    struct pollfd room = {.fd = out->fd, .events = POLLOUT};
    if (out->asked == 0 && ls_seconds() - out->since > LOOK_SECONDS && poll(&room, 1, 0) == 1) {
        const ls_tcp_head head = {.kind = LS_TCP_ASK, .word = -1};
        send_bytes(t, peer, &head, sizeof head);
        out->asked = ls_seconds();
    }
    ls_peer_state known = out->known;
    known.silent = out->asked > 0 ? ls_seconds() - out->asked : 0;
    known.left = ls_tcp_has_left(t->receiver, peer);
    known.lost = ls_tcp_is_lost(t->receiver, peer);
    return known;
}

/* Whether the peer will not answer any more. */
static bool is_gone(const tcp *t, int peer) {
    return t->peers[peer].fd < 0 || ls_tcp_has_left(t->receiver, peer) || ls_tcp_is_lost(t->receiver, peer) ||
           ls_notice_aborted(t->end->boot->notice).code != LS_OK;
}

static void await_flush(tcp *t, int peer) {
    outgoing *out = &t->peers[peer];
    ls_rank_line *line = ls_endpoint_line(t->end);
    slow_peer slow = {t, peer, "to take its puts"};
    atomic_store_explicit(&line->waits_for, peer + 1, memory_order_relaxed);
    const double began = ls_seconds();
    while (take_answer(t, peer) != LS_TCP_FLUSH && !is_gone(t, peer) &&
           check_slow(&slow, ls_seconds() - began).code == LS_OK) {
        struct pollfd one = {.fd = out->fd, .events = POLLIN};
        (void)poll(&one, 1, (int)(LOOK_SECONDS * 1e3));
    }
    atomic_store_explicit(&line->waits_for, 0, memory_order_relaxed);
    out->unflushed = false;
}

static void quiet(void *state) {
    tcp *t = state;
    const ls_tcp_head head = {.kind = LS_TCP_FLUSH, .word = -1};
    for (int peer = 0; peer < t->end->ranks; peer++)
        if (t->peers[peer].unflushed) send_bytes(t, peer, &head, sizeof head);
    for (int peer = 0; peer < t->end->ranks; peer++)
        if (t->peers[peer].unflushed) await_flush(t, peer);
}

/* ---- closing ---- */

/*
 * Tells the peers that the rank leaves, and waits until their receivers have closed the connections: closing a
 * connection with unread answers in it could lose that message.
 */
static void close_tcp(void *state) {
    tcp *t = state;
    const ls_tcp_head head = {.kind = LS_TCP_LEAVE, .word = -1};
    const bool aborted = ls_notice_aborted(t->end->boot->notice).code != LS_OK;
    const double began = ls_seconds(), most = aborted ? ABORTED_CLOSE_SECONDS : CLOSE_SECONDS;
    for (int peer = 0; peer < t->end->ranks; peer++) {
        send_bytes(t, peer, &head, sizeof head);
        if (t->peers[peer].fd >= 0) (void)shutdown(t->peers[peer].fd, SHUT_WR);
    }
    for (int peer = 0; peer < t->end->ranks; peer++) {
        char rest[64];
        struct pollfd one = {.fd = t->peers[peer].fd, .events = POLLIN};
        while (one.fd >= 0 && ls_seconds() - began < most && poll(&one, 1, 10) >= 0)
            if (one.revents != 0 && recv(one.fd, rest, sizeof rest, MSG_DONTWAIT) <= 0) break;
    }
    free_all(t);
}

const ls_transport ls_transport_tcp = {
    .name = "tcp",
    .reach = reach,
    .open = open_tcp,
    .put = put,
    .signal = signal_word,
    .look = look,
    .quiet = quiet,
    .close = close_tcp,
};
