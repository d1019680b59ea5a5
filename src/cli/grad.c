/* longspan grad */
#include "cli/cli.h"

typedef struct grad_flags {
    cli_common common;
    cli_spread spread;
    ls_grad_job job;
} grad_flags;

#define AT(field) offsetof(grad_flags, job.field)
static const ls_option options[] = {
    {.name = "model",
     .type = LS_OPTION_TEXT,
     .metavar = "PATH",
     .required = true,
     .offset = AT(model),
     .help = "config.json, or a directory with one and, if trained, *.safetensors"},
    {.name = "tokens",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .required = true,
     .offset = AT(tokens),
     .help = "token ids [B,S], i4 or i8 .npy"},
    {.name = "labels",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .offset = AT(labels),
     .help = "target at each position [B,S], -100 is ignored; the next token when left out"},
    CLI_DTYPE_ROW(grad_flags, job.dtype, "f32|f64|bf16", "f32"),
    {.name = "seed",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "0",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(seed),
     .help = "of random weights, when the model has none"},
    {.name = "out",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .required = true,
     .offset = AT(out),
     .help = "safetensors with the weights' names and shapes, F32 (F64 for f64)"},
    CLI_SPREAD_ROWS(grad_flags),
    CLI_RUN_ROWS(grad_flags),
    CLI_COMMON_ROWS(grad_flags),
};
#undef AT

static ls_status run(void *context) {
    grad_flags *flags = context;
    ls_grad_result result;
    flags->job.spread = cli_spread_of(&flags->spread);
    LS_TRY(ls_run_grad(&flags->job, &result));
    if (flags->common.json) {
        ls_grad_result_json(&result, stdout);
        return ls_ok();
    }
    printf("loss %.9g over %lld tokens\n", result.loss, (long long)result.tokens);
    cli_print_spread(&result.spread);
    printf("wrote %s\n", flags->job.out);
    return ls_ok();
}

const cli_command cli_grad = {
    .name = "grad",
    .summary = "loss and gradients of a model on given tokens",
    .usage = "--model PATH --tokens FILE [--labels FILE] --out FILE [--ranks R] [options]",
    .about =
        "One forward and backward. The loss is the mean over all labels that are not -100, in nats; so are its gradients.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .run = run,
    .flags_bytes = sizeof(grad_flags),
};
