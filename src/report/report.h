/* report: tables, pictures and files that show the content of a program, and what it did. */
#ifndef LS_REPORT_H
#define LS_REPORT_H

#include "format/format.h"
#include "longspan/engine.h"
#include "model/model.h"
#include "session/session.h"

/* --- candidates (candidates.c) ------------------------------------------------------------------------------------ */

/* Print the reason of the choice and a table of the candidates; write the array "candidates" into the open object. */
void ls_candidates_print(const ls_plan *plan, FILE *out);
void ls_candidates_put(const ls_plan *plan, ls_json_writer *writer);

/* --- stages (stages.c) -------------------------------------------------------------------------------------------- */

/*
 * A row for each choice of the target (mesh, recompute, tiles, transfers), each added to those of the rows above: what
 * a step computes, moves, sends and maps. Prints a table; writes the array "stages" into the open object. Compiles the
 * job once per row; errors are the compiler's.
 */
LS_MUST_USE ls_status ls_stages_print(const ls_job *job, const ls_target *chosen, FILE *out);
LS_MUST_USE ls_status ls_stages_put(const ls_job *job, const ls_target *chosen, ls_json_writer *writer);

/* --- passes (passes.c) -------------------------------------------------------------------------------------------- */

/* The input of the compiler's passes, and their result for one rank. */
typedef struct ls_passes {
    const ls_graph *graph; /* after differentiation */
    int forward_nodes;
    const ls_image *image;
} ls_passes;

/* Print a line per pass and program; write the object "passes" into the open object. */
void ls_passes_print(const ls_passes *passes, FILE *out);
void ls_passes_put(const ls_passes *passes, ls_json_writer *writer);
/*
 * The number, flops and moved bytes of each op of a program. Print a table; write the array "ops" into the open object.
 */
void ls_program_ops_print(const ls_image *image, int program, FILE *out);
void ls_program_ops_put(const ls_image *image, int program, ls_json_writer *writer);

/* --- trace.c ------------------------------------------------------------------------------------------------------ */

/*
 * A trace: what the queues of all ranks did at which time, as a JSON file in the Trace Event Format for trace viewers
 * (Perfetto, chrome://tracing). It has a process per rank; a thread per queue, with a span per instruction, named by
 * its op and number; a thread for programs; and a thread for sleep, when all queues wait. Arrows go from puts and
 * signals to the waits that they end.
 */

/*
 * Collective: every rank of the session calls it with the same path, after ls_executor_record and the runs. Each rank
 * writes its part beside the file; rank 0 joins the parts, and each rank removes its own. On an error, all ranks return
 * the status of the first rank that failed.
 */
LS_MUST_USE ls_status ls_trace_write(const ls_rank *rank, const char *path);
/* Called before the work: checks that every rank can write its part of the trace. Collective. */
LS_MUST_USE ls_status ls_trace_try(const ls_rank *rank, const char *path);

/* The number of spans that a ring buffer needs for this many runs of a program on this rank; 0 for program -1. */
size_t ls_trace_spans(const ls_image *image, int program, int64_t runs);

/* --- memory_map.c ------------------------------------------------------------------------------------------------- */

/*
 * The memory map: a picture of one rank's arenas over its programs.
 *
 * Draws bytes (upwards) over instructions (to the right) for each program of the image: a box per buffer, coloured by
 * kind; persistent buffers as bands over all programs; the mapped bytes and the lower bound as lines; the peak, with
 * the largest buffers that are live there. model: for the title. Writes the SVG atomically; LS_IO errors name the file.
 */
LS_MUST_USE ls_status ls_memory_map_write(const ls_image *image, int rank, const char *model, const char *path);

/* --- timeline.c --------------------------------------------------------------------------------------------------- */

/*
 * The timeline: a picture of what the queues of all ranks do at which time in one run of a program. It has a row for
 * the prediction and, below it on the same axis, a row for the measurement.
 */

/* The spans of a rank: those of its instructions, and times when all queues waited (LS_SPAN_ASLEEP). */
typedef struct ls_timeline_rank {
    const ls_span_time *spans; /* [n], in the order in which they end; other kinds of spans are ignored */
    size_t n;
} ls_timeline_rank;

/* Seconds are counted from a start that all ranks share. */
typedef struct ls_timeline {
    const char *model;             /* for the title */
    const ls_image *const *images; /* [ranks] */
    int ranks, program;
    const ls_timeline_rank *predicted; /* [ranks] */
    const ls_timeline_rank *measured;  /* [ranks]; NULL: not measured */
    bool host_measured;                /* the prediction uses rates measured on this machine instead of nominal ones */
    int first, shown;                  /* the ranks that are drawn; totals are over all ranks */
} ls_timeline;

enum { LS_TIMELINE_RANKS = 16 }; /* most ranks that are drawn */

/* The time at which the last rank ends. */
double ls_timeline_end(const ls_timeline_rank *ranks, int n);

/*
 * Draws, for each rank, a row per queue with a box per instruction, coloured by kind. Neighbours too narrow to be drawn
 * become one box, in the colour of the kind that took most of the time; its height is the share of time that they fill.
 * Waits are thin, and in a strong colour if all queues wait. The text beside each row says how long the queue worked
 * and waited. Writes the SVG atomically; LS_IO errors name the file.
 */
LS_MUST_USE ls_status ls_timeline_write(const ls_timeline *timeline, const char *path);

/* --- timeline_step.c ---------------------------------------------------------------------------------------------- */

/* A planned training step of a model, for explain --schedule. Everything is borrowed. */
typedef struct ls_timeline_step {
    const ls_model *model;
    int64_t B, S; /* of a micro-batch */
    const ls_job *job;
    const ls_plan *plan;
    const ls_spread *spread;
    int program;
} ls_timeline_step;

/*
 * Simulates the step with the host's rates, runs it if `run` is set, and writes a picture of all ranks, or of the
 * LS_TIMELINE_RANKS around `rank`. title: that of the model. Logs both times. LS_UNSUPPORTED if all ranks together have
 * too many instructions. Other errors are those of compiling, and of opening and running a session.
 */
LS_MUST_USE ls_status ls_timeline_draw(const ls_timeline_step *step, const ls_host *host, int rank, bool run,
                                       const char *title, const char *path);

#endif
