#include "edits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

int edit_draw(edit *e, int below) { return (int)ls_rng_below(e->seed, 77, e->draws++, (uint64_t)below); }

/* -most .. most without 0. */
static int draw_step(edit *e, int most) {
    const int step = 1 + edit_draw(e, most);
    return edit_draw(e, 2) == 0 ? step : -step;
}

static void describe(edit *e, const char *verb, int at) {
    const ls_instr *i = &e->program->instrs[at];
    snprintf(e->what, sizeof e->what, "%s %s instruction %d of rank %d (%s%s%s)", verb, e->program->name, at, e->rank,
             i->op, i->channel >= 0 ? " " : "", i->channel >= 0 ? e->program->channels[i->channel].name : "");
}

enum {
    ANY = (1u << LS_INSTR_KINDS) - 1,
    SIGNALS = 1u << LS_INSTR_GRANT | 1u << LS_INSTR_LEASE | 1u << LS_INSTR_RETURN,
    WAITS = 1u << LS_INSTR_ACQUIRE | 1u << LS_INSTR_RECEIVE | 1u << LS_INSTR_BORROW | 1u << LS_INSTR_RECLAIM,
    WORDS = 1u << LS_INSTR_PUT | SIGNALS | WAITS
};

/* A random instruction: kernels, puts, signals and waits equally often; -1: there is none of these kinds. */
static int pick(edit *e, unsigned kinds) {
    static const unsigned sorts[] = {1u << LS_INSTR_KERNEL, 1u << LS_INSTR_PUT, SIGNALS, WAITS};
    unsigned sort = sorts[edit_draw(e, (int)LS_COUNT(sorts))];
    while (!(kinds & sort)) sort = sorts[edit_draw(e, (int)LS_COUNT(sorts))];
    const int n = e->program->n_instrs, from = n > 0 ? edit_draw(e, n) : 0;
    for (int k = 0; k < n; k++) {
        if (kinds & sort & 1u << e->program->instrs[(from + k) % n].kind) return (from + k) % n;
    }
    return -1;
}

static bool drop(edit *e) {
    const int at = pick(e, ANY);
    if (at < 0) return false;
    describe(e, "drop", at);
    drop_instr(e->program, at);
    return true;
}

/* Exchanges two places of the list; `after` follows. */
static void exchange(ls_program *p, int a, int b) {
    const ls_instr first = p->instrs[a];
    p->instrs[a] = p->instrs[b];
    p->instrs[b] = first;
    for (int i = 0; i < p->n_instrs; i++) {
        for (int k = 0; k < p->instrs[i].n_after; k++) {
            int *after = &p->instrs[i].after[k].instr;
            if (*after == a || *after == b) *after = a + b - *after;
        }
    }
}

/* The next instruction of the same queue in that direction, or -1. */
static int neighbour(const ls_program *p, int at, int direction) {
    for (int i = at + direction; i >= 0 && i < p->n_instrs; i += direction) {
        if (p->instrs[i].queue == p->instrs[at].queue) return i;
    }
    return -1;
}

static bool swap(edit *e) {
    const int a = pick(e, ANY);
    if (a < 0) return false;
    int b = a;
    for (int steps = draw_step(e, 4); steps != 0; steps += steps > 0 ? -1 : 1) {
        const int next = neighbour(e->program, b, steps > 0 ? 1 : -1);
        if (next < 0) break;
        b = next;
    }
    describe(e, "swap", a);
    exchange(e->program, a, b);
    return a != b;
}

static bool move_by(edit *e, int at, int steps) {
    bool moved = false;
    while (steps != 0) {
        const int next = neighbour(e->program, at, steps > 0 ? 1 : -1);
        if (next < 0) break;
        exchange(e->program, at, next);
        at = next;
        moved = true;
        steps += steps > 0 ? -1 : 1;
    }
    return moved;
}

static bool move(edit *e) {
    const int at = pick(e, ANY);
    if (at < 0) return false;
    describe(e, "move", at);
    return move_by(e, at, draw_step(e, 8));
}

/* Removes a wait between the queues, or makes it wait for another instruction. */
static bool reorder(edit *e) {
    const ls_program *p = e->program;
    const int n = p->n_instrs, from = edit_draw(e, n);
    for (int k = 0; k < n; k++) {
        const int at = (from + k) % n;
        ls_instr *instr = &e->program->instrs[at];
        if (instr->n_after == 0) continue;
        describe(e, "other order of", at);
        const int which = edit_draw(e, instr->n_after);
        int other = -1;
        if (edit_draw(e, 3) > 0) other = neighbour(p, instr->after[which].instr, edit_draw(e, 4) == 0 ? 1 : -1);
        set_after(instr, which, other);
        return true;
    }
    return false;
}

/* The put before it on its queue, or -1. */
static int put_before(const ls_program *p, int at) {
    do at = neighbour(p, at, -1);
    while (at >= 0 && p->instrs[at].kind != LS_INSTR_PUT);
    return at;
}

/*
 * Overwrites the source of a put that may not be done: forgets the put, takes one before it, or waits only until it was
 * executed.
 */
static bool overwrite_early(edit *e) {
    const ls_program *p = e->program;
    const int n = p->n_instrs, from = n > 0 ? edit_draw(e, n) : 0;
    for (int k = 0; k < n; k++) {
        const int at = (from + k) % n;
        ls_instr *instr = &e->program->instrs[at];
        for (int i = 0; i < instr->n_after; i++) {
            if (!instr->after[i].done) continue;
            describe(e, "a put not done for", at);
            const int way = edit_draw(e, 3);
            if (way == 0 && instr->after[i].queue != instr->queue)
                instr->after[i].done = false;
            else
                set_after(instr, i, way == 1 ? put_before(p, instr->after[i].instr) : -1);
            return true;
        }
    }
    return false;
}

/* Moves an operand of instruction `at` by some elements. */
static bool shift_operand(edit *e, ls_operand *o, const char *verb, int at) {
    static const int elements[] = {1, 2, 4, 16, 32, 64};
    const int64_t by = elements[edit_draw(e, (int)LS_COUNT(elements))] * (edit_draw(e, 2) ? 1 : -1) *
                       (int64_t)ls_dtype_bytes(o->view.dtype);
    if (o->buffer < 0 || ls_view_elements(&o->view) == 0 || (int64_t)o->offset + by < 0) return false;
    describe(e, verb, at);
    o->offset += (size_t)by;
    return true;
}

/*
 * Edits only fields that a run reads: where a put lands its receiver says, and the bytes of other waits and
 * signals are what these promise.
 */
static bool shift(edit *e) {
    const int at = pick(e, 1u << LS_INSTR_KERNEL | 1u << LS_INSTR_PUT);
    if (at < 0) return false;
    ls_instr *instr = &e->program->instrs[at];
    const int operands = instr->kind == LS_INSTR_PUT ? instr->n_in : instr->n_in + instr->n_out;
    if (operands == 0) return false;
    const int k = edit_draw(e, operands);
    ls_operand *o = k < instr->n_in ? &instr->in[k] : &instr->out[k - instr->n_in];
    return shift_operand(e, o, "shift an operand of", at);
}

/* Tells the other end of a channel a wrong address of a slot or a leased block. */
static bool tell_wrong(edit *e) {
    const int at = pick(e, 1u << LS_INSTR_RECEIVE | 1u << LS_INSTR_LEASE);
    if (at < 0) return false;
    ls_instr *instr = &e->program->instrs[at];
    ls_operand *o = instr->kind == LS_INSTR_LEASE ? &instr->in[0] : &instr->out[0];
    return shift_operand(e, o, "another address told by", at);
}

/* Moves a buffer to where another one still lives for a few instructions. */
static bool lay_early(edit *e) {
    ls_image *image = e->image;
    const int n = image->n_buffers, from = edit_draw(e, n);
    for (int k = 0; k < n * n; k++) {
        const int a = (from + k / n) % n, b = k % n;
        const ls_buffer *x = &image->buffers[a], *y = &image->buffers[b];
        if (a == b || x->program < 0 || x->program != y->program || x->space != y->space || y->first < 0 ||
            x->first < 0 || y->first > x->last || x->last - y->first > 6 || y->last <= x->last ||
            x->offset == y->offset || y->bytes > x->bytes)
            continue;
        snprintf(e->what, sizeof e->what, "lay \"%s\" of rank %d where \"%s\" still lives", y->name, e->rank, x->name);
        if (y->space == LS_PRIVATE) {
            image->buffers[b].offset = x->offset;
            return true;
        }
        /* On all ranks: their buffers of the heap are in one order. */
        int nth_a = 0, nth_b = 0;
        for (int i = 0; i < a; i++) nth_a += image->buffers[i].space == LS_SYMMETRIC;
        for (int i = 0; i < b; i++) nth_b += image->buffers[i].space == LS_SYMMETRIC;
        const size_t offset = x->offset;
        for (int r = 0; r < e->set->ranks; r++) {
            int heap = 0;
            for (int i = 0; i < e->set->image[r]->n_buffers; i++) {
                if (e->set->image[r]->buffers[i].space != LS_SYMMETRIC) continue;
                if (heap++ == nth_b) e->set->image[r]->buffers[i].offset = offset;
            }
        }
        return true;
    }
    return false;
}

/* Hands over a slot before its reader has finished, or moves one buffer onto another. */
static bool reuse_early(edit *e) {
    if (edit_draw(e, 2) == 0) return lay_early(e);
    const int at = pick(e, SIGNALS);
    if (at < 0) return false;
    describe(e, "hand over early", at);
    return move_by(e, at, -1 - edit_draw(e, 4));
}

/* Moves a kernel's result to one of its inputs, whether or not the kernel allows that and the input is still needed. */
static bool overlay(edit *e) {
    const int at = pick(e, 1u << LS_INSTR_KERNEL);
    if (at < 0) return false;
    const ls_instr *instr = &e->program->instrs[at];
    if (instr->n_in == 0 || instr->n_out == 0) return false;
    const ls_operand *in = &instr->in[edit_draw(e, instr->n_in)], *out = &instr->out[edit_draw(e, instr->n_out)];
    if (in->buffer < 0 || out->buffer < 0) return false;
    ls_buffer *from = &e->image->buffers[in->buffer], *to = &e->image->buffers[out->buffer];
    if (from->space != LS_PRIVATE || to->space != LS_PRIVATE || to->program < 0 || to->offset == from->offset)
        return false;
    describe(e, "lay result on input of", at);
    to->offset = from->offset;
    return true;
}

static bool regenerate(edit *e) {
    const int at = pick(e, WORDS);
    if (at < 0) return false;
    ls_instr *instr = &e->program->instrs[at];
    describe(e, "other generation of", at);
    const int by = draw_step(e, 2);
    if ((int64_t)instr->generation + by < 0) return false;
    instr->generation += (uint64_t)(int64_t)by;
    return true;
}

/* Reads in place from another rank, or uses the wait (or the signal that returns the block) of another block. */
static bool other_peer(edit *e) {
    const ls_program *p = e->program;
    const int from = edit_draw(e, p->n_instrs > 0 ? p->n_instrs : 1), which = edit_draw(e, LS_KERNEL_INPUTS);
    for (int k = 0; k < p->n_instrs; k++) {
        const int at = (from + k) % p->n_instrs;
        const ls_instr *instr = &p->instrs[at];
        for (int i = 0; i < instr->n_in && instr->kind == LS_INSTR_KERNEL; i++) {
            ls_operand *o = &instr->in[(i + which) % instr->n_in];
            if (o->buffer < 0 || ls_peer_is_self(o->peer)) continue;
            describe(e, "another rank's block in", at);
            const int size = ls_team_size(&e->image->teams[o->peer.team]);
            o->peer.shift = (o->peer.shift + 1 + edit_draw(e, size - 1)) % size;
            if (o->peer.shift == 0) o->peer = (ls_peer){0};
            return true;
        }
    }
    return false;
}

/* The last await before it at its end of the channel; -1: there is none. */
static int await_before(const ls_program *p, int at) {
    const int end = ls_instr_end(&p->instrs[at]);
    while (--at >= 0) {
        const ls_instr *instr = &p->instrs[at];
        if (ls_traits(instr)->awaits && ls_instr_end(instr) == end) break;
    }
    return at;
}

/*
 * Grants, leases or returns before the await that comes before that: it no longer waits for it, and goes in front of
 * it.
 */
static bool signal_early(edit *e) {
    ls_program *p = e->program;
    const int n = p->n_instrs, from = n > 0 ? edit_draw(e, n) : 0;
    for (int k = 0; k < n; k++) {
        int at = (from + k) % n;
        ls_instr *instr = &p->instrs[at];
        const int await = SIGNALS & 1u << instr->kind ? await_before(p, at) : -1;
        if (await < 0) continue;
        describe(e, "before its turn", at);
        for (int i = instr->n_after - 1; i >= 0; i--)
            if (instr->after[i].instr >= await) set_after(instr, i, -1);
        for (int next; at > await && (next = neighbour(p, at, -1)) >= 0; at = next) exchange(p, at, next);
        return true;
    }
    return false;
}

/*
 * Two signals or waits for "free" of a queue exchange their epochs, and perhaps their places: as if this rank had
 * emitted them in another order.
 */
static bool move_epoch(edit *e) {
    static const unsigned ordered = SIGNALS | 1u << LS_INSTR_ACQUIRE | 1u << LS_INSTR_RECLAIM;
    ls_program *p = e->program;
    const int at = pick(e, ordered), direction = draw_step(e, 1);
    int other = at;
    for (int steps = at < 0 ? 0 : 1 + edit_draw(e, 3); steps > 0 && other >= 0; steps--) {
        do other = neighbour(p, other, direction);
        while (other >= 0 && !(ordered & 1u << p->instrs[other].kind));
    }
    if (at < 0 || other < 0) return false;
    describe(e, "epoch of", at);
    const ls_epoch epoch = p->instrs[at].epoch;
    p->instrs[at].epoch = p->instrs[other].epoch;
    p->instrs[other].epoch = epoch;
    if (edit_draw(e, 2) == 0) exchange(p, at, other);
    return true;
}

/* Counted rows are others at one end, or not counted; or their number lies elsewhere. */
static bool miscount(edit *e) {
    const int n = e->program->n_instrs, from = n > 0 ? edit_draw(e, n) : 0, way = edit_draw(e, 4);
    for (int k = 0; k < n; k++) {
        const int at = (from + k) % n;
        ls_instr *instr = &e->program->instrs[at];
        if (instr->counted == 0 || (way >= 2 && instr->kind != LS_INSTR_PUT)) continue;
        if (way == 3) return shift_operand(e, &instr->in[1], "another number for", at);
        describe(e, "miscount", at);
        instr->counted = way == 0 ? 2 * instr->counted : 0;
        if (way == 2) instr->n_in = 1;
        return true;
    }
    return false;
}

/* Moves a buffer beyond the end of its arena, or what persists onto other bytes that persist. */
static bool misplace(edit *e) {
    const ls_image *image = e->image;
    const int n = image->n_buffers, from = edit_draw(e, n), way = edit_draw(e, 2);
    for (int k = 0; k < n; k++) {
        ls_buffer *b = &image->buffers[(from + k) % n];
        const ls_buffer *other = &image->buffers[edit_draw(e, n)];
        if (b->bytes == 0 || (b->program >= 0 && b->program != e->index)) continue;
        if (way == 1 &&
            (b->program >= 0 || other->program >= 0 || other->space != b->space || other == b || other->bytes == 0))
            continue;
        snprintf(e->what, sizeof e->what, "lay \"%s\" of rank %d %s", b->name, e->rank,
                 way == 0 ? "beyond the end" : other->name);
        b->offset =
            way == 0 ? image->bytes[b->space] - b->bytes + 64u * (1u + (unsigned)edit_draw(e, 4)) : other->offset;
        return true;
    }
    return false;
}

static int slot_of(const ls_instr *instr) { return instr->kind == LS_INSTR_KERNEL ? -1 : instr->epoch.slot; }

/* On a queue, what is said in slot b comes to stand in front of what is said in slot a, in the places of both. */
static void exchange_places(ls_program *p, int queue, int a, int b) {
    const size_t n = (size_t)p->n_instrs;
    ls_instr *before = malloc(n * sizeof *before);
    int *places = malloc(n * sizeof *places), *to = malloc(n * sizeof *to), found = 0, filled = 0;
    if (before == NULL || places == NULL || to == NULL) abort();
    memcpy(before, p->instrs, n * sizeof *before);
    for (int i = 0; i < p->n_instrs; i++) {
        const int slot = slot_of(&before[i]);
        to[i] = i;
        if (before[i].queue == queue && (slot == a || slot == b)) places[found++] = i;
    }
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < found; k++)
            if (slot_of(&before[places[k]]) == (pass == 0 ? b : a)) to[places[k]] = places[filled++];
    for (int i = 0; i < p->n_instrs; i++) {
        for (int k = 0; k < before[i].n_after; k++) before[i].after[k].instr = to[before[i].after[k].instr];
        p->instrs[to[i]] = before[i];
    }
    free(before);
    free(places);
    free(to);
}

bool edit_exchange_slots(ls_program *p, int a, int b, bool places) {
    bool has_a = false, has_b = false;
    for (int i = 0; i < p->n_instrs; i++) {
        has_a |= slot_of(&p->instrs[i]) == a;
        has_b |= slot_of(&p->instrs[i]) == b;
    }
    if (!has_a || !has_b || a == b) return false;
    for (int q = 0; q < p->queues && places; q++) exchange_places(p, q, a, b);
    for (int i = 0; i < p->n_instrs; i++) {
        int *slot = &p->instrs[i].epoch.slot;
        if (slot_of(&p->instrs[i]) == a || slot_of(&p->instrs[i]) == b) *slot = a + b - *slot;
    }
    return true;
}

/* Turns of a stage in another order. */
static bool permute(edit *e) {
    const int at = pick(e, WORDS), n = e->program->n_instrs, from = edit_draw(e, n > 0 ? n : 1);
    const bool places = edit_draw(e, 4) > 0;
    for (int k = 0; k < n && at >= 0; k++) {
        const int a = slot_of(&e->program->instrs[at]), b = slot_of(&e->program->instrs[(from + k) % n]);
        if (b < 0 || a == b) continue;
        describe(e, places ? "in another slot and place" : "in another slot", at);
        return edit_exchange_slots(e->program, a < b ? a : b, a < b ? b : a, places);
    }
    return false;
}

const edit_kind edit_kinds[] = {{"drop", drop},
                                {"swap", swap},
                                {"move", move},
                                {"order", reorder},
                                {"shift", shift},
                                {"reuse early", reuse_early},
                                {"put done", overwrite_early},
                                {"in place", overlay},
                                {"generation", regenerate},
                                {"peer", other_peer},
                                {"address", tell_wrong},
                                {"early signal", signal_early},
                                {"epoch", move_epoch},
                                {"slots", permute},
                                {"memory", misplace},
                                {"count", miscount}};
_Static_assert((int)LS_COUNT(edit_kinds) == (int)EDIT_KINDS, "the header says how many there are");
