/*
 * report: pages, pictures and files that show what a program is and what it did. Nothing else in the system asks for them.
 */
#ifndef LS_REPORT_H
#define LS_REPORT_H

#include "format/format.h"
#include "longspan/engine.h"
#include "model/model.h"
#include "run/run.h"
#include "session/session.h"

/* --- candidates (candidates.c) ------------------------------------------------------------------------------------------------ */

/* The reason and the table; and the array "candidates" of an open object. */
void ls_candidates_print(const ls_plan *plan, FILE *out);
void ls_candidates_put(const ls_plan *plan, ls_json_writer *writer);

/* --- stages (stages.c) -------------------------------------------------------------------------------------------------------- */

/*
 * A row for each choice that the chosen target makes, each on top of those before: what a step computes, moves, sends and maps with
 * it. And the array "stages" of an open object. Compiles the job once per row; the status is the compiler's.
 */
LS_MUST_USE ls_status ls_stages_print(const ls_job *job, const ls_target *chosen, FILE *out);
LS_MUST_USE ls_status ls_stages_put(const ls_job *job, const ls_target *chosen, ls_json_writer *writer);

/* --- passes (passes.c) -------------------------------------------------------------------------------------------------------- */

/* What the passes began with, and what came out for one rank. */
typedef struct ls_passes {
    const ls_graph *graph; /* differentiated */
    int forward_nodes;
    const ls_image *image;
} ls_passes;

/* A line per pass and program; and the object "passes" of an open object. */
void ls_passes_print(const ls_passes *passes, FILE *out);
void ls_passes_put(const ls_passes *passes, ls_json_writer *writer);
/* A program's ops: how many of each, what they compute and move; and the array "ops" of an open object. */
void ls_program_ops_print(const ls_image *image, int program, FILE *out);
void ls_program_ops_put(const ls_image *image, int program, ls_json_writer *writer);

/* --- trace.c --------------------------------------------------------------------------------------------------------------- */

/*
 * Traces: what the queues of all ranks did when, as a file that trace viewers open (Perfetto, chrome://tracing): the Trace Event
 * Format in JSON. A process per rank; a thread per queue, with a span per instruction, named by its op and number; a thread for the
 * programs and one for sleep, the time in which both queues waited. Arrows go from puts and signals to the waits that they end.
 */

/*
 * Collective: every rank of the session calls it with the same path, after ls_executor_record and the runs. Each writes
 * its part beside the file, rank 0 joins them and removes them. On error each rank returns the first failing rank's status.
 */
LS_MUST_USE ls_status ls_trace_write(const ls_rank *rank, const char *path);

/* Spans that a ring needs for so many runs of programs micro and step on this rank. */
size_t ls_trace_spans(const ls_image *image, int64_t micros, int64_t steps);

/* --- memory_map.c ---------------------------------------------------------------------------------------------------------- */

/*
 * The memory map: a picture of one rank's two arenas over its programs, as they were placed.
 */

/*
 * Draws bytes (upwards) over instructions (to the right) for each program of the image: a box per buffer, coloured by
 * kind; persistent ones as bands over all programs; the bytes mapped and the lower bound as lines; the peak with the
 * largest buffers that are live there. model: for the title. Writes the SVG atomically; LS_IO errors name the file.
 */
LS_MUST_USE ls_status ls_memory_map_write(const ls_image *image, const char *model, const char *path);

/* --- timeline.c ------------------------------------------------------------------------------------------------------------ */

/*
 * The timeline: a picture of what the queues of all ranks do when in one run of a program, as predicted and, row beneath row on the same
 * axis, as measured.
 */

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

/* --- timeline_draw.c ------------------------------------------------------------------------------------------------------- */

/*
 * What explain --schedule draws: one run of a program on all ranks, played on the clock, and run for real.
 */

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
