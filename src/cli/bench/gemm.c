/*
 * The matrix products of a training step, each measured alone: those that the compiled step of the model calls
 * (forward, input gradient, weight gradient; those of the head in its tiles), on operands of the same shapes. The floor
 * is the best rate measured for the type with as many threads, among square products, which are run in each round, and
 * the products themselves.
 */
#include "base/base.h"
#include "cli/bench/bench_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PRODUCTS = 64, MOST_SETTINGS = 4 };

typedef struct product {
    const ls_instr *instr; /* in the image of the setting */
    int64_t M, N, K;
    int uses;        /* how often a step calls it */
    const char *row; /* the registry's row that computes it (ls_kernel_row) */
} product;

/* One type with one number of threads. */
typedef struct setting {
    ls_dtype dtype;
    int threads, n;
    double floor;    /* operations per second */
    ls_image *image; /* the compiled step */
    product product[MOST_PRODUCTS];
    ls_timed_call timed[MOST_PRODUCTS];
    double seconds[MOST_PRODUCTS][LS_BENCH_MOST_ROUNDS];
} setting;

typedef struct bench {
    ls_bench_options options; /* defaults filled in */
    ls_host_of of;
    ls_model *model;
    int rounds, n;
    setting *setting; /* room for MOST_SETTINGS */
} bench;

/* --- the products ------------------------------------------------------------------------------------------------- */

static const char *role_of(const ls_instr *instr) {
    const ls_matmul_params *params = instr->params;
    return params->transpose_a ? "weight gradient" : params->transpose_b ? "forward" : "input gradient";
}

static bool same_product(const ls_instr *a, const ls_instr *b) {
    bool same = strcmp(a->op, b->op) == 0 && a->n_in == b->n_in && a->n_out == b->n_out;
    for (int i = 0; i < a->n_in && same; i++) same = ls_view_same_form(&a->in[i].view, &b->in[i].view);
    return same && ls_view_same_form(&a->out[0].view, &b->out[0].view);
}

static ls_status add_product(setting *s, const ls_instr *instr) {
    for (int i = 0; i < s->n; i++) {
        if (!same_product(s->product[i].instr, instr)) continue;
        s->product[i].uses++;
        return ls_ok();
    }
    if (s->n == MOST_PRODUCTS)
        return ls_error(LS_UNSUPPORTED, "the model has more than %d different products", MOST_PRODUCTS);
    const ls_view rows = ls_view_rows(instr->out[0].view);
    const double outputs = (double)rows.size[0] * (double)rows.size[1];
    s->product[s->n++] = (product){.instr = instr,
                                   .M = rows.size[0],
                                   .N = rows.size[1],
                                   .K = (int64_t)llround(instr->flops / (2 * outputs)),
                                   .uses = 1};
    return ls_ok();
}

/* Compiles a step of the model for one rank, and finds its products. */
static ls_status find_products(const bench *b, setting *s) {
    ls_language_model lm;
    ls_graph *graph = ls_graph_create(s->dtype);
    const ls_target target = {.mesh = (ls_mesh){0},
                              .strategy = "local",
                              .layout = LS_LAYOUT_CONTIGUOUS,
                              .isa = b->of.isa,
                              .device = b->of.name,
                              .threads = s->threads,
                              .saving = {.tile = LS_TILE_LOSS}};
    ls_status status = ls_model_build(b->model, graph, 1, b->options.seq, true, &lm);
    const ls_job job = {.graph = graph, .programs = ls_training_programs(graph, 0, LS_UPDATE_APPLY, 0)};
    if (status.code == LS_OK) status = ls_compile(&job, &target, &s->image);
    ls_graph_destroy(graph);
    LS_TRY(status);
    const ls_program *p = &s->image->programs[ls_program_find(s->image, LS_PROGRAM_STEP)];
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        if (instr->kind == LS_INSTR_KERNEL && instr->kernel->id == LS_KERNEL_MATMUL) LS_TRY(add_product(s, instr));
    }
    return ls_ok();
}

/* --- one setting -------------------------------------------------------------------------------------------------- */

/* Opens a timed call with the shapes of an instruction. */
static ls_status open_call(const setting *s, const ls_instr *instr, ls_timed_place *place, ls_timed_call *out) {
    ls_kernel_call call = {.n_in = instr->n_in, .n_out = instr->n_out, .params = instr->params};
    for (int i = 0; i < instr->n_in; i++) call.in[i] = instr->in[i].view;
    for (int i = 0; i < instr->n_out; i++) call.out[i] = instr->out[i].view;
    return ls_timed_call_open(place, instr->kernel->id, s->dtype, &call, out);
}

static ls_status run_rounds(const bench *b, setting *s, ls_bench_peak *peak) {
    for (int i = 0; i < s->n; i++) LS_TRY(ls_timed_call_run(&s->timed[i], &s->seconds[i][0])); /* warms up */
    for (int r = 0; r < b->rounds; r++) {
        LS_TRY(ls_bench_peak_update(peak));
        for (int i = 0; i < s->n; i++) {
            LS_TRY(ls_timed_call_run(&s->timed[i], &s->seconds[i][r]));
            peak->best = fmax(peak->best, s->product[i].instr->flops / s->seconds[i][r]);
        }
    }
    LS_TRY(ls_bench_peak_update(peak));
    s->floor = peak->best;
    return ls_ok();
}

static ls_status measure_on(const bench *b, setting *s, ls_timed_place *place) {
    ls_bench_peak peak;
    LS_TRY(ls_bench_peak_open(place, s->dtype, &peak));
    ls_status status = ls_ok();
    int opened = 0;
    for (; opened < s->n && status.code == LS_OK; opened++) {
        status = open_call(s, s->product[opened].instr, place, &s->timed[opened]);
        if (status.code != LS_OK) break;
        s->product[opened].row = ls_kernel_row(s->timed[opened].kernel);
    }
    if (status.code == LS_OK) status = run_rounds(b, s, &peak);
    for (int i = 0; i < opened; i++) ls_timed_call_close(&s->timed[i]);
    ls_bench_peak_close(&peak);
    return status;
}

static ls_status measure(const bench *b, setting *s) {
    LS_TRY(find_products(b, s));
    ls_bench_place place;
    LS_TRY(ls_bench_place_open(&b->options, &b->of, s->threads, &place));
    const ls_status status = measure_on(b, s, &place.timed);
    ls_bench_place_close(&place);
    return status;
}

/* --- the figures -------------------------------------------------------------------------------------------------- */

static ls_bench_figure product_figure(const bench *b, const setting *s, int i) {
    return ls_bench_rate_figure(&b->of, s->floor,
                                s->product[i].instr->flops / ls_bench_median(s->seconds[i], b->rounds));
}

/* The figure of all products of a step, each counted as often as it is used. */
static ls_bench_figure sum_figure(const bench *b, const setting *s) {
    double flops = 0, seconds = 0;
    for (int i = 0; i < s->n; i++) {
        flops += s->product[i].uses * s->product[i].instr->flops;
        seconds += s->product[i].uses * ls_bench_median(s->seconds[i], b->rounds);
    }
    return ls_bench_rate_figure(&b->of, s->floor, flops / seconds);
}

static void print_setting(const bench *b, const setting *s, FILE *out) {
    const char *type = ls_dtype_name(s->dtype);
    for (int i = 0; i < s->n; i++) {
        const product *p = &s->product[i];
        const ls_bench_figure figure = product_figure(b, s, i);
        fprintf(out, "%-5s %7d  %-16s %-8s %6lld %6lld %6lld %5d", type, s->threads, role_of(p->instr), p->row,
                (long long)p->M, (long long)p->N, (long long)p->K, p->uses);
        ls_bench_print_figure(&figure, out);
    }
    const ls_bench_figure sum = sum_figure(b, s);
    fprintf(out, "%-5s %7d  %-52s", type, s->threads, "all of a step");
    ls_bench_print_figure(&sum, out);
}

static void print_page(const bench *b, FILE *out) {
    fprintf(out, "matrix products of a training step · %s · S %lld · %s · medians of %d rounds\n\n",
            ls_bench_model_name(&b->options), (long long)b->options.seq, ls_bench_machine_name(&b->of), b->rounds);
    fprintf(out, "%-5s %7s  %-16s %-8s %6s %6s %6s %5s", "type", "threads", "product", "kernel", "M", "N", "K", "uses");
    ls_bench_print_titles("figure", out);
    for (int i = 0; i < b->n; i++) print_setting(b, &b->setting[i], out);
    fprintf(out, "\nfloor: the fastest run of any product on that type and threads, square ones among them\n");
}

static void put_setting(const bench *b, const setting *s, ls_json_writer *w) {
    ls_json_open_object(w, NULL);
    ls_json_put_text(w, "dtype", ls_dtype_name(s->dtype));
    ls_json_put_int(w, "threads", s->threads);
    ls_json_open_array(w, "products");
    for (int i = 0; i < s->n; i++) {
        const product *p = &s->product[i];
        const ls_bench_figure figure = product_figure(b, s, i);
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "product", role_of(p->instr));
        ls_json_put_int(w, "M", p->M);
        ls_json_put_int(w, "N", p->N);
        ls_json_put_int(w, "K", p->K);
        ls_json_put_int(w, "uses", p->uses);
        ls_json_put_text(w, "kernel", p->row);
        ls_bench_put_figure(&figure, w);
        ls_json_close(w);
    }
    ls_json_close(w);
    const ls_bench_figure sum = sum_figure(b, s);
    ls_bench_put_figure(&sum, w);
    ls_json_close(w);
}

static void print_json(const bench *b, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "model", ls_bench_model_name(&b->options));
    ls_json_put_int(w, "seq", b->options.seq);
    ls_json_put_text(w, "isa", ls_isa_name(b->of.isa));
    ls_json_put_text(w, "device", b->of.name);
    ls_json_put_int(w, "rounds", b->rounds);
    ls_json_open_array(w, "settings");
    for (int i = 0; i < b->n; i++) put_setting(b, &b->setting[i], w);
    ls_json_close(w);
    ls_json_end(w, out);
}

/* --- the bench ---------------------------------------------------------------------------------------------------- */

static ls_status add_setting(bench *b, ls_dtype dtype, int threads) {
    setting *s = &b->setting[b->n++];
    s->dtype = dtype;
    s->threads = threads;
    return measure(b, s);
}

static ls_status run(bench *b) {
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    ls_bench_options *o = &b->options;
    ls_dtype only;
    ls_machine machine;
    ls_machine_detect(&machine);
    LS_TRY(ls_bench_device(o, &b->of));
    ls_bench_fill_in(&o->seq, 2048);
    ls_bench_fill_in(&o->threads, b->of.device == LS_DEVICE_CPU ? machine.cores : 1);
    LS_TRY(ls_bench_rounds(o, 5, &b->rounds));
    LS_TRY(ls_job_dtype(o->dtype, LS_BF16, &only));
    if (only == LS_F64) return ls_error(LS_USAGE, "--dtype f64; expected f32 or bf16, both when left out");
    LS_TRY(ls_bench_model_open(o, &b->model));
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        if (o->dtype != NULL && types[t] != only) continue;
        LS_TRY(add_setting(b, types[t], 1));
        if (o->threads > 1) LS_TRY(add_setting(b, types[t], (int)o->threads));
    }
    return ls_ok();
}

ls_status ls_run_bench_gemm(const ls_bench_job *job, FILE *out) {
    bench b = {.options = job->options, .setting = calloc(MOST_SETTINGS, sizeof *b.setting)};
    if (b.setting == NULL) return ls_error(LS_NO_MEMORY, "no memory for a bench");
    const ls_status status = run(&b);
    if (status.code == LS_OK && job->json)
        print_json(&b, out);
    else if (status.code == LS_OK)
        print_page(&b, out);
    for (int i = 0; i < b.n; i++) ls_image_destroy(b.setting[i].image);
    free(b.setting);
    ls_model_close(b.model);
    return status;
}
