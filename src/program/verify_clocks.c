/* Vector clocks: what each queue of the play has seen of every other queue. */
#include "program/verify_impl.h"

#include <string.h>

struct ls_moment {
    ls_moment *next; /* the next free one */
    uint32_t clock[];
};

void ls_clock_join(const ls_play *p, uint32_t *into, const uint32_t *from) {
    for (int q = 0; q < p->queues; q++) into[q] = from[q] > into[q] ? from[q] : into[q];
}

/* The first instruction of this queue that is not before the given one in the list; -1: there is none. */
static int reached_at(const ls_play_rank *r, int queue, int instr) {
    const ls_program *program = ls_play_program(r);
    for (int i = instr; i < program->n_instrs; i++) {
        if (program->instrs[i].queue == queue) return i;
    }
    return -1;
}

void ls_clock_remember(ls_play *p, ls_play_queue *q) {
    ls_moment *m = p->free_moments;
    if (m != NULL)
        p->free_moments = m->next;
    else
        m = ls_arena_alloc(p->arena, sizeof *m + sizeof(uint32_t) * (size_t)p->queues);
    memcpy(m->clock, q->clock, sizeof(uint32_t) * (size_t)p->queues);
    q->moments[q->done] = m;
}

void ls_clock_learn(ls_play *p, int rank, int queue, ls_after after) {
    ls_play_rank *r = &p->rank[rank];
    if (after.queue == queue) return; /* a put of its own queue, which it knows */
    ls_play_queue *other = &r->queue[after.queue];
    const int at = reached_at(r, after.queue, after.instr);
    ls_moment *m = other->moments[at];
    ls_clock_join(p, r->queue[queue].clock, m->clock);
    if (--other->awaited[at] > 0) return;
    other->moments[at] = NULL;
    m->next = p->free_moments;
    p->free_moments = m;
}

void ls_clock_begin(ls_play_rank *r) {
    const ls_program *program = ls_play_program(r);
    for (int i = 0; i < program->n_instrs; i++) r->queue[program->instrs[i].queue].awaited[i] = 0;
    for (int i = 0; i < program->n_instrs; i++) {
        const ls_instr *instr = &program->instrs[i];
        for (int k = 0; k < instr->n_after; k++) {
            if (instr->after[k].queue == instr->queue) continue;
            const int at = reached_at(r, instr->after[k].queue, instr->after[k].instr);
            if (at >= 0) r->queue[instr->after[k].queue].awaited[at]++;
        }
    }
}
