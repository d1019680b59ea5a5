/* What the files of the timeline share: kinds of instructions, and one row. */
#ifndef LS_PLAN_TIMELINE_IMPL_H
#define LS_PLAN_TIMELINE_IMPL_H

#include <stdio.h>

#include "report/report.h"

/* By what boxes are coloured. IDLE is no instruction: the rank stands, since both queues wait. */
typedef enum ls_timeline_kind {
    LS_TIMELINE_ATTENTION,
    LS_TIMELINE_GRADIENT,
    LS_TIMELINE_MATMUL,
    LS_TIMELINE_KERNEL,
    LS_TIMELINE_PUT,
    LS_TIMELINE_SIGNAL,
    LS_TIMELINE_WAIT,
    LS_TIMELINE_IDLE,
    LS_TIMELINE_KINDS
} ls_timeline_kind;

extern const char *const ls_timeline_kind_name[LS_TIMELINE_KINDS];
ls_timeline_kind ls_timeline_kind_of(const ls_instr *instr);

/* Seconds of a queue's instructions, and of its waits. */
typedef struct ls_timeline_sum {
    double working, waiting;
} ls_timeline_sum;

/* A row: one queue of one rank. Lengths are pixels. */
typedef struct ls_timeline_row {
    FILE *out;
    const ls_program *program;
    ls_queue queue;
    double x, y, height; /* of time 0; its top */
    double per_second;
    int width; /* of the whole row */
} ls_timeline_row;

ls_timeline_sum ls_timeline_put_row(const ls_timeline_row *row, const ls_timeline_rank *rank);

#endif
