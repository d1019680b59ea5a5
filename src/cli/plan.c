/* longspan plan */
#include "cli/cli.h"

typedef struct plan_flags {
    cli_common common;
    cli_spread spread;
    ls_plan_job job;
} plan_flags;

#define AT(field) offsetof(plan_flags, job.field)
static const ls_option options[] = {
    {.name = "model",
     .type = LS_OPTION_TEXT,
     .metavar = "PATH",
     .required = true,
     .offset = AT(model),
     .help = "config.json, or a directory with one"},
    {.name = "seq",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "1024",
     .least = 1,
     .most = 0x1p30,
     .offset = AT(seq),
     .help = "tokens of a sequence"},
    {.name = "batch",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "1",
     .least = 1,
     .most = 0x1p24,
     .offset = AT(batch),
     .help = "sequences of a step, over all dp ranks and micro-batches"},
    {.name = "accumulate",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "1",
     .least = 1,
     .most = 0x1p24,
     .offset = AT(accumulate),
     .help = "micro-batches that a step is cut into"},
    CLI_DTYPE_ROW(plan_flags, job.dtype, "f32|bf16", "f32"),
    CLI_SPREAD_ROWS(plan_flags),
    CLI_COMMON_ROWS(plan_flags),
};
#undef AT

static ls_status run(void *context) {
    plan_flags *flags = context;
    flags->job.spread = cli_spread_of(&flags->spread);
    flags->job.json = flags->common.json;
    return ls_run_plan(&flags->job, stdout);
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "what train would use: mesh, strategy, layout, time, bytes",
    .usage = "--model PATH [--seq N] [--ranks R] [--memory BYTES] [options]",
    .about =
        "Compiles a training step for every candidate and runs nothing. Says what is chosen and why, what each candidate is "
        "predicted to take, send and map, and what the rank that maps most holds, by kind of buffer: train maps exactly that.\n"
        "With --memory, exit code 1 when a rank needs more; the message says how much, what makes the peak, and what would fit.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .run = run,
    .flags_bytes = sizeof(plan_flags),
};
