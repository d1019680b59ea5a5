/* longspan plan */
#include "cli/cli.h"

typedef struct plan_flags {
    cli_common common;
    ls_plan_job job;
} plan_flags;

#define AT(field) offsetof(plan_flags, job.field)
static const ls_option options[] = {
    CLI_REQUIRED_TEXT("model", "PATH", AT(model), "config.json, or a directory with one"),
    CLI_INT("seq", "N", "1024", 1, 0x1p30, AT(seq), "tokens of a sequence"),
    CLI_INT("batch", "N", "1", 1, 0x1p24, AT(batch),
            "sequences of a step, over all dp ranks and micro-batches"),
    CLI_INT("accumulate", "N", "1", 1, 0x1p24, AT(accumulate), "micro-batches that a step is cut into"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", NULL, AT(dtype), "element type; f32 when left out"),
};
#undef AT

static ls_status run(void *context) {
    plan_flags *flags = context;
    flags->job.spread = cli_spread_of(&flags->common);
    flags->job.rope = flags->common.rope;
    flags->job.json = flags->common.json;
    return ls_run_plan(&flags->job, stdout);
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "what train would use: mesh, strategy, layout, time, bytes",
    .usage = "--model PATH [--seq N] [--ranks R] [--memory BYTES] [options]",
    .about =
        "Compiles a training step for every candidate and runs nothing (with --measure, a few steps on zeros). Says what is chosen and why, what each candidate is "
        "predicted to take, send and map, and what the rank that maps most holds, by kind of buffer: train maps exactly that.\n"
        "With --memory, exit code 1 when a rank needs more; the message says how much, what makes the peak, and what would fit.",
    .opens = true,
    .spreads = true,
    CLI_OWN(options, run, plan_flags),
};
