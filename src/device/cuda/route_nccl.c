/*
 * The route "nccl": puts and signals of NCCL into windows. NCCL executes the operations of one communicator one after
 * another, even on different streams. So messages that say that something was copied have a communicator of their own,
 * all on one queue, and plain signals have another one, also on one queue. Then no operation waits for another queue.
 *
 * NCCL counts signals, by the sending rank and by their number. The number is that of the word, and each generation is
 * one signal and one wait. For plain signals, the waits would be in the same communicator as the signals, but on
 * another queue. So for a plain signal, the value of its word is put like any bytes.
 */
#include "device/cuda/nccl.h"
#include "device/cuda/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The communicators. */
enum { CARRIED, PLAIN, COMMS };

/* The same as in the library's own declarations (tests/cuda/check_nccl.c). */
_Static_assert(sizeof(ls_nccl_id) == 128, "an id");
_Static_assert(sizeof(ls_nccl_awaited) == 16, "an awaited signal");
_Static_assert(offsetof(ls_nccl_config, blocking) == 16, "blocking");
_Static_assert(offsetof(ls_nccl_config, network) == 32, "network");
_Static_assert(offsetof(ls_nccl_config, name) == 48, "name");
_Static_assert(offsetof(ls_nccl_config, host_cft) == 108, "host_cft");
_Static_assert(offsetof(ls_nccl_config, rma_contexts) == 84, "rma_contexts");
_Static_assert(offsetof(ls_nccl_config, rma_signals) == 100, "rma_signals");

typedef struct state {
    ls_nccl library;
    char version[32];
    ls_nccl_comm comm[COMMS];
    ls_nccl_window window[COMMS];
    int queue[COMMS];            /* the queue on which each communicator is used; -1: none yet */
    int probe_signal, no_signal; /* further signal numbers; no_signal: for puts whose signal nobody awaits */
} state;

/* --- loading ------------------------------------------------------------------------------------------------------ */

static ls_status load(cuda *c) {
#define FUNCTION(name, arguments) {#name, offsetof(ls_nccl, name)},
    static const ls_cuda_function functions[] = {LS_NCCL_FUNCTIONS(FUNCTION) FUNCTION(ncclGetLastError, )
                                                     FUNCTION(ncclGetErrorString, )};
#undef FUNCTION
    state *s = calloc(1, sizeof *s);
    LS_ASSERT(s != NULL);
    c->route_state = s;
    LS_TRY(ls_cuda_library_load("LONGSPAN_NCCL", "libnccl.so.2", functions, LS_COUNT(functions), &s->library));
    int version = 0;
    (void)s->library.ncclGetVersion(&version);
    snprintf(s->version, sizeof s->version, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    if (version >= LS_NCCL_OLDEST) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%s is there; expected %d.%d.%d or later", s->version, LS_NCCL_OLDEST / 10000,
                    LS_NCCL_OLDEST / 100 % 100, LS_NCCL_OLDEST % 100);
}

static ls_status check(const state *s, unsigned result, const char *call, const char *what) {
    if (result == LS_NCCL_SUCCESS) return ls_ok();
    return ls_error(LS_FAULT, "%s: %s: %s (%u), \"%s\": %s", s->version, call, s->library.ncclGetErrorString(result),
                    result, s->library.ncclGetLastError(NULL), what);
}

static ls_status check_work(const cuda *c, unsigned result, const char *call, const ls_device_work *work) {
    char what[160];
    if (result == LS_NCCL_SUCCESS) return ls_ok();
    snprintf(what, sizeof what, "%s (queue %d, number %llu) on %s", work->name, work->event.queue,
             (unsigned long long)work->event.number, c->name);
    return check(c->route_state, result, call, what);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

typedef struct ids {
    ls_nccl_id id[COMMS];
} ids;

/* Collective: *out = the ids that rank 0 makes. */
static ls_status share_ids(const state *s, const ls_device_ranks *ranks, ids *out) {
    ids mine = {0}, *all = calloc((size_t)ranks->ranks, sizeof *all);
    LS_ASSERT(all != NULL);
    ls_status made = ls_ok();
    for (int k = 0; k < COMMS && ranks->rank == 0 && made.code == LS_OK; k++)
        made = check(s, s->library.ncclGetUniqueId(&mine.id[k]), "ncclGetUniqueId", "rank 0");
    ls_status status = ls_device_agree(ranks, made);
    if (status.code == LS_OK) status = ranks->exchange(ranks->context, &mine, sizeof mine, all);
    if (status.code == LS_OK) *out = all[0];
    free(all);
    return status;
}

/* Collective in the library. */
static ls_status make_comm(state *s, const ls_device_ranks *ranks, const ls_nccl_id *id, ls_nccl_comm *out) {
    ls_nccl_config config = {.size = sizeof config, .magic = LS_NCCL_MAGIC, .version = LS_NCCL_OLDEST};
    config.blocking = config.cga_cluster = config.least_ctas = config.most_ctas = LS_NCCL_UNSET;
    config.split_share = config.traffic_class = config.collnet = config.cta_policy = LS_NCCL_UNSET;
    config.shrink_share = config.nvls_ctas = config.channels_per_peer = config.nvlink_schedule = LS_NCCL_UNSET;
    config.graph_usage = config.rma_contexts = config.most_peers = config.graph_order = LS_NCCL_UNSET;
    config.launch_order = config.rma_eager = config.host_cft = LS_NCCL_UNSET;
    config.rma_signals = s->no_signal + 1;
    char what[96];
    snprintf(what, sizeof what, "rank %d of %d, %d signals", ranks->rank, ranks->ranks, config.rma_signals);
    return check(s, s->library.ncclCommInitRankConfig(out, ranks->ranks, *id, ranks->rank, &config),
                 "ncclCommInitRankConfig", what);
}

/* Collective in the library. */
static ls_status make_window(cuda *c, state *s, int k) {
    const ls_cuda_symmetric *m = c->symmetric;
    char what[64];
    snprintf(what, sizeof what, "%zu bytes on %s", m->bytes, c->name);
    LS_TRY(check(s,
                 s->library.ncclCommWindowRegister(s->comm[k], (void *)(uintptr_t)m->base, m->bytes, &s->window[k],
                                                   LS_NCCL_WINDOW_SYMMETRIC),
                 "ncclCommWindowRegister", what));
    /* If memory cannot be registered for access by others, the call makes no window, but returns success. */
    if (s->window[k] != NULL) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%s: ncclCommWindowRegister made no window of %s; expected one", s->version, what);
}

static ls_status allocate(cuda *c, const state *s) {
    void *memory = NULL;
    char what[64];
    snprintf(what, sizeof what, "%zu bytes on %s", c->symmetric->bytes, c->name);
    LS_TRY(check(s, s->library.ncclMemAlloc(&memory, c->symmetric->bytes), "ncclMemAlloc", what));
    c->symmetric->base = (uintptr_t)memory;
    return ls_ok();
}

/*
 * All ranks agree on the status of each step before the next one: within the library, the next step waits for all
 * ranks, and would not notice that one has failed.
 */
static ls_status make_all(cuda *c, state *s, const ls_device_ranks *ranks) {
    ids found;
    LS_TRY(share_ids(s, ranks, &found));
    for (int k = 0; k < COMMS; k++) LS_TRY(ls_device_agree(ranks, make_comm(s, ranks, &found.id[k], &s->comm[k])));
    LS_TRY(ls_device_agree(ranks, allocate(c, s)));
    for (int k = 0; k < COMMS; k++) LS_TRY(ls_device_agree(ranks, make_window(c, s, k)));
    return ls_ok();
}

static ls_status connect_ranks(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap,
                               ls_device_remote *out) {
    cuda *c = device->state;
    state *s = c->route_state;
    LS_TRY(ls_cuda_symmetric_plan(c, ranks, heap->bytes, false));
    const int words = c->symmetric->n_words;
    snprintf(c->symmetric->library, sizeof c->symmetric->library, "%s", s->version);
    s->probe_signal = words;
    s->no_signal = words + 1;
    s->queue[CARRIED] = s->queue[PLAIN] = -1;
    LS_TRY(make_all(c, s, ranks));
    return ls_cuda_symmetric_open(device, ranks, ls_ok(), heap, out);
}

static void close_route(cuda *c) {
    state *s = c->route_state;
    for (int k = 0; k < COMMS; k++) {
        (void)s->library.ncclCommWindowDeregister(s->comm[k], s->window[k]);
        (void)s->library.ncclCommDestroy(s->comm[k]);
    }
    (void)s->library.ncclMemFree((void *)(uintptr_t)c->symmetric->base);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* Each communicator is used on one queue only (see above). */
static ls_status use_comm(state *s, const cuda *c, const ls_device_work *work, int k) {
    if (ls_cuda_word(c->symmetric, work->message) >= c->symmetric->n_words) return ls_ok();
    if (s->queue[k] < 0) s->queue[k] = work->event.queue;
    if (s->queue[k] == work->event.queue) return ls_ok();
    return ls_error(
        LS_UNSUPPORTED,
        "%s: %s stands on queue %d, earlier messages of its kind on queue %d; expected one queue, since NCCL "
        "lets one wait for the other",
        s->version, work->name, work->event.queue, s->queue[k]);
}

/* Signals are counted, so each generation must follow the last one. *number: the signal's number. */
static ls_status count(const state *s, const cuda *c, const ls_device_work *work, uint64_t *last, int *number) {
    const int word = ls_cuda_word(c->symmetric, work->message);
    *number = word < c->symmetric->n_words ? word : s->probe_signal;
    if (*number == s->probe_signal) return ls_ok();
    const uint64_t generation = work->message->generation;
    if (last[word] != 0 && generation != last[word] + 1)
        return ls_error(LS_UNSUPPORTED,
                        "%s: %s: generation %llu after %llu of word %d; expected the next one, since NCCL counts",
                        s->version, work->name, (unsigned long long)generation, (unsigned long long)last[word], word);
    last[word] = generation;
    return ls_ok();
}

static ls_status put_bytes(cuda_submission *on, int k, size_t offset, ls_cuda_address source, size_t bytes,
                           int signal) {
    const state *s = on->c->route_state;
    ls_cuda_stream stream;
    LS_TRY(ls_cuda_stream_of(on, &stream));
    return check_work(on->c,
                      s->library.ncclPutSignal((const void *)(uintptr_t)source, bytes, LS_NCCL_INT8,
                                               on->work->message->peer, s->window[k], offset, signal, 0, 0, s->comm[k],
                                               stream),
                      "ncclPutSignal", on->work);
}

/* Puts to one rank arrive in order, so only the last put of a message has the signal that is awaited. */
static ls_status put(cuda_submission *on, ls_cuda_address target, ls_cuda_address source, size_t bytes, bool last) {
    const state *s = on->c->route_state;
    int signal = s->no_signal;
    if (last) LS_TRY(count(s, on->c, on->work, on->c->symmetric->last, &signal));
    return put_bytes(on, CARRIED, target - on->c->symmetric->base, source, bytes, signal);
}

/* A message that copies nothing: its signal is sent with a byte that nobody reads. */
static ls_status put_nothing(cuda_submission *on) {
    const ls_cuda_symmetric *m = on->c->symmetric;
    return put(on, m->base + m->came + (size_t)m->rank * CUDA_PROBE_BYTES, m->base + m->sent, 1, true);
}

static cuda_growth growth_of(const ls_device_message *m) { return (cuda_growth){.rise = m->rise}; }

static ls_status write_word(cuda_submission *on) {
    const ls_cuda_symmetric *m = on->c->symmetric;
    const ls_device_message *message = on->work->message;
    const state *s = on->c->route_state;
    const size_t at = (size_t)ls_cuda_word(m, message) * sizeof(uint64_t);
    LS_TRY(ls_cuda_set_word(on, m->base + m->values + at, message->generation, growth_of(message)));
    return put_bytes(on, PLAIN, m->words + at, m->base + m->values + at, sizeof(uint64_t), s->no_signal);
}

static ls_status await_signal(cuda_submission *on) {
    const state *s = on->c->route_state;
    ls_nccl_awaited awaited = {.count = 1, .peer = on->work->message->peer};
    ls_cuda_stream stream;
    LS_TRY(ls_cuda_stream_of(on, &stream));
    LS_TRY(count(s, on->c, on->work, on->c->symmetric->last + on->c->symmetric->n_words, &awaited.signal));
    return check_work(on->c, s->library.ncclWaitSignal(1, &awaited, s->comm[CARRIED], stream), "ncclWaitSignal",
                      on->work);
}

static ls_status await_word(cuda_submission *on) {
    const ls_device_message *m = on->work->message;
    return ls_cuda_await_word(on, (uintptr_t)m->word, m->generation, growth_of(m));
}

static ls_status message(cuda_submission *on) {
    const ls_device_message *m = on->work->message;
    if (m->carries || !m->awaits) LS_TRY(use_comm(on->c->route_state, on->c, on->work, m->carries ? CARRIED : PLAIN));
    if (m->awaits) {
        LS_TRY(m->carries ? await_signal(on) : await_word(on));
        return ls_cuda_show(on);
    }
    if (!m->carries) return write_word(on);
    return ls_range_bytes(&m->from) > 0 ? ls_cuda_send(on, put) : put_nothing(on);
}

/* Reports failures in the library's own threads. */
static ls_status check_comms(cuda *c) {
    const state *s = c->route_state;
    for (int k = 0; k < COMMS; k++) {
        unsigned error = LS_NCCL_SUCCESS;
        LS_TRY(check(s, s->library.ncclCommGetAsyncError(s->comm[k], &error), "ncclCommGetAsyncError", c->name));
        if (error != LS_NCCL_IN_PROGRESS) LS_TRY(check(s, error, "ncclCommGetAsyncError", c->name));
    }
    return ls_ok();
}

/*
 * The puts to one rank in one communicator that the library accepts before a call blocks: 32 for each receive of the
 * network (8 receives for InfiniBand, 1 for sockets).
 */
enum { ROOM = 32 };

const ls_cuda_route ls_cuda_route_nccl = {.name = "nccl",
                                          .room = ROOM,
                                          .load = load,
                                          .connect = connect_ranks,
                                          .message = message,
                                          .check = check_comms,
                                          .close = close_route};
