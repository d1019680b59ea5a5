/* Executes one instruction of the play: checks its operands, and what it touches, reads and leaves. */
#include "program/name.h"
#include "program/verify_impl.h"

#include <limits.h>

/*
 * A queue has waited until the puts of queue `of` up to that instruction were done: at `at` their sources have been
 * read.
 */
static void settle(ls_play *p, ls_point at, int queue, int of, int instr) {
    ls_play_rank *r = &p->rank[at.rank];
    const ls_play_queue *q = &r->queue[of];
    int *settled = &r->queue[queue].settled[of];
    for (; *settled < q->n_puts && q->puts[*settled]->start.instr <= instr; ++*settled)
        ls_access_seen(q->puts[*settled], at);
}

/* Checks the value of an operand that the instruction reads and has just touched. */
static void check_value(ls_play *p, int rank, const ls_operand *o, ls_point at) {
    if (ls_operand_is_empty(o) || o->value == 0) return;
    ls_play_expect(p, rank, o->buffer, ls_name_begin(&o->view), o->value, at);
}

static ls_status touch(ls_play *p, int rank, const ls_operand *o, bool writes, ls_point at, const uint32_t *clock,
                       bool open, ls_access **out) {
    if (out != NULL) *out = NULL;
    if (ls_operand_is_empty(o)) return ls_ok();
    if (!ls_operand_is_inside(p->rank[rank].image, o)) return ls_play_fault(p, at, "it reaches outside of its buffer");
    return ls_bytes_touch(&p->bytes[rank], o, writes, at, clock, open, out);
}

/* Reads bytes of another rank in place. */
static ls_status read_in_place(ls_play *p, int rank, int queue, const ls_operand *o, ls_point at) {
    const uint32_t *clock = p->rank[rank].queue[queue].clock;
    if (ls_operand_is_empty(o)) return ls_ok();
    const ls_lease *lease = ls_lease_find(&p->rank[rank].leases, o);
    if (lease == NULL) return ls_play_fault(p, at, LS_NOT_LEASED);
    ls_bytes *owner = &p->bytes[lease->owner];
    const ls_range there = ls_block_part(lease->block, &lease->range, o);
    LS_TRY(ls_bytes_touch_from(owner, lease->buffer, &there, false, at, clock, false, NULL));
    if (p->value.code != LS_OK) return ls_ok();
    const ls_status found = ls_lease_expect(lease, owner, o, at);
    if (found.code != LS_OK) p->value = found;
    return ls_ok();
}

/* Does the instruction's reads, in this rank's memory or in place. */
static ls_status read(ls_play *p, int rank, int queue, const ls_instr *instr, ls_point at) {
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        const ls_operand *o = access.operand;
        if (!ls_access_reads(&access)) continue;
        if (!ls_peer_is_self(o->peer)) {
            LS_TRY(read_in_place(p, rank, queue, o, at));
            continue;
        }
        LS_TRY(touch(p, rank, o, false, at, p->rank[rank].queue[queue].clock, false, NULL));
        check_value(p, rank, o, at);
    }
    return ls_ok();
}

/* Does the instruction's writes in this rank's memory. */
static ls_status write(ls_play *p, int rank, int queue, const ls_instr *instr, ls_point at) {
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        if (!ls_access_writes(&access) || !ls_peer_is_self(access.operand->peer)) continue;
        at.key = access.output >= 0 ? ls_write_key(instr->number, access.output) : -1;
        LS_TRY(touch(p, rank, access.operand, true, at, p->rank[rank].queue[queue].clock, false, NULL));
    }
    return ls_ok();
}

/* A put writes where its receive says. */
static ls_status land(ls_play *p, int rank, int queue, const ls_instr *instr, ls_point at, ls_access **out) {
    const ls_image *image = p->rank[rank].image;
    const int peer = ls_peer_rank(image, instr->peer, rank);
    const ls_instr *receives = ls_play_told(p, rank, instr);
    *out = NULL;
    if (receives == NULL || receives->kind != LS_INSTR_RECEIVE)
        return ls_play_fault(p, at, "its peer does not receive it");
    const ls_operand *slot = ls_instr_subject(receives);
    const ls_address there = ls_address_of(p->rank[peer].image, receives, peer),
                     here = ls_address_of(image, instr, rank);
    if (!ls_address_same_form(&there, &here))
        return ls_play_fault(p, at, "the slot that its peer receives in has another form");
    if (!ls_range_covers(&p->rank[rank].granted[instr->channel], &there.range))
        return ls_play_fault(p, at, "it lands outside the slot that the receiver has handed over");
    if (ls_operand_is_empty(slot)) return ls_ok();
    return ls_bytes_touch_from(&p->bytes[peer], slot->buffer, &there.range, true, at, p->rank[rank].queue[queue].clock,
                               true, out);
}

static ls_status put(ls_play *p, int rank, int queue, ls_point at) {
    ls_play_queue *q = &p->rank[rank].queue[queue];
    const ls_instr *instr = &ls_play_program(&p->rank[rank])->instrs[at.instr];
    ls_access *source, *target;
    LS_TRY(touch(p, rank, &instr->in[0], false, at, q->clock, true, &source));
    check_value(p, rank, &instr->in[0], at);
    if (ls_instr_count(instr) != NULL) {
        LS_TRY(touch(p, rank, &instr->in[1], false, at, q->clock, false, NULL));
        check_value(p, rank, &instr->in[1], at);
    }
    LS_TRY(land(p, rank, queue, instr, at, &target));
    if (source != NULL) q->puts[q->n_puts++] = source;
    return ls_play_post(p, rank, queue, target, source);
}

static ls_status execute(ls_play *p, int rank, int queue) {
    ls_play_rank *r = &p->rank[rank];
    ls_play_queue *q = &r->queue[queue];
    const ls_instr *instr = &ls_play_program(r)->instrs[q->instrs[q->next]];
    q->clock[ls_play_queue_id(p, rank, queue)]++;
    const ls_point at = ls_play_point(p, rank, queue);
    for (int i = 0; i < instr->n_after; i++) {
        const ls_after *after = &instr->after[i];
        if (after->done) settle(p, at, queue, after->queue, after->instr);
    }
    if (instr->kind == LS_INSTR_PUT) return put(p, rank, queue, at);
    LS_TRY(read(p, rank, queue, instr, at));
    LS_TRY(write(p, rank, queue, instr, at));
    return ls_traits(instr)->sets ? ls_play_post(p, rank, queue, NULL, NULL) : ls_ok();
}

/* Executes the head of a queue if it may start. */
static ls_status step(ls_play *p, int rank, int queue, bool *moved) {
    ls_play_rank *r = &p->rank[rank];
    ls_play_queue *q = &r->queue[queue];
    if (q->next == q->n) return ls_ok();
    const ls_instr *instr = &ls_play_program(r)->instrs[q->instrs[q->next]];
    for (int i = 0; i < instr->n_after; i++) {
        if (instr->after[i].instr > r->queue[instr->after[i].queue].done) return ls_ok();
    }
    const bool first = r->runs[ls_play_index(r)] == 0; /* what does not depend on the play is checked once */
    const char *unsound = first ? ls_instr_unsound(r->image, instr) : NULL;
    if (unsound != NULL) return ls_play_fault(p, ls_play_point(p, rank, queue), unsound);
    bool came = !ls_traits(instr)->awaits;
    if (!came) LS_TRY(ls_play_take(p, rank, queue, &came));
    if (!came) return ls_ok();
    for (int i = 0; i < instr->n_after; i++) ls_clock_learn(p, rank, queue, instr->after[i]);
    LS_TRY(execute(p, rank, queue));
    q->done = q->instrs[q->next++];
    if (q->awaited[q->done] > 0) ls_clock_remember(p, q);
    *moved = true;
    return ls_ok();
}

ls_status ls_play_run(ls_play *p, int rank, bool *moved) {
    for (int q = 0; q < p->queues_each; q++) {
        bool again = true;
        while (again) {
            again = false;
            LS_TRY(step(p, rank, q, &again));
            *moved |= again;
        }
    }
    return ls_ok();
}

ls_status ls_play_host_writes(ls_play *p, int rank) {
    ls_play_rank *r = &p->rank[rank];
    uint32_t *clock = r->queue[LS_COMPUTE].clock;
    const int queue = ls_play_queue_id(p, rank, LS_COMPUTE);
    for (int q = 0; q < p->queues_each; q++) ls_clock_join(p, clock, r->queue[q].clock);
    clock[queue]++;
    for (int q = 0; q < p->queues_each; q++) ls_clock_join(p, r->queue[q].clock, clock);
    const ls_point at = {.rank = rank,
                         .program = ls_play_index(r),
                         .instr = -1,
                         .op = "the host",
                         .key = -1,
                         .queue = queue,
                         .tick = clock[queue]};
    for (int q = 0; q < p->queues_each; q++) settle(p, at, LS_COMPUTE, q, INT_MAX); /* all puts are done */
    for (int i = 0; i < r->image->n_buffers; i++) {
        const ls_buffer *b = &r->image->buffers[i];
        if (b->program >= 0 || b->kind != LS_BUFFER_INPUT) continue;
        const int64_t pairs = (int64_t)b->bytes / 2; /* BF16: 2 bytes, the smallest element */
        const ls_operand whole = ls_operand_dense(i, 0, LS_BF16, 1, &pairs);
        LS_TRY(touch(p, rank, &whole, true, at, clock, false, NULL));
    }
    return ls_ok();
}
