/*
 * plan: resolves what the user left to choice: mesh, strategy, layout, and which memory is saved. Every candidate is
 * compiled and costed. The best ones are compiled for all ranks and simulated with the rates of this machine, until the
 * best candidate is a simulated one; its seconds last until the slowest rank is done. With many ranks none is
 * (LS_PLAN_SIMULATED_INSTRS), and seconds are lower bounds. The header for other folders.
 */
#ifndef LS_PLAN_H
#define LS_PLAN_H

#include "base/base.h"
#include "compile/compile.h"
#include "format/format.h"
#include "kernel/kernel.h"
#include "longspan/spread.h"
#include "program/program.h"

typedef struct ls_plan_request {
    int ranks;
    ls_mesh mesh;         /* axes that it does not list are free, but those of kind batch: they have one rank */
    const char *strategy; /* NULL or "auto": free */
    const char *layout;   /* NULL or "auto": free */
    ls_isa isa;
    const char *device; /* as in ls_target */
    ls_host host;       /* the rates by which candidates are costed */
    bool measured;      /* the rates were measured on this machine; else they are nominal */
    ls_kernel_choices kernels;
    int threads;
    ls_transfers transfers;
    int host_ranks;      /* as in ls_target */
    int machine_ranks;   /* that share this machine's memory and cores */
    int64_t memory;      /* bytes that a rank may map; 0: no limit */
    bool machine;        /* memory is a rank's share of this machine's memory; false: the user gave it */
    int shard;           /* index into ls_shard_modes; -1: free */
    bool canonical;      /* as in ls_target */
    int drop;            /* as in ls_saving; -1: free */
    int tile;            /* an ls_tile_kind; -1: free */
    int64_t tile_rows;   /* 0: chosen */
    int offload;         /* as in ls_saving; -1: free */
    int offload_state;   /* 1 or 0; -1: free */
    bool host_apart;     /* the device has memory of its own, and `memory` is of that */
    int64_t host_memory; /* then bytes that a rank may take of the host's; 0: no limit */
} ls_plan_request;

/* Other processes are told of it as bytes, and what it points to by names (session/trial.c). */
typedef struct ls_plan_candidate {
    ls_mesh mesh;
    const char *strategy;
    ls_layout_kind layout;
    const ls_shard_mode *shard; /* NULL: not chosen yet */
    ls_saving saving;
    int listed;      /* position in the order in which candidates are made: the simplest first */
    bool fits;       /* into the memory of the request */
    double seconds;  /* predicted for one micro-batch and update */
    bool simulated;  /* with all ranks; otherwise `seconds` is a lower bound */
    double measured; /* seconds of the same in a trial (ls_plan_try); 0: it was not run */
    /* share of `seconds` that the rank which waits most waits for others; 0 unless simulated */
    double waiting;
    double bytes_sent; /* by the rank that sends most */
    /* the part of bytes_sent in the forward pass (program evaluate); 0 when the job has none */
    double bytes_forward;
    double bytes_read;       /* from other ranks, in place, by the rank that reads most */
    double read_forward;     /* the part of bytes_read in the forward pass */
    double imbalance;        /* flops of the busiest rank over the mean, minus 1 */
    size_t bytes[LS_SPACES]; /* of the rank that maps most, */
    size_t mapped;           /* and how many of them where the device computes (ls_image_mapped) */
    int most_rank;           /* the rank that maps most */
    int64_t instrs;          /* in a step's programs on all ranks together, about */
    char refused[256];       /* why the candidate does not apply; empty when it does */
} ls_plan_candidate;

/*
 * Simulating a candidate compiles the programs of all ranks, and takes time and memory by their instructions: about two
 * seconds and 400 MiB for this many. When a candidate has more, none is simulated, so that all are compared by the same
 * kind of time.
 */
enum { LS_PLAN_SIMULATED_INSTRS = 1 << 19 };

/* A plan owns its candidates. A zeroed plan has none. */
typedef struct ls_plan {
    ls_target target; /* of rank 0; other ranks differ in `rank` only */
    char reason[400]; /* one line: what was chosen and why */
    bool measured;    /* predictions use rates measured on this machine; else nominal ones */
    double logged;    /* when progress was last logged (ls_seconds) */
    int64_t instrs;   /* the most `instrs` of a candidate that applies */
    int n_candidates;
    size_t capacity;
    ls_plan_candidate *candidates; /* all that were tried: best first, refused ones last; in the arena */
    ls_arena *arena;
} ls_plan;

void ls_plan_free(ls_plan *plan); /* leaves a zeroed plan */
ls_plan ls_plan_copy(const ls_plan *plan);
/* Whether the plan's candidates are few enough instructions to be simulated. */
bool ls_plan_is_simulated(const ls_plan *plan);

/* The rates of one rank of the image's job on a host. Threads that share a core share its speed. */
ls_rates ls_plan_rates(const ls_image *image, const ls_host *host);

/*
 * Checks the options about memory (memory, recompute, offload, tile, tile_rows) and puts them into the request.
 * LS_USAGE names the flag.
 */
LS_MUST_USE ls_status ls_plan_memory_options(const ls_spread *spread, ls_plan_request *request);

/*
 * Chooses the best candidate of a request. The caller frees *out, whatever the status is. A strategy that is named is
 * tried on the meshes for which ls_strategies_for lists it; usp on any mesh. A candidate cuts as little over the ranks
 * as it must to fit into request->memory, and saves as little memory otherwise. When none fits the status is
 * LS_NO_MEMORY, its message says what the smallest candidate needs and for which buffers, and out->target is that
 * candidate. When no candidate applies the status is that of the first refused one, or names the mesh of the request.
 */
LS_MUST_USE ls_status ls_plan_make(const ls_job *job, const ls_plan_request *request, ls_plan *out);

/* The target of rank 0 for a candidate. */
ls_target ls_plan_target(const ls_plan_request *request, const ls_plan_candidate *candidate);

/* Sorts the candidates, best first, and sets target and reason to those of the first. */
void ls_plan_choose(const ls_plan_request *request, ls_plan *plan);

/* "ring 2 · zigzag" */
#define LS_CANDIDATE_NAME 128
void ls_candidate_name(const ls_plan_candidate *candidate, char out[LS_CANDIDATE_NAME]);

/* --- memory.c ----------------------------------------------------------------------------------------------------- */

/* A rank's memory in bytes: what it maps where its device computes, by kind of buffer. */
typedef struct ls_memory_account {
    size_t mapped;                      /* ls_image_mapped */
    size_t kind_bytes[LS_BUFFER_KINDS]; /* live at the peaks of the arenas */
    size_t unused;                      /* mapped, but in no buffer that is live at its arena's peak */
    ls_peak peak[LS_SPACES];
} ls_memory_account;

ls_memory_account ls_memory_account_of(const ls_image *image);

/*
 * LS_NO_MEMORY when the rank maps more than `allowed` bytes; the message says how much it needs, where the peak is, and
 * the largest buffers there. limit: what allows no more, in words ("--memory", "this machine").
 */
LS_MUST_USE ls_status ls_memory_check(const ls_image *image, int64_t allowed, const char *limit);

/* Compiles the job for one rank alone, with everything else as in `target`. */
LS_MUST_USE ls_status ls_compile_alone(const ls_job *job, const ls_target *target, ls_image **out);

/* Makes the same job at another sequence length. The caller of make destroys *graph, whatever the status. */
typedef struct ls_plan_variants {
    ls_status (*make)(void *context, int64_t seq, ls_graph **graph, ls_job *job);
    void *context;
    int64_t seq; /* the length that the user gave */
} ls_plan_variants;

/*
 * Adds to a refusal what would fit: "--ranks 4 would fit, or --seq 112", the smallest change to the ranks or to the
 * sequence. refusal is the LS_NO_MEMORY status of planning the request, and `refused` the plan that it left. Other
 * refusals are returned unchanged. Plans many variants, which takes seconds for large models; runs nothing.
 */
LS_MUST_USE ls_status ls_plan_advise(const ls_plan_variants *variants, const ls_plan_request *request,
                                     const ls_plan *refused, ls_status refusal);

/* --- host_file.c -------------------------------------------------------------------------------------------------- */

/*
 * This machine's rates (program/cost.h): `longspan bench machine` measures them once and keeps them in the user's cache
 * folder, $XDG_CACHE_HOME/longspan or ~/.cache/longspan, one file for each processor, number of cores and instruction
 * set.
 */

/* The path of the file, which need not exist. LS_IO when the user has no home folder. */
LS_MUST_USE ls_status ls_host_path(ls_isa isa, char **out);

/* Writes the rates as fields of an open object. */
void ls_host_put(const ls_host *host, ls_json_writer *writer);

/* Writes the file, and creates its folder if it is missing. */
LS_MUST_USE ls_status ls_host_save(ls_isa isa, const ls_host *host);

/*
 * *out becomes the measured rates if there is a file of them, else the nominal ones. Returns whether they were
 * measured. A file that is not valid, or was written by another version, is ignored with one log line that says why.
 */
bool ls_host_load(ls_isa isa, ls_host *out);

/*
 * Measures, on all cores at once: attention, its gradient and a matrix product of each type, kernels bound by memory in
 * a cache and from memory, and puts between ranks. Takes half a minute; the machine should be idle. Prints nothing.
 * LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_host_measure(ls_isa isa, ls_host *out);

/* --- timed_call.c ------------------------------------------------------------------------------------------------- */

/*
 * A kernel by itself, on data of its own, timed. All measurements of one kernel are made this way.
 *
 *     ls_timed_call timed;
 *     LS_TRY(ls_timed_call_open(LS_KERNEL_MATMUL, LS_BF16, isa, pool, &call, &timed));
 *     double seconds = ls_timed_call_run(&timed);      any number of times; caches are cold in the first run
 *     ls_timed_call_close(&timed);
 */

typedef struct ls_timed_call {
    const ls_kernel *kernel;
    ls_kernel_call call;
    void *state; /* the kernel's */
    ls_pool *pool;
    void *memory;
    size_t bytes;
} ls_timed_call;

/*
 * Takes the operands and the parameters of `call`. Operands without data must be dense. They get memory like that of a
 * rank's arenas, with all pages touched: those of floating-point types filled with numbers in (-1, 1), others with
 * zeros. The pool (NULL: this thread alone) and everything that the call points to are borrowed. LS_NO_MEMORY,
 * LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_timed_call_open(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                                         const ls_kernel_call *call, ls_timed_call *out);
double ls_timed_call_run(const ls_timed_call *timed); /* seconds */
void ls_timed_call_close(ls_timed_call *timed);

/*
 * The same call on several cores at once, each on data of its own, like ranks of one thread: the cores compete for
 * caches, memory and electric power, as they do in a step.
 */
typedef struct ls_timed_calls {
    ls_timed_call *call;
    double *seconds; /* of each call */
    int n;
    ls_pool *pool;
} ls_timed_calls;

/* One call for each thread of the pool (NULL: this thread alone), fewer if memory is short. */
LS_MUST_USE ls_status ls_timed_calls_open(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                                          const ls_kernel_call *call, ls_timed_calls *out);
/* Runs all calls, which begin together. Returns the mean of their seconds. */
double ls_timed_calls_run(const ls_timed_calls *calls);
void ls_timed_calls_close(ls_timed_calls *calls);

/* One sequence of S tokens with Hq query heads of size D, which share Hkv KV heads. */
typedef struct ls_attention_shape {
    int64_t S, Hq, Hkv, D;
} ls_attention_shape;

/*
 * A call of "attention" (LS_FORWARD) or "attention_grad" (LS_BACKWARD), with the operands that a rank alone would give
 * it, to be timed as above. Operands have no data, except for the positions and the table of visible keys, which lie in
 * the arena.
 */
ls_kernel_call ls_attention_call_make(ls_arena *arena, ls_dtype T, int pass, const ls_attention_shape *shape,
                                      const ls_mask *mask);

/* A call of "attention_delta", which the gradient needs. */
ls_kernel_call ls_attention_delta_call(ls_dtype T, const ls_attention_shape *shape);

/* Pairs of a query and a key that it sees, summed over the query heads, from the table of the call. */
double ls_attention_call_pairs(const ls_kernel_call *call);

#endif
