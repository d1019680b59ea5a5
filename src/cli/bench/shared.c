/*
 * What the benches share: rounds, medians, the columns floor, figure and ratio, the model, and the rate of square
 * products.
 */
#include "base/base.h"
#include "cli/bench/bench_impl.h"
#include "ls_bench_model.h"

#include <math.h>
#include <string.h>

void ls_bench_fill_in(int64_t *value, int64_t initial) {
    if (*value == 0) *value = initial;
}

ls_status ls_bench_rounds(const ls_bench_options *options, int initial, int *out) {
    const int64_t rounds = options->rounds != 0 ? options->rounds : initial;
    if (rounds < 1 || rounds > LS_BENCH_MOST_ROUNDS)
        return ls_error(LS_USAGE, "--rounds %lld; expected 1 to %d", (long long)rounds, LS_BENCH_MOST_ROUNDS);
    *out = (int)rounds;
    return ls_ok();
}

double ls_bench_median(const double *values, int rounds) {
    double sorted[LS_BENCH_MOST_ROUNDS];
    memcpy(sorted, values, sizeof *sorted * (size_t)rounds);
    return ls_median(sorted, rounds);
}

void ls_bench_print_titles(const char *figure, FILE *out) {
    fprintf(out, " %11s %11s %-8s %7s\n", "floor", figure, "", "ratio");
}

void ls_bench_print_figure(const ls_bench_figure *f, FILE *out) {
    fprintf(out, " %11.1f %11.1f %-8s %7.3f\n", f->floor, f->figure, f->unit, f->ratio);
}

void ls_bench_put_figure(const ls_bench_figure *f, ls_json_writer *w) {
    ls_json_put_text(w, "unit", f->unit);
    ls_json_put_double(w, "floor", f->floor);
    ls_json_put_double(w, "figure", f->figure);
    ls_json_put_double(w, "ratio", f->ratio);
}

const char *ls_bench_model_name(const ls_bench_options *options) {
    return options->config != NULL ? options->config : "Llama of 100M parameters";
}

ls_status ls_bench_model_open(const ls_bench_options *options, ls_model **out) {
    if (options->config != NULL) return ls_model_open(options->config, out);
    return ls_model_open_text(ls_bench_model_name(options), LS_BENCH_MODEL, out);
}

/* --- the floor: the best rate of square products ------------------------------------------------------------------ */

/*
 * One side small enough for the inner caches of a core or two, and a large one; smaller ones for the slow reference
 * kernels of f64.
 */
static const int64_t sides[LS_BENCH_SQUARES] = {1024, 2048}, sides_f64[LS_BENCH_SQUARES] = {128, 256};

static int64_t side_of(ls_dtype dtype, int i) { return dtype == LS_F64 ? sides_f64[i] : sides[i]; }

ls_status ls_bench_peak_open(ls_dtype dtype, ls_isa isa, ls_pool *pool, ls_bench_peak *out) {
    static const ls_matmul_params params = {.transpose_b = true};
    ls_bench_peak peak = {0};
    ls_status status = ls_ok();
    for (int i = 0; i < LS_BENCH_SQUARES && status.code == LS_OK; i++) {
        const int64_t size[] = {side_of(dtype, i), side_of(dtype, i)};
        const ls_view view = ls_view_dense(NULL, dtype, 2, size);
        const ls_kernel_call call = {.n_in = 2, .in = {view, view}, .n_out = 1, .out = {view}, .params = &params};
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

/* Runs one product. Returns its operations, and adds its time to *seconds. */
static double run_square(ls_bench_peak *peak, int i, double *seconds) {
    const double side = (double)peak->square[i].call.out[0].size[0], work = 2 * side * side * side;
    const double took = ls_timed_call_run(&peak->square[i]);
    peak->best = fmax(peak->best, work / took);
    *seconds += took;
    return work;
}

void ls_bench_peak_update(ls_bench_peak *peak) {
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
