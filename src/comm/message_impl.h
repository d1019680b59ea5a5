/*
 * comm, for this folder alone: the head of a message on the host. What ranks gather, broadcast, reduce or exchange
 * begins with what it is, so that a rank which does something else than another learns of it before it uses a byte.
 */
#ifndef LS_COMM_MESSAGE_IMPL_H
#define LS_COMM_MESSAGE_IMPL_H

#include "comm/boot_impl.h"
#include "comm/comm.h"

enum { LS_MESSAGE_WHAT = 72 };

typedef struct ls_message_head {
    uint64_t number;            /* of the collective, as its sender counts; 0 where nobody counts */
    uint64_t bytes;             /* that follow, of one rank */
    uint64_t kind;              /* hash of the whole of `what` */
    char what[LS_MESSAGE_WHAT]; /* "exchange, step 12": as far as there is room */
} ls_message_head;

enum {
    /* From one value in the inbox of host collectives to the next (form.c); an offer begins with a rank. */
    LS_INBOX_VALUE = sizeof(ls_message_head) + LS_COMM_VALUE + 64
};

/* `what` may be longer than the room in the head. */
ls_message_head ls_message_head_of(uint64_t number, uint64_t bytes, const char *what);

/*
 * LS_INVALID unless the head that rank `peer` sent is that of the message which this rank expects; the text names both
 * ranks and what each of them does.
 */
ls_status ls_message_check(const ls_message_head *mine, int rank, const ls_message_head *theirs, int peer);

/*
 * For a launched rank, collective: all[r] becomes `mine` of rank r, as ls_boot_kind.gather does it, once the heads of
 * all ranks have been compared. Bytes that do not fit beside a head take a second gather.
 */
ls_status ls_boot_gather(ls_boot *boot, const char *what, const void *mine, size_t bytes, void *all);

#endif
