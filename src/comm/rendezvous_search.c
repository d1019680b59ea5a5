/*
 * The search for the server of a rendezvous. A candidate is an address of rank 0's host with a port. All candidates are
 * tried at once, and each is tried again when it fails. So it does not matter in which order processes start, what else
 * listens there, or whether the host answers at all.
 */
#include "comm/rendezvous_impl.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES = 4, CANDIDATES = ADDRESSES * LS_RENDEZVOUS_PORTS, SLICE_MILLISECONDS = 20 };
#define RETRY_SECONDS 0.1
#define RETRY_REFUSED_SECONDS 1.0 /* if the other side greeted this rank and then refused it */
#define LOOK_UP_AGAIN_SECONDS 1.0
#define LOOK_UP_MICROSECONDS 2000
#define FIRST_WORD_SECONDS 5.0 /* until a message says whom this rank waits for; twice as long for the next */
#define TWICE_SECONDS 1.0      /* within this time rank 0 of another job proves what it is */

typedef struct candidate {
    struct sockaddr_storage address;
    socklen_t bytes;
    int fd;         /* -1: no connection; it is tried again at `again` */
    bool connected; /* the connection is made, and the greeting is under way */
    double again;
    ls_greeting greeting;
    ls_status last; /* why it failed the last time */
} candidate;

typedef struct search {
    const ls_rendezvous_point *point;
    ls_party me;
    int n, ports;
    candidate all[CANDIDATES];
    ls_status unknown; /* why the address of the host is not known yet */
} search;

/* ---- the addresses of the host ---- */

/*
 * A look-up may take arbitrarily long, so it runs in its own thread. The thread and the search share this; the last of
 * the two to end frees it.
 */
typedef struct look_up {
    char host[256];
    _Atomic int users;
    _Atomic bool done;
    int error;
    struct addrinfo *found;
} look_up;

static void drop(look_up *l) {
    if (atomic_fetch_sub(&l->users, 1) > 1) return;
    if (l->found != NULL) freeaddrinfo(l->found);
    free(l);
}

static void *look_up_main(void *argument) {
    look_up *l = argument;
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    l->error = getaddrinfo(l->host, NULL, &wanted, &l->found);
    if (l->error != 0) l->found = NULL;
    atomic_store(&l->done, true);
    drop(l);
    return NULL;
}

static ls_status begin_look_up(const char *host, look_up **out) {
    look_up *l = calloc(1, sizeof *l);
    pthread_t thread;
    if (l == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes to look for rank 0", sizeof *l);
    snprintf(l->host, sizeof l->host, "%s", host);
    l->users = 2;
    const int error = pthread_create(&thread, NULL, look_up_main, l);
    if (error != 0) {
        free(l);
        return ls_error(LS_NO_MEMORY, "cannot start a thread to look for rank 0: pthread_create: %s", strerror(error));
    }
    pthread_detach(thread);
    *out = l;
    return ls_ok();
}

static void set_port(struct sockaddr_storage *address, int port) {
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

/* Adds each address with each port, all addresses with the first port first. */
static void add_candidates(search *s, const look_up *l) {
    for (int i = 0; i < s->ports; i++) {
        int addresses = 0;
        for (const struct addrinfo *one = l->found; one != NULL && addresses < ADDRESSES; one = one->ai_next) {
            if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
            candidate *c = &s->all[s->n++];
            *c = (candidate){.fd = -1, .bytes = one->ai_addrlen, .last = ls_ok()};
            memcpy(&c->address, one->ai_addr, one->ai_addrlen);
            set_port(&c->address, s->point->port + i);
            addresses++;
        }
    }
}

/* Goes on with the look-up until it has found an address; *l: NULL if no look-up is under way. */
static ls_status look_up_host(search *s, look_up **l, double *again) {
    if (s->n > 0 || (*l == NULL && ls_seconds() < *again)) return ls_ok();
    if (*l == NULL) LS_TRY(begin_look_up(s->point->host, l));
    if (!atomic_load(&(*l)->done)) return ls_ok();
    if ((*l)->error == 0)
        add_candidates(s, *l);
    else
        s->unknown = ls_error(LS_PEER, "host '%s': getaddrinfo: %s", s->point->host, gai_strerror((*l)->error));
    drop(*l);
    *l = NULL;
    *again = ls_seconds() + LOOK_UP_AGAIN_SECONDS;
    return ls_ok();
}

/* ---- one candidate ---- */

static void give_up(candidate *c, ls_status why) {
    if (c->fd >= 0) (void)close(c->fd);
    if (!c->connected) c->greeting.heard = false; /* forget an earlier greeting: that listener is gone */
    c->fd = -1;
    c->connected = false;
    c->last = why;
    c->again = ls_seconds() + (c->greeting.heard ? RETRY_REFUSED_SECONDS : RETRY_SECONDS);
}

static void try_connecting(candidate *c) {
    c->fd = socket(c->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        give_up(c, ls_error(LS_IO, "socket: %s", strerror(errno)));
    else if (connect(c->fd, (const struct sockaddr *)&c->address, c->bytes) != 0 && errno != EINPROGRESS)
        give_up(c, ls_error(LS_PEER, "connect: %s", strerror(errno)));
}

/* Goes on with a connection that poll has found ready. LS_INVALID: the server has the key, but is of another build. */
static ls_status advance(const search *s, candidate *c) {
    if (!c->connected) {
        int error = 0;
        socklen_t bytes = sizeof error;
        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
        if (error != 0) {
            give_up(c, ls_error(LS_PEER, "connect: %s", strerror(error)));
            return ls_ok();
        }
        LS_TRY(ls_greeting_begin(&c->greeting, c->fd, &s->point->key, &s->me, false));
        c->connected = true;
    }
    const ls_status status = ls_greeting_advance(&c->greeting);
    if (status.code == LS_OK || c->greeting.proven) return status;
    give_up(c, status);
    return ls_ok();
}

/* ---- all of them ---- */

/* Goes on with all candidates for a moment; *found: the first that has proved that it has the key. */
static ls_status look(search *s, candidate **found) {
    struct pollfd polled[CANDIDATES];
    for (int i = 0; i < s->n; i++) {
        candidate *c = &s->all[i];
        if (c->fd < 0 && ls_seconds() >= c->again) try_connecting(c);
        polled[i] = (struct pollfd){.fd = c->fd, .events = c->connected ? POLLIN : POLLOUT};
    }
    if (poll(polled, (nfds_t)s->n, SLICE_MILLISECONDS) <= 0) return ls_ok();
    for (int i = 0; i < s->n; i++) {
        if (polled[i].revents == 0) continue;
        LS_TRY(advance(s, &s->all[i]));
        if (!s->all[i].greeting.done) continue;
        *found = &s->all[i];
        return ls_ok();
    }
    return ls_ok();
}

/* Why no server is found: what a listener that greeted said, else what is known about the first port. */
static ls_status why_not(const search *s) {
    for (int i = 0; i < s->n; i++)
        if (s->all[i].greeting.heard && s->all[i].last.code != LS_OK) return s->all[i].last;
    if (s->n == 0 && s->unknown.code != LS_OK) return s->unknown;
    if (s->n > 0 && s->all[0].last.code != LS_OK) return s->all[0].last;
    return ls_error(LS_PEER, "nothing answers");
}

/* Makes the socket of the found candidate blocking again, and closes all others. */
static ls_status end(search *s, look_up *l, const candidate *found) {
    for (int i = 0; i < s->n; i++)
        if (s->all[i].fd >= 0 && &s->all[i] != found) (void)close(s->all[i].fd);
    if (l != NULL) drop(l);
    return found == NULL ? ls_ok() : ls_socket_set_up(found->fd);
}

static search *make(const ls_rendezvous_point *point, int ports) {
    search *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->point = point;
    s->ports = ports;
    s->me = (ls_party){.purpose = LS_PURPOSE_RENDEZVOUS,
                       .rank = point->rank,
                       .ranks = point->ranks,
                       .peer = 0,
                       .has_secret = point->has_secret};
    return s;
}

static ls_status find(search *s, double seconds, bool speaks, candidate **found, look_up **l) {
    const ls_rendezvous_point *p = s->point;
    double again = 0, word = FIRST_WORD_SECONDS, passed = 0, looked = ls_seconds();
    while (*found == NULL) {
        LS_TRY(look_up_host(s, l, &again));
        if (s->n == 0)
            usleep(LOOK_UP_MICROSECONDS);
        else
            LS_TRY(look(s, found));
        passed += ls_boot_counted(ls_seconds() - looked);
        looked = ls_seconds();
        if (*found != NULL || (passed <= word && passed <= seconds)) continue;
        const ls_status why = why_not(s);
        if (passed > seconds)
            return ls_error_in(why, "rank %d of %d waited %.3g s for rank 0 at %s, port %d", p->rank, p->ranks, seconds,
                               p->host, p->port);
        word *= 2;
        if (speaks)
            ls_log("rank %d of %d waits for rank 0 at %s, port %d, %.0f of %.0f s: %s", p->rank, p->ranks, p->host,
                   p->port, passed, seconds, why.text);
    }
    return ls_ok();
}

ls_status ls_rendezvous_search(const ls_rendezvous_point *point, int *fd) {
    search *s = make(point, LS_RENDEZVOUS_PORTS);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes to look for rank 0", sizeof *s);
    candidate *found = NULL;
    look_up *l = NULL;
    ls_status status = find(s, point->seconds, true, &found, &l);
    const ls_status ended = end(s, l, found);
    if (status.code == LS_OK) status = ended;
    LS_ASSERT(found != NULL || status.code != LS_OK);
    if (status.code == LS_OK)
        *fd = found->fd;
    else if (found != NULL)
        (void)close(found->fd);
    free(s);
    return status;
}

bool ls_rendezvous_is_twice(const ls_rendezvous_point *point, int ports) {
    search *s = make(point, ports);
    if (s == NULL) return false;
    candidate *found = NULL;
    look_up *l = NULL;
    const ls_status status = find(s, TWICE_SECONDS, false, &found, &l);
    bool twice = found != NULL;
    for (int i = 0; i < s->n; i++) twice |= s->all[i].greeting.proven;
    (void)status; /* no listener has the key */
    (void)end(s, l, NULL);
    free(s);
    return twice;
}
