/*
 * Pipeline: the nodes of a graph are divided into consecutive chunks; each stage is a group of ranks that has some of
 * the chunks; micro-batches go through all chunks, forward and backward.
 *
 *   timetable.c  the table of schedules, and timetables: which stage does what, in which order and when
 *   durations.c  predicted durations of nodes and of turns
 *   cut.c        where the graph is cut into chunks, and which chunk each node belongs to
 *   slice.c      the graph of one slice of each sequence, made from that of whole sequences
 *   unroll.c     the graph of a stage: its nodes for all micro-batches, in the order of the timetable
 *   crossing.c   how a tensor goes from one stage to another
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
 * A turn of a stage: one micro-batch through one chunk, forward or backward. If the schedule splits the backward pass,
 * the gradients of parameters have turns of their own (weights), and backward turns leave them out.
 */
typedef enum ls_turn_kind { LS_TURN_FORWARD, LS_TURN_BACKWARD, LS_TURN_WEIGHTS, LS_TURN_KINDS } ls_turn_kind;

typedef struct ls_turn {
    ls_turn_kind kind;
    int chunk, micro;
    int begin, end; /* on a clock that all stages share */
} ls_turn;

/* Chunk c belongs to stage c % stages. */
typedef struct ls_timetable {
    int stages, chunks, micro;
    ls_turn **of_stage; /* each stage's turns, in order */
    int *n_of_stage;
    int end;     /* end of the last turn */
    double unit; /* seconds that a rank of a stage takes for a unit of the clock */
} ls_timetable;

/* What a timetable is made for. */
typedef struct ls_pipelining {
    const ls_pipeline_schedule *schedule;
    int stages, chunks, micro;
    int slices;    /* per sequence: micro-batch i is slice i % slices of its sequence; later slices go backward first */
    bool backward; /* false: micro-batches go forward only */
    /*
     * [slices][chunks][LS_TURN_KINDS]: units of the clock, 1 or more, the same on all ranks. The entry of backward
     * turns does not include the gradients of parameters; if the schedule does not split, the entry of weights is added
     * to it.
     */
    const int *takes;
    double unit; /* seconds that a rank of a stage takes for a unit */
} ls_pipelining;

/* The timetable's arrays lie in the arena. LS_USAGE: the schedule needs other numbers of chunks or micro-batches. */
LS_MUST_USE ls_status ls_timetable_make(const ls_pipelining *of, ls_arena *arena, ls_timetable *out);

/* How many turns a stage has. */
int ls_pipelining_turns(const ls_pipelining *of);

/* --- cuts (cut.c) ------------------------------------------------------------------------------------------------- */

/* Which chunk each node belongs to. */
typedef struct ls_graph_chunks {
    int chunks;
    /* By node. LS_ANY_CHUNK: it depends on inputs alone, and each chunk that reads its results computes it. */
    int *node;
    bool *weight; /* by node: whether it belongs to the backward pass and makes nothing but gradients of parameters */
} ls_graph_chunks;
enum { LS_ANY_CHUNK = -1 };

/* The number of chunks that the target asks for; 1 if it has one stage. */
int ls_pipeline_chunks(const ls_target *target);
/*
 * Marks the boundaries between the target's chunks in job->graph, which becomes a copy in the arena; for one chunk the
 * graph stays as it is. A boundary is a place between forward nodes that a single tensor crosses; they are chosen so
 * that the chunk that takes longest, forward and backward together, takes as little as possible. If the job continues a
 * sequence, boundaries are between nodes of the program for one token. LS_UNSUPPORTED: there are too few such places;
 * the error names the tensors at a place that several tensors cross.
 */
LS_MUST_USE ls_status ls_mark_boundaries(ls_job *job, const ls_target *target, ls_arena *arena);
/*
 * The chunks of a graph that has boundaries. Nodes of the backward pass follow the nodes that they differentiate; nodes
 * of a prefill follow the nodes that read the same parameters in the program for one token.
 */
void ls_cut_graph(const ls_job *job, ls_arena *arena, ls_graph_chunks *out);

/* --- durations (durations.c) -------------------------------------------------------------------------------------- */

/*
 * The nominal rates of the target's device; nominal, so that all ranks find the same durations without communication.
 * LS_INVALID: there is no such device.
 */
LS_MUST_USE ls_status ls_durations_rates(const ls_target *target, ls_dtype dtype, ls_rates *out);
/* The slice of each sequence that a graph is for; -1: the mean of all slices. Whole sequences: {0, 1}. */
typedef struct ls_slice_of {
    int slice, slices;
} ls_slice_of;
/* Predicted seconds of a node on all tokens. */
double ls_node_seconds(const ls_graph *graph, const ls_node *node, ls_slice_of which, const ls_rates *rates);
/*
 * Sets of->takes, in the arena, and of->unit, for turns that run nodes first_node .. end_node - 1 of the graph on
 * stages of `ranks` ranks. takes is proportional to the predicted seconds; the unit is such that all turns of all
 * stages together fit in an int.
 */
void ls_turns_take(ls_pipelining *of, const ls_graph *graph, const ls_graph_chunks *chunks, const ls_job_program *row,
                   const ls_rates *rates, int ranks, ls_arena *arena);

/* --- slices of sequences (slice.c) -------------------------------------------------------------------------------- */

/*
 * *out: the graph of one of the target's slices of each sequence, in the arena; `graph` itself if sequences are not
 * sliced. LS_UNSUPPORTED: some op needs other tokens and is not attention under a causal mask; the error names it.
 */
LS_MUST_USE ls_status ls_slice_graph(const ls_graph *graph, const ls_target *target, ls_arena *arena,
                                     const ls_graph **out);

/* --- a stage's graph (unroll.c) ----------------------------------------------------------------------------------- */

/*
 * Turns the job into that of the rank's stage: the nodes of its chunks, once for each micro-batch, in the order of the
 * timetable, with nodes for transfers from and to other stages. *sharding becomes that of the new graph, with the slots
 * of epochs. If the mesh has one stage, nothing changes.
 */
LS_MUST_USE ls_status ls_unroll(ls_job *job, const ls_target *target, ls_arena *arena, ls_sharding *sharding);

/* Params of the nodes of a crossing, which takes a tensor from one stage to another. */
typedef struct ls_crossing {
    const char *name; /* of its channel */
    int from, to;     /* stages */
    ls_epoch granted, sent;
    double behind; /* as in ls_instr */
} ls_crossing;

#endif
