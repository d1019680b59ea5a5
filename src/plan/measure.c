/*
 * What one core of this machine does while all the others do the same, as in a step: each kernel by itself, on every core at once, each on
 * data of its own; and puts between ranks on all of them.
 */
#include "base/median.h"
#include "plan/host_file.h"
#include "plan/measure_impl.h"

#include <math.h>

double ls_measured(double runs[LS_MEASURED_RUNS]) {
    (void)ls_median(runs, LS_MEASURED_RUNS);
    return runs[1];
}

ls_status ls_measure_call(const char *name, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                          const ls_kernel_call *call, double *seconds) {
    ls_timed_crowd timed;
    double times[LS_MEASURED_RUNS];
    LS_TRY(ls_timed_crowd_open(name, dtype, isa, pool, call, &timed));
    (void)ls_timed_crowd_run(&timed);
    for (int i = 0; i < LS_MEASURED_RUNS; i++) times[i] = ls_timed_crowd_run(&timed);
    ls_timed_crowd_close(&timed);
    *seconds = ls_measured(times);
    return ls_ok();
}

static ls_status measure_matmul(ls_dtype T, ls_isa isa, ls_pool *pool, int64_t n, ls_core_rates *rates) {
    const int64_t size[] = {n, n};
    const ls_matmul_params params = {.transpose_b = true};
    ls_kernel_call call = {.n_in = 2,
                           .in = {ls_view_dense(NULL, T, 2, size), ls_view_dense(NULL, T, 2, size)},
                           .n_out = 1,
                           .out = {ls_view_dense(NULL, T, 2, size)},
                           .params = &params};
    double seconds;
    LS_TRY(ls_measure_call("matmul", T, isa, pool, &call, &seconds));
    rates->matmul = 2 * (double)n * (double)n * (double)n / seconds;
    return ls_ok();
}

/* A sum of n elements of each of two operands. */
static ls_status measure_add(ls_isa isa, ls_pool *pool, int64_t n, double *seconds) {
    const ls_view x = ls_view_dense(NULL, LS_F32, 1, &n);
    const ls_kernel_call call = {.n_in = 2, .in = {x, x}, .n_out = 1, .out = {x}};
    return ls_measure_call("add", LS_F32, isa, pool, &call, seconds);
}

/* Sums larger than all caches, on all cores and on one; one of nothing to speak of. */
static ls_status measure_memory(ls_isa isa, ls_pool *pool, ls_host *out) {
    const int64_t n = (int64_t)fmin(fmax(out->cache, 0x1p20), 0x1p24);
    double busy, alone, nothing;
    LS_TRY(measure_add(isa, pool, n, &busy));
    LS_TRY(measure_add(isa, NULL, n * ls_min(4, ls_pool_threads(pool)), &alone));
    LS_TRY(measure_add(isa, NULL, 16, &nothing));
    out->memory = 3.0 * (double)n * sizeof(float) / busy;
    out->memory_alone =
        fmax(out->memory, 3.0 * (double)(n * ls_min(4, ls_pool_threads(pool))) * sizeof(float) / alone);
    out->overhead = fmax(nothing, 1e-9);
    return ls_ok();
}

static ls_status measure_type(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool, double cache,
                              ls_core_rates *rates) {
    const bool reference = T == LS_F64; /* kernels that are slow */
    LS_TRY(ls_measure_attention(arena, T, isa, pool, reference ? 192 : 2048, rates->attention));
    LS_TRY(measure_matmul(T, isa, pool, reference ? 128 : 768, rates));
    return ls_measure_streams(arena, T, isa, pool, reference ? 0x1p18 : cache, rates->stream);
}

static ls_status measure(ls_arena *arena, ls_isa isa, ls_pool *pool, ls_host *out) {
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    for (size_t i = 0; i < LS_COUNT(types); i++)
        LS_TRY(measure_type(arena, types[i], isa, pool, out->cache, &out->type[types[i]]));
    LS_TRY(measure_memory(isa, pool, out));
    return ls_measure_puts(out->cache, out);
}

ls_status ls_host_measure(ls_isa isa, ls_host *out) {
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_host host = ls_host_nominal(isa);
    host.cache = fmax((double)machine.l3_bytes / machine.cores, (double)machine.l2_bytes);
    ls_pool *pool;
    LS_TRY(ls_pool_create(machine.cores, true, &pool));
    ls_arena *arena = ls_arena_create();
    const ls_status status = measure(arena, isa, pool, &host);
    ls_arena_destroy(arena);
    ls_pool_destroy(pool);
    if (status.code == LS_OK) *out = host;
    return status;
}
