/* What the files of `longspan bench step` share: what was asked for, and what the ranks found. */
#ifndef LS_BENCH_STEP_IMPL_H
#define LS_BENCH_STEP_IMPL_H

#include "cli/bench/bench_impl.h"
#include "simulate/simulate.h"

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

enum { LS_BENCH_MOST_RANKS = 64 };

typedef struct ls_bench_step {
    ls_bench_options options; /* by the caller; defaults are filled in */
    ls_model *model;          /* the same; closed with the bench */
    const ls_host *host;      /* the same: what predictions are made by; NULL: what plan uses */
    bool without_floor;       /* the same */
    ls_dtype dtype;
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
    double *predicted;          /* by rank, instruction: on the clock, by the rates that plan uses */
    ls_simulated_rank *clock;   /* by rank */
    double opened, launched;    /* seconds to plan, compile and prove; clock */
    bool host_measured;         /* predicted by rates measured on this machine, else by nominal ones */
    double floor;               /* operations per second */
    double products[2];         /* the same of products for some time before and after the steps */
} ls_bench_step;

/* Plans, predicts and runs the steps. The caller closes it, whatever became of it. */
LS_MUST_USE ls_status ls_bench_step_run(ls_bench_step *b);
void ls_bench_step_close(ls_bench_step *b);

/* Of the step of median length, the slowest rank's; and of the prediction. */
double ls_bench_step_median(const ls_bench_step *b);

/* By instruction of the rank's program, of one of the steps that are timed. */
double *ls_bench_step_seconds(const ls_bench_step *b, int rank, int round);
/* The same of the prediction. */
double *ls_bench_step_predicted(const ls_bench_step *b, int rank);

/* The page or the JSON of steps that were run (bench_step_print.c). LS_NO_MEMORY. */
LS_MUST_USE ls_status ls_bench_step_print(const ls_bench_step *b, bool json, FILE *out);

#endif
