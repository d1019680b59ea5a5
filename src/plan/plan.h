/*
 * plan: resolves what was left to choice: mesh, strategy, layout. Every candidate is compiled for all its ranks, and its own programs
 * are played on a clock (program/clock.h) with the rates of this machine: the last rank to be through counts.
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

/* Rank 0's target for a candidate. */
ls_target ls_plan_target(const ls_plan_request *request, const ls_plan_candidate *candidate);

/* Puts the candidates in order, best first: target and reason are then the first one's. */
void ls_plan_choose(const ls_plan_request *request, ls_plan *plan);

/* "ring 2 · zigzag" */
#define LS_CANDIDATE_NAME 128
void ls_candidate_name(const ls_plan_candidate *candidate, char out[LS_CANDIDATE_NAME]);

/* --- memory.c ---------------------------------------------------------------------------------------------------------------- */

/*
 * A rank's memory in words: what it maps, by kind of buffer, and whether that is allowed.
 */

typedef struct ls_memory_account {
    size_t mapped;                      /* both arenas, in bytes like all here */
    size_t kind_bytes[LS_BUFFER_KINDS]; /* live at the peak of each arena */
    size_t unused; /* of the mapped bytes: in no buffer that is live at its arena's peak */
    ls_peak peak[LS_SPACES];
} ls_memory_account;

ls_memory_account ls_memory_account_of(const ls_image *image);

/*
 * LS_NO_MEMORY when the rank maps more than `allowed` bytes: says how much it needs, where the peak is, and what lives there. who: that
 * allows no more ("--memory").
 */
LS_MUST_USE ls_status ls_memory_check(const ls_image *image, int64_t allowed, const char *who);

/* The job as one rank alone would run it, with everything else as in `target`. */
LS_MUST_USE ls_status ls_compile_alone(const ls_job *job, const ls_target *target, ls_image **out);

/* --- advice.c ---------------------------------------------------------------------------------------------------------------- */

/*
 * What would fit where a job does not: the smallest change to the ranks or to the sequence.
 */

/* The same job at another sequence length: *graph is the adviser's to destroy, whatever the status. */
typedef struct ls_plan_variants {
    ls_status (*make)(void *context, int64_t seq, ls_graph **graph, ls_job *job);
    void *context;
    int64_t seq; /* as asked for */
} ls_plan_variants;

/*
 * The refusal (LS_NO_MEMORY, of planning the request; `refused` is the plan that it left) with what would fit: "--ranks 4 would fit, or
 * --seq 112". As it is where the plan does not lack memory. Plans many variants, which takes seconds for large models; runs nothing.
 */
LS_MUST_USE ls_status ls_plan_advise(const ls_plan_variants *variants, const ls_plan_request *request,
                                     const ls_plan *refused, ls_status refusal);

/* --- host_file.c ------------------------------------------------------------------------------------------------------------- */

/*
 * This machine's rates (program/cost.h): measured once by `longspan bench machine`, kept in the user's cache directory,
 * $XDG_CACHE_HOME/longspan or ~/.cache/longspan, one file for each processor, number of cores and instruction set.
 */

/* Where the file is or would be. LS_IO when the user has no home. */
LS_MUST_USE ls_status ls_host_path(ls_isa isa, char **out);

/* As fields of an open object. */
void ls_host_put(const ls_host *host, ls_json_writer *writer);

/* Makes the folder where it is missing. */
LS_MUST_USE ls_status ls_host_save(ls_isa isa, const ls_host *host);

/*
 * The measured rates where there are some, else the nominal ones; returns whether they were measured. A file that is there and
 * wrong, or was measured by another version, is passed over with one line that says why.
 */
bool ls_host_load(ls_isa isa, ls_host *out);

/*
 * Measures, on all cores at once: attention, its gradient and a matrix product of each type, kernels bound by memory in a cache and past
 * it, and puts between ranks. Takes half a minute of an otherwise idle machine. Prints nothing. LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_host_measure(ls_isa isa, ls_host *out);

/* --- timed_call.c ------------------------------------------------------------------------------------------------------------ */

/*
 * A kernel by itself, on data of its own: what is timed of one kernel is timed this way.
 *
 *     ls_timed_call timed;
 *     LS_TRY(ls_timed_call_open(LS_KERNEL_MATMUL, LS_BF16, isa, pool, &call, &timed));
 *     double seconds = ls_timed_call_run(&timed);      as often as needed; the first meets cold caches
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
 * Of the call, operands and parameters count. Operands without data must be dense; they get memory as a rank's arenas have it, all
 * pages there, those of floating-point types filled with numbers in (-1, 1), others with zeros. What the call points to and the pool (NULL: this
 * thread alone) are borrowed. LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_timed_call_open(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                                         const ls_kernel_call *call, ls_timed_call *out);
double ls_timed_call_run(const ls_timed_call *timed); /* seconds */
void ls_timed_call_close(ls_timed_call *timed);

/*
 * The same call on several cores at once, each on data of its own, as ranks of one thread would do it: what a core does while the
 * others want the same caches, memory and electricity.
 */
typedef struct ls_timed_crowd {
    ls_timed_call *member;
    double *seconds;
    int n;
    ls_pool *pool;
} ls_timed_crowd;

/* On all threads of the pool (NULL: this one alone), fewer where memory is short. */
LS_MUST_USE ls_status ls_timed_crowd_open(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                                          const ls_kernel_call *call, ls_timed_crowd *out);
/* All begin together; seconds of one, the mean. */
double ls_timed_crowd_run(const ls_timed_crowd *crowd);
void ls_timed_crowd_close(ls_timed_crowd *crowd);

/* --- attention_call.c -------------------------------------------------------------------------------------------------------- */

/* Calls of attention by itself, with the operands that a rank alone would give it: what timed_call.h times. */

/* One sequence of S tokens, Hq query heads of size D that share Hkv KV heads. */
typedef struct ls_attention_shape {
    int64_t S, Hq, Hkv, D;
} ls_attention_shape;

/*
 * Operands and parameters of "attention" (LS_FORWARD) or "attention_grad" (LS_BACKWARD), without data but for positions and the table of
 * visible keys, which lie in the arena.
 */
ls_kernel_call ls_attention_call_make(ls_arena *arena, ls_dtype T, int pass, const ls_attention_shape *shape,
                                      const ls_mask *mask);

/* Of "attention_delta", which the gradient needs. */
ls_kernel_call ls_attention_delta_call(ls_dtype T, const ls_attention_shape *shape);

/* Keys that queries see, over all query heads, in the call's table. */
double ls_attention_call_pairs(const ls_kernel_call *call);

#endif
