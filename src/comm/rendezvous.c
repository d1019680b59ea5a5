/*
 * A rank's side of a rendezvous. The rank finds the server; then one thread receives the server's messages, and sends
 * the server what is set in the rank's notice.
 */
#include "comm/rendezvous_impl.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLICE_MILLISECONDS 50
#define COME_SECONDS 5.0 /* how long after its deadline the server may still report that not all have come */
#define ABORTED_SERVER_STAYS_SECONDS 1.0
#define SERVER_STAYS_SECONDS 10.0 /* how long rank 0 waits for the others to leave */

struct ls_rendezvous {
    ls_rendezvous_point point;
    ls_notice *notice;
    ls_rendezvous_server *server; /* of rank 0 only */
    int fd;
    pthread_t thread;
    ls_rendezvous_message message; /* the message being received; used by the thread only */
    pthread_mutex_t lock;          /* protects all fields below, and sending */
    pthread_cond_t changed;
    bool leaving, broken;
    bool told_abort, told_stop; /* the server has been told */
    uint64_t gathers;           /* so far */
    size_t awaited;             /* bytes of the values of the gather under way; 0: none is under way */
    char *values;               /* the values of the gather under way, once they have come; else NULL */
    ls_missing missing;         /* what the server last said about the gather in which this rank waits */
    double silent;              /* seconds since it said so */
};

/* A message that could not be sent completely ends the connection; the server and the thread then find it closed. */
static ls_status send_to_server(const ls_rendezvous *r, ls_rendezvous_kind kind, const void *bytes, size_t n) {
    const uint64_t number = kind == LS_RENDEZVOUS_GATHER ? r->gathers : 0;
    const ls_status status = ls_rendezvous_send(r->fd, kind, number, bytes, n, "rank 0 to listen");
    if (status.code != LS_OK) (void)shutdown(r->fd, SHUT_RDWR);
    return status;
}

static void set_abort_limits(ls_rendezvous_limits *limits) {
    for (int kind = 0; kind < LS_RENDEZVOUS_KINDS; kind++) limits->most[kind] = UINT32_MAX;
    limits->most[LS_RENDEZVOUS_ABORT] = sizeof((ls_status){0}.text) - 1;
}

/* Waits until the server says that all ranks have come, or why not. */
static ls_status await_all(ls_rendezvous *r) {
    const ls_patience most = {.seconds = r->point.seconds + COME_SECONDS};
    const double began = ls_seconds();
    ls_rendezvous_limits limits;
    set_abort_limits(&limits);
    limits.most[LS_RENDEZVOUS_COME] = 0;
    for (bool whole = false; !whole;) {
        LS_TRY(ls_socket_await(r->fd, POLLIN, &most, began, "rank 0 to say that all ranks have come"));
        LS_TRY(ls_error_in(ls_rendezvous_receive(r->fd, &limits, &r->message, &whole), "rank 0"));
    }
    const ls_status status = r->message.head.kind == LS_RENDEZVOUS_COME
                                 ? ls_ok()
                                 : ls_error(LS_INVALID, "%s", ls_rendezvous_text(&r->message));
    ls_rendezvous_forget(&r->message);
    return status;
}

/* Connects to the server, which may be in this process or another. */
static ls_status meet(ls_rendezvous *r) {
    if (r->point.rank == 0)
        LS_TRY(ls_rendezvous_server_start(&r->point, r->notice, &r->server, &r->fd));
    else
        LS_TRY(ls_rendezvous_search(&r->point, &r->fd));
    return await_all(r);
}

/* ---- the thread ---- */

/* Tells the server of an abort and of a stop, once each. */
static void tell_notice(ls_rendezvous *r) {
    const ls_status aborted = ls_notice_aborted(r->notice);
    ls_status sent = ls_ok();
    if (aborted.code != LS_OK && !r->told_abort) {
        r->told_abort = true;
        sent = send_to_server(r, LS_RENDEZVOUS_ABORT, aborted.text, strlen(aborted.text));
    }
    if (sent.code == LS_OK && atomic_load(&r->notice->stop) && !r->told_stop) {
        r->told_stop = true;
        sent = send_to_server(r, LS_RENDEZVOUS_STOP, NULL, 0);
    }
    (void)sent; /* receiving will show it if the server is gone */
}

/* LS_INVALID: the message is not the values that this rank waits for. */
static ls_status take_values(ls_rendezvous *r) {
    ls_rendezvous_message *m = &r->message;
    if (r->awaited == 0 || r->values != NULL || m->head.bytes != r->awaited || m->head.number != r->gathers)
        return ls_error(LS_INVALID, "rank 0 sends %u bytes of gather %llu; expected %zu of gather %llu", m->head.bytes,
                        (unsigned long long)m->head.number, r->awaited, (unsigned long long)r->gathers);
    r->values = m->bytes;
    m->bytes = NULL;
    return ls_ok();
}

static ls_status take_missing(ls_rendezvous *r) {
    ls_missing missing;
    if (r->message.head.bytes == sizeof missing) {
        memcpy(&missing, r->message.bytes, sizeof missing);
        if (missing.rank >= -1 && missing.rank < r->point.ranks && missing.silent >= 0) {
            r->missing = missing;
            r->silent = 0;
            return ls_ok();
        }
    }
    return ls_error(LS_INVALID, "rank 0 names a missing rank that does not exist; expected one of %d", r->point.ranks);
}

/* Handles a message that has come completely. */
static ls_status take_message(ls_rendezvous *r) {
    switch (r->message.head.kind) {
    case LS_RENDEZVOUS_GATHER:
        return take_values(r);
    case LS_RENDEZVOUS_TELL:
        return take_missing(r);
    case LS_RENDEZVOUS_ASK:
        return send_to_server(r, LS_RENDEZVOUS_TELL, NULL, 0);
    case LS_RENDEZVOUS_STOP:
        r->told_stop = true;
        atomic_store(&r->notice->stop, true);
        return ls_ok();
    default: /* LS_RENDEZVOUS_ABORT */
        r->told_abort = true;
        (void)ls_notice_abort(r->notice, ls_rendezvous_text(&r->message));
        return ls_ok();
    }
}

/*
 * Reports that a call on the connection to rank 0 has failed. No other process knows why, and ls_log may be silenced
 * here, because rank 0 prints for all. In rank 0's own process the failure is reported at the end.
 */
static void report_failed_call(const ls_rendezvous *r, const ls_status *status) {
    const ls_status why = ls_error_in(*status, "rank %d", r->point.rank);
    if (ls_notice_abort(r->notice, why.text) && r->point.rank != 0) fprintf(stderr, "longspan: %s\n", why.text);
}

/* The server's process has ended, or a call on the connection has failed. */
static void lose_server(ls_rendezvous *r, const ls_status *how) {
    r->broken = true;
    if (r->leaving) return;
    if (how->code != LS_PEER)
        report_failed_call(r, how);
    else if (ls_notice_abort(r->notice, "rank 0 ended before its work was done"))
        atomic_store(&r->notice->first_lost, true);
}

/* Receives what has come, and handles it once it is a complete message. Under the lock; does not block. */
static ls_status receive(ls_rendezvous *r) {
    ls_rendezvous_limits limits;
    bool whole = false;
    set_abort_limits(&limits);
    limits.most[LS_RENDEZVOUS_GATHER] = r->awaited > 0 ? (uint32_t)r->awaited : UINT32_MAX;
    limits.most[LS_RENDEZVOUS_ASK] = limits.most[LS_RENDEZVOUS_STOP] = 0;
    limits.most[LS_RENDEZVOUS_TELL] = sizeof r->missing;
    LS_TRY(ls_error_in(ls_rendezvous_receive(r->fd, &limits, &r->message, &whole), "rank 0"));
    if (!whole) return ls_ok();
    const ls_status status = take_message(r);
    ls_rendezvous_forget(&r->message);
    return status;
}

static void *thread_main(void *argument) {
    ls_rendezvous *r = argument;
    for (;;) {
        struct pollfd one = {.fd = r->fd, .events = POLLIN};
        const int n = poll(&one, 1, SLICE_MILLISECONDS);
        const int error = n < 0 && errno != EINTR ? errno : 0;
        pthread_mutex_lock(&r->lock);
        ls_status came = n > 0 ? receive(r) : ls_ok();
        if (error != 0) came = ls_error(LS_IO, "connection to rank 0: poll: %s", strerror(error));
        if (came.code != LS_OK) lose_server(r, &came);
        if (!r->broken) tell_notice(r);
        pthread_cond_broadcast(&r->changed); /* a waiting gather reads the notice, too */
        const bool ends = r->leaving || r->broken;
        pthread_mutex_unlock(&r->lock);
        if (ends) return NULL;
    }
}

/* ---- the interface ---- */

ls_status ls_rendezvous_open(const ls_rendezvous_point *point, ls_notice *notice, ls_rendezvous **out) {
    ls_rendezvous *r = calloc(1, sizeof *r);
    if (r == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes to meet the other ranks", sizeof *r);
    *r = (ls_rendezvous){.point = *point, .notice = notice, .fd = -1};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    ls_status status = meet(r);
    const int error = status.code == LS_OK ? pthread_create(&r->thread, NULL, thread_main, r) : 0;
    if (error != 0)
        status =
            ls_error(LS_NO_MEMORY, "rank %d cannot start the thread that meets the other ranks: pthread_create: %s",
                     point->rank, strerror(error));
    if (status.code == LS_OK) {
        *out = r;
        return status;
    }
    ls_rendezvous_server_end(r->server, 1);
    if (r->fd >= 0) (void)close(r->fd);
    ls_rendezvous_forget(&r->message);
    free(r);
    return status;
}

/* LS_PEER if nothing can be received any more. */
static ls_status check_connection(const ls_rendezvous *r) {
    LS_TRY(ls_notice_aborted(r->notice));
    return r->broken ? ls_error(LS_PEER, "the connection to rank 0 is lost") : ls_ok();
}

/*
 * LS_PEER if this rank has waited too long for the ranks that the server reports missing, or for an answer of the
 * server.
 */
static ls_status check_missing(const ls_rendezvous *r, const ls_boot *boot, double waited) {
    const ls_missing server = {.rank = 0, .silent = r->silent};
    LS_TRY(ls_boot_check_missing(boot, &server, 0, r->point.seconds));
    return ls_boot_check_missing(boot, &r->missing, waited, r->point.seconds);
}

/* Waits for the values of all ranks. Under the lock; the thread signals `changed` at least once in each time slice. */
static ls_status await_values(ls_rendezvous *r, const ls_boot *boot) {
    double waited = 0, asked = 0, looked = ls_seconds();
    r->silent = 0;
    r->missing = LS_NOBODY_MISSING;
    while (r->values == NULL) {
        LS_TRY(check_connection(r));
        LS_TRY(check_missing(r, boot, waited));
        if (waited - asked > LS_ASK_SECONDS) {
            LS_TRY(send_to_server(r, LS_RENDEZVOUS_ASK, NULL, 0));
            asked = waited;
        }
        pthread_cond_wait(&r->changed, &r->lock);
        const double now = ls_seconds(), passed = ls_boot_counted(now - looked);
        waited += passed;
        r->silent += passed;
        looked = now;
    }
    return ls_ok();
}

/* One gather at a time: the values of the next one can come only after this rank has sent its own. */
ls_status ls_rendezvous_gather(ls_rendezvous *r, const ls_boot *boot, const void *mine, size_t bytes, void *all) {
    pthread_mutex_lock(&r->lock);
    ls_status status = check_connection(r);
    r->gathers++;
    r->awaited = bytes * (size_t)r->point.ranks;
    if (status.code == LS_OK) status = send_to_server(r, LS_RENDEZVOUS_GATHER, mine, bytes);
    if (status.code == LS_OK) status = await_values(r, boot);
    if (status.code == LS_OK) memcpy(all, r->values, r->awaited);
    free(r->values);
    r->values = NULL;
    r->awaited = 0;
    const ls_status told = ls_notice_aborted(r->notice);
    if (status.code == LS_PEER && told.code != LS_OK) status = told; /* the text of the abort says more */
    /* This rank has lost count of the gathers, and the others would wait for it. */
    if (status.code == LS_PEER)
        (void)ls_notice_abort(r->notice, status.text);
    else if (status.code != LS_OK)
        report_failed_call(r, &status);
    pthread_mutex_unlock(&r->lock);
    return status;
}

void ls_rendezvous_close(ls_rendezvous *r) {
    pthread_mutex_lock(&r->lock);
    r->leaving = true;
    if (!r->broken) {
        tell_notice(r);
        const ls_status sent = send_to_server(r, LS_RENDEZVOUS_LEAVE, NULL, 0);
        if (sent.code != LS_OK) report_failed_call(r, &sent);
    }
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    (void)close(r->fd);
    /* After an abort rank 0 waits for less time, because a rank that is stopped does not hear of the abort. */
    const bool aborted = ls_notice_aborted(r->notice).code != LS_OK;
    ls_rendezvous_server_end(r->server, aborted ? ABORTED_SERVER_STAYS_SECONDS : SERVER_STAYS_SECONDS);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    free(r->values);
    ls_rendezvous_forget(&r->message);
    free(r);
}

ls_status ls_rendezvous_own_address(const ls_rendezvous *r, char out[LS_ADDRESS]) {
    if (r->server == NULL) return ls_socket_own_address(r->fd, out);
    ls_rendezvous_server_address(r->server, out);
    return ls_ok();
}
