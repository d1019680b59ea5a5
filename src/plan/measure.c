/*
 * Measures the rates of this machine: what one core does while all others do the same, as in a step. Each kernel runs
 * by itself, on every core at once, with data of its own for each core.
 */
#include "plan/plan_impl.h"

#include <math.h>
#include <string.h>

ls_status ls_measure_call(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool, const ls_kernel_call *call,
                          double *seconds) {
    ls_timed_calls timed;
    double times[LS_MEASURED_RUNS];
    LS_TRY(ls_timed_calls_open(id, dtype, isa, pool, call, &timed));
    (void)ls_timed_calls_run(&timed);
    for (int i = 0; i < LS_MEASURED_RUNS; i++) times[i] = ls_timed_calls_run(&timed);
    ls_timed_calls_close(&timed);
    *seconds = ls_median(times, LS_MEASURED_RUNS);
    return ls_ok();
}

/* x [m, n] by w [n, n], transposed. */
static ls_kernel_call product(ls_dtype T, int64_t m, int64_t n) {
    static const ls_matmul_params params = {.transpose_b = true};
    const int64_t x[] = {m, n}, w[] = {n, n};
    return (ls_kernel_call){.n_in = 2,
                            .in = {ls_view_dense(NULL, T, 2, x), ls_view_dense(NULL, T, 2, w)},
                            .n_out = 1,
                            .out = {ls_view_dense(NULL, T, 2, x)},
                            .params = &params};
}

static ls_status measure_matmul(ls_dtype T, ls_isa isa, ls_pool *pool, int64_t n, ls_core_rates *rates) {
    const int64_t m = 4 * n; /* more rows than columns, as in a step */
    const ls_kernel_call call = product(T, m, n);
    double seconds;
    LS_TRY(ls_measure_call(LS_KERNEL_MATMUL, T, isa, pool, &call, &seconds));
    rates->matmul = 2 * (double)m * (double)n * (double)n / seconds;
    return ls_ok();
}

/*
 * How much longer a product takes that is split over two cores, as it waits for the later core: measured in alternation
 * with two products of half its size, one on each core.
 */
static ls_status measure_split(ls_dtype T, ls_isa isa, int64_t n, double *split) {
    enum { RUNS = 5 * LS_MEASURED_RUNS };
    const ls_kernel_call each = product(T, n, n), both = product(T, 2 * n, n);
    double apart[RUNS], together[RUNS];
    ls_timed_calls halves;
    ls_timed_call shared;
    ls_pool *two;
    LS_TRY(ls_pool_create(2, true, &two));
    ls_status status = ls_timed_calls_open(LS_KERNEL_MATMUL, T, isa, two, &each, &halves);
    if (status.code == LS_OK) {
        status = ls_timed_call_open(LS_KERNEL_MATMUL, T, isa, two, &both, &shared);
        for (int i = -1; i < RUNS && status.code == LS_OK; i++) { /* the first is not counted */
            apart[ls_max(i, 0)] = ls_timed_calls_run(&halves);
            together[ls_max(i, 0)] = ls_timed_call_run(&shared);
        }
        if (status.code == LS_OK) ls_timed_call_close(&shared);
        ls_timed_calls_close(&halves);
    }
    ls_pool_destroy(two);
    LS_TRY(status);
    *split = fmax(0, ls_median(together, RUNS) / ls_median(apart, RUNS) - 1);
    return ls_ok();
}

/*
 * The cost of a piece of a strided copy: a copy of pieces of 64 bytes against a flat copy of as many bytes, both in a
 * cache.
 */
static ls_status measure_pieces(ls_arena *arena, ls_isa isa, double *piece) {
    enum { PIECES = 2048, LONG = 16 };
    const int64_t size[] = {PIECES, LONG};
    const ls_view dense = ls_view_dense(NULL, LS_F32, 2, size);
    ls_view apart = dense;
    double of_pieces, of_one;
    apart.stride[0] = 2 * LONG;
    apart.data = LS_NEW_ARRAY(arena, float, 2 * LONG * PIECES);
    const ls_kernel_call strided = {.n_in = 1, .in = {apart}, .n_out = 1, .out = {dense}},
                         flat = {.n_in = 1, .in = {dense}, .n_out = 1, .out = {dense}};
    LS_TRY(ls_measure_call(LS_KERNEL_COPY, LS_F32, isa, NULL, &strided, &of_pieces));
    LS_TRY(ls_measure_call(LS_KERNEL_COPY, LS_F32, isa, NULL, &flat, &of_one));
    *piece = fmax(0, of_pieces - of_one) / PIECES;
    return ls_ok();
}

/* Seconds of adding two arrays of n elements. */
static ls_status measure_add(ls_isa isa, ls_pool *pool, int64_t n, double *seconds) {
    const ls_view x = ls_view_dense(NULL, LS_F32, 1, &n);
    const ls_kernel_call call = {.n_in = 2, .in = {x, x}, .n_out = 1, .out = {x}};
    return ls_measure_call(LS_KERNEL_ADD, LS_F32, isa, pool, &call, seconds);
}

/*
 * Rates of memory, from sums larger than all caches, on all cores and on one; the overhead of a call, from a tiny sum.
 */
static ls_status measure_memory(ls_isa isa, ls_pool *pool, ls_host *out) {
    const int64_t n = (int64_t)fmin(fmax(out->cache, 0x1p20), 0x1p24);
    double busy, alone, nothing;
    LS_TRY(measure_add(isa, pool, n, &busy));
    LS_TRY(measure_add(isa, NULL, n * ls_min(4, ls_pool_threads(pool)), &alone));
    LS_TRY(measure_add(isa, NULL, 16, &nothing));
    out->memory = 3.0 * (double)n * sizeof(float) / busy;
    out->memory_alone = fmax(out->memory, 3.0 * (double)(n * ls_min(4, ls_pool_threads(pool))) * sizeof(float) / alone);
    out->to_host = out->from_host = out->memory / 2; /* a host has one memory: each byte is read and written */
    out->overhead = fmax(nothing, 1e-9);
    return ls_ok();
}

static ls_status measure_type(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool, double cache,
                              ls_core_rates *rates) {
    const bool reference = T == LS_F64; /* has only the slow reference kernels */
    LS_TRY(ls_measure_attention(arena, T, isa, pool, reference ? 192 : 2048, rates->attention));
    LS_TRY(measure_matmul(T, isa, pool, reference ? 128 : 768, rates));
    if (ls_pool_threads(pool) > 1) LS_TRY(measure_split(T, isa, reference ? 128 : 768, &rates->split));
    return ls_measure_streams(arena, T, isa, pool, reference ? 0x1p18 : cache, rates->bytes);
}

/*
 * One pass over all measurements. f64 is used to check results, not to train, and is measured in the first pass only.
 */
static ls_status measure(ls_arena *arena, ls_isa isa, ls_pool *pool, bool first, ls_host *out) {
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    for (size_t i = 0; i < (first ? LS_COUNT(types) : LS_COUNT(types) - 1); i++)
        LS_TRY(measure_type(arena, types[i], isa, pool, out->cache, &out->type[types[i]]));
    LS_TRY(measure_memory(isa, pool, out));
    LS_TRY(measure_pieces(arena, isa, &out->piece));
    return ls_measure_puts(out->cache, out);
}

enum { PASSES = 3 };

/* The median of the passes, number by number: a disturbance of seconds falls into one pass. */
static ls_host median_of(const ls_host pass[PASSES]) {
    enum { NUMBERS = sizeof(ls_host) / sizeof(double) };
    _Static_assert(sizeof(ls_host) == NUMBERS * sizeof(double), "ls_host has only members of type double");
    double number[PASSES][NUMBERS], median[NUMBERS];
    ls_host host;
    memcpy(number, pass, sizeof number);
    for (int i = 0; i < NUMBERS; i++) {
        double of_passes[PASSES];
        for (int p = 0; p < PASSES; p++) of_passes[p] = number[p][i];
        median[i] = ls_median(of_passes, PASSES);
    }
    memcpy(&host, median, sizeof host);
    return host;
}

ls_status ls_host_measure(ls_isa isa, ls_host *out) {
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_host pass[PASSES];
    ls_pool *pool;
    ls_status status = ls_pool_create(machine.cores, true, &pool);
    LS_TRY(status);
    for (int p = 0; p < PASSES && status.code == LS_OK; p++) {
        ls_arena *arena = ls_arena_create();
        pass[p] = p > 0 ? pass[0] : ls_host_nominal(isa);
        pass[p].cache = fmax((double)machine.l3_bytes / machine.cores, (double)machine.l2_bytes);
        status = measure(arena, isa, pool, p == 0, &pass[p]);
        ls_arena_destroy(arena);
    }
    ls_pool_destroy(pool);
    if (status.code == LS_OK) *out = median_of(pass);
    return status;
}
