/* See bench_impl.h: the best rate of square products. */
#include "cli/bench/bench_impl.h"

#include <math.h>

/* Small enough for the inner caches of a core or two, and large. f64 has the reference kernels. */
static const int64_t sides[LS_BENCH_SQUARES] = {1024, 2048}, sides_f64[LS_BENCH_SQUARES] = {128, 256};

static int64_t side_of(ls_dtype dtype, int i) { return dtype == LS_F64 ? sides_f64[i] : sides[i]; }

ls_status ls_bench_peak_open(ls_dtype dtype, ls_isa isa, ls_pool *pool, ls_bench_peak *out) {
    static const ls_matmul_params params = {.transpose_b = true};
    ls_bench_peak peak = {0};
    ls_status status = ls_ok();
    for (int i = 0; i < LS_BENCH_SQUARES && status.code == LS_OK; i++) {
        const int64_t size[] = {side_of(dtype, i), side_of(dtype, i)};
        const ls_view view = ls_view_dense(NULL, dtype, 2, size);
        const ls_kernel_call call = {
            .n_in = 2, .in = {view, view}, .n_out = 1, .out = {view}, .params = &params};
        status = ls_timed_call_open(LS_KERNEL_MATMUL, dtype, isa, pool, &call, &peak.square[i]);
        peak.n += status.code == LS_OK;
    }
    if (status.code != LS_OK) {
        ls_bench_peak_close(&peak);
        return status;
    }
    *out = peak;
    return status;
}

/* Returns its operations; *seconds grows. */
static double run_square(ls_bench_peak *peak, int i, double *seconds) {
    const double side = (double)peak->square[i].call.out[0].size[0], work = 2 * side * side * side;
    const double took = ls_timed_call_run(&peak->square[i]);
    peak->best = fmax(peak->best, work / took);
    *seconds += took;
    return work;
}

void ls_bench_peak_look(ls_bench_peak *peak) {
    enum { RUNS = 2 };
    double seconds = 0;
    for (int i = 0; i < RUNS * peak->n; i++) (void)run_square(peak, i / RUNS, &seconds);
}

double ls_bench_peak_sustain(ls_bench_peak *peak, double seconds) {
    double work = 0, took = 0;
    do {
        work += run_square(peak, peak->n - 1, &took);
    } while (took < seconds);
    return work / took;
}

void ls_bench_peak_close(ls_bench_peak *peak) {
    for (int i = 0; i < peak->n; i++) ls_timed_call_close(&peak->square[i]);
}
