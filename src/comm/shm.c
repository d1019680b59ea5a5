/*
 * The transport shm, between ranks that can load and store each other's segments: ranks of one host, and a rank with
 * itself. A put is a copy by the sender, and is complete when it returns. A signal is a release store of the word, and
 * then a ring of the peer's bell. The state is the rank's endpoint.
 */
#include "comm/transport_impl.h"

#include <string.h>

static ls_peer_reach reach(const ls_boot *boot, int rank, int peer) {
    if (boot->hosts[rank] != boot->hosts[peer]) return (ls_peer_reach){.put = false};
    return (ls_peer_reach){.put = true, .load = true, .seconds = 1e-7};
}

static ls_status open(const ls_endpoint *end, const bool *used, void **state) {
    (void)used;
    *state = (void *)end;
    return ls_ok();
}

static void signal(void *state, int peer, int word, uint64_t generation) {
    const ls_endpoint *end = state;
    char *segment = end->segments[peer];
    atomic_store_explicit(&ls_segment_words(&end->form, segment)[word], generation, memory_order_release);
    ls_bell_ring(ls_segment_line(segment));
}

static void put(void *state, const ls_put *p) {
    const ls_endpoint *end = state;
    char *target = end->segments[p->peer] + end->form.heap;
    if (ls_range_is_flat(p->to) && ls_range_is_flat(p->from)) {
        LS_ASSERT(p->to->length == p->from->length);
        memcpy(target + p->to->offset, (const char *)p->source + p->from->offset, p->to->length);
    } else {
        ls_range_copy(target, p->to, p->source, p->from);
    }
    if (ls_put_signals(p)) signal(state, p->peer, p->word, p->generation);
}

static ls_peer_state look(void *state, int peer) {
    const ls_endpoint *end = state;
    const ls_rank_line *line = ls_segment_line(end->segments[peer]);
    /* The acquire makes the words visible that the peer set before it left. */
    return (ls_peer_state){.left = atomic_load_explicit(&line->left, memory_order_acquire),
                           .ticks = atomic_load_explicit(&line->ticks, memory_order_relaxed),
                           .waits_for = atomic_load_explicit(&line->waits_for, memory_order_relaxed) - 1};
}

/* Nothing to do: every put is complete when it returns, and the release store of a later signal orders it. */
static void quiet(void *state) { (void)state; }

static void close(void *state) { (void)state; }

const ls_transport ls_transport_shm = {
    .name = "shm",
    .reach = reach,
    .open = open,
    .put = put,
    .signal = signal,
    .look = look,
    .quiet = quiet,
    .close = close,
};
