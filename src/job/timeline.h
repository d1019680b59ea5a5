/*
 * What explain --schedule draws: one run of a program on all ranks, played on the clock, and run for real.
 */
#ifndef LS_JOB_TIMELINE_H
#define LS_JOB_TIMELINE_H

#include "model/model.h"
#include "plan/session.h"
#include "plan/timeline.h"

/* A training step of a model, as planned. All is borrowed. */
typedef struct ls_timeline_step {
    const ls_model *model;
    int64_t B, S; /* of a micro-batch */
    const ls_job *job;
    const ls_plan *plan;
    const ls_spread *spread;
    int program;
} ls_timeline_step;

/* A rank's spans of one run, in the order in which they ended. */
typedef struct ls_timeline_runs {
    ls_arena *arena; /* holds all that follows; the caller's to destroy, also after an error */
    ls_timeline_rank *rank;
} ls_timeline_runs;

/*
 * Runs the program on the model's weights and random tokens: once to warm up, then three times; *out is the run of median length
 * (timeline_run.c). Errors are those of opening and running a session.
 */
LS_MUST_USE ls_status ls_timeline_run(const ls_timeline_step *step, ls_timeline_runs *out);

/*
 * Plays the step on the clock by the host's rates, runs it if `run`, and writes the picture: of all ranks, or the LS_TIMELINE_RANKS about
 * `rank`. title: of the model. Logs both times. LS_UNSUPPORTED for more ranks than are played together.
 */
LS_MUST_USE ls_status ls_timeline_draw(const ls_timeline_step *step, const ls_host *host, int rank, bool run,
                                       const char *title, const char *path);

#endif
