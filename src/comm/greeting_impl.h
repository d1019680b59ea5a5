/*
 * comm, for this folder alone: what both sides of a connection say first. Nothing else is read from a connection before
 * the other side has proved that it has the key.
 *
 *     caller                        listener
 *     greeting  ------------------>
 *               <------------------ greeting
 *     proof     ------------------>
 *               <------------------ proof
 *
 * A greeting has a fixed layout (greeting.c) with 32 random bytes. A proof is an HMAC-SHA-256 with the key over both
 * greetings and who proves, so it fits this connection, these ranks and this direction alone. The listener proves last:
 * a stranger that calls gets nothing to try keys on. Whether both sides are of one build is judged after the proofs,
 * except for the protocol itself: so a rank, and not any stranger, is who ends a job by being of another build.
 */
#ifndef LS_COMM_GREETING_IMPL_H
#define LS_COMM_GREETING_IMPL_H

#include "comm/socket_impl.h"

#include <poll.h>

enum { LS_GREETING_BYTES = 160, LS_GREETING_BUILD = 80 };

/* What a connection is for. */
typedef enum ls_greeting_purpose { LS_PURPOSE_RENDEZVOUS = 1, LS_PURPOSE_TCP } ls_greeting_purpose;

/* What a side says of itself, and whom it means. */
typedef struct ls_party {
    ls_greeting_purpose purpose;
    int rank, ranks;
    int peer;        /* the rank that it calls; a listener's becomes the rank that called */
    bool has_secret; /* its key comes from something that strangers do not know */
} ls_party;

/* Greetings on one connection. The connection stays the caller's, and is never closed here. */
typedef struct ls_greeting {
    int fd;
    ls_key key;
    bool listens;
    int step;
    size_t got; /* bytes of what is being received */
    uint8_t mine[LS_GREETING_BYTES], theirs[LS_GREETING_BYTES], proof[LS_SHA256_BYTES];
    bool heard;  /* `peer` is what the other side says, proven or not */
    bool proven; /* the other side has the key */
    bool done;   /* all is said, and both are of one build */
    ls_party me, peer;
} ls_greeting;

/* listens: this side has accepted the connection. LS_IO: the system gives no random bytes. */
ls_status ls_greeting_begin(ls_greeting *greeting, int fd, const ls_key *key, const ls_party *me, bool listens);
/*
 * Says and hears what can be without blocking; greeting->done says whether that is all. LS_PEER: the other side is
 * gone, is something else, or has another key. LS_INVALID: it is of another build (greeting->proven says whether it has
 * the key); the text names what differs on both sides.
 */
ls_status ls_greeting_advance(ls_greeting *greeting);
/* All of it; blocks, for the seconds of the patience altogether (LS_PEER), unless the notice aborts before. */
ls_status ls_greeting_run(ls_greeting *greeting, const ls_patience *patience, const char *what);

/* ---- the lobby of a listener (lobby.c) ---- */

/*
 * Connections that have been accepted and have not proved yet that they have the key. Each has LS_LOBBY_SECONDS for it;
 * there are `room` of them at most, and the oldest goes for a new one. Nobody in the lobby keeps anyone else waiting.
 */
typedef struct ls_lobby ls_lobby;
#define LS_LOBBY_SECONDS 5.0

/* Who has come out of a lobby. */
typedef struct ls_caller {
    int fd; /* the caller's to close; -1: nobody has come */
    ls_party party;
    ls_status build; /* LS_INVALID: it has the key, and is of another build */
} ls_caller;

/* The listener stays the caller's, and becomes one that does not block. `me` and `key` are copied. */
ls_status ls_lobby_open(int listener, const ls_key *key, const ls_party *me, int room, ls_lobby **out);
void ls_lobby_close(ls_lobby *lobby); /* NULL is allowed */
/* Entries of a poll for the listener and all in the lobby: at most 1 + room, which are filled in; their number. */
int ls_lobby_poll(const ls_lobby *lobby, struct pollfd *out);
/*
 * Accepts, goes on with the greetings, and sends away who is late or wrong; does not block. Called again and again
 * until caller.fd is -1. LS_IO: the listener has failed.
 */
ls_status ls_lobby_next(ls_lobby *lobby, ls_caller *out);
/* How many were sent away, and of the last one that said who it is, why; "": none. */
int ls_lobby_refused(const ls_lobby *lobby, const char **why);

#endif
