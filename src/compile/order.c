/*
 * Order: the waits between queues. Each queue executes its instructions in the order of the list. If an instruction
 * touches bytes that an instruction of another queue touched earlier in the list, and one of the two writes them, the
 * later one must wait for the earlier one. An instruction that writes bytes which a put reads, on any queue, waits
 * until the put is done. Bytes are compared at their final addresses, so reuse of memory is covered like data flow. An
 * instruction that sets a word waits for the last await at its end of the channel (instr.h), whatever bytes they touch.
 *
 * For each other queue, a queue keeps the accesses that it has not waited for, ordered by place. There an instruction
 * finds its conflicts; accesses that have been waited for since are dropped when they are found. So a program of n
 * instructions takes O(n log n).
 */
#include "compile/compile_impl.h"
#include "program/program.h"

/* Bytes of one rank that an instruction touches and for whose order this rank is responsible. */
typedef struct access {
    const ls_operand *operand;
    bool writes;
    ls_space space;
    ls_extent extent;
} access;

/* An access that later instructions may conflict with. */
typedef struct earlier {
    ls_interval place; /* from its first byte to its last, on any rank of the class */
    const ls_operand *operand;
    ls_extent extent;
    int instr;
} earlier;

/* What one queue has waited for on another queue. */
typedef struct view {
    /*
     * The last instruction for whose execution it has waited, and the last put that it has waited to be done; -1: none.
     */
    int executed, done;
    /* Accesses that it has not waited for; and some old ones that are not dropped yet. */
    ls_intervals reads[LS_SPACES], writes[LS_SPACES];
} view;

typedef struct ordering {
    const ls_image *image;
    ls_program *program;
    ls_arena *scratch;
    access now[LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS + 1]; /* the accesses of the current instruction */
    int n_now;
    view *views;                     /* [queue * queues + other queue] */
    ls_intervals sources[LS_SPACES]; /* sources of puts; some are dropped when they are found, see find_overwritten */
    ls_interval_list near;
    int *awaited; /* by end of a channel: the last await so far; -1: none */
} ordering;

static void find_accesses(ordering *o, const ls_instr *instr) {
    o->n_now = 0;
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access it = ls_instr_access_at(instr, k);
        if (it.kind == LS_ACCESS_PUT || ls_operand_is_empty(it.operand)) continue;
        const ls_buffer *buffer = &o->image->buffers[it.operand->buffer];
        o->now[o->n_now++] = (access){.operand = it.operand,
                                      .writes = ls_access_writes(&it),
                                      .space = buffer->space,
                                      .extent = ls_operand_extent(it.operand, buffer->offset)};
    }
}

/* Finds the accesses near this one; the result is in o->near. */
static void find_near(ordering *o, const ls_intervals *among, const access *a) {
    ls_intervals_find(among, a->extent.range.offset, ls_extent_end(o->image, &a->extent), &o->near);
}

static void keep(ordering *o, ls_intervals *among, const access *a, int i) {
    earlier *e = LS_NEW(o->scratch, earlier);
    *e = (earlier){.place = {.from = a->extent.range.offset, .past = ls_extent_end(o->image, &a->extent)},
                   .operand = a->operand,
                   .extent = a->extent,
                   .instr = i};
    ls_intervals_add(among, &e->place);
}

static bool meet(const ordering *o, const earlier *e, const access *a) {
    return ls_peer_equal(e->operand->peer, a->operand->peer) && ls_extents_meet(o->image, &e->extent, &a->extent);
}

/* The last of these accesses that overlaps access a and that the queue has not waited for; `last` if that is later. */
static int last_met(ordering *o, const view *v, ls_intervals *among, const access *a, int last) {
    find_near(o, among, a);
    for (int k = 0; k < o->near.n; k++) {
        const earlier *e = (const earlier *)o->near.item[k];
        if (e->instr <= v->executed)
            ls_intervals_remove(among, &e->place);
        else if (e->instr > last && meet(o, e, a))
            last = e->instr;
    }
    return last;
}

/* The last instruction of another queue that conflicts with the current one and has not been waited for; -1: none. */
static int last_conflict(ordering *o, view *v) {
    int last = -1;
    for (int k = 0; k < o->n_now; k++) {
        const access *a = &o->now[k];
        last = last_met(o, v, &v->writes[a->space], a, last);
        if (a->writes) last = last_met(o, v, &v->reads[a->space], a, last);
    }
    return last;
}

/* The await on the other queue that an instruction must follow because it sets a word; -1: none. */
static int turn_before(const ordering *o, const ls_instr *instr, int other) {
    const int await = ls_traits(instr)->sets ? o->awaited[ls_instr_end(instr)] : -1;
    return await >= 0 && o->program->instrs[await].queue == other ? await : -1;
}

/* Whether every queue has waited until that put was done. */
static bool all_awaited(const ordering *o, const earlier *put) {
    const int queues = o->program->queues, of = o->program->instrs[put->instr].queue;
    bool all = true;
    for (int q = 0; q < queues; q++) all = all && o->views[q * queues + of].done >= put->instr;
    return all;
}

/*
 * Finds, by queue, the last put whose source the current instruction writes; -1: none. Drops sources that the current
 * instruction overwrites completely, since later writers then wait for it; and sources that all queues have waited for.
 */
static void find_overwritten(ordering *o, int *last) {
    for (int q = 0; q < o->program->queues; q++) last[q] = -1;
    for (int k = 0; k < o->n_now; k++) {
        const access *a = &o->now[k];
        if (!a->writes || !ls_peer_is_self(a->operand->peer)) continue;
        find_near(o, &o->sources[a->space], a);
        for (int n = 0; n < o->near.n; n++) {
            const earlier *put = (const earlier *)o->near.item[n];
            if (all_awaited(o, put)) {
                ls_intervals_remove(&o->sources[a->space], &put->place);
                continue;
            }
            if (!meet(o, put, a)) continue;
            int *last_of_queue = &last[o->program->instrs[put->instr].queue];
            *last_of_queue = (int)ls_max(*last_of_queue, put->instr);
            if (ls_extent_covers(o->image, &a->extent, &put->extent))
                ls_intervals_remove(&o->sources[a->space], &put->place);
        }
    }
}

/*
 * Stores what instruction i comes after in `found`; returns the number. If a put is done, it and everything before it
 * on its queue has been executed.
 */
static int find_after(ordering *o, int i, int *overwritten, ls_after *found) {
    const ls_instr *instr = &o->program->instrs[i];
    int n = 0;
    find_overwritten(o, overwritten);
    for (int q = 0; q < o->program->queues; q++) {
        view *v = &o->views[instr->queue * o->program->queues + q];
        const bool awaits_put = overwritten[q] > v->done;
        if (awaits_put) v->executed = (int)ls_max(v->executed, v->done = overwritten[q]);
        int last = -1;
        if (q != instr->queue) last = (int)ls_max(last_conflict(o, v), turn_before(o, instr, q));
        if (last > v->executed) found[n++] = (ls_after){.queue = q, .instr = v->executed = last};
        if (awaits_put) found[n++] = (ls_after){.queue = q, .instr = v->done, .done = true};
    }
    return n;
}

/* Records what instruction i touches, for the instructions after it. */
static void keep_accesses(ordering *o, int i) {
    const ls_instr *instr = &o->program->instrs[i];
    for (int k = 0; k < o->n_now; k++) {
        const access *a = &o->now[k];
        for (int q = 0; q < o->program->queues; q++) {
            view *v = &o->views[q * o->program->queues + instr->queue];
            if (q != instr->queue) keep(o, a->writes ? &v->writes[a->space] : &v->reads[a->space], a, i);
        }
        if (instr->kind == LS_INSTR_PUT) keep(o, &o->sources[a->space], a, i);
    }
    if (ls_traits(instr)->awaits) o->awaited[ls_instr_end(instr)] = i;
}

static void order_program(ls_image *image, ls_program *p) {
    ls_arena *scratch = ls_arena_create();
    ordering o = {.image = image,
                  .program = p,
                  .scratch = scratch,
                  .views = LS_NEW_ARRAY(scratch, view, p->queues * p->queues + 1),
                  .near = {.arena = scratch},
                  .awaited = LS_NEW_ARRAY(scratch, int, 2 * p->n_channels + 1)};
    for (int k = 0; k < p->queues * p->queues; k++) o.views[k].executed = o.views[k].done = -1;
    for (int end = 0; end < 2 * p->n_channels; end++) o.awaited[end] = -1;
    int *overwritten = LS_NEW_ARRAY(scratch, int, p->queues + 1);
    ls_after *found = LS_NEW_ARRAY(scratch, ls_after, 2 * p->queues + 1);
    for (int i = 0; i < p->n_instrs; i++) {
        ls_instr *instr = &p->instrs[i];
        find_accesses(&o, instr);
        instr->n_after = find_after(&o, i, overwritten, found);
        instr->after = ls_arena_copy(image->arena, found, sizeof *found * (size_t)instr->n_after);
        keep_accesses(&o, i);
    }
    ls_arena_destroy(scratch);
}

void ls_order(ls_image *image) {
    for (int p = 0; p < image->n_programs; p++) order_program(image, &image->programs[p]);
}
