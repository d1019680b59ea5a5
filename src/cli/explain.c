/* longspan explain */
#include "cli/cli.h"

typedef struct explain_flags {
    cli_common common;
    cli_spread spread;
    ls_explain_job job;
} explain_flags;

#define AT(field) offsetof(explain_flags, job.field)
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
     .most = 0x1p62,
     .offset = AT(seq),
     .help = "tokens of a sequence"},
    {.name = "batch",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "1",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(batch),
     .help = "sequences of a micro-batch, over all dp ranks"},
    {.name = "accumulate",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "1",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(accumulate),
     .help = "micro-batches of a step; of several, all but the last are program micro"},
    CLI_DTYPE_ROW(explain_flags, job.dtype, "f32|f64|bf16", "f32"),
    {.name = "rank",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "0",
     .least = 0,
     .most = 1023,
     .offset = AT(rank),
     .help = "whose program to print"},
    {.name = "program",
     .type = LS_OPTION_CHOICE,
     .metavar = "NAME",
     .choices = "micro|step|evaluate",
     .offset = AT(program),
     .help = "which program; all when left out"},
    {.name = "passes",
     .type = LS_OPTION_FLAG,
     .offset = AT(passes),
     .help = "instead of the programs: what each pass made, and the ops by count, flops and bytes"},
    {.name = "memory-map",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .offset = AT(memory_map),
     .help = "draw the rank's memory over its programs into an SVG file"},
    CLI_SPREAD_ROWS(explain_flags),
    CLI_COMMON_ROWS(explain_flags),
};
#undef AT

static ls_status run(void *context) {
    explain_flags *flags = context;
    flags->job.spread = cli_spread_of(&flags->spread);
    flags->job.json = flags->common.json;
    return ls_run_explain(&flags->job, stdout);
}

const cli_command cli_explain = {
    .name = "explain",
    .summary = "print the compiled program of a rank, and what it was chosen from",
    .usage = "--model PATH [--seq N] [--ranks R] [--rank N] [options]",
    .about =
        "Compiles a training step and runs nothing. First the candidates: what each is predicted to take, send and map on the "
        "busiest rank. Then the programs: one instruction a line, with its queue, operands, the peer and generation of a "
        "transfer, and the instruction of the other queue that it comes after.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .run = run,
    .flags_bytes = sizeof(explain_flags),
};
