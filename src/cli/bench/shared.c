/* What the benches share: rounds, medians, and how floor, figure and ratio are shown; the model. */
#include "base/base.h"
#include "cli/bench/bench_impl.h"
#include "ls_bench_model.h"

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
