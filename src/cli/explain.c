/* longspan explain */
#include "cli/cli.h"

typedef struct explain_flags {
    cli_common common;
    ls_explain_job job;
} explain_flags;

#define AT(field) offsetof(explain_flags, job.field)
static const ls_option options[] = {
    CLI_REQUIRED_TEXT("model", "PATH", AT(model), "config.json, or a directory with one"),
    CLI_INT("seq", "N", "1024", 1, 0x1p30, AT(seq), "tokens of a sequence"),
    CLI_INT("batch", "N", "1", 1, 0x1p24, AT(batch), "sequences of a micro-batch, over all dp ranks"),
    CLI_INT("accumulate", "N", "1", 1, CLI_ANY, AT(accumulate),
            "micro-batches of a step; of several, all but the last are program micro"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype), "element type; f32 when left out"),
    CLI_INT("rank", "N", "0", 0, 1023, AT(rank), "whose program to print"),
    CLI_CHOICE("program", "NAME", "micro|step|evaluate", NULL, AT(program),
               "which program; all when left out"),
    CLI_FLAG("passes", AT(passes),
             "instead of the programs: what each pass made, and the ops by count, flops and bytes"),
    CLI_TEXT("memory-map", "FILE", AT(memory_map),
             "draw the rank's memory over its programs into an SVG file"),
    CLI_TEXT(
        "schedule", "FILE", AT(schedule),
        "draw what the queues of all ranks do when, as predicted, into an SVG file: of --program, else of the step"),
    CLI_FLAG("run", AT(run),
             "with --schedule: run the program here, and draw what was measured beneath what was predicted"),
};
#undef AT

static ls_status run(void *context) {
    explain_flags *flags = context;
    flags->job.spread = cli_spread_of(&flags->common);
    flags->job.rope = flags->common.rope;
    flags->job.json = flags->common.json;
    return ls_run_explain(&flags->job, stdout);
}

const cli_command cli_explain = {
    .name = "explain",
    .summary = "print the compiled program of a rank, and what it was chosen from",
    .usage = "--model PATH [--seq N] [--ranks R] [--rank N] [options]",
    .about =
        "Compiles a training step and, without --run or --measure, runs nothing. First the candidates: what each is predicted to take, send and map on the "
        "busiest rank. Then the programs: one instruction a line, with its queue, operands, the peer and generation of a "
        "transfer, and the instruction of the other queue that it comes after.",
    .opens = true,
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, explain_flags),
};
