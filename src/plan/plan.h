/*
 * plan: resolves what the user leaves open: mesh, strategy, layout, and how memory is saved. Every candidate is
 * compiled and costed. The best ones are then compiled for all ranks and simulated with the rates of this machine,
 * until the best candidate is a simulated one; its seconds end when the slowest rank is done. With many ranks no
 * candidate is simulated (LS_PLAN_SIMULATED_INSTRS), and seconds are lower bounds. The header for other folders.
 */
#ifndef LS_PLAN_H
#define LS_PLAN_H

#include "base/base.h"
#include "compile/compile.h"
#include "device/device.h"
#include "format/format.h"
#include "kernel/kernel.h"
#include "longspan/spread.h"
#include "program/program.h"

typedef struct ls_plan_request {
    int ranks;
    /*
     * Axes that it does not list are free, except those of kind batch, which have one rank, and those of kind stage,
     * which may have several only if a step has several micro-batches.
     */
    ls_mesh mesh;
    const char *strategy; /* as for ls_strategies_parse */
    const char *layout;   /* NULL or "auto": free */
    ls_isa isa;
    const char *device; /* as in ls_target */
    ls_host host;       /* the rates with which candidates are costed */
    bool measured;      /* the rates were measured on this machine; false: they are nominal */
    ls_kernel_choices kernels;
    int threads;
    ls_transfers transfers;
    int host_ranks;        /* as in ls_target */
    int machine_ranks;     /* ranks that share this machine's memory and cores */
    int64_t device_memory; /* bytes of a GPU's memory; 0: ranks use this machine's memory, or the size is not known */
    int64_t memory;        /* bytes that a rank may map; 0: no limit */
    bool machine;          /* memory is a rank's share of this machine's memory; false: the user gave it */
    int shard;             /* index into ls_shard_modes; -1: free */
    bool canonical;        /* as in ls_target */
    int stage_chunks;      /* as in ls_target, */
    const ls_pipeline_schedule *schedule; /* if the mesh has stages; NULL: free */
    int slices;                           /* as in ls_target */
    int drop;                             /* as in ls_saving; -1: free */
    int tile;                             /* an ls_tile_kind; -1: free */
    int64_t tile_rows;                    /* 0: free */
    int offload;                          /* as in ls_saving; -1: free */
    int offload_state;                    /* 1 or 0; -1: free */
    bool host_apart;                      /* the device has its own memory, and `memory` limits that */
    /* if host_apart: bytes that a rank may use of the host's memory; 0: no limit */
    int64_t host_memory;
    bool only_fit; /* the caller only asks whether a candidate fits: none is tried after the first that fits */
} ls_plan_request;

/* Sent to other processes as bytes; what its pointers point to is sent by name (session/trial.c). */
typedef struct ls_plan_candidate {
    ls_mesh mesh;
    const ls_pipeline_schedule *schedule; /* if the mesh has stages; as in ls_target */
    int stage_chunks;                     /* like schedule */
    ls_strategies strategies;             /* as for ls_target_strategies */
    ls_layout_kind layout;
    const ls_shard_mode *shard; /* NULL: not chosen yet */
    ls_saving saving;
    int listed;      /* index in the order in which candidates are made: the simplest first */
    bool fits;       /* it fits into the memory of the request */
    double seconds;  /* predicted seconds of a step */
    bool simulated;  /* all ranks were simulated; false: `seconds` is a lower bound */
    double measured; /* seconds of a step in a trial (ls_plan_try); 0: there was none */
    /* fraction of `seconds` that the rank with the most waiting waits for others; 0 unless simulated */
    double waiting;
    double bytes_sent; /* by the rank that sends most */
    /* the part of bytes_sent in the forward pass (program evaluate); 0 if the job has none */
    double bytes_forward;
    double bytes_read;       /* read in place from other ranks, by the rank that reads most */
    double read_forward;     /* the part of bytes_read in the forward pass */
    double imbalance;        /* flops of the busiest rank over the mean, minus 1 */
    size_t bytes[LS_SPACES]; /* of the rank that maps most */
    size_t mapped;           /* the part of bytes in memory where the device computes (ls_image_mapped) */
    int most_rank;           /* the rank that maps most */
    size_t least;            /* bytes that no saving reduces (ls_plan_least) */
    bool unsought;           /* `least` is more than allowed, so no saving was searched for */
    int64_t instrs;          /* approximate number of instructions in a step's programs of all classes together */
    char refused[256];       /* why the candidate does not apply; empty: it applies */
} ls_plan_candidate;

/*
 * Simulating a candidate compiles the programs of all classes of ranks. The time and memory that this takes depend on
 * the number of instructions: about two seconds and 400 MiB for this many. If any candidate has more, none is
 * simulated, so that all are compared by the same kind of time.
 */
enum { LS_PLAN_SIMULATED_INSTRS = 1 << 19 };

/* A plan owns its candidates. A zeroed plan has none. */
typedef struct ls_plan {
    ls_target target; /* of rank 0; the targets of other ranks differ only in `rank` */
    char reason[400]; /* one line that says what was chosen and why */
    bool measured;    /* predictions use rates measured on this machine; false: nominal ones */
    double logged;    /* when progress was last logged (ls_seconds) */
    int64_t instrs;   /* the largest `instrs` of the candidates that apply */
    double fastest;   /* seconds of the fastest fitting candidate among those made so far; INFINITY: none fits */
    int n_candidates;
    size_t capacity;
    ls_plan_candidate *candidates; /* all candidates that were tried: the best first, refused ones last; in the arena */
    struct ls_plan_found *found;   /* while the plan is made: results of searches for savings; then NULL */
    ls_arena *arena;
} ls_plan;

void ls_plan_free(ls_plan *plan); /* leaves a zeroed plan */
ls_plan ls_plan_copy(const ls_plan *plan);
/* Whether all candidates of the plan have few enough instructions to be simulated. */
bool ls_plan_is_simulated(const ls_plan *plan);

/* The rates of one rank of the image's job on a host. Threads that share a core share its speed. */
ls_rates ls_plan_rates(const ls_image *image, const ls_host *host);

/*
 * Checks the options about memory (memory, recompute, offload, tile, tile_rows) and copies them into the request.
 * LS_USAGE names the flag.
 */
LS_MUST_USE ls_status ls_plan_memory_options(const ls_spread *spread, ls_plan_request *request);

/*
 * Chooses the best candidate of a request. The caller frees *out, also on failure. A strategy that the user names is
 * tried on the meshes for which ls_strategies_for lists it; usp on any mesh. A candidate is cut over the ranks only as
 * far as it must be to fit into request->memory, and otherwise saves as little memory as possible. If no candidate
 * fits, the status is LS_NO_MEMORY; its message says what the candidate with the fewest bytes found needs, and for
 * which buffers, and out->target is that candidate. If no candidate applies, the status is that of the first refused
 * one, or names the mesh of the request. With request->only_fit, only the status counts: candidates that do not fit
 * have no seconds, and the message of LS_NO_MEMORY says only that nothing fits.
 */
LS_MUST_USE ls_status ls_plan_make(const ls_job *job, const ls_plan_request *request, ls_plan *out);

/* The target of rank 0 for a candidate. */
ls_target ls_plan_target(const ls_plan_request *request, const ls_plan_candidate *candidate);

/* Sorts the candidates, the best first, and sets target and reason to those of the first. */
void ls_plan_choose(const ls_plan_request *request, ls_plan *plan);

/* "ring 2 · zigzag" */
#define LS_CANDIDATE_NAME 128
void ls_candidate_name(const ls_plan_candidate *candidate, char out[LS_CANDIDATE_NAME]);

/* --- memory.c ----------------------------------------------------------------------------------------------------- */

/* A rank's memory in bytes: what it maps in the memory where its device computes, by kind of buffer. */
typedef struct ls_memory_account {
    size_t mapped;                      /* ls_image_mapped */
    size_t kind_bytes[LS_BUFFER_KINDS]; /* live at the peaks of the arenas */
    size_t unused;                      /* mapped, but not part of a buffer that is live at its arena's peak */
    ls_peak peak[LS_SPACES];
} ls_memory_account;

ls_memory_account ls_memory_account_of(const ls_image *image);

/*
 * LS_NO_MEMORY if the rank maps more than `allowed` bytes; the message says how much it needs, where the peak is, and
 * the largest buffers there. limit: the limit in words ("--memory", "this machine").
 */
LS_MUST_USE ls_status ls_memory_check(const ls_image *image, int64_t allowed, const char *limit);

/* Compiles the job for a single rank, with everything else as in `target`. */
LS_MUST_USE ls_status ls_compile_alone(const ls_job *job, const ls_target *target, ls_image **out);

/* Makes the same job for another sequence length. The caller of `make` destroys *graph, also on failure. */
typedef struct ls_plan_variants {
    ls_status (*make)(void *context, int64_t seq, ls_graph **graph, ls_job *job);
    void *context;
    int64_t seq; /* the length that the user gave */
} ls_plan_variants;

/*
 * Adds to a refusal what would fit: "--ranks 4 would fit, or --seq 112", the smallest change of the number of ranks or
 * of the sequence length. refusal is the LS_NO_MEMORY status of planning the request, and `refused` the plan that it
 * left. Other refusals are returned unchanged. Plans many variants, which takes seconds for large models; runs nothing.
 */
LS_MUST_USE ls_status ls_plan_advise(const ls_plan_variants *variants, const ls_plan_request *request,
                                     const ls_plan *refused, ls_status refusal);

/* --- host_file.c -------------------------------------------------------------------------------------------------- */

/*
 * This machine's rates (program/cost.h): `longspan bench machine` measures them once and stores them in the user's
 * cache folder, $XDG_CACHE_HOME/longspan or ~/.cache/longspan: one file for each combination of processor, number of
 * cores and instruction set, and one for each model of GPU.
 */

/* The device whose rates are meant. A zeroed struct is the processor. */
typedef struct ls_host_of {
    const char *name; /* as for ls_device_open; borrowed; NULL: cpu */
    ls_kernel_device device;
    ls_device_facts facts; /* of the device; model "": unknown, because no driver gives it, and there is no file */
    ls_isa isa;            /* instruction set of the processor's kernels */
} ls_host_of;

/*
 * Finds what computes on a device of that name (ls_device_open). LS_INVALID, LS_UNSUPPORTED: there is no such device.
 */
LS_MUST_USE ls_status ls_host_find(const char *device, ls_isa isa, ls_host_of *out);
/*
 * The same for a plan, which may be made on a machine without a GPU. If the device cannot be described, one log line
 * says why, and its rates are nominal. LS_INVALID: there is no such device.
 */
LS_MUST_USE ls_status ls_host_assume(const char *device, ls_isa isa, ls_host_of *out);

/*
 * Rates of kernels that serve the same calls (ls_kernel_find_rows). Each is measured by itself, on one call of each
 * contract and type that is large enough to fill the device, so that the choice between them can follow from it.
 */
typedef struct ls_row_rate {
    ls_kernel_id id;
    ls_dtype dtype;
    char row[16]; /* ls_kernel_row */
    double flops; /* flops per second */
} ls_row_rate;

/* Of at most LS_KERNEL_CHOICES contracts and types; those of one are consecutive. */
enum { LS_ROW_RATES = 32 };
typedef struct ls_row_rates {
    int n;
    ls_row_rate rate[LS_ROW_RATES];
} ls_row_rates;

/* Flops per second of a row; 0: not measured. */
double ls_row_rate_of(const ls_row_rates *rows, const ls_kernel *kernel);

/* The fastest row of each contract and type for which several rows were measured (measure_rows.c). */
ls_kernel_choices ls_row_choices(const ls_host_of *of, const ls_row_rates *rows);

/* The path of the file, which need not exist. LS_IO if the user has no home folder. */
LS_MUST_USE ls_status ls_host_path(const ls_host_of *of, char **out);

/* Writes the rates, and those of rows for a device that has rows, as members of an open object. */
void ls_host_put(const ls_host *host, const ls_row_rates *rows, ls_json_writer *writer);

/* Writes the file, and creates its folder if it is missing. */
LS_MUST_USE ls_status ls_host_save(const ls_host_of *of, const ls_host *host, const ls_row_rates *rows);

/*
 * *out becomes the measured rates if there is a file with them, otherwise the nominal ones; *rows (NULL: not wanted)
 * becomes those of the file, or empty. Returns whether they were measured. A file that is not valid, or was written by
 * another version, is ignored, and one log line says why.
 */
bool ls_host_load(const ls_host_of *of, ls_host *out, ls_row_rates *rows);

/*
 * Measures, on all cores at once: attention, its gradient and a matrix product of each type; kernels that are bound by
 * memory, in a cache and from memory; and puts between ranks. For a GPU: the same on one GPU, copies between GPUs and
 * to the host, and each row of kernels. Takes half a minute; the machine should be idle. Prints nothing. Initialises
 * the device's driver, so that this process cannot fork ranks that use it afterwards. LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_host_measure(const ls_host_of *of, ls_host *out, ls_row_rates *rows);

/* --- timed_call.c ------------------------------------------------------------------------------------------------- */

/*
 * Times a single kernel on data of its own. All measurements of one kernel are made in this way, on every device:
 *
 *     ls_timed_place place;
 *     ls_timed_call timed;
 *     double seconds;
 *     LS_TRY(ls_timed_place_open(&of, pool, &place));
 *     LS_TRY(ls_timed_call_open(&place, LS_KERNEL_MATMUL, LS_BF16, &call, &timed));
 *     LS_TRY(ls_timed_call_run(&timed, &seconds));     any number of times; caches are cold in the first run
 *     ls_timed_call_close(&timed);
 *     ls_timed_place_close(&place);
 *
 * On a device that executes launches immediately, a run is one launch. On other devices it is as many launches as take
 * a few milliseconds together. They are held until the last one has been launched, so that the device executes one
 * after the other without waiting for the host; the time of a hold alone is subtracted. The result is therefore the
 * device's time, with an error below one percent.
 */

/* A device on which calls are timed. Must not be moved while calls are open. */
typedef struct ls_timed_place {
    ls_host_of of;
    const ls_kernel_choices *kernels; /* borrowed; NULL: in the order of the registry */
    ls_pool *pool;                    /* for the processor; borrowed; NULL: only this thread, or a GPU */
    ls_device *device;
    uint64_t launched; /* number of the last launch on its queue */
} ls_timed_place;

/*
 * unit: of several devices of that name, the one that a rank with this number on its machine would get. The pool is
 * borrowed. LS_NO_MEMORY, LS_UNSUPPORTED, LS_FAULT.
 */
LS_MUST_USE ls_status ls_timed_place_open(const ls_host_of *of, int unit, ls_pool *pool, ls_timed_place *out);
void ls_timed_place_close(ls_timed_place *place); /* all calls must be closed */
/* The number of multiprocessors of a GPU; 0 for a processor. */
int ls_timed_place_width(const ls_timed_place *place);

typedef struct ls_timed_call {
    ls_timed_place *place; /* borrowed */
    const ls_kernel *kernel;
    ls_kernel_call call; /* its operands have addresses of the device */
    void *state;         /* state of the kernel */
    const ls_device_arena *arena;
    int launches;                   /* launches in a run; 0: not known yet */
    ls_device_recording *recording; /* for ls_timed_call_stream; NULL: none yet */
    uint64_t recorded_at;           /* number of the last launch on the queue before the recording */
} ls_timed_call;

/*
 * Uses the operands and the parameters of `call`. The operands get memory of the device, like that of a rank's arenas,
 * with all pages touched: operands with data get a copy of it, others get numbers in (-1, 1) if they are of a
 * floating-point type, otherwise zeros. What the parameters point to is borrowed. LS_NO_MEMORY, LS_UNSUPPORTED,
 * LS_FAULT.
 */
/* Uses the best kernel that fits. If its library has no way to compute the call, uses the next one. */
LS_MUST_USE ls_status ls_timed_call_open(ls_timed_place *place, ls_kernel_id id, ls_dtype dtype,
                                         const ls_kernel_call *call, ls_timed_call *out);
/* The same for a given kernel, which must support the call on that device. */
LS_MUST_USE ls_status ls_timed_kernel_open(ls_timed_place *place, const ls_kernel *kernel, const ls_kernel_call *call,
                                           ls_timed_call *out);
/* *seconds: time of one launch. LS_FAULT. */
LS_MUST_USE ls_status ls_timed_call_run(ls_timed_call *timed, double *seconds);
/*
 * The same while the host launches continuously, as it launches programs: recorded if the device supports it. *seconds:
 * the longer of the times that the host and the device need for one launch. If the call is recorded, it must stay at
 * its address until the place is closed.
 */
LS_MUST_USE ls_status ls_timed_call_stream(ls_timed_call *timed, double *seconds);
void ls_timed_call_close(ls_timed_call *timed);

/*
 * The same call on everything that computes concurrently. On a processor: on every thread of the place's pool at once,
 * each with data of its own, like ranks of one thread each, which compete for caches, memory and electric power, as
 * they do in a step. On a GPU: a single call.
 */
typedef struct ls_timed_calls {
    ls_timed_place *places; /* places of the threads; NULL: the call uses the caller's place */
    ls_timed_call *call;
    double *seconds; /* seconds of each call */
    ls_status *status;
    int n;
    ls_pool *pool;
} ls_timed_calls;

/* Opens fewer calls than threads if memory is short. */
LS_MUST_USE ls_status ls_timed_calls_open(ls_timed_place *place, ls_kernel_id id, ls_dtype dtype,
                                          const ls_kernel_call *call, ls_timed_calls *out);
/* Runs all calls, which begin at the same time. *seconds: the mean of their times. */
LS_MUST_USE ls_status ls_timed_calls_run(const ls_timed_calls *calls, double *seconds);
void ls_timed_calls_close(ls_timed_calls *calls);

/* --- device_pair.c ------------------------------------------------------------------------------------------------ */

/*
 * Two ranks of a device that has messages, both played by this thread. The messages between them are timed: trips are
 * launched one after the other, and held until the last one has been launched, as in ls_timed_call_run.
 */
typedef struct ls_device_pair ls_device_pair;

typedef enum ls_pair_trip {
    /* a put with a signal, and the same back: twice the time from a put to the end of the wait for it */
    LS_TRIP_ANSWERED,
    LS_TRIP_PUT,     /* puts with a signal, for which the peer waits */
    LS_TRIP_COPY,    /* the same copy within a rank's own memory, with one of its own words; nobody waits */
    LS_TRIP_TO_HOST, /* such a copy to pinned memory of the host */
    LS_TRIP_FROM_HOST,
} ls_pair_trip;

/*
 * units: those of the two ranks, as for ls_timed_place_open. most: the largest bytes of a trip. LS_UNSUPPORTED: the
 * device has no messages, or the two cannot reach each other.
 */
LS_MUST_USE ls_status ls_device_pair_open(const ls_host_of *of, const int units[2], size_t most, ls_device_pair **out);
/*
 * *seconds: time of one trip; bytes 0: only words are set. The first call with another number of bytes or another trip
 * is slower. LS_FAULT.
 */
LS_MUST_USE ls_status ls_device_pair_time(ls_device_pair *pair, ls_pair_trip trip, size_t bytes, double *seconds);
void ls_device_pair_close(ls_device_pair *pair); /* NULL is allowed */

/* --- timed_attention.c -------------------------------------------------------------------------------------------- */

/* One sequence of S tokens with Hq query heads, which share Hkv KV heads; keys have size D, values have size E. */
typedef struct ls_attention_shape {
    int64_t S, Hq, Hkv, D, E;
} ls_attention_shape;

/*
 * A call of "attention" (LS_FORWARD) or "attention_grad" (LS_BACKWARD) with the operands that a single rank would pass
 * to it, for timing as above. Operands have no data, except for the positions and the table of visible keys, which lie
 * in the arena.
 */
ls_kernel_call ls_attention_call_make(ls_arena *arena, ls_dtype T, int direction, const ls_attention_shape *shape,
                                      const ls_mask *mask);

/* A call of "attention_delta", which the gradient needs. */
ls_kernel_call ls_attention_delta_call(ls_dtype T, const ls_attention_shape *shape);

/* The number of pairs of a query and a key that it sees, over all query heads, from the table of the call. */
double ls_attention_call_pairs(const ls_kernel_call *call);

#endif
