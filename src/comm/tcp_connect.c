/*
 * The connections of the transport tcp: every rank calls each of its peers, and is called by each. Messages on a
 * connection are read only after both sides have proved that they have the key of the world (greeting_impl.h).
 */
#include "comm/greeting_impl.h"
#include "comm/tcp_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_SECONDS 60.0 /* within this time a peer must connect and answer */
enum { SLICE_MILLISECONDS = 50, STRANGERS = 64 };

/* The address and port at which other ranks call a rank. */
typedef struct contact {
    char address[LS_ADDRESS];
    int port;
} contact;

/*
 * The greetings of a rank with all its peers. They advance at the same time, so that no two ranks wait for each other.
 */
typedef struct meeting {
    const ls_endpoint *end;
    const bool *used;
    int *calls, *called;   /* [ranks] the connections made by this rank, and those made by its peers; -1: none yet */
    ls_greeting *greeting; /* [ranks] the greetings over `calls` */
    ls_lobby *lobby;
    struct pollfd *polled; /* [ranks + STRANGERS + 1 + ranks]: entries of the lobby, then of `calls` */
} meeting;

/* Calls a peer, and begins to greet it. A connection is made as soon as the peer listens. */
static ls_status call(const meeting *m, int peer, const contact *there) {
    const ls_party me = {.purpose = LS_PURPOSE_TCP,
                         .rank = m->end->rank,
                         .ranks = m->end->ranks,
                         .peer = peer,
                         .has_secret = m->end->boot->has_secret};
    if (memchr(there->address, 0, sizeof there->address) == NULL || there->port < 1 || there->port > 65535)
        return ls_error(LS_INVALID, "rank %d tells no address to connect to: port %d; expected 1 to 65535", peer,
                        there->port);
    LS_TRY(ls_error_in(ls_socket_connect(there->address, there->port, &m->calls[peer]), "to rank %d", peer));
    return ls_greeting_begin(&m->greeting[peer], m->calls[peer], &m->end->boot->key, &me, false);
}

/* Takes the connections that leave the lobby. */
static ls_status take_callers(const meeting *m) {
    for (;;) {
        ls_caller caller;
        LS_TRY(ls_lobby_next(m->lobby, &caller));
        if (caller.fd < 0) return ls_ok();
        const int rank = caller.party.rank;
        if (caller.build.code == LS_OK && rank >= 0 && rank < m->end->ranks && m->used[rank] && m->called[rank] < 0) {
            m->called[rank] = caller.fd;
            continue;
        }
        (void)close(caller.fd);
        LS_TRY(caller.build);
    }
}

/* The first peer that has not called, or has not answered; -1: there is none. */
static int find_awaited(const meeting *m, bool *calls) {
    for (int peer = 0; peer < m->end->ranks; peer++) {
        if (!m->used[peer]) continue;
        *calls = m->called[peer] < 0;
        if (*calls || !m->greeting[peer].done) return peer;
    }
    return -1;
}

/* Waits until some greeting can advance. */
static ls_status await_any(const meeting *m) {
    int n = ls_lobby_poll(m->lobby, m->polled);
    for (int peer = 0; peer < m->end->ranks; peer++)
        if (m->used[peer] && !m->greeting[peer].done)
            m->polled[n++] = (struct pollfd){.fd = m->calls[peer], .events = POLLIN};
    if (poll(m->polled, (nfds_t)n, SLICE_MILLISECONDS) < 0 && errno != EINTR)
        return ls_error(LS_IO, "poll: %s", strerror(errno));
    return ls_notice_aborted(m->end->boot->notice);
}

static ls_status greet_all(const meeting *m) {
    const double began = ls_seconds();
    for (;;) {
        for (int peer = 0; peer < m->end->ranks; peer++)
            if (m->used[peer] && !m->greeting[peer].done)
                LS_TRY(ls_error_in(ls_greeting_advance(&m->greeting[peer]), "to rank %d", peer));
        LS_TRY(take_callers(m));
        bool calls;
        const int awaited = find_awaited(m, &calls);
        if (awaited < 0) return ls_ok();
        if (ls_seconds() - began > OPEN_SECONDS)
            return ls_error(LS_PEER, "waited %.3g s for rank %d on host %s to %s rank %d", OPEN_SECONDS, awaited,
                            m->end->boot->host_names[awaited], calls ? "connect to" : "answer", m->end->rank);
        LS_TRY(await_any(m));
    }
}

/* Collective. */
static ls_status meet(meeting *m, int listener, int port) {
    ls_boot *boot = m->end->boot;
    const size_t ranks = (size_t)m->end->ranks;
    const ls_party me = {
        .purpose = LS_PURPOSE_TCP, .rank = m->end->rank, .ranks = m->end->ranks, .has_secret = boot->has_secret};
    contact mine = {.port = port}, *all = calloc(ranks, sizeof *all);
    if (all == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate the addresses of %zu ranks", ranks);
    memcpy(mine.address, boot->address, sizeof mine.address);
    ls_status status = ls_lobby_open(listener, &boot->key, &me, (int)ranks + STRANGERS, &m->lobby);
    if (status.code == LS_OK) status = boot->kind->gather(boot, m->end->rank, &mine, sizeof mine, all);
    for (int peer = 0; peer < m->end->ranks && status.code == LS_OK; peer++)
        if (m->used[peer]) status = call(m, peer, &all[peer]);
    free(all);
    return status.code == LS_OK ? greet_all(m) : status;
}

ls_status ls_tcp_connect(const ls_endpoint *end, const bool *used, const ls_tcp_connections *out) {
    const size_t ranks = (size_t)end->ranks;
    meeting m = {.end = end,
                 .used = used,
                 .calls = out->calls,
                 .called = out->called,
                 .greeting = calloc(ranks, sizeof *m.greeting),
                 .polled = calloc(2 * ranks + STRANGERS + 1, sizeof *m.polled)};
    int listener = -1, port = 0;
    ls_status status = ls_ok();
    if (m.greeting == NULL || m.polled == NULL)
        status = ls_error(LS_NO_MEMORY, "cannot allocate the greetings of %zu ranks", ranks);
    if (status.code == LS_OK) status = ls_socket_listen(end->boot->address, &port, &listener);
    if (status.code == LS_OK) status = meet(&m, listener, port);
    ls_lobby_close(m.lobby);
    if (listener >= 0) (void)close(listener);
    free(m.greeting);
    free(m.polled);
    return status;
}
