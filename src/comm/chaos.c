/*
 * chaos makes another transport as adverse as the contract allows, at random from a seed.
 * "chaos:SEED[:SECONDS[:TRANSPORT]]" wraps TRANSPORT (default shm).
 *
 *   - A put is cut into pieces. They arrive in any order, mixed with those of other puts, at the latest before quiet
 *     returns. A piece reads its source when it arrives, which exposes a source that is overwritten too early. A put is
 *     done when its last piece has arrived.
 *   - The signal of a put follows its last piece at an arbitrary time, but not earlier than SECONDS after the put.
 *   - A plain signal may arrive before earlier puts, and late.
 *   - From the call of a put until a piece arrives, the target of that piece holds 0xFF bytes (a NaN), which exposes
 *     reads before the signal.
 *   - Signals on their way to one word arrive in any order, also those of puts. A word only rises, so those that a
 * later one has overtaken are dropped. Quiet completes payloads without waiting for SECONDS. With SECONDS above 0 no
 * message takes longer than that, so that the cost of a slow network can be measured.
 *
 * The sender delivers its messages when it ticks, tests, sleeps, calls quiet or leaves. With SECONDS above 0 a delivery
 * thread of the sender does so too, because a network does not wait for the end of a kernel.
 */
#include "comm/comm_impl.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One contiguous part of a payload: offsets in target heap and source, and its size. */
typedef struct piece {
    size_t to, from, bytes;
} piece;

/* A message on its way: pieces, in the order in which they will arrive, and then perhaps a signal. */
struct ls_chaos_message {
    ls_chaos_message *next; /* the next later message */
    int peer;
    const char *source;
    piece *pieces;
    size_t n, delivered;
    uint64_t ticket; /* of a put; 0: it is a plain signal */
    int word;        /* -1: no signal, or one that was overtaken */
    uint64_t generation;
    double due; /* the signal must not arrive before this ls_seconds() */
};

#define POLL_SECONDS 50e-6 /* between two deliveries while the rank sleeps */

/*
 * The delivery thread of a rank: it delivers due messages while the rank computes. Its lock protects all of
 * ls_comm.chaos.
 */
struct ls_chaos_delivery {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is a new message, or `leaving` is set */
    bool leaving;
};

static void lock(const ls_comm *comm) {
    if (comm->chaos.delivery != NULL) pthread_mutex_lock(&comm->chaos.delivery->lock);
}

static void unlock(const ls_comm *comm) {
    if (comm->chaos.delivery == NULL) return;
    pthread_cond_signal(&comm->chaos.delivery->changed);
    pthread_mutex_unlock(&comm->chaos.delivery->lock);
}

static uint64_t draw(ls_comm *comm, uint64_t below) {
    return ls_rng_below(comm->world->chaos.seed, (uint64_t)comm->rank, comm->chaos.draws++, below);
}

static const ls_transport *inner_of(const ls_comm *comm) { return comm->world->chaos.inner; }

/* Reads "SEED[:SECONDS[:TRANSPORT]]". */
static ls_status read_settings(const char *text, ls_chaos_settings *out) {
    const char *name = "shm";
    char *end;
    *out = (ls_chaos_settings){.seed = strtoull(text, &end, 10)};
    bool good = end != text;
    if (good && *end == ':') {
        const char *seconds = end + 1;
        out->delay = strtod(seconds, &end);
        good = end != seconds && out->delay >= 0 && isfinite(out->delay);
        if (good && *end == ':') {
            name = end + 1;
            end = strchr(name, 0);
        }
    }
    out->inner = ls_transport_find(name);
    if (!good || *end != 0 || out->inner == NULL || out->inner == &ls_transport_chaos)
        return ls_error(LS_INVALID, "transport 'chaos:%s': expected chaos:SEED[:SECONDS[:TRANSPORT]]", text);
    return ls_ok();
}

static ls_status map(ls_world *world) {
    ls_chaos_settings settings;
    LS_TRY(read_settings(world->settings, &settings));
    if (world->options.ranks > 1 && settings.inner->alone)
        return ls_error(LS_INVALID, "transport %s takes 1 rank, not %d", settings.inner->name, world->options.ranks);
    world->chaos = settings;
    return settings.inner->map(world);
}

static void unmap(ls_world *world) { world->chaos.inner->unmap(world); }

static void *peer_heap(const ls_comm *comm, int peer) { return inner_of(comm)->peer_heap(comm, peer); }

static uint64_t word_value(const ls_comm *comm, int word) { return inner_of(comm)->word(comm, word); }

/* The offset of contiguous run i of a range, counted in the innermost dimension first. */
static size_t run_offset(const ls_range *range, size_t i) {
    int64_t at = (int64_t)range->offset;
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        const size_t count = (size_t)range->count[d];
        at += (int64_t)(i % count) * range->stride[d];
        i /= count;
    }
    return (size_t)at;
}

/* The size of the next piece, of at most `left` bytes: half of the time all of them. */
static size_t piece_bytes(ls_comm *comm, size_t left) {
    return left > 1 && draw(comm, 2) == 0 ? 1 + (size_t)draw(comm, left) : left;
}

/* Cuts the payload where a run of either range ends, and at random places; then shuffles the pieces. */
static void make_pieces(ls_comm *comm, ls_chaos_message *p, const ls_range *to, const ls_range *from) {
    const size_t bytes = ls_range_bytes(to);
    LS_ASSERT(bytes == ls_range_bytes(from));
    size_t room = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t in_to = at % to->length, in_from = at % from->length;
        const size_t n = piece_bytes(comm, ls_min(to->length - in_to, from->length - in_from));
        if (p->n == room) {
            room = 2 * room + 8;
            p->pieces = realloc(p->pieces, room * sizeof *p->pieces);
            LS_ASSERT(p->pieces != NULL);
        }
        p->pieces[p->n++] = (piece){.to = run_offset(to, at / to->length) + in_to,
                                    .from = run_offset(from, at / from->length) + in_from,
                                    .bytes = n};
        at += n;
    }
    for (size_t i = p->n; i > 1; i--) {
        const size_t j = (size_t)draw(comm, i);
        const piece other = p->pieces[j];
        p->pieces[j] = p->pieces[i - 1];
        p->pieces[i - 1] = other;
    }
}

/* Fills the targets of all pieces with 0xFF. */
static void poison(ls_comm *comm, const ls_chaos_message *p) {
    char bytes[256];
    memset(bytes, 0xFF, sizeof bytes);
    for (size_t i = 0; i < p->n; i++) {
        for (size_t at = 0; at < p->pieces[i].bytes; at += sizeof bytes) {
            const size_t n = ls_min(sizeof bytes, p->pieces[i].bytes - at);
            const ls_range there = ls_range_flat(p->pieces[i].to + at, n), here = ls_range_flat(0, n);
            inner_of(comm)->put(comm, p->peer, &there, bytes, &here);
        }
    }
    inner_of(comm)->quiet(comm);
}

/* Appends an empty message to the list. */
static ls_chaos_message *add(ls_comm *comm, int peer, int word, uint64_t generation) {
    ls_chaos_message *p = calloc(1, sizeof *p);
    LS_ASSERT(p != NULL);
    p->peer = peer;
    p->word = word;
    p->generation = generation;
    ls_chaos_message **last = &comm->chaos.messages;
    while (*last != NULL) last = &(*last)->next;
    *last = p;
    return p;
}

static void send(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from, int word,
                 uint64_t generation) {
    ls_chaos_message *p = add(comm, peer, word, generation);
    p->source = source;
    p->ticket = comm->puts;
    p->due = ls_seconds() + comm->world->chaos.delay;
    make_pieces(comm, p, to, from);
    poison(comm, p);
}

static void deliver_piece(ls_comm *comm, ls_chaos_message *p) {
    const piece *part = &p->pieces[p->delivered++];
    const ls_range to = ls_range_flat(part->to, part->bytes), from = ls_range_flat(part->from, part->bytes);
    inner_of(comm)->put(comm, p->peer, &to, p->source, &from);
    if (p->delivered == p->n) ls_bell_ring(ls_line(comm)); /* the put is done */
}

/* Sends the signal of a message. Those of lower generations that are on their way to the same word are dropped. */
static void deliver_signal(ls_comm *comm, const ls_chaos_message *p) {
    for (ls_chaos_message *e = comm->chaos.messages; e != NULL; e = e->next) {
        if (e->peer == p->peer && e->word == p->word && e->generation < p->generation) e->word = -1;
    }
    inner_of(comm)->signal(comm, p->peer, p->word, p->generation);
}

/* Completes the message at *link, whose pieces are all delivered: sends its signal and removes it from the list. */
static void finish(ls_comm *comm, ls_chaos_message **link) {
    ls_chaos_message *p = *link;
    inner_of(comm)->quiet(comm);
    if (p->word >= 0) deliver_signal(comm, p);
    *link = p->next;
    free(p->pieces);
    free(p);
}

/* Delivers one more piece, or the signal if it is allowed; returns whether anything was done. */
static bool advance(ls_comm *comm, ls_chaos_message **link) {
    ls_chaos_message *p = *link;
    if (p->delivered < p->n) {
        deliver_piece(comm, p);
        return true;
    }
    if (p->word >= 0 && p->due > ls_seconds()) return false;
    finish(comm, link);
    return true;
}

/* The link to a random message; NULL when none is on its way. */
static ls_chaos_message **any_message(ls_comm *comm) {
    ls_chaos_message **link = &comm->chaos.messages;
    if (*link == NULL) return NULL;
    for (uint64_t steps = draw(comm, 32); steps > 0; steps--)
        link = (*link)->next != NULL ? &(*link)->next : &comm->chaos.messages;
    return link;
}

/* Delivers the messages that are due. */
static void deliver_due(ls_comm *comm) {
    const double now = ls_seconds();
    for (ls_chaos_message **link = &comm->chaos.messages; *link != NULL;) {
        ls_chaos_message *p = *link;
        while (p->due <= now && p->delivered < p->n) deliver_piece(comm, p);
        if (p->due > now || !advance(comm, link)) link = &p->next;
    }
}

/* The earliest future time at which a message is due; INFINITY: none. */
static double next_due(const ls_comm *comm) {
    const double now = ls_seconds();
    double due = INFINITY;
    for (const ls_chaos_message *p = comm->chaos.messages; p != NULL; p = p->next) {
        if (p->due > now) due = fmin(due, p->due);
    }
    return due;
}

static void *delivery_main(void *argument) {
    ls_comm *comm = argument;
    ls_chaos_delivery *c = comm->chaos.delivery;
    pthread_mutex_lock(&c->lock);
    while (!c->leaving) {
        deliver_due(comm);
        const double due = next_due(comm);
        const struct timespec until = {(time_t)due, (long)((due - floor(due)) * 1e9)};
        if (isinf(due))
            pthread_cond_wait(&c->changed, &c->lock);
        else
            pthread_cond_timedwait(&c->changed, &c->lock, &until);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/*
 * Starts the delivery thread at the first message if there is a delay. If no thread can be started, the sender delivers
 * alone.
 */
static void start_delivery(ls_comm *comm) {
    if (comm->world->chaos.delay <= 0 || comm->chaos.delivery != NULL) return;
    ls_chaos_delivery *c = calloc(1, sizeof *c);
    LS_ASSERT(c != NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&c->lock, NULL);
    comm->chaos.delivery = c;
    if (pthread_create(&c->thread, NULL, delivery_main, comm) == 0) return;
    comm->chaos.delivery = NULL;
    free(c);
}

static void leave(ls_comm *comm) {
    ls_chaos_delivery *c = comm->chaos.delivery;
    if (c == NULL) return;
    lock(comm);
    c->leaving = true;
    unlock(comm);
    pthread_join(c->thread, NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    comm->chaos.delivery = NULL;
    free(c);
}

static void put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from, int word,
                       uint64_t generation) {
    start_delivery(comm);
    lock(comm);
    send(comm, peer, to, source, from, word, generation);
    unlock(comm);
}

static void put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from) {
    put_signal(comm, peer, to, source, from, -1, 0);
}

static void signal(ls_comm *comm, int peer, int word, uint64_t generation) {
    start_delivery(comm);
    lock(comm);
    (void)add(comm, peer, word, generation);
    unlock(comm);
}

/* Delivers a random part of the messages, perhaps nothing. */
static double progress(ls_comm *comm) {
    lock(comm);
    if (comm->world->chaos.delay > 0) deliver_due(comm);
    for (uint64_t tries = draw(comm, 4); tries > 0; tries--) {
        ls_chaos_message **link = any_message(comm);
        if (link == NULL) break;
        const ls_chaos_message *p = *link;
        for (uint64_t n = 1 + draw(comm, 8); n > 0 && *link == p; n--) {
            if (!advance(comm, link)) break;
        }
    }
    const bool idle = comm->chaos.messages == NULL;
    unlock(comm);
    return idle ? INFINITY : POLL_SECONDS;
}

/* Messages are in the order of their tickets. */
static bool done(ls_comm *comm, uint64_t ticket) {
    lock(comm);
    const ls_chaos_message *p = comm->chaos.messages;
    while (p != NULL && p->ticket <= ticket && p->delivered == p->n) p = p->next;
    const bool all = p == NULL || p->ticket > ticket;
    unlock(comm);
    return all;
}

/* Delivers all payloads, and the signals that are allowed. */
static void quiet(ls_comm *comm) {
    lock(comm);
    for (ls_chaos_message **link = &comm->chaos.messages; *link != NULL;) {
        ls_chaos_message *p = *link;
        while (p->delivered < p->n) deliver_piece(comm, p);
        if (!advance(comm, link)) link = &p->next;
    }
    inner_of(comm)->quiet(comm);
    unlock(comm);
}

const ls_transport ls_transport_chaos = {
    .name = "chaos",
    .addressable = true, /* because all transports that it can wrap are */
    .map = map,
    .unmap = unmap,
    .peer_heap = peer_heap,
    .put = put,
    .put_signal = put_signal,
    .signal = signal,
    .word = word_value,
    .quiet = quiet,
    .done = done,
    .progress = progress,
    .leave = leave,
};
