/* longspan grad */
#include "cli/cli.h"

typedef struct grad_flags {
    cli_common common;
    ls_grad_job job;
} grad_flags;

#define AT(field) offsetof(grad_flags, job.field)
static const ls_option options[] = {
    CLI_MODEL(AT(model)),
    CLI_REQUIRED_TEXT("tokens", "FILE", AT(tokens), "token ids [B,S], i4 or i8 .npy"),
    CLI_TEXT("labels", "FILE", AT(labels),
             "target at each position [B,S], -100 is ignored; the next token when left out"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype), "element type; f32 when left out"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of random weights, when the model has none"),
    CLI_REQUIRED_TEXT("out", "FILE", AT(out),
                      "safetensors with the weights' names and shapes, F32 (F64 for f64)"),
    CLI_TEXT("logits", "FILE", AT(logits), "the logits too, [B,S,V], f4 (f8 for f64) .npy"),
};
#undef AT

static ls_status run(void *context) {
    grad_flags *flags = context;
    ls_grad_result result;
    flags->job.spread = cli_spread_of(&flags->common);
    flags->job.rope = flags->common.rope;
    LS_TRY(ls_run_grad(&flags->job, &result));
    if (flags->common.json) {
        ls_grad_result_json(&result, stdout);
        return ls_ok();
    }
    printf("loss %.9g over %lld tokens\n", result.loss, (long long)result.tokens);
    cli_print_spread(&result.spread);
    const char *logits = flags->job.logits;
    printf("wrote %s%s%s\n", flags->job.out, logits != NULL ? ", " : "", logits != NULL ? logits : "");
    return ls_ok();
}

const cli_command cli_grad = {
    .name = "grad",
    .summary = "loss and gradients of a model on given tokens",
    .usage = "--model PATH --tokens FILE [--labels FILE] --out FILE [options]",
    .about =
        "One forward and backward. The loss is the mean over all labels that are not -100, in nats; so are its gradients.",
    .opens = true,
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, grad_flags),
};
