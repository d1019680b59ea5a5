/*
 * Proves one class by itself (verify_local.h): its queues run with peers that may do anything that they are allowed to.
 */
#include "program/verify_local.h"

#include <string.h>

#include "program/cursor.h"
#include "program/name.h"
#include "program/states.h"
#include "program/verify_impl.h"
#include "program/verify_local_impl.h"

/* One transfer over a channel, as this rank knows it. */
typedef struct use {
    int received;      /* the receive that awaits it, whose slot the peer may write; -1: none */
    ls_access *window; /* the peer's access while the window is open; NULL: the window is closed, or has no bytes */
} use;

/* An end of a channel (ls_instr_end). */
typedef struct end_state {
    ls_peer peer;
    uint64_t sets, awaits; /* number so far */
    int set;               /* the last instruction that set a word */
    ls_point awaited;      /* the last await */
} end_state;

typedef struct queue_state {
    uint32_t *clock;  /* what this queue has seen of each queue */
    ls_epoch awaited; /* the latest epoch of the awaits that come before the next instruction */
    ls_access **puts; /* accesses to sources of puts, in the order of the puts */
    int n_puts;
    int *settled; /* by queue: the number of that queue's puts that are known to be done */
} queue_state;

/* The heap of a peer that is read in place. */
typedef struct peer_memory {
    ls_peer peer;
    ls_bytes bytes;
    ls_leases leases;
} peer_memory;

typedef struct proving {
    const ls_image *image;
    const ls_program *program;
    int index, rank;
    ls_arena *arena;
    ls_cursor cursor;
    int queues;
    queue_state *queue;
    uint32_t *seen;    /* by instruction and queue: what the instruction's queue had seen after it */
    ls_epoch *awaited; /* by instruction: queue_state.awaited after the instruction */
    ls_bytes bytes;
    peer_memory **peers;
    int n_peers;
    size_t peer_capacity;
    use **uses;                        /* by end and generation - 1 */
    end_state *ends;                   /* by end */
    ls_channel_end (*noted)[LS_SIDES]; /* by channel */
    ls_status value; /* the first read that does not find its value: reported if nothing explains the failure better */
} proving;

static ls_point point_of(const proving *p, int i) {
    const ls_instr *instr = &p->program->instrs[i];
    return (ls_point){.rank = p->rank,
                      .program = p->index,
                      .instr = i,
                      .op = instr->op,
                      .key = -1,
                      .queue = instr->queue,
                      .tick = p->queue[instr->queue].clock[instr->queue]};
}

static ls_status fault(const proving *p, int i, const char *what) {
    return ls_instr_fault(p->image, p->index, p->rank, i, what);
}

/* Whether the queue has seen the end of the instruction at that point. */
static bool has_seen(const queue_state *q, const ls_point *point) { return q->clock[point->queue] >= point->tick; }

static use *use_of(const proving *p, const ls_instr *instr) {
    return &p->uses[ls_instr_end(instr)][instr->generation - 1];
}

/* --- epochs ----------------------------------------------------------------------------------------------- */

/*
 * Records the receive of each use of a channel; checks that every communicating instruction belongs to an existing use.
 */
static ls_status find_uses(const proving *p) {
    const ls_program *program = p->program;
    for (int i = 0; i < program->n_instrs; i++) {
        const ls_instr *instr = &program->instrs[i];
        if (instr->kind == LS_INSTR_KERNEL) continue;
        if (instr->channel < 0 || instr->channel >= program->n_channels || instr->generation < 1 ||
            instr->generation > ls_instr_uses(program, instr))
            return fault(p, i, "its channel has no such use");
        if (instr->kind == LS_INSTR_RECEIVE) use_of(p, instr)->received = i;
    }
    return ls_ok();
}

/* An epoch before all others, after which any word may be set. */
static const ls_epoch NO_EPOCH = {-1, -1, -1};

static ls_epoch later(ls_epoch a, ls_epoch b) { return ls_epoch_compare(a, b) < 0 ? b : a; }

/* --- memory ----------------------------------------------------------------------------------------------- */

static peer_memory *memory_of(proving *p, ls_peer peer) {
    for (int k = 0; k < p->n_peers; k++)
        if (ls_peer_equal(p->peers[k]->peer, peer)) return p->peers[k];
    peer_memory *made = LS_NEW(p->arena, peer_memory);
    *LS_PUSH(p->arena, p->peers, p->n_peers, p->peer_capacity) = made;
    made->peer = peer;
    ls_bytes_create(&made->bytes, p->image, -1 - p->n_peers, p->arena);
    return made;
}

static ls_status touch(proving *p, const ls_operand *o, bool writes, ls_point at, bool open, ls_access **out) {
    if (out != NULL) *out = NULL;
    return ls_operand_is_empty(o) ? ls_ok()
                                  : ls_bytes_touch(&p->bytes, o, writes, at, p->queue[at.queue].clock, open, out);
}

/*
 * Touches an operand in the memory of its peer. The peer's memory is assumed to be laid out like this rank's own: which
 * bytes are in which block of the peer does not depend on where the blocks lie.
 */
static ls_status touch_there(proving *p, peer_memory *there, const ls_operand *o, bool writes, ls_point at) {
    const ls_range range = ls_operand_range(p->image, o, p->rank);
    return ls_bytes_touch_from(&there->bytes, o->buffer, &range, writes, at, p->queue[at.queue].clock, false, NULL);
}

static void expect(proving *p, const ls_operand *o, ls_point at) {
    if (p->value.code != LS_OK || ls_operand_is_empty(o) || o->value == 0) return;
    p->value = ls_bytes_expect(&p->bytes, o->buffer, ls_name_begin(&o->view), o->value, at);
}

static ls_status read(proving *p, const ls_instr *instr, ls_point at) {
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        const ls_operand *o = access.operand;
        if (!ls_access_reads(&access) || ls_operand_is_empty(o)) continue;
        if (ls_peer_is_self(o->peer)) {
            LS_TRY(touch(p, o, false, at, false, NULL));
            expect(p, o, at);
            continue;
        }
        peer_memory *there = memory_of(p, o->peer);
        const ls_lease *lease = ls_lease_find(&there->leases, o);
        if (lease == NULL) return fault(p, at.instr, LS_NOT_LEASED);
        LS_TRY(touch_there(p, there, o, false, at));
        if (p->value.code == LS_OK) p->value = ls_lease_expect(lease, &there->bytes, o, at);
    }
    return ls_ok();
}

static ls_status write(proving *p, const ls_instr *instr, ls_point at) {
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        const ls_operand *o = access.operand;
        if (!ls_access_writes(&access) || ls_operand_is_empty(o)) continue;
        at.key = access.output >= 0 ? ls_write_key(instr->number, access.output) : -1;
        LS_TRY(ls_peer_is_self(o->peer) ? touch(p, o, true, at, false, NULL)
                                        : touch_there(p, memory_of(p, o->peer), o, true, at));
    }
    return ls_ok();
}

/* --- transfers -------------------------------------------------------------------------------------------- */

/* Opens the window in which the peer may write. It writes the bytes that the receive awaits (ls_prove_between). */
static ls_status grant(proving *p, const ls_instr *instr, ls_point at) {
    use *u = use_of(p, instr);
    if (u->received < 0) return fault(p, at.instr, "nothing is received in the slot that it grants");
    const ls_operand *slot = &instr->out[0], *comes = &p->program->instrs[u->received].out[0];
    if (ls_operand_is_empty(comes)) return ls_ok();
    const ls_extent granted = ls_operand_extent(slot, p->image->buffers[slot->buffer].offset),
                    filled = ls_operand_extent(comes, p->image->buffers[comes->buffer].offset);
    if (!ls_extent_covers(p->image, &granted, &filled))
        return fault(p, at.instr, "it does not grant all that will be received");
    return touch(p, comes, true, at, true, &u->window);
}

static ls_status put(proving *p, const ls_instr *instr, ls_point at) {
    queue_state *q = &p->queue[at.queue];
    ls_access *source;
    LS_TRY(touch(p, &instr->in[0], false, at, true, &source));
    expect(p, &instr->in[0], at);
    if (ls_instr_count(instr) != NULL) {
        LS_TRY(touch(p, &instr->in[1], false, at, false, NULL));
        expect(p, &instr->in[1], at);
    }
    if (source != NULL) q->puts[q->n_puts++] = source;
    return ls_ok();
}

static ls_status lease(proving *p, const ls_instr *instr, ls_point at) {
    return touch(p, &instr->in[0], false, at, true, &use_of(p, instr)->window);
}

static ls_status borrow(proving *p, const ls_instr *instr, ls_point at) {
    (void)at;
    const ls_operand *block = &instr->out[0];
    peer_memory *there = memory_of(p, block->peer);
    ls_lease_begin(&there->leases, p->arena,
                   (ls_lease){.channel = instr->channel,
                              .owner = there->bytes.rank,
                              .block = block,
                              .buffer = block->buffer,
                              .range = ls_operand_range(p->image, block, p->rank),
                              .transfer = instr->transfer,
                              .order = there->bytes.accesses});
    return ls_ok();
}

/* Closes the window: the peer no longer accesses what this rank has granted or leased. */
static ls_status close_window(proving *p, const ls_instr *instr, ls_point at) {
    use *u = use_of(p, instr);
    if (u->window != NULL) ls_access_seen(u->window, at);
    u->window = NULL;
    return ls_ok();
}

/* What a kind of instruction does besides its accesses, before or after them. */
typedef ls_status (*rule)(proving *p, const ls_instr *instr, ls_point at);
static const struct {
    rule before, after;
} rules[LS_INSTR_KINDS] = {
    [LS_INSTR_GRANT] = {.after = grant},           [LS_INSTR_PUT] = {.before = put},
    [LS_INSTR_RECEIVE] = {.before = close_window}, [LS_INSTR_LEASE] = {.after = lease},
    [LS_INSTR_BORROW] = {.after = borrow},         [LS_INSTR_RECLAIM] = {.before = close_window},
};

/*
 * Checks that a word is set after the last await at its end: if the instruction opens a use, after the await of the
 * previous use; else after that of the same use.
 */
static ls_status check_set(const proving *p, const end_state *end, int i) {
    const ls_instr *instr = &p->program->instrs[i];
    const queue_state *q = &p->queue[instr->queue];
    const uint64_t awaits = instr->generation - ls_traits(instr)->opens;
    if (end->awaits < awaits || (awaits > 0 && !has_seen(q, &end->awaited)))
        return fault(p, i, "it sets a word before it has awaited the other one: two messages may be on their way");
    if (ls_epoch_compare(q->awaited, instr->epoch) >= 0)
        return fault(p, i, "it sets a word only after an await of no earlier epoch: ranks may wait for each other");
    return ls_ok();
}

/*
 * Checks that a communicating instruction has its turn at its end of the channel, and records it for the comparison
 * with the other end.
 */
static ls_status take_turn(proving *p, const ls_instr *instr, ls_point at) {
    const bool sets = ls_traits(instr)->sets;
    end_state *end = &p->ends[ls_instr_end(instr)];
    if (ls_peer_is_self(instr->peer)) return fault(p, at.instr, "its peer is the rank itself");
    if (end->sets + end->awaits > 0 && !ls_peer_equal(end->peer, instr->peer))
        return fault(p, at.instr, "the other end of its channel is not the same rank at every use");
    end->peer = instr->peer;
    if (instr->generation != ++*(sets ? &end->sets : &end->awaits))
        return fault(p, at.instr, "the word's generations do not rise by one");
    if (sets) {
        LS_TRY(check_set(p, end, at.instr));
        end->set = at.instr;
    } else {
        end->awaited = at;
    }
    ls_channel_end_note(&p->noted[instr->channel][ls_instr_side(instr)], instr);
    return ls_ok();
}

/* --- running the queues ----------------------------------------------------------------------------------- */

/* The queue at `at` knows that the puts of another queue up to that instruction are done. */
static void settle(proving *p, ls_point at, const ls_after *after) {
    const queue_state *of = &p->queue[after->queue];
    int *settled = &p->queue[at.queue].settled[after->queue];
    for (; *settled < of->n_puts && of->puts[*settled]->start.instr <= after->instr; ++*settled)
        ls_access_seen(of->puts[*settled], at);
}

/* The queue learns what was known after an executed instruction. */
static void learn_from(proving *p, queue_state *q, int instr) {
    for (int i = 0; i < p->queues; i++)
        q->clock[i] = (uint32_t)ls_max(q->clock[i], p->seen[(size_t)instr * (size_t)p->queues + (size_t)i]);
    q->awaited = later(q->awaited, p->awaited[instr]);
}

/* The queue learns what another queue had seen when it was past that instruction. */
static void learn(proving *p, queue_state *q, const ls_after *after) {
    int passed = after->instr;
    while (p->program->instrs[passed].queue != after->queue) passed++;
    learn_from(p, q, passed);
}

/*
 * The peer sets a word only after its own last await, of a word that this rank has set before. So an await comes after
 * the last instruction that sets a word at its end: if it closes a use, after the instruction that opened the use; else
 * after the one that ended the previous use. Returns how many times the end must have set its word.
 */
static uint64_t sets_before(const ls_instr *instr) {
    return ls_traits(instr)->awaits ? instr->generation - !ls_traits(instr)->closes : 0;
}

static ls_status execute(proving *p, int i) {
    const ls_instr *instr = &p->program->instrs[i];
    queue_state *q = &p->queue[instr->queue];
    const char *unsound = ls_instr_unsound(p->image, instr);
    if (unsound != NULL) return fault(p, i, unsound);
    for (int k = 0; k < instr->n_after; k++) learn(p, q, &instr->after[k]);
    if (sets_before(instr) > 0) learn_from(p, q, p->ends[ls_instr_end(instr)].set);
    q->clock[instr->queue]++;
    const ls_point at = point_of(p, i);
    for (int k = 0; k < instr->n_after; k++)
        if (instr->after[k].done) settle(p, at, &instr->after[k]);
    if (instr->kind != LS_INSTR_KERNEL) LS_TRY(take_turn(p, instr, at));
    if (rules[instr->kind].before != NULL) LS_TRY(rules[instr->kind].before(p, instr, at));
    if (instr->kind != LS_INSTR_PUT) { /* a put reads its source until it is done */
        LS_TRY(read(p, instr, at));
        LS_TRY(write(p, instr, at));
    }
    if (rules[instr->kind].after != NULL) LS_TRY(rules[instr->kind].after(p, instr, at));
    if (ls_traits(instr)->awaits) q->awaited = later(q->awaited, instr->epoch);
    memcpy(&p->seen[(size_t)i * (size_t)p->queues], q->clock, sizeof *q->clock * (size_t)p->queues);
    p->awaited[i] = q->awaited;
    return ls_ok();
}

static bool may_start(const proving *p, int queue) {
    const ls_instr *instr = &p->program->instrs[ls_cursor_head(&p->cursor, queue)];
    const uint64_t sets = sets_before(instr);
    return (sets == 0 || p->ends[ls_instr_end(instr)].sets >= sets) && ls_cursor_may_start(&p->cursor, queue);
}

/* A put may be done as soon as it is executed; instructions that rely on this wait for it with `after`. */
static ls_status run_queues(proving *p) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < p->queues; k++) {
            for (int i; (i = ls_cursor_head(&p->cursor, k)) >= 0 && may_start(p, k); moved = true) {
                LS_TRY(execute(p, i));
                ls_cursor_advance(&p->cursor, k);
                ls_cursor_complete(&p->cursor, k, i);
            }
        }
    }
    for (int k = 0; k < p->queues; k++)
        if (ls_cursor_head(&p->cursor, k) >= 0)
            return fault(p, ls_cursor_head(&p->cursor, k), "the queues of a rank wait for each other");
    return ls_ok();
}

/* Checks that the program is closed and leaves the values that it must leave. */
static ls_status check_end(proving *p) {
    for (int e = 0; e < LS_SIDES * p->program->n_channels; e++) {
        const ls_channel *channel = &p->program->channels[e / LS_SIDES];
        const uint64_t least = ls_min(p->ends[e].sets, p->ends[e].awaits), uses = channel->uses[e % LS_SIDES];
        if (least != uses)
            return ls_error(LS_INVALID, "program rejected: rank %d, %s: \"%s\" is used %llu times, expected %llu",
                            p->rank, p->program->name, channel->name, (unsigned long long)least,
                            (unsigned long long)uses);
    }
    const ls_point end = {.rank = p->rank, .program = p->index, .instr = -1, .op = "its end"};
    for (int i = 0; i < p->image->n_buffers && p->value.code == LS_OK; i++) {
        const ls_buffer *b = &p->image->buffers[i];
        if (b->program >= 0 || b->bytes == 0) continue;
        const ls_range whole = ls_range_flat(b->offset, b->bytes);
        ls_bytes_ask(&p->bytes, b->space, whole, (ls_extent){whole, 0});
        p->value = ls_bytes_expect(&p->bytes, i, 1, p->program->kept[i].left, end);
    }
    return p->value;
}

static void set_up(proving *p) {
    const int n = p->program->n_instrs, ends = LS_SIDES * p->program->n_channels;
    p->awaited = LS_NEW_ARRAY(p->arena, ls_epoch, n + 1);
    p->ends = LS_NEW_ARRAY(p->arena, end_state, ends + 1);
    p->uses = LS_NEW_ARRAY(p->arena, use *, ends + 1);
    for (int e = 0; e < ends; e++) {
        const uint64_t uses = p->program->channels[e / LS_SIDES].uses[e % LS_SIDES];
        p->uses[e] = LS_NEW_ARRAY(p->arena, use, uses + 1);
        for (uint64_t u = 0; u < uses; u++) p->uses[e][u].received = -1;
    }
    p->cursor = ls_cursor_make(p->program, p->arena);
    p->queues = p->program->queues;
    p->queue = LS_NEW_ARRAY(p->arena, queue_state, p->queues);
    p->seen = LS_NEW_ARRAY(p->arena, uint32_t, (size_t)(n + 1) * (size_t)p->queues);
    for (int k = 0; k < p->queues; k++)
        p->queue[k] = (queue_state){.clock = LS_NEW_ARRAY(p->arena, uint32_t, p->queues),
                                    .awaited = NO_EPOCH,
                                    .puts = LS_NEW_ARRAY(p->arena, ls_access *, n + 1),
                                    .settled = LS_NEW_ARRAY(p->arena, int, p->queues)};
}

static ls_status prove_program(const ls_image *image, int index, int rank, ls_program_ends *out) {
    proving p = {.image = image,
                 .program = &image->programs[index],
                 .index = index,
                 .rank = rank,
                 .arena = ls_arena_create(),
                 .noted = out->ends,
                 .value = ls_ok()};
    set_up(&p);
    ls_bytes_create(&p.bytes, image, rank, p.arena);
    ls_status status = find_uses(&p);
    if (status.code == LS_OK) status = run_queues(&p);
    if (status.code == LS_OK) status = check_end(&p);
    ls_arena_destroy(p.arena);
    return status;
}

ls_status ls_prove_class(const ls_image *image, int rank, ls_arena *arena, ls_class_proof **out) {
    ls_class_proof *proof = ls_class_proof_make(image, rank, arena);
    LS_TRY(ls_image_check(image, rank));
    LS_TRY(ls_joins_check(image));
    LS_TRY(ls_effects_check(image, rank));
    for (int p = 0; p < image->n_programs; p++) LS_TRY(prove_program(image, p, rank, &proof->programs[p]));
    *out = proof;
    return ls_ok();
}
