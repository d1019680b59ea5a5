/*
 * Order: queues keep their own order; where one touches bytes that another touched earlier in the list, and one of them
 * writes, the later instruction must wait. Bytes are compared at their final addresses, so reuse of memory is covered like
 * data flow.
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

/* Whether a quiet at `at` completes a put whose source `a` writes. */
static bool frees_source(const ls_image *image, const ls_program *p, const accesses *all,
                         const queue_history *h, int at, const accesses *a) {
    for (int k = at - 1; k >= 0 && p->instrs[h->instrs[k]].kind != LS_INSTR_QUIET; k--) {
        if (p->instrs[h->instrs[k]].kind == LS_INSTR_PUT_SIGNAL && conflict(image, &all[h->instrs[k]], a))
            return true;
    }
    return false;
}

/* The last instruction of another queue, behind `joined`, that instruction i must come after; -1: there is none. */
static int last_conflict(const ls_image *image, const ls_program *p, const accesses *all,
                         const queue_history *other, int joined, int i) {
    for (int k = other->n - 1; k >= 0 && other->instrs[k] > joined; k--) {
        const int j = other->instrs[k];
        const bool must = p->instrs[j].kind == LS_INSTR_QUIET ? frees_source(image, p, all, other, k, &all[i])
                                                              : conflict(image, &all[j], &all[i]);
        if (must) return j;
    }
    return -1;
}

static void order_program(ls_image *image, ls_program *p) {
    ls_arena *scratch = ls_arena_create();
    const int queues = p->queues;
    accesses *all = LS_NEW_ARRAY(scratch, accesses, p->n_instrs + 1);
    queue_history *history = LS_NEW_ARRAY(scratch, queue_history, queues + 1);
    int *joined =
        LS_NEW_ARRAY(scratch, int, queues *queues + 1); /* by queue: what it has waited for in each other */
    ls_after *found = LS_NEW_ARRAY(scratch, ls_after, queues + 1);
    for (int q = 0; q < queues; q++) history[q].instrs = LS_NEW_ARRAY(scratch, int, p->n_instrs + 1);
    for (int k = 0; k < queues * queues; k++) joined[k] = -1;
    for (int i = 0; i < p->n_instrs; i++) {
        ls_instr *instr = &p->instrs[i];
        find_accesses(image, instr, scratch, &all[i]);
        instr->n_after = 0;
        for (int q = 0; q < queues; q++) {
            int *known = &joined[instr->queue * queues + q];
            const int j = q == instr->queue ? -1 : last_conflict(image, p, all, &history[q], *known, i);
            if (j >= 0) found[instr->n_after++] = (ls_after){.queue = q, .instr = *known = j};
        }
        instr->after = ls_arena_copy(image->arena, found, sizeof *found * (size_t)instr->n_after);
        history[instr->queue].instrs[history[instr->queue].n++] = i;
    }
    ls_arena_destroy(scratch);
}

void ls_order(ls_image *image) {
    for (int p = 0; p < image->n_programs; p++) order_program(image, &image->programs[p]);
}
