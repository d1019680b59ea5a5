/*
 * The server of a rendezvous: one thread in the process of rank 0. A new connection stays in a lobby until its other
 * side has proved that it has the key of the job; connections there do not wait for each other. The server passes on
 * what ranks send. If the connection of a rank ends before the rank has said that it leaves, the server tells all
 * others that this rank is dead.
 */
#include "comm/rendezvous_impl.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLICE_MILLISECONDS = 50, STRANGERS = 64, OTHER_FILES = 128 };
#define FIRST_WORD_SECONDS 5.0 /* until a message says which ranks are missing; twice as long for the next */

typedef struct client {
    int fd;       /* -1: the rank has not come, or is gone */
    bool gathers; /* its value of the gather under way is there */
    bool left;
    double asked; /* the clock when the rank was asked whether it is there, if it has not answered yet; else 0 */
    ls_rendezvous_message message; /* the message being received */
    ls_status failed;              /* why a call on its connection failed */
} client;

struct ls_rendezvous_server {
    ls_rendezvous_point point;
    ls_notice *notice; /* of rank 0's process */
    int listener;      /* -1: all have come */
    ls_lobby *lobby;   /* of the listener */
    int room;          /* of the lobby */
    char address[LS_ADDRESS];
    bool everywhere;       /* it listens at every address of the host */
    client *clients;       /* [ranks] */
    struct pollfd *polled; /* [ranks + 1 + room]: for the clients, the listener and the lobby */
    int came;
    bool complete;    /* all ranks were connected at the same time, and have been told so */
    _Atomic int gone; /* clients that are gone; read by the thread that ends the process */
    double clock;     /* seconds for which the server has run, plus 1 */
    double word;      /* the clock at which the next message says which ranks are missing */
    int gathering;    /* ranks whose value of the current gather has come */
    uint64_t gathers; /* complete gathers */
    uint32_t value_bytes;
    char *values;                          /* [ranks * value_bytes] */
    char why[sizeof((ls_status){0}.text)]; /* the text of an abort; "": none */
    bool runs;
    _Atomic bool ends;
    pthread_t thread;
};

/* A message that could not be sent ends the connection, which is noticed at the next receive. */
static void send_to(ls_rendezvous_server *s, int rank, ls_rendezvous_kind kind, const void *bytes, size_t n) {
    client *c = &s->clients[rank];
    if (c->fd < 0) return;
    const uint64_t number = kind == LS_RENDEZVOUS_GATHER ? s->gathers : 0;
    const ls_status status = ls_rendezvous_send(c->fd, kind, number, bytes, n, "a rank to listen");
    if (status.code == LS_OK) return;
    c->failed = status;
    (void)shutdown(c->fd, SHUT_RDWR);
}

static void send_to_all(ls_rendezvous_server *s, ls_rendezvous_kind kind, const void *bytes, size_t n) {
    for (int r = 0; r < s->point.ranks; r++) send_to(s, r, kind, bytes, n);
}

/*
 * Tells all ranks of an abort. A rank is told after it has been sent the values of all complete gathers, so that all
 * ranks return from such a gather with the same status. Rank 0 is told at once, through its notice, if its own
 * connection does not exist or may be the one that has failed.
 */
static void abort_all(ls_rendezvous_server *s, const char *why) {
    if (s->why[0] != 0) return;
    snprintf(s->why, sizeof s->why, "%s", why);
    ls_printable_line(s->why);
    send_to_all(s, LS_RENDEZVOUS_ABORT, s->why, strlen(s->why));
    const client *own = &s->clients[0];
    if (!s->complete || own->fd < 0 || own->failed.code != LS_OK) (void)ls_notice_abort(s->notice, s->why);
}

/* ---- ranks come ---- */

/* The error if a caller that has the key is not a rank that the server waits for. */
static ls_status check_caller(const ls_rendezvous_server *s, const ls_caller *who) {
    const ls_party *it = &who->party;
    LS_TRY(who->build);
    if (it->ranks != s->point.ranks)
        return ls_error(LS_PEER, "rank %d of %d counts other ranks than rank 0, which is one of %d", it->rank,
                        it->ranks, s->point.ranks);
    if (it->rank < 0 || it->rank >= it->ranks)
        return ls_error(LS_PEER, "rank %d of %d is not one of the ranks", it->rank, it->ranks);
    if (s->clients[it->rank].fd < 0) return ls_ok();
    return ls_error(LS_PEER, "rank %d of %d is there already: two processes have the same rank%s", it->rank, it->ranks,
                    s->point.has_secret ? "" : ", or it is a stranger: no " LS_SECRET_VARIABLE " is set");
}

/*
 * A rank of another build ends the job. Any other caller that is not awaited is told so, and the job goes on without
 * it.
 */
static void refuse(ls_rendezvous_server *s, const ls_caller *who, const ls_status *why) {
    (void)!ls_rendezvous_send(who->fd, LS_RENDEZVOUS_ABORT, 0, why->text, strlen(why->text), "a rank to listen").code;
    (void)close(who->fd);
    if (why->code == LS_INVALID) abort_all(s, why->text);
}

/* If the server listens at every address of the host, learns from a rank's connection which address the others use. */
static void note_address(ls_rendezvous_server *s, int fd) {
    char address[LS_ADDRESS];
    if (s->everywhere && ls_socket_own_address(fd, address).code == LS_OK && !ls_socket_is_loopback(address))
        memcpy(s->address, address, sizeof address);
}

static void admit(ls_rendezvous_server *s, const ls_caller *who) {
    const ls_status status = check_caller(s, who);
    if (status.code != LS_OK) {
        refuse(s, who, &status);
        return;
    }
    const int rank = who->party.rank;
    s->clients[rank].fd = who->fd;
    s->came++;
    note_address(s, who->fd);
    if (s->why[0] != 0) send_to(s, rank, LS_RENDEZVOUS_ABORT, s->why, strlen(s->why));
}

static void stop_listening(ls_rendezvous_server *s) {
    ls_lobby_close(s->lobby);
    s->lobby = NULL;
    if (s->listener >= 0) (void)close(s->listener);
    s->listener = -1;
}

static void admit_all(ls_rendezvous_server *s) {
    ls_caller who = {.fd = -1};
    do {
        const ls_status status = ls_lobby_next(s->lobby, &who);
        const ls_status named = ls_error_in(status, "rank 0, where the ranks meet");
        if (status.code != LS_OK) abort_all(s, named.text);
        if (status.code == LS_OK && who.fd >= 0) admit(s, &who);
    } while (who.fd >= 0);
    if (s->came < s->point.ranks || s->complete) return;
    s->complete = true;
    send_to_all(s, LS_RENDEZVOUS_COME, NULL, 0);
    stop_listening(s);
}

static void name_missing(const ls_rendezvous_server *s, char *text, size_t room) {
    int n = 0, written = 0;
    for (int r = 0; r < s->point.ranks && written < (int)room; r++)
        if (s->clients[r].fd < 0 && ++n <= 8)
            written += snprintf(text + written, room - (size_t)written, "%srank %d", n > 1 ? ", " : "", r);
    if (n > 8 && written < (int)room) snprintf(text + written, room - (size_t)written, " and %d others", n - 8);
}

/* While not all ranks have come: says from time to time which are missing, and gives up at the deadline. */
static void await_missing(ls_rendezvous_server *s) {
    const double waited = s->clock - 1;
    if (s->complete || s->why[0] != 0 || (waited < s->word && waited <= s->point.seconds)) return;
    char names[160], text[800], refused[640] = "";
    const char *why;
    const int n = ls_lobby_refused(s->lobby, &why);
    if (n > 0)
        snprintf(refused, sizeof refused, "; %d connections were refused%s%s", n, *why != 0 ? ", of these: " : "", why);
    name_missing(s, names, sizeof names);
    if (waited > s->point.seconds) {
        ls_print(text, sizeof text, "waited %.3g s for %s%s", s->point.seconds, names, refused);
        abort_all(s, text);
        return;
    }
    s->word = 2 * waited;
    ls_log("rank 0 waits for %s of %d ranks at %s, port %d, %.0f of %.0f s%s", names, s->point.ranks, s->address,
           s->point.port, waited, s->point.seconds, refused);
}

/* ---- ranks speak ---- */

static void lose(ls_rendezvous_server *s, int rank) {
    client *c = &s->clients[rank];
    char text[256];
    if (c->failed.code != LS_OK && c->failed.code != LS_PEER)
        snprintf(text, sizeof text, "rank 0, connection to rank %d: %s", rank, c->failed.text);
    else
        snprintf(text, sizeof text, "rank %d ended before its work was done", rank);
    if (!c->left) abort_all(s, text);
    snprintf(text, sizeof text, "rank %d has ended, and others wait for it", rank);
    if (s->gathering > 0) abort_all(s, text);
    (void)close(c->fd);
    c->fd = -1;
    ls_rendezvous_forget(&c->message);
    s->gone++;
}

/* Whether a rank's value does not belong to the gather of the other ranks; `text` says why. */
static bool is_out_of_step(const ls_rendezvous_server *s, int rank, const ls_rendezvous_head *head, char *text,
                           size_t room) {
    if (head->number != s->gathers + 1 || s->clients[rank].gathers)
        snprintf(text, room, "rank %d comes to gather %llu, others to %llu: expected one program on all ranks", rank,
                 (unsigned long long)head->number, (unsigned long long)s->gathers + 1);
    else if (head->bytes != s->value_bytes)
        snprintf(text, room, "rank %d tells %u bytes, others %u: expected one program on all ranks", rank, head->bytes,
                 s->value_bytes);
    else
        return false;
    return true;
}

/* Takes the value of a rank; once all have come, sends all values to every rank. */
static void take_value(ls_rendezvous_server *s, int rank, const ls_rendezvous_message *message) {
    const uint32_t bytes = message->head.bytes;
    char text[160];
    if (s->gathering == 0) {
        s->value_bytes = bytes;
        free(s->values);
        s->values = calloc((size_t)s->point.ranks, (size_t)bytes + 1);
    }
    if (s->values == NULL)
        abort_all(s, "rank 0 cannot allocate the values of all ranks");
    else if (is_out_of_step(s, rank, &message->head, text, sizeof text))
        abort_all(s, text);
    if (s->why[0] != 0) return;
    memcpy(s->values + (size_t)rank * bytes, message->bytes, bytes);
    s->clients[rank].gathers = true;
    if (++s->gathering == s->point.ranks) {
        s->gathering = 0;
        s->gathers++;
        for (int r = 0; r < s->point.ranks; r++) s->clients[r].gathers = false;
        send_to_all(s, LS_RENDEZVOUS_GATHER, s->values, (size_t)bytes * (size_t)s->point.ranks);
    } else if (s->gone > 0) {
        snprintf(text, sizeof text, "rank %d waits for ranks that have ended", rank);
        abort_all(s, text);
    }
}

/*
 * For a rank that waits in a gather: asks the missing ranks whether they are there, and tells the waiting rank what is
 * known about them.
 */
static void tell_missing(ls_rendezvous_server *s, int rank) {
    ls_missing missing = LS_NOBODY_MISSING;
    for (int r = 0; r < s->point.ranks && s->gathering > 0; r++) {
        client *c = &s->clients[r];
        if (c->gathers || c->fd < 0) continue;
        if (c->asked == 0) {
            c->asked = s->clock;
            send_to(s, r, LS_RENDEZVOUS_ASK, NULL, 0);
        }
        ls_missing_add(&missing, r, s->clock - c->asked);
    }
    send_to(s, rank, LS_RENDEZVOUS_TELL, &missing, sizeof missing);
}

static void take_message(ls_rendezvous_server *s, int rank) {
    const ls_rendezvous_message *m = &s->clients[rank].message;
    if (m->head.kind == LS_RENDEZVOUS_GATHER) take_value(s, rank, m);
    if (m->head.kind == LS_RENDEZVOUS_ASK) tell_missing(s, rank);
    if (m->head.kind == LS_RENDEZVOUS_ABORT) abort_all(s, ls_rendezvous_text(m));
    if (m->head.kind == LS_RENDEZVOUS_STOP) send_to_all(s, LS_RENDEZVOUS_STOP, NULL, 0);
}

/* Receives what a rank has sent so far, without waiting for the rest of a message. */
static void receive_from(ls_rendezvous_server *s, int rank) {
    static const ls_rendezvous_limits limits = {.most = {
                                                    [LS_RENDEZVOUS_COME] = UINT32_MAX,
                                                    [LS_RENDEZVOUS_GATHER] = LS_GATHER_VALUE,
                                                    [LS_RENDEZVOUS_ABORT] = sizeof((ls_status){0}.text) - 1,
                                                }};
    client *c = &s->clients[rank];
    bool whole = false;
    const ls_status status = ls_rendezvous_receive(c->fd, &limits, &c->message, &whole);
    if (status.code != LS_OK) {
        if (c->failed.code == LS_OK) c->failed = status;
        lose(s, rank);
        return;
    }
    if (!whole) return;
    c->asked = 0;
    c->left = c->message.head.kind == LS_RENDEZVOUS_LEAVE;
    take_message(s, rank);
    ls_rendezvous_forget(&c->message);
    if (c->left) lose(s, rank);
}

static void *thread_main(void *argument) {
    ls_rendezvous_server *s = argument;
    const int ranks = s->point.ranks;
    for (double looked = ls_seconds(), now; !s->ends && s->gone < ranks; looked = now) {
        now = ls_seconds();
        s->clock += ls_boot_counted(now - looked);
        for (int r = 0; r < ranks; r++) s->polled[r] = (struct pollfd){.fd = s->clients[r].fd, .events = POLLIN};
        const int others = s->lobby != NULL ? ls_lobby_poll(s->lobby, s->polled + ranks) : 0;
        if (poll(s->polled, (nfds_t)ranks + (nfds_t)others, SLICE_MILLISECONDS) > 0)
            for (int r = 0; r < ranks; r++)
                if (s->polled[r].revents != 0) receive_from(s, r);
        if (s->lobby != NULL) admit_all(s);
        await_missing(s);
    }
    return NULL;
}

/* ---- where it listens ---- */

/*
 * The address at which the server listens: that of MASTER_ADDR, if it is an address of this host that the other ranks
 * can reach. On a host, its own name often stands for a loopback address, which is useless unless all ranks are on this
 * host. "": no such address.
 */
static void find_address(const ls_rendezvous_point *point, char out[LS_ADDRESS]) {
    char all[16][LS_ADDRESS];
    int n = 0;
    const bool here = strcmp(point->host, "localhost") == 0 || ls_socket_is_loopback(point->host);
    out[0] = 0;
    if (ls_socket_addresses(point->host, all, (int)LS_COUNT(all), &n).code != LS_OK) return;
    for (int i = 0; i < n && out[0] == 0; i++)
        if ((here || !ls_socket_is_loopback(all[i])) && ls_socket_is_own(all[i])) memcpy(out, all[i], LS_ADDRESS);
}

/* Listens at the first free port of a few, and sets point->port to it. */
static ls_status listen_at(const char *address, ls_rendezvous_point *point, int *listener) {
    ls_status status = ls_ok();
    for (int i = 0; i < LS_RENDEZVOUS_PORTS; i++) {
        int port = point->port + i;
        status = ls_socket_listen(address, &port, listener);
        if (status.code != LS_OK) continue;
        const bool twice = i > 0 && ls_rendezvous_is_twice(point, i);
        point->port = port;
        if (!twice) return ls_ok();
        (void)close(*listener);
        *listener = -1;
        return ls_error(LS_USAGE,
                        "rank 0 of another job of the same name waits at %s, port %d or after: expected another "
                        "MASTER_PORT, or another " LS_SECRET_VARIABLE ", for each job",
                        point->host, port - i);
    }
    return status;
}

static ls_status start_listening(ls_rendezvous_server *s) {
    find_address(&s->point, s->address);
    s->everywhere = s->address[0] == 0;
    if (!s->everywhere) return listen_at(s->address, &s->point, &s->listener);
    snprintf(s->address, sizeof s->address, "127.0.0.1");
    ls_log("warning: rank 0 listens at every address of this host, because '%s' is none of them", s->point.host);
    const ls_status status = listen_at("::", &s->point, &s->listener);
    /* A host without IPv6 has no "::". */
    return status.code == LS_IO ? listen_at("0.0.0.0", &s->point, &s->listener) : status;
}

/* Raises the limit of open files: the job needs one for each rank, and for strangers in the lobby. */
static ls_status allow_files(const ls_rendezvous_server *s) {
    const rlim_t needed = (rlim_t)s->point.ranks + (rlim_t)s->room + OTHER_FILES;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return ls_ok();
    if (limit.rlim_max < needed)
        return ls_error(LS_USAGE,
                        "rank 0 of %d needs %llu open files; expected a limit (ulimit -Hn) of that or more, not %llu",
                        s->point.ranks, (unsigned long long)needed, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = needed;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? ls_ok() : ls_error(LS_IO, "setrlimit: %s", strerror(errno));
}

/* ---- start and end ---- */

static ls_status allocate(ls_rendezvous_server *s) {
    const size_t ranks = (size_t)s->point.ranks;
    s->room = (int)ls_min(s->point.ranks, 4096) + STRANGERS;
    s->clients = calloc(ranks, sizeof *s->clients);
    s->polled = calloc(ranks + 1 + (size_t)s->room, sizeof *s->polled);
    if (s->clients == NULL || s->polled == NULL)
        return ls_error(LS_NO_MEMORY, "cannot allocate the connections of %zu ranks", ranks);
    for (size_t r = 0; r < ranks; r++) s->clients[r].fd = -1;
    return ls_ok();
}

static ls_status start_thread(ls_rendezvous_server *s) {
    const int error = pthread_create(&s->thread, NULL, thread_main, s);
    s->runs = error == 0;
    return s->runs ? ls_ok()
                   : ls_error(LS_NO_MEMORY, "rank 0 cannot start the thread where the ranks meet: pthread_create: %s",
                              strerror(error));
}

/* Sets up everything but the thread. Rank 0's own connection is a pair of sockets. */
static ls_status set_up(ls_rendezvous_server *s, int *own) {
    int pair[2];
    LS_TRY(allow_files(s));
    LS_TRY(start_listening(s));
    const ls_party me = {.purpose = LS_PURPOSE_RENDEZVOUS,
                         .rank = 0,
                         .ranks = s->point.ranks,
                         .peer = -1,
                         .has_secret = s->point.has_secret};
    LS_TRY(ls_lobby_open(s->listener, &s->point.key, &me, s->room, &s->lobby));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return ls_error(LS_IO, "rank 0 cannot connect to itself: socketpair: %s", strerror(errno));
    s->clients[0].fd = pair[0];
    s->came = 1;
    *own = pair[1];
    return ls_ok();
}

ls_status ls_rendezvous_server_start(const ls_rendezvous_point *point, ls_notice *notice, ls_rendezvous_server **out,
                                     int *own) {
    ls_rendezvous_server *s = calloc(1, sizeof *s);
    int mine = -1;
    if (s == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes to meet the other ranks", sizeof *s);
    *s = (ls_rendezvous_server){
        .point = *point, .notice = notice, .listener = -1, .clock = 1, .word = FIRST_WORD_SECONDS};
    ls_status status = allocate(s);
    if (status.code == LS_OK) status = set_up(s, &mine);
    if (status.code == LS_OK) status = start_thread(s);
    if (status.code == LS_OK) {
        *own = mine;
        *out = s;
        return status;
    }
    if (mine >= 0) (void)close(mine);
    ls_rendezvous_server_end(s, 0);
    return status;
}

void ls_rendezvous_server_address(const ls_rendezvous_server *s, char out[LS_ADDRESS]) {
    memcpy(out, s->address, LS_ADDRESS);
}

void ls_rendezvous_server_end(ls_rendezvous_server *s, double seconds) {
    if (s == NULL) return;
    for (const double began = ls_seconds(); s->runs && s->gone < s->point.ranks && ls_seconds() - began < seconds;)
        usleep(1000);
    s->ends = true;
    if (s->runs) pthread_join(s->thread, NULL);
    for (int r = 0; r < s->point.ranks && s->clients != NULL; r++) {
        if (s->clients[r].fd >= 0) (void)close(s->clients[r].fd);
        ls_rendezvous_forget(&s->clients[r].message);
    }
    stop_listening(s);
    free(s->clients);
    free(s->polled);
    free(s->values);
    free(s);
}
