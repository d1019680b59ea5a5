/*
 * First messages between ranks, before any program runs. A call that registers memory may have no effect, and a signal
 * may be lost, without an error. So each rank sends every other rank a pattern, in one piece and in several, and a
 * plain signal, and each checks that they have arrived. After that, every kind of message that programs need has been
 * executed once.
 */
#include "device/cuda/route.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static unsigned char pattern_at(int from, int to, int i) { return (unsigned char)(1 + (from * 31 + to * 7 + i) % 255); }

static bool carries(int kind) { return kind != CUDA_PROBE_PLAIN; }

/* The queue on which the compiler puts messages of a kind: those that say that something was copied are on the last. */
static int queue_of(const cuda *c, const ls_device_message *m) {
    return m->carries ? c->device->options.queues - 1 : 0;
}

/* The bytes of a kind of message in the area of a peer: half of the area is one piece, half is several pieces. */
static ls_range part_of(int kind, size_t area, int peer) {
    enum { HALF = CUDA_PROBE_BYTES / 2, PIECES = 4 };
    const size_t at = area + (size_t)peer * CUDA_PROBE_BYTES;
    if (kind == CUDA_PROBE_PIECE) return ls_range_flat(at, HALF);
    return (ls_range){at + HALF, HALF / PIECES, {PIECES, 1, 1}, {HALF / PIECES, 0, 0}};
}

static ls_device_message message_to(const ls_cuda_symmetric *s, int peer, int kind) {
    ls_device_message m = {.word = (uint64_t *)(uintptr_t)(s->base + s->words) + ls_cuda_probe_word(s, s->rank, kind),
                           .generation = 1,
                           .peer = peer,
                           .carries = carries(kind)};
    if (!m.carries) return m;
    m.source = m.target = (char *)(uintptr_t)s->base;
    m.to = part_of(kind, s->came, s->rank);
    m.from = ls_range_flat(part_of(kind, s->sent, peer).offset, ls_range_bytes(&m.to));
    return m;
}

static ls_device_message message_from(const ls_cuda_symmetric *s, int peer, int kind) {
    return (ls_device_message){.word = (uint64_t *)(uintptr_t)(s->base + s->words) + ls_cuda_probe_word(s, peer, kind),
                               .generation = 1,
                               .peer = peer,
                               .awaits = true,
                               .carries = carries(kind)};
}

/* Puts the message on its queue's stream. *done: whether the stream has executed it within `patience` seconds. */
static ls_status execute(cuda *c, const ls_device_message *m, double patience, bool *done) {
    const ls_device_work work = {.name = "the first message", .event = {.queue = queue_of(c, m)}, .message = m};
    ls_cuda_stream stream = c->queues[work.event.queue].stream;
    const struct timespec nap = {0, 50000};
    const double began = ls_seconds();
    cuda_submission submission = {.c = c, .work = &work, .to = stream};
    LS_TRY(c->route->message(&submission));
    LS_TRY(ls_cuda_end_words(&submission));
    for (*done = false; !*done && ls_seconds() - began < patience;) {
        const unsigned result = c->driver.cuStreamQuery(stream);
        *done = result == LS_CUDA_SUCCESS;
        if (result != LS_CUDA_NOT_READY) LS_TRY(ls_cuda_check_work(c, result, "cuStreamQuery", &work));
        if (c->route->check != NULL) LS_TRY(c->route->check(c));
        if (!*done) nanosleep(&nap, NULL);
    }
    c->stuck |= !*done;
    return ls_ok();
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static ls_status send_all(cuda *c, int kind, double patience) {
    const ls_cuda_symmetric *s = c->symmetric;
    for (int peer = 0; peer < s->ranks; peer++) {
        const ls_device_message m = message_to(s, peer, kind);
        bool done = true;
        if (peer != s->rank) LS_TRY(execute(c, &m, patience, &done));
        if (!done)
            return ls_error(LS_UNSUPPORTED,
                            "%s: the first message from rank %d to rank %d was not sent within %g s; expected that it "
                            "is",
                            s->library, s->rank, peer, patience);
    }
    return ls_ok();
}

static ls_status write_patterns(const cuda *c, const ls_device_arena *memory) {
    const ls_cuda_symmetric *s = c->symmetric;
    unsigned char bytes[CUDA_PROBE_BYTES];
    for (int peer = 0; peer < s->ranks; peer++) {
        const ls_range slot = ls_range_flat(s->sent + (size_t)peer * CUDA_PROBE_BYTES, CUDA_PROBE_BYTES);
        for (int i = 0; i < CUDA_PROBE_BYTES; i++) bytes[i] = pattern_at(s->rank, peer, i);
        LS_TRY(ls_cuda_write(c->device, memory, &slot, bytes));
    }
    return ls_ok();
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

/* Compares the bytes of a kind from a peer: *at = the first wrong byte, whose value is *seen; -1: all are right. */
static ls_status compare(const cuda *c, const ls_device_arena *memory, int peer, int kind, int *at,
                         unsigned char *seen) {
    const ls_cuda_symmetric *s = c->symmetric;
    const ls_range part = part_of(kind, s->came, peer);
    const int first = (int)(part.offset - s->came) - peer * CUDA_PROBE_BYTES, n = (int)ls_range_bytes(&part);
    unsigned char came[CUDA_PROBE_BYTES];
    LS_TRY(ls_cuda_read(c->device, memory, &part, came));
    *at = -1;
    for (int i = n - 1; i >= 0; i--)
        if (came[i] != pattern_at(peer, s->rank, first + i)) *at = first + i, *seen = came[i];
    return ls_ok();
}

static ls_status receive_bytes(cuda *c, const ls_device_arena *memory, int peer, int kind, double patience) {
    const ls_cuda_symmetric *s = c->symmetric;
    const ls_device_message m = message_from(s, peer, kind);
    unsigned char seen = 0;
    bool done;
    int at;
    LS_TRY(execute(c, &m, patience, &done));
    LS_TRY(compare(c, memory, peer, kind, &at, &seen));
    if (!done)
        return ls_error(LS_UNSUPPORTED,
                        "%s: of the first message from rank %d to rank %d %s within %g s; expected both: what "
                        "registers memory, or signals, does nothing there",
                        s->library, peer, s->rank,
                        at < 0 ? "the bytes came and the signal did not" : "neither the bytes nor the signal came",
                        patience);
    if (at < 0) return ls_ok();
    return ls_error(LS_UNSUPPORTED,
                    "%s: of the first message from rank %d to rank %d the signal came before the bytes: byte %d of %d "
                    "is %d; expected %d",
                    s->library, peer, s->rank, at, CUDA_PROBE_BYTES, seen, pattern_at(peer, s->rank, at));
}

static ls_status receive_signal(cuda *c, int peer, double patience) {
    const ls_cuda_symmetric *s = c->symmetric;
    const ls_device_message m = message_from(s, peer, CUDA_PROBE_PLAIN);
    bool done;
    LS_TRY(execute(c, &m, patience, &done));
    if (done) return ls_ok();
    return ls_error(LS_UNSUPPORTED,
                    "%s: the first signal alone from rank %d to rank %d did not come within %g s; expected that it "
                    "does",
                    s->library, peer, s->rank, patience);
}

static ls_status receive_all(cuda *c, const ls_device_arena *memory, int kind, double patience) {
    const ls_cuda_symmetric *s = c->symmetric;
    for (int peer = 0; peer < s->ranks; peer++) {
        if (peer == s->rank) continue;
        LS_TRY(carries(kind) ? receive_bytes(c, memory, peer, kind, patience) : receive_signal(c, peer, patience));
    }
    return ls_ok();
}

/* One kind after the other, because sending the second may wait until the first has arrived. */
ls_status ls_cuda_probe(cuda *c, const ls_device_ranks *ranks) {
    const ls_device_arena memory = {.base = (char *)(uintptr_t)c->symmetric->base, .bytes = c->symmetric->bytes};
    LS_TRY(ls_device_agree(ranks, write_patterns(c, &memory)));
    for (int kind = 0; kind < CUDA_PROBE_WORDS; kind++) {
        ls_status status = send_all(c, kind, ranks->patience);
        if (status.code == LS_OK) status = receive_all(c, &memory, kind, ranks->patience);
        LS_TRY(ls_device_agree(ranks, status));
    }
    return ls_ok();
}
