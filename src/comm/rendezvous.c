/*
 * A rank's side of a rendezvous: it finds the server, and then one thread receives for it, and carries what is set in
 * the rank's notice to the server.
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
#define RETRY_MICROSECONDS 50000
#define ANSWER_SECONDS 5.0 /* a server that has not answered after this time is another one */
#define ABORTED_SERVER_STAYS_SECONDS 1.0
#define SERVER_STAYS_SECONDS 10.0 /* rank 0 waits so long for the others to leave */

struct ls_rendezvous {
    ls_rendezvous_point point;
    ls_notice *notice;
    ls_rendezvous_server *server; /* of rank 0 */
    int fd;
    pthread_t thread;
    pthread_mutex_t lock; /* for all that follows, and for sending */
    pthread_cond_t changed;
    bool leaving, broken;
    bool told_abort, told_stop; /* the server knows */
    char *values;               /* of the gather that has come last; NULL: none */
    size_t bytes;
    ls_missing missing; /* what the server said last of the gather that this rank waits in */
    double silent;      /* seconds since it said so */
};

static const ls_patience patience = {.seconds = 10};

/* What could not be sent as a whole ends the connection: the server and the thread find that it is closed. */
static ls_status send_to_server(const ls_rendezvous *r, ls_rendezvous_kind kind, const void *bytes, size_t n) {
    const ls_rendezvous_head head = {kind, (uint32_t)n};
    ls_status status = ls_socket_send(r->fd, &head, sizeof head, &patience, "rank 0 to listen");
    if (status.code == LS_OK) status = ls_socket_send(r->fd, bytes, n, &patience, "rank 0 to listen");
    if (status.code != LS_OK) (void)shutdown(r->fd, SHUT_RDWR);
    return status;
}

/* ---- finding the server ---- */

/* Receives a message that is expected, or the text of an abort, which becomes the status. */
static ls_status receive_answer(int fd, ls_rendezvous_kind expected, double seconds) {
    const ls_patience most_time = {.seconds = seconds}, *most = &most_time;
    ls_rendezvous_head head;
    char text[sizeof((ls_status){0}.text)];
    LS_TRY(ls_socket_receive(fd, &head, sizeof head, most, "all ranks to come"));
    if (head.kind == expected && head.bytes == 0) return ls_ok();
    if (head.kind != LS_RENDEZVOUS_ABORT || head.bytes >= sizeof text)
        return ls_error(LS_PEER, "what answers there is not rank 0");
    LS_TRY(ls_socket_receive(fd, text, head.bytes, most, "all ranks to come"));
    text[head.bytes] = 0;
    return ls_error(LS_INVALID, "%s", text);
}

/*
 * Greets whoever listens at a port. LS_PEER: nobody does, or somebody else, who closes the connection or never answers;
 * then the next port may be right.
 */
static ls_status greet(const ls_rendezvous_point *m, int port, int *fd) {
    const struct {
        ls_rendezvous_head head;
        ls_rendezvous_hello hello;
    } message = {{LS_RENDEZVOUS_HELLO, sizeof message.hello}, {m->job, m->rank, m->ranks}};
    int made;
    const ls_status connected = ls_socket_connect(m->host, port, &made);
    if (connected.code != LS_OK) return ls_error(LS_PEER, "%s", connected.text);
    ls_status status = ls_socket_send(made, &message, sizeof message, &patience, "rank 0 to listen");
    if (status.code == LS_OK) status = receive_answer(made, LS_RENDEZVOUS_HELLO, ANSWER_SECONDS);
    if (status.code == LS_OK) status = receive_answer(made, LS_RENDEZVOUS_COME, m->seconds + ANSWER_SECONDS);
    if (status.code == LS_OK)
        *fd = made;
    else
        (void)close(made);
    return status;
}

/* Tries all ports in turn until the time is over: rank 0 may come late. */
static ls_status find_server(ls_rendezvous *r) {
    const ls_rendezvous_point *m = &r->point;
    const double began = ls_seconds();
    ls_status status;
    do {
        for (int i = 0; i < LS_RENDEZVOUS_PORTS; i++) {
            status = greet(m, m->port + i, &r->fd);
            if (status.code != LS_PEER) return status;
        }
        usleep(RETRY_MICROSECONDS);
    } while (ls_seconds() - began < m->seconds);
    return ls_error_in(status, "rank %d of %d waited %.3g s for rank 0 at %s, port %d", m->rank, m->ranks, m->seconds,
                       m->host, m->port);
}

/* ---- the thread ---- */

/* Carries abort and stop to the server, once each. */
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
    (void)sent; /* a server that is gone is found when it is received from */
}

static void take_message(ls_rendezvous *r, const ls_rendezvous_head *head, char *bytes) {
    if (head->kind == LS_RENDEZVOUS_ABORT) {
        r->told_abort = true;
        (void)ls_notice_abort(r->notice, bytes);
    }
    if (head->kind == LS_RENDEZVOUS_STOP) {
        r->told_stop = true;
        atomic_store(&r->notice->stop, true);
    }
    if (head->kind == LS_RENDEZVOUS_ASK) {
        const ls_status sent = send_to_server(r, LS_RENDEZVOUS_TELL, NULL, 0);
        (void)sent; /* a server that is gone is found when it is received from */
    }
    if (head->kind == LS_RENDEZVOUS_TELL && head->bytes == sizeof r->missing) {
        memcpy(&r->missing, bytes, sizeof r->missing);
        r->silent = 0;
    }
    if (head->kind == LS_RENDEZVOUS_GATHER) {
        r->values = bytes;
        r->bytes = head->bytes;
    } else {
        free(bytes);
    }
}

/*
 * A call on the connection to rank 0 has failed. Nobody else can say why, and this rank's log may be silent, because
 * rank 0 speaks for all: in its own process that is done at the end.
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

/* Receives a message as a whole; the caller frees *bytes, which end with a zero. */
static ls_status receive_message(const ls_rendezvous *r, ls_rendezvous_head *head, char **bytes) {
    LS_TRY(ls_socket_receive(r->fd, head, sizeof *head, &patience, "rank 0"));
    char *room = calloc(1, (size_t)head->bytes + 1);
    if (room == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate a message of %u bytes", head->bytes);
    const ls_status status = ls_socket_receive(r->fd, room, head->bytes, &patience, "rank 0");
    if (status.code == LS_OK)
        *bytes = room;
    else
        free(room);
    return status;
}

static void *thread_main(void *argument) {
    ls_rendezvous *r = argument;
    for (;;) {
        struct pollfd one = {.fd = r->fd, .events = POLLIN};
        const int n = poll(&one, 1, SLICE_MILLISECONDS);
        ls_rendezvous_head head;
        char *bytes;
        const ls_status came = n > 0 ? receive_message(r, &head, &bytes) : ls_ok();
        pthread_mutex_lock(&r->lock);
        if (came.code != LS_OK)
            lose_server(r, &came);
        else if (n > 0)
            take_message(r, &head, bytes);
        if (!r->broken) tell_notice(r);
        pthread_cond_broadcast(&r->changed); /* a gather looks at the notice, too */
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
    ls_status status = point->rank == 0 ? ls_rendezvous_server_start(point, notice, &r->server) : ls_ok();
    if (status.code == LS_OK) status = find_server(r);
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
    free(r);
    return status;
}

/* LS_PEER when nothing can come any more. */
static ls_status check_connection(const ls_rendezvous *r) {
    LS_TRY(ls_notice_aborted(r->notice));
    return r->broken ? ls_error(LS_PEER, "the connection to rank 0 is lost") : ls_ok();
}

/* LS_PEER when this rank has waited for too long: for those that the server misses, or for an answer of the server. */
static ls_status check_missing(const ls_rendezvous *r, const ls_boot *boot, double waited) {
    const ls_missing server = {.rank = 0, .silent = r->silent};
    LS_TRY(ls_boot_check_missing(boot, &server, 0, r->point.seconds));
    return ls_boot_check_missing(boot, &r->missing, waited, r->point.seconds);
}

/* Waits for the values of all. Under the lock; the thread signals at least once in a slice. */
static ls_status await_values(ls_rendezvous *r, const ls_boot *boot) {
    double waited = 0, asked = 0, looked = ls_seconds();
    r->silent = 0;
    r->missing = (ls_missing){.rank = -1};
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

/* One gather at a time: the values of the next can only come when this rank has sent its own. */
ls_status ls_rendezvous_gather(ls_rendezvous *r, const ls_boot *boot, const void *mine, size_t bytes, void *all) {
    pthread_mutex_lock(&r->lock);
    ls_status status = check_connection(r);
    if (status.code == LS_OK) status = send_to_server(r, LS_RENDEZVOUS_GATHER, mine, bytes);
    if (status.code == LS_OK) status = await_values(r, boot);
    if (status.code == LS_OK) memcpy(all, r->values, r->bytes);
    free(r->values);
    r->values = NULL;
    const ls_status told = ls_notice_aborted(r->notice);
    if (status.code == LS_PEER && told.code != LS_OK) status = told; /* it says more than that a connection is lost */
    /* The others would wait for this rank, which has lost count of the gathers. */
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
    /* A rank that is stopped does not hear of an abort. */
    const bool aborted = ls_notice_aborted(r->notice).code != LS_OK;
    ls_rendezvous_server_end(r->server, aborted ? ABORTED_SERVER_STAYS_SECONDS : SERVER_STAYS_SECONDS);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    free(r->values);
    free(r);
}

ls_status ls_rendezvous_own_address(const ls_rendezvous *r, char out[LS_ADDRESS]) {
    return ls_socket_own_address(r->fd, out);
}
