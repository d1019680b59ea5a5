/*
 * Order: queues keep their own order; where one touches bytes that another touched earlier in the list, and one of them
 * writes, the later instruction must wait. Where an instruction writes what a put reads, on any queue, it waits until the put
 * is done. Bytes are compared at their final addresses, so reuse of memory is covered like data flow. What sets a word waits
 * for the last await at its end of the channel (instr.h), whatever their bytes.
 */
#include "compile/compile_impl.h"
#include "program/program.h"

typedef struct access {
    bool writes;
    ls_peer peer; /* whose bytes */
    ls_space space;
    ls_extent extent;
} access;

typedef struct accesses {
    int n;
    access *list;
} accesses;

/* The bytes that an instruction touches, each of one rank, and whose order is this rank's to keep. */
static void find_accesses(const ls_image *image, const ls_instr *instr, ls_arena *scratch, accesses *a) {
    a->list = LS_NEW_ARRAY(scratch, access, ls_instr_accesses(instr));
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access it = ls_instr_access_at(instr, k);
        if (it.kind == LS_ACCESS_PUT || ls_operand_is_empty(it.operand)) continue;
        a->list[a->n++] =
            (access){.writes = ls_access_writes(&it),
                     .peer = it.operand->peer,
                     .space = image->buffers[it.operand->buffer].space,
                     .extent = ls_operand_extent(it.operand, image->buffers[it.operand->buffer].offset)};
    }
}

static bool conflict(const ls_image *image, const accesses *a, const accesses *b) {
    for (int i = 0; i < a->n; i++) {
        for (int j = 0; j < b->n; j++) {
            const access *x = &a->list[i], *y = &b->list[j];
            if ((x->writes || y->writes) && x->space == y->space && ls_peer_equal(x->peer, y->peer) &&
                ls_extents_meet(image, &x->extent, &y->extent))
                return true;
        }
    }
    return false;
}

typedef struct queue_history {
    int *instrs; /* of this queue so far */
    int n;
} queue_history;

/* The source of a put that nothing has overwritten as a whole yet. */
typedef struct source {
    ls_interval place; /* from its first byte to its last, on any rank of the class */
    ls_extent extent;
    int queue, instr;
} source;

typedef struct ordering {
    const ls_image *image;
    ls_program *program;
    ls_arena *scratch;
    accesses *all;
    queue_history *history;
    ls_intervals sources[LS_SPACES];
    ls_interval_list near;
    int *awaited; /* by end of a channel: the last await so far; -1: none */
    /* [queue * queues + other queue]: up to where the queue has waited already, until it was executed and until its puts were done */
    int *executed, *done;
} ordering;

static ordering begin(const ls_image *image, ls_program *p, ls_arena *scratch) {
    const int queues = p->queues;
    ordering o = {.image = image,
                  .program = p,
                  .scratch = scratch,
                  .all = LS_NEW_ARRAY(scratch, accesses, p->n_instrs + 1),
                  .history = LS_NEW_ARRAY(scratch, queue_history, queues + 1),
                  .near = {.arena = scratch},
                  .awaited = LS_NEW_ARRAY(scratch, int, 2 * p->n_channels + 1),
                  .executed = LS_NEW_ARRAY(scratch, int, queues *queues + 1),
                  .done = LS_NEW_ARRAY(scratch, int, queues *queues + 1)};
    for (int q = 0; q < queues; q++) o.history[q].instrs = LS_NEW_ARRAY(scratch, int, p->n_instrs + 1);
    for (int k = 0; k < queues * queues; k++) o.executed[k] = o.done[k] = -1;
    for (int end = 0; end < 2 * p->n_channels; end++) o.awaited[end] = -1;
    return o;
}

/* The last instruction of another queue, behind `joined`, that instruction i must come after; -1: there is none. */
static int last_conflict(const ordering *o, int other, int joined, int i) {
    const queue_history *h = &o->history[other];
    for (int k = h->n - 1; k >= 0 && h->instrs[k] > joined; k--) {
        if (conflict(o->image, &o->all[h->instrs[k]], &o->all[i])) return h->instrs[k];
    }
    return -1;
}

/* The await of the other queue that instruction i must come after because it sets a word; -1: there is none. */
static int turn_before(const ordering *o, int other, int i) {
    const ls_instr *instr = &o->program->instrs[i];
    const int await = ls_traits(instr)->sets ? o->awaited[ls_instr_end(instr)] : -1;
    return await >= 0 && o->program->instrs[await].queue == other ? await : -1;
}

/* By queue: the last put whose source instruction i writes; -1: none. Sources that it writes as a whole are the later writers' no more. */
static void find_overwritten(ordering *o, int i, int *last) {
    for (int q = 0; q < o->program->queues; q++) last[q] = -1;
    for (int k = 0; k < o->all[i].n; k++) {
        const access *a = &o->all[i].list[k];
        if (!a->writes || !ls_peer_is_self(a->peer)) continue;
        ls_intervals_find(&o->sources[a->space], a->extent.range.offset, ls_extent_end(o->image, &a->extent),
                          &o->near);
        for (int n = 0; n < o->near.n; n++) {
            source *s = (source *)o->near.item[n];
            if (!ls_extents_meet(o->image, &s->extent, &a->extent)) continue;
            last[s->queue] = (int)ls_max(last[s->queue], s->instr);
            if (ls_extent_covers(o->image, &a->extent, &s->extent))
                ls_intervals_remove(&o->sources[a->space], &s->place);
        }
    }
}

static void add_source(ordering *o, int i) {
    const ls_instr *instr = &o->program->instrs[i];
    if (instr->kind != LS_INSTR_PUT || o->all[i].n == 0) return;
    const access *a = &o->all[i].list[0];
    source *s = LS_NEW(o->scratch, source);
    *s = (source){.place = {.from = a->extent.range.offset, .past = ls_extent_end(o->image, &a->extent)},
                  .extent = a->extent,
                  .queue = instr->queue,
                  .instr = i};
    ls_intervals_add(&o->sources[a->space], &s->place);
}

/* What instruction i comes after, into `found`; returns how many. That a put is done says that it, and what is before it, was executed. */
static int find_after(ordering *o, int i, int *overwritten, ls_after *found) {
    const int queue = o->program->instrs[i].queue, queues = o->program->queues;
    int n = 0;
    find_overwritten(o, i, overwritten);
    for (int q = 0; q < queues; q++) {
        int *executed = &o->executed[queue * queues + q], *done = &o->done[queue * queues + q];
        const bool awaits_put = overwritten[q] > *done;
        if (awaits_put) *executed = (int)ls_max(*executed, *done = overwritten[q]);
        int j = -1;
        if (q != queue) j = (int)ls_max(last_conflict(o, q, *executed, i), turn_before(o, q, i));
        if (j > *executed) found[n++] = (ls_after){.queue = q, .instr = *executed = j};
        if (awaits_put) found[n++] = (ls_after){.queue = q, .instr = *done, .done = true};
    }
    return n;
}

static void order_program(ls_image *image, ls_program *p) {
    ls_arena *scratch = ls_arena_create();
    ordering o = begin(image, p, scratch);
    int *overwritten = LS_NEW_ARRAY(scratch, int, p->queues + 1);
    ls_after *found = LS_NEW_ARRAY(scratch, ls_after, 2 * p->queues + 1);
    for (int i = 0; i < p->n_instrs; i++) {
        ls_instr *instr = &p->instrs[i];
        find_accesses(image, instr, scratch, &o.all[i]);
        instr->n_after = find_after(&o, i, overwritten, found);
        instr->after = ls_arena_copy(image->arena, found, sizeof *found * (size_t)instr->n_after);
        add_source(&o, i);
        if (ls_traits(instr)->awaits) o.awaited[ls_instr_end(instr)] = i;
        queue_history *own = &o.history[instr->queue];
        own->instrs[own->n++] = i;
    }
    ls_arena_destroy(scratch);
}

void ls_order(ls_image *image) {
    for (int p = 0; p < image->n_programs; p++) order_program(image, &image->programs[p]);
}
