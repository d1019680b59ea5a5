/*
 * comm, for this folder alone: greetings, which both sides of a connection exchange first. Nothing else is read from a
 * connection before the other side has proved that it has the key.
 *
 *     caller                        listener
 *     greeting  ------------------>
 *               <------------------ greeting
 *     proof     ------------------>
 *               <------------------ proof
 *
 * A greeting has a fixed layout (greeting.c) with 32 random bytes. A proof is an HMAC-SHA-256 with the key over both
 * greetings and the role of the side that proves, so it is valid only for this connection, these ranks and this
 * direction. The listener proves last, so that a stranger that calls gets nothing on which to try keys. Whether both
 * sides are of one build is checked after the proofs (only the protocol version is checked before), so that a rank of
 * another build ends the job, but a stranger cannot.
 */
#ifndef LS_COMM_GREETING_IMPL_H
#define LS_COMM_GREETING_IMPL_H

#include "comm/socket_impl.h"

#include <poll.h>

enum { LS_GREETING_BYTES = 160, LS_GREETING_BUILD = 80 };

/* What a connection is for. */
typedef enum ls_greeting_purpose { LS_PURPOSE_RENDEZVOUS = 1, LS_PURPOSE_TCP } ls_greeting_purpose;

/* What a side says of itself, and which rank it means to reach. */
typedef struct ls_party {
    ls_greeting_purpose purpose;
    int rank, ranks;
    int peer;        /* of a caller: the rank that it calls; of a listener: becomes the rank that called */
    bool has_secret; /* its key is made of a secret, which strangers do not know */
} ls_party;

/* The greetings on one connection. The connection belongs to the calling code, and is never closed here. */
typedef struct ls_greeting {
    int fd;
    ls_key key;
    bool listens;
    int step;
    size_t got; /* bytes of what is being received */
    uint8_t mine[LS_GREETING_BYTES], theirs[LS_GREETING_BYTES], proof[LS_SHA256_BYTES];
    bool heard;  /* `peer` holds what the other side says, proven or not */
    bool proven; /* the other side has the key */
    bool done;   /* everything is exchanged, and both sides are of one build */
    ls_party me, peer;
} ls_greeting;

/* listens: this side has accepted the connection. LS_IO: the system gives no random bytes. */
ls_status ls_greeting_begin(ls_greeting *greeting, int fd, const ls_key *key, const ls_party *me, bool listens);
/*
 * Sends and receives as much as is possible without blocking; greeting->done: the greeting is complete. LS_PEER: the
 * other side is gone, is not a rank, or has another key. LS_INVALID: it is of another build (greeting->proven says
 * whether it has the key); the text names what differs on both sides.
 */
ls_status ls_greeting_advance(ls_greeting *greeting);
/*
 * Runs the whole greeting. Blocks for at most the seconds of `patience` in total (then LS_PEER), or until the notice
 * aborts.
 */
ls_status ls_greeting_run(ls_greeting *greeting, const ls_patience *patience, const char *what);

/* ---- the lobby of a listener (lobby.c) ---- */

/*
 * Connections that have been accepted, but whose other side has not yet proved that it has the key. Each has
 * LS_LOBBY_SECONDS for the proof. There are at most `room` of them; a new one then replaces the oldest. No connection
 * in the lobby makes another one wait.
 */
typedef struct ls_lobby ls_lobby;
#define LS_LOBBY_SECONDS 5.0

/* A connection that leaves the lobby because it has proved that it has the key. */
typedef struct ls_caller {
    int fd; /* to be closed by the calling code; -1: there is none */
    ls_party party;
    ls_status build; /* LS_INVALID: it has the key, but is of another build */
} ls_caller;

/* The listener still belongs to the calling code, and becomes non-blocking. `me` and `key` are copied. */
ls_status ls_lobby_open(int listener, const ls_key *key, const ls_party *me, int room, ls_lobby **out);
void ls_lobby_close(ls_lobby *lobby); /* NULL is allowed */
/*
 * Fills in the poll entries for the listener and all connections in the lobby, at most 1 + room; returns their number.
 */
int ls_lobby_poll(const ls_lobby *lobby, struct pollfd *out);
/*
 * Accepts connections, goes on with the greetings, and closes connections that are late or wrong; does not block. To be
 * called repeatedly until out->fd is -1. LS_IO: the listener has failed.
 */
ls_status ls_lobby_next(ls_lobby *lobby, ls_caller *out);
/* How many connections were refused; *why: the reason for the last of them that had said who it is, "" if none had. */
int ls_lobby_refused(const ls_lobby *lobby, const char **why);

#endif
