/* Shared by the files of plan: the cost of one candidate, what it must save, and the measurements of this machine. */
#ifndef LS_PLAN_IMPL_H
#define LS_PLAN_IMPL_H

#include "plan/plan.h"

/*
 * Sets bytes, imbalance, seconds, instrs and least of the candidate. together: simulates the programs of all ranks, and
 * sets `waiting` too. Otherwise uses the programs of the first, the middle and the last rank, and seconds is the time
 * of the slowest of them without any waiting, which is never more than the simulated time. A refusal of the compiler is
 * returned, and written into `refused`.
 */
LS_MUST_USE ls_status ls_plan_cost(const ls_job *job, const ls_target *target, const ls_plan_request *request,
                                   bool together, ls_plan_candidate *candidate);

/* Results for one candidate that make costing the next one faster, without changing its outcome. */
enum { LS_PLAN_WAYS = 8 };
typedef struct ls_plan_found {
    /*
     * By mode, way to fit and tiles: with `high` recomputed results the rank fitted, with `low` it did not (-1: none).
     * Both 0: unknown.
     */
    struct ls_plan_drop {
        int low, high;
    } drop[LS_SHARD_MODES][LS_PLAN_WAYS][LS_TILE_ALL + 1];
    /*
     * By mode: ls_plan_least without stages. It is the same for all meshes with equally many ranks along axes of
     * features.
     */
    struct {
        int features; /* 0: unknown */
        size_t bytes;
    } least[LS_SHARD_MODES];
} ls_plan_found;

/*
 * Bytes of the image (memory.c), in memory where the device computes, that neither recompute nor tiles nor offload
 * reduce: parameters, sums of gradients, and the optimiser's state unless that may be kept in memory of the host.
 */
size_t ls_plan_least(const ls_plan_request *request, const ls_image *image);
/* What is known so far for a mode on a mesh; 0: nothing. */
size_t ls_plan_found_least(const ls_plan_found *found, const ls_mesh *mesh, int mode);
void ls_plan_note_least(ls_plan_found *found, const ls_mesh *mesh, int mode, size_t least);

/*
 * Chooses what a candidate cuts over the ranks, and what it saves, to fit into the memory of the request; costs it by a
 * few of its ranks. best: seconds of a candidate that fits. A candidate that cannot fit, by ls_plan_least, is costed
 * without savings, and marked `unsought`. A refusal is returned, and written into the candidate (candidate.c).
 */
LS_MUST_USE ls_status ls_plan_cost_candidate(const ls_job *job, const ls_plan_request *request, double best,
                                             ls_plan_found *found, ls_plan_candidate *candidate);
/* Called if nothing fits: finds the savings with which an unsought candidate needs the fewest bytes. */
LS_MUST_USE ls_status ls_plan_seek_fewest(const ls_job *job, const ls_plan_request *request, ls_plan_found *found,
                                          ls_plan_candidate *candidate);
/* Costs the candidate again with the same cuts, by the programs of all ranks. */
LS_MUST_USE ls_status ls_plan_simulate_candidate(const ls_job *job, const ls_plan_request *request,
                                                 ls_plan_found *found, ls_plan_candidate *candidate);

/* Whether the strategies that the request names are among those for the mesh, or cannot be read (strategies.c). */
bool ls_plan_strategy_suits(const ls_plan_request *request, const ls_mesh *mesh);
/*
 * The strategies to try on a mesh. If the request leaves that of attention free, they are the same for all attention.
 * LS_USAGE: the request names an unknown strategy, or one for layers that the graph does not have.
 */
LS_MUST_USE ls_status ls_plan_strategies(const ls_plan_request *request, const ls_graph *g, const ls_mesh *mesh,
                                         ls_strategies out[LS_STRATEGIES_MOST], int *n);
/*
 * Strategies that differ from the candidate's for one kind of layers and are free in the request. The steps 0 ..
 * LS_PLAN_STEPS - 1 are attention with a window, attention without, linear recurrences, and recurrent cells.
 */
enum { LS_PLAN_STEPS = 4 };
LS_MUST_USE ls_status ls_plan_other_strategies(const ls_plan_request *request, const ls_graph *g,
                                               const ls_plan_candidate *best, int step,
                                               ls_strategies out[LS_STRATEGIES_MOST], int *n);

/*
 * Candidates with stages or, if the request gives stages, with other schedules. They are made from the best candidate
 * without stages and from its target, and must be costed (stages.c). The list lies in the arena. LS_INVALID and so on:
 * errors of the compiler.
 */
typedef struct ls_staged {
    ls_plan_candidate *list;
    int n;
    size_t capacity;
} ls_staged;
LS_MUST_USE ls_status ls_plan_stages(const ls_job *job, const ls_plan_request *request, const ls_plan_candidate *best,
                                     const ls_target *target, ls_arena *arena, ls_staged *out);

/*
 * Sets target->saving. The request fixes a part of it. Of the rest, chooses the smallest or the fastest saving with
 * which rank 0 fits into `allowed` bytes (0: no limit); with request->only_fit, any saving with which it fits. If
 * nothing fits, chooses the saving that needs the fewest bytes, and *lacking becomes these bytes; otherwise 0. The
 * status is the compiler's.
 */
LS_MUST_USE ls_status ls_plan_saving(const ls_job *job, const ls_plan_request *request, int64_t allowed,
                                     ls_plan_found *found, ls_target *target, size_t *lacking);

/* --- queues of timed calls (timed_call.c) ------------------------------------------------------------------------- */

/* About this many seconds are timed at once, in at most this many launches. */
#define LS_TIMED_SECONDS 2e-3
enum { LS_TIMED_LAUNCHES = 64 };

/* Launches on the place's queue, after earlier launches; sets event and order. */
LS_MUST_USE ls_status ls_timed_place_launch(ls_timed_place *place, ls_device_work work);
/* Holds the queue if the device supports it. *hold: for ls_timed_place_release. */
LS_MUST_USE ls_status ls_timed_place_hold(ls_timed_place *place, ls_event *hold);
LS_MUST_USE ls_status ls_timed_place_release(ls_timed_place *place, ls_event hold);
/* Waits until everything has been executed. It does not sleep, because sleeping would count in the measured time. */
LS_MUST_USE ls_status ls_timed_place_await(const ls_timed_place *place);
/* Waits until the launch of that number, and all before it, have been executed. */
LS_MUST_USE ls_status ls_timed_place_await_launch(const ls_timed_place *place, uint64_t number);
/* Whether a fitting kernel could not be opened, because its library has no way to compute the call. */
bool ls_timed_kernel_refused(ls_status status);
/* The number of launches in a run, from the seconds of one launch. */
int ls_timed_launches(double seconds);

/* --- measurements of this machine (measure.c and measure_*.c) ----------------------------------------------------- */

/* Runs of each call in one pass over all measurements; the median is used. */
enum { LS_MEASURED_RUNS = 3 };

/*
 * *seconds becomes the time of a call that runs on everything that computes concurrently (ls_timed_calls). The first
 * run is not counted. LS_NO_MEMORY, LS_UNSUPPORTED, LS_FAULT; also for the functions below.
 */
LS_MUST_USE ls_status ls_measure_call(ls_timed_place *place, ls_kernel_id id, ls_dtype dtype,
                                      const ls_kernel_call *call, double *seconds);

/* x [m, n] by w [n, n], transposed. */
ls_kernel_call ls_product_call(ls_dtype T, int64_t m, int64_t n);
/* The side of matrices of a type that a device multiplies at its best rate. */
int64_t ls_product_side(const ls_timed_place *place, ls_dtype T);

/* The long causal call with which attention is measured, with heads of size D. It has enough work to fill a GPU. */
ls_attention_shape ls_long_attention(const ls_timed_place *place, ls_dtype T, int64_t D);

/* Measures the cost of attention for a type, forward and backward, with heads of size 32 to 128. */
LS_MUST_USE ls_status ls_measure_attention(ls_arena *arena, ls_timed_place *place, ls_dtype T,
                                           ls_attention_cost out[LS_DIRECTIONS]);

/* Measures the flops per second of a linear recurrence, forward and backward. */
LS_MUST_USE ls_status ls_measure_recurrence(ls_timed_place *place, ls_dtype T, double out[LS_DIRECTIONS]);

/*
 * Measures the costs per byte of the kernels that have a sample. cache: bytes of a core's share of the cache; overhead:
 * seconds of a call that do not depend on its bytes.
 */
LS_MUST_USE ls_status ls_measure_streams(ls_arena *arena, ls_timed_place *place, ls_dtype T, double cache,
                                         double overhead, ls_byte_cost out[LS_KERNEL_IDS]);

/* Measures puts and signals between ranks, one on each core: sets out->put and out->latency. */
LS_MUST_USE ls_status ls_measure_puts(double cache, ls_host *out);
/*
 * The same between two ranks of a device that has messages, on one GPU, with the cache size that *out gives; puts to
 * another GPU if there is one (out->peer); and copies of the device to and from pinned memory of the host.
 */
LS_MUST_USE ls_status ls_measure_links(const ls_host_of *of, ls_host *out);

/* Measures attention, its gradient and products with each of the rows that support them. */
LS_MUST_USE ls_status ls_measure_rows(ls_arena *arena, ls_timed_place *place, ls_row_rates *out);

#endif
