/*
 * How accurately steps are predicted. Each round measures this machine's rates as `bench machine` does, predicts the
 * steps of eight configurations with them, and runs the steps. The configurations differ in what a prediction could get
 * wrong: width, length, type, ranks, threads, strategy.
 */
#include "base/base.h"
#include "cli/bench/bench_impl.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>

/* The models have few layers, because all layers are alike. */
typedef struct sizes {
    const char *name;
    int E, F, layers, heads, kv_heads, vocabulary;
    bool tied;
} sizes;

static const sizes tiny = {"E 64", 64, 176, 2, 4, 2, 256, false};
static const sizes small = {"E 256", 256, 688, 4, 4, 2, 256, false};
static const sizes medium = {"E 768", 768, 2048, 1, 12, 4, 8000, false};
static const sizes tied = {"E 768, tied", 768, 2048, 1, 12, 12, 16000, true};

static const struct {
    const sizes *model;
    int64_t seq;
    int ranks, threads;
    const char *dtype, *strategy;
} configurations[] = {
    {&medium, 2048, 1, 2, "bf16", "local"}, {&medium, 2048, 2, 1, "f32", "ring"},
    {&medium, 2048, 1, 1, "f32", "local"},  {&medium, 8192, 2, 1, "bf16", "ulysses"},
    {&small, 8192, 2, 1, "f32", "ring"},    {&small, 8192, 1, 2, "bf16", "local"},
    {&tied, 2048, 1, 2, "f32", "local"},    {&tiny, 2048, 2, 1, "f32", "ulysses"},
};

static ls_status open_model(const sizes *n, ls_model **out) {
    char text[512];
    snprintf(text, sizeof text,
             "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d, \"intermediate_size\": %d, "
             "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
             "\"vocab_size\": %d, \"tie_word_embeddings\": %s}",
             n->E, n->F, n->layers, n->heads, n->kv_heads, n->vocabulary, n->tied ? "true" : "false");
    return ls_model_open_text(n->name, text, out);
}

enum { STEPS = 3 }; /* steps of a configuration in a round */

/*
 * One configuration in one round: the seconds of a step, and of its instructions alone. The latter use the fastest run
 * of each instruction, which other programs on the machine disturb less.
 */
typedef struct outcome {
    double predicted, measured;
    double instrs_predicted, instrs_fastest;
} outcome;

static void add_instrs(const ls_bench_step *b, outcome *o) {
    for (int r = 0; r < b->ranks; r++) {
        const ls_program *p = &ls_images_of(&b->images, r)->programs[b->step];
        for (int i = 0; i < p->n_instrs; i++) {
            double fastest = INFINITY;
            if (ls_traits(&p->instrs[i])->awaits) continue;
            for (int k = 0; k < b->rounds; k++) fastest = fmin(fastest, ls_bench_step_seconds(b, r, k)[i]);
            o->instrs_fastest += fastest / b->ranks;
            o->instrs_predicted += ls_bench_step_predicted(b, r)[i] / b->ranks;
        }
    }
}

/* The length of a configuration, or --seq if that is shorter. */
static int64_t length_of(const ls_bench_options *given, size_t c) {
    return given->seq > 0 ? ls_min(given->seq, configurations[c].seq) : configurations[c].seq;
}

static ls_status run_one(const ls_bench_options *given, size_t c, const ls_host *host, outcome *out) {
    const bool threads = host->devices == 0; /* threads do not apply to a GPU */
    ls_bench_step b = {.options = {.seq = length_of(given, c),
                                   .ranks = configurations[c].ranks,
                                   .threads = threads ? configurations[c].threads : 0,
                                   .rounds = STEPS,
                                   .dtype = configurations[c].dtype,
                                   .strategy = configurations[c].strategy,
                                   .device = given->device,
                                   .ranks_as = given->ranks_as,
                                   .config = given->config},
                       .host = host,
                       .without_floor = true};
    ls_status status =
        given->config != NULL ? ls_bench_model_open(given, &b.model) : open_model(configurations[c].model, &b.model);
    if (status.code == LS_OK) status = ls_bench_step_run(&b);
    if (status.code == LS_OK) {
        *out = (outcome){.predicted = ls_simulated_seconds(b.simulated, b.ranks), .measured = ls_bench_step_median(&b)};
        add_instrs(&b, out);
    }
    ls_bench_step_close(&b);
    return status;
}

/* Medians over the rounds. A ratio is that of one round, whose rates and steps were measured close together. */
typedef struct summary {
    double predicted, measured;
    double ratio, least, most;
    double undisturbed; /* ratio of the instructions alone */
} summary;

static summary summarise(const outcome *round, int rounds) {
    double predicted[LS_BENCH_MOST_ROUNDS], measured[LS_BENCH_MOST_ROUNDS], ratio[LS_BENCH_MOST_ROUNDS],
        undisturbed[LS_BENCH_MOST_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        predicted[i] = round[i].predicted;
        measured[i] = round[i].measured;
        ratio[i] = round[i].predicted / round[i].measured;
        undisturbed[i] = round[i].instrs_predicted / round[i].instrs_fastest;
    }
    summary s = {.predicted = ls_median(predicted, rounds),
                 .measured = ls_median(measured, rounds),
                 .ratio = ls_median(ratio, rounds),
                 .undisturbed = ls_median(undisturbed, rounds)};
    s.least = ratio[0]; /* ls_median has sorted the ratios */
    s.most = ratio[rounds - 1];
    return s;
}

static const char *model_of(const ls_bench_options *given, size_t c) {
    return given->config != NULL ? given->config : configurations[c].model->name;
}

static void print_line(const ls_bench_options *given, size_t c, const summary *s, FILE *out) {
    char predicted[LS_SECONDS_TEXT], measured[LS_SECONDS_TEXT];
    fprintf(out, "%-12s S %-6lld %d × %d  %-5s %-8s %12s %12s %8.3f %8.3f %8.3f %12.3f\n", model_of(given, c),
            (long long)length_of(given, c), configurations[c].ranks, configurations[c].threads, configurations[c].dtype,
            configurations[c].strategy, ls_seconds_text(s->predicted, predicted),
            ls_seconds_text(s->measured, measured), s->ratio, s->least, s->most, s->undisturbed);
}

static void print_page(const ls_bench_options *given, const ls_host_of *of, const summary *all, int rounds, FILE *out) {
    double most = 0;
    fprintf(out, "%-43s %12s %12s %8s %8s %8s %12s\n", ls_bench_machine_name(of), "predicted", "measured", "ratio",
            "least", "most", "undisturbed");
    for (size_t c = 0; c < LS_COUNT(configurations); c++) {
        print_line(given, c, &all[c], out);
        most = fmax(most, fabs(log(all[c].ratio)));
    }
    fprintf(out, "%-68s %8.3f\n\n", "farthest from 1", exp(most));
    fprintf(out,
            "medians of %d rounds, each with rates of its own · undisturbed: the same ratio of instructions alone, by "
            "the fastest run of each\n",
            rounds);
}

static void print_json(const ls_bench_options *given, const ls_host_of *of, size_t c, const summary *s, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "model", model_of(given, c));
    ls_json_put_int(w, "seq", length_of(given, c));
    ls_json_put_int(w, "ranks", configurations[c].ranks);
    ls_json_put_int(w, "threads", configurations[c].threads);
    ls_json_put_text(w, "dtype", configurations[c].dtype);
    ls_json_put_text(w, "strategy", configurations[c].strategy);
    ls_json_put_text(w, "isa", ls_isa_name(of->isa));
    ls_json_put_text(w, "device", of->name);
    ls_json_put_double(w, "predicted_seconds", s->predicted);
    ls_json_put_double(w, "seconds", s->measured);
    ls_json_put_double(w, "ratio", s->ratio);
    ls_json_put_double(w, "least_ratio", s->least);
    ls_json_put_double(w, "most_ratio", s->most);
    ls_json_put_double(w, "instructions_ratio", s->undisturbed);
    ls_json_end(w, out);
}

typedef struct measured {
    ls_host_of of;
    ls_host host;
} measured;

static ls_status measure_rates(void *context) {
    measured *m = context;
    ls_row_rates rows;
    return ls_host_measure(&m->of, &m->host, &rows);
}

static ls_status run_round(const ls_bench_options *given, measured *m, int i, outcome (*round)[LS_BENCH_MOST_ROUNDS]) {
    /* Forked ranks cannot use a driver that this process has initialised. */
    LS_TRY(ls_bench_as_threads(given) ? measure_rates(m) : ls_apart(measure_rates, m, &m->host, sizeof m->host));
    for (size_t c = 0; c < LS_COUNT(configurations); c++) LS_TRY(run_one(given, c, &m->host, &round[c][i]));
    return ls_ok();
}

ls_status ls_run_bench_predicted(const ls_bench_job *job, FILE *out) {
    static outcome round[LS_COUNT(configurations)][LS_BENCH_MOST_ROUNDS];
    const ls_bench_options *given = &job->options;
    summary all[LS_COUNT(configurations)];
    measured m;
    int rounds;
    LS_TRY(ls_bench_device(given, &m.of));
    LS_TRY(ls_bench_rounds(given, 3, &rounds));
    for (int i = 0; i < rounds; i++) {
        ls_log("round %d of %d: rates, then steps", i + 1, rounds);
        LS_TRY(run_round(given, &m, i, round));
    }
    for (size_t c = 0; c < LS_COUNT(configurations); c++) all[c] = summarise(round[c], rounds);
    if (!job->json) print_page(given, &m.of, all, rounds, out);
    for (size_t c = 0; c < LS_COUNT(configurations) && job->json; c++) print_json(given, &m.of, c, &all[c], out);
    return ls_ok();
}
