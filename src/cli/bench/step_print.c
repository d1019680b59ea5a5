/* The figures of training steps, as a page and as JSON. */
#include "base/base.h"
#include "cli/bench/step_impl.h"

#include <math.h>
#include <stdlib.h>

/* --- the figures --------------------------------------------------------------------------------------------------------------- */

typedef struct figures {
    int round;            /* the step of median length */
    double seconds, mean; /* of it: the slowest rank's; the mean over the ranks */
    double predicted;     /* by the clock */
    ls_bench_figure rate;
    double beside; /* the rate over that of products before and after */
    double tokens_per_second;
    double mapped, touched, set,
        first; /* start-up: seconds until all ranks were there; first touch; weights; the first step over the median */
    double loss;
    int64_t peak, huge;
    ls_bench_table table;
} figures;

static double slowest(const ls_bench_step *b, int round) {
    double most = 0;
    for (int r = 0; r < b->ranks; r++) most = fmax(most, b->times[r].total[round]);
    return most;
}

static int median_round(const ls_bench_step *b) {
    double steps[LS_BENCH_MOST_ROUNDS];
    for (int i = 0; i < b->rounds; i++) steps[i] = slowest(b, i);
    return ls_median_place(steps, b->rounds);
}

double ls_bench_step_median(const ls_bench_step *b) { return slowest(b, median_round(b)); }

/* What a step must compute: a causal mask leaves each token those up to it. */
static double work_of(const ls_bench_step *b) {
    const ls_model_sizes n = ls_model_describe(b->model);
    const double B = (double)b->options.batch, S = (double)b->options.seq;
    const double weights = (double)(ls_model_parameters(b->model) - (n.tied ? 0 : n.V * n.E));
    const double pairs = B * S * (S + 1) / 2;
    return 6 * weights * B * S + 14 * pairs * (double)(n.Hq * n.D * n.L);
}

static void fill_table(const ls_bench_step *b, figures *f) {
    double waiting = 0, known = 0, idle = 0, ended = 0;
    f->predicted = ls_simulated_seconds(b->clock, b->ranks);
    for (int r = 0; r < b->ranks; r++) {
        ls_bench_table_add(&f->table, ls_session_image(b->session, r), LS_PROGRAM_STEP,
                           ls_bench_step_seconds(b, r, f->round), ls_bench_step_predicted(b, r), b->ranks);
        idle += b->clock[r].waiting / b->ranks;
        ended += (f->predicted - b->clock[r].end) / b->ranks;
        waiting += b->times[r].waiting[f->round] / b->ranks;
        f->mean += b->times[r].total[f->round] / b->ranks;
    }
    for (int i = 0; i < f->table.n; i++) known += f->table.row[i].seconds;
    ls_bench_table_add_row(&f->table, "between instructions", f->mean - known - waiting, 0);
    if (b->ranks > 1) {
        ls_bench_table_add_row(&f->table, "waiting for other ranks", waiting, idle);
        ls_bench_table_add_row(&f->table, "ended before the slowest", f->seconds - f->mean, ended);
    }
    ls_bench_table_end(&f->table);
}

static void reckon(const ls_bench_step *b, figures *f) {
    f->round = median_round(b);
    f->seconds = slowest(b, f->round);
    f->tokens_per_second = (double)b->tokens.count / f->seconds;
    const double rate = work_of(b) / f->seconds;
    f->rate = (ls_bench_figure){"GFLOP/s", b->floor * 1e-9, rate * 1e-9, rate / b->floor};
    f->beside = rate / ((b->products[0] + b->products[1]) / 2);
    f->loss = b->times[0].loss;
    for (int r = 0; r < b->ranks; r++) {
        const ls_bench_step_times *t = &b->times[r];
        f->mapped = fmax(f->mapped, t->began - b->launched - t->touched.seconds);
        f->touched = fmax(f->touched, t->touched.seconds);
        f->huge = r == 0 ? t->huge : ls_min(f->huge, t->huge);
        f->set = fmax(f->set, t->ready - t->began);
        f->first = fmax(f->first, t->first - f->seconds);
        f->peak = ls_max(f->peak, t->peak);
    }
    fill_table(b, f);
}

static void print_page(const ls_bench_step *b, const figures *f, FILE *out) {
    const ls_spread_result chosen = ls_session_describe(b->session);
    char text[5][LS_SECONDS_TEXT], bytes[3][LS_BYTES_TEXT];
    fprintf(
        out,
        "training step · %s · B %lld · S %lld · %s · %s · %d rank%s of %d thread%s · %s · %s · the median of %d\n\n",
        ls_bench_model_name(&b->options), (long long)b->options.batch, (long long)b->options.seq,
        ls_dtype_name(b->dtype), chosen.isa, b->ranks, b->ranks == 1 ? "" : "s",
        ls_session_plan(b->session)->target.threads,
        ls_session_plan(b->session)->target.threads == 1 ? "" : "s", chosen.strategy, chosen.mesh, b->rounds);
    fprintf(out, "%-30s", "");
    ls_bench_print_titles("figure", out);
    fprintf(out, "%-30s", "6·N·tokens + attention");
    ls_bench_print_figure(&f->rate, out);
    fprintf(
        out,
        "%s a step, %.1f tokens/s, loss %.3f; %.3f of square products for half a second before and after\n",
        ls_seconds_text(f->seconds, text[0]), f->tokens_per_second, f->loss, f->beside);
    fprintf(out, "%s predicted, %.3f of what was measured, by %s rates\n",
            ls_seconds_text(f->predicted, text[0]), f->predicted / f->seconds,
            b->host_measured ? "this machine's" : "nominal");
    fprintf(
        out,
        "start-up: plan, compile and prove %s; start, map and prepare %s; touch memory %s; set weights %s; first step longer by %s\n",
        ls_seconds_text(b->opened, text[0]), ls_seconds_text(f->mapped, text[1]),
        ls_seconds_text(f->touched, text[2]), ls_seconds_text(f->set, text[3]),
        ls_seconds_text(f->first, text[4]));
    fprintf(out, "memory of a rank: %s mapped, %s of it in huge pages, %s resident at most\n\n",
            ls_bytes_text((double)chosen.predicted_bytes, bytes[0]), ls_bytes_text((double)f->huge, bytes[1]),
            ls_bytes_text((double)f->peak, bytes[2]));
    ls_bench_table_print(&f->table, out);
    fprintf(
        out,
        "\nfloor: the fastest run of a square product on as many threads · N: weights that products use · rates: of one rank, operands "
        "in full\n");
}

static void print_json(const ls_bench_step *b, const figures *f, FILE *out) {
    const ls_spread_result chosen = ls_session_describe(b->session);
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "model", ls_bench_model_name(&b->options));
    ls_json_put_int(w, "batch", b->options.batch);
    ls_json_put_int(w, "seq", b->options.seq);
    ls_json_put_text(w, "dtype", ls_dtype_name(b->dtype));
    ls_json_put_text(w, "isa", chosen.isa);
    ls_json_put_int(w, "ranks", b->ranks);
    ls_json_put_int(w, "threads", ls_session_plan(b->session)->target.threads);
    ls_json_put_text(w, "strategy", chosen.strategy);
    ls_json_put_text(w, "mesh", chosen.mesh);
    ls_json_put_int(w, "rounds", b->rounds);
    ls_bench_put_figure(&f->rate, w);
    ls_json_put_double(w, "beside", f->beside);
    ls_json_put_double(w, "work", work_of(b));
    ls_json_put_double(w, "seconds", f->seconds);
    ls_json_put_double(w, "predicted_seconds", f->predicted);
    ls_json_put_bool(w, "host_measured", b->host_measured);
    ls_json_put_double(w, "tokens_per_second", f->tokens_per_second);
    ls_json_put_double(w, "loss", f->loss);
    ls_json_open_object(w, "start_up");
    ls_json_put_double(w, "compile", b->opened);
    ls_json_put_double(w, "map_and_prepare", f->mapped);
    ls_json_put_double(w, "touch", f->touched);
    ls_json_put_double(w, "set_weights", f->set);
    ls_json_put_double(w, "first_step_longer", f->first);
    ls_json_close(w);
    ls_json_put_int(w, "mapped_bytes", chosen.predicted_bytes);
    ls_json_put_int(w, "huge_page_bytes", f->huge);
    ls_json_put_int(w, "peak_bytes", f->peak);
    ls_bench_table_put(&f->table, w);
    ls_json_end(w, out);
}

ls_status ls_bench_step_print(const ls_bench_step *b, bool json, FILE *out) {
    figures *f = calloc(1, sizeof *f);
    if (f == NULL) return ls_error(LS_NO_MEMORY, "no memory for the figures of a bench");
    reckon(b, f);
    if (json)
        print_json(b, f, out);
    else
        print_page(b, f, out);
    free(f);
    return ls_ok();
}
