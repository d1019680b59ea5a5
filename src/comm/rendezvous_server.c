/*
 * The server of a rendezvous: one thread in the process of rank 0. It hands on what ranks send, and when the connection
 * of a rank ends before the rank has said that it leaves, it tells all others that this rank is dead.
 */
#include "comm/rendezvous_impl.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLICE_MILLISECONDS 50
/* A client has a thread that always receives, so sending to it, or the rest of its message, takes no time. */
static const ls_patience patience = {.seconds = 10};

typedef struct client {
    int fd;       /* -1: it has not come, or is gone */
    bool gathers; /* its value of the gather under way is there */
    bool left;
    double asked; /* the server's clock when it was asked whether it is there, without an answer yet; 0: it was not */
    ls_status failed; /* of a call on its connection */
} client;

struct ls_rendezvous_server {
    ls_rendezvous_point point;
    ls_notice *notice; /* of rank 0's process */
    int listener;
    client *clients;       /* [ranks] */
    struct pollfd *polled; /* [ranks + 1]: of the clients, and the listener */
    int came;
    _Atomic int gone; /* the process that ends reads it */
    double clock;     /* seconds for which the server has run; it begins at 1 */
    int gathering;    /* ranks whose value of the current gather is there */
    uint32_t value_bytes;
    char *values;                          /* [ranks * value_bytes] */
    char why[sizeof((ls_status){0}.text)]; /* of an abort; "": none */
    bool runs;
    _Atomic bool ends;
    pthread_t thread;
};

/* What could not be sent ends the connection, which shows when it is received from. */
static void send_to(ls_rendezvous_server *s, int rank, ls_rendezvous_kind kind, const void *bytes, size_t n) {
    const ls_rendezvous_head head = {kind, (uint32_t)n};
    client *c = &s->clients[rank];
    if (c->fd < 0) return;
    ls_status status = ls_socket_send(c->fd, &head, sizeof head, &patience, "a rank to listen");
    if (status.code == LS_OK) status = ls_socket_send(c->fd, bytes, n, &patience, "a rank to listen");
    if (status.code == LS_OK) return;
    c->failed = status;
    (void)shutdown(c->fd, SHUT_RDWR);
}

static void send_to_all(ls_rendezvous_server *s, ls_rendezvous_kind kind, const void *bytes, size_t n) {
    for (int r = 0; r < s->point.ranks; r++) send_to(s, r, kind, bytes, n);
}

/* Rank 0 hears of it at once: its own connection may be the one that has failed. */
static void abort_all(ls_rendezvous_server *s, const char *why) {
    if (s->why[0] != 0) return;
    snprintf(s->why, sizeof s->why, "%s", why);
    (void)ls_notice_abort(s->notice, why);
    send_to_all(s, LS_RENDEZVOUS_ABORT, s->why, strlen(s->why));
}

/* ---- ranks come ---- */

static const char *refusal(const ls_rendezvous_server *s, const ls_rendezvous_hello *hello) {
    if (hello->ranks != s->point.ranks) return "counts other ranks than rank 0";
    if (hello->rank < 0 || hello->rank >= hello->ranks) return "is not one of the ranks";
    return s->clients[hello->rank].fd >= 0 ? "is there already: two processes have the same rank" : NULL;
}

static void refuse(int fd, const ls_rendezvous_hello *hello, const char *what) {
    char text[128];
    snprintf(text, sizeof text, "rank %d of %d %s", hello->rank, hello->ranks, what);
    const ls_rendezvous_head head = {LS_RENDEZVOUS_ABORT, (uint32_t)strlen(text)};
    ls_status status = ls_socket_send(fd, &head, sizeof head, &patience, "a rank to listen");
    if (status.code == LS_OK) status = ls_socket_send(fd, text, strlen(text), &patience, "a rank to listen");
    (void)status;
    (void)close(fd);
}

/* Whoever is of another job, or speaks something else, is sent away without an answer. */
static void admit(ls_rendezvous_server *s) {
    static const ls_patience brief = {.seconds = 1};
    ls_rendezvous_head head;
    ls_rendezvous_hello hello;
    int fd;
    if (ls_socket_accept(s->listener, &brief, "a rank", &fd).code != LS_OK) return;
    if (ls_socket_receive(fd, &head, sizeof head, &brief, "a greeting").code != LS_OK ||
        head.kind != LS_RENDEZVOUS_HELLO || head.bytes != sizeof hello ||
        ls_socket_receive(fd, &hello, sizeof hello, &brief, "a greeting").code != LS_OK || hello.job != s->point.job) {
        (void)close(fd);
        return;
    }
    const char *what = refusal(s, &hello);
    if (what != NULL) {
        refuse(fd, &hello, what);
        return;
    }
    s->clients[hello.rank].fd = fd;
    send_to(s, hello.rank, LS_RENDEZVOUS_HELLO, NULL, 0);
    if (++s->came == s->point.ranks) send_to_all(s, LS_RENDEZVOUS_COME, NULL, 0);
    if (s->why[0] != 0) send_to(s, hello.rank, LS_RENDEZVOUS_ABORT, s->why, strlen(s->why));
}

static void name_missing(const ls_rendezvous_server *s, char *text, size_t room) {
    int n = 0, written = snprintf(text, room, "waited %.3g s for ", s->point.seconds);
    for (int r = 0; r < s->point.ranks && written < (int)room; r++)
        if (s->clients[r].fd < 0 && ++n <= 8)
            written += snprintf(text + written, room - (size_t)written, "%srank %d", n > 1 ? ", " : "", r);
    if (n > 8 && written < (int)room) snprintf(text + written, room - (size_t)written, " and %d others", n - 8);
}

/* ---- ranks speak ---- */

static void lose(ls_rendezvous_server *s, int rank) {
    client *c = &s->clients[rank];
    char text[256];
    if (c->failed.code == LS_IO)
        snprintf(text, sizeof text, "rank 0, connection to rank %d: %s", rank, c->failed.text);
    else
        snprintf(text, sizeof text, "rank %d ended before its work was done", rank);
    if (!c->left) abort_all(s, text);
    snprintf(text, sizeof text, "rank %d has ended, and others wait for it", rank);
    if (s->gathering > 0) abort_all(s, text);
    (void)close(c->fd);
    c->fd = -1;
    s->gone++;
}

/* The value of a rank; when all are there, everyone gets all of them. */
static void take_value(ls_rendezvous_server *s, int rank, const char *value, uint32_t bytes) {
    if (s->gathering == 0) {
        s->value_bytes = bytes;
        free(s->values);
        s->values = malloc((size_t)bytes * (size_t)s->point.ranks);
    }
    char text[128];
    snprintf(text, sizeof text, "rank %d tells %u bytes, others %u: expected one program on all ranks", rank, bytes,
             s->value_bytes);
    if (bytes != s->value_bytes || s->values == NULL) {
        abort_all(s, text);
        return;
    }
    memcpy(s->values + (size_t)rank * bytes, value, bytes);
    s->clients[rank].gathers = true;
    if (++s->gathering == s->point.ranks) {
        s->gathering = 0;
        for (int r = 0; r < s->point.ranks; r++) s->clients[r].gathers = false;
        send_to_all(s, LS_RENDEZVOUS_GATHER, s->values, (size_t)bytes * (size_t)s->point.ranks);
    } else if (s->gone > 0) {
        snprintf(text, sizeof text, "rank %d waits for ranks that have ended", rank);
        abort_all(s, text);
    }
}

/* A rank waits in a gather: asks the others whether they are there, and tells it what is known of them. */
static void tell_missing(ls_rendezvous_server *s, int rank) {
    ls_missing missing = LS_NOBODY_MISSING;
    for (int r = 0; r < s->point.ranks && s->gathering > 0; r++) {
        client *c = &s->clients[r];
        if (c->gathers || c->fd < 0) continue;
        if (c->asked == 0) {
            c->asked = s->clock;
            send_to(s, r, LS_RENDEZVOUS_ASK, NULL, 0);
        }
        ls_missing_add(&missing, r, s->clock - c->asked);
    }
    send_to(s, rank, LS_RENDEZVOUS_TELL, &missing, sizeof missing);
}

static void receive_from(ls_rendezvous_server *s, int rank) {
    ls_rendezvous_head head;
    char bytes[2048];
    client *c = &s->clients[rank];
    ls_status status = ls_socket_receive(c->fd, &head, sizeof head, &patience, "a rank");
    if (status.code == LS_OK && head.bytes >= sizeof bytes) status = ls_error(LS_PEER, "it speaks something else");
    if (status.code == LS_OK) status = ls_socket_receive(c->fd, bytes, head.bytes, &patience, "a rank");
    if (status.code != LS_OK) {
        if (c->failed.code == LS_OK) c->failed = status;
        lose(s, rank);
        return;
    }
    c->asked = 0;
    bytes[head.bytes] = 0;
    if (head.kind == LS_RENDEZVOUS_GATHER) take_value(s, rank, bytes, head.bytes);
    if (head.kind == LS_RENDEZVOUS_ASK) tell_missing(s, rank);
    if (head.kind == LS_RENDEZVOUS_ABORT) abort_all(s, bytes);
    if (head.kind == LS_RENDEZVOUS_STOP) send_to_all(s, LS_RENDEZVOUS_STOP, NULL, 0);
    if (head.kind == LS_RENDEZVOUS_LEAVE) {
        c->left = true;
        lose(s, rank);
    }
}

static void *thread_main(void *argument) {
    ls_rendezvous_server *s = argument;
    const int ranks = s->point.ranks;
    const double began = ls_seconds();
    for (double looked = began, now; !s->ends && s->gone < ranks; looked = now) {
        now = ls_seconds();
        s->clock += ls_boot_counted(now - looked);
        for (int r = 0; r < ranks; r++) s->polled[r] = (struct pollfd){.fd = s->clients[r].fd, .events = POLLIN};
        s->polled[ranks] = (struct pollfd){.fd = s->listener, .events = POLLIN};
        if (poll(s->polled, (nfds_t)ranks + 1, SLICE_MILLISECONDS) > 0) {
            for (int r = 0; r < ranks; r++)
                if (s->polled[r].revents != 0) receive_from(s, r);
            if (s->polled[ranks].revents != 0) admit(s);
        }
        if (s->came < ranks && s->why[0] == 0 && ls_seconds() - began > s->point.seconds) {
            char text[256];
            name_missing(s, text, sizeof text);
            abort_all(s, text);
        }
    }
    return NULL;
}

/* ---- start and end ---- */

/* Listens at the first port of a few that is free. */
static ls_status listen_somewhere(const ls_rendezvous_point *point, int *listener) {
    ls_status status = ls_ok();
    for (int i = 0; i < LS_RENDEZVOUS_PORTS; i++) {
        int port = point->port + i;
        status = ls_socket_listen("::", &port, listener);
        if (status.code != LS_OK) status = ls_socket_listen("0.0.0.0", &port, listener); /* a host without IPv6 */
        if (status.code == LS_OK) break;
    }
    return status;
}

ls_status ls_rendezvous_server_start(const ls_rendezvous_point *point, ls_notice *notice, ls_rendezvous_server **out) {
    const size_t ranks = (size_t)point->ranks;
    ls_rendezvous_server *s = calloc(1, sizeof *s);
    LS_ASSERT(s != NULL);
    *s = (ls_rendezvous_server){.point = *point,
                                .notice = notice,
                                .listener = -1,
                                .clock = 1,
                                .clients = calloc(ranks, sizeof *s->clients),
                                .polled = calloc(ranks + 1, sizeof *s->polled)};
    LS_ASSERT(s->clients != NULL && s->polled != NULL);
    for (size_t r = 0; r < ranks; r++) s->clients[r].fd = -1;
    ls_status status = listen_somewhere(point, &s->listener);
    if (status.code == LS_OK) {
        const int error = pthread_create(&s->thread, NULL, thread_main, s);
        s->runs = error == 0;
        if (!s->runs)
            status = ls_error(LS_NO_MEMORY, "rank 0 cannot start the thread where the ranks meet: pthread_create: %s",
                              strerror(error));
    }
    if (status.code == LS_OK)
        *out = s;
    else
        ls_rendezvous_server_end(s, 0);
    return status;
}

void ls_rendezvous_server_end(ls_rendezvous_server *s, double seconds) {
    if (s == NULL) return;
    for (const double began = ls_seconds(); s->runs && s->gone < s->point.ranks && ls_seconds() - began < seconds;)
        usleep(1000);
    s->ends = true;
    if (s->runs) pthread_join(s->thread, NULL);
    for (int r = 0; r < s->point.ranks; r++)
        if (s->clients[r].fd >= 0) (void)close(s->clients[r].fd);
    if (s->listener >= 0) (void)close(s->listener);
    free(s->clients);
    free(s->polled);
    free(s->values);
    free(s);
}
