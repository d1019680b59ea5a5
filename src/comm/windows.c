/*
 * Windows: what the peers of a rank may send it. A transport that delivers messages on the rank's own side asks here
 * before it writes a byte. Each word of a rank is set by one peer. It may rise only after the rank has allowed the next
 * generation, and the bytes that come with it must go where the rank said:
 *   - words of the caller follow ls_comm_expect. The two ends of a channel set each other's words in turn, so the
 *     generation that this rank has set last tells what may come next;
 *   - words of the host collectives, and the inbox, follow their use in host.c.
 */
#include "comm/comm_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_windows {
    bool unguarded; /* ls_world_options.unguarded */
    int rank, ranks, words;
    size_t inbox, inbox_bytes; /* the inbox: its offset in the heap; the bytes of one half */
    ls_range *slots;           /* those of all windows */
    size_t *counted;           /* likewise */
    ls_window *windows;        /* [words] */
    _Atomic bool expecting;    /* the fields above are set */
    _Atomic uint64_t set[]; /* by word, those of the host collectives included: the last generation that this rank has
                               set at a peer */
};

ls_windows *ls_windows_create(const ls_world *world, int rank) {
    const ls_segment_form form = ls_segment_lay_out(&world->options, rank);
    ls_windows *w = calloc(1, sizeof *w + (size_t)form.n_words * sizeof w->set[0]);
    if (w == NULL) return NULL;
    w->unguarded = world->options.unguarded;
    w->rank = rank;
    w->ranks = world->options.ranks;
    w->words = world->options.words;
    w->inbox = form.inbox - form.heap;
    w->inbox_bytes = ls_host_inbox_bytes(w->ranks);
    return w;
}

void ls_windows_destroy(ls_windows *w) {
    if (w == NULL) return;
    free(w->slots);
    free(w->counted);
    free(w->windows);
    free(w);
}

void ls_windows_note_set(ls_windows *w, int word, uint64_t generation) {
    atomic_store_explicit(&w->set[word], generation, memory_order_release);
}

static uint64_t last_set(const ls_windows *w, int word) {
    return atomic_load_explicit(&w->set[word], memory_order_acquire);
}

ls_status ls_windows_expect(ls_windows *w, const ls_window *of) {
    size_t n = 0;
    LS_ASSERT(w->windows == NULL);
    for (int i = 0; i < w->words; i++) n += of[i].slots != NULL ? (size_t)of[i].uses : 0;
    w->slots = malloc((n + 1) * sizeof *w->slots);
    w->counted = calloc(n + 1, sizeof *w->counted);
    w->windows = malloc(((size_t)w->words + 1) * sizeof *w->windows);
    if (w->slots == NULL || w->counted == NULL || w->windows == NULL)
        return ls_error(LS_NO_MEMORY, "cannot allocate what peers may put into %zu slots of rank %d", n, w->rank);
    ls_range *next = w->slots;
    size_t *row = w->counted;
    for (int i = 0; i < w->words; i++) {
        ls_window *to = &w->windows[i];
        *to = of[i];
        LS_ASSERT(to->peer < w->ranks && (to->peer < 0 || (to->answers >= 0 && to->answers < w->words)));
        if (to->slots == NULL) continue;
        memcpy(next, to->slots, (size_t)to->uses * sizeof *next);
        if (to->counted != NULL) memcpy(row, to->counted, (size_t)to->uses * sizeof *row);
        to->slots = next;
        to->counted = row;
        next += to->uses;
        row += to->uses;
    }
    atomic_store_explicit(&w->expecting, true, memory_order_release);
    return ls_ok();
}

/* ---- what may come ---- */

/* What may come at a word. */
typedef struct expected {
    int peer;      /* the peer that sets it; -1: none */
    uint64_t last; /* the last generation that may come yet; each generation comes once */
    bool parts;    /* any part of the slot, which is flat, may be put; false: the slot as a whole, or its pieces */
    size_t row;    /* bytes of a row, if any number of the slot's first rows may come; 0: the whole slot comes */
    ls_range slot; /* where the bytes that come with the generation go; length 0: only the signal comes */
} expected;

/* Word k of the host collectives. A peer is ahead of this rank by one collective at most. */
static expected expected_of_host(const ls_windows *w, int k, uint64_t generation) {
    const int64_t ranks = w->ranks, sender = (w->rank - ((int64_t)1 << k) % ranks + ranks) % ranks;
    return (expected){.peer = (int)sender,
                      .last = last_set(w, w->words) + 1,
                      .parts = true,
                      .slot = ls_range_flat(w->inbox + (size_t)(generation & 1) * w->inbox_bytes, w->inbox_bytes)};
}

static expected expected_at(const ls_windows *w, int word, uint64_t generation) {
    if (word >= w->words) return expected_of_host(w, word - w->words, generation);
    if (!atomic_load_explicit(&w->expecting, memory_order_acquire)) return (expected){.peer = -1};
    const ls_window *at = &w->windows[word];
    if (at->peer < 0) return (expected){.peer = -1};
    expected e = {.peer = at->peer, .last = last_set(w, at->answers) + (at->begins ? 1 : 0)};
    if (generation <= at->notes) {
        e.slot = at->note;
    } else if (at->slots != NULL) {
        const uint64_t use = (generation - at->notes - 1) % at->uses;
        e.slot = at->slots[use];
        e.row = at->counted[use];
    }
    return e;
}

/* Whether a range, which may have any numbers, lies within a flat slot. */
static bool lies_in_slot(const ls_range *slot, ls_range range) {
    if (range.offset < slot->offset) return false;
    range.offset -= slot->offset;
    return ls_range_lies_within(&range, slot->length);
}

static bool fits(const expected *e, const ls_arrival *a) {
    if (memcmp(a->to, &e->slot, sizeof e->slot) == 0) return true;
    if (e->parts) return lies_in_slot(&e->slot, *a->to);
    if (e->row > 0 && !a->piece)
        return ls_range_is_flat(a->to) && a->to->offset == e->slot.offset && a->to->length <= e->slot.length &&
               a->to->length % e->row == 0;
    return a->piece && ls_range_is_flat(a->to) && ls_range_has_piece(&e->slot, a->to->offset, a->to->length);
}

/* ---- refusing ---- */

/* Prints "64 bytes at 4096", and the pieces if there are several. */
static void print_range(const ls_range *r, char *out, size_t room) {
    const int n = snprintf(out, room, "%zu bytes at %zu", r->length, r->offset);
    if (ls_range_is_flat(r) || n < 0 || (size_t)n >= room) return;
    snprintf(out + n, room - (size_t)n, " in %lld x %lld x %lld pieces, %lld, %lld, %lld bytes apart",
             (long long)r->count[2], (long long)r->count[1], (long long)r->count[0], (long long)r->stride[2],
             (long long)r->stride[1], (long long)r->stride[0]);
}

static ls_status refuse(const ls_windows *w, int peer, const ls_arrival *a, const char *wanted) {
    char bytes[160] = "a signal";
    if (a->to != NULL) print_range(a->to, bytes, sizeof bytes);
    return ls_error(LS_PEER, "rank %d refuses what rank %d sends: %s for word %d, generation %llu; expected %s",
                    w->rank, peer, bytes, a->word, (unsigned long long)a->generation, wanted);
}

/* The check in a world in which peers may put anywhere. */
static ls_status check_bounds(const ls_windows *w, int peer, const ls_arrival *a) {
    const size_t all = w->inbox + 2 * w->inbox_bytes;
    if (a->to == NULL || ls_range_lies_within(a->to, all)) return ls_ok();
    char text[96];
    snprintf(text, sizeof text, "bytes of the heap, which has %zu", all);
    return refuse(w, peer, a, text);
}

ls_status ls_windows_check(const ls_windows *w, int peer, uint64_t reached, const ls_arrival *a) {
    const bool of_host = a->word >= w->words;
    if (w->unguarded && !of_host) return check_bounds(w, peer, a);
    if (a->word < 0) return refuse(w, peer, a, "a word of this rank");
    char text[224], slot[160];
    const expected e = expected_at(w, a->word, a->generation);
    if (e.peer != peer) {
        snprintf(text, sizeof text, e.peer < 0 ? "nothing there" : "messages of rank %d there", e.peer);
        return refuse(w, peer, a, text);
    }
    if (a->generation <= reached || a->generation > e.last) {
        snprintf(text, sizeof text, "generations after %llu and up to %llu", (unsigned long long)reached,
                 (unsigned long long)e.last);
        return refuse(w, peer, a, text);
    }
    if (a->to == NULL || fits(&e, a)) return ls_ok();
    if (ls_range_bytes(&e.slot) == 0) return refuse(w, peer, a, "a signal without bytes");
    print_range(&e.slot, slot, sizeof slot);
    return refuse(w, peer, a, slot);
}
