/* The lobby of a listener: connections whose other side has not yet proved that it has the key. */
#include "comm/greeting_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct waiting {
    ls_greeting greeting;
    double since;
} waiting;

struct ls_lobby {
    int listener;
    ls_key key;
    ls_party me;
    int room, n;
    waiting *all; /* [room] of which the first n are in use, the oldest first */
    int at;       /* the next one to go on with */
    int refused;
    char why[sizeof((ls_status){0}.text)]; /* the reason for the last refused connection that had said who it is */
};

ls_status ls_lobby_open(int listener, const ls_key *key, const ls_party *me, int room, ls_lobby **out) {
    ls_lobby *lobby = calloc(1, sizeof *lobby);
    waiting *all = calloc((size_t)room, sizeof *all);
    if (lobby == NULL || all == NULL) {
        free(lobby);
        free(all);
        return ls_error(LS_NO_MEMORY, "cannot allocate the greetings of %d connections", room);
    }
    *lobby = (ls_lobby){.listener = listener, .key = *key, .me = *me, .room = room, .all = all};
    const int flags = fcntl(listener, F_GETFL);
    if (flags < 0 || fcntl(listener, F_SETFL, flags | O_NONBLOCK) != 0) {
        ls_lobby_close(lobby);
        return ls_error(LS_IO, "cannot listen without blocking: fcntl: %s", strerror(errno));
    }
    *out = lobby;
    return ls_ok();
}

void ls_lobby_close(ls_lobby *lobby) {
    if (lobby == NULL) return;
    for (int i = 0; i < lobby->n; i++) (void)close(lobby->all[i].greeting.fd);
    free(lobby->all);
    free(lobby);
}

int ls_lobby_poll(const ls_lobby *lobby, struct pollfd *out) {
    out[0] = (struct pollfd){.fd = lobby->listener, .events = POLLIN};
    for (int i = 0; i < lobby->n; i++) out[1 + i] = (struct pollfd){.fd = lobby->all[i].greeting.fd, .events = POLLIN};
    return 1 + lobby->n;
}

int ls_lobby_refused(const ls_lobby *lobby, const char **why) {
    *why = lobby->why;
    return lobby->refused;
}

/* ---- connections that come and go ---- */

static void forget(ls_lobby *lobby, int i) {
    memmove(&lobby->all[i], &lobby->all[i + 1], (size_t)(--lobby->n - i) * sizeof *lobby->all);
    if (lobby->at > i) lobby->at--;
}

static void send_away(ls_lobby *lobby, int i, const ls_status *why) {
    const ls_greeting *g = &lobby->all[i].greeting;
    if (g->heard) snprintf(lobby->why, sizeof lobby->why, "%s", why->text);
    lobby->refused++;
    (void)close(g->fd);
    forget(lobby, i);
}

static void send_oldest_away(ls_lobby *lobby) {
    const ls_status why = ls_error(LS_PEER, "there are %d newer connections", lobby->room);
    send_away(lobby, 0, &why);
}

/* Whether accept failed for a reason that concerns a single connection or is temporary. */
static bool is_passing(int error) {
    static const int passing[] = {EINTR,     ECONNABORTED, EPROTO,      ENETDOWN,   ENOPROTOOPT,
                                  EHOSTDOWN, EHOSTUNREACH, ENETUNREACH, EOPNOTSUPP, ETIMEDOUT};
    for (size_t i = 0; i < LS_COUNT(passing); i++)
        if (error == passing[i]) return true;
    return false;
}

/*
 * Accepts all connections that have been made. When file descriptors run out, the oldest connection in the lobby is
 * closed to make room.
 */
static ls_status accept_all(ls_lobby *lobby) {
    for (;;) {
        int fd;
        const int error = ls_socket_accept_now(lobby->listener, &fd);
        if (error == 0) {
            if (lobby->n == lobby->room) send_oldest_away(lobby);
            waiting *one = &lobby->all[lobby->n++];
            one->since = ls_seconds();
            LS_TRY(ls_greeting_begin(&one->greeting, fd, &lobby->key, &lobby->me, true));
        } else if (error == EAGAIN) {
            return ls_ok();
        } else if ((error == EMFILE || error == ENFILE) && lobby->n > 0) {
            send_oldest_away(lobby);
        } else if (!is_passing(error)) {
            return ls_error(LS_IO, "accept4: %s", strerror(error));
        }
    }
}

/* Goes on with the greeting of connection i; whether it leaves the lobby as *out. */
static bool advance(ls_lobby *lobby, int i, ls_caller *out) {
    waiting *one = &lobby->all[i];
    ls_greeting *g = &one->greeting;
    ls_status status = ls_greeting_advance(g);
    const bool out_of_time = ls_seconds() - one->since > LS_LOBBY_SECONDS;
    if (status.code == LS_OK && !g->done && out_of_time)
        status = ls_error(LS_PEER, "it has not greeted within %g s", LS_LOBBY_SECONDS);
    if (g->done || g->proven) {
        *out = (ls_caller){.fd = g->fd, .party = g->peer, .build = status};
        forget(lobby, i);
        return true;
    }
    if (status.code != LS_OK) send_away(lobby, i, &status);
    return false;
}

ls_status ls_lobby_next(ls_lobby *lobby, ls_caller *out) {
    if (lobby->at == 0) LS_TRY(accept_all(lobby));
    out->fd = -1;
    while (lobby->at < lobby->n) {
        if (advance(lobby, lobby->at++, out)) return ls_ok();
    }
    lobby->at = 0;
    return ls_ok();
}
