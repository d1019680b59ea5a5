/*
 * chaos: any other transport as badly behaved as the contract allows, from a seed. "chaos:SEED[:SECONDS[:OVER]]" wraps
 * transport OVER (default shm).
 *
 *   - a put is cut into pieces, which arrive in any order, mixed with those of other puts, some time before quiet returns;
 *     each reads its source only then, so that a source reused too early shows;
 *   - its signal follows its last piece, at an unknown time, and not before SECONDS have passed since the put;
 *   - a plain signal may overtake earlier puts, and be late itself;
 *   - from the call until a piece arrives its target reads 0xFF (a NaN), so that reading before the signal shows.
 * Signals of one word keep their order: a word only rises. Quiet completes payloads and does not sit out SECONDS. With SECONDS
 * above 0 nothing takes longer than that: for measuring what a slow network costs.
 *
 * Deliveries are made by the sender, whenever it ticks, tests, sleeps, quiets or leaves; with SECONDS above 0 also
 * by a thread of its own, the delivery thread, since a network waits for no kernel to end.
 */
#include "comm/comm_impl.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One contiguous part of a payload: where it is and where it goes. */
typedef struct piece {
    size_t to, from, bytes;
} piece;

/* Under way: pieces, in the order in which they will arrive, and then perhaps a signal. */
struct ls_chaos_message {
    ls_chaos_message *next; /* later ones */
    int peer;
    const char *source;
    piece *pieces;
    size_t n, delivered;
    int word; /* -1: no signal */
    uint64_t generation;
    double due; /* the signal is not before, ls_seconds */
};

#define NAP_SECONDS 50e-6 /* between two tries while asleep */

/* Delivers what is due while the rank computes. Everything else of the rank's end of chaos is under its lock, too. */
struct ls_chaos_delivery {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news; /* a message, or the end */
    bool leaving;
};

static void lock(const ls_comm *comm) {
    if (comm->chaos.delivery != NULL) pthread_mutex_lock(&comm->chaos.delivery->lock);
}

static void unlock(const ls_comm *comm) {
    if (comm->chaos.delivery == NULL) return;
    pthread_cond_signal(&comm->chaos.delivery->news);
    pthread_mutex_unlock(&comm->chaos.delivery->lock);
}

static uint64_t draw(ls_comm *comm, uint64_t below) {
    return ls_rng_below(comm->world->chaos.seed, (uint64_t)comm->rank, comm->chaos.draws++, below);
}

static const ls_transport *inner_of(const ls_comm *comm) { return comm->world->chaos.inner; }

/* Reads "SEED[:SECONDS[:OVER]]". */
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
    if (world->options.ranks > settings.inner->max_ranks)
        return ls_error(LS_INVALID, "transport %s takes 1 to %d ranks, not %d", settings.inner->name,
                        settings.inner->max_ranks, world->options.ranks);
    world->chaos = settings;
    return settings.inner->map(world);
}

static void unmap(ls_world *world) { world->chaos.inner->unmap(world); }

static void *peer_heap(const ls_comm *comm, int peer) { return inner_of(comm)->peer_heap(comm, peer); }

static uint64_t word_value(const ls_comm *comm, int word) { return inner_of(comm)->word(comm, word); }

/* Offset of contiguous run i of a range (innermost pair fastest). */
static size_t run_offset(const ls_range *range, size_t i) {
    int64_t at = (int64_t)range->offset;
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        const size_t count = (size_t)range->count[d];
        at += (int64_t)(i % count) * range->stride[d];
        i /= count;
    }
    return (size_t)at;
}

/* How many of the next `left` bytes make one piece: mostly all, sometimes a part. */
static size_t cut(ls_comm *comm, size_t left) {
    return left > 1 && draw(comm, 2) == 0 ? 1 + (size_t)draw(comm, left) : left;
}

/* Cuts the payload where either range is cut, and at random; then shuffles. */
static void cut_up(ls_comm *comm, ls_chaos_message *p, const ls_range *to, const ls_range *from) {
    const size_t bytes = ls_range_bytes(to);
    LS_ASSERT(bytes == ls_range_bytes(from));
    size_t room = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t in_to = at % to->length, in_from = at % from->length;
        const size_t n = cut(comm, ls_min(to->length - in_to, from->length - in_from));
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

static void send(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from,
                 int word, uint64_t generation) {
    ls_chaos_message *p = add(comm, peer, word, generation);
    p->source = source;
    p->due = ls_seconds() + comm->world->chaos.delay;
    cut_up(comm, p, to, from);
    poison(comm, p);
}

static void deliver_piece(ls_comm *comm, ls_chaos_message *p) {
    const piece *part = &p->pieces[p->delivered++];
    const ls_range to = ls_range_flat(part->to, part->bytes), from = ls_range_flat(part->from, part->bytes);
    inner_of(comm)->put(comm, p->peer, &to, p->source, &from);
}

/* Whether an earlier message will set the same word. */
static bool is_behind(const ls_comm *comm, const ls_chaos_message *p) {
    for (const ls_chaos_message *e = comm->chaos.messages; e != p; e = e->next) {
        if (e->word == p->word && e->peer == p->peer) return true;
    }
    return false;
}

/* Takes the message at *link off the list, once its payload is there, with its signal. */
static void finish(ls_comm *comm, ls_chaos_message **link) {
    ls_chaos_message *p = *link;
    inner_of(comm)->quiet(comm);
    if (p->word >= 0) inner_of(comm)->signal(comm, p->peer, p->word, p->generation);
    *link = p->next;
    free(p->pieces);
    free(p);
}

/* One more piece, or the signal if it may go; whether anything was done. */
static bool advance(ls_comm *comm, ls_chaos_message **link) {
    ls_chaos_message *p = *link;
    if (p->delivered < p->n) {
        deliver_piece(comm, p);
        return true;
    }
    if (p->word >= 0 && (p->due > ls_seconds() || is_behind(comm, p))) return false;
    finish(comm, link);
    return true;
}

/* Where some message hangs; NULL when none is under way. */
static ls_chaos_message **any_message(ls_comm *comm) {
    ls_chaos_message **link = &comm->chaos.messages;
    if (*link == NULL) return NULL;
    for (uint64_t steps = draw(comm, 32); steps > 0; steps--)
        link = (*link)->next != NULL ? &(*link)->next : &comm->chaos.messages;
    return link;
}

/* Delivers what SECONDS hold back no longer. */
static void deliver_due(ls_comm *comm) {
    const double now = ls_seconds();
    for (ls_chaos_message **link = &comm->chaos.messages; *link != NULL;) {
        ls_chaos_message *p = *link;
        while (p->due <= now && p->delivered < p->n) deliver_piece(comm, p);
        if (p->due > now || !advance(comm, link)) link = &p->next;
    }
}

/* When the next message is due that is not so yet; INFINITY: none. */
static double next_due(const ls_comm *comm) {
    const double now = ls_seconds();
    double due = INFINITY;
    for (const ls_chaos_message *p = comm->chaos.messages; p != NULL; p = p->next) {
        if (p->due > now) due = fmin(due, p->due);
    }
    return due;
}

static void *deliver_all(void *argument) {
    ls_comm *comm = argument;
    ls_chaos_delivery *c = comm->chaos.delivery;
    pthread_mutex_lock(&c->lock);
    while (!c->leaving) {
        deliver_due(comm);
        const double due = next_due(comm);
        const struct timespec until = {(time_t)due, (long)((due - floor(due)) * 1e9)};
        if (isinf(due))
            pthread_cond_wait(&c->news, &c->lock);
        else
            pthread_cond_timedwait(&c->news, &c->lock, &until);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* From the first message on, where there is a delay. Without a thread the sender delivers alone. */
static void start_delivery(ls_comm *comm) {
    if (comm->world->chaos.delay <= 0 || comm->chaos.delivery != NULL) return;
    ls_chaos_delivery *c = calloc(1, sizeof *c);
    LS_ASSERT(c != NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->news, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&c->lock, NULL);
    comm->chaos.delivery = c;
    if (pthread_create(&c->thread, NULL, deliver_all, comm) == 0) return;
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
    pthread_cond_destroy(&c->news);
    comm->chaos.delivery = NULL;
    free(c);
}

static void put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from,
                       int word, uint64_t generation) {
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

/* Delivers something, perhaps nothing. */
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
    return idle ? INFINITY : NAP_SECONDS;
}

/* All payloads arrive; signals go when they may. */
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
    .max_ranks = 1024,
    .addressable = true, /* as are those that it may wrap */
    .map = map,
    .unmap = unmap,
    .peer_heap = peer_heap,
    .put = put,
    .put_signal = put_signal,
    .signal = signal,
    .word = word_value,
    .quiet = quiet,
    .progress = progress,
    .leave = leave,
};
