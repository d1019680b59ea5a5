/*
 * Order: the compute and the copy queue keep their own order; where one touches bytes that the other touched earlier in the
 * list, and one of them writes, the later instruction must wait. Bytes are compared at their final addresses, so reuse of
 * memory is covered like data flow.
 */
#include "compile/compile_impl.h"

typedef struct access {
    bool writes;
    int peer; /* whose bytes */
    ls_space space;
    ls_range range;
} access;

typedef struct accesses {
    int n;
    access *list;
} accesses;

static void add(const ls_image *image, accesses *a, const ls_operand *o, bool writes) {
    if (o->buffer < 0 || ls_view_elements(&o->view) == 0) return;
    a->list[a->n++] = (access){.writes = writes,
                               .peer = o->peer,
                               .space = image->buffers[o->buffer].space,
                               .range = ls_operand_range(image, o)};
}

/*
 * The bytes that an instruction touches, each of one rank. Handing a slot over counts as writing it, and so do, for a block of
 * another rank, the wait after which it may be read and the signal that gives it back.
 */
static void find_accesses(const ls_image *image, const ls_instr *instr, ls_arena *scratch, accesses *a) {
    a->list = LS_NEW_ARRAY(scratch, access, instr->n_in + instr->n_out + 1);
    for (int i = 0; i < instr->n_in; i++) add(image, a, &instr->in[i], false);
    for (int i = 0; i < instr->n_out && instr->kind != LS_INSTR_PUT_SIGNAL; i++)
        add(image, a, &instr->out[i], true);
    add(image, a, instr->workspace, true);
}

static bool conflict(const accesses *a, const accesses *b) {
    for (int i = 0; i < a->n; i++) {
        for (int j = 0; j < b->n; j++) {
            const access *x = &a->list[i], *y = &b->list[j];
            if ((x->writes || y->writes) && x->space == y->space && x->peer == y->peer &&
                ls_range_overlap(&x->range, &y->range))
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
static bool frees_source(const ls_program *p, const accesses *all, const queue_history *h, int at,
                         const accesses *a) {
    for (int k = at - 1; k >= 0 && p->instrs[h->instrs[k]].kind != LS_INSTR_QUIET; k--) {
        if (p->instrs[h->instrs[k]].kind == LS_INSTR_PUT_SIGNAL && conflict(&all[h->instrs[k]], a))
            return true;
    }
    return false;
}

static void order_program(ls_image *image, ls_program *p) {
    ls_arena *scratch = ls_arena_create();
    accesses *all = LS_NEW_ARRAY(scratch, accesses, p->n_instrs + 1);
    queue_history history[LS_QUEUES];
    int joined[LS_QUEUES]; /* what each queue has already waited for in the other */
    for (int q = 0; q < LS_QUEUES; q++) {
        history[q] = (queue_history){LS_NEW_ARRAY(scratch, int, p->n_instrs + 1), 0};
        joined[q] = -1;
    }
    for (int i = 0; i < p->n_instrs; i++) {
        ls_instr *instr = &p->instrs[i];
        find_accesses(image, instr, scratch, &all[i]);
        const queue_history *other = &history[1 - instr->queue];
        for (int k = other->n - 1; k >= 0 && other->instrs[k] > joined[instr->queue]; k--) {
            const int j = other->instrs[k];
            const bool must = p->instrs[j].kind == LS_INSTR_QUIET ? frees_source(p, all, other, k, &all[i])
                                                                  : conflict(&all[j], &all[i]);
            if (!must) continue;
            instr->after = j;
            joined[instr->queue] = j;
            break;
        }
        history[instr->queue].instrs[history[instr->queue].n++] = i;
    }
    ls_arena_destroy(scratch);
}

void ls_order(ls_image *image) {
    for (int p = 0; p < LS_PROGRAMS; p++) order_program(image, &image->programs[p]);
}
