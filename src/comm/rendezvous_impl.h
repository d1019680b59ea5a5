/*
 * comm, for this folder alone: the rendezvous of launched ranks over TCP, for small values only. A server in the
 * process of rank 0 connects them all; every rank, rank 0 too, is a client of it.
 */
#ifndef LS_COMM_RENDEZVOUS_IMPL_H
#define LS_COMM_RENDEZVOUS_IMPL_H

#include "comm/comm_impl.h"
#include "comm/socket_impl.h"

/* Where ranks of one job meet. */
typedef struct ls_rendezvous_point {
    int rank, ranks;
    char host[256]; /* of rank 0, by name or address */
    int port;       /* or one of the next few, if that is taken */
    uint64_t job;   /* the same on all ranks of a job, and on no others */
    double seconds; /* in which all ranks must come */
} ls_rendezvous_point;

enum { LS_RENDEZVOUS_PORTS = 16 };

/* rendezvous.c: the client of a rank. `notice` is carried to and from the other ranks from then on. */
typedef struct ls_rendezvous ls_rendezvous;
ls_status ls_rendezvous_open(const ls_rendezvous_point *point, ls_notice *notice, ls_rendezvous **out);
/* LS_PEER, and an abort with the same text, when a rank does not come (ls_boot_check_missing). */
ls_status ls_rendezvous_gather(ls_rendezvous *rendezvous, const ls_boot *boot, const void *mine, size_t bytes,
                               void *all);
/* Says that the rank leaves. The server of rank 0 stays until all ranks have. */
void ls_rendezvous_close(ls_rendezvous *rendezvous);
/* The numeric address of this process as rank 0's host sees it. */
ls_status ls_rendezvous_own_address(const ls_rendezvous *rendezvous, char out[LS_ADDRESS]);

/* ---- between client and server ---- */

typedef enum ls_rendezvous_kind {
    LS_RENDEZVOUS_HELLO,  /* client: ls_rendezvous_hello; server: it is the right one */
    LS_RENDEZVOUS_COME,   /* server: all have come; or an abort with the reason */
    LS_RENDEZVOUS_GATHER, /* client: its value; server: the values of all ranks */
    LS_RENDEZVOUS_ASK,    /* client: whom does the gather miss? server: are you there? */
    LS_RENDEZVOUS_TELL,   /* server: ls_missing; client: yes */
    LS_RENDEZVOUS_ABORT,  /* both: a text */
    LS_RENDEZVOUS_STOP,   /* both */
    LS_RENDEZVOUS_LEAVE   /* client */
} ls_rendezvous_kind;

typedef struct ls_rendezvous_head {
    uint32_t kind, bytes; /* of what follows */
} ls_rendezvous_head;

typedef struct ls_rendezvous_hello {
    uint64_t job;
    int32_t rank, ranks;
} ls_rendezvous_hello;

/* rendezvous_server.c: listens, and serves in a thread. notice: that of rank 0, which learns there of an abort. */
typedef struct ls_rendezvous_server ls_rendezvous_server;
ls_status ls_rendezvous_server_start(const ls_rendezvous_point *point, ls_notice *notice, ls_rendezvous_server **out);
/* Returns when all ranks have left or are gone, and at the latest after `seconds`. NULL is allowed. */
void ls_rendezvous_server_end(ls_rendezvous_server *server, double seconds);

#endif
