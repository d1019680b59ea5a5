/*
 * First messages between ranks, before any program runs. What registers memory may do nothing, and a signal may be one
 * that nobody gets, without an error: so each rank sends every other one a pattern and both kinds of signals, and looks
 * whether they have come.
 */
#include "device/cuda/route.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static unsigned char pattern_at(int from, int to, int i) { return (unsigned char)(1 + (from * 31 + to * 7 + i) % 255); }

static void fill_pattern(int from, int to, unsigned char *out) {
    for (int i = 0; i < CUDA_PROBE_BYTES; i++) out[i] = pattern_at(from, to, i);
}

/* The queue on which the compiler has messages of a kind: what says that something was copied stands on the last. */
static int queue_of(const cuda *c, bool carries) { return carries ? c->device->options.queues - 1 : 0; }

static ls_device_message message_to(const ls_cuda_symmetric *s, int peer, bool carries) {
    const int word = ls_cuda_probe_word(s, s->rank, carries ? CUDA_PROBE_CARRIED : CUDA_PROBE_PLAIN);
    const size_t from = (size_t)peer * CUDA_PROBE_BYTES, to = (size_t)s->rank * CUDA_PROBE_BYTES;
    ls_device_message m = {
        .word = (uint64_t *)(uintptr_t)(s->base + s->words) + word, .generation = 1, .peer = peer, .carries = carries};
    if (!carries) return m;
    m.source = m.target = (char *)(uintptr_t)s->base;
    m.from = ls_range_flat(s->sent + from, CUDA_PROBE_BYTES);
    m.to = ls_range_flat(s->came + to, CUDA_PROBE_BYTES);
    return m;
}

static ls_device_message message_from(const ls_cuda_symmetric *s, int peer, bool carries) {
    const int word = ls_cuda_probe_word(s, peer, carries ? CUDA_PROBE_CARRIED : CUDA_PROBE_PLAIN);
    return (ls_device_message){.word = (uint64_t *)(uintptr_t)(s->base + s->words) + word,
                               .generation = 1,
                               .peer = peer,
                               .awaits = true,
                               .carries = carries};
}

/* Gives the message to its queue's stream. *done: the stream has executed it before `patience` seconds were over. */
static ls_status execute(cuda *c, const ls_device_message *m, double patience, bool *done) {
    const ls_device_work work = {
        .name = "the first message", .event = {.queue = queue_of(c, m->carries)}, .message = m};
    ls_cuda_stream stream = c->queues[work.event.queue].stream;
    const struct timespec nap = {0, 50000};
    const double began = ls_seconds();
    LS_TRY(c->route->message(c, &work));
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

static ls_status send_to(cuda *c, int peer, double patience) {
    const ls_cuda_symmetric *s = c->symmetric;
    for (int carries = 1; carries >= 0; carries--) {
        const ls_device_message m = message_to(s, peer, carries != 0);
        bool done;
        LS_TRY(execute(c, &m, patience, &done));
        if (!done)
            return ls_error(LS_UNSUPPORTED,
                            "%s: the first message from rank %d to rank %d was not sent within %g s; expected that it "
                            "is",
                            s->library, s->rank, peer, patience);
    }
    return ls_ok();
}

static ls_status send_all(cuda *c, const ls_device_ranks *ranks, const ls_device_arena *memory) {
    const ls_cuda_symmetric *s = c->symmetric;
    unsigned char bytes[CUDA_PROBE_BYTES];
    for (int peer = 0; peer < s->ranks; peer++) {
        const ls_range slot = ls_range_flat(s->sent + (size_t)peer * CUDA_PROBE_BYTES, CUDA_PROBE_BYTES);
        fill_pattern(s->rank, peer, bytes);
        LS_TRY(ls_cuda_write(c->device, memory, &slot, bytes));
        if (peer != s->rank) LS_TRY(send_to(c, peer, ranks->patience));
    }
    return ls_ok();
}

/* --- what has come ------------------------------------------------------------------------------------------------ */

/* Of what came from a peer: -1: the whole pattern; else the first byte that is not its. */
static ls_status compare(const cuda *c, const ls_device_arena *memory, int peer, int *at, unsigned char *seen) {
    const ls_cuda_symmetric *s = c->symmetric;
    const ls_range slot = ls_range_flat(s->came + (size_t)peer * CUDA_PROBE_BYTES, CUDA_PROBE_BYTES);
    unsigned char came[CUDA_PROBE_BYTES], expected[CUDA_PROBE_BYTES];
    fill_pattern(peer, s->rank, expected);
    LS_TRY(ls_cuda_read(c->device, memory, &slot, came));
    *at = -1;
    for (int i = CUDA_PROBE_BYTES - 1; i >= 0; i--)
        if (came[i] != expected[i]) *at = i;
    *seen = came[*at < 0 ? 0 : *at];
    return ls_ok();
}

static ls_status receive_from(cuda *c, const ls_device_arena *memory, int peer, double patience) {
    const ls_cuda_symmetric *s = c->symmetric;
    unsigned char seen;
    bool done;
    int at;
    ls_device_message m = message_from(s, peer, true);
    LS_TRY(execute(c, &m, patience, &done));
    LS_TRY(compare(c, memory, peer, &at, &seen));
    if (!done)
        return ls_error(LS_UNSUPPORTED,
                        "%s: of the first message from rank %d to rank %d %s within %g s; expected both: what "
                        "registers memory, or signals, does nothing there",
                        s->library, peer, s->rank,
                        at < 0 ? "the bytes came and the signal did not" : "neither the bytes nor the signal came",
                        patience);
    if (at >= 0)
        return ls_error(LS_UNSUPPORTED,
                        "%s: of the first message from rank %d to rank %d the signal came before the bytes: byte %d "
                        "of %d is %d; expected %d",
                        s->library, peer, s->rank, at, CUDA_PROBE_BYTES, seen, pattern_at(peer, s->rank, at));
    m = message_from(s, peer, false);
    LS_TRY(execute(c, &m, patience, &done));
    if (!done)
        return ls_error(LS_UNSUPPORTED,
                        "%s: the first signal alone from rank %d to rank %d did not come within %g s; expected that "
                        "it does",
                        s->library, peer, s->rank, patience);
    return ls_ok();
}

static ls_status receive_all(cuda *c, const ls_device_ranks *ranks, const ls_device_arena *memory) {
    for (int peer = 0; peer < ranks->ranks; peer++)
        if (peer != ranks->rank) LS_TRY(receive_from(c, memory, peer, ranks->patience));
    return ls_ok();
}

ls_status ls_cuda_probe(cuda *c, const ls_device_ranks *ranks) {
    const ls_device_arena memory = {.base = (char *)(uintptr_t)c->symmetric->base, .bytes = c->symmetric->bytes};
    ls_status status = send_all(c, ranks, &memory);
    if (status.code == LS_OK) status = receive_all(c, ranks, &memory);
    return ls_device_agree(ranks, status);
}
