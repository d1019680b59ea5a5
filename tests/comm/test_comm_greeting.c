/*
 * What both sides of a connection say first: who has the key gets through and nobody else, whatever is altered, sent
 * back, sent again or cut off; and the lobby, where nobody keeps anyone else waiting.
 */
#include "comm/greeting_impl.h"
#include "support/world.h"

#include <sys/socket.h>

static const ls_key key = {.bytes = "what the ranks know"}, other_key = {.bytes = "what a stranger guesses"};
static const ls_party calling = {.purpose = LS_PURPOSE_TCP, .rank = 2, .ranks = 4, .peer = 1, .has_secret = true};
static const ls_party listening = {.purpose = LS_PURPOSE_TCP, .rank = 1, .ranks = 4, .peer = -1, .has_secret = true};

/* Two ends of a connection, with a greeting at each. */
typedef struct both {
    int fd[2];
    ls_greeting caller, listener;
    ls_status called, heard;
} both;

static void begin(both *b, const ls_key *callers, const ls_party *me) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b->fd), 0);
    assert_ok(ls_greeting_begin(&b->caller, b->fd[0], callers, me, false));
    assert_ok(ls_greeting_begin(&b->listener, b->fd[1], &key, &listening, true));
    b->called = b->heard = ls_ok();
}

/* One who has failed closes its end. */
static void advance(ls_greeting *g, ls_status *status) {
    if (status->code != LS_OK) return;
    *status = ls_greeting_advance(g);
    if (status->code != LS_OK) assert_int_equal(shutdown(g->fd, SHUT_RDWR), 0);
}

static void run(both *b) {
    for (int i = 0; i < 4; i++) {
        advance(&b->caller, &b->called);
        advance(&b->listener, &b->heard);
    }
}

static void end(both *b) {
    close(b->fd[0]);
    close(b->fd[1]);
}

static void test_both_have_the_key(void **state) {
    (void)state;
    both b;
    begin(&b, &key, &calling);
    run(&b);
    assert_true(b.caller.done && b.listener.done);
    assert_int_equal(b.listener.peer.rank, 2);
    assert_int_equal(b.caller.peer.rank, 1);
    end(&b);
}

static void test_another_key(void **state) {
    (void)state;
    both b;
    begin(&b, &other_key, &calling);
    run(&b);
    assert_false(b.caller.proven || b.listener.proven);
    assert_fails(b.heard, LS_PEER, "rank 2 there has another secret than rank 1, or belongs to another job");
    assert_fails(b.called, LS_PEER, "rank 1 there has another secret than rank 2, or belongs to another job");
    end(&b);
}

static void test_what_may_be_why_is_said(void **state) {
    (void)state;
    both b;
    ls_party open = calling, fewer = calling, other = calling, lost = calling;
    open.has_secret = false;
    begin(&b, &other_key, &open);
    run(&b);
    assert_fails(b.called, LS_PEER, "rank 2 has no secret, rank 1 has one: expected LONGSPAN_SECRET to be the same");
    end(&b);
    fewer.ranks = 3;
    begin(&b, &other_key, &fewer);
    run(&b);
    assert_fails(b.called, LS_PEER, "rank 1 there is of a job of 4 ranks, this is rank 2 of 3");
    end(&b);
    other.purpose = LS_PURPOSE_RENDEZVOUS;
    begin(&b, &key, &other);
    run(&b);
    assert_false(b.caller.proven || b.listener.proven);
    end(&b);
    lost.peer = 3;
    begin(&b, &key, &lost);
    run(&b);
    assert_false(b.caller.proven || b.listener.proven);
    end(&b);
}

/* The listener knows that a rank of its job is of another build; of a stranger it would only hear so. */
static void test_another_build(void **state) {
    (void)state;
    both b;
    begin(&b, &key, &calling);
    b.caller.mine[48] = '9';
    run(&b);
    assert_true(b.listener.proven && b.caller.proven && !b.listener.done);
    assert_fails(b.heard, LS_INVALID, "rank 1 is of build ");
    assert_fails(b.heard, LS_INVALID, ", rank 2 of build 9");
    end(&b);
    begin(&b, &key, &calling);
    b.caller.mine[20] = 4;
    run(&b);
    assert_fails(b.heard, LS_INVALID, "structure 0 of messages has 8 bytes on rank 1 and 4 on rank 2");
    end(&b);
    begin(&b, &key, &calling);
    b.caller.mine[8]++;
    run(&b);
    assert_fails(b.heard, LS_INVALID, "protocol 1, rank 2 of build ");
    end(&b);
    begin(&b, &key, &calling);
    memset(b.caller.mine + 48, 'x', LS_GREETING_BUILD); /* its text does not end */
    run(&b);
    assert_fails(b.heard, LS_INVALID, "xxx: expected one build on all ranks");
    end(&b);
}

/* Between the two somebody alters one byte of what they say: neither gets through. */
static void test_every_altered_byte_is_found(void **state) {
    (void)state;
    enum { SAID = LS_GREETING_BYTES + LS_SHA256_BYTES };
    for (int at = 0; at < 2 * SAID; at++) {
        both near, far; /* the real caller and listener, each at a connection to who stands between */
        uint8_t bytes[SAID];
        size_t passed[2] = {0, 0};
        begin(&near, &key, &calling);
        begin(&far, &key, &calling);
        ls_status called = ls_ok(), heard = ls_ok();
        for (int round = 0; round < 4; round++) {
            advance(&near.caller, &called);
            advance(&far.listener, &heard);
            const int from[2] = {near.fd[1], far.fd[0]}, to[2] = {far.fd[0], near.fd[1]};
            for (int way = 0; way < 2; way++) {
                const ssize_t n = recv(from[way], bytes, sizeof bytes, MSG_DONTWAIT);
                if (n <= 0) continue;
                const int local = at - way * SAID - (int)passed[way];
                if (local >= 0 && local < n) bytes[local] ^= 0x10;
                (void)!send(to[way], bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
                passed[way] += (size_t)n;
            }
        }
        if (at < SAID) assert_false(far.listener.proven);
        assert_false(near.caller.proven);
        end(&near);
        end(&far);
    }
}

/* A stranger sends back what it hears, or what a rank has sent on another connection. */
static void test_nothing_can_be_sent_again(void **state) {
    (void)state;
    both b, again;
    uint8_t said[2][LS_GREETING_BYTES + LS_SHA256_BYTES];
    begin(&b, &key, &calling);
    assert_ok(ls_greeting_advance(&b.caller));
    assert_int_equal(recv(b.fd[1], said[0], LS_GREETING_BYTES, 0), LS_GREETING_BYTES);
    assert_int_equal(send(b.fd[1], said[0], LS_GREETING_BYTES, 0), LS_GREETING_BYTES);
    ls_status status = ls_greeting_advance(&b.caller);
    if (status.code == LS_OK && recv(b.fd[1], said[0], LS_SHA256_BYTES, 0) == LS_SHA256_BYTES) {
        assert_int_equal(send(b.fd[1], said[0], LS_SHA256_BYTES, 0), LS_SHA256_BYTES);
        status = ls_greeting_advance(&b.caller);
    }
    assert_false(b.caller.proven);
    assert_int_equal(status.code, LS_PEER);
    end(&b);

    begin(&b, &key, &calling);
    run(&b);
    assert_true(b.caller.done);
    begin(&again, &key, &calling);
    assert_int_equal(send(again.fd[0], b.caller.mine, LS_GREETING_BYTES, 0), LS_GREETING_BYTES);
    assert_int_equal(send(again.fd[0], b.listener.proof, LS_SHA256_BYTES, 0), LS_SHA256_BYTES);
    advance(&again.listener, &again.heard);
    assert_false(again.listener.proven);
    assert_int_equal(again.heard.code, LS_PEER);
    end(&b);
    end(&again);
}

static void test_who_ends_early_is_no_rank(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_GREETING_BYTES + LS_SHA256_BYTES; n++) {
        both b;
        uint8_t bytes[LS_GREETING_BYTES + LS_SHA256_BYTES] = {0};
        begin(&b, &key, &calling);
        memcpy(bytes, b.caller.mine, LS_GREETING_BYTES);
        if (n > 0) assert_int_equal(send(b.fd[0], bytes, n, 0), n);
        advance(&b.listener, &b.heard);
        assert_int_equal(b.heard.code, LS_OK);
        assert_int_equal(shutdown(b.fd[0], SHUT_WR), 0);
        advance(&b.listener, &b.heard);
        assert_int_equal(b.heard.code, LS_PEER);
        assert_false(b.listener.proven);
        end(&b);
    }
}

/* ---- the lobby ---- */

enum { ROOM = 8 };

static int call(int port) {
    int fd;
    assert_ok(ls_socket_connect("127.0.0.1", port, &fd));
    return fd;
}

/* Goes on for at most 4 s until somebody comes out. */
static ls_caller await_caller(ls_lobby *lobby, ls_greeting *g) {
    ls_caller who = {.fd = -1};
    for (const double began = ls_seconds(); who.fd < 0 && ls_seconds() - began < 4;) {
        assert_ok(ls_greeting_advance(g));
        assert_ok(ls_lobby_next(lobby, &who));
    }
    return who;
}

static void test_silent_ones_keep_nobody_waiting(void **state) {
    (void)state;
    int listener, port = 0, silent[5 * ROOM];
    ls_lobby *lobby;
    struct pollfd polled[1 + ROOM];
    ls_caller who;
    const char *why;
    assert_ok(ls_socket_listen("127.0.0.1", &port, &listener));
    assert_ok(ls_lobby_open(listener, &key, &listening, ROOM, &lobby));
    for (size_t i = 0; i < LS_COUNT(silent); i++) silent[i] = call(port);
    assert_ok(ls_lobby_next(lobby, &who));
    assert_int_equal(who.fd, -1);
    assert_int_equal(ls_lobby_poll(lobby, polled), 1 + ROOM);
    assert_int_equal(ls_lobby_refused(lobby, &why), 4 * ROOM);

    ls_greeting g;
    const int fd = call(port);
    assert_ok(ls_greeting_begin(&g, fd, &key, &calling, false));
    const double began = ls_seconds();
    who = await_caller(lobby, &g);
    assert_true(who.fd >= 0 && who.party.rank == 2 && who.build.code == LS_OK);
    assert_true(ls_seconds() - began < 2);
    assert_ok(ls_greeting_advance(&g));
    assert_true(g.done);

    close(who.fd);
    close(fd);
    for (size_t i = 0; i < LS_COUNT(silent); i++) close(silent[i]);
    ls_lobby_close(lobby);
    close(listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_have_the_key),           cmocka_unit_test(test_another_key),
        cmocka_unit_test(test_what_may_be_why_is_said),     cmocka_unit_test(test_another_build),
        cmocka_unit_test(test_every_altered_byte_is_found), cmocka_unit_test(test_nothing_can_be_sent_again),
        cmocka_unit_test(test_who_ends_early_is_no_rank),   cmocka_unit_test(test_silent_ones_keep_nobody_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
