/* Greetings: what both sides of a connection send first, and how each proves that it has the key (greeting_impl.h). */
#include "comm/greeting_impl.h"
#include "comm/transport_impl.h"

#include "ls_version.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

/* ---- the layout of a greeting ---- */

/*
 * Offsets in a greeting. Numbers are little-endian, except BYTE_ORDER, which is in the machine's own order. MAGIC,
 * PROTOCOL and BUILD keep their places in all versions, so that any two versions can name each other.
 */
enum {
    MAGIC = 0, /* 8 letters */
    PROTOCOL = 8,
    PURPOSE = 12,
    BYTE_ORDER_MARK = 16,
    SIZES = 20, /* of 16 bits each */
    RANK = 32,
    RANKS = 36,
    PEER = 40,
    HAS_SECRET = 44,
    BUILD = 48, /* a text that ends with a zero */
    RANDOM = BUILD + LS_GREETING_BUILD,
    END = RANDOM + LS_SHA256_BYTES
};
_Static_assert(END == (int)LS_GREETING_BYTES, "a greeting is what its offsets say");

#define THIS_PROTOCOL 1u
static const char magic[8] = "LONGSPAN";
static const char this_build[LS_GREETING_BUILD] = LS_VERSION " " LS_COMMIT;
/* The sizes of types that ranks send each other as they lie in memory. */
static const uint16_t sizes[] = {sizeof(void *), sizeof(ls_status), sizeof(ls_range), sizeof(ls_missing),
                                 sizeof(ls_processors)};
_Static_assert(SIZES + sizeof sizes <= RANK, "the sizes have room in a greeting");

static void write_number(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t read_number(const uint8_t *from) {
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static void write_party(uint8_t *greeting, const ls_party *party) {
    const uint32_t mark = 0x01020304;
    memcpy(greeting + MAGIC, magic, sizeof magic);
    write_number(greeting + PROTOCOL, THIS_PROTOCOL);
    write_number(greeting + PURPOSE, (uint32_t)party->purpose);
    memcpy(greeting + BYTE_ORDER_MARK, &mark, sizeof mark);
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        greeting[SIZES + 2 * i] = (uint8_t)sizes[i];
        greeting[SIZES + 2 * i + 1] = (uint8_t)(sizes[i] >> 8);
    }
    write_number(greeting + RANK, (uint32_t)party->rank);
    write_number(greeting + RANKS, (uint32_t)party->ranks);
    write_number(greeting + PEER, (uint32_t)party->peer);
    write_number(greeting + HAS_SECRET, party->has_secret);
    memcpy(greeting + BUILD, this_build, sizeof this_build);
}

/* What the other side says of itself. Any bytes are allowed; code that uses a rank as an index must check it first. */
static ls_party read_party(const uint8_t *greeting) {
    return (ls_party){.purpose = (ls_greeting_purpose)read_number(greeting + PURPOSE),
                      .rank = (int)read_number(greeting + RANK),
                      .ranks = (int)read_number(greeting + RANKS),
                      .peer = (int)read_number(greeting + PEER),
                      .has_secret = read_number(greeting + HAS_SECRET) != 0};
}

/* The build of the other side, whose text may be unterminated. */
static void read_build(const uint8_t *greeting, char out[LS_GREETING_BUILD]) {
    memcpy(out, greeting + BUILD, LS_GREETING_BUILD);
    out[LS_GREETING_BUILD - 1] = 0;
    ls_printable_line(out);
}

/* ---- what is compared ---- */

/* LS_PEER: the other side is not a rank. LS_INVALID: it is a rank of a version whose greetings have another form. */
static ls_status check_protocol(const ls_greeting *g) {
    const uint32_t protocol = read_number(g->theirs + PROTOCOL);
    char build[LS_GREETING_BUILD];
    if (memcmp(g->theirs + MAGIC, magic, sizeof magic) != 0)
        return ls_error(LS_PEER, "what is there speaks something else than Longspan");
    if (protocol == THIS_PROTOCOL) return ls_ok();
    read_build(g->theirs, build);
    return ls_error(LS_INVALID,
                    "rank %d is of build %s with protocol %u, rank %d of build %s with protocol %u: expected one build "
                    "on all ranks",
                    g->me.rank, this_build, THIS_PROTOCOL, g->peer.rank, build, protocol);
}

/* Whether each side means the other. */
static ls_status check_parties(const ls_greeting *g) {
    const bool meant =
        g->peer.purpose == g->me.purpose && g->peer.peer == g->me.rank && (g->listens || g->peer.rank == g->me.peer);
    return meant ? ls_ok()
                 : ls_error(LS_PEER, "rank %d is there, where rank %d was expected", g->peer.rank, g->me.peer);
}

/* LS_INVALID names the first property that differs, with its values on both sides. */
static ls_status check_build(const ls_greeting *g) {
    char build[LS_GREETING_BUILD];
    read_build(g->theirs, build);
    if (strcmp(build, this_build) != 0)
        return ls_error(LS_INVALID, "rank %d is of build %s, rank %d of build %s: expected one build on all ranks",
                        g->me.rank, this_build, g->peer.rank, build);
    if (memcmp(g->theirs + BYTE_ORDER_MARK, g->mine + BYTE_ORDER_MARK, 4) != 0)
        return ls_error(LS_INVALID,
                        "ranks %d and %d store numbers in another order of bytes: expected one on all ranks",
                        g->me.rank, g->peer.rank);
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        const unsigned theirs = g->theirs[SIZES + 2 * i] | (unsigned)g->theirs[SIZES + 2 * i + 1] << 8;
        if (theirs != sizes[i])
            return ls_error(LS_INVALID,
                            "structure %zu of messages has %u bytes on rank %d and %u on rank %d: expected one build "
                            "for one kind of machine",
                            i, (unsigned)sizes[i], g->me.rank, theirs, g->peer.rank);
    }
    return ls_ok();
}

/* LS_PEER with the likely reason why the keys differ. */
static ls_status explain_key(const ls_greeting *g) {
    const ls_party *me = &g->me, *peer = &g->peer;
    if (peer->ranks != me->ranks)
        return ls_error(LS_PEER, "rank %d there is of a job of %d ranks, this is rank %d of %d", peer->rank,
                        peer->ranks, me->rank, me->ranks);
    if (peer->has_secret != me->has_secret)
        return ls_error(LS_PEER, "rank %d has %s secret, rank %d has %s: expected %s to be the same for all ranks",
                        me->rank, me->has_secret ? "a" : "no", peer->rank, peer->has_secret ? "one" : "none",
                        LS_SECRET_VARIABLE);
    return ls_error(LS_PEER, "rank %d there has another secret than rank %d, or belongs to another job", peer->rank,
                    me->rank);
}

/* ---- the steps ---- */

typedef enum step { SAY, HEAR, PROVE, CHECK, STEPS } step;

static void make_proof(const ls_greeting *g, bool of_listener, uint8_t out[LS_SHA256_BYTES]) {
    static const char caller[16] = "longspan caller", listener[16] = "longspan listens";
    ls_hmac mac;
    ls_hmac_begin(&mac, g->key.bytes, sizeof g->key.bytes);
    ls_hmac_add(&mac, of_listener ? listener : caller, sizeof caller);
    ls_hmac_add(&mac, g->listens ? g->theirs : g->mine, LS_GREETING_BYTES);
    ls_hmac_add(&mac, g->listens ? g->mine : g->theirs, LS_GREETING_BYTES);
    ls_hmac_end(&mac, out);
}

/* Sends without waiting: the first bytes of a connection always fit into its buffer, whatever the other side does. */
static ls_status say(const ls_greeting *g, const uint8_t *bytes, size_t n) {
    const ssize_t sent = send(g->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == (ssize_t)n) return ls_ok();
    return ls_error(LS_PEER, "what is there takes no greeting: send: %s", sent < 0 ? strerror(errno) : "no room");
}

/*
 * Receives without waiting; *whole: all the bytes have come. A call that receives zero bytes means that the other side
 * has closed.
 */
static ls_status hear(ls_greeting *g, uint8_t *bytes, size_t n, bool *whole) {
    while (g->got < n) {
        const ssize_t came = recv(g->fd, bytes + g->got, n - g->got, MSG_DONTWAIT);
        if (came < 0 && (errno == EAGAIN || errno == EINTR)) return ls_ok();
        if (came < 0) return ls_error(LS_PEER, "what is there does not answer: recv: %s", strerror(errno));
        if (came == 0) return g->heard ? explain_key(g) : ls_error(LS_PEER, "what is there closed the connection");
        g->got += (size_t)came;
    }
    g->got = 0;
    *whole = true;
    return ls_ok();
}

static ls_status take_greeting(ls_greeting *g) {
    g->peer = read_party(g->theirs);
    if (g->listens) {
        g->me.peer = g->peer.rank;
        write_party(g->mine, &g->me);
    }
    const ls_status status = check_protocol(g);
    if (status.code == LS_INVALID && g->listens) LS_TRY(say(g, g->mine, sizeof g->mine)); /* to name this build, too */
    LS_TRY(status);
    g->heard = true;
    return check_parties(g);
}

static ls_status take_proof(ls_greeting *g) {
    uint8_t expected[LS_SHA256_BYTES];
    make_proof(g, !g->listens, expected);
    g->proven = ls_is_same_code(expected, g->proof);
    return g->proven ? ls_ok() : explain_key(g);
}

/* Goes on with one step; *whole: the step is complete. */
static ls_status take_step(ls_greeting *g, step what, bool *whole) {
    uint8_t proof[LS_SHA256_BYTES];
    switch (what) {
    case SAY:
        *whole = true;
        return say(g, g->mine, sizeof g->mine);
    case HEAR:
        LS_TRY(hear(g, g->theirs, sizeof g->theirs, whole));
        return *whole ? take_greeting(g) : ls_ok();
    case PROVE:
        *whole = true;
        make_proof(g, g->listens, proof);
        return say(g, proof, sizeof proof);
    default:
        LS_TRY(hear(g, g->proof, sizeof g->proof, whole));
        return *whole ? take_proof(g) : ls_ok();
    }
}

ls_status ls_greeting_advance(ls_greeting *g) {
    static const step caller[STEPS] = {SAY, HEAR, PROVE, CHECK}, listener[STEPS] = {HEAR, SAY, CHECK, PROVE};
    while (g->step < STEPS) {
        bool whole = false;
        LS_TRY(take_step(g, (g->listens ? listener : caller)[g->step], &whole));
        if (!whole) return ls_ok();
        g->step++;
    }
    LS_TRY(check_build(g));
    g->done = true;
    return ls_ok();
}

/* ---- the interface ---- */

ls_status ls_greeting_begin(ls_greeting *g, int fd, const ls_key *key, const ls_party *me, bool listens) {
    *g = (ls_greeting){.fd = fd, .key = *key, .listens = listens, .me = *me};
    if (getrandom(g->mine + RANDOM, LS_SHA256_BYTES, 0) != LS_SHA256_BYTES)
        return ls_error(LS_IO, "rank %d cannot draw a random greeting: getrandom: %s", me->rank, strerror(errno));
    write_party(g->mine, me);
    return ls_ok();
}

ls_status ls_greeting_run(ls_greeting *g, const ls_patience *patience, const char *what) {
    const double began = ls_seconds();
    for (;;) {
        LS_TRY(ls_greeting_advance(g));
        if (g->done) return ls_ok();
        LS_TRY(ls_socket_await(g->fd, POLLIN, patience, began, what));
    }
}
