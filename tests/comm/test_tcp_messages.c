/*
 * Messages of a peer that no rank of the world sends: the receiver of the transport tcp takes none of them, writes
 * nothing, ends the connection, and says what came and what was expected.
 */
#include "comm/comm_impl.h"
#include "comm/tcp_impl.h"
#include "support/world.h"

#include <stdlib.h>
#include <sys/socket.h>

enum { RANKS = 3, ME = 1, HEAP = 4096, WORDS = 8, SLOT = 256, NOTE = 64 };

/* Words: 0 and 1 are a channel on which rank 0 puts to this rank, 2 and 3 one on which this rank puts to rank 2. */
enum { DATA_IN, FREE_OUT, DATA_OUT, FREE_IN };

/* Rank 1 with its receiver; `wire` is rank 0's end of the connection to it. */
typedef struct receiving {
    ls_notice notice;
    ls_boot boot;
    ls_world world;
    ls_segment_form form; /* of this rank */
    char *segment, *segments[RANKS], *before;
    ls_endpoint end;
    ls_windows *windows;
    ls_tcp_receiver *receiver;
    int wire;
} receiving;

static ls_range slots[2];
static size_t counted[2]; /* bytes of a row, of slots of counted rows */

/* Rank 0 may put into two slots of rank 1 in turn, with notes and puts as in run/addresses.c. */
static void expect(receiving *r) {
    ls_window windows[WORDS];
    for (int w = 0; w < WORDS; w++) windows[w] = (ls_window){.peer = -1};
    slots[0] = ls_range_flat(1024, SLOT);
    slots[1] = (ls_range){2048, SLOT / 4, {2, 2, 1}, {SLOT / 2, SLOT, 0}};
    windows[DATA_IN] =
        (ls_window){.peer = 0, .answers = FREE_OUT, .notes = 1, .uses = 2, .slots = slots, .counted = counted};
    windows[FREE_IN] = (ls_window){
        .peer = 2, .answers = DATA_OUT, .begins = true, .notes = 1, .note = ls_range_flat(NOTE, NOTE), .uses = 2};
    assert_ok(ls_windows_expect(r->windows, windows));
}

static void start(receiving *r, bool unguarded) {
    memset(r, 0, sizeof *r);
    r->boot = (ls_boot){.rank = -1, .ranks = RANKS, .notice = &r->notice};
    r->world = (ls_world){.boot = &r->boot,
                          .options = {.ranks = RANKS, .heap_bytes = HEAP, .words = WORDS, .unguarded = unguarded}};
    r->form = ls_segment_lay_out(&r->world.options, ME);
    r->segment = aligned_alloc(4096, r->form.bytes);
    r->before = malloc(r->form.bytes);
    assert_true(r->segment != NULL && r->before != NULL);
    memset(r->segment, 0, r->form.bytes);
    r->segments[ME] = r->segment;
    r->windows = ls_windows_create(&r->world, ME);
    r->end = (ls_endpoint){
        .rank = ME, .ranks = RANKS, .boot = &r->boot, .form = r->form, .segments = r->segments, .windows = r->windows};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    expect(r);
    ls_windows_note_set(r->windows, FREE_OUT, 2); /* the note is told, and slot 0 is granted */
    memcpy(r->before, r->segment, r->form.bytes);
    const int fds[RANKS] = {pair[0], -1, -1};
    assert_ok(ls_tcp_receiver_open(&r->end, fds, &r->receiver));
    assert_ok(ls_tcp_receiver_start(r->receiver));
    r->wire = pair[1];
}

static void finish(receiving *r) {
    ls_tcp_receiver_end(r->receiver);
    ls_windows_destroy(r->windows);
    close(r->wire);
    free(r->segment);
    free(r->before);
}

static void say(const receiving *r, const ls_tcp_head *head, size_t payload) {
    char bytes[sizeof *head + 1024];
    memset(bytes, 0x5A, sizeof bytes);
    memcpy(bytes, head, sizeof *head);
    assert_int_equal(send(r->wire, bytes, sizeof *head + payload, MSG_NOSIGNAL), (ssize_t)(sizeof *head + payload));
}

/* All that was sent before has been received, or the connection has ended. */
static void settle(const receiving *r) {
    const ls_tcp_head flush = {.kind = LS_TCP_FLUSH, .word = -1};
    ls_tcp_answer answer;
    (void)send(r->wire, &flush, sizeof flush, MSG_NOSIGNAL);
    (void)recv(r->wire, &answer, sizeof answer, MSG_WAITALL);
}

static char *at_heap(const receiving *r, size_t offset) { return r->segment + r->form.heap + offset; }
static uint64_t word_at(const receiving *r, int word) { return ls_endpoint_reached(&r->end, word); }

#define HEAD(kind_, word_, generation_, ...) \
    ((ls_tcp_head){.kind = (kind_), .word = (word_), .generation = (generation_), .to = __VA_ARGS__})
#define NOTHING ((ls_range){0})

typedef struct forged {
    ls_tcp_head head;
    const char *says;
} forged;

static void refuses(const forged *f, bool unguarded) {
    receiving r;
    start(&r, unguarded);
    say(&r, &f->head, 1024);
    settle(&r);
    assert_true(ls_tcp_is_lost(r.receiver, 0));
    assert_int_equal(memcmp(r.segment + r.form.words, r.before + r.form.words, r.form.bytes - r.form.words), 0);
    assert_fails(ls_notice_aborted(&r.notice), LS_PEER, "rank 1 refuses what rank 0 sends: ");
    assert_fails(ls_notice_aborted(&r.notice), LS_PEER, f->says);
    finish(&r);
}

static const size_t below = (size_t) - ((int64_t)1 << 30), beyond = ((size_t)1 << 30) + 16;

static void test_forged_messages(void **state) {
    (void)state;
    const ls_range slot = ls_range_flat(1024, SLOT);
    const int host = WORDS; /* the word of round 0, which rank 0 sets */
    receiving sizes;
    start(&sizes, false);
    const size_t inbox = sizes.form.inbox - sizes.form.heap, half = ls_host_inbox_bytes(RANKS);
    finish(&sizes);
    const forged all[] = {
        {HEAD(-1, 0, 1, NOTHING), "message -1 for word 0"},
        {HEAD(LS_TCP_KINDS, 0, 1, NOTHING), "for word 0"},
        {HEAD(LS_TCP_SIGNAL, -1, 1, NOTHING), "for word -1"},
        {HEAD(LS_TCP_SIGNAL, -2, 1, NOTHING), "for word -2"},
        {HEAD(LS_TCP_SIGNAL, INT32_MAX, 1, NOTHING), "expected words below 10"},
        {HEAD(LS_TCP_PIECE, -1, 0, ls_range_flat(0, 8)), "expected a word of this rank"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(below, beyond)), "expected 256 bytes at 1024"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024, SLOT + 1)), "257 bytes at 1024 for word 0, generation 2"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1025, SLOT)), "expected 256 bytes at 1024"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024, 8)), "expected 256 bytes at 1024"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, slots[1]), "in 1 x 2 x 2 pieces"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, {1024, SLOT, {0, 0, 0}, {0, 0, 0}}), "expected 256 bytes at 1024"},
        {HEAD(LS_TCP_PIECE, DATA_IN, 2, ls_range_flat(1024 + SLOT, 1)), "expected 256 bytes at 1024"},
        {HEAD(LS_TCP_PIECE, DATA_IN, 2, ls_range_flat(1024, beyond)), "expected 256 bytes at 1024"},
        {HEAD(LS_TCP_PUT, DATA_IN, 1, slot),
         "expected a signal without bytes"},                               /* of the note, which has no bytes here */
        {HEAD(LS_TCP_PUT, DATA_IN, 3, slots[1]), "up to 2"},               /* not granted yet */
        {HEAD(LS_TCP_SIGNAL, DATA_IN, 0, NOTHING), "generations after 0"}, /* not after the last one */
        {HEAD(LS_TCP_SIGNAL, DATA_IN, UINT64_MAX, NOTHING), "up to 2"},
        {HEAD(LS_TCP_SIGNAL, FREE_IN, 1, NOTHING), "expected messages of rank 2 there"},
        {HEAD(LS_TCP_PUT, FREE_IN, 1, ls_range_flat(NOTE, NOTE)), "expected messages of rank 2 there"},
        {HEAD(LS_TCP_SIGNAL, FREE_OUT, 1, NOTHING), "expected nothing there"},
        {HEAD(LS_TCP_PUT, WORDS - 1, 1, slot), "expected nothing there"},
        {HEAD(LS_TCP_SIGNAL, host + 1, 1, NOTHING), "expected messages of rank 2 there"}, /* the one before the last */
        {HEAD(LS_TCP_SIGNAL, host, 2, NOTHING), "up to 1"},
        {HEAD(LS_TCP_PUT, host, 1, ls_range_flat(inbox, 8)), "expected 131072 bytes at"}, /* the other half */
        {HEAD(LS_TCP_PUT, host, 1, ls_range_flat(inbox + 2 * half - 4, 8)), "8 bytes at"},
        {HEAD(LS_TCP_PUT, host, 1, ls_range_flat(below, beyond)), "expected 131072 bytes at"},
        {HEAD(LS_TCP_PUT, host, 1, ls_range_flat(1024, 8)), "expected 131072 bytes at"},
    };
    for (size_t i = 0; i < LS_COUNT(all); i++) refuses(&all[i], false);
    const forged unguarded[] = {
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(below, beyond)), "expected bytes of the heap"},
        {HEAD(LS_TCP_PIECE, -1, 0, {0, 8, {INT64_MAX, 2, 1}, {8, 8, 8}}), "expected bytes of the heap"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, {8, 8, {2, 1, 1}, {-9, 0, 0}}), "expected bytes of the heap"},
    };
    for (size_t i = 0; i < LS_COUNT(unguarded); i++) refuses(&unguarded[i], true);
}

/* What a rank of the world sends is taken, in one put and in pieces; then the window moves on. */
static void test_expected_messages(void **state) {
    (void)state;
    receiving r;
    start(&r, false);
    say(&r, &HEAD(LS_TCP_SIGNAL, DATA_IN, 1, NOTHING), 0); /* the answer to the note */
    say(&r, &HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024, SLOT)), SLOT);
    settle(&r);
    assert_int_equal(word_at(&r, DATA_IN), 2);
    for (int i = 0; i < SLOT; i++) assert_int_equal(*at_heap(&r, (size_t)(1024 + i)), 0x5A);
    ls_windows_note_set(r.windows, FREE_OUT, 3);
    for (size_t i = 0; i < 4; i++) say(&r, &HEAD(LS_TCP_PIECE, DATA_IN, 3, ls_range_flat(2048 + i * 128, 64)), 64);
    settle(&r);
    assert_int_equal(word_at(&r, DATA_IN), 2);
    say(&r, &HEAD(LS_TCP_SIGNAL, DATA_IN, 3, NOTHING), 0);
    ls_windows_note_set(r.windows, FREE_OUT, 4);
    say(&r, &HEAD(LS_TCP_PUT, DATA_IN, 4, ls_range_flat(1024, SLOT)), SLOT); /* the first slot again */
    settle(&r);
    assert_int_equal(word_at(&r, DATA_IN), 4);
    for (size_t i = 0; i < 512; i++) assert_int_equal(*at_heap(&r, 2048 + i), i % 128 < 64 ? 0x5A : 0);
    const size_t inbox = r.form.inbox - r.form.heap, half = ls_host_inbox_bytes(RANKS);
    say(&r, &HEAD(LS_TCP_PUT, WORDS, 1, ls_range_flat(inbox + half + 64, 128)), 128);
    settle(&r);
    assert_int_equal(word_at(&r, WORDS), 1);
    assert_int_equal(*at_heap(&r, inbox + half + 64), 0x5A);
    assert_ok(ls_notice_aborted(&r.notice));
    finish(&r);
}

/* Nothing of the caller's memory is open before the rank has said what it expects; a piece is refused between pieces.
 */
static void test_pieces_outside(void **state) {
    (void)state;
    receiving r;
    start(&r, false);
    ls_windows_note_set(r.windows, FREE_OUT, 3);
    say(&r, &HEAD(LS_TCP_SIGNAL, DATA_IN, 1, NOTHING), 0);
    say(&r, &HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024, SLOT)), SLOT);
    say(&r, &HEAD(LS_TCP_PIECE, DATA_IN, 3, ls_range_flat(2048 + 64, 8)), 8);
    settle(&r);
    assert_true(ls_tcp_is_lost(r.receiver, 0));
    assert_int_equal(*at_heap(&r, 2048 + 64), 0);
    assert_fails(ls_notice_aborted(&r.notice), LS_PEER, "8 bytes at 2112 for word 0, generation 3; expected 64 bytes");
    finish(&r);
}

/* Of a slot of counted rows any number of its first rows is taken, as a whole or in pieces, and nothing else. */
static void test_counted_rows(void **state) {
    (void)state;
    enum { ROW = 16 };
    counted[0] = ROW;
    for (size_t rows = 0; rows <= SLOT / ROW; rows++) {
        receiving r;
        start(&r, false);
        say(&r, &HEAD(LS_TCP_SIGNAL, DATA_IN, 1, NOTHING), 0);
        say(&r, &HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024, rows * ROW)), rows * ROW);
        settle(&r);
        assert_int_equal(word_at(&r, DATA_IN), 2);
        for (size_t i = 0; i < SLOT; i++) assert_int_equal(*at_heap(&r, 1024 + i), i < rows * ROW ? 0x5A : 0);
        assert_ok(ls_notice_aborted(&r.notice));
        finish(&r);
    }
    receiving r;
    start(&r, false);
    say(&r, &HEAD(LS_TCP_PIECE, DATA_IN, 2, ls_range_flat(1024 + 8, 40)), 40);
    settle(&r);
    assert_ok(ls_notice_aborted(&r.notice));
    finish(&r);
    const forged all[] = {
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024, ROW + 8)), "24 bytes at 1024"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024 + ROW, ROW)), "16 bytes at 1040"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024, SLOT + ROW)), "272 bytes at 1024"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, {1024, ROW, {2, 1, 1}, {32, 0, 0}}), "expected 256 bytes at 1024"},
        {HEAD(LS_TCP_PUT, DATA_IN, 2, ls_range_flat(1024, beyond)), "expected 256 bytes at 1024"},
    };
    for (size_t i = 0; i < LS_COUNT(all); i++) refuses(&all[i], false);
    counted[0] = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted_rows),
        cmocka_unit_test(test_expected_messages),
        cmocka_unit_test(test_pieces_outside),
        cmocka_unit_test(test_forged_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
