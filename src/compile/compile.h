/*
 * compile: from a graph for one device (differentiated where it is to be trained) to the programs of one rank.
 *
 *   recompute       what of the forward pass is made again in the backward pass: the graph rewritten
 *   fuse            maps and nodes of single elements beside them as one map: the graph rewritten
 *   cast            a cast before each node that reads a parameter kept in another type: the graph rewritten
 *   shard           a placement per tensor and mesh axis, from what the ops' rows say of dimensions
 *   redistribute    a node where a tensor is spread otherwise than a node needs it: the graph rewritten
 *   passes          what each program runs: tiles, gradients over the ranks, shards gathered, offload, the update
 *   lower           nodes to instructions; attention by its strategy
 *   name            what every read must find
 *   schedule        the order of the list: communication hides behind kernels
 *   place           lifetimes to offsets in the arenas
 *   order           what each queue must wait for in the others
 *
 * Compiling reads the graph and may be done for many ranks; it needs no communication: every rank finds the same size
 * of the heap, and the same frame (ls_image_frame), by itself.
 */
#ifndef LS_COMPILE_H
#define LS_COMPILE_H

#include <limits.h>

#include "graph/graph.h"
#include "program/program.h"

/* What a program does after its nodes: nothing; it sums gradients over the ranks; it applies them as well. */
typedef enum ls_update { LS_UPDATE_NONE, LS_UPDATE_REDUCE, LS_UPDATE_APPLY } ls_update;

/*
 * Hyperparameters of all optimisers; each uses those that it has (ls_optimizer_has). weight_decay applies to parameters
 * of two or more dimensions.
 */
typedef struct ls_hyperparameters {
    double beta1, beta2, epsilon, weight_decay;
    double momentum;
    double nesterov; /* 1: the step looks ahead along the momentum; 0: it does not */
} ls_hyperparameters;

/* As the initial value of a hyperparameter: the optimiser does not have it. */
enum { LS_LACKS = -1 };

struct ls_builder;
struct ls_update_piece;

/*
 * How gradients are applied: element by element on each rank's shard, or, of hidden matrices, to a whole one at a time.
 * One optimiser is one file and its row.
 */
typedef struct ls_optimizer {
    const char *name, *about;
    const ls_optimizer_state *states; /* their texts are constant: images refer to them */
    int n_states;
    ls_hyperparameters initial; /* where the user says nothing; LS_LACKS */
    /* Makes the instructions that update a piece of the shard. */
    void (*update)(struct ls_builder *b, const struct ls_update_piece *piece);
    /*
     * Updates `n` groups from `first` on, which are matrices of one shape, at most one for each rank that has a piece
     * (matrices.c says which parameters are). sums: as of ls_update_piece_of. NULL: there are none, `update` does all.
     */
    void (*update_matrices)(struct ls_builder *b, int first, int n, ls_operand sums);
    const struct ls_optimizer *others; /* of update_matrices: updates the other parameters; it has the same states */
} ls_optimizer;

/* All optimisers: X(name) for the row ls_optimizer_name, each in a file of its own. */
#define LS_OPTIMIZERS(X) X(adamw), X(sgd), X(lion), X(muon)
#define LS_OPTIMIZER_ROW(name) ls_optimizer_##name
extern const ls_optimizer LS_OPTIMIZERS(LS_OPTIMIZER_ROW);

/*
 * Prefix of a parameter's name in a checkpoint of a job whose parameters have an average: the parameter itself, as the
 * last step left it.
 */
#define LS_AVERAGE_SAVED "last"

const ls_optimizer *ls_optimizer_at(int index); /* NULL past the end */
/* NULL: the first. LS_USAGE, with the known names, when there is none of that name. */
LS_MUST_USE ls_status ls_optimizer_find(const char *name, const ls_optimizer **out);
/* Whether it has the hyperparameter at that offset of ls_hyperparameters, and what it is at first; 0: it has none. */
bool ls_optimizer_has(const ls_optimizer *optimizer, size_t at);
double ls_optimizer_initial(const ls_optimizer *optimizer, size_t at);
/* All that it has, and 0 for the others. */
ls_hyperparameters ls_optimizer_defaults(const ls_optimizer *optimizer);
/* The LS_USAGE error that an option sets what the optimiser does not have; it names those that do. */
LS_MUST_USE ls_status ls_optimizer_lacks(const ls_optimizer *optimizer, size_t at, const char *option);

/* What a program does with the sums of gradients. */
typedef enum ls_sums {
    LS_SUMS_BEGUN,  /* it begins them, and they need not outlive it */
    LS_SUMS_ADDED,  /* it adds to what it finds and leaves the sum */
    LS_SUMS_CLEARED /* it adds to what it finds, uses the sum and leaves zeros */
} ls_sums;

/*
 * One of a job's programs. It runs nodes [first_node, end_node) of the graph, then the update; or, with `exchanges`, it
 * runs no node and exchanges the parameters and their average.
 */
typedef struct ls_job_program {
    const char *name;
    int first_node, end_node; /* LS_LAST_NODE: to the end of the graph */
    ls_update update;
    ls_sums sums;
    bool exchanges;
    int runs;                    /* as in ls_program */
    const char *const *channels; /* n_channels of them, between stages: ranks of all stages know them */
    int n_channels;
} ls_job_program;

enum { LS_LAST_NODE = INT_MAX };

/* A job's programs and its phase table, whose rows name programs by their index here. */
typedef struct ls_job_programs {
    const ls_job_program *list;
    int n;
    const ls_phase *phases;
    int n_phases;
} ls_job_programs;

/*
 * Tables for the usual jobs (programs.c). They lie in the graph's arena. forward_nodes: nodes before differentiation,
 * or LS_LAST_NODE.
 *   training    steps with an update: "step" is the last micro-batch with the update, "micro" each of `more` before
 *               it, where there are such; and "evaluate" the forward nodes alone (forward_nodes 0: there is none)
 *   plain       "micro" is the whole graph, without an update; and "evaluate" the forward nodes alone (0: there is
 *               none)
 *   forward     "evaluate" alone, the whole graph
 *   apart       "evaluate" for the forward nodes, and a program named `second` for the others, which runs any number
 *               of times after each run of "evaluate". What "evaluate" makes and `second` reads must be fetched, so
 *               that it outlives "evaluate"
 */
#define LS_PROGRAM_MICRO "micro"
#define LS_PROGRAM_STEP "step"
#define LS_PROGRAM_EVALUATE "evaluate"
#define LS_PROGRAM_EXCHANGE "exchange"
#define LS_PROGRAM_BACKWARD "backward" /* of attention alone: the gradient */
#define LS_PROGRAM_DECODE "decode"     /* of generation: the next token */
ls_job_programs ls_training_programs(const ls_graph *graph, int forward_nodes, ls_update update, int more);
/*
 * Those of training whose update is applied. average: as in ls_job; where it is not 0 also "exchange", which exchanges
 * the parameters and their average: `evaluate` and whoever reads parameters then find the average. It runs again before
 * the next step.
 */
ls_job_programs ls_step_programs(const ls_graph *graph, int forward_nodes, int more, double average);
ls_job_programs ls_plain_programs(const ls_graph *graph, int forward_nodes);
ls_job_programs ls_forward_programs(const ls_graph *graph);
/* Those of a job whose programs run all micro-batches of a step each: without programs that only add to sums. */
ls_job_programs ls_joined_programs(const ls_job_programs *programs, ls_arena *arena);
ls_job_programs ls_apart_programs(const ls_graph *graph, int forward_nodes, const char *second);

/* How a parameter is updated. */
typedef struct ls_parameter_settings {
    ls_update_settings update;
    /* The job's optimiser (it is updated as a whole matrix), or that one's `others`; NULL: matrices.c decides. */
    const ls_optimizer *optimizer;
} ls_parameter_settings;

typedef struct ls_job {
    const ls_graph *graph;
    ls_job_programs programs;
    /*
     * Typical sequences, where the data packs documents: terms of kind LS_MASK_DOCUMENTS. The cost of attention is the
     * mean over them; the instructions and the layout do not depend on them. n_documents 0: there are none, and no
     * sequence may hold several documents (ls_executor_set_documents).
     */
    const ls_mask_term *documents;
    int n_documents;
    const ls_optimizer *optimizer; /* NULL: the first of the table, AdamW */
    ls_hyperparameters hyper;
    double average; /* decay of the exponential moving average that trained parameters have; 0: they have none */
    const ls_parameter_settings *own; /* by parameter, as declared; NULL: rate 1 and hyper's decay */
    const ls_tensor *fetch;           /* tensors that the host reads after a program, by name */
    int n_fetch;
    /*
     * Micro-batches that a program runs where the mesh has axes of kind stage, as all of a step; elsewhere it runs one.
     * 0: the job is no model's, and the plan has no such axes.
     */
    int micro_batches;
    /*
     * Parameters are filled by all ranks together, before the first program, and by nothing else
     * (ls_weights_fill_shared): ranks of a host may have values in common that no program changes.
     */
    bool filled_together;
} ls_job;

const ls_optimizer *ls_job_optimizer(const ls_job *job); /* never NULL */

typedef enum ls_tile_kind { LS_TILE_NONE, LS_TILE_LOSS, LS_TILE_ALL } ls_tile_kind;

/* "none", "loss", "all". LS_USAGE for another name, listing these. */
const char *ls_tile_name(ls_tile_kind kind);
LS_MUST_USE ls_status ls_tile_parse(const char *name, ls_tile_kind *out);

/* What is done to use less memory; zero: nothing. The more is done, the slower is a step. */
typedef struct ls_saving {
    int drop; /* how many of ls_recompute_count results of the forward pass are made again in the backward pass */
    ls_tile_kind tile;  /* which runs of nodes that work token by token are tiled: the loss with its logits, or all */
    int64_t tile_rows;  /* tokens of a tile; 0: as many as suit the device */
    int offload;        /* how many of ls_offload_count results of the forward pass wait in memory of the host */
    bool offload_state; /* what the optimiser keeps lies there, but for the part that it works on */
} ls_saving;

/*
 * How a rank gets other ranks' blocks of keys and values: their owners put them into its slots, or, where ranks can
 * read each other's heaps, it reads them in place. The choice is made for each axis of the mesh; results have the same
 * bits.
 */
typedef enum ls_transfers { LS_TRANSFERS_AUTO, LS_TRANSFERS_PUT, LS_TRANSFERS_IN_PLACE } ls_transfers;
const char *ls_transfers_name(ls_transfers transfers); /* "auto", "put", "in-place" */
/* What an image does: "put", "in-place", or "in-place+put" where it reads along one axis and puts along another. */
const char *ls_transfers_of(const ls_image *image);
/* NULL is auto; LS_USAGE names the flag --transfers. */
LS_MUST_USE ls_status ls_transfers_parse(const char *name, ls_transfers *out);

enum { LS_ONE_HOST = INT_MAX };

/*
 * What is cut over the ranks that have the same parameter, or the same part of it along tp: each of them holds only its
 * shard of what is cut, and all of the rest (ZeRO: Rajbhandari et al., arXiv 1910.02054). Where only one rank has the
 * part, nothing is cut.
 */
typedef struct ls_shard_mode {
    const char *name;
    bool state;      /* masters and what the optimiser keeps: each rank updates its shard */
    bool gradients;  /* sums over the micro-batches of a step */
    bool parameters; /* the values: gathered when they are used, and then let go */
} ls_shard_mode;

enum { LS_SHARD_NONE, LS_SHARD_OPTIMIZER, LS_SHARD_GRADIENTS, LS_SHARD_PARAMETERS, LS_SHARD_MODES };
extern const ls_shard_mode ls_shard_modes[LS_SHARD_MODES]; /* each cuts more than the one before */
/* The index of the mode; NULL and "auto": -1. LS_USAGE names the flag --shard. */
LS_MUST_USE ls_status ls_shard_parse(const char *name, int *out);

/*
 * In which order the stages of a pipeline (axes of kind stage) take the micro-batches of a step. A row of the table
 * (pipeline/timetable.c), the plainest first; NULL past its end.
 */
typedef struct ls_pipeline_schedule ls_pipeline_schedule;
const ls_pipeline_schedule *ls_pipeline_schedule_at(int index);
const char *ls_pipeline_schedule_name(const ls_pipeline_schedule *schedule);
/*
 * "1f1b", "interleaved:2" (with so many parts of the graph for each stage), "zero-bubble"; NULL: *out NULL and no
 * parts. LS_USAGE names the flag --pipeline.
 */
LS_MUST_USE ls_status ls_pipeline_parse(const char *text, const ls_pipeline_schedule **out, int *chunks);
enum { LS_PIPELINE_TEXT = 24 };
/* Whether gradients of parameters have turns of their own in it. */
bool ls_pipeline_schedule_splits(const ls_pipeline_schedule *schedule);
/* Whether a stage has several parts of the graph in it. */
bool ls_pipeline_schedule_interleaves(const ls_pipeline_schedule *schedule);

/*
 * What an image is compiled for. To predict its time, its reads do not say what they must find, so that it cannot be
 * verified. To ask whether its bytes fit into ls_target.allowed, there are no waits between queues either, and
 * placement ends as soon as the answer is known: ls_image_mapped is at most `allowed` where that of a whole image is,
 * and else between `allowed` and that. `allowed` 0 asks for the bytes of a whole image.
 */
typedef enum ls_compiled_for { LS_FOR_RUNS, LS_FOR_TIME, LS_FOR_BYTES } ls_compiled_for;

typedef struct ls_target {
    ls_mesh mesh;
    int rank;
    ls_compiled_for made_for;
    size_t allowed; /* for LS_FOR_BYTES */
    /*
     * Where the mesh has axes of kind stage: the number of parts of the graph that each stage has (0: one), and the
     * order of their work (NULL: the first schedule of the table).
     */
    int stage_chunks;
    const ls_pipeline_schedule *schedule;
    /*
     * With stages: the number of equal parts into which each sequence is cut. They go through the stages one after the
     * other as micro-batches do, in the backward pass from the last one on (Sun et al., "Seq1F1B", arXiv 2406.03488). 0
     * or 1: sequences are not cut.
     */
    int slices;
    const char *strategy;        /* of attention: one of ls_strategy_name */
    const char *window_strategy; /* of attention under a mask with a window; NULL: the same */
    ls_layout_kind layout;
    const ls_layout
        *made;  /* by ls_compile_layout for this job, to be used again where kind and mesh are the same; may be NULL */
    ls_isa isa; /* best instruction set that kernels may use */
    const char *device; /* that runs the programs, as for ls_device_open; NULL: the environment's */
    ls_kernel_choices kernels;
    int threads;                /* per rank */
    const char *recurrence_way; /* of linear recurrences: a row of LS_LINEAR_WAYS; NULL: the cheapest by its counts */
    const char *rnn_way;        /* of recurrent cells: a row of LS_RNN_WAYS; NULL: the cheapest by its counts */
    ls_transfers transfers;
    /* So many ranks, one after the other, lie on one host and can read each other's heaps; 0 or 1: none can. */
    int host_ranks;
    const ls_shard_mode *shard; /* NULL: that of the optimiser's state, or of the gradients if canonical */
    bool canonical;             /* sums have the same bits for any number of ranks (chunks.c) */
    ls_saving saving;
} ls_target;

/* How --pipeline says the target's schedule; "none" where there is one stage. */
void ls_pipeline_print(const ls_target *target, char out[LS_PIPELINE_TEXT]);

/* What is cut on the target's mesh. */
const ls_shard_mode *ls_target_shard(const ls_target *target);

/* "fast", or NULL: false; "canonical": true. LS_USAGE names the flag --sums. */
LS_MUST_USE ls_status ls_canonical_parse(const char *name, bool *out);
/* Into how many chunks canonical sums cut a sequence: a power of two that depends on its length alone. */
int ls_chunk_count(int64_t S);
/*
 * Whether the target can have canonical sums, if it is to: mesh, layout, shard mode, and the sequences of a replica in
 * a micro-batch. LS_USAGE says why not. Of strategies and ops the compiler says so.
 */
LS_MUST_USE ls_status ls_canonical_check(const ls_target *target, const ls_layout *layout, int64_t sequences);

/* How many nodes' results could be made again instead of kept. */
int ls_recompute_count(const ls_job *job);

/*
 * What --offload says, as the members of ls_saving: -1 for what "auto" and NULL leave open. LS_USAGE names the flag.
 * And the other way round: "none", "optimizer", "results", "12", "optimizer+12", "all".
 */
LS_MUST_USE ls_status ls_offload_parse(const char *text, int *results, int *state);
enum { LS_OFFLOAD_TEXT = 24 };
void ls_offload_print(const ls_saving *saving, char out[LS_OFFLOAD_TEXT]);
enum { LS_OFFLOAD_ALL = INT_MAX }; /* as a number of results */
/* How many results could wait in memory of the host, where so many are made again instead of kept. */
int ls_offload_count(const ls_job *job, int drop);

/*
 * Whether the graph has something that the ranks along an axis can divide: several sequences, a sequence of several
 * tokens, heads.
 */
bool ls_axis_is_usable(const ls_graph *graph, const ls_axis *axis);

/*
 * The layout of the job's sequence on a target: those that follow masks look at every attention node of the graph. It
 * lies in the arena. The same on every rank. Errors: as ls_compile's about the sequence and the mesh.
 */
LS_MUST_USE ls_status ls_compile_layout(const ls_job *job, const ls_target *target, ls_arena *arena, ls_layout *out);

/*
 * Compiles the job for one rank. LS_INVALID or LS_UNSUPPORTED errors name op, tensor and reason, or the strategy and
 * why it does not apply. The caller destroys the image.
 */
LS_MUST_USE ls_status ls_compile(const ls_job *job, const ls_target *target, ls_image **out);

/*
 * The band of keys that the queries of a whole sequence see, for a call of attention by itself (tensor/params.h); calls
 * of programs have theirs.
 */
ls_attention_band ls_mask_band(const ls_mask *mask, int64_t tokens);

/*
 * Ranks whose programs are the same are a class: any of them may be compiled for all. Replicas and ranks along tp are
 * of one class, and where tokens and heads divide evenly those of a block too. Each rank is a class of its own where
 * only the first replica adds something that all replicas have, and where ranks along tp have uneven parts. Classes are
 * numbered from 0.
 */
typedef struct ls_classes {
    ls_mesh mesh;
    int n;       /* classes */
    int members; /* so many ranks, one after the other along the sequence, are alike: 1, or those of a block */
    bool apart;  /* replicas, or ranks along tp, are not alike: each rank is a class */
} ls_classes;
/* Errors: as ls_compile's about the sequence and the mesh. */
LS_MUST_USE ls_status ls_classes_find(const ls_job *job, const ls_target *target, ls_classes *out);
int ls_class_of(const ls_classes *classes, int rank);
int ls_class_first(const ls_classes *classes, int class); /* its first rank */

/* The images of ranks of a mesh, one for each class. Zeroed: none. */
typedef struct ls_images {
    ls_classes classes;
    ls_image **of_class; /* NULL: not compiled */
} ls_images;
/* Compiles the rank's class for the target's mesh, unless *images has it. LS_NO_MEMORY, or the error of ls_compile. */
LS_MUST_USE ls_status ls_compile_class_of(const ls_job *job, const ls_target *target, int rank, ls_images *images);
/* ls_compile_class_of for every rank. */
LS_MUST_USE ls_status ls_compile_classes(const ls_job *job, const ls_target *target, ls_images *images);
const ls_image *ls_images_of(const ls_images *images, int rank); /* NULL: not compiled */
void ls_images_destroy(ls_images *images);                       /* zeroed ones are allowed */

/* Looks at the image of a class, which is then let go. Called for one class at a time, in any order, by any thread. */
typedef void (*ls_class_visit)(void *context, int class, const ls_image *image);

/*
 * Compiles all classes, as many at once as this machine has cores (at most 8), and proves that the programs of all
 * ranks run together (program/verify_local.h), whatever their number. Of a class that was proved only the ends of its
 * channels are kept. *out: the image of class 0, which the caller destroys. Errors are those of ls_compile and, of the
 * proof, LS_INVALID; of several classes the first one's.
 */
LS_MUST_USE ls_status ls_compile_proved(const ls_job *job, const ls_target *target, ls_class_visit visit, void *context,
                                        ls_image **out);

/*
 * One rank's share of ls_compile_proved, for processes that have one rank each: *out becomes the image of the rank's
 * class. The first rank of each class proves it, and *digest becomes what the class says to the others
 * (ls_proof_digests_agree); with other ranks it is zero.
 */
LS_MUST_USE ls_status ls_compile_share(const ls_job *job, const ls_target *target, int rank, ls_proof_digest *digest,
                                       ls_image **out);

/* What a strategy is asked about. */
typedef struct ls_attention_problem {
    int64_t B, S;          /* of one replica; global sequence */
    int64_t Hq, Hkv, D, E; /* heads; elements of one of queries and keys, of one of values */
    ls_mesh mesh;
} ls_attention_problem;

/* The strategies in order; name NULL past the end. */
const char *ls_strategy_name(int index);
const char *ls_strategy_about(int index);
/*
 * How each kind of layer along the sequence is done over the ranks. Names of the tables; NULL: not said, which each use
 * explains.
 */
typedef struct ls_strategies {
    const char *full;       /* attention without a window: one of ls_strategy_name, */
    const char *window;     /* and attention under a mask with a window */
    const char *recurrence; /* linear recurrences: one of ls_recurrence_way_name */
    const char *rnn;        /* recurrent cells: one of ls_rnn_way_name */
} ls_strategies;
/*
 * What --strategy says (strategy_text.c): parts with commas between them, each "NAME", for all attention, or
 * "KIND=NAME" with the name of a member of ls_strategies, as "ring,recurrence=heads" or "full=ring,window=gather". What
 * is not named, or "auto", becomes NULL. LS_USAGE lists what is known.
 */
LS_MUST_USE ls_status ls_strategies_parse(const char *text, ls_strategies *out);
/* The text of it. A window that is NULL is as full; of recurrence and rnn nothing is printed where they are NULL. */
enum { LS_STRATEGY_TEXT = 80 };
void ls_strategies_print(const ls_strategies *strategies, char out[LS_STRATEGY_TEXT]);
ls_strategies ls_target_strategies(const ls_target *target);
/* By which way states come to the ranks of a sequence, in order; NULL past the end. */
const char *ls_recurrence_way_name(int index);
const char *ls_rnn_way_name(int index);

/*
 * Whether blocks of other ranks of a ring may also be read where they lie. Within a block they may with every strategy.
 * LS_USAGE for an unknown name.
 */
LS_MUST_USE ls_status ls_strategy_reads_in_place(const char *name, bool *out);
/*
 * The strategies worth a try on a mesh: each way of doing it once, by the plainest name that it has there, plainest
 * first. Returns how many.
 */
enum { LS_STRATEGIES_MOST = 16 };
int ls_strategies_for(const ls_mesh *mesh, const char *out[LS_STRATEGIES_MOST]);
/* LS_OK when the strategy can do it on this mesh; else why not (LS_USAGE for an unknown name, listing the known). */
LS_MUST_USE ls_status ls_strategy_applicable(const char *name, const ls_attention_problem *problem);

#endif
