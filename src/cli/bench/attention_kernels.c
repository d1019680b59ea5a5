/*
 * The attention kernels on one rank, without communication. Their rate is compared with that of products of square
 * matrices of the same type and threads: with the best one of the run (floor), and with the mean right before and after
 * each measurement (beside). Only the operations that the mask leaves are counted. If the mask is not causal, causal
 * attention is measured as well, in alternation.
 */
#include "cli/bench/bench_impl.h"
#include "plan/plan.h"
#include "program/program.h"

#include <math.h>
#include <string.h>

/* DELTA belongs to the backward pass; its operations are not counted. */
enum { FORWARD, DELTA, GRADIENT, CALLS };
static const ls_kernel_id kernels[CALLS] = {LS_KERNEL_ATTENTION, LS_KERNEL_ATTENTION_DELTA, LS_KERNEL_ATTENTION_GRAD};

enum { PASS_FORWARD, PASS_BACKWARD, PASS_BOTH, PASSES };
static const char *const passes[PASSES] = {"forward", "backward", "both"};

typedef struct masked {
    const char *name;
    const ls_mask *mask;
    ls_timed_call timed[CALLS];
    int opened;
    double flops[PASSES];
    char row[PASSES][16]; /* the registry's row that computes it (ls_kernel_row); "": for both passes together */
    double seconds[PASSES][LS_BENCH_MOST_ROUNDS];
    /* Mean rate of square products right before and after, in operations per second. */
    double products[LS_BENCH_MOST_ROUNDS];
} masked;

typedef struct bench {
    ls_bench_options job; /* defaults filled in */
    ls_dtype dtype;
    ls_attention_shape shape;
    ls_host_of of;
    int rounds;
    int n; /* masks to measure: 1 or 2 */
    ls_mask causal;
    masked masked[2]; /* the last of the n is causal */
    double floor;
} bench;

static const double SUSTAINED = 0.2; /* seconds of products before and after each measurement */

/* --- measuring ---------------------------------------------------------------------------------------------------- */

static ls_status open_masked(const bench *b, ls_arena *arena, ls_timed_place *place, masked *m) {
    const ls_kernel_call call[CALLS] = {
        ls_attention_call_make(arena, b->dtype, LS_FORWARD, &b->shape, m->mask),
        ls_attention_delta_call(b->dtype, &b->shape),
        ls_attention_call_make(arena, b->dtype, LS_BACKWARD, &b->shape, m->mask),
    };
    const double pairs = ls_attention_call_pairs(&call[FORWARD]), D = (double)b->shape.D, E = (double)b->shape.E;
    m->flops[PASS_FORWARD] = ls_attention_flops(LS_FORWARD, D, E) * pairs;
    m->flops[PASS_BACKWARD] = ls_attention_flops(LS_BACKWARD, D, E) * pairs;
    m->flops[PASS_BOTH] = m->flops[PASS_FORWARD] + m->flops[PASS_BACKWARD];
    for (; m->opened < CALLS; m->opened++)
        LS_TRY(ls_timed_call_open(place, kernels[m->opened], b->dtype, &call[m->opened], &m->timed[m->opened]));
    snprintf(m->row[PASS_FORWARD], sizeof m->row[0], "%s", ls_kernel_row(m->timed[FORWARD].kernel));
    snprintf(m->row[PASS_BACKWARD], sizeof m->row[0], "%s", ls_kernel_row(m->timed[GRADIENT].kernel));
    return ls_ok();
}

static ls_status run_masked(masked *m, int round) {
    double seconds[CALLS];
    for (int i = 0; i < CALLS; i++) LS_TRY(ls_timed_call_run(&m->timed[i], &seconds[i]));
    m->seconds[PASS_FORWARD][round] = seconds[FORWARD];
    m->seconds[PASS_BACKWARD][round] = seconds[DELTA] + seconds[GRADIENT];
    m->seconds[PASS_BOTH][round] = seconds[FORWARD] + seconds[DELTA] + seconds[GRADIENT];
    return ls_ok();
}

static ls_status run_round(bench *b, ls_bench_peak *peak, int round) {
    for (int i = 0; i < b->n; i++) {
        double before, after;
        LS_TRY(ls_bench_peak_update(peak));
        LS_TRY(ls_bench_peak_sustain(peak, SUSTAINED, &before));
        LS_TRY(run_masked(&b->masked[i], round));
        LS_TRY(ls_bench_peak_sustain(peak, SUSTAINED, &after));
        b->masked[i].products[round] = (before + after) / 2;
    }
    ls_log("round %d of %d", round + 1, b->rounds);
    return ls_ok();
}

static ls_status run_rounds(bench *b, ls_bench_peak *peak) {
    for (int i = 0; i < b->n; i++) LS_TRY(run_masked(&b->masked[i], 0)); /* warms up */
    for (int round = 0; round < b->rounds; round++) LS_TRY(run_round(b, peak, round));
    LS_TRY(ls_bench_peak_update(peak));
    b->floor = peak->best;
    return ls_ok();
}

static ls_status measure_on(bench *b, ls_arena *arena, ls_timed_place *place) {
    ls_bench_peak peak;
    LS_TRY(ls_bench_peak_open(place, b->dtype, &peak));
    ls_status status = ls_ok();
    for (int i = 0; i < b->n && status.code == LS_OK; i++) status = open_masked(b, arena, place, &b->masked[i]);
    if (status.code == LS_OK) status = run_rounds(b, &peak);
    for (int i = 0; i < b->n; i++)
        for (int c = 0; c < b->masked[i].opened; c++) ls_timed_call_close(&b->masked[i].timed[c]);
    ls_bench_peak_close(&peak);
    return status;
}

static ls_status measure(bench *b) {
    ls_bench_place place;
    LS_TRY(ls_bench_place_open(&b->job, &b->of, (int)b->job.threads, &place));
    ls_arena *arena = ls_arena_create();
    const ls_status status = measure_on(b, arena, &place.timed);
    ls_arena_destroy(arena);
    ls_bench_place_close(&place);
    return status;
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

static ls_bench_figure figure_of(const bench *b, const masked *m, int pass) {
    return ls_bench_rate_figure(&b->of, b->floor, m->flops[pass] / ls_bench_median(m->seconds[pass], b->rounds));
}

/* The rate divided by that of the products before and after it; the median over rounds. */
static double ratio_to_products(const bench *b, const masked *m, int pass) {
    double ratio[LS_BENCH_MOST_ROUNDS];
    for (int r = 0; r < b->rounds; r++) ratio[r] = m->flops[pass] / m->seconds[pass][r] / m->products[r];
    return ls_bench_median(ratio, b->rounds);
}

/* The rate divided by that of causal attention; the median over rounds. */
static double ratio_to_causal(const bench *b, const masked *m, int pass) {
    const masked *causal = &b->masked[b->n - 1];
    double ratio[LS_BENCH_MOST_ROUNDS];
    for (int r = 0; r < b->rounds; r++)
        ratio[r] = m->flops[pass] / m->seconds[pass][r] / (causal->flops[pass] / causal->seconds[pass][r]);
    return ls_bench_median(ratio, b->rounds);
}

static void print_page(const bench *b, FILE *out) {
    fprintf(out,
            "attention kernels alone · S %lld · Hq %lld · Hkv %lld · D %lld · values %lld · %s · %lld threads · %s · "
            "medians of %d rounds\n\n%-24s %-9s %-8s %11s %7s",
            (long long)b->shape.S, (long long)b->shape.Hq, (long long)b->shape.Hkv, (long long)b->shape.D,
            (long long)b->shape.E, ls_dtype_name(b->dtype), (long long)b->job.threads, ls_bench_machine_name(&b->of),
            b->rounds, "mask", "pass", "kernel", "ms", "beside");
    ls_bench_print_titles("figure", out);
    for (int i = 0; i < b->n * PASSES; i++) {
        const masked *m = &b->masked[i / PASSES];
        const ls_bench_figure figure = figure_of(b, m, i % PASSES);
        fprintf(out, "%-24s %-9s %-8s %11.2f %7.3f", m->name, passes[i % PASSES], m->row[i % PASSES],
                ls_bench_median(m->seconds[i % PASSES], b->rounds) * 1e3, ratio_to_products(b, m, i % PASSES));
        ls_bench_print_figure(&figure, out);
    }
    for (int pass = 0; pass < PASSES && b->n > 1; pass++)
        fprintf(out, "%s%-24s %-9s %.3f of the causal rate\n", pass == 0 ? "\n" : "", b->masked[0].name, passes[pass],
                ratio_to_causal(b, &b->masked[0], pass));
    fprintf(out,
            "\nbeside: the rate over the mean rate of square products for %.1f s right before and after · "
            "floor: the rate of the fastest single one on that type and threads · ratio: the rate over floor · "
            "only pairs that the mask leaves count\n",
            SUSTAINED);
}

static void print_json(const bench *b, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "seq", b->shape.S);
    ls_json_put_int(w, "heads", b->shape.Hq);
    ls_json_put_int(w, "kv_heads", b->shape.Hkv);
    ls_json_put_int(w, "head_size", b->shape.D);
    ls_json_put_int(w, "value_size", b->shape.E);
    ls_json_put_text(w, "dtype", ls_dtype_name(b->dtype));
    ls_json_put_int(w, "threads", b->job.threads);
    ls_json_put_text(w, "isa", ls_isa_name(b->of.isa));
    ls_json_put_text(w, "device", b->of.name);
    ls_json_put_int(w, "rounds", b->rounds);
    ls_json_open_array(w, "passes");
    for (int i = 0; i < b->n * PASSES; i++) {
        const masked *m = &b->masked[i / PASSES];
        const ls_bench_figure figure = figure_of(b, m, i % PASSES);
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "mask", m->name);
        ls_json_put_text(w, "pass", passes[i % PASSES]);
        if (m->row[i % PASSES][0] != 0) ls_json_put_text(w, "kernel", m->row[i % PASSES]);
        ls_json_put_double(w, "seconds", ls_bench_median(m->seconds[i % PASSES], b->rounds));
        ls_bench_put_figure(&figure, w);
        ls_json_put_double(w, "beside", ratio_to_products(b, m, i % PASSES));
        ls_json_put_double(w, "of_causal", ratio_to_causal(b, m, i % PASSES));
        ls_json_close(w);
    }
    ls_json_close(w);
    ls_json_end(w, out);
}

/* --- the bench ---------------------------------------------------------------------------------------------------- */

static ls_status run(bench *b, ls_mask_text *text) {
    ls_bench_options *j = &b->job;
    ls_machine machine;
    ls_machine_detect(&machine);
    LS_TRY(ls_bench_device(j, &b->of));
    ls_bench_fill_in(&j->threads, b->of.device == LS_DEVICE_CPU ? machine.cores : 1);
    LS_TRY(ls_bench_rounds(j, 5, &b->rounds));
    LS_TRY(ls_job_dtype(j->dtype, LS_BF16, &b->dtype));
    b->shape =
        (ls_attention_shape){.S = j->seq, .Hq = j->heads, .Hkv = j->kv_heads, .D = j->head_size, .E = j->value_size};
    if (j->strategy != NULL)
        return ls_error(LS_USAGE, "--strategy %s with --ranks 1; expected 2 ranks or more", j->strategy);
    if (j->heads % j->kv_heads != 0)
        return ls_error(LS_USAGE, "--heads %lld with --kv-heads %lld; expected a multiple", (long long)j->heads,
                        (long long)j->kv_heads);
    LS_TRY(ls_mask_text_read(j->mask, j->seq, text));
    b->causal = ls_mask_causal();
    if (strcmp(j->mask, "causal") != 0) b->masked[b->n++] = (masked){.name = j->mask, .mask = &text->mask};
    b->masked[b->n++] = (masked){.name = "causal", .mask = &b->causal};
    return measure(b);
}

ls_status ls_run_bench_attention_kernels(const ls_bench_job *job, FILE *out) {
    bench b = {.job = job->options};
    ls_mask_text text = {0};
    const ls_status status = run(&b, &text);
    if (status.code == LS_OK && job->json)
        print_json(&b, out);
    else if (status.code == LS_OK)
        print_page(&b, out);
    ls_mask_text_free(&text);
    return status;
}
