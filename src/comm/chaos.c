/*
 * chaos makes the transports of a rank as adverse as the contract allows, at random from a seed. It lies between the
 * rank and its links: "chaos:SEED[:SECONDS[:TRANSPORTS]]".
 *
 *   - A put is cut into pieces. They arrive in any order, mixed with those of other puts, at the latest before quiet
 *     returns. A piece reads its source when it arrives, which exposes a source that is overwritten too early. A put is
 *     done when its last piece has arrived.
 *   - The signal of a put follows its last piece at an arbitrary time, but not earlier than SECONDS after the put.
 *   - A plain signal may arrive before earlier puts, and late.
 *   - From the call of a put until a piece arrives, the target of that piece holds 0xFF bytes (a NaN), which exposes
 *     reads that come before the signal.
 *   - Signals on their way to one word, including those of puts, arrive in any order. A word only rises, so a signal
 *     that a later one has overtaken is dropped.
 *
 * Quiet completes payloads without waiting for SECONDS. With SECONDS above 0 no message takes longer than that, so that
 * the cost of a slow network can be measured.
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
typedef struct message message;
struct message {
    message *next; /* the next later message */
    int peer;
    const char *source;
    piece *pieces;
    size_t n, delivered;
    uint64_t ticket; /* of a put; 0: it is a plain signal */
    int word;        /* -1: no signal */
    uint64_t generation;
    bool overtaken; /* by the signal of a later generation, so its own signal is dropped */
    double due;     /* ls_seconds() before which the signal must not arrive */
};

#define POLL_SECONDS 50e-6 /* between two deliveries while the rank sleeps */

/* The chaos of a rank. Once there is a delivery thread, the lock protects all of it and the inner links. */
typedef struct chaos {
    const ls_endpoint *end;
    ls_chaos_settings settings;
    ls_link *routes; /* [ranks] to each peer, over one of the links */
    ls_link links[LS_TRANSPORTS];
    int n_links;
    message *messages; /* on their way, oldest first */
    uint64_t draws;    /* random numbers drawn so far */
    uint64_t pieces;   /* given to the links so far: the ticket of the last one */
    bool delivers;     /* there is a delivery thread, which delivers due messages while the rank computes */
    bool leaving;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is a new message, or `leaving` is set */
} chaos;

static void lock(chaos *c) {
    if (c->delivers) pthread_mutex_lock(&c->lock);
}

static void unlock(chaos *c) {
    if (!c->delivers) return;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static uint64_t draw(chaos *c, uint64_t below) {
    return ls_rng_below(c->settings.seed, (uint64_t)c->end->rank, c->draws++, below);
}

/* ---- the links below ---- */

/* Puts a piece of a message. */
static void put_below(chaos *c, const message *p, const ls_range *to, const void *source, const ls_range *from) {
    const ls_put put = {.peer = p->peer,
                        .word = p->word,
                        .generation = p->generation,
                        .piece = true,
                        .ticket = ++c->pieces,
                        .source = source,
                        .to = to,
                        .from = from};
    c->routes[p->peer].transport->put(c->routes[p->peer].state, &put);
}

static void quiet_below(chaos *c) {
    for (int i = 0; i < c->n_links; i++) c->links[i].transport->quiet(c->links[i].state);
}

/* Whether all pieces that were given to the links are done. */
static bool done_below(chaos *c) {
    for (int i = 0; i < c->n_links; i++) {
        const ls_link *link = &c->links[i];
        if (link->transport->done != NULL && !link->transport->done(link->state, c->pieces)) return false;
    }
    return true;
}

static double progress_below(chaos *c) {
    double until = INFINITY;
    for (int i = 0; i < c->n_links; i++) {
        const ls_link *link = &c->links[i];
        if (link->transport->progress != NULL) until = fmin(until, link->transport->progress(link->state));
    }
    return until;
}

/* ---- cutting ---- */

/* The size of the next piece, of at most `left` bytes: half of the time all of them. */
static size_t piece_bytes(chaos *c, size_t left) {
    return left > 1 && draw(c, 2) == 0 ? 1 + (size_t)draw(c, left) : left;
}

/* Cuts the payload where a run of either range ends, and at random places; then shuffles the pieces. */
static void make_pieces(chaos *c, message *p, const ls_range *to, const ls_range *from) {
    const size_t bytes = ls_range_bytes(to);
    LS_ASSERT(bytes == ls_range_bytes(from));
    size_t room = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t in_to = at % to->length, in_from = at % from->length;
        const size_t n = piece_bytes(c, ls_min(to->length - in_to, from->length - in_from));
        if (p->n == room) {
            room = 2 * room + 8;
            p->pieces = realloc(p->pieces, room * sizeof *p->pieces);
            LS_ASSERT(p->pieces != NULL);
        }
        p->pieces[p->n++] = (piece){.to = ls_range_piece(to, at / to->length) + in_to,
                                    .from = ls_range_piece(from, at / from->length) + in_from,
                                    .bytes = n};
        at += n;
    }
    for (size_t i = p->n; i > 1; i--) {
        const size_t j = (size_t)draw(c, i);
        const piece other = p->pieces[j];
        p->pieces[j] = p->pieces[i - 1];
        p->pieces[i - 1] = other;
    }
}

/* Fills the targets of all pieces with 0xFF. */
static void poison(chaos *c, const message *p) {
    char bytes[256];
    memset(bytes, 0xFF, sizeof bytes);
    for (size_t i = 0; i < p->n; i++) {
        for (size_t at = 0; at < p->pieces[i].bytes; at += sizeof bytes) {
            const size_t n = ls_min(sizeof bytes, p->pieces[i].bytes - at);
            const ls_range there = ls_range_flat(p->pieces[i].to + at, n), here = ls_range_flat(0, n);
            put_below(c, p, &there, bytes, &here);
        }
    }
    quiet_below(c);
}

/* Appends an empty message to the list. */
static message *add(chaos *c, int peer, int word, uint64_t generation) {
    message *p = calloc(1, sizeof *p);
    LS_ASSERT(p != NULL);
    p->peer = peer;
    p->word = word;
    p->generation = generation;
    message **last = &c->messages;
    while (*last != NULL) last = &(*last)->next;
    *last = p;
    return p;
}

static void send(chaos *c, const ls_put *put) {
    message *p = add(c, put->peer, put->word, put->generation);
    p->source = put->source;
    p->ticket = put->ticket;
    p->due = ls_seconds() + c->settings.delay;
    make_pieces(c, p, put->to, put->from);
    poison(c, p);
}

static void deliver_piece(chaos *c, message *p) {
    const piece *part = &p->pieces[p->delivered++];
    const ls_range to = ls_range_flat(part->to, part->bytes), from = ls_range_flat(part->from, part->bytes);
    put_below(c, p, &to, p->source, &from);
    if (p->delivered == p->n) ls_bell_ring(ls_endpoint_line(c->end)); /* the put is done, or will be soon */
}

static bool has_signal(const message *p) { return p->word >= 0 && !p->overtaken; }

/* Sends the signal of a message. Those of lower generations that are on their way to the same word are dropped. */
static void deliver_signal(chaos *c, const message *p) {
    for (message *e = c->messages; e != NULL; e = e->next) {
        if (e->peer == p->peer && e->word == p->word && e->generation < p->generation) e->overtaken = true;
    }
    c->routes[p->peer].transport->signal(c->routes[p->peer].state, p->peer, p->word, p->generation);
}

/* Completes the message at *link, whose pieces are all delivered: sends its signal and removes it from the list. */
static void finish(chaos *c, message **link) {
    message *p = *link;
    quiet_below(c);
    if (has_signal(p)) deliver_signal(c, p);
    *link = p->next;
    free(p->pieces);
    free(p);
}

/* Delivers one more piece, or the signal if it is allowed; returns whether anything was done. */
static bool advance(chaos *c, message **link) {
    message *p = *link;
    if (p->delivered < p->n) {
        deliver_piece(c, p);
        return true;
    }
    if (has_signal(p) && p->due > ls_seconds()) return false;
    finish(c, link);
    return true;
}

/* The list pointer to a random message; NULL: none is on its way. */
static message **any_message(chaos *c) {
    message **link = &c->messages;
    if (*link == NULL) return NULL;
    for (uint64_t steps = draw(c, 32); steps > 0; steps--) link = (*link)->next != NULL ? &(*link)->next : &c->messages;
    return link;
}

/* Delivers the messages that are due. */
static void deliver_due(chaos *c) {
    const double now = ls_seconds();
    for (message **link = &c->messages; *link != NULL;) {
        message *p = *link;
        while (p->due <= now && p->delivered < p->n) deliver_piece(c, p);
        if (p->due > now || !advance(c, link)) link = &p->next;
    }
}

/* The earliest future time at which a message is due; INFINITY: none. */
static double next_due(const chaos *c) {
    const double now = ls_seconds();
    double due = INFINITY;
    for (const message *p = c->messages; p != NULL; p = p->next) {
        if (p->due > now) due = fmin(due, p->due);
    }
    return due;
}

static void *delivery_main(void *argument) {
    chaos *c = argument;
    pthread_mutex_lock(&c->lock);
    while (!c->leaving) {
        deliver_due(c);
        const double due = next_due(c);
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
 * Starts the delivery thread at the first message if there is a delay. If the thread cannot be started, only the sender
 * delivers.
 */
static void start_delivery(chaos *c) {
    if (c->settings.delay <= 0 || c->delivers) return;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&c->lock, NULL);
    c->delivers = pthread_create(&c->thread, NULL, delivery_main, c) == 0;
}

static void end_delivery(chaos *c) {
    if (!c->delivers) return;
    lock(c);
    c->leaving = true;
    unlock(c);
    pthread_join(c->thread, NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
}

/* ---- the transport ---- */

static void put(void *state, const ls_put *p) {
    chaos *c = state;
    start_delivery(c);
    lock(c);
    send(c, p);
    unlock(c);
}

static void signal(void *state, int peer, int word, uint64_t generation) {
    chaos *c = state;
    start_delivery(c);
    lock(c);
    (void)add(c, peer, word, generation);
    unlock(c);
}

static ls_peer_state look(void *state, int peer) {
    chaos *c = state;
    lock(c);
    const ls_peer_state known = c->routes[peer].transport->look(c->routes[peer].state, peer);
    unlock(c);
    return known;
}

/* Delivers a random part of the messages, perhaps nothing. */
static double progress(void *state) {
    chaos *c = state;
    lock(c);
    if (c->settings.delay > 0) deliver_due(c);
    for (uint64_t tries = draw(c, 4); tries > 0; tries--) {
        message **link = any_message(c);
        if (link == NULL) break;
        const message *p = *link;
        for (uint64_t n = 1 + draw(c, 8); n > 0 && *link == p; n--) {
            if (!advance(c, link)) break;
        }
    }
    const double until = c->messages == NULL ? progress_below(c) : fmin(POLL_SECONDS, progress_below(c));
    unlock(c);
    return until;
}

/* Messages are in the order of their tickets. */
static bool done(void *state, uint64_t ticket) {
    chaos *c = state;
    lock(c);
    const message *p = c->messages;
    while (p != NULL && p->ticket <= ticket && p->delivered == p->n) p = p->next;
    const bool all = (p == NULL || p->ticket > ticket) && done_below(c);
    unlock(c);
    return all;
}

/* Delivers all payloads, and the signals that are allowed. */
static void quiet(void *state) {
    chaos *c = state;
    lock(c);
    for (message **link = &c->messages; *link != NULL;) {
        message *p = *link;
        while (p->delivered < p->n) deliver_piece(c, p);
        if (!advance(c, link)) link = &p->next;
    }
    quiet_below(c);
    unlock(c);
}

/* Called when no message is on its way any more. */
static void close(void *state) {
    chaos *c = state;
    end_delivery(c);
    for (int i = 0; i < c->n_links; i++) c->links[i].transport->close(c->links[i].state);
    free(c->routes);
    free(c);
}

static const ls_transport transport = {
    .name = "chaos",
    .put = put,
    .signal = signal,
    .look = look,
    .quiet = quiet,
    .done = done,
    .progress = progress,
    .close = close,
};

ls_status ls_chaos_wrap(const ls_chaos_settings *settings, ls_comm *comm) {
    const size_t bytes = (size_t)comm->end.ranks * sizeof *comm->routes;
    chaos *c = calloc(1, sizeof *c);
    ls_link *routes = malloc(bytes);
    if (c == NULL || routes == NULL) {
        free(c);
        free(routes);
        return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for the messages of rank %d", bytes, comm->end.rank);
    }
    *c = (chaos){.end = &comm->end, .settings = *settings, .routes = routes, .n_links = comm->n_links};
    memcpy(routes, comm->routes, bytes);
    memcpy(c->links, comm->links, sizeof c->links);
    comm->links[0] = (ls_link){&transport, c};
    comm->n_links = 1;
    for (int peer = 0; peer < comm->end.ranks; peer++) comm->routes[peer] = comm->links[0];
    return ls_ok();
}
