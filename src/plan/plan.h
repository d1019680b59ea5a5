/*
 * plan: resolves what was left to choice: mesh, strategy, layout. Every candidate is compiled for all its ranks, and its own programs
 * are played on a clock (program/clock.h) with the rates of this machine: the last rank to be through counts.
 */
#ifndef LS_PLAN_H
#define LS_PLAN_H

#include "compile/compile.h"
#include "longspan/job.h"
#include "program/cost.h"

typedef struct ls_plan_request {
    int ranks;
    ls_mesh mesh;         /* an axis of 0 is free */
    const char *strategy; /* NULL or "auto": free */
    const char *layout;   /* NULL or "auto": free */
    ls_isa isa;
    ls_host host;  /* what candidates are costed by */
    bool measured; /* on this machine; else nominal */
    int threads;
    ls_transfers transfers;
    bool addressable;  /* ls_target */
    int64_t memory;    /* bytes that a rank may map; 0: any number */
    bool machine;      /* memory is a rank's share of this machine's, not the user's word */
    int drop;          /* ls_saving; -1: free */
    int tile;          /* an ls_tile_kind; -1: free */
    int64_t tile_rows; /* 0: chosen */
} ls_plan_request;

typedef struct ls_plan_candidate {
    ls_mesh mesh;
    const char *strategy;
    ls_layout_kind layout;
    ls_saving saving;
    int listed;              /* place among the candidates as they were thought of: the plainest first */
    bool fits;               /* into the memory asked for */
    double seconds;          /* predicted for one micro-batch and update */
    bool played;             /* seconds: until the last rank is through; else at least so many */
    double measured;         /* of the same, in a trial (trial.h); 0: it was not run */
    double waiting;          /* part of that in which the idlest rank waits for others; 0 unless played */
    double bytes_sent;       /* of the busiest rank */
    double bytes_forward;    /* of these, by the forward pass: program evaluate; 0 when the job has none */
    double bytes_read;       /* of other ranks, in place, by the busiest rank */
    double read_forward;     /* of these, by the forward pass */
    double imbalance;        /* flops of the busiest rank over the mean, minus 1 */
    size_t bytes[LS_SPACES]; /* mapped by the rank that maps most */
    int most_rank;           /* that rank */
    char refused[256];       /* why it does not apply; empty when it does */
} ls_plan_candidate;

typedef struct ls_plan {
    ls_target target; /* rank 0's; the same for the others but for `rank` */
    char reason[400]; /* one line: what was chosen and why */
    bool measured;    /* predictions are by rates measured on this machine; else by nominal ones */
    double told;      /* when it was last said how far the making of the plan is (ls_seconds) */
    int n_candidates;
    ls_plan_candidate candidates[256]; /* best first, refused ones last */
} ls_plan;

/* What candidates are costed by: of one rank, on a host; threads that share a core share its speed. */
ls_rates ls_plan_rates(const ls_image *image, const ls_host *host);

/* The wishes about memory (memory, recompute, tile), checked. LS_USAGE errors name the flag. */
LS_MUST_USE ls_status ls_plan_wishes(const ls_spread *spread, ls_plan_request *request);

/*
 * dp is 1 unless the mesh says otherwise. A candidate saves as little memory as lets it fit
 * into request->memory; when none fits the error is LS_NO_MEMORY, says what the smallest needs and where, and out->target is that
 * one. When nothing goes with the request the error is that of the only candidate, or names
 * the request. A strategy by name goes with the meshes on which it is one of
 * ls_strategies_for; usp with any split.
 */
LS_MUST_USE ls_status ls_plan_make(const ls_job *job, const ls_plan_request *request, ls_plan *out);

#endif
