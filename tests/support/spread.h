/*
 * Runs a compiled job over any mesh with ranks as threads of the test, on global arrays, and collects global results.
 */
#ifndef TESTS_SPREAD_H
#define TESTS_SPREAD_H

#include "compile/compile.h"
#include "run/run.h"

typedef struct spread_array {
    const char *name; /* as bound */
    void *data;       /* dense, global; in the bound element type */
} spread_array;

typedef struct spread_job {
    ls_job job;
    ls_target target;      /* rank is filled in */
    const char *transport; /* NULL: shm, or self for one rank */
    int micro;             /* micro-batches, all of the same inputs; default 1 */
    bool update;           /* the last one by program step */
    int steps;             /* of so many micro-batches each; default 1 */
    const spread_array *in, *out;
    int n_in, n_out;
    void *gradient; /* G[]: of jobs with update: the flat gradient summed over ranks; NULL: not wanted */
} spread_job;

/* Runs it on every rank. */
ls_status spread_run(const spread_job *job);

/* ||a - b|| / max(||b||, floor). */
double relative_error(const double *a, const double *b, int64_t n, double floor);

#endif
