/*
 * Whatever a caller sends a rank over the transport tcp, from the first byte of its greeting on: the rank writes only
 * where it expects bytes, sets only words that may be set, and says in one line what it refuses. An input is a greeting
 * and then messages. The proof between them is made here, as by a caller that has the key: nobody else gets further.
 */
#include "comm/greeting_impl.h"
#include "comm/tcp_impl.h"
#include "fuzz/fuzz.h"

#include "comm/comm_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 3, ME = 1, CALLER = 0, HEAP = 4096, WORDS = 8, SLOT = 256, GRANTED = 3 };
/* Words: the caller puts to this rank over the first two, and this rank to the caller over the next two. */
enum { DATA_IN, FREE_OUT, DATA_OUT, FREE_IN };

static const ls_key key;
static const ls_party me = {.purpose = LS_PURPOSE_TCP, .rank = ME, .ranks = RANKS},
                      caller = {.purpose = LS_PURPOSE_TCP, .rank = CALLER, .ranks = RANKS, .peer = ME};

static const ls_range slots[] = {{1024, SLOT, {1, 1, 1}, {0, 0, 0}}, {2048, 64, {2, 2, 1}, {128, 512, 0}}},
                      note = {64, 64, {1, 1, 1}, {0, 0, 0}};

typedef struct rank {
    ls_notice notice;
    ls_boot boot;
    ls_world world;
    ls_segment_form form; /* of this rank */
    char *segment, *segments[RANKS];
    ls_endpoint end;
    ls_windows *windows;
} rank;

static void start(rank *r) {
    memset(r, 0, sizeof *r);
    r->boot = (ls_boot){.rank = -1, .ranks = RANKS, .notice = &r->notice};
    r->world = (ls_world){.boot = &r->boot, .options = {.ranks = RANKS, .heap_bytes = HEAP, .words = WORDS}};
    r->form = ls_segment_lay_out(&r->world.options, ME);
    r->segment = aligned_alloc(4096, r->form.bytes);
    LS_ASSERT(r->segment != NULL);
    memset(r->segment, 0, r->form.bytes);
    r->segments[ME] = r->segment;
    r->windows = ls_windows_create(&r->world, ME);
    r->end = (ls_endpoint){
        .rank = ME, .ranks = RANKS, .boot = &r->boot, .form = r->form, .segments = r->segments, .windows = r->windows};
    ls_window windows[WORDS];
    for (int w = 0; w < WORDS; w++) windows[w] = (ls_window){.peer = -1};
    windows[DATA_IN] = (ls_window){.peer = CALLER, .answers = FREE_OUT, .notes = 1, .uses = 2, .slots = slots};
    windows[FREE_IN] =
        (ls_window){.peer = CALLER, .answers = DATA_OUT, .begins = true, .notes = 1, .note = note, .uses = 1};
    LS_ASSERT(fuzz_done(ls_windows_expect(r->windows, windows)));
    ls_windows_note_set(r->windows, FREE_OUT, GRANTED);
}

static void end(rank *r) {
    ls_windows_destroy(r->windows);
    free(r->segment);
}

/* Sends what the other side has room for; a receiver that has hung up takes nothing. */
static size_t say(int wire, const void *bytes, size_t n) {
    const ssize_t sent = send(wire, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? (size_t)sent : 0;
}

/* The proof of a caller that has the key, after both greetings. */
static void prove(const ls_greeting *g, int wire) {
    static const char who[16] = "longspan caller";
    uint8_t proof[LS_SHA256_BYTES];
    ls_hmac mac;
    ls_hmac_begin(&mac, key.bytes, sizeof key.bytes);
    ls_hmac_add(&mac, who, sizeof who);
    ls_hmac_add(&mac, g->theirs, LS_GREETING_BYTES);
    ls_hmac_add(&mac, g->mine, LS_GREETING_BYTES);
    ls_hmac_end(&mac, proof);
    (void)say(wire, proof, sizeof proof);
}

/* Whether the greeting at the input's beginning lets its sender in. */
static bool greets(int fd, int wire, const uint8_t *data, size_t bytes) {
    ls_greeting g;
    LS_ASSERT(fuzz_done(ls_greeting_begin(&g, fd, &key, &me, true)));
    (void)say(wire, data, ls_min(bytes, (size_t)LS_GREETING_BYTES));
    ls_status status = ls_greeting_advance(&g);
    if (status.code == LS_OK && g.heard) {
        prove(&g, wire);
        status = ls_greeting_advance(&g);
        LS_ASSERT(g.proven);
    }
    return fuzz_done(status) && g.done && g.peer.rank == CALLER;
}

static bool has_ended(const ls_tcp_receiver *receiver) {
    return ls_tcp_is_lost(receiver, CALLER) || ls_tcp_has_left(receiver, CALLER);
}

/* Sends messages until the receiver has taken them or hung up. */
static void send_all(ls_tcp_receiver *receiver, int wire, const uint8_t *data, size_t bytes) {
    while (bytes > 0 && !has_ended(receiver)) {
        const size_t n = say(wire, data, bytes);
        data += n;
        bytes -= n;
        LS_ASSERT(ls_tcp_receiver_step(receiver));
    }
    (void)shutdown(wire, SHUT_WR);
    while (!has_ended(receiver)) LS_ASSERT(ls_tcp_receiver_step(receiver));
}

static void forget(char *heap, const ls_range *range) {
    for (size_t i = 0; range->length > 0 && i < ls_range_bytes(range) / range->length; i++)
        memset(heap + ls_range_piece(range, i), 0, range->length);
}

/* Nothing is written outside of the windows, and no word is beyond what was opened. */
static void check(const rank *r) {
    const ls_segment_form *form = &r->end.form;
    char *heap = r->segment + form->heap;
    static const uint64_t most[WORDS] = {[DATA_IN] = GRANTED, [FREE_IN] = 1};
    for (int w = 0; w < form->n_words; w++)
        LS_ASSERT(ls_endpoint_reached(&r->end, w) <= (w < WORDS ? most[w] : w == WORDS ? 1 : 0));
    for (size_t i = 0; i < LS_COUNT(slots); i++) forget(heap, &slots[i]);
    forget(heap, &note);
    memset(r->segment + form->inbox + ls_host_inbox_bytes(RANKS), 0, ls_host_inbox_bytes(RANKS));
    memset(r->segment + form->words, 0, (size_t)form->n_words * sizeof(uint64_t));
    LS_ASSERT(r->segment[form->words] == 0 &&
              memcmp(r->segment + form->words, r->segment + form->words + 1, form->bytes - form->words - 1) == 0);
    (void)fuzz_done(ls_notice_aborted(&r->notice));
}

static void run(const uint8_t *data, size_t bytes) {
    rank r;
    int pair[2];
    start(&r);
    LS_ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    if (greets(pair[0], pair[1], data, bytes)) {
        const int fds[RANKS] = {[CALLER] = pair[0], [ME] = -1, [2] = -1};
        ls_tcp_receiver *receiver;
        LS_ASSERT(fuzz_done(ls_tcp_receiver_open(&r.end, fds, &receiver)));
        send_all(receiver, pair[1], data + LS_GREETING_BYTES, bytes - LS_GREETING_BYTES);
        ls_tcp_receiver_end(receiver);
        check(&r);
    } else {
        (void)close(pair[0]);
    }
    (void)close(pair[1]);
    end(&r);
}

/* The greeting becomes one of this build. */
static size_t repair(uint8_t *data, size_t bytes, size_t room) {
    ls_greeting g;
    if (room < LS_GREETING_BYTES) return bytes;
    if (bytes < LS_GREETING_BYTES) memset(data + bytes, 0, LS_GREETING_BYTES - bytes);
    LS_ASSERT(fuzz_done(ls_greeting_begin(&g, -1, &key, &caller, false)));
    memcpy(data, g.mine, LS_GREETING_BYTES);
    return ls_max(bytes, (size_t)LS_GREETING_BYTES);
}

const fuzz_target fuzz_tcp = {.name = "tcp", .run = run, .repair = repair};
