/* longspan train */
#include "cli/cli.h"

#include <string.h>

typedef struct train_flags {
    cli_common common;
    cli_spread spread;
    ls_option_list data;
    ls_train_options options;
} train_flags;

/* Defaults stand here for --help; the library has them too and learns what was not given as zero (see forget_defaults). */
#define AT(field) offsetof(train_flags, options.field)
static const ls_option options[] = {
    {.name = "model",
     .type = LS_OPTION_TEXT,
     .metavar = "PATH",
     .required = true,
     .offset = AT(model),
     .help = "config.json, or a directory with one and, to go on from, *.safetensors"},
    {.name = "data",
     .type = LS_OPTION_LIST,
     .metavar = "PATH",
     .required = true,
     .offset = offsetof(train_flags, data),
     .help = "text files, or directories of them"},
    {.name = "out",
     .type = LS_OPTION_TEXT,
     .metavar = "DIR",
     .required = true,
     .offset = AT(out),
     .help = "for run.json, metrics.jsonl, loss.svg and checkpoints"},
    {.name = "seq",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "1024",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(seq),
     .help = "tokens of a sequence (N + 1 are read)"},
    {.name = "steps",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "100",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(steps),
     .help = "optimiser steps in all, resumed ones included"},
    {.name = "batch",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "1",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(batch),
     .help = "sequences of a step, over all dp ranks and micro-batches"},
    {.name = "accumulate",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "1",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(accumulate),
     .help = "micro-batches that a step is cut into"},
    {.name = "lr",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .initial = "1e-3",
     .least = 1e-30,
     .most = 0x1p62,
     .offset = AT(lr),
     .help = "largest learning rate"},
    {.name = "warmup",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "0",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(warmup),
     .help = "steps of linear warm-up"},
    {.name = "schedule",
     .type = LS_OPTION_CHOICE,
     .metavar = "NAME",
     .choices = "cosine|constant|wsd",
     .initial = "cosine",
     .offset = AT(schedule),
     .help = "of the learning rate after the warm-up"},
    {.name = "beta1",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .initial = "0.9",
     .least = 1e-9,
     .most = 0.999999999,
     .offset = AT(beta1),
     .help = "of AdamW"},
    {.name = "beta2",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .initial = "0.95",
     .least = 1e-9,
     .most = 0.999999999,
     .offset = AT(beta2),
     .help = "of AdamW"},
    {.name = "eps",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .initial = "1e-8",
     .least = 1e-30,
     .most = 1,
     .offset = AT(eps),
     .help = "of AdamW"},
    {.name = "weight-decay",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .initial = "0.1",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(weight_decay),
     .help = "of matrices; 0: none"},
    {.name = "clip",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .initial = "1",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(clip),
     .help = "largest norm of the gradient; 0: any"},
    CLI_DTYPE_ROW(train_flags, options.dtype, "f32|bf16", "f32"),
    {.name = "seed",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "0",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(seed),
     .help = "of weights and of the order of the data"},
    {.name = "save-every",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "0",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(save_every),
     .help = "steps between checkpoints; 0: at the end only"},
    {.name = "keep",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "0",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(keep),
     .help = "newest checkpoints to keep; 0: all"},
    {.name = "resume",
     .type = LS_OPTION_FLAG,
     .offset = AT(resume),
     .help = "go on from the newest checkpoint in --out; flags may not contradict its run.json"},
    {.name = "replan",
     .type = LS_OPTION_FLAG,
     .offset = AT(replan),
     .help = "with --resume: another mesh, strategy or instruction set is allowed"},
    {.name = "eval-data",
     .type = LS_OPTION_TEXT,
     .metavar = "PATH",
     .offset = AT(eval_data),
     .help = "text to evaluate on"},
    {.name = "eval-every",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(eval_every),
     .help = "steps between evaluations; a tenth of --steps when left out"},
    {.name = "max-seconds",
     .type = LS_OPTION_FLOAT,
     .metavar = "S",
     .least = 0.001,
     .most = 0x1p62,
     .offset = AT(max_seconds),
     .help = "stop after this time, with a checkpoint; never when left out"},
    {.name = "trace",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .offset = AT(trace),
     .help = "what each queue of each rank did when in about the last 4 steps, as JSON for ui.perfetto.dev"},
    CLI_SPREAD_ROWS(train_flags),
    CLI_RUN_ROWS(train_flags),
    CLI_COMMON_ROWS(train_flags),
};
#undef AT

/*
 * The library tells "not given" (zero: its default, or what a resumed run had) from a value; so what the parser filled in from the
 * table is taken out again. Zero as a value of --clip and --weight-decay is written as -1 there.
 */
static void forget_defaults(train_flags *flags) {
    for (size_t i = 0; i < CLI_COUNT(options); i++) {
        const ls_option *row = &options[i];
        char *target = (char *)flags + row->offset;
        const bool ours = row->offset >= offsetof(train_flags, options);
        if (!ours || flags->common.given[i] || row->initial == NULL) continue;
        const size_t bytes = row->type == LS_OPTION_CHOICE ? sizeof(char *) : sizeof(int64_t);
        memset(target, 0, bytes);
    }
}

static void turn_off_zeros(train_flags *flags) {
    ls_train_options *o = &flags->options;
    double *const fields[] = {&o->clip, &o->weight_decay};
    for (size_t i = 0; i < CLI_COUNT(options); i++) {
        for (size_t f = 0; f < CLI_COUNT(fields); f++) {
            if (flags->common.given[i] && (char *)flags + options[i].offset == (char *)fields[f] &&
                *fields[f] == 0)
                *fields[f] = -1;
        }
    }
}

static void print_result(const ls_train_result *r, const char *out) {
    char predicted[LS_BYTES_TEXT], measured[LS_BYTES_TEXT], alone[LS_BYTES_TEXT];
    printf("%s\n", r->reason);
    printf("%lld steps%s · loss %.4f → %.4f", (long long)r->steps, r->interrupted ? " (interrupted)" : "",
           r->first_loss, r->last_loss);
    if (r->eval_loss == r->eval_loss) printf(" · evaluation %.4f", r->eval_loss);
    printf(" · unigram %.4f nats\n", r->unigram_loss);
    printf("%.0f tokens/s · waiting %.1f %% of the time\n", r->tokens_per_second, r->wait_fraction * 100);
    printf("memory of a rank: %s predicted, %s measured; one rank alone would need %s\n",
           ls_bytes_text((double)r->predicted_bytes, predicted),
           ls_bytes_text((double)r->measured_bytes, measured),
           ls_bytes_text((double)r->one_rank_bytes, alone));
    printf("curve       %s/loss.svg\ncheckpoint  %s\n", out, r->checkpoint);
}

static ls_status run(void *context) {
    train_flags *flags = context;
    ls_train_options *o = &flags->options;
    forget_defaults(flags);
    turn_off_zeros(flags);
    o->data = flags->data.items;
    o->n_data = flags->data.count;
    o->spread = cli_spread_of(&flags->spread);
    ls_train_result result;
    const ls_status status = ls_train(o, &result);
    if (status.code != LS_OK && status.code != LS_INTERRUPTED) return status;
    if (flags->common.json)
        ls_train_result_json(&result, stdout);
    else
        print_result(&result, o->out);
    return status;
}

const cli_command cli_train = {
    .name = "train",
    .summary = "train a model on text, each sequence shared by the ranks",
    .usage = "--model PATH --data PATH... --out DIR [--seq N] [--ranks R] [options]",
    .about =
        "Writes DIR/run.json (everything that was resolved), DIR/metrics.jsonl (a line per step), DIR/loss.svg and checkpoints. "
        "Ctrl-C ends after the step with a checkpoint; a second one ends at once. What is left out is chosen well and said.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .run = run,
    .flags_bytes = sizeof(train_flags),
};
