/*
 * What one core of this machine does: each kernel by itself on data of its own, and puts between two ranks. Of several runs the
 * fastest counts: whatever else happens on a machine only makes runs slower.
 */
#include "plan/host_file.h"

#include "plan/timed_call.h"
#include "run/launch.h"

#include <math.h>
#include <string.h>

enum { RUNS = 7 };

static double least(const double *values, int n) {
    double best = values[0];
    for (int i = 1; i < n; i++) best = fmin(best, values[i]);
    return best;
}

/* --- kernels --------------------------------------------------------------------------------------------------------------- */

static ls_view new_view(ls_arena *arena, ls_dtype dtype, int ndim, const int64_t *size) {
    ls_view view = ls_view_dense(NULL, dtype, ndim, size);
    view.data = ls_arena_alloc(arena, ls_view_bytes(&view));
    if (dtype != LS_I32) ls_view_scribble(&view, 1);
    return view;
}

/* Seconds of a call on this thread; the first run is not counted. */
static ls_status time_call(const char *name, ls_dtype dtype, ls_isa isa, const ls_kernel_call *call,
                           double *seconds) {
    ls_timed_call timed;
    double times[RUNS];
    LS_TRY(ls_timed_call_open(name, dtype, isa, NULL, call, &timed));
    (void)ls_timed_call_run(&timed);
    for (int i = 0; i < RUNS; i++) times[i] = ls_timed_call_run(&timed);
    ls_timed_call_close(&timed);
    *seconds = least(times, RUNS);
    return ls_ok();
}

enum { FORWARD, BACKWARD, PASSES };

/* Seconds of a (query, key) pair of a causal problem of S tokens, 4 query heads of D that share 2 KV heads. */
static ls_status time_pair(ls_arena *arena, ls_dtype T, ls_isa isa, int64_t S, int64_t D,
                           double out[PASSES]) {
    enum { HQ = 4, HKV = 2 };
    const ls_dtype G = ls_dtype_accumulator(T);
    const int64_t q[] = {1, S, HQ, D}, kv[] = {1, S, HKV, D}, rows[] = {1, HQ, S}, spans[] = {1, S, 2};
    const ls_view span = new_view(arena, LS_I32, 3, spans), at = new_view(arena, LS_I32, 1, &S);
    const ls_mask mask = ls_mask_causal();
    for (int64_t i = 0; i < S; i++) ((int32_t *)at.data)[i] = (int32_t)i;
    ls_mask_table(&mask, S, at.data, S, span.data);
    const ls_attention_params params = {.scale = 1 / sqrt((double)D), .group = HQ / HKV};
    const ls_view Q = new_view(arena, T, 4, q), K = new_view(arena, T, 4, kv), V = new_view(arena, T, 4, kv);
    const ls_view lse = new_view(arena, G, 3, rows);
    ls_kernel_call forward = {.n_in = 5,
                              .in = {Q, K, V, span, at},
                              .n_out = 2,
                              .out = {new_view(arena, G, 4, q), lse},
                              .params = &params};
    LS_TRY(time_call("attention", T, isa, &forward, &out[FORWARD]));
    ls_kernel_call backward = {
        .n_in = 8,
        .in = {Q, K, V, span, at, new_view(arena, T, 4, q), lse, new_view(arena, G, 3, rows)},
        .n_out = 3,
        .out = {new_view(arena, G, 4, q), new_view(arena, G, 4, kv), new_view(arena, G, 4, kv)},
        .params = &params};
    LS_TRY(time_call("attention_grad", T, isa, &backward, &out[BACKWARD]));
    for (int pass = 0; pass < PASSES; pass++) out[pass] /= (double)S * ((double)S + 1) / 2 * HQ;
    return ls_ok();
}

/* The line through two sizes of head; where noise makes it fall, all is put down to the flops of the larger. */
static void fit(double small_size, double small, double large_size, double large, double flops, double *rate,
                double *pairs) {
    const double slope = fmin((large - small) / (large_size - small_size), large / large_size);
    const double of_element = slope > 0 ? slope : large / large_size;
    *rate = flops / of_element;
    *pairs = 1 / fmax(large - of_element * large_size, 1e-18);
}

static ls_status measure_attention(ls_arena *arena, ls_dtype T, ls_isa isa, int64_t S, ls_core_rates *rates) {
    enum { SMALL = 64, LARGE = 128 };
    double small[PASSES], large[PASSES];
    LS_TRY(time_pair(arena, T, isa, S, SMALL, small));
    LS_TRY(time_pair(arena, T, isa, S, LARGE, large));
    fit(SMALL, small[FORWARD], LARGE, large[FORWARD], 4, &rates->attention, &rates->pairs);
    fit(SMALL, small[BACKWARD], LARGE, large[BACKWARD], 10, &rates->attention_grad, &rates->pairs_grad);
    return ls_ok();
}

static ls_status measure_matmul(ls_arena *arena, ls_dtype T, ls_isa isa, int64_t n, ls_core_rates *rates) {
    const int64_t size[] = {n, n};
    const ls_matmul_params params = {.transpose_b = true};
    ls_kernel_call call = {.n_in = 2,
                           .in = {new_view(arena, T, 2, size), new_view(arena, T, 2, size)},
                           .n_out = 1,
                           .out = {new_view(arena, T, 2, size)},
                           .params = &params};
    double seconds;
    LS_TRY(time_call("matmul", T, isa, &call, &seconds));
    rates->matmul = 2 * (double)n * (double)n * (double)n / seconds;
    return ls_ok();
}

/* Two sums: one larger than all caches, one of nothing to speak of. */
static ls_status measure_memory(ls_arena *arena, ls_isa isa, ls_host *out) {
    const int64_t n[] = {16 << 20, 16};
    double seconds[LS_COUNT(n)];
    for (size_t i = 0; i < LS_COUNT(n); i++) {
        ls_kernel_call call = {.n_in = 2,
                               .in = {new_view(arena, LS_F32, 1, &n[i]), new_view(arena, LS_F32, 1, &n[i])},
                               .n_out = 1,
                               .out = {new_view(arena, LS_F32, 1, &n[i])}};
        LS_TRY(time_call("add", LS_F32, isa, &call, &seconds[i]));
    }
    out->memory = 3.0 * (double)n[0] * sizeof(float) / seconds[0];
    out->overhead = fmax(seconds[1], 1e-9);
    return ls_ok();
}

/* --- puts ------------------------------------------------------------------------------------------------------------------ */

enum { BLOCK = 4 << 20, TRIPS = 64, WORD_DATA = 0, WORD_ANSWER = 1 };

/* Rank 0 writes it. */
typedef struct found {
    double bandwidth, latency;
} found;

/* `n` times there and back: bytes there, nothing back. *seconds: of one. */
static ls_status trips(ls_comm *comm, size_t bytes, int n, uint64_t *generation, double *seconds) {
    const bool asks = ls_comm_rank(comm) == 0;
    const ls_range range = ls_range_flat(0, bytes);
    const char *source = (const char *)ls_comm_heap(comm) + BLOCK;
    LS_TRY(ls_comm_barrier(comm));
    const double start = ls_seconds();
    for (int i = 0; i < n; i++) {
        ++*generation;
        if (asks) {
            ls_comm_put_signal(comm, 1, &range, source, &range, WORD_DATA, *generation);
            LS_TRY(ls_comm_wait(comm, WORD_ANSWER, *generation, 1, "answer"));
        } else {
            LS_TRY(ls_comm_wait(comm, WORD_DATA, *generation, 0, "question"));
            ls_comm_signal(comm, 0, WORD_ANSWER, *generation);
        }
    }
    *seconds = (ls_seconds() - start) / n;
    return ls_ok();
}

static ls_status measure_puts(ls_comm *comm, void *context) {
    found *out = context;
    double small[RUNS], large[RUNS];
    uint64_t generation = 0;
    memset(ls_comm_heap(comm), 1, 2 * (size_t)BLOCK); /* placed by its owner, and no page fault later */
    for (int i = 0; i < RUNS; i++) {
        LS_TRY(trips(comm, 8, 16 * TRIPS, &generation, &small[i]));
        LS_TRY(trips(comm, BLOCK, TRIPS, &generation, &large[i]));
        ls_comm_tick(comm);
    }
    if (ls_comm_rank(comm) != 0) return ls_ok();
    out->latency = least(small, RUNS) / 2;
    out->bandwidth = BLOCK / fmax(least(large, RUNS) - 2 * out->latency, 1e-9);
    return ls_ok();
}

static ls_status measure_network(ls_host *out) {
    ls_machine machine;
    ls_machine_detect(&machine);
    const ls_world_options options = {.ranks = 2,
                                      .heap_bytes = 2 * (size_t)BLOCK,
                                      .words = 2,
                                      .may_spin = machine.cores > 1,
                                      .wait_timeout = 30};
    found result = {0};
    ls_world *world;
    LS_TRY(ls_world_create("shm", &options, &world));
    /* Threads: rank 0 writes what it found into our memory. */
    const ls_status status = ls_launch(world, 2, true, measure_puts, &result);
    ls_world_destroy(world);
    out->bandwidth = result.bandwidth;
    out->latency = result.latency;
    return status;
}

static ls_status measure(ls_arena *arena, ls_isa isa, ls_host *out) {
    static const struct {
        ls_dtype type;
        int64_t tokens, side; /* of the attention, of the matrices: f64 has the reference kernels */
    } sizes[] = {{LS_F32, 2048, 768}, {LS_BF16, 2048, 768}, {LS_F64, 192, 128}};
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        ls_core_rates *rates = &out->type[sizes[i].type];
        LS_TRY(measure_attention(arena, sizes[i].type, isa, sizes[i].tokens, rates));
        LS_TRY(measure_matmul(arena, sizes[i].type, isa, sizes[i].side, rates));
    }
    LS_TRY(measure_memory(arena, isa, out));
    return measure_network(out);
}

ls_status ls_host_measure(ls_isa isa, ls_host *out) {
    ls_arena *arena = ls_arena_create();
    ls_host host = ls_host_nominal(isa);
    const ls_status status = measure(arena, isa, &host);
    ls_arena_destroy(arena);
    if (status.code == LS_OK) *out = host;
    return status;
}
