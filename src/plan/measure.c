/*
 * What one core of this machine does: each kernel by itself on data of its own, and puts between two ranks. Of several runs the
 * fastest counts: whatever else happens on a machine only makes runs slower.
 */
#include "plan/host_file.h"

#include "plan/measure_impl.h"
#include "run/launch.h"

#include <math.h>
#include <string.h>

static double least(const double *values, int n) {
    double best = values[0];
    for (int i = 1; i < n; i++) best = fmin(best, values[i]);
    return best;
}

/* --- kernels --------------------------------------------------------------------------------------------------------------- */

/* Seconds of a call on this thread; the first run is not counted. */
static ls_status time_call(const char *name, ls_dtype dtype, ls_isa isa, const ls_kernel_call *call,
                           double *seconds) {
    ls_timed_call timed;
    double times[LS_MEASURED_RUNS];
    LS_TRY(ls_timed_call_open(name, dtype, isa, NULL, call, &timed));
    (void)ls_timed_call_run(&timed);
    for (int i = 0; i < LS_MEASURED_RUNS; i++) times[i] = ls_timed_call_run(&timed);
    ls_timed_call_close(&timed);
    *seconds = least(times, LS_MEASURED_RUNS);
    return ls_ok();
}

static ls_status measure_matmul(ls_dtype T, ls_isa isa, int64_t n, ls_core_rates *rates) {
    const int64_t size[] = {n, n};
    const ls_matmul_params params = {.transpose_b = true};
    ls_kernel_call call = {.n_in = 2,
                           .in = {ls_view_dense(NULL, T, 2, size), ls_view_dense(NULL, T, 2, size)},
                           .n_out = 1,
                           .out = {ls_view_dense(NULL, T, 2, size)},
                           .params = &params};
    double seconds;
    LS_TRY(time_call("matmul", T, isa, &call, &seconds));
    rates->matmul = 2 * (double)n * (double)n * (double)n / seconds;
    return ls_ok();
}

/* Two sums: one larger than all caches, one of nothing to speak of. */
static ls_status measure_memory(ls_isa isa, ls_host *out) {
    const int64_t n[] = {16 << 20, 16};
    double seconds[LS_COUNT(n)];
    for (size_t i = 0; i < LS_COUNT(n); i++) {
        ls_kernel_call call = {
            .n_in = 2,
            .in = {ls_view_dense(NULL, LS_F32, 1, &n[i]), ls_view_dense(NULL, LS_F32, 1, &n[i])},
            .n_out = 1,
            .out = {ls_view_dense(NULL, LS_F32, 1, &n[i])}};
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
    double small[LS_MEASURED_RUNS], large[LS_MEASURED_RUNS];
    uint64_t generation = 0;
    memset(ls_comm_heap(comm), 1, 2 * (size_t)BLOCK); /* placed by its owner, and no page fault later */
    for (int i = 0; i < LS_MEASURED_RUNS; i++) {
        LS_TRY(trips(comm, 8, 16 * TRIPS, &generation, &small[i]));
        LS_TRY(trips(comm, BLOCK, TRIPS, &generation, &large[i]));
        ls_comm_tick(comm);
    }
    if (ls_comm_rank(comm) != 0) return ls_ok();
    out->latency = least(small, LS_MEASURED_RUNS) / 2;
    out->bandwidth = BLOCK / fmax(least(large, LS_MEASURED_RUNS) - 2 * out->latency, 1e-9);
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
        LS_TRY(ls_measure_attention(arena, sizes[i].type, isa, sizes[i].tokens, rates->attention));
        LS_TRY(measure_matmul(sizes[i].type, isa, sizes[i].side, rates));
    }
    LS_TRY(measure_memory(isa, out));
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
