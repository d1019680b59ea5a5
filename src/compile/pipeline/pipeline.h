/*
 * Pipeline: the nodes of a graph in chunks, one after the other; stages of ranks that have some of the chunks each; and
 * micro-batches that go through all of them, forward and backward.
 *
 *   timetable.c  the table of schedules, and what follows from one: which stage does what, in which order and when
 *   durations.c  what nodes, and turns of nodes, are predicted to take
 *   cut.c        where the graph is cut into chunks, and which chunk each node belongs to
 *   slice.c      the graph of a slice of each sequence, in place of that of whole ones
 *   unroll.c     the graph of a stage: its nodes of all micro-batches in the order of the timetable
 *   crossing.c   how a tensor goes from a stage to another one
 *
 * Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM" (arXiv
 * 2104.04473) has the first two schedules, Qi et al., "Zero bubble pipeline parallelism" (arXiv 2401.10241) the third.
 */
#ifndef LS_PIPELINE_H
#define LS_PIPELINE_H

#include "compile/compile_impl.h"
#include "program/program.h"

/* --- timetables (timetable.c) ------------------------------------------------------------------------------------- */

/*
 * What a stage does at a time: a micro-batch through a chunk, forward; and backward, of schedules that split it without
 * the gradients of parameters, for which there is a turn of its own.
 */
typedef enum ls_turn_kind { LS_TURN_FORWARD, LS_TURN_BACKWARD, LS_TURN_WEIGHTS, LS_TURN_KINDS } ls_turn_kind;

typedef struct ls_turn {
    ls_turn_kind kind;
    int chunk, micro;
    int begin, end; /* on a clock that all stages have in common */
} ls_turn;

/* Chunk c is that of stage c % stages. */
typedef struct ls_timetable {
    int stages, chunks, micro;
    ls_turn **of_stage; /* in their order */
    int *n_of_stage;
    int end;     /* of the last turn */
    double unit; /* seconds, of a rank of a stage */
} ls_timetable;

/* What a timetable is made for. */
typedef struct ls_pipelining {
    const ls_pipeline_schedule *schedule;
    int stages, chunks, micro;
    int slices; /* of each sequence: micro-batch i is slice i % slices of it, and goes backward behind the later ones */
    bool backward; /* else micro-batches go forward alone */
    /*
     * By slice, chunk and kind of turn: units of the clock, 1 or more, and the same on all ranks. Backward: without
     * the gradients of parameters, which are added where the schedule does not split it.
     */
    const int *takes;
    double unit; /* seconds that a rank of a stage takes for a unit */
} ls_pipelining;

/* It lies in the arena. LS_USAGE: the schedule asks for other numbers of chunks or micro-batches. */
LS_MUST_USE ls_status ls_timetable_make(const ls_pipelining *of, ls_arena *arena, ls_timetable *out);

/* How many turns a stage has. */
int ls_pipelining_turns(const ls_pipelining *of);

/* --- cuts (cut.c) ------------------------------------------------------------------------------------------------- */

/* Which chunk a node belongs to. */
typedef struct ls_graph_chunks {
    int chunks;
    int *node;    /* by node; LS_ANY_CHUNK: it reads inputs alone, and each chunk that reads it makes it */
    bool *weight; /* by node: a node of the backward pass that makes nothing but gradients of parameters */
} ls_graph_chunks;
enum { LS_ANY_CHUNK = -1 };

/* How many chunks the target asks for: 1 where it has one stage. */
int ls_pipeline_chunks(const ls_target *target);
/*
 * The job's graph becomes one, in the arena, with the boundaries of the target's chunks: between its forward nodes,
 * where one tensor alone goes from what is in front to what is behind, so that the largest chunk takes least, forward
 * and backward; of a job that continues a sequence, between those for one token. The same graph for one chunk.
 * LS_UNSUPPORTED: it has too few such places; the error names what crosses where it might have been cut.
 */
LS_MUST_USE ls_status ls_mark_boundaries(ls_job *job, const ls_target *target, ls_arena *arena);
/*
 * The chunks of a graph that has boundaries; nodes of the backward pass follow what they differentiate, those of a
 * prefill the nodes that read the same parameters for one token.
 */
void ls_cut_graph(const ls_job *job, ls_arena *arena, ls_graph_chunks *out);

/* --- durations (durations.c) -------------------------------------------------------------------------------------- */

/*
 * What the target's device does at nominal rates: all ranks must find the same durations without asking each other.
 * LS_INVALID: there is no such device.
 */
LS_MUST_USE ls_status ls_durations_rates(const ls_target *target, ls_dtype dtype, ls_rates *out);
/* A slice of the sequences, whose graph it is; -1: the mean of all. Whole sequences: {0, 1}. */
typedef struct ls_slice_of {
    int slice, slices;
} ls_slice_of;
/* Seconds of a node on all tokens. */
double ls_node_seconds(const ls_graph *graph, const ls_node *node, ls_slice_of which, const ls_rates *rates);
/*
 * Sets takes, in the arena, and unit, where turns run nodes first_node .. end_node-1 of the graph and a stage has so
 * many ranks: proportional to their seconds, in units of which all turns of all stages together are no more than an int
 * counts.
 */
void ls_turns_take(ls_pipelining *of, const ls_graph *graph, const ls_graph_chunks *chunks, const ls_job_program *row,
                   const ls_rates *rates, int ranks, ls_arena *arena);

/* --- slices of sequences (slice.c) -------------------------------------------------------------------------------- */

/*
 * The graph of one of the target's slices of each sequence, in the arena; the same graph where sequences are whole.
 * LS_UNSUPPORTED: some op needs other tokens than attention under a causal mask does; the error names it.
 */
LS_MUST_USE ls_status ls_slice_graph(const ls_graph *graph, const ls_target *target, ls_arena *arena,
                                     const ls_graph **out);

/* --- a stage's graph (unroll.c) ----------------------------------------------------------------------------------- */

/*
 * The job of the rank's stage: the nodes of its chunks, once for each micro-batch, in the order of the timetable, with
 * nodes for what comes from other stages and goes there. *sharding becomes that of the new graph, with the slots of
 * epochs. The job stays as it is where the mesh has one stage.
 */
LS_MUST_USE ls_status ls_unroll(ls_job *job, const ls_target *target, ls_arena *arena, ls_sharding *sharding);

/* Params of the nodes of a crossing: a tensor that goes from a stage to another one. */
typedef struct ls_crossing {
    const char *name; /* of its channel */
    int from, to;     /* stages */
    ls_epoch granted, sent;
    double behind; /* as in ls_instr */
} ls_crossing;

#endif
