/*
 * compile: from a graph for one device (differentiated if it is to be trained) to the programs of one rank.
 *
 *   recompute       the results of the forward pass that are made again in the backward pass: the graph rewritten
 *   fuse            neighbouring maps and elementwise nodes become one map: the graph rewritten
 *   cast            a cast before each node that reads a parameter kept in another type: the graph rewritten
 *   shard           a placement per tensor and mesh axis, from what the ops' rows say about dimensions
 *   redistribute    a node wherever a tensor is spread otherwise than its reader needs it: the graph rewritten
 *   passes          the nodes of each program: tiles, gradients over the ranks, gathered shards, offload, the update
 *   lower           nodes to instructions; attention by its strategy
 *   name            the value that every read must find, for the verifier
 *   schedule        the order of the list: communication hides behind kernels
 *   place           lifetimes to offsets in the arenas
 *   order           which instructions of the other queues each queue must wait for
 *
 * Compiling only reads the graph, so one graph can be compiled for many ranks. It needs no communication: every rank
 * computes the same size of the heap and the same frame (ls_image_frame) by itself.
 */
#ifndef LS_COMPILE_H
#define LS_COMPILE_H

#include <limits.h>

#include "graph/graph.h"
#include "program/program.h"

/* What a program does after its nodes: nothing; sum gradients over the ranks; sum them and apply them. */
typedef enum ls_update { LS_UPDATE_NONE, LS_UPDATE_REDUCE, LS_UPDATE_APPLY } ls_update;

/*
 * The hyperparameters of all optimisers. An optimiser uses only those that it has (ls_optimizer_has). weight_decay
 * applies to parameters of two or more dimensions.
 */
typedef struct ls_hyperparameters {
    double beta1, beta2, epsilon, weight_decay;
    double momentum;
    double nesterov; /* 1: Nesterov momentum; 0: plain momentum */
} ls_hyperparameters;

/* The initial value of a hyperparameter that the optimiser does not have. */
enum { LS_LACKS = -1 };

struct ls_builder;
struct ls_update_piece;

/*
 * How gradients are applied: element by element to each rank's shard, or to one whole hidden matrix at a time. Each
 * optimiser is one file with one row.
 */
typedef struct ls_optimizer {
    const char *name, *about;
    const ls_optimizer_state *states; /* their strings are constant: images refer to them */
    int n_states;
    ls_hyperparameters initial; /* defaults, where the user sets nothing; or LS_LACKS */
    /* Emits the instructions that update a piece of the shard. */
    void (*update)(struct ls_builder *b, const struct ls_update_piece *piece);
    /*
     * Emits the instructions that update `n` groups from `first` on. Each group is one matrix; all have the same shape,
     * and there is at most one for each rank that has a piece (matrices.c decides which parameters are matrices). sums:
     * as for ls_update_piece_of. NULL: `update` updates all parameters.
     */
    void (*update_matrices)(struct ls_builder *b, int first, int n, ls_operand sums);
    const struct ls_optimizer *others; /* with update_matrices: for other parameters; same states */
} ls_optimizer;

/* All optimisers: X(name) stands for the row ls_optimizer_name. Each is in its own file. */
#define LS_OPTIMIZERS(X) X(adamw), X(sgd), X(lion), X(muon)
#define LS_OPTIMIZER_ROW(name) ls_optimizer_##name
extern const ls_optimizer LS_OPTIMIZERS(LS_OPTIMIZER_ROW);

/*
 * Where a job keeps an average of its parameters, a checkpoint also has the parameters themselves, as the last step
 * left them: under their names with this prefix.
 */
#define LS_AVERAGE_SAVED "last"

const ls_optimizer *ls_optimizer_at(int index); /* NULL past the end */
/* A name of NULL finds the first optimiser. LS_USAGE lists the known names when there is none of that name. */
LS_MUST_USE ls_status ls_optimizer_find(const char *name, const ls_optimizer **out);
/*
 * Whether the optimiser has the hyperparameter at that offset in ls_hyperparameters; and the hyperparameter's initial
 * value, 0 if the optimiser does not have it.
 */
bool ls_optimizer_has(const ls_optimizer *optimizer, size_t at);
double ls_optimizer_initial(const ls_optimizer *optimizer, size_t at);
/* The initial values of all hyperparameters, 0 for those that the optimiser does not have. */
ls_hyperparameters ls_optimizer_defaults(const ls_optimizer *optimizer);
/*
 * The LS_USAGE error for an option that sets a hyperparameter which the optimiser lacks; it names the optimisers that
 * have it.
 */
LS_MUST_USE ls_status ls_optimizer_lacks(const ls_optimizer *optimizer, size_t at, const char *option);

/* How a program treats the sums of gradients. */
typedef enum ls_sums {
    LS_SUMS_BEGUN,  /* it begins the sums, and they need not outlive it */
    LS_SUMS_ADDED,  /* it adds to the sums that it finds and leaves the result */
    LS_SUMS_CLEARED /* it adds to the sums that it finds, uses the result and leaves zeros */
} ls_sums;

/*
 * One of a job's programs. It runs nodes [first_node, end_node) of the graph, then the update. With `exchanges` it runs
 * no node and swaps the parameters with their average.
 */
typedef struct ls_job_program {
    const char *name;
    int first_node, end_node; /* end_node LS_LAST_NODE: to the end of the graph */
    ls_update update;
    ls_sums sums;
    bool exchanges;
    int runs;                    /* as in ls_program */
    const char *const *channels; /* names of n_channels channels between stages, known to ranks of all stages */
    int n_channels;
} ls_job_program;

enum { LS_LAST_NODE = INT_MAX };

/* A job's programs and its phase table, whose rows refer to programs by their index in `list`. */
typedef struct ls_job_programs {
    const ls_job_program *list;
    int n;
    const ls_phase *phases;
    int n_phases;
} ls_job_programs;

/*
 * Tables for the usual jobs (programs.c), allocated in the graph's arena. forward_nodes: the number of nodes before
 * differentiation, or LS_LAST_NODE; with 0, training and plain have no "evaluate".
 *   training    steps with an update. "step": the last micro-batch and the update. "micro": each of the `more`
 *               micro-batches before it, if more > 0. "evaluate": the forward nodes alone
 *   plain       "micro": the whole graph, without an update. "evaluate": the forward nodes alone
 *   forward     only "evaluate": the whole graph
 *   apart       "evaluate": the forward nodes. A program named `second`: the other nodes; it runs any number of times
 *               after each run of "evaluate". Results of "evaluate" that `second` reads must be in ls_job.fetch, so
 *               that they outlive "evaluate"
 */
#define LS_PROGRAM_MICRO "micro"
#define LS_PROGRAM_STEP "step"
#define LS_PROGRAM_EVALUATE "evaluate"
#define LS_PROGRAM_EXCHANGE "exchange"
#define LS_PROGRAM_BACKWARD "backward" /* the gradient of a job of attention alone */
#define LS_PROGRAM_DECODE "decode"     /* the next token of generation */
ls_job_programs ls_training_programs(const ls_graph *graph, int forward_nodes, ls_update update, int more);
/*
 * The programs of training with the update LS_UPDATE_APPLY. average: as in ls_job. If it is not 0 there is also
 * "exchange", which swaps the parameters with their average: "evaluate" and other readers of the parameters then find
 * the average. "exchange" runs again before the next step.
 */
ls_job_programs ls_step_programs(const ls_graph *graph, int forward_nodes, int more, double average);
ls_job_programs ls_plain_programs(const ls_graph *graph, int forward_nodes);
ls_job_programs ls_forward_programs(const ls_graph *graph);
/*
 * The same programs for a job in which each run of a program takes all micro-batches of a step: without the programs
 * that only add to sums.
 */
ls_job_programs ls_joined_programs(const ls_job_programs *programs, ls_arena *arena);
ls_job_programs ls_apart_programs(const ls_graph *graph, int forward_nodes, const char *second);

/* How one parameter is updated. */
typedef struct ls_parameter_settings {
    ls_update_settings update;
    /* The job's optimiser (the parameter is updated as a whole matrix) or its `others`; NULL: matrices.c decides. */
    const ls_optimizer *optimizer;
} ls_parameter_settings;

typedef struct ls_job {
    const ls_graph *graph;
    ls_job_programs programs;
    /*
     * Typical sequences, if the data packs documents: mask terms of kind LS_MASK_DOCUMENTS. The cost of attention is
     * the mean over these sequences; instructions and layout do not depend on them. n_documents 0: there are none, and
     * no sequence may hold several documents (ls_executor_set_documents).
     */
    const ls_mask_term *documents;
    int n_documents;
    const ls_optimizer *optimizer; /* NULL: the first of the table, AdamW */
    ls_hyperparameters hyper;
    double average; /* decay of the exponential moving average of trained parameters; 0: no average is kept */
    const ls_parameter_settings *own; /* by parameter, as declared; NULL: rate 1, hyper's decay */
    const ls_tensor *fetch;           /* tensors that the host reads by name after a program */
    int n_fetch;
    /*
     * The number of micro-batches of a step. Where the mesh has axes of kind stage, one run of a program takes them
     * all; elsewhere it takes one. 0: the job is not one of a model, and the mesh has no axes of kind stage.
     */
    int micro_batches;
    /*
     * All ranks fill the parameters together before the first program (ls_weights_fill_shared), and nothing else fills
     * them. So the ranks of a host may share the memory of values that no program changes.
     */
    bool filled_together;
} ls_job;

const ls_optimizer *ls_job_optimizer(const ls_job *job); /* never NULL */

typedef enum ls_tile_kind { LS_TILE_NONE, LS_TILE_LOSS, LS_TILE_ALL } ls_tile_kind;

/* "none", "loss", "all". For any other name, LS_USAGE lists these. */
const char *ls_tile_name(ls_tile_kind kind);
LS_MUST_USE ls_status ls_tile_parse(const char *name, ls_tile_kind *out);

/* What is done to use less memory; zero: nothing. Each measure makes a step slower. */
typedef struct ls_saving {
    int drop;           /* how many of the ls_recompute_count results are made again in the backward pass */
    ls_tile_kind tile;  /* which runs of token-wise nodes are tiled: the loss with its logits, or all */
    int64_t tile_rows;  /* tokens of a tile; 0: as many as suit the device */
    int offload;        /* how many of the ls_offload_count results wait in memory of the host */
    bool offload_state; /* the optimiser's state lies in memory of the host, except the part at work */
} ls_saving;

/*
 * How a rank gets other ranks' blocks of keys and values: their owners put them into the rank's slots, or, where ranks
 * can read each other's heaps, the rank reads them in place. The choice is made for each axis of the mesh. Results are
 * the same bit by bit.
 */
typedef enum ls_transfers { LS_TRANSFERS_AUTO, LS_TRANSFERS_PUT, LS_TRANSFERS_IN_PLACE } ls_transfers;
const char *ls_transfers_name(ls_transfers transfers); /* "auto", "put", "in-place" */
/*
 * The transfers of an image: "put", "in-place", or "in-place+put" where it reads in place along one axis and puts along
 * another.
 */
const char *ls_transfers_of(const ls_image *image);
/* NULL means auto. LS_USAGE errors name the flag --transfers. */
LS_MUST_USE ls_status ls_transfers_parse(const char *name, ls_transfers *out);

enum { LS_ONE_HOST = INT_MAX };

/*
 * What is sharded over the ranks that have the same parameter, or the same part of it along tp (ZeRO: Rajbhandari et
 * al., arXiv 1910.02054). Of what is sharded each of these ranks holds only its shard; the rest it holds whole. Where
 * only one rank has the part, nothing is sharded.
 */
typedef struct ls_shard_mode {
    const char *name;
    bool state;      /* masters and the state of the optimiser: each rank updates its shard */
    bool gradients;  /* sums over the micro-batches of a step */
    bool parameters; /* the values: gathered for each use, then freed */
} ls_shard_mode;

enum { LS_SHARD_NONE, LS_SHARD_OPTIMIZER, LS_SHARD_GRADIENTS, LS_SHARD_PARAMETERS, LS_SHARD_MODES };
extern const ls_shard_mode ls_shard_modes[LS_SHARD_MODES]; /* each shards more than the one before */
/* The index of the mode; -1 for NULL and "auto". LS_USAGE errors name the flag --shard. */
LS_MUST_USE ls_status ls_shard_parse(const char *name, int *out);

/*
 * The order in which the stages of a pipeline (axes of kind stage) take the micro-batches of a step: a row of the table
 * in pipeline/timetable.c. The plainest row comes first; NULL past the end.
 */
typedef struct ls_pipeline_schedule ls_pipeline_schedule;
const ls_pipeline_schedule *ls_pipeline_schedule_at(int index);
const char *ls_pipeline_schedule_name(const ls_pipeline_schedule *schedule);
/*
 * Parses "1f1b", "interleaved:2" (the number of chunks of each stage) or "zero-bubble". For a text of NULL, *out
 * becomes NULL and *chunks 0. LS_USAGE errors name the flag --pipeline.
 */
LS_MUST_USE ls_status ls_pipeline_parse(const char *text, const ls_pipeline_schedule **out, int *chunks);
enum { LS_PIPELINE_TEXT = 24 };
/* Whether the schedule has separate turns for gradients of parameters. */
bool ls_pipeline_schedule_splits(const ls_pipeline_schedule *schedule);
/* Whether a stage has several chunks in the schedule. */
bool ls_pipeline_schedule_interleaves(const ls_pipeline_schedule *schedule);

/*
 * What an image is compiled for. LS_FOR_TIME: only to predict its time. The values that reads must find are left out,
 * so the image cannot be verified. LS_FOR_BYTES: only to ask whether its bytes fit into ls_target.allowed. The waits
 * between queues are left out as well, and placement ends as soon as the answer is known: if ls_image_mapped of a
 * complete image is at most `allowed`, that of this image is too; else it is more than `allowed`, and at most that of
 * the complete image. `allowed` 0 asks for the bytes of the complete image.
 */
typedef enum ls_compiled_for { LS_FOR_RUNS, LS_FOR_TIME, LS_FOR_BYTES } ls_compiled_for;

typedef struct ls_target {
    ls_mesh mesh;
    int rank;
    ls_compiled_for made_for;
    size_t allowed; /* for LS_FOR_BYTES */
    /*
     * Where the mesh has axes of kind stage: the number of chunks of each stage (0: one), and the order of their turns
     * (NULL: the first schedule of the table).
     */
    int stage_chunks;
    const ls_pipeline_schedule *schedule;
    /*
     * With stages: the number of slices, parts of equal length, into which each sequence is cut. Slices go through the
     * stages one after the other as micro-batches do, in the backward pass the last one first (Sun et al., "Seq1F1B",
     * arXiv 2406.03488). 0 or 1: sequences are not cut.
     */
    int slices;
    const char *strategy;        /* of attention: a name from ls_strategy_name */
    const char *window_strategy; /* of attention under a mask with a window; NULL: as `strategy` */
    ls_layout_kind layout;
    /* A result of ls_compile_layout for this job, reused if kind and mesh are the same; may be NULL. */
    const ls_layout *made;
    ls_isa isa;         /* best instruction set that kernels may use */
    const char *device; /* runs the programs, named as for ls_device_open; NULL: the environment's */
    ls_kernel_choices kernels;
    int threads;                /* per rank */
    const char *recurrence_way; /* of linear recurrences: a row of LS_LINEAR_WAYS; NULL: the cheapest by counts */
    const char *rnn_way;        /* of recurrent cells: a row of LS_RNN_WAYS; NULL: the cheapest by counts */
    ls_transfers transfers;
    /* The number of consecutive ranks that are on one host and can read each other's heaps; 0 or 1: none can. */
    int host_ranks;
    const ls_shard_mode *shard; /* NULL: LS_SHARD_OPTIMIZER, or LS_SHARD_GRADIENTS if canonical */
    bool canonical;             /* sums are the same bit by bit for any number of ranks (chunks.c) */
    ls_saving saving;
} ls_target;

/* The target's schedule as a value of --pipeline; "none" if there is one stage. */
void ls_pipeline_print(const ls_target *target, char out[LS_PIPELINE_TEXT]);

/* What is sharded on the target's mesh. */
const ls_shard_mode *ls_target_shard(const ls_target *target);

/* "fast" and NULL: false; "canonical": true. LS_USAGE errors name the flag --sums. */
LS_MUST_USE ls_status ls_canonical_parse(const char *name, bool *out);
/* The number of chunks into which canonical sums cut a sequence: a power of two that depends only on its length. */
int ls_chunk_count(int64_t S);
/*
 * If the target is to have canonical sums: checks that mesh, layout, shard mode and the sequences of a replica in a
 * micro-batch allow them. LS_USAGE says why not. The compiler itself checks strategies and ops.
 */
LS_MUST_USE ls_status ls_canonical_check(const ls_target *target, const ls_layout *layout, int64_t sequences);

/* The number of nodes of the forward pass whose results could be made again instead of kept. */
int ls_recompute_count(const ls_job *job);

/*
 * Parses the value of --offload into members of ls_saving: `offload` and `offload_state`, -1 where "auto" or NULL
 * leaves them open. LS_USAGE errors name the flag. ls_offload_print does the reverse: "none", "optimizer", "results",
 * "12", "optimizer+12", "all".
 */
LS_MUST_USE ls_status ls_offload_parse(const char *text, int *results, int *state);
enum { LS_OFFLOAD_TEXT = 24 };
void ls_offload_print(const ls_saving *saving, char out[LS_OFFLOAD_TEXT]);
enum { LS_OFFLOAD_ALL = INT_MAX }; /* a number of results: all of them */
/*
 * The number of results that could wait in memory of the host if the first `drop` results are made again instead of
 * kept.
 */
int ls_offload_count(const ls_job *job, int drop);

/*
 * Whether the graph has something that the ranks along the axis can share: several sequences, a sequence of several
 * tokens, heads.
 */
bool ls_axis_is_usable(const ls_graph *graph, const ls_axis *axis);

/*
 * The layout of the job's sequence on a target, the same on every rank. Layouts that depend on masks look at every
 * attention node of the graph. *out is allocated in the arena. Errors: those of ls_compile about the sequence and the
 * mesh.
 */
LS_MUST_USE ls_status ls_compile_layout(const ls_job *job, const ls_target *target, ls_arena *arena, ls_layout *out);

/*
 * Compiles the job for one rank. LS_INVALID and LS_UNSUPPORTED errors name the op, the tensor and the reason, or the
 * strategy and why it does not apply. The caller destroys the image.
 */
LS_MUST_USE ls_status ls_compile(const ls_job *job, const ls_target *target, ls_image **out);

/*
 * The band of keys that the queries of a whole sequence see (tensor/params.h), for a call of attention outside a
 * program. Calls in programs have their own bands.
 */
ls_attention_band ls_mask_band(const ls_mask *mask, int64_t tokens);

/*
 * Ranks with identical programs form a class: an image compiled for one of them serves all. Replicas and ranks along tp
 * are in one class, and so are the ranks of a block if tokens and heads divide evenly. Each rank is its own class where
 * only the first replica adds something that all replicas have, and where ranks along tp have uneven parts. Classes are
 * numbered from 0.
 */
typedef struct ls_classes {
    ls_mesh mesh;
    int n;       /* classes */
    int members; /* ranks, consecutive along the sequence, that are in one class: 1, or those of a block */
    bool apart;  /* replicas, or ranks along tp, differ: each rank is its own class */
} ls_classes;
/* Errors: those of ls_compile about the sequence and the mesh. */
LS_MUST_USE ls_status ls_classes_find(const ls_job *job, const ls_target *target, ls_classes *out);
int ls_class_of(const ls_classes *classes, int rank);
int ls_class_first(const ls_classes *classes, int class); /* the first rank of the class */

/* The images of the ranks of a mesh, one for each class. A zeroed one has no images. */
typedef struct ls_images {
    ls_classes classes;
    ls_image **of_class; /* NULL: not compiled */
} ls_images;
/*
 * Compiles the rank's class for the target's mesh, unless *images has its image. Errors: LS_NO_MEMORY, or that of
 * ls_compile.
 */
LS_MUST_USE ls_status ls_compile_class_of(const ls_job *job, const ls_target *target, int rank, ls_images *images);
/* Does ls_compile_class_of for every rank. */
LS_MUST_USE ls_status ls_compile_classes(const ls_job *job, const ls_target *target, ls_images *images);
const ls_image *ls_images_of(const ls_images *images, int rank); /* NULL: not compiled */
void ls_images_destroy(ls_images *images);                       /* zeroed *images are allowed */

/*
 * Inspects the image of a class, which is freed afterwards. Called for one class at a time, in any order, from any
 * thread.
 */
typedef void (*ls_class_visit)(void *context, int class, const ls_image *image);

/*
 * Compiles all classes, as many at once as this machine has cores (at most 8), and proves for any number of ranks that
 * their programs run together (program/verify_local.h). Once a class is proved, only the ends of its channels are kept.
 * *out: the image of class 0, which the caller destroys. Errors: those of ls_compile, and LS_INVALID from the proof; if
 * several classes fail, the error of the first one.
 */
LS_MUST_USE ls_status ls_compile_proved(const ls_job *job, const ls_target *target, ls_class_visit visit, void *context,
                                        ls_image **out);

/*
 * One rank's share of ls_compile_proved, for processes that have one rank each. *out becomes the image of the rank's
 * class. The first rank of each class also proves the class, and its *digest becomes the class's digest, which the
 * ranks compare (ls_proof_digests_agree); on other ranks *digest is zero.
 */
LS_MUST_USE ls_status ls_compile_share(const ls_job *job, const ls_target *target, int rank, ls_proof_digest *digest,
                                       ls_image **out);

/* The attention and the mesh for which a strategy is checked. */
typedef struct ls_attention_problem {
    int64_t B, S;          /* sequences of one replica; tokens of the whole sequence */
    int64_t Hq, Hkv, D, E; /* heads of queries, of keys and values; elements of a head of queries or keys, of values */
    ls_mesh mesh;
} ls_attention_problem;

/* The strategies in the order of their table; the name is NULL past the end. */
const char *ls_strategy_name(int index);
const char *ls_strategy_about(int index);
/*
 * How each kind of layer that works along the sequence is computed by several ranks: names from the tables. NULL: not
 * given; each user of the struct says what this means.
 */
typedef struct ls_strategies {
    const char *full;       /* attention without a window: a name from ls_strategy_name */
    const char *window;     /* attention under a mask with a window: the same names */
    const char *recurrence; /* linear recurrences: a name from ls_recurrence_way_name */
    const char *rnn;        /* recurrent cells: a name from ls_rnn_way_name */
} ls_strategies;
/*
 * Parses the value of --strategy (strategy_text.c): a comma-separated list of "NAME", for all attention, and
 * "KIND=NAME", where KIND is a member of ls_strategies. Examples: "ring,recurrence=heads", "full=ring,window=gather". A
 * member that is not named, or is "auto", becomes NULL. LS_USAGE lists the known names.
 */
LS_MUST_USE ls_status ls_strategies_parse(const char *text, ls_strategies *out);
/* The same as text. `window` NULL means the same as `full`; `recurrence` and `rnn` are not printed if they are NULL. */
enum { LS_STRATEGY_TEXT = 80 };
void ls_strategies_print(const ls_strategies *strategies, char out[LS_STRATEGY_TEXT]);
ls_strategies ls_target_strategies(const ls_target *target);
/* The ways in which states reach the ranks of a sequence, in the order of their tables; NULL past the end. */
const char *ls_recurrence_way_name(int index);
const char *ls_rnn_way_name(int index);

/*
 * Whether the strategy can also read blocks of other ranks of a ring in place. Within a block of ranks every strategy
 * can. LS_USAGE for an unknown name.
 */
LS_MUST_USE ls_status ls_strategy_reads_in_place(const char *name, bool *out);
/*
 * The strategies worth trying on a mesh, plainest first. Where several strategies do the same on this mesh, only the
 * plainest of them is listed. Returns their number.
 */
enum { LS_STRATEGIES_MOST = 16 };
int ls_strategies_for(const ls_mesh *mesh, const char *out[LS_STRATEGIES_MOST]);
/*
 * LS_OK if the strategy can compute this attention on this mesh; else the error says why not (LS_USAGE for an unknown
 * name lists the known ones).
 */
LS_MUST_USE ls_status ls_strategy_applicable(const char *name, const ls_attention_problem *problem);

#endif
