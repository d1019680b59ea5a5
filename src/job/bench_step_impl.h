/* What the files of `longspan bench step` share: what was asked for, and what the ranks found. */
#ifndef LS_BENCH_STEP_IMPL_H
#define LS_BENCH_STEP_IMPL_H

#include "job/bench_impl.h"

/* Of one rank, in memory that it shares with the caller. */
typedef struct ls_bench_step_times {
    double began, ready; /* clock: memory mapped and kernels prepared; weights and inputs set */
    ls_touched touched;
    int64_t huge; /* bytes in huge pages */
    double first; /* seconds of the first step */
    double loss;  /* of the last step */
    int64_t peak; /* bytes resident, the most after any step */
    double total[LS_BENCH_MOST_ROUNDS], waiting[LS_BENCH_MOST_ROUNDS];
} ls_bench_step_times;

typedef struct ls_bench_step {
    ls_bench_options options; /* defaults filled in */
    ls_dtype dtype;
    ls_model *model;
    ls_graph *graph;
    ls_job job;
    ls_array tokens, labels, positions;
    ls_session *session;
    int ranks, rounds;
    int instrs;   /* room for those of any rank's program */
    void *shared; /* with the ranks: */
    size_t shared_bytes;
    ls_bench_step_times *times; /* by rank */
    double *seconds;            /* by rank, round, instruction */
    double opened, launched;    /* seconds to plan, compile and prove; clock */
    double floor;               /* operations per second */
    double products[2];         /* the same of products for some time before and after the steps */
} ls_bench_step;

/* By instruction of the rank's program, of one of the steps that are timed. */
double *ls_bench_step_seconds(const ls_bench_step *b, int rank, int round);

/* The page or the JSON of steps that were run (bench_step_print.c). LS_NO_MEMORY. */
LS_MUST_USE ls_status ls_bench_step_print(const ls_bench_step *b, bool json, FILE *out);

#endif
