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

ls_bench_figure ls_bench_trip_figure(bool latency, size_t bytes, const double *floor, const double *put, int rounds) {
    double ratio[LS_BENCH_MOST_ROUNDS];
    for (int r = 0; r < rounds; r++) ratio[r] = latency ? put[r] / floor[r] : floor[r] / put[r];
    const double bare = ls_bench_median(floor, rounds), with = ls_bench_median(put, rounds);
    const double by = ls_bench_median(ratio, rounds), gigabytes = (double)bytes * 1e-9;
    if (latency) return (ls_bench_figure){"ns", bare / 2 * 1e9, with / 2 * 1e9, by};
    return (ls_bench_figure){"GB/s", gigabytes / bare, gigabytes / with, by};
}

ls_bench_figure ls_bench_rate_figure(const ls_host_of *of, double floor, double rate) {
    const bool gpu = of->device != LS_DEVICE_CPU;
    const double unit = gpu ? 1e-12 : 1e-9;
    return (ls_bench_figure){gpu ? "TFLOP/s" : "GFLOP/s", floor * unit, rate * unit, rate / floor};
}

const char *ls_bench_model_name(const ls_bench_options *options) {
    return options->config != NULL ? options->config : "Llama of 100M parameters";
}

ls_status ls_bench_model_open(const ls_bench_options *options, ls_model **out) {
    if (options->config != NULL) return ls_model_open(options->config, out);
    return ls_model_open_text(ls_bench_model_name(options), LS_BENCH_MODEL, out);
}

/* --- what computes ------------------------------------------------------------------------------------------------ */

const char *ls_bench_machine_name(const ls_host_of *of) {
    return of->device == LS_DEVICE_CPU ? ls_isa_name(of->isa) : of->facts.model;
}

ls_status ls_bench_device(const ls_bench_options *options, ls_host_of *out) {
    ls_machine machine;
    ls_machine_detect(&machine);
    LS_TRY(ls_host_find(options->device, machine.isa, out));
    if (out->device == LS_DEVICE_CPU || options->threads == 0) return ls_ok();
    return ls_error(LS_USAGE, "--threads %lld with --device %s; expected none: a GPU is not divided by threads",
                    (long long)options->threads, out->name);
}

bool ls_bench_as_threads(const ls_bench_options *options) {
    return options->ranks_as != NULL && strcmp(options->ranks_as, "threads") == 0;
}

ls_status ls_bench_place_open(const ls_bench_options *options, const ls_host_of *of, int threads, ls_bench_place *out) {
    ls_machine machine;
    ls_machine_detect(&machine);
    *out = (ls_bench_place){.pool = NULL};
    if (options->kernels != NULL) LS_TRY(ls_kernel_choices_parse(options->kernels, of->device, of->isa, &out->kernels));
    if (of->device == LS_DEVICE_CPU) LS_TRY(ls_pool_create(threads, threads <= machine.cores, &out->pool));
    const ls_status status = ls_timed_place_open(of, 0, out->pool, &out->timed);
    if (status.code != LS_OK) ls_pool_destroy(out->pool);
    out->timed.kernels = &out->kernels;
    return status;
}

void ls_bench_place_close(ls_bench_place *place) {
    ls_timed_place_close(&place->timed);
    ls_pool_destroy(place->pool);
}

/* --- the floor: the best rate of square products ------------------------------------------------------------------ */

/*
 * Sides of the square matrices: one small enough for the inner caches of a core or two, and a large one; smaller ones
 * for the slow reference kernels of f64. A GPU needs larger ones, so that each of its multiprocessors computes several
 * tiles.
 */
static const int64_t sides[LS_BENCH_SQUARES] = {1024, 2048}, sides_f64[LS_BENCH_SQUARES] = {128, 256},
                     sides_of_gpu[LS_BENCH_SQUARES] = {4096, 8192}, sides_of_processor[LS_BENCH_SQUARES] = {32, 64};

static int64_t side_of(const ls_timed_place *place, ls_dtype dtype, int i) {
    const int width = ls_timed_place_width(place);
    if (width > 0) return ls_min(sides_of_gpu[i], sides_of_processor[i] * width);
    return dtype == LS_F64 ? sides_f64[i] : sides[i];
}

ls_status ls_bench_peak_open(ls_timed_place *place, ls_dtype dtype, ls_bench_peak *out) {
    static const ls_matmul_params params = {.transpose_b = true};
    ls_bench_peak peak = {0};
    ls_status status = ls_ok();
    for (int i = 0; i < LS_BENCH_SQUARES && status.code == LS_OK; i++) {
        const int64_t side = side_of(place, dtype, i), size[] = {side, side};
        const ls_view view = ls_view_dense(NULL, dtype, 2, size);
        const ls_kernel_call call = {.n_in = 2, .in = {view, view}, .n_out = 1, .out = {view}, .params = &params};
        status = ls_timed_call_open(place, LS_KERNEL_MATMUL, dtype, &call, &peak.square[i]);
        peak.n += status.code == LS_OK;
    }
    if (status.code != LS_OK) {
        ls_bench_peak_close(&peak);
        return status;
    }
    *out = peak;
    return status;
}

/* Runs one product. Adds its operations to *work, and its time to *seconds. */
static ls_status run_square(ls_bench_peak *peak, int i, double *work, double *seconds) {
    const double side = (double)peak->square[i].call.out[0].size[0], operations = 2 * side * side * side;
    double took;
    LS_TRY(ls_timed_call_run(&peak->square[i], &took));
    peak->best = fmax(peak->best, operations / took);
    *seconds += took;
    *work += operations;
    return ls_ok();
}

ls_status ls_bench_peak_update(ls_bench_peak *peak) {
    enum { RUNS = 2 };
    double work = 0, seconds = 0;
    for (int i = 0; i < RUNS * peak->n; i++) LS_TRY(run_square(peak, i / RUNS, &work, &seconds));
    return ls_ok();
}

ls_status ls_bench_peak_sustain(ls_bench_peak *peak, double seconds, double *rate) {
    const double until = ls_seconds() + seconds;
    double work = 0, took = 0;
    do {
        LS_TRY(run_square(peak, peak->n - 1, &work, &took));
    } while (ls_seconds() < until);
    *rate = work / took;
    return ls_ok();
}

void ls_bench_peak_close(ls_bench_peak *peak) {
    for (int i = 0; i < peak->n; i++) ls_timed_call_close(&peak->square[i]);
}
