/*
 * comm, for this folder alone: the head of a message on the host. Everything that ranks gather, broadcast, reduce or
 * exchange begins with a head that says what it is, so that a rank which is doing something else than its peer notices
 * that before it uses a byte of the message.
 */
#ifndef LS_COMM_MESSAGE_IMPL_H
#define LS_COMM_MESSAGE_IMPL_H

#include "comm/boot_impl.h"
#include "comm/comm.h"

enum { LS_MESSAGE_WHAT = 72 };

typedef struct ls_message_head {
    uint64_t number;            /* of the collective, as the sender counts them; 0 where they are not counted */
    uint64_t bytes;             /* of one rank, that follow */
    uint64_t kind;              /* hash of the uncut text of `what` */
    char what[LS_MESSAGE_WHAT]; /* "exchange, step 12", cut if there is no room */
} ls_message_head;

enum {
    /* The distance between two values in the inbox of host collectives (form.c); an offer begins with a rank. */
    LS_INBOX_VALUE = sizeof(ls_message_head) + LS_COMM_VALUE + 64
};

/* `what` may be longer than the room in the head. */
ls_message_head ls_message_head_of(uint64_t number, uint64_t bytes, const char *what);

/*
 * LS_INVALID unless the head that rank `peer` sent is the head of the message that this rank expects; the text names
 * both ranks and what each of them is doing.
 */
ls_status ls_message_check(const ls_message_head *mine, int rank, const ls_message_head *theirs, int peer);

/*
 * For a launched rank, collective: all[r] becomes `mine` of rank r, as with ls_boot_kind.gather, after the heads of all
 * ranks have been compared. A value that does not fit in one gather together with its head takes a second gather.
 */
ls_status ls_boot_gather(ls_boot *boot, const char *what, const void *mine, size_t bytes, void *all);

#endif
