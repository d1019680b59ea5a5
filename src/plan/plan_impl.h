/* What the files of plan share: the cost of one candidate, what it must save, and the measurements of this machine. */
#ifndef LS_PLAN_IMPL_H
#define LS_PLAN_IMPL_H

#include "plan/plan.h"

/*
 * Fills in bytes, imbalance, seconds, instrs and least of the candidate. together: simulates the programs of all ranks,
 * and fills in `waiting` too. Otherwise takes the programs of the first, the middle and the last rank, and seconds is
 * the time of the slowest of them without any waiting, which is never more than the simulated time. A refusal of the
 * compiler is returned, and written into `refused`.
 */
LS_MUST_USE ls_status ls_plan_cost(const ls_job *job, const ls_target *target, const ls_plan_request *request,
                                   bool together, ls_plan_candidate *candidate);

/* What was found for a candidate, by which the next one is costed sooner, and comes to the same. */
enum { LS_PLAN_WAYS = 8 };
typedef struct ls_plan_found {
    /* By mode, way to fit and tiles: `high` results made again did fit, `low` did not (-1: none). Both 0: not known. */
    struct ls_plan_drop {
        int low, high;
    } drop[LS_SHARD_MODES][LS_PLAN_WAYS][LS_TILE_ALL + 1];
    /* By mode: ls_plan_least without stages, the same for all meshes with as many ranks along axes of features. */
    struct {
        int features; /* 0: not known */
        size_t bytes;
    } least[LS_SHARD_MODES];
} ls_plan_found;

/*
 * Bytes of the image (memory.c) that neither recompute nor tiles nor offload save where the device computes:
 * parameters, sums of gradients, and the optimiser's state unless that may wait in memory of the host.
 */
size_t ls_plan_least(const ls_plan_request *request, const ls_image *image);
/* What is known of a mode on a mesh by now; 0: nothing. */
size_t ls_plan_found_least(const ls_plan_found *found, const ls_mesh *mesh, int mode);
void ls_plan_note_least(ls_plan_found *found, const ls_mesh *mesh, int mode, size_t least);

/*
 * Chooses what a candidate cuts over the ranks and what it saves to fit into the memory of the request, where one that
 * fits takes `best` seconds, and costs it by a few of its ranks. One that cannot fit, by ls_plan_least, is costed as it
 * is, and `unsought`. A refusal is returned, and written into the candidate (candidate.c).
 */
LS_MUST_USE ls_status ls_plan_cost_candidate(const ls_job *job, const ls_plan_request *request, double best,
                                             ls_plan_found *found, ls_plan_candidate *candidate);
/* Finds with how few bytes an unsought candidate can do, where nothing fits. */
LS_MUST_USE ls_status ls_plan_seek_fewest(const ls_job *job, const ls_plan_request *request, ls_plan_found *found,
                                          ls_plan_candidate *candidate);
/* Costs it anew, as it is cut, by the programs of all ranks. */
LS_MUST_USE ls_status ls_plan_simulate_candidate(const ls_job *job, const ls_plan_request *request,
                                                 ls_plan_found *found, ls_plan_candidate *candidate);

/* Whether the strategies that the request names are among those for the mesh, or cannot be read (strategies.c). */
bool ls_plan_strategy_suits(const ls_plan_request *request, const ls_mesh *mesh);
/*
 * The strategies to try on a mesh: where the request leaves attention's free, one for all attention. LS_USAGE: the
 * request names what is not known, or what the graph does not have.
 */
LS_MUST_USE ls_status ls_plan_strategies(const ls_plan_request *request, const ls_graph *g, const ls_mesh *mesh,
                                         ls_strategies out[LS_STRATEGIES_MOST], int *n);
/*
 * Strategies that differ from the candidate's for one kind of layers, and are free in the request: in the steps 0 ..
 * LS_PLAN_STEPS - 1 attention with a window, attention without, linear recurrences, recurrent cells.
 */
enum { LS_PLAN_STEPS = 4 };
LS_MUST_USE ls_status ls_plan_other_strategies(const ls_plan_request *request, const ls_graph *g,
                                               const ls_plan_candidate *best, int step,
                                               ls_strategies out[LS_STRATEGIES_MOST], int *n);

/*
 * Candidates with stages, or with other schedules where the request gives stages, to be costed: made from the best
 * candidate without, and its target (stages.c). The list lies in the arena. LS_INVALID and so on: errors of the
 * compiler.
 */
typedef struct ls_staged {
    ls_plan_candidate *list;
    int n;
    size_t capacity;
} ls_staged;
LS_MUST_USE ls_status ls_plan_stages(const ls_job *job, const ls_plan_request *request, const ls_plan_candidate *best,
                                     const ls_target *target, ls_arena *arena, ls_staged *out);

/*
 * Fills in target->saving: what the request fixes, and of what it leaves free the least, or what is fastest, with which
 * rank 0 fits into `allowed` bytes (0: no limit); with request->only_fit, any with which it fits. If nothing fits, it
 * is the saving that needs fewest bytes, and *lacking becomes these bytes; else 0. The status is the compiler's.
 */
LS_MUST_USE ls_status ls_plan_saving(const ls_job *job, const ls_plan_request *request, int64_t allowed,
                                     ls_plan_found *found, ls_target *target, size_t *lacking);

/* --- queues of what is timed (timed_call.c) ----------------------------------------------------------------------- */

/* About so many seconds are timed at once, by at most so many launches. */
#define LS_TIMED_SECONDS 2e-3
enum { LS_TIMED_LAUNCHES = 64 };

/* Launches on the place's queue, behind what is there; event and order are filled in. */
LS_MUST_USE ls_status ls_timed_place_launch(ls_timed_place *place, ls_device_work work);
/* Holds the queue, where the device can. *hold: for ls_timed_place_release. */
LS_MUST_USE ls_status ls_timed_place_hold(ls_timed_place *place, ls_event *hold);
LS_MUST_USE ls_status ls_timed_place_release(ls_timed_place *place, ls_event hold);
/* Until everything has been executed. Does not sleep, for that would be part of the time. */
LS_MUST_USE ls_status ls_timed_place_await(const ls_timed_place *place);
/* Until the launch of that number, and all before it, have been executed. */
LS_MUST_USE ls_status ls_timed_place_await_launch(const ls_timed_place *place, uint64_t number);
/* Whether a kernel that fits could not be opened, as a library may have no way to compute a call. */
bool ls_timed_kernel_refused(ls_status status);
/* The launches of a run, by the seconds of one. */
int ls_timed_launches(double seconds);

/* --- measurements of this machine (measure.c and measure_*.c) ----------------------------------------------------- */

/* Runs of each call in one pass over all measurements; the median counts. */
enum { LS_MEASURED_RUNS = 3 };

/*
 * *seconds becomes the time of a call that runs on all that computes side by side (ls_timed_calls). The first run is
 * not counted. LS_NO_MEMORY, LS_UNSUPPORTED, LS_FAULT; so with all that follow.
 */
LS_MUST_USE ls_status ls_measure_call(ls_timed_place *place, ls_kernel_id id, ls_dtype dtype,
                                      const ls_kernel_call *call, double *seconds);

/* x [m, n] by w [n, n], transposed. */
ls_kernel_call ls_product_call(ls_dtype T, int64_t m, int64_t n);
/* The side of matrices that a device multiplies at its best rate, of a type. */
int64_t ls_product_side(const ls_timed_place *place, ls_dtype T);

/* The long causal call by which attention is measured, with heads of size D: enough work to fill a GPU. */
ls_attention_shape ls_long_attention(const ls_timed_place *place, ls_dtype T, int64_t D);

/* Measures what attention of a type costs, forward and backward, with heads of size 32 to 128. */
LS_MUST_USE ls_status ls_measure_attention(ls_arena *arena, ls_timed_place *place, ls_dtype T,
                                           ls_attention_cost out[LS_DIRECTIONS]);

/* Measures the flops per second of a linear recurrence, forward and backward. */
LS_MUST_USE ls_status ls_measure_recurrence(ls_timed_place *place, ls_dtype T, double out[LS_DIRECTIONS]);

/*
 * Measures the costs by bytes of the kernels with a sample. cache: bytes of a core's share; overhead: seconds of a call
 * that are not of its bytes.
 */
LS_MUST_USE ls_status ls_measure_streams(ls_arena *arena, ls_timed_place *place, ls_dtype T, double cache,
                                         double overhead, ls_byte_cost out[LS_KERNEL_IDS]);

/* Measures puts and signals between ranks, one on each core: fills in out->put and out->latency. */
LS_MUST_USE ls_status ls_measure_puts(double cache, ls_host *out);
/*
 * The same between two ranks of a device that has messages, on one GPU, with as large a cache as *out says; puts to
 * another one where there is one (out->peer); and its copies to and from pinned memory of the host.
 */
LS_MUST_USE ls_status ls_measure_links(const ls_host_of *of, ls_host *out);

/* Measures attention, its gradient and products by each of the rows that support them. */
LS_MUST_USE ls_status ls_measure_rows(ls_arena *arena, ls_timed_place *place, ls_row_rates *out);

#endif
