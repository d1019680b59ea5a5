/*
 * comm, for the transport tcp alone: the messages on a connection, and the receiving side.
 *
 * A rank connects to each peer. What it sends goes over the connection that it has made, and the peer's receiver
 * answers on the same connection. Two ranks therefore have two connections. Greetings have compared builds, so messages
 * are structs as they lie in memory. Both sides check every number in them before they use it.
 */
#ifndef LS_COMM_TCP_IMPL_H
#define LS_COMM_TCP_IMPL_H

#include "comm/socket_impl.h"
#include "comm/transport_impl.h"

typedef enum ls_tcp_kind {
    LS_TCP_PUT,   /* the payload follows; the signal takes effect after it */
    LS_TCP_PIECE, /* the payload follows; the signal of the word comes later, in its own message. Word -1: there is no
                     signal */
    LS_TCP_SIGNAL,
    LS_TCP_ASK,   /* an answer is wanted */
    LS_TCP_FLUSH, /* an answer is wanted when everything sent before is complete */
    LS_TCP_LEAVE, /* the sender has left; nothing follows */
    LS_TCP_KINDS
} ls_tcp_kind;

typedef struct ls_tcp_head {
    int32_t kind, word;
    uint64_t generation;
    ls_range to; /* of a put: the target, in the heap or inbox */
} ls_tcp_head;

typedef struct ls_tcp_answer {
    int32_t kind; /* the kind of the message that this answers */
    int32_t waits_for;
    uint64_t ticks;
} ls_tcp_answer;

/* Connections of a rank with its peers. */
typedef struct ls_tcp_connections {
    int *calls, *called; /* [ranks] the connections made by this rank, and those made by its peers; -1: none yet */
} ls_tcp_connections;
/*
 * tcp_connect.c: collective. Connects with each rank r for which used[r], in both directions; before the call there are
 * no connections. The caller closes the connections, also after a failure.
 */
ls_status ls_tcp_connect(const ls_endpoint *end, const bool *used, const ls_tcp_connections *out);

/* tcp_receive.c: the thread of a rank that receives from all peers. */
typedef struct ls_tcp_receiver ls_tcp_receiver;
/*
 * fds[r]: the connection that rank r made; -1: none. The receiver owns the connections from then on, also after a
 * failure.
 */
ls_status ls_tcp_receiver_open(const ls_endpoint *end, const int *fds, ls_tcp_receiver **out);
ls_status ls_tcp_receiver_start(ls_tcp_receiver *receiver); /* starts its thread */
/* What the thread repeats: waits for messages, and takes them. False: the receiver must end. */
bool ls_tcp_receiver_step(ls_tcp_receiver *receiver);
void ls_tcp_receiver_end(ls_tcp_receiver *receiver); /* NULL is allowed */
/* Whether the peer has said that it left; whether its connection ended before that. */
bool ls_tcp_has_left(const ls_tcp_receiver *receiver, int peer);
bool ls_tcp_is_lost(const ls_tcp_receiver *receiver, int peer);

#endif
