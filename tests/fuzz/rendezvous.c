/*
 * What ranks that meet tell each other, from the first byte: greetings of strangers and of ranks that have the key,
 * messages of a rank to the server and of a server to a rank, and what ranks gather when they meet. The first byte says
 * which. Messages are written as a kind, a length of two bytes and the bytes of it, so that mutations keep their form;
 * kind 255 sends all that follows as it is.
 */
#include "comm/rendezvous_impl.h"
#include "fuzz/fuzz.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 3, RAW = 255, SECONDS = 5 };

static const ls_patience patience = {.seconds = SECONDS};

static ls_rendezvous_point point_of(int rank, int port) {
    return (ls_rendezvous_point){.rank = rank,
                                 .ranks = RANKS,
                                 .host = "127.0.0.1",
                                 .all_here = true,
                                 .port = port,
                                 .seconds = SECONDS,
                                 .key = {.bytes = "fuzz"},
                                 .has_secret = true};
}

/* ---- messages ---- */

static void send_all(int fd, const void *bytes, size_t n) {
    const ls_status status = ls_socket_send(fd, bytes, n, &patience, "the reader");
    (void)status; /* a reader that has refused something has closed */
}

static void feed(int fd, fuzz_bytes rest) {
    while (rest.n > 0) {
        const uint8_t kind = fuzz_choice(&rest);
        if (kind == RAW) {
            send_all(fd, rest.at, rest.n);
            return;
        }
        const uint8_t low = fuzz_choice(&rest), high = fuzz_choice(&rest), number = fuzz_choice(&rest);
        const size_t length = (size_t)ls_min(low + 256 * high, (int64_t)rest.n);
        const ls_rendezvous_head head = {.kind = kind, .bytes = (uint32_t)length, .number = number};
        send_all(fd, &head, sizeof head);
        send_all(fd, rest.at, length);
        rest = (fuzz_bytes){rest.at + length, rest.n - length};
    }
}

/* Reads what the other side has still to say. */
static void drain(int fd) {
    char room[512];
    struct pollfd one = {.fd = fd, .events = POLLIN};
    (void)shutdown(fd, SHUT_WR);
    while (poll(&one, 1, 1000 * SECONDS) > 0 && recv(fd, room, sizeof room, MSG_DONTWAIT) > 0) continue;
}

/* ---- rank 1 speaks to the server ---- */

/* What the server hands on to rank 0: whole messages of the kinds that a client allows. */
static void check_own(int own) {
    ls_rendezvous_limits limits = {.most = {[LS_RENDEZVOUS_LEAVE] = UINT32_MAX}};
    limits.most[LS_RENDEZVOUS_GATHER] = RANKS * LS_GATHER_VALUE;
    limits.most[LS_RENDEZVOUS_TELL] = sizeof(ls_missing);
    limits.most[LS_RENDEZVOUS_ABORT] = sizeof((ls_status){0}.text) - 1;
    for (bool whole = true; whole;) {
        ls_rendezvous_message message = {.got = 0};
        whole = false;
        const ls_status status = ls_rendezvous_receive(own, &limits, &message, &whole);
        LS_ASSERT(status.code == LS_OK || status.code == LS_PEER);
        if (whole && message.head.kind == LS_RENDEZVOUS_ABORT)
            LS_ASSERT(!fuzz_done(ls_error(LS_PEER, "%s", message.bytes)));
        ls_rendezvous_forget(&message);
    }
}

static int free_port(void) {
    int port = 0, fd;
    LS_ASSERT(ls_socket_listen("127.0.0.1", &port, &fd).code == LS_OK);
    close(fd);
    return port < 65000 ? port : 20000;
}

static void run_server(fuzz_bytes rest) {
    const uint8_t choice = fuzz_choice(&rest);
    const bool all_come = choice & 1;
    const int port = free_port();
    const ls_rendezvous_point zero = point_of(0, port), one = point_of(1, port), two = point_of(2, port);
    ls_notice notice = {.abort_state = LS_ABORT_NONE};
    ls_rendezvous_server *server;
    int own, fd = -1, other = -1;
    if (ls_rendezvous_server_start(&zero, &notice, &server, &own).code != LS_OK) return; /* the port is taken */
    LS_ASSERT(ls_rendezvous_search(&one, &fd).code == LS_OK);
    if (all_come) LS_ASSERT(ls_rendezvous_search(&two, &other).code == LS_OK);
    if (all_come && choice & 2) /* another rank has come to the first gather, with 4 bytes */
        LS_ASSERT(ls_rendezvous_send(other, LS_RENDEZVOUS_GATHER, 1, "here", 4, "the server").code == LS_OK);
    feed(fd, rest);
    drain(fd);
    if (other >= 0) drain(other);
    (void)shutdown(own, SHUT_WR);
    ls_rendezvous_server_end(server, all_come ? SECONDS : 0); /* when all are gone, it ends at once */
    check_own(own);
    (void)fuzz_done(ls_notice_aborted(&notice));
    close(own);
    close(fd);
    if (other >= 0) close(other);
}

/* ---- a server speaks to rank 1 ---- */

static void *client_main(void *argument) {
    const ls_rendezvous_point *point = argument;
    ls_notice notice = {.abort_state = LS_ABORT_NONE};
    int processes[RANKS] = {0};
    ls_boot boot = {.rank = point->rank, .ranks = RANKS, .processes = processes};
    ls_rendezvous *client;
    uint8_t mine[8] = {1}, all[RANKS * sizeof mine];
    ls_status status = ls_rendezvous_open(point, &notice, &client);
    if (!fuzz_done(status)) return NULL;
    for (int i = 0; i < 2 && status.code == LS_OK; i++) {
        status = ls_rendezvous_gather(client, &boot, mine, sizeof mine, all);
        if (fuzz_done(status)) fuzz_touch(all, sizeof all);
    }
    ls_rendezvous_close(client);
    (void)fuzz_done(ls_notice_aborted(&notice));
    return NULL;
}

static void run_client(fuzz_bytes rest) {
    const bool comes = fuzz_choice(&rest) & 1;
    int port = 0, listener, fd;
    pthread_t thread;
    LS_ASSERT(ls_socket_listen("127.0.0.1", &port, &listener).code == LS_OK);
    ls_rendezvous_point point = point_of(1, port);
    LS_ASSERT(pthread_create(&thread, NULL, client_main, &point) == 0);
    LS_ASSERT(ls_socket_accept(listener, &patience, "the client", &fd).code == LS_OK);
    close(listener);
    const ls_party me = {.purpose = LS_PURPOSE_RENDEZVOUS, .rank = 0, .ranks = RANKS, .peer = -1, .has_secret = true};
    ls_greeting greeting;
    LS_ASSERT(ls_greeting_begin(&greeting, fd, &point.key, &me, true).code == LS_OK);
    LS_ASSERT(ls_greeting_run(&greeting, &patience, "the client").code == LS_OK);
    if (comes) LS_ASSERT(ls_rendezvous_send(fd, LS_RENDEZVOUS_COME, 0, NULL, 0, "the client").code == LS_OK);
    feed(fd, rest);
    drain(fd);
    pthread_join(thread, NULL);
    close(fd);
}

/* ---- greetings ---- */

/* Bytes as they are, then the end of the connection: nobody proves anything by them. */
static void run_stranger(fuzz_bytes rest) {
    const bool listens = fuzz_choice(&rest) & 1;
    const ls_party me = {.purpose = LS_PURPOSE_RENDEZVOUS, .rank = 1, .ranks = RANKS, .peer = 0};
    const ls_key key = {.bytes = "fuzz"};
    int fd[2];
    ls_greeting g;
    LS_ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    LS_ASSERT(ls_greeting_begin(&g, fd[0], &key, &me, listens).code == LS_OK);
    send_all(fd[1], rest.at, rest.n);
    (void)shutdown(fd[1], SHUT_WR);
    LS_ASSERT(!fuzz_done(ls_greeting_run(&g, &patience, "a stranger")));
    LS_ASSERT(!g.proven && !g.done);
    close(fd[0]);
    close(fd[1]);
}

/* A rank that has the key says other things about itself: bytes of its greeting are those of the input. */
static void run_greeting(fuzz_bytes rest) {
    enum { RANDOM = LS_GREETING_BYTES - LS_SHA256_BYTES };
    const size_t at = fuzz_choice(&rest) % RANDOM;
    const ls_party called = {.purpose = LS_PURPOSE_TCP, .rank = 0, .ranks = RANKS, .peer = -1},
                   calls = {.purpose = LS_PURPOSE_TCP, .rank = 1, .ranks = RANKS, .peer = 0};
    const ls_key key = {.bytes = "fuzz"};
    int fd[2];
    ls_greeting caller, listener;
    LS_ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    LS_ASSERT(ls_greeting_begin(&caller, fd[0], &key, &calls, false).code == LS_OK);
    LS_ASSERT(ls_greeting_begin(&listener, fd[1], &key, &called, true).code == LS_OK);
    memcpy(caller.mine + at, rest.at, (size_t)ls_min((int64_t)rest.n, (int64_t)(RANDOM - at)));
    ls_status called_it = ls_ok(), heard = ls_ok();
    for (int i = 0; i < 4; i++) {
        if (called_it.code == LS_OK) called_it = ls_greeting_advance(&caller);
        if (heard.code == LS_OK) heard = ls_greeting_advance(&listener);
    }
    (void)fuzz_done(called_it);
    (void)fuzz_done(heard);
    close(fd[0]);
    close(fd[1]);
}

/* ---- what ranks gather when they meet ---- */

/* Every rank says the same as this one, and then bytes from some place on are those of the input, again and again. */
static ls_status gather_altered(ls_boot *boot, int rank, const void *mine, size_t bytes, void *all) {
    fuzz_bytes rest = *(const fuzz_bytes *)boot->state;
    const size_t whole = bytes * (size_t)boot->ranks;
    const uint8_t low = fuzz_choice(&rest), high = fuzz_choice(&rest), from = fuzz_choice(&rest);
    const size_t count = (size_t)ls_min(low + 256 * high, (int64_t)whole);
    (void)rank;
    for (int r = 0; r < boot->ranks; r++) memcpy((char *)all + (size_t)r * bytes, mine, bytes);
    for (size_t i = 0; i < count && rest.n > 0; i++)
        ((uint8_t *)all)[whole - 1 - (from + i) % whole] = rest.at[i % rest.n];
    return ls_ok();
}

static void run_gathered(fuzz_bytes rest) {
    const ls_boot_kind kind = {.name = "fuzz", .gather = gather_altered};
    const bool agrees = fuzz_choice(&rest) & 1;
    ls_boot boot = {.kind = &kind, .rank = 1, .ranks = RANKS, .state = &rest};
    int32_t said[RANKS];
    if (agrees) {
        boot.said = said;
        const ls_status agreed = ls_boot_agree(&boot, ls_error(LS_INVALID, "this rank fails"));
        LS_ASSERT(agreed.code >= LS_OK && agreed.code <= LS_FAULT); /* another rank's memory may have been too small */
        LS_ASSERT(!fuzz_done(ls_error(LS_PEER, "ranks agree: %s", agreed.text)));
        return;
    }
    if (ls_boot_find_hosts(&boot).code == LS_OK) {
        for (int r = 0; r < RANKS; r++) {
            LS_ASSERT(boot.hosts[r] >= 0 && boot.hosts[r] < RANKS);
            LS_ASSERT(memchr(boot.host_names[r], 0, LS_HOST_NAME) != NULL);
        }
        LS_ASSERT(boot.machine_ranks >= 1 && boot.machine_ranks <= RANKS);
    }
    ls_boot_forget_hosts(&boot);
}

static void run(const uint8_t *data, size_t bytes) {
    static void (*const ways[])(fuzz_bytes) = {run_server, run_client, run_stranger, run_greeting, run_gathered};
    fuzz_bytes rest = {data, bytes};
    const uint8_t way = fuzz_choice(&rest);
    ways[way % LS_COUNT(ways)](rest);
}

const fuzz_target fuzz_rendezvous = {.name = "rendezvous", .run = run};
