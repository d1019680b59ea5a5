/*
 * A cursor: how far the queues of one run of a program have come. Its callers (the executor, the interpreter, the
 * simulator, the local verifier) ask it which instruction heads a queue and whether that may start, and tell it what
 * has been executed and which puts are done.
 *
 * The head of a queue may start when each entry of its list `after` has happened: the instruction there has been
 * executed, or, with `done` set, its puts are done. An instruction that waits for a signal word also needs the word's
 * generation (ls_instr_word, ls_instr_generation): its caller checks that.
 *
 * A caller that executes instructions itself advances the head. A caller that lets a device execute them may launch
 * instructions of a queue ahead of its head, but only after everything in their `after` has been launched.
 */
#ifndef LS_PROGRAM_CURSOR_H
#define LS_PROGRAM_CURSOR_H

#include "program/instr.h"

typedef struct ls_cursor {
    const ls_program *program;
    uint64_t runs; /* how many runs of the program came before this run: the base of generations */
    int *head;     /* by queue: the first instruction that has not been executed; n_instrs: the queue has ended */
    int *ahead;    /* by queue: the first instruction that has not been launched, or n_instrs */
    int *executed; /* by queue: its last executed instruction; -1: none */
    int *done;     /* by queue: its puts up to that instruction are known to be done; -1: none */
    int *first;    /* by queue: its first instruction, or n_instrs */
    int *next;     /* by instruction: the next one of its queue, or n_instrs */
} ls_cursor;

/*
 * A cursor at the beginning of the program's first run. The program, except its operands, must not change; memory is
 * the arena's.
 */
ls_cursor ls_cursor_make(const ls_program *program, ls_arena *arena);
/* Moves to the beginning of a run. runs: as in ls_cursor. */
void ls_cursor_begin(ls_cursor *cursor, uint64_t runs);
/* Whether all queues have ended. */
bool ls_cursor_has_ended(const ls_cursor *cursor);

/* The head of a queue: an index into instrs; -1: the queue has ended. */
static inline int ls_cursor_head(const ls_cursor *cursor, int queue) {
    const int head = cursor->head[queue];
    return head < cursor->program->n_instrs ? head : -1;
}

/* The next instruction of a queue to be launched: an index into instrs; -1: all have been. */
static inline int ls_cursor_ahead(const ls_cursor *cursor, int queue) {
    const int ahead = cursor->ahead[queue];
    return ahead < cursor->program->n_instrs ? ahead : -1;
}

/* Whether the entry of an `after` list has happened; and whether its instruction has been launched. */
static inline bool ls_cursor_happened(const ls_cursor *cursor, const ls_after *after) {
    const int *reached = after->done ? cursor->done : cursor->executed;
    return after->instr <= reached[after->queue];
}
static inline bool ls_cursor_launched(const ls_cursor *cursor, const ls_after *after) {
    return after->instr < cursor->ahead[after->queue];
}

/* The first entry of `after` of the queue's head that has not happened; NULL: none. The queue must not have ended. */
static inline const ls_after *ls_cursor_obstacle(const ls_cursor *cursor, int queue) {
    const ls_instr *instr = &cursor->program->instrs[cursor->head[queue]];
    for (int i = 0; i < instr->n_after; i++) {
        if (!ls_cursor_happened(cursor, &instr->after[i])) return &instr->after[i];
    }
    return NULL;
}
static inline bool ls_cursor_may_start(const ls_cursor *cursor, int queue) {
    return ls_cursor_obstacle(cursor, queue) == NULL;
}
/* Whether the obstacle's instruction has been executed, so that only puts are still to be done. */
static inline bool ls_cursor_awaits_puts(const ls_cursor *cursor, const ls_after *obstacle) {
    return obstacle->done && obstacle->instr <= cursor->executed[obstacle->queue];
}

/* Records that the next instruction of the queue to be launched has been launched. */
static inline void ls_cursor_launch(ls_cursor *cursor, int queue) {
    cursor->ahead[queue] = cursor->next[cursor->ahead[queue]];
}

/* Records that the head of the queue has been executed. */
static inline void ls_cursor_advance(ls_cursor *cursor, int queue) {
    const int instr = cursor->head[queue];
    cursor->executed[queue] = instr;
    cursor->head[queue] = cursor->next[instr];
    if (cursor->ahead[queue] == instr) ls_cursor_launch(cursor, queue);
}

/* Records that the puts of the queue up to that instruction, which have been executed, are done. */
static inline void ls_cursor_complete(ls_cursor *cursor, int queue, int instr) {
    if (instr > cursor->done[queue]) cursor->done[queue] = instr;
}

#endif
