/*
 * Measures the rates of this machine: of one core while all other cores do the same, as in a step; or of a GPU. Each
 * kernel is measured by itself, on all cores at once, with separate data for each core.
 */
#include "plan/plan_impl.h"

#include <math.h>
#include <string.h>

static ls_status measure_matmul(ls_timed_place *place, ls_dtype T, ls_core_rates *rates) {
    const int64_t n = ls_product_side(place, T), m = 4 * n; /* more rows than columns, as in a step */
    const ls_kernel_call call = ls_product_call(T, m, n);
    double seconds;
    LS_TRY(ls_measure_call(place, LS_KERNEL_MATMUL, T, &call, &seconds));
    rates->matmul = 2 * (double)m * (double)n * (double)n / seconds;
    return ls_ok();
}

enum { SPLIT_RUNS = 5 * LS_MEASURED_RUNS };

static ls_status time_split(ls_timed_place *two, ls_dtype T, int64_t n, double *apart, double *together) {
    const ls_kernel_call each = ls_product_call(T, n, n), both = ls_product_call(T, 2 * n, n);
    ls_timed_calls halves;
    ls_timed_call shared;
    LS_TRY(ls_timed_calls_open(two, LS_KERNEL_MATMUL, T, &each, &halves));
    ls_status status = ls_timed_call_open(two, LS_KERNEL_MATMUL, T, &both, &shared);
    const bool opened = status.code == LS_OK;
    for (int i = -1; i < SPLIT_RUNS && status.code == LS_OK; i++) { /* the first run is not counted */
        status = ls_timed_calls_run(&halves, &apart[ls_max(i, 0)]);
        if (status.code == LS_OK) status = ls_timed_call_run(&shared, &together[ls_max(i, 0)]);
    }
    if (opened) ls_timed_call_close(&shared);
    ls_timed_calls_close(&halves);
    return status;
}

/*
 * How much longer a product takes if it is split over two cores, because it waits for the slower one. Measured
 * alternately with two products of half its size, one on each core.
 */
static ls_status measure_split(const ls_timed_place *place, ls_dtype T, double *split) {
    double apart[SPLIT_RUNS], together[SPLIT_RUNS];
    ls_timed_place two;
    ls_pool *pool;
    LS_TRY(ls_pool_create(2, true, &pool));
    ls_status status = ls_timed_place_open(&place->of, 0, pool, &two);
    if (status.code == LS_OK) {
        status = time_split(&two, T, ls_product_side(place, T), apart, together);
        ls_timed_place_close(&two);
    }
    ls_pool_destroy(pool);
    LS_TRY(status);
    *split = fmax(0, ls_median(together, SPLIT_RUNS) / ls_median(apart, SPLIT_RUNS) - 1);
    return ls_ok();
}

/*
 * The cost per piece of a strided copy: a copy of pieces of 64 bytes compared with a flat copy of as many bytes, both
 * in a cache. alone: one core.
 */
static ls_status measure_pieces(ls_timed_place *alone, double *piece) {
    enum { PIECES = 2048, LONG = 16 };
    const int64_t size[] = {PIECES, LONG};
    const ls_view dense = ls_view_dense(NULL, LS_F32, 2, size);
    ls_view apart = dense;
    double of_pieces, of_one;
    apart.stride[0] = 2 * LONG;
    const ls_kernel_call strided = {.n_in = 1, .in = {apart}, .n_out = 1, .out = {dense}},
                         flat = {.n_in = 1, .in = {dense}, .n_out = 1, .out = {dense}};
    LS_TRY(ls_measure_call(alone, LS_KERNEL_COPY, LS_F32, &strided, &of_pieces));
    LS_TRY(ls_measure_call(alone, LS_KERNEL_COPY, LS_F32, &flat, &of_one));
    *piece = fmax(0, of_pieces - of_one) / PIECES;
    return ls_ok();
}

static ls_kernel_call sum_of(int64_t n) {
    const ls_view x = ls_view_dense(NULL, LS_F32, 1, &n);
    return (ls_kernel_call){.n_in = 2, .in = {x, x}, .n_out = 1, .out = {x}};
}

/* Bytes per second of adding two arrays of n elements. */
static ls_status measure_add(ls_timed_place *place, int64_t n, double *rate) {
    const ls_kernel_call call = sum_of(n);
    double seconds;
    LS_TRY(ls_measure_call(place, LS_KERNEL_ADD, LS_F32, &call, &seconds));
    *rate = 3.0 * (double)n * sizeof(float) / seconds;
    return ls_ok();
}

/* Rates of memory, from sums larger than all caches, on all cores and on one. */
static ls_status measure_memory(ls_timed_place *place, ls_timed_place *alone, ls_host *out) {
    const double least = ls_timed_place_width(place) > 0 ? 0 : 0x1p20;
    const int64_t n = (int64_t)fmin(fmax(out->cache, least), 0x1p24), cores = ls_pool_threads(place->pool);
    LS_TRY(measure_add(place, n, &out->memory));
    LS_TRY(measure_add(alone, n * ls_min(4, cores), &out->memory_alone));
    out->memory_alone = fmax(out->memory, out->memory_alone);
    /* On a host, where every byte is read and written in the same memory. A GPU's link is measured elsewhere. */
    if (ls_timed_place_width(place) == 0) out->to_host = out->from_host = out->memory / 2;
    return ls_ok();
}

/* The overhead of a call, from a tiny sum among others. */
static ls_status measure_overhead(ls_timed_place *alone, double *overhead) {
    const ls_kernel_call call = sum_of(16);
    double times[LS_MEASURED_RUNS], warm;
    ls_timed_call timed;
    LS_TRY(ls_timed_call_open(alone, LS_KERNEL_ADD, LS_F32, &call, &timed));
    ls_status status = ls_timed_call_stream(&timed, &warm);
    for (int i = 0; i < LS_MEASURED_RUNS && status.code == LS_OK; i++) status = ls_timed_call_stream(&timed, &times[i]);
    ls_timed_call_close(&timed);
    LS_TRY(status);
    *overhead = fmax(ls_median(times, LS_MEASURED_RUNS), 1e-9);
    return ls_ok();
}

static ls_status measure_type(ls_arena *arena, ls_timed_place *place, ls_dtype T, const ls_host *host,
                              ls_core_rates *rates) {
    const bool on_cpu = ls_timed_place_width(place) == 0, reference = on_cpu && T == LS_F64;
    LS_TRY(ls_measure_attention(arena, place, T, rates->attention));
    LS_TRY(measure_matmul(place, T, rates));
    LS_TRY(ls_measure_recurrence(place, T, rates->recurrence));
    if (on_cpu && ls_pool_threads(place->pool) > 1) LS_TRY(measure_split(place, T, &rates->split));
    return ls_measure_streams(arena, place, T, reference ? 0x1p18 : host->cache, host->overhead, rates->bytes);
}

/*
 * One pass over all measurements. f64 is used to check results, not to train: it is measured in the first pass only,
 * and not on a GPU, which has no kernels for it. alone: one core.
 */
static ls_status measure_at(ls_arena *arena, ls_timed_place *place, ls_timed_place *alone, bool first, ls_host *out) {
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    const bool all = first && ls_timed_place_width(place) == 0;
    LS_TRY(measure_overhead(alone, &out->overhead));
    for (size_t i = 0; i < (all ? LS_COUNT(types) : LS_COUNT(types) - 1); i++)
        LS_TRY(measure_type(arena, place, types[i], out, &out->type[types[i]]));
    LS_TRY(measure_memory(place, alone, out));
    LS_TRY(measure_pieces(alone, &out->piece));
    return ls_timed_place_width(place) == 0 ? ls_measure_puts(out->cache, out) : ls_measure_links(&place->of, out);
}

static ls_status measure(ls_timed_place *place, bool first, ls_host *out) {
    ls_timed_place alone;
    ls_arena *arena = ls_arena_create();
    ls_status status = ls_timed_place_open(&place->of, 0, NULL, &alone);
    if (status.code == LS_OK) {
        status = measure_at(arena, place, &alone, first, out);
        ls_timed_place_close(&alone);
    }
    ls_arena_destroy(arena);
    return status;
}

/* One pass for a GPU: no other programs share it, and its clocks settle within milliseconds. */
enum { PASSES = 3, PASSES_OF_GPU = 1 };

/* The median of the passes, for each number: a disturbance of a few seconds affects a single pass. */
static ls_host median_of(const ls_host *pass, int passes) {
    enum { NUMBERS = sizeof(ls_host) / sizeof(double) };
    _Static_assert(sizeof(ls_host) == NUMBERS * sizeof(double), "ls_host has only members of type double");
    double number[PASSES][NUMBERS], median[NUMBERS];
    ls_host host;
    memcpy(number, pass, (size_t)passes * sizeof *number);
    for (int i = 0; i < NUMBERS; i++) {
        double of_passes[PASSES];
        for (int p = 0; p < passes; p++) of_passes[p] = number[p][i];
        median[i] = ls_median(of_passes, passes);
    }
    memcpy(&host, median, sizeof host);
    return host;
}

/* Bytes of cache that a core, or a GPU, has for itself. */
static double cache_of(const ls_host_of *of) {
    ls_machine machine;
    ls_machine_detect(&machine);
    if (of->device != LS_DEVICE_CPU) return (double)of->facts.cache;
    return fmax((double)machine.l3_bytes / machine.cores, (double)machine.l2_bytes);
}

static ls_status measure_passes(ls_timed_place *place, int passes, ls_host pass[PASSES], ls_row_rates *rows) {
    ls_arena *arena = ls_arena_create();
    ls_status status = ls_ok();
    for (int p = 0; p < passes && status.code == LS_OK; p++) {
        pass[p] = p > 0 ? pass[0] : ls_host_nominal(place->of.device, place->of.isa);
        pass[p].cache = cache_of(&place->of);
        status = measure(place, p == 0, &pass[p]);
    }
    rows->n = 0;
    if (status.code == LS_OK && ls_timed_place_width(place) > 0) status = ls_measure_rows(arena, place, rows);
    ls_arena_destroy(arena);
    return status;
}

ls_status ls_host_measure(const ls_host_of *of, ls_host *out, ls_row_rates *rows) {
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_host pass[PASSES];
    ls_timed_place place;
    ls_pool *pool = NULL;
    const int passes = of->device == LS_DEVICE_CPU ? PASSES : PASSES_OF_GPU;
    if (of->device == LS_DEVICE_CPU) LS_TRY(ls_pool_create(machine.cores, true, &pool));
    ls_status status = ls_timed_place_open(of, 0, pool, &place);
    if (status.code == LS_OK) {
        status = measure_passes(&place, passes, pass, rows);
        ls_timed_place_close(&place);
    }
    ls_pool_destroy(pool);
    if (status.code == LS_OK) *out = median_of(pass, passes);
    if (status.code == LS_OK && of->device != LS_DEVICE_CPU) out->devices = (double)ls_max(1, of->facts.units);
    return status;
}
