/*
 * comm, for this folder alone: the rendezvous of launched ranks over TCP, for small values only. A server in the
 * process of rank 0 connects all ranks. Every rank is a client of the server; rank 0 is one over a pair of sockets that
 * no other process can reach.
 */
#ifndef LS_COMM_RENDEZVOUS_IMPL_H
#define LS_COMM_RENDEZVOUS_IMPL_H

#include "comm/comm_impl.h"
#include "comm/greeting_impl.h"

/* Where ranks of one job meet. */
typedef struct ls_rendezvous_point {
    int rank, ranks;
    char host[256];  /* of rank 0, by name or address */
    bool all_here;   /* all ranks are on this host, and `host` is one of its loopback addresses */
    int port;        /* of the server, or one of the next few ports if this one is taken */
    double seconds;  /* within which all ranks must come */
    ls_key key;      /* of the job: the same on all its ranks */
    bool has_secret; /* the key is made of a secret; false: of the job's name, which is no secret */
} ls_rendezvous_point;

enum { LS_RENDEZVOUS_PORTS = 16 };

/* ---- the key of a job (secret.c) ---- */

/*
 * Sets point->key and has_secret. The key is made of LONGSPAN_SECRET or of the file that LONGSPAN_SECRET_FILE names; if
 * that file does not exist, rank 0 makes it while the others wait for it. Without these variables, if all ranks are on
 * this host, the key is made of a file in the user's cache folder, which the first rank makes; otherwise of the job's
 * name alone. LS_USAGE: a wrong variable. LS_INVALID: other users may read the file.
 */
ls_status ls_secret_find(const char *job, ls_rendezvous_point *point);

/* ---- looking for the server (rendezvous_search.c) ---- */

/*
 * Connects to the server of rank 0 and greets it: at all addresses of the host and all ports at once, repeatedly until
 * one has proved that it has the key. Listeners that are silent or are something else do not keep this rank from the
 * right one. If this takes long, messages say whom this rank waits for. LS_PEER: none has proved it in time.
 * LS_INVALID: the server is of another build.
 */
ls_status ls_rendezvous_search(const ls_rendezvous_point *point, int *fd);
/*
 * For a rank 0 that did not get the first port: whether another process that is rank 0 of a job with the same key
 * listens at one of the first `ports` ports.
 */
bool ls_rendezvous_is_twice(const ls_rendezvous_point *point, int ports);

/* ---- the client of a rank (rendezvous.c) ---- */

/* From then on, what is set in `notice` is carried to the other ranks, and from them to it. */
typedef struct ls_rendezvous ls_rendezvous;
ls_status ls_rendezvous_open(const ls_rendezvous_point *point, ls_notice *notice, ls_rendezvous **out);
/* LS_PEER, and an abort with the same text, if a rank does not come (ls_boot_check_missing). */
ls_status ls_rendezvous_gather(ls_rendezvous *rendezvous, const ls_boot *boot, const void *mine, size_t bytes,
                               void *all);
/* Tells the server that the rank leaves. The server of rank 0 runs until all ranks have left. */
void ls_rendezvous_close(ls_rendezvous *rendezvous);
/* The numeric address at which the other ranks reach this process. */
ls_status ls_rendezvous_own_address(const ls_rendezvous *rendezvous, char out[LS_ADDRESS]);

/* ---- between client and server (rendezvous_message.c) ---- */

typedef enum ls_rendezvous_kind {
    LS_RENDEZVOUS_COME,   /* server: all ranks have come (LS_RENDEZVOUS_ABORT with the reason if not) */
    LS_RENDEZVOUS_GATHER, /* client: its value; server: all values. With the number of the gather, counted from 1 */
    LS_RENDEZVOUS_ASK,    /* client: which ranks does the gather miss? server: are you there? */
    LS_RENDEZVOUS_TELL,   /* the answer. server: ls_missing; client: yes */
    LS_RENDEZVOUS_ABORT,  /* both: a text */
    LS_RENDEZVOUS_STOP,   /* both */
    LS_RENDEZVOUS_LEAVE,  /* client */
    LS_RENDEZVOUS_KINDS
} ls_rendezvous_kind;

typedef struct ls_rendezvous_head {
    uint32_t kind, bytes; /* of what follows */
    uint64_t number;      /* of a gather; else 0 */
} ls_rendezvous_head;

/* A message that is being received piece by piece. */
typedef struct ls_rendezvous_message {
    ls_rendezvous_head head;
    size_t got;  /* bytes of the head and of what follows */
    char *bytes; /* what follows the head, and a zero byte; NULL until the head has come and is checked */
} ls_rendezvous_message;

/* The most bytes that may follow the head of each kind; UINT32_MAX: the kind may not come at all. */
typedef struct ls_rendezvous_limits {
    uint32_t most[LS_RENDEZVOUS_KINDS];
} ls_rendezvous_limits;

ls_status ls_rendezvous_send(int fd, ls_rendezvous_kind kind, uint64_t number, const void *bytes, size_t n,
                             const char *what);
/*
 * Receives what has come of a message, without waiting for more; *whole: the message is complete. Memory is allocated
 * only for a length that the limits allow. LS_PEER: the other side has closed the connection; LS_INVALID: the message
 * is not allowed.
 */
ls_status ls_rendezvous_receive(int fd, const ls_rendezvous_limits *limits, ls_rendezvous_message *message,
                                bool *whole);
void ls_rendezvous_forget(ls_rendezvous_message *message);            /* to receive the next one */
const char *ls_rendezvous_text(const ls_rendezvous_message *message); /* of a complete abort message; never empty */

/* ---- the server (rendezvous_server.c) ---- */

/*
 * Listens where the other ranks can connect, and serves in a thread. notice: of rank 0; an abort is set in it. *own:
 * rank 0's end of its connection, which the caller closes.
 */
typedef struct ls_rendezvous_server ls_rendezvous_server;
ls_status ls_rendezvous_server_start(const ls_rendezvous_point *point, ls_notice *notice, ls_rendezvous_server **out,
                                     int *own);
/* The address at which other hosts reach this one. To be called after all ranks have come. */
void ls_rendezvous_server_address(const ls_rendezvous_server *server, char out[LS_ADDRESS]);
/* Returns when all ranks have left or are gone, and at the latest after `seconds`. NULL is allowed. */
void ls_rendezvous_server_end(ls_rendezvous_server *server, double seconds);

#endif
