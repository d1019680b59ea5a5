/*
 * The timeline: a picture of what the queues of all ranks do when in one run of a program, as predicted and, row beneath row on the same
 * axis, as measured.
 */
#ifndef LS_PLAN_TIMELINE_H
#define LS_PLAN_TIMELINE_H

#include "program/program.h"
#include "run/trace.h"

/* What a rank did: spans of its instructions, and of the time in which neither queue could go on (LS_SPAN_ASLEEP). */
typedef struct ls_timeline_rank {
    const ls_span_time
        *spans; /* [n], in the order in which they ended; others than these two kinds are passed over */
    size_t n;
} ls_timeline_rank;

/* Seconds count from a start that all ranks share. */
typedef struct ls_timeline {
    const char *model;             /* for the title */
    const ls_image *const *images; /* [ranks] */
    int ranks, program;
    const ls_timeline_rank *predicted; /* [ranks] */
    const ls_timeline_rank *measured;  /* [ranks]; NULL: it was not run */
    bool host_measured; /* the prediction is by rates measured on this machine; else by nominal ones */
    int first, shown;   /* ranks that are drawn; the totals are of all */
} ls_timeline;

enum { LS_TIMELINE_RANKS = 16 }; /* most that are drawn */

/* When the last rank was through. */
double ls_timeline_end(const ls_timeline_rank *ranks, int n);

/*
 * Draws, for each rank, a row per queue: a box per instruction, coloured by kind. Neighbours narrower than a pixel are drawn together in the
 * colour of what took most of the time, as high as they fill it. Waits are thin, and strong where the whole rank stood. Beside
 * each row: how long the queue worked and waited. Writes the SVG atomically; LS_IO errors name the file.
 */
LS_MUST_USE ls_status ls_timeline_write(const ls_timeline *timeline, const char *path);

#endif
