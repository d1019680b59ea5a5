/*
 * comm, for the transport tcp alone: what goes over a connection, and the receiving side.
 *
 * A rank connects to each peer: what it sends goes on its own connection, and the peer's receiver answers on the same.
 * Two ranks therefore have two connections. Greetings have compared builds, so messages are structs as they lie in
 * memory. Both sides check every number in them before they use it.
 */
#ifndef LS_COMM_TCP_IMPL_H
#define LS_COMM_TCP_IMPL_H

#include "comm/socket_impl.h"
#include "comm/transport_impl.h"

typedef enum ls_tcp_kind {
    LS_TCP_PUT,   /* the payload follows, and then the signal */
    LS_TCP_PIECE, /* the payload follows; the signal of this word comes later, by itself. Word -1: there is none */
    LS_TCP_SIGNAL,
    LS_TCP_ASK,   /* an answer is wanted */
    LS_TCP_FLUSH, /* an answer is wanted: all that was sent before is complete */
    LS_TCP_LEAVE, /* the sender has left; nothing follows */
    LS_TCP_KINDS
} ls_tcp_kind;

typedef struct ls_tcp_head {
    int32_t kind, word;
    uint64_t generation;
    ls_range to; /* of a put: in the heap or inbox */
} ls_tcp_head;

typedef struct ls_tcp_answer {
    int32_t kind; /* of the message that it answers */
    int32_t waits_for;
    uint64_t ticks;
} ls_tcp_answer;

/* Connections of a rank with its peers. */
typedef struct ls_tcp_connections {
    int *calls, *called; /* [ranks] those that this rank has made, and those of the peers; -1: none yet */
} ls_tcp_connections;
/*
 * tcp_connect.c: collective. Connects with rank r, in both directions, where used[r]; there are no connections before.
 * They are the caller's to close, also when this fails.
 */
ls_status ls_tcp_connect(const ls_endpoint *end, const bool *used, const ls_tcp_connections *out);

/* tcp_receive.c: the thread of a rank that receives from all peers. */
typedef struct ls_tcp_receiver ls_tcp_receiver;
/* fds[r]: the connection that rank r made, -1: none. The receiver owns them from then on, also when this fails. */
ls_status ls_tcp_receiver_open(const ls_endpoint *end, const int *fds, ls_tcp_receiver **out);
ls_status ls_tcp_receiver_start(ls_tcp_receiver *receiver); /* its thread */
/* What the thread does again and again: waits for messages, and takes them. False: the receiver is to end. */
bool ls_tcp_receiver_step(ls_tcp_receiver *receiver);
void ls_tcp_receiver_end(ls_tcp_receiver *receiver); /* NULL is allowed */
/* Whether the peer has said that it left; whether its connection ended before. */
bool ls_tcp_has_left(const ls_tcp_receiver *receiver, int peer);
bool ls_tcp_is_lost(const ls_tcp_receiver *receiver, int peer);

#endif
