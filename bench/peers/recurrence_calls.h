/*
 * Calls of the kernels of the linear recurrence on the layers that bench/recurrence.c and peers/recurrence.c measure,
 * and what peers/cells.c shares with them.
 */
#ifndef BENCH_PEERS_RECURRENCE_CALLS_H
#define BENCH_PEERS_RECURRENCE_CALLS_H

#include "kernel/kernel.h"

/* Heads of keys and of values, and their sizes. */
typedef struct recurrence_layer {
    const char *name;
    int64_t K, H, D, E;
    bool delta;
} recurrence_layer;

/* The gated delta rule of Qwen3.5-9B; Mamba-2's state space, all heads with one key. `name`: gdn, ssd; NULL: neither.
 */
const recurrence_layer *recurrence_layer_named(const char *name);

/*
 * One sequence of S tokens: arrays in huge pages, as ranks have them, filled with the numbers of serve.h. o has also
 * the place of dv. front: the state in front, zeros; state, dstate: what calls carry.
 */
typedef struct recurrence_arrays {
    ls_view q, k, v, decay, beta, places, grad_o, front, state, dstate, o, dq, dk, ddecay, dbeta, map;
} recurrence_arrays;
LS_MUST_USE ls_status recurrence_arrays_make(const recurrence_layer *layer, ls_dtype dtype, int64_t S,
                                             recurrence_arrays *out);
void recurrence_arrays_free(recurrence_arrays *arrays);

/* A kernel, prepared, with its workspace. */
typedef struct recurrence_call {
    const ls_kernel *kernel;
    ls_kernel_call call;
    void *state;
    size_t workspace;
} recurrence_call;
LS_MUST_USE ls_status recurrence_call_make(ls_kernel_id id, ls_isa isa, const ls_kernel_call *call,
                                           recurrence_call *out);
void recurrence_call_free(recurrence_call *call);

/* Calls without params, threads and workspace. */
ls_kernel_call recurrence_forward(const recurrence_arrays *a);
ls_kernel_call recurrence_gradient(const recurrence_arrays *a);

/* Memory in huge pages, of zeros; NULL: there is none. */
void *recurrence_memory(size_t bytes);

/* How an array is filled: scale times a number of serve.h, plus shift; scale 0: zeros. */
typedef struct recurrence_numbers {
    float scale, shift;
} recurrence_numbers;
recurrence_numbers recurrence_deviation(float deviation); /* about 0 */
/* A dense array in such memory, which the caller frees. */
LS_MUST_USE ls_status recurrence_array_make(ls_dtype dtype, int ndim, const int64_t *size, uint32_t seed,
                                            recurrence_numbers how, ls_view *out);

#endif
